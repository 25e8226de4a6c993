//! The progress of long commands, on standard error.

use std::io::{IsTerminal as _, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use table_core::adapter::RequestMeter;

use crate::output::remark;

/// The pause between two lines if standard error is not a terminal.
pub(crate) const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// How much of a file is read.
#[derive(Clone, Debug)]
pub(crate) struct FilePosition {
    read: Arc<AtomicU64>,
    bytes: u64,
}

impl FilePosition {
    /// A file of this size. `read` counts the bytes that are read.
    pub(crate) const fn new(read: Arc<AtomicU64>, bytes: u64) -> Self {
        Self { read, bytes }
    }

    /// The time that the unread bytes take at the rate so far; `None` before the first byte.
    fn time_left(&self, elapsed: Duration) -> Option<Duration> {
        let read = self.read.load(Ordering::Relaxed);
        let left = self.bytes.saturating_sub(read);
        (read > 0).then(|| elapsed.mul_f64(left as f64 / read as f64))
    }
}

/// Counts rows and shows their number, their rate and the requests: in place on a terminal, as lines otherwise.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    meter: RequestMeter,
    verb: &'static str,
    rows: u64,
    /// The rows of `rows` that earlier runs have done: the rate is of this run.
    resumed: u64,
    /// Rows that were read for the estimate: rows that are left out, such as index entries, included.
    read: u64,
    /// The number of rows at the end, if it is known.
    total: Option<u64>,
    /// The number of rows that will be read, if the store tells it.
    stored: Option<u64>,
    /// The file that the rows come from, whose size is known.
    file: Option<FilePosition>,
    started: Instant,
    last_line: Option<Instant>,
}

impl Progress {
    /// Starts to count. `verb` says what happens to rows, such as `exported`. `is_quiet` shows nothing.
    pub(crate) fn new(verb: &'static str, meter: RequestMeter, is_quiet: bool) -> Self {
        let has_bar = !is_quiet && stderr().is_terminal();
        let bar = if has_bar {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        let started = Instant::now();
        // From the start: a command that ends before the first pause prints no line.
        let last_line = (!is_quiet && !has_bar).then_some(started);
        Self {
            bar,
            meter,
            verb,
            rows: 0,
            resumed: 0,
            read: 0,
            total: None,
            stored: None,
            file: None,
            started,
            last_line,
        }
    }

    /// Sets the number of rows at the end.
    pub(crate) const fn with_total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the file from which the rows come: the bytes that are left give the estimate.
    pub(crate) fn with_file(mut self, file: Option<FilePosition>) -> Self {
        self.file = file;
        self
    }

    /// Sets the number of rows that will be read, which gives the estimate: see [`OpenStore::progress_of`](crate::store::OpenStore::progress_of).
    pub(crate) const fn with_stored_rows(mut self, rows: Option<u64>) -> Self {
        self.stored = rows;
        self
    }

    /// Counts rows that earlier runs have done.
    pub(crate) fn resume(&mut self, rows: u64) {
        self.rows += rows;
        self.read += rows;
        self.resumed += rows;
    }

    /// Sets the number of rows so far, the rows of earlier runs included.
    pub(crate) fn set(&mut self, rows: u64) {
        let done = rows.saturating_sub(self.rows);
        self.add(done);
    }

    /// Counts rows.
    pub(crate) fn add(&mut self, rows: u64) {
        self.add_with_read(rows, rows);
    }

    /// Counts rows, and the rows that were read to find them.
    pub(crate) fn add_with_read(&mut self, rows: u64, read: u64) {
        self.rows += rows;
        self.read += read;
        if !self.bar.is_hidden() {
            self.bar.set_message(self.text());
            self.bar.tick();
        } else if self
            .last_line
            .is_some_and(|last| last.elapsed() >= LINE_INTERVAL)
        {
            remark(&self.text());
            self.last_line = Some(Instant::now());
        }
    }

    /// Removes the progress from the terminal.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn text(&self) -> String {
        let elapsed = self.started.elapsed();
        let millis = u64::try_from(elapsed.as_millis())
            .unwrap_or(u64::MAX)
            .max(1);
        let rate = (self.rows - self.resumed).saturating_mul(1000) / millis;
        // Programs may add rows after the count. The rest is unknown then.
        let total = self.total.filter(|total| *total >= self.rows);
        let of = total
            .map(|total| format!(" of {total}"))
            .unwrap_or_default();
        let left = match (total, &self.file) {
            (Some(total), _) if rate > 0 => Some(Duration::from_secs((total - self.rows) / rate)),
            (None, Some(file)) => file.time_left(elapsed),
            (None, None) => self.time_left_of_stored(elapsed),
            _ => None,
        };
        let left = left
            .map(|left| format!(", {} left", indicatif::HumanDuration(left)))
            .unwrap_or_default();
        format!(
            "{}{of} rows {}, {rate} rows/s, {} requests{left}",
            self.rows,
            self.verb,
            self.meter.total()
        )
    }

