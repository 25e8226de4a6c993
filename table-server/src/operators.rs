//! Addresses for operators: health, readiness and metrics. No account can have their names.
//!
//! The metrics count requests and connections, in the text format of Prometheus
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;

use crate::answer::Answer;
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
            (Self::Ready, _) => {
                match tokio::time::timeout(READY_TIME, tenants.check_stores()).await {
                    Ok(Ok(())) => text(StatusCode::OK, "ready\n"),
                    Ok(Err(error)) => {
                        tracing::warn!(target: "table_server", %error, "a store is not ready");
                        text(
                            StatusCode::SERVICE_UNAVAILABLE,
                            "a store fails: the log has the reason\n",
                        )
                    }
                    Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "a store does not answer\n"),
                }
            }
            (Self::Metrics, Some(metrics)) => Answer::new(StatusCode::OK)
                .with_body("text/plain; version=0.0.4; charset=utf-8", metrics.text()),
            (Self::Metrics, None) => text(StatusCode::NOT_FOUND, "metrics are not served\n"),
        }
    }
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    Answer::new(status).with_body("text/plain", body)
}

/// The upper ends of the histogram's buckets, as written and in microseconds.
const BUCKETS: [(&str, u64); 13] = [
    ("0.0005", 500),
    ("0.001", 1_000),
    ("0.0025", 2_500),
    ("0.005", 5_000),
    ("0.01", 10_000),
    ("0.025", 25_000),
    ("0.05", 50_000),
    ("0.1", 100_000),
    ("0.25", 250_000),
    ("0.5", 500_000),
    ("1", 1_000_000),
    ("2.5", 2_500_000),
    ("10", 10_000_000),
];

/// The counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    operations: Mutex<BTreeMap<&'static str, Counts>>,
    in_flight: AtomicU64,
    connections: AtomicU64,
    accepted: AtomicU64,
}

/// The counts of one operation.
#[derive(Debug, Default)]
struct Counts {
    statuses: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    total: u64,
    time: Duration,
    received: u64,
    sent: u64,
}

