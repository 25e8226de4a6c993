//! Addresses for operators: health, readiness and metrics. No account can have their names.

use std::time::Duration;

use http::StatusCode;

use crate::answer::Answer;
use crate::metrics::Metrics;
use crate::tenant::Tenants;

/// Maximum time in which a store must answer to be ready.
const READY_TIME: Duration = Duration::from_secs(5);

/// An address for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The process answers.
    Health,
    /// Every store answers.
    Ready,
    Metrics,
}

impl Probe {
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path {
            "/_health" => Some(Self::Health),
            "/_ready" => Some(Self::Ready),
            "/_metrics" => Some(Self::Metrics),
            _ => None,
        }
    }

    pub(crate) async fn answer(self, tenants: &Tenants, metrics: Option<&Metrics>) -> Answer {
        match (self, metrics) {
            (Self::Health, _) => text(StatusCode::OK, "ok\n"),
            (Self::Ready, _) => match tokio::time::timeout(READY_TIME, tenants.check()).await {
                Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
                Ok(Err(error)) => {
                    tracing::warn!(target: "table_server", %error, "a store is not ready");
                    text(StatusCode::SERVICE_UNAVAILABLE, "a store fails: the log has the reason\n")
                }
                Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "a store does not answer\n"),
            },
            (Self::Metrics, Some(metrics)) => Answer::new(StatusCode::OK)
                .with_body("text/plain; version=0.0.4; charset=utf-8", metrics.text()),
            (Self::Metrics, None) => text(StatusCode::NOT_FOUND, "metrics are not served\n"),
        }
    }
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    Answer::new(status).with_body("text/plain", body)
}
