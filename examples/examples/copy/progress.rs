//! The progress of a copy on a terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A line per table, on standard error if that is a terminal.
#[derive(Debug, Default)]
pub(crate) struct Progress(MultiProgress);

/// The line of a table, or of the blobs.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Progress {
    /// Starts a line. The total number is not known.
    pub(crate) fn begin(&self, what: &str) -> Bar {
        let style = ProgressStyle::with_template("{prefix:>12} {spinner} {human_pos:>9} {per_sec:>14} {msg}");
        let bar = self.0.add(ProgressBar::new_spinner().with_prefix(what.to_owned()));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Bar(bar.with_message("copying"))
    }
}

impl Bar {
    /// Returns a callback that counts copied items.
    pub(crate) fn counter(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let bar = self.0.clone();
        move |rows| bar.set_position(rows)
    }

    /// Shows the number of copied items, and that they are compared now.
    pub(crate) fn compares(&self, rows: u64) {
        self.0.set_position(rows);
        self.0.set_message("comparing");
    }

    pub(crate) fn finish(&self) {
        self.0.abandon_with_message("copied and compared");
    }
}
