use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::RetryPolicy;
use crate::adapter::call::error_name;
use crate::store::{Error, ErrorKind, OperationKind, Outcome, Result};

/// The attempts of one operation: how many, how long, how far apart.
#[derive(Debug)]
pub(super) struct Attempts<'a> {
    policy: &'a RetryPolicy,
    kind: OperationKind,
    deadline: Option<Instant>,
    made: u32,
    rng: fastrand::Rng,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(policy: &'a RetryPolicy, kind: OperationKind, rng: fastrand::Rng) -> Self {
        let deadline = policy.deadline.and_then(|time| Instant::now().checked_add(time));
        Self { policy, kind, deadline, made: 1, rng }
    }

    /// Runs a request within the time left for it.
    ///
    /// A write that is cut off may have been applied, a read changed nothing.
    pub(super) async fn run<T>(
        &self,
        kind: OperationKind,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        let own = self.policy.attempt_timeout.and_then(|time| start.checked_add(time));
        let Some(end) = own.into_iter().chain(self.deadline).min() else { return request.await };
        timeout_at(end, request).await.unwrap_or_else(|_| Err(cut_off(kind, end - start)))
    }

    /// Waits until another attempt is due; `false` if there is none, or no time for it.
    pub(super) async fn another(&mut self, failure: &Error) -> bool {
        if self.made >= self.policy.max_attempts {
            return false;
        }
        let delay = self.policy.delay(self.made, self.rng.f64()).max(retry_after(failure));
        let late = |deadline: Instant| Instant::now().checked_add(delay).is_none_or(|due| due >= deadline);
        if self.deadline.is_some_and(late) {
            return false;
        }
        tracing::debug!(
            operation = self.kind.name(),
            attempt = self.made,
            error = error_name(failure),
            outcome = ?failure.outcome(),
            ?delay,
            "trying again"
        );
        self.made += 1;
        tracing::Span::current().record("attempts", self.made);
        sleep(delay).await;
        true
    }
}

fn cut_off(kind: OperationKind, after: Duration) -> Error {
    let outcome = if kind.is_read() { Outcome::NotApplied } else { Outcome::Ambiguous };
    Error::new(ErrorKind::Timeout { after }).with_outcome(outcome)
}

fn retry_after(failure: &Error) -> Duration {
    match failure.root().kind() {
        ErrorKind::Throttled { retry_after } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}