/// A finished request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finished {
    /// The name of the operation, as in the service's logs.
    pub(crate) operation: &'static str,
    pub(crate) status: u16,
    pub(crate) time: Duration,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Counts a request or a connection until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted<'a>(&'a AtomicU64);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// Counts a request in progress.
    pub(crate) fn request(&self) -> Counted<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Counted(&self.in_flight)
    }

    /// Counts an open connection.
    pub(crate) fn connection(&self) -> Counted<'_> {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Relaxed);
        Counted(&self.connections)
    }

    /// Adds a finished request.
    pub(crate) fn add(&self, finished: Finished) {
        let mut operations = self.lock();
        let counts = operations.entry(finished.operation).or_default();
        *counts.statuses.entry(finished.status).or_default() += 1;
        let micros = finished.time.as_micros();
        let bucket = BUCKETS
            .iter()
            .position(|(_, end)| micros <= u128::from(*end));
        // A time above the last end is only in the bucket `+Inf`, which is the total.
        if let Some(bucket) = bucket {
            counts.buckets[bucket] += 1;
        }
        counts.total += 1;
        counts.time += finished.time;
        counts.received += finished.received;
        counts.sent += finished.sent;
    }

    /// Returns all counts as text. The labels are names of operations and statuses: no account, table or key.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let gauges = [
            (
                "connections",
                "gauge",
                "Open connections.",
                &self.connections,
            ),
            (
                "connections_total",
                "counter",
                "Accepted connections.",
                &self.accepted,
            ),
            (
                "requests_in_flight",
                "gauge",
                "Requests without an answer.",
                &self.in_flight,
            ),
        ];
        for (name, kind, help, value) in gauges {
            head(&mut out, name, kind, help);
            let _ = writeln!(out, "table_server_{name} {}", value.load(Ordering::Relaxed));
        }
        let operations = self.lock();
        head(&mut out, "requests_total", "counter", "Answered requests.");
        for (operation, counts) in operations.iter() {
            for (status, count) in &counts.statuses {
                let labels = format!("operation=\"{operation}\",status=\"{status}\"");
                let _ = writeln!(out, "table_server_requests_total{{{labels}}} {count}");
            }
        }
        let mut bytes = |name: &str, help, value: fn(&Counts) -> u64| {
            head(&mut out, name, "counter", help);
            for (operation, counts) in operations.iter() {
                let _ = writeln!(
                    out,
                    "table_server_{name}{{operation=\"{operation}\"}} {}",
                    value(counts)
                );
            }
        };
        bytes(
            "received_bytes_total",
            "Bytes of request bodies.",
            |counts| counts.received,
        );
        bytes("sent_bytes_total", "Bytes of response bodies.", |counts| {
            counts.sent
        });
        head(
            &mut out,
            "request_seconds",
            "histogram",
            "Time from the head of a request to its answer.",
        );
        for (operation, counts) in operations.iter() {
            counts.histogram(&mut out, operation);
        }
        out
    }

    // The counts are consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Counts>> {
        self.operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn histogram(&self, out: &mut String, operation: &str) {
        let (name, mut sum) = ("table_server_request_seconds", 0);
        for ((end, _), count) in BUCKETS.iter().zip(self.buckets) {
            // The buckets of Prometheus are cumulative: each counts all times up to its end.
            sum += count;
            let _ = writeln!(
                out,
                "{name}_bucket{{operation=\"{operation}\",le=\"{end}\"}} {sum}"
            );
        }
        let _ = writeln!(
            out,
            "{name}_bucket{{operation=\"{operation}\",le=\"+Inf\"}} {}",
            self.total
        );
        let _ = writeln!(
            out,
            "{name}_sum{{operation=\"{operation}\"}} {}",
            self.time.as_secs_f64()
        );
        let _ = writeln!(
            out,
            "{name}_count{{operation=\"{operation}\"}} {}",
            self.total
        );
    }
}

/// Writes the two comment lines before the values of a metric.
fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(
        out,
        "# HELP table_server_{name} {help}\n# TYPE table_server_{name} {kind}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_by_operation_and_status() {
        let metrics = Metrics::default();
        let finished = |operation, status, micros| Finished {
            operation,
            status,
            time: Duration::from_micros(micros),
            received: 10,
            sent: 100,
        };
        metrics.add(finished("InsertEntity", 204, 500));
        metrics.add(finished("InsertEntity", 409, 700));
        metrics.add(finished("InsertEntity", 204, 20_000_000));
        let open = metrics.connection();
        drop(metrics.connection());
        drop(metrics.request());
        let text = metrics.text();
        for line in [
            "table_server_connections 1",
            "table_server_connections_total 2",
            "table_server_requests_in_flight 0",
            "# TYPE table_server_requests_total counter",
            "table_server_requests_total{operation=\"InsertEntity\",status=\"204\"} 2",
            "table_server_requests_total{operation=\"InsertEntity\",status=\"409\"} 1",
            "table_server_received_bytes_total{operation=\"InsertEntity\"} 30",
            "table_server_sent_bytes_total{operation=\"InsertEntity\"} 300",
            "table_server_request_seconds_bucket{operation=\"InsertEntity\",le=\"0.0005\"} 1",
            "table_server_request_seconds_bucket{operation=\"InsertEntity\",le=\"0.001\"} 2",
            "table_server_request_seconds_bucket{operation=\"InsertEntity\",le=\"10\"} 2",
            "table_server_request_seconds_bucket{operation=\"InsertEntity\",le=\"+Inf\"} 3",
            "table_server_request_seconds_sum{operation=\"InsertEntity\"} 20.0012",
            "table_server_request_seconds_count{operation=\"InsertEntity\"} 3",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is not in\n{text}"
            );
        }
        drop(open);
        assert!(metrics.text().contains("table_server_connections 0\n"));
    }
}
