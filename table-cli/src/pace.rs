//! The load that a command puts on a store, and its end before it is done.

use std::pin::pin;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use futures_util::FutureExt as _;
use table_core::adapter::RateLimit;

use crate::failure::{Failure, Result};

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

/// Waits for Ctrl-C, and for SIGTERM of a service manager.
pub(crate) async fn stopped() {
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