    /// The time that the rows of the store that are left take at the rate of this run.
    fn time_left_of_stored(&self, elapsed: Duration) -> Option<Duration> {
        let left = self.stored?.checked_sub(self.read)?;
        let read = self.read - self.resumed;
        (read > 0).then(|| elapsed.mul_f64(left as f64 / read as f64))
    }
}

/// Progress that the callbacks of a job update.
#[derive(Clone, Debug)]
pub(crate) struct SharedProgress(Arc<Mutex<Progress>>);

impl SharedProgress {
    /// Lets several owners update one progress.
    pub(crate) fn new(progress: Progress) -> Self {
        Self(Arc::new(Mutex::new(progress)))
    }

    /// Sets the number of rows so far; see [`Progress::set`].
    pub(crate) fn set(&self, rows: u64) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .set(rows);
    }

    /// Sets the total, and starts the clock of the rate. The counts stay. For progress that was created before its work began.
    pub(crate) fn restart(&self, total: u64) {
        let mut progress = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        progress.total = Some(total);
        progress.started = Instant::now();
    }

    /// Counts rows that earlier runs have done; see [`Progress::resume`].
    pub(crate) fn resume(&self, rows: u64) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .resume(rows);
    }

    /// Counts rows, and the rows that were read to find them.
    pub(crate) fn add_with_read(&self, rows: u64, read: u64) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add_with_read(rows, read);
    }

    /// Returns the listener of a job whose first report is the number of rows of earlier runs.
    pub(crate) fn after_resumed(&self) -> impl Fn(u64) + Send + Sync + 'static {
        let (progress, has_begun) = (self.clone(), AtomicBool::new(false));
        move |rows| {
            if has_begun.swap(true, Ordering::Relaxed) {
                progress.set(rows);
            } else {
                progress.resume(rows);
            }
        }
    }

    /// Removes the progress from the terminal.
    pub(crate) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(progress: Progress, rows: u64) -> String {
        let mut progress = progress;
        progress.started = Instant::now()
            .checked_sub(Duration::from_secs(100))
            .unwrap();
        progress.add(rows);
        progress.text()
    }

    #[test]
    fn the_text_has_rate_requests_and_an_estimate() {
        let new = || Progress::new("imported", RequestMeter::new(), true);
        assert_eq!(
            shown(new(), 1000),
            "1000 rows imported, 10 rows/s, 0 requests"
        );
        assert_eq!(
            shown(new().with_total(3000), 1000),
            "1000 of 3000 rows imported, 10 rows/s, 0 requests, 3 minutes left"
        );
        // More rows than were announced: no estimate.
        assert_eq!(
            shown(new().with_total(500), 1000),
            "1000 rows imported, 10 rows/s, 0 requests"
        );
        let half = FilePosition::new(Arc::new(AtomicU64::new(500)), 1000);
        assert_eq!(
            shown(new().with_file(Some(half)), 1000),
            "1000 rows imported, 10 rows/s, 0 requests, 2 minutes left"
        );
        let none = FilePosition::new(Arc::default(), 1000);
        assert_eq!(
            shown(new().with_file(Some(none)), 1000),
            "1000 rows imported, 10 rows/s, 0 requests"
        );
        // A store that tells its number of rows.
        let stored = new().with_stored_rows(Some(3000));
        assert_eq!(
            shown(stored, 1000),
            "1000 rows imported, 10 rows/s, 0 requests, 3 minutes left"
        );
    }

    #[test]
    fn the_rate_after_an_interruption_is_of_this_run() {
        let resumed = |progress: Progress| {
            let mut progress = progress;
            progress.resume(5000);
            progress
        };
        let new = || resumed(Progress::new("copied", RequestMeter::new(), true));
        let text = "6000 rows copied, 10 rows/s, 0 requests";
        assert_eq!(shown(new(), 1000), text);
        assert_eq!(
            shown(new().with_stored_rows(Some(8000)), 1000),
            format!("{text}, 3 minutes left")
        );
        let of = "6000 of 8000 rows copied, 10 rows/s, 0 requests, 3 minutes left";
        assert_eq!(shown(new().with_total(8000), 1000), of);
        let listened = SharedProgress::new(Progress::new("copied", RequestMeter::new(), true));
        let report = listened.after_resumed();
        report(5000);
        report(6000);
        let progress = listened.0.lock().unwrap();
        assert_eq!((progress.rows, progress.resumed), (6000, 5000));
    }
}
