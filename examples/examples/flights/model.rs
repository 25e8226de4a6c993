//! What is stored, and under which keys.

use chrono::{NaiveDate, NaiveDateTime};
use table_core::model::{Properties, ValueRef};
use table_core::prelude::*;

/// The table of [`Flight`]s.
pub(crate) const FLIGHTS: &str = "Flights";
/// The table of [`Departure`]s.
pub(crate) const DEPARTURES: &str = "Departures";
/// The table of [`WeatherDay`]s.
pub(crate) const WEATHER: &str = "Weather";
/// The table of the [`Import`].
pub(crate) const IMPORTS: &str = "Imports";
/// The table of [`Airline`]s and [`Plane`]s.
pub(crate) const REFERENCE: &str = "Reference";

/// A flight, with its carrier's others, by day: one flight is a point query, a carrier's day a row range.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Flight",
    rename_all = "PascalCase",
    partition_key = "{carrier}",
    row_key = "{date}_{number:04}_{origin}"
)]
pub(crate) struct Flight {
    pub(crate) carrier: String,
    pub(crate) date: NaiveDate,
    pub(crate) number: u32,
    pub(crate) origin: String,
    pub(crate) dest: String,
    pub(crate) tail_number: Option<String>,
    /// Minutes; absent if the flight was cancelled.
    pub(crate) dep_delay: Option<i32>,
    /// Minutes; absent if the flight was cancelled or diverted.
    pub(crate) arr_delay: Option<i32>,
    /// Minutes; absent if the flight was cancelled or diverted.
    pub(crate) air_time: Option<i32>,
    /// Miles.
    pub(crate) distance: i32,
}

/// How far a flight goes.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight, rename_all = "PascalCase")]
pub(crate) struct FlightDistance {
    pub(crate) distance: i32,
}

/// Where a flight leaves: nothing but a part of its key.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight)]
pub(crate) struct FlightOrigin {
    #[row_key]
    pub(crate) origin: String,
}

/// When a flight leaves: nothing but a part of its key.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight)]
pub(crate) struct FlightDay {
    #[row_key]
    pub(crate) date: NaiveDate,
}

/// A flight in its airport's log: the tail of the log, the latest departures, comes first.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Departure",
    rename_all = "PascalCase",
    partition_key = "{origin}",
    row_key = "{scheduled}_{carrier}_{number:04}"
)]
pub(crate) struct Departure {
    pub(crate) origin: String,
    /// Local time.
    pub(crate) scheduled: Reverse<NaiveDateTime>,
    pub(crate) carrier: String,
    pub(crate) number: u32,
    pub(crate) dest: String,
}

/// The temperatures of a day at an airport in one entity: a property per hour.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "WeatherDay", rename_all = "PascalCase")]
pub(crate) struct WeatherDay {
    #[partition_key]
    pub(crate) airport: String,
    #[row_key]
    pub(crate) date: NaiveDate,
    /// °F in `H00` to `H23`, local time; an hour without an observation has no property. The hour that
    /// comes twice when the clocks go back is there twice, as `H01` and `H01Again`.
    #[entity(rest)]
    pub(crate) hours: Properties,
}

/// An airline's name.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Airline", rename_all = "PascalCase", partition_key = "airline", row_key = "{carrier}")]
pub(crate) struct Airline {
    pub(crate) carrier: String,
    pub(crate) name: String,
}

/// What was loaded, so that nothing is loaded twice and a load that was interrupted is noticed.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Import", rename_all = "PascalCase", partition_key = "import", row_key = "{name}")]
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) fingerprint: String,
    pub(crate) complete: bool,
    pub(crate) entities: u64,
}

/// A plane, as registered.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Plane", rename_all = "PascalCase", partition_key = "plane", row_key = "{tail_number}")]
pub(crate) struct Plane {
    pub(crate) tail_number: String,
    pub(crate) manufacturer: String,
    pub(crate) model: String,
    pub(crate) year: Option<i32>,
    pub(crate) seats: i32,
    pub(crate) engines: i32,
}

impl WeatherDay {
    /// The property of an hour.
    pub(crate) fn hour_name(hour: usize) -> String {
        format!("H{hour:02}")
    }

    /// The property of an hour that the clocks, going back, came to a second time.
    pub(crate) fn repeated_hour_name(hour: usize) -> String {
        format!("H{hour:02}Again")
    }

    /// The temperatures of the day's 24 hours; of a repeated hour, the first.
    pub(crate) fn temperatures(&self) -> [Option<f64>; 24] {
        std::array::from_fn(|hour| match self.hours.get(&Self::hour_name(hour)) {
            Some(ValueRef::Double(fahrenheit)) => Some(fahrenheit),
            _ => None,
        })
    }
}
