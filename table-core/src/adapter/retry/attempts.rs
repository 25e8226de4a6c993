use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::RetryPolicy;
use crate::adapter::call::error_name;
use crate::store::{Error, ErrorKind, Outcome, Result};

/// The attempts of one operation: their number, duration and delays.
#[derive(Debug)]
pub(in crate::adapter) struct Attempts<'a> {
    policy: &'a RetryPolicy,
    operation: &'static str,
    deadline: Option<Instant>,
    made: u32,
    rng: fastrand::Rng,
    /// Counts the repetitions, with the system that they are sent to.
    #[cfg(feature = "opentelemetry")]
    telemetry: Option<(&'a crate::adapter::Telemetry, &'static str)>,
}

impl<'a> Attempts<'a> {
    pub(in crate::adapter) fn new(
        policy: &'a RetryPolicy,
        operation: &'static str,
        rng: fastrand::Rng,
    ) -> Self {
        let deadline = policy.deadline.and_then(|time| Instant::now().checked_add(time));
        Self {
            policy,
            operation,
            deadline,
            made: 1,
            rng,
            #[cfg(feature = "opentelemetry")]
            telemetry: None,
        }
    }

    /// Counts the repetitions of requests to `system`.
    #[cfg(feature = "opentelemetry")]
    pub(in crate::adapter) fn counted(
        mut self,
        telemetry: &'a crate::adapter::Telemetry,
        system: &'static str,
    ) -> Self {
        self.telemetry = Some((telemetry, system));
        self
    }

    /// Runs a request within the remaining time.
    ///
    /// A write that is cut off may have been applied; a read has changed nothing.
    pub(in crate::adapter) async fn run<T>(
        &self,
        is_read: bool,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        // `checked_add`: a caller may write `Duration::MAX` for "no limit".
        let own = self.policy.attempt_timeout.and_then(|time| start.checked_add(time));
        let Some(end) = own.into_iter().chain(self.deadline).min() else { return request.await };
        timeout_at(end, request).await.unwrap_or_else(|_| Err(cut_off(is_read, end - start)))
    }

    /// Waits until the next attempt is due. Returns `false` if no attempt or no time is left.
    pub(in crate::adapter) async fn another(&mut self, failure: &Error) -> bool {
        if self.made >= self.policy.max_attempts {
            return false;
        }
        // The service knows its own load: its `Retry-After` is a lower bound, also of the longest delay of the
        // policy.
        let delay = self.policy.delay(self.made, self.rng.f64()).max(retry_after(failure));
        let late = |deadline: Instant| Instant::now().checked_add(delay).is_none_or(|due| due >= deadline);
        if self.deadline.is_some_and(late) {
            return false;
        }
        tracing::debug!(
            operation = self.operation,
            attempt = self.made,
            error = error_name(failure),
            outcome = ?failure.outcome(),
            ?delay,
            "trying again"
        );
        self.made += 1;
        tracing::Span::current().record("table.attempts", self.made);
        #[cfg(feature = "opentelemetry")]
        if let Some((telemetry, system)) = self.telemetry {
            telemetry.retried(system, self.operation);
        }
        sleep(delay).await;
        true
    }
}

fn cut_off(is_read: bool, after: Duration) -> Error {
    let outcome = if is_read { Outcome::NotApplied } else { Outcome::Ambiguous };
    Error::new(ErrorKind::Timeout { after }).with_outcome(outcome)
}

fn retry_after(failure: &Error) -> Duration {
    match failure.root().kind() {
        ErrorKind::Throttled { retry_after } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}
