//! The load that a command puts on a store, and its end before it is done.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::Args;
use clap::builder::RangedU64ValueParser;
use futures_util::FutureExt as _;
use table_core::adapter::RateLimit;

use crate::failure::{Failure, Result};
use crate::output::remark;

/// The bound of requests per second.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Pace {
    /// At most this many requests per second to each store; fewer while the store answers that it is busy
    #[arg(long, value_name = "N", global = true, value_parser = clap::value_parser!(u32).range(1..))]
    max_requests_per_second: Option<u32>,
}

impl Pace {
    /// Returns the limit of a store.
    pub(crate) fn limit(self) -> Option<RateLimit> {
        self.max_requests_per_second.map(RateLimit::per_second)
    }
}

/// The options of every command that may take long.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LongArgs {
    #[command(flatten)]
    pub(crate) pace: Pace,
    /// Print a report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Show no progress and no summary
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// The requests that a command has in flight.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct InFlight {
    /// Requests in flight
    #[arg(long, value_name = "N", default_value_t = 16, global = true, value_parser = at_least_one())]
    pub(crate) concurrency: usize,
}

/// The parser of a number of things at once.
pub(crate) fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

/// Runs work until it is done, or until Ctrl-C or SIGTERM. `resume` says what a person does after that.
pub(crate) async fn until_stopped<T>(
    work: impl Future<Output = Result<T>>,
    resume: &'static str,
) -> Result<T> {
    // Dropping the work cancels it, at whichever `await` it is. Rows that are written stay. The next run goes on from a position that
    // was saved, or does the work again with the same result: `resume` says how.
    let interrupted = || Err(Failure::failed(format!("interrupted: {resume}")));
    let mut stopped = pin!(stopped());
    // Before the work begins: until this call, a signal would end the process without a word.
    if stopped.as_mut().now_or_never().is_some() {
        return interrupted();
    }
    tokio::select! {
        biased;
        done = work => done,
        () = stopped => interrupted(),
    }
}

/// The number of tasks that wait for the end of the command.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);
/// Whether a command has seen the signal, and ends by itself.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A task that waits for the end of the command, while this value exists.
struct Listener;

impl Listener {
    fn new() -> Self {
        LISTENERS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        LISTENERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Ends the process at Ctrl-C or SIGTERM while no command waits for them: while a store is opened, while a person is asked, and in commands
/// that change nothing. Nothing is in progress then that a person must know of.
pub(crate) async fn end_if_stopped() -> ! {
    loop {
        signal().await;
        if LISTENERS.load(Ordering::SeqCst) == 0 && !IS_ENDING.load(Ordering::SeqCst) {
            let failure = Failure::failed("interrupted: run the same command again");
            remark(&format!("error: {failure}"));
            std::process::exit(1);
        }
    }
}

/// Waits for Ctrl-C, and for SIGTERM of a service manager.
pub(crate) async fn stopped() {
    let _listener = Listener::new();
    signal().await;
    // Before the listener is dropped: `end_if_stopped` sees the same signal.
    IS_ENDING.store(true, Ordering::SeqCst);
}

async fn signal() {
    #[cfg(unix)]
    // From the first call on, the runtime handles these signals instead of the system: they no longer end the process by themselves, so
    // every command that calls this must end when it returns.
    if let Ok(mut terminated) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}
