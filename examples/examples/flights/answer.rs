//! The answers to questions: their JSON, and their line for people.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use table_core::adapter::RequestCounts;

/// The result of a question: its answer and its cost.
#[derive(Debug, Serialize)]
pub(crate) struct QuestionResult {
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
    Flight {
        dest: String,
        dep_delay: Option<i32>,
    },
    /// A carrier's day: its flights and their miles.
    CarrierDay { flights: u64, distance: i64 },
    /// The latest departures, as local times.
    Latest { scheduled: Vec<String> },
    /// Flights by the name of the airline.
    Airlines(BTreeMap<String, u64>),
    /// The temperatures of a day's hours, °F.
    Weather { hours: Vec<Option<f64>> },
    /// The number of days with flights, and the busiest day with its number of flights.
    Days {
        days: u64,
        busiest: String,
        flights: u64,
    },
    /// A plane's flights, and their minutes in the air.
    Plane { flights: u64, air_time: i64 },
    /// The number of planes.
    Planes { planes: u64 },
    /// The number of flights.
    Count { flights: u64 },
    /// The raw lines of a day.
    Csv {
        day: String,
        bytes: u64,
        lines: u64,
        sha256: String,
    },
    /// The number of flights in the remaining tables.
    Remaining { remaining: u64 },
}

impl QuestionResult {
    pub(crate) fn new(
        question: &'static str,
        pattern: &'static str,
        answer: Answer,
        cost: &RequestCounts,
        time: Duration,
    ) -> Self {
        let access_path = cost
            .costliest_path()
            .map(|path| path.to_string())
            .unwrap_or_default();
        Self {
            question,
            pattern,
            access_path,
            requests: cost.total(),
            answer,
            time,
        }
    }
}

/// A line for people; the whole answer is in the JSON.
impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flight {
                dest,
                dep_delay: Some(minutes),
            } => {
                write!(f, "to {dest}, left {minutes} min late")
            }
            Self::Flight {
                dest,
                dep_delay: None,
            } => write!(f, "to {dest}, cancelled"),
            Self::CarrierDay { flights, distance } => {
                write!(f, "{flights} flights, {distance} miles")
            }
            Self::Latest { scheduled } => f.write_str(&first_and_last(scheduled)),
            Self::Airlines(counts) => f.write_str(&largest_airline(counts)),
            Self::Weather { hours } => f.write_str(&temperatures(hours)),
            Self::Days {
                days,
                busiest,
                flights,
            } => {
                write!(
                    f,
                    "{days} days, the busiest {busiest} with {flights} flights"
                )
            }
            Self::Plane { flights, air_time } => {
                write!(f, "{flights} flights, {air_time} min in the air")
            }
            Self::Planes { planes } => write!(f, "{planes} planes"),
            Self::Count { flights } => write!(f, "{flights} flights"),
            Self::Csv {
                day, bytes, lines, ..
            } => {
                write!(f, "{lines} lines of {day}, {bytes} bytes (hash: --json)")
            }
            Self::Remaining { remaining } => write!(f, "{remaining} flights left"),
        }
    }
}

fn first_and_last(times: &[String]) -> String {
    match times {
        [] => "none".to_owned(),
        [first, .., last] => format!("{first} back to {last}"),
        [only] => only.clone(),
    }
}

fn largest_airline(counts: &BTreeMap<String, u64>) -> String {
    let largest = counts.iter().max_by_key(|(_, count)| **count);
    let (name, count) = largest.map_or(("none", 0), |(name, count)| (name, *count));
    format!("{} airlines, the largest {name} with {count}", counts.len())
}

fn temperatures(hours: &[Option<f64>]) -> String {
    let missing = hours.iter().filter(|hour| hour.is_none()).count();
    match temperature_range(hours) {
        None => "no observation".to_owned(),
        Some((low, high)) => format!("{low} to {high} °F, {missing} hours missing"),
    }
}

/// Returns the lowest and the highest temperature, or `None` without an observation.
pub(crate) fn temperature_range(hours: &[Option<f64>]) -> Option<(f64, f64)> {
    let known = hours.iter().flatten().copied();
    let low = known.clone().reduce(f64::min)?;
    Some((low, known.fold(low, f64::max)))
}
