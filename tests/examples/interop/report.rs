use std::io::{self, Write};

use crate::client::Check;

/// Characters of what is said of a failure.
const LONGEST: usize = 300;

/// Every check's outcome.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<(&'static str, &'static str, Check)>,
}

impl Report {
    /// Adds what a client did.
    pub(crate) fn add(&mut self, client: &'static str, part: &'static str, checks: Vec<Check>) {
        self.lines.extend(checks.into_iter().map(|check| (client, part, check)));
    }

    /// Whether no check failed.
    pub(crate) fn passed(&self) -> bool {
        !self.lines.is_empty() && self.failed() == 0
    }

    fn failed(&self) -> usize {
        self.lines.iter().filter(|(_, _, c)| c.problem.is_some()).count()
    }

    /// A line for each check, and how many failed.
    pub(crate) fn print(&self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        for (client, part, Check { check, problem }) in &self.lines {
            let outcome: String = problem.as_deref().unwrap_or("passed").chars().take(LONGEST).collect();
            writeln!(out, "{client:<7} {part:<22} {check:<40} {outcome}")?;
        }
        writeln!(out, "\n{} checks, {} failed", self.lines.len(), self.failed())
    }
}
