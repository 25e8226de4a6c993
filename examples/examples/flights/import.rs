//! Converts CSV rows to entities.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{Datelike, NaiveDate};
use examples::Result;
use examples::data::{DataFile, DataSet};
use examples::row::Row;
use table_core::model::{Entity, Properties, Reverse, TableName};
use table_core::typed::TableEntity;
use table_patterns::series::SlotSet;

use crate::model::{
    Airline, ClockHours, DEPARTURES, Departure, Flight, MonthFlight, Plane, WEATHER, WeatherDay,
};
use crate::months::Months;

/// Entities of one table.
pub(crate) type Entities<'a> = Box<dyn Iterator<Item = Result<Entity>> + 'a>;
/// Returns the entities without indexes, with their tables.
pub(crate) fn entities_without_indexes(
    data: &DataSet,
    months: &Months,
) -> Result<impl Iterator<Item = Result<(TableName, Entity)>>> {
    let weather = weather_days(&data.weather)?
        .into_iter()
        .map(|day| of_table(WEATHER, &day));
    let departures = data
        .flights
        .rows()?
        .map(|row| of_table(DEPARTURES, &departure(&row?)?));
    let of_month = data.flights.rows()?.map(|row| {
        let flight = month_flight(&row?)?;
        Ok((months.table_name(flight.day())?, flight.to_entity()?))
    });
    Ok(weather.chain(departures).chain(of_month))
}

/// Returns the airlines and planes.
pub(crate) fn airlines_and_planes(data: &DataSet) -> Result<Entities<'_>> {
    let airlines = data
        .airlines
        .rows()?
        .map(|row| Ok(airline(&row?)?.to_entity()?));
    let planes = data
        .planes
        .rows()?
        .map(|row| Ok(plane(&row?)?.to_entity()?));
    Ok(Box::new(airlines.chain(planes)))
}

/// Returns the flights.
pub(crate) fn flights(data: &DataSet) -> Result<Entities<'_>> {
    Ok(Box::new(
        data.flights
            .rows()?
            .map(|row| Ok(flight(&row?)?.to_entity()?)),
    ))
}

fn of_table(table: &str, entity: &impl TableEntity) -> Result<(TableName, Entity)> {
    Ok((TableName::new(table)?, entity.to_entity()?))
}

fn airline(row: &Row) -> Result<Airline> {
    Ok(Airline {
        carrier: row.required("carrier")?,
        name: row.required("name")?,
    })
}

fn plane(row: &Row) -> Result<Plane> {
    Ok(Plane {
        tail_number: row.required("tailnum")?,
        manufacturer: row.required("manufacturer")?,
        model: row.required("model")?,
        year: row.optional("year")?,
        seats: row.required("seats")?,
        engines: row.required("engines")?,
    })
}

fn flight(row: &Row) -> Result<Flight> {
    Ok(Flight {
        carrier: row.required("carrier")?,
        date: row.date()?,
        number: row.required("flight")?,
        origin: row.required("origin")?,
        dest: row.required("dest")?,
        tail_number: row.optional("tailnum")?,
        dep_delay: row.optional("dep_delay")?,
        arr_delay: row.optional("arr_delay")?,
        air_time: row.optional("air_time")?,
        distance: row.required("distance")?,
    })
}

fn departure(row: &Row) -> Result<Departure> {
    Ok(Departure {
        origin: row.required("origin")?,
        scheduled: Reverse(row.time()?),
        carrier: row.required("carrier")?,
        number: row.required("flight")?,
        dest: row.required("dest")?,
    })
}

fn month_flight(row: &Row) -> Result<MonthFlight> {
    Ok(MonthFlight {
        carrier: row.required("carrier")?,
        date: row.date()?,
        number: row.required("flight")?,
        origin: row.required("origin")?,
        dest: row.required("dest")?,
    })
}

/// The facts about all flights that are needed before storing them.
#[derive(Debug, Default)]
pub(crate) struct Overview {
    /// The first days of the months.
    pub(crate) months: BTreeSet<NaiveDate>,
    /// Departures by airport and day.
    pub(crate) departures: BTreeMap<(String, NaiveDate), i32>,
}

/// Reads the flights once.
pub(crate) fn overview(data: &DataSet) -> Result<Overview> {
    let mut overview = Overview::default();
    for row in data.flights.rows()? {
        let row = row?;
        let date = row.date()?;
        overview.months.insert(date.with_day(1).unwrap_or(date));
        *overview
            .departures
            .entry((row.required("origin")?, date))
            .or_default() += 1;
    }
    Ok(overview)
}

/// The temperatures of a day, during collection.
#[derive(Default)]
struct Day {
    hours: Properties,
    seen: [u8; 24],
}

/// Collects the hourly observations by airport and day.
fn weather_days(file: &DataFile) -> Result<Vec<WeatherDay>> {
    let mut days: BTreeMap<(String, NaiveDate), Day> = BTreeMap::new();
    for row in file.rows()? {
        let row = row?;
        days.entry((row.required("origin")?, row.date()?))
            .or_default()
            .observe(&row)?;
    }
    let finish = |((airport, date), day): (_, Day)| WeatherDay {
        airport,
        date,
        hours: day.hours,
    };
    Ok(days.into_iter().map(finish).collect())
}

impl Day {
    /// Adds an observation. Rows are in time order, so the second observation of an hour is the one after the
    /// clocks went back. A third one is an error in the data.
    fn observe(&mut self, row: &Row) -> Result<()> {
        let hour = row.required("hour")?;
        let seen = self
            .seen
            .get_mut(hour)
            .ok_or_else(|| row.error("hour", "a day has the hours 0 to 23"))?;
        *seen += 1;
        let again = match seen {
            1 => false,
            2 => true,
            _ => return Err(row.error("hour", "the third observation of this hour on this day")),
        };
        if let Some(fahrenheit) = row.optional::<f64>("temp")? {
            let slot = ClockHours.index(&(hour, again)).unwrap_or_default();
            self.hours.set(&ClockHours.name(slot), fahrenheit);
        }
        Ok(())
    }
}
