//! The progress of long commands, on standard error.

use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use table_core::adapter::RequestMeter;

use crate::output::remark;

/// The pause between two lines if standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// Counts rows and shows their number, their rate and the requests: in place on a terminal, as lines otherwise.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    meter: RequestMeter,
    verb: &'static str,
    rows: u64,
    /// The number of rows at the end, if it is known.
    total: Option<u64>,
    started: Instant,
    last_line: Option<Instant>,
}

impl Progress {
    /// Starts to count. `verb` says what happens to rows, such as `exported`. `is_quiet` shows nothing.
    pub(crate) fn new(verb: &'static str, meter: RequestMeter, is_quiet: bool) -> Self {
        let has_bar = !is_quiet && stderr().is_terminal();
        let bar = if has_bar { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        let started = Instant::now();
        // From the start: a command that ends before the first pause prints no line.
        let last_line = (!is_quiet && !has_bar).then_some(started);
        Self { bar, meter, verb, rows: 0, total: None, started, last_line }
    }

    /// Sets the number of rows at the end.
    pub(crate) const fn of(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the number of rows so far, the rows of earlier runs included.
    pub(crate) fn set(&mut self, rows: u64) {
        let done = rows.saturating_sub(self.rows);
        self.add(done);
    }

    /// Counts rows.
    pub(crate) fn add(&mut self, rows: u64) {
        self.rows += rows;
        if !self.bar.is_hidden() {
            self.bar.set_message(self.text());
            self.bar.tick();
        } else if self.last_line.is_some_and(|last| last.elapsed() >= PAUSE) {
            remark(&self.text());
            self.last_line = Some(Instant::now());
        }
    }

    /// Removes the progress from the terminal.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn text(&self) -> String {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = self.rows.saturating_mul(1000) / millis;
        // Programs may add rows after the count. The rest is unknown then.
        let total = self.total.filter(|total| *total >= self.rows);
        let (of, left) = match total {
            Some(total) if rate > 0 => {
                let left = Duration::from_secs((total - self.rows) / rate);
                (format!(" of {total}"), format!(", {} left", indicatif::HumanDuration(left)))
            }
            Some(total) => (format!(" of {total}"), String::new()),
            None => Default::default(),
        };
        format!("{}{of} rows {}, {rate} rows/s, {} requests{left}", self.rows, self.verb, self.meter.total())
    }
}
