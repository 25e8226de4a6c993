use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use table_core::adapter::RequestCounts;

/// A question, its answer, and what the answer cost.
#[derive(Debug, Serialize)]
pub(crate) struct Answered {
    pub(crate) question: &'static str,
    pub(crate) pattern: &'static str,
    /// The costliest of the requests.
    pub(crate) access_path: String,
    pub(crate) requests: u64,
    pub(crate) answer: Answer,
    #[serde(skip)]
    pub(crate) time: Duration,
}

/// The answers, in their shape in JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// One flight: where it went, and the minutes it left late.
    Flight { dest: String, dep_delay: Option<i32> },
    /// A carrier's day: its flights and their miles.
    CarrierDay { flights: u64, distance: i64 },
    /// The latest departures, as local times.
    Latest { scheduled: Vec<String> },
    /// Flights by the name of the airline.
    Airlines(BTreeMap<String, u64>),
    /// The temperatures of a day's hours, °C.
    Weather { hours: [Option<f64>; 24] },
    /// How many flights there are.
    Count { flights: u64 },
}

impl Answered {
    pub(crate) fn new(
        question: &'static str,
        pattern: &'static str,
        answer: Answer,
        cost: &RequestCounts,
        time: Duration,
    ) -> Self {
        let access_path = cost.costliest_path().map(|path| path.to_string()).unwrap_or_default();
        Self { question, pattern, access_path, requests: cost.total(), answer, time }
    }
}
