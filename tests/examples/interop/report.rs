use std::io::{self, Write};

use crate::Failure;
use crate::client::Check;

/// The maximum length of a failure message, in characters.
const LONGEST: usize = 300;

/// Prints the results of all checks, and counts them.
#[derive(Default)]
pub(crate) struct Report {
    checks: usize,
    failed: usize,
}

impl Report {
    /// Adds and prints the checks of a part. A part that ends with an error, or that has no checks, is a failed check.
    pub(crate) fn add(
        &mut self,
        client: &'static str,
        part: &'static str,
        checks: Result<Vec<Check>, Failure>,
    ) -> io::Result<()> {
        let failed = |problem: String| vec![Check::of("runs to its end", &[problem])];
        let checks = match checks {
            Ok(checks) if checks.is_empty() => failed("it has no checks".to_owned()),
            Ok(checks) => checks,
            Err(error) => failed(error.to_string()),
        };
        let mut out = io::stdout().lock();
        for Check { check, problem } in checks {
            self.checks += 1;
            self.failed += usize::from(problem.is_some());
            let outcome: String = match problem {
                None => "passed".to_owned(),
                Some(problem) => format!("FAILED: {problem}").chars().take(LONGEST).collect(),
            };
            writeln!(out, "{client:<13} {part:<30} {check:<35} {outcome}")?;
        }
        out.flush()
    }

    /// Whether every check passed.
    pub(crate) fn passed(&self) -> bool {
        self.checks > 0 && self.failed == 0
    }

    /// Prints the number of checks and of failed checks.
    pub(crate) fn print_summary(&self) -> io::Result<()> {
        writeln!(
            io::stdout(),
            "\n{} checks, {} failed",
            self.checks,
            self.failed
        )
    }
}
