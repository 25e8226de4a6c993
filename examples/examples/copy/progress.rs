//! The progress of a copy on a terminal.

use examples::progress::spinner;
use indicatif::{MultiProgress, ProgressBar};

/// A line per table, on standard error if that is a terminal.
#[derive(Debug, Default)]
pub(crate) struct Progress(MultiProgress);

/// The line of a table, or of the blobs.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Progress {
    /// Starts a line. The total number is not known.
    pub(crate) fn begin(&self, name: &str) -> Bar {
        let bar = self.0.add(spinner(name));
        Bar(bar.with_message("copying"))
    }
}

impl Bar {
    /// Returns a callback that counts copied items.
    pub(crate) fn counter(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let bar = self.0.clone();
        move |rows| bar.set_position(rows)
    }

    /// Shows the number of copied items, and that the comparison has started.
    pub(crate) fn start_comparison(&self, rows: u64) {
        self.0.set_position(rows);
        self.0.set_message("comparing");
    }

    pub(crate) fn finish(&self) {
        self.0.abandon_with_message("copied and compared");
    }
}
