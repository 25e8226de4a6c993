//! A day's flights under one key, spread over buckets. Otherwise the partition of today would get all writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDate;
use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::store::TableStore;
use table_core::typed::TableEntity;
use table_patterns::spread::SpreadTable;

use crate::flight::{Flight, Flights};
use crate::{Result, expect_count};

const CONCURRENCY: usize = 64;

#[derive(Debug, TableEntity)]
#[entity(
    rename_all = "PascalCase",
    partition_key = "{date}",
    row_key = "{carrier}_{number:04}_{origin}",
    spread = 8
)]
struct DayFlight {
    date: NaiveDate,
    carrier: String,
    number: u32,
    origin: String,
    distance: i32,
}

impl From<&Flight> for DayFlight {
    fn from(flight: &Flight) -> Self {
        Self {
            date: flight.date,
            carrier: flight.carrier.clone(),
            number: flight.number,
            origin: flight.origin.clone(),
            distance: flight.distance,
        }
    }
}

/// Inserts the flights one by one, and reads every day merged in key order.
pub(crate) async fn run(store: &Arc<dyn TableStore>, flights: &Flights) -> Result<String> {
    let table = &SpreadTable::<DayFlight>::new(Arc::clone(store), "Days")?;
    table.create_if_missing().await?;
    let insert = |flight: DayFlight| async move { table.insert(&flight).await.map(drop) };
    let rows = stream::iter(&flights.all)
        .map(|flight| Ok::<_, table_core::Error>(DayFlight::from(flight)));
    rows.try_for_each_concurrent(CONCURRENCY, insert).await?;

    let days = keys_by_day(flights)?;
    let mut miles = 0;
    for (date, keys) in &days {
        let day: Vec<DayFlight> = table
            .query()
            .partition(DayFlight::partition(*date)?)
            .all()
            .await?;
        let found = day.iter().map(row_key).collect::<Result<Vec<_>>>()?;
        if found != *keys {
            return Err(format!("the flights of {date} differ from the file").into());
        }
        miles += day
            .iter()
            .map(|flight| i64::from(flight.distance))
            .sum::<i64>();
    }
    let expected: i64 = flights
        .all
        .iter()
        .map(|flight| i64::from(flight.distance))
        .sum();
    expect_count("miles", usize::try_from(miles)?, usize::try_from(expected)?)?;
    Ok(format!(
        "{} flights of {} days in 8 buckets each, in order",
        flights.all.len(),
        days.len()
    ))
}

/// Returns the RowKey of the derived type.
fn row_key(flight: &DayFlight) -> Result<String> {
    Ok(flight.entity_key()?.key().row().to_owned())
}

/// Returns the sorted RowKeys of each day.
fn keys_by_day(flights: &Flights) -> Result<BTreeMap<NaiveDate, Vec<String>>> {
    let mut days = BTreeMap::<_, Vec<_>>::new();
    for flight in &flights.all {
        days.entry(flight.date)
            .or_default()
            .push(row_key(&DayFlight::from(flight))?);
    }
    days.values_mut().for_each(|keys| keys.sort_unstable());
    Ok(days)
}
