//! The answers to questions: their JSON, and their line for people.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use table_core::adapter::RequestCounts;

/// A question, its answer, and its cost.
#[derive(Debug, Serialize)]
pub(crate) struct Answered {
    pub(crate) question: &'static str,
    pub(crate) pattern: &'static str,
    /// The most expensive access path of the requests.
    pub(crate) access_path: String,
    pub(crate) requests: u64,
    pub(crate) answer: Answer,
    #[serde(skip)]
    pub(crate) time: Duration,
}

/// The answers, in the form of the JSON output.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    /// One flight: its destination and its departure delay in minutes.
    Flight { dest: String, dep_delay: Option<i32> },
    /// A carrier's day: its flights and their miles.
    CarrierDay { flights: u64, distance: i64 },
    /// The latest departures, as local times.
    Latest { scheduled: Vec<String> },
    /// Flights by the name of the airline.
    Airlines(BTreeMap<String, u64>),
    /// The temperatures of a day's hours, °F.
    Weather { hours: Vec<Option<f64>> },
    /// The days of a year with flights, and the busiest.
    Days { days: u64, busiest: String, flights: u64 },
    /// A plane's flights, and their minutes in the air.
    Plane { flights: u64, air_time: i64 },
    /// How many planes there are.
    Planes { planes: u64 },
    /// How many flights there are.
    Count { flights: u64 },
    /// The raw lines of a day.
    Csv { day: String, bytes: u64, lines: u64, sha256: String },
    /// How many flights are left.
    Left { remaining: u64 },
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

/// A line for people; the whole answer is in the JSON.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flight { dest, dep_delay: Some(minutes) } => {
                write!(f, "to {dest}, left {minutes} min late")
            }
            Self::Flight { dest, dep_delay: None } => write!(f, "to {dest}, cancelled"),
            Self::CarrierDay { flights, distance } => write!(f, "{flights} flights, {distance} miles"),
            Self::Latest { scheduled } => f.write_str(&ends(scheduled)),
            Self::Airlines(counts) => f.write_str(&largest(counts)),
            Self::Weather { hours } => f.write_str(&extent(hours)),
            Self::Days { days, busiest, flights } => {
                write!(f, "{days} days, the busiest {busiest} with {flights} flights")
            }
            Self::Plane { flights, air_time } => write!(f, "{flights} flights, {air_time} min in the air"),
            Self::Planes { planes } => write!(f, "{planes} planes"),
            Self::Count { flights } => write!(f, "{flights} flights"),
            Self::Csv { day, bytes, lines, .. } => write!(f, "{lines} lines of {day}, {bytes} bytes"),
            Self::Left { remaining } => write!(f, "{remaining} flights left"),
        }
    }
}

fn ends(times: &[String]) -> String {
    match times {
        [] => "none".to_owned(),
        [first, .., last] => format!("{first} back to {last}"),
        [only] => only.clone(),
    }
}

fn largest(counts: &BTreeMap<String, u64>) -> String {
    let largest = counts.iter().max_by_key(|(_, count)| **count);
    let (name, count) = largest.map_or(("none", 0), |(name, count)| (name, *count));
    format!("{} airlines, the largest {name} with {count}", counts.len())
}

fn extent(hours: &[Option<f64>]) -> String {
    let known = hours.iter().flatten().copied();
    let (low, high) =
        (known.clone().fold(f64::INFINITY, f64::min), known.clone().fold(f64::NEG_INFINITY, f64::max));
    match hours.len() - known.count() {
        missing if missing == hours.len() => "no observation".to_owned(),
        missing => format!("{low} to {high} °F, {missing} hours missing"),
    }
}
