//! The stored types and their keys.

use chrono::{NaiveDate, NaiveDateTime};
use table_patterns::prelude::*;
use table_patterns::series::SlotSet;

/// The table of [`Flight`]s, [`Plane`]s and [`Airline`]s. Each type has its own partitions and indexes.
pub(crate) const FLIGHTS: &str = "Flights";
/// The table of [`Departure`]s.
pub(crate) const DEPARTURES: &str = "Departures";
/// The table of [`WeatherDay`]s.
pub(crate) const WEATHER: &str = "Weather";
/// The table of the [`Import`].
pub(crate) const IMPORTS: &str = "Imports";
/// The table of the departures per day of a year, with a wide entity per airport.
pub(crate) const YEARS: &str = "Years";
/// The family of tables with one month's [`MonthFlight`]s each.
pub(crate) const MONTHS: &str = "Months";

/// The table of entries that find a [`Flight`] by its plane.
pub(crate) const FLIGHTS_BY_TAIL: &str = "FlightsByTail";
/// The table of entries that find a [`Flight`] by its delay.
pub(crate) const FLIGHTS_BY_DELAY: &str = "FlightsByDelay";

/// A flight, in its carrier's partition, ordered by day. One flight is a point query; a carrier's day is a
/// row range.
///
/// Two indexes in other tables: `tail_number` (by plane; an entry also has the minutes in the air) and `delay` (by airport and arrival
/// delay; the answer needs only the entry's key). The summary `count` has the number of a carrier's flights.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Flight",
    rename_all = "PascalCase",
    partition_key = "{carrier}",
    row_key = "{date}_{number:04}_{origin}"
)]
#[index(count, row_key = "count", shape = summary)]
#[index(
    tail_number,
    table = "FlightsByTail",
    partition_key = "{tail_number}",
    row_key = "{date}_{carrier}_{number:04}_{origin}",
    payload = fields(air_time)
)]
#[index(
    delay,
    table = "FlightsByDelay",
    partition_key = "{origin}",
    row_key = "{arr_delay}_{date}_{carrier}_{number:04}"
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

/// The distance of a flight.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight, rename_all = "PascalCase")]
pub(crate) struct FlightDistance {
    pub(crate) distance: i32,
}

/// The minutes in the air of a flight, which its entry by plane contains.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight, rename_all = "PascalCase")]
pub(crate) struct FlightTime {
    pub(crate) air_time: Option<i32>,
}

/// The origin of a flight; only a part of its key.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight)]
pub(crate) struct FlightOrigin {
    #[row_key]
    pub(crate) origin: String,
}

/// The day of a flight; only a part of its key.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Flight)]
pub(crate) struct FlightDay {
    #[row_key]
    pub(crate) date: NaiveDate,
}

/// A flight in its airport's log. In a log tail, the latest departures come first.
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

/// A flight in the table of its month, so that a month is deleted by dropping one table.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "MonthFlight",
    rename_all = "PascalCase",
    partition_key = "{carrier}",
    row_key = "{date}_{number:04}_{origin}"
)]
pub(crate) struct MonthFlight {
    pub(crate) carrier: String,
    pub(crate) date: NaiveDate,
    pub(crate) number: u32,
    pub(crate) origin: String,
    pub(crate) dest: String,
}

/// The temperatures of a day at an airport in one entity: a data series with a property per hour.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "WeatherDay", rename_all = "PascalCase")]
pub(crate) struct WeatherDay {
    #[partition_key]
    pub(crate) airport: String,
    #[row_key]
    pub(crate) date: NaiveDate,
    /// °F by [`ClockHours`]; an hour without an observation has no property.
    #[entity(rest)]
    pub(crate) hours: Properties,
}

/// An airline's code; only its key.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Airline)]
pub(crate) struct Carrier {
    #[row_key]
    pub(crate) carrier: String,
}

/// An airline's name.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Airline",
    rename_all = "PascalCase",
    partition_key = "airline",
    row_key = "{carrier}"
)]
pub(crate) struct Airline {
    pub(crate) carrier: String,
    pub(crate) name: String,
}

/// Describes the loaded data, so that nothing is loaded twice and an interrupted load is detected.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Import",
    rename_all = "PascalCase",
    partition_key = "import",
    row_key = "{name}"
)]
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) fingerprint: String,
    pub(crate) complete: bool,
    pub(crate) entities: u64,
}

/// A plane, as registered. An index by manufacturer and seats is in other partitions of the table.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Plane",
    rename_all = "PascalCase",
    partition_key = "plane",
    row_key = "{tail_number}"
)]
#[index(
    manufacturer,
    partition_key = "manufacturer_{manufacturer}",
    row_key = "{seats}_{tail_number}"
)]
pub(crate) struct Plane {
    pub(crate) tail_number: String,
    pub(crate) manufacturer: String,
    pub(crate) model: String,
    pub(crate) year: Option<i32>,
    pub(crate) seats: i32,
    pub(crate) engines: i32,
}

/// The local hours of a day. On the day when the clocks go back one hour occurs twice; its second observation has the slot `H01Again`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockHours;

impl SlotSet for ClockHours {
    /// The hour, and whether it is the second of that name on the day.
    type Slot = (usize, bool);

    fn count(&self) -> usize {
        48
    }

    fn index(&self, (hour, again): &(usize, bool)) -> Option<usize> {
        (*hour < 24).then_some(hour + if *again { 24 } else { 0 })
    }

    fn slot(&self, index: usize) -> (usize, bool) {
        (index % 24, index >= 24)
    }

    fn name(&self, index: usize) -> String {
        let (hour, again) = self.slot(index);
        format!("H{hour:02}{}", if again { "Again" } else { "" })
    }
}

impl MonthFlight {
    /// The day's midnight, which determines its month.
    pub(crate) fn day(&self) -> Ticks {
        Ticks::from(NaiveDateTime::from(self.date))
    }
}
