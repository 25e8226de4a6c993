use std::io::{self, Write};

use crate::client::Check;

/// The maximum length of a failure message, in characters.
const LONGEST: usize = 300;

/// The results of all checks.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<(&'static str, &'static str, Check)>,
}

impl Report {
    /// Adds the checks of a client.
    pub(crate) fn add(&mut self, client: &'static str, part: &'static str, checks: Vec<Check>) {
        self.lines.extend(checks.into_iter().map(|check| (client, part, check)));
    }

    /// Whether every check passed.
    pub(crate) fn passed(&self) -> bool {
        !self.lines.is_empty() && self.failed() == 0
    }

    fn failed(&self) -> usize {
        self.lines.iter().filter(|(_, _, c)| c.problem.is_some()).count()
    }

    /// Prints a line for each check, and the number of failed checks.
    pub(crate) fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (client, part, Check { check, problem }) in &self.lines {
            let outcome: String = problem.as_deref().unwrap_or("passed").chars().take(LONGEST).collect();
            writeln!(out, "{client:<7} {part:<22} {check:<40} {outcome}")?;
        }
        writeln!(out, "\n{} checks, {} failed", self.lines.len(), self.failed())
    }
}
