//! A day's flights under one key, spread over buckets. Otherwise the partition of today would get all writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDate;
use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::store::TableStore;
use table_core::typed::TableEntity;
use table_patterns::spread::SpreadTable;

use crate::flight::Flights;
use crate::{Result, same};

const AT_ONCE: usize = 64;

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

/// Inserts the flights one by one, and reads every day merged in key order.
pub(crate) async fn run(store: &Arc<dyn TableStore>, flights: &Flights) -> Result<String> {
    let table = SpreadTable::<DayFlight>::new(Arc::clone(store), "Days")?;
    table.create_if_missing().await?;
    let inserts = stream::iter(&flights.all).map(|flight| {
        let (table, flight) = (&table, flight.clone());
        let (carrier, date) = (flight.carrier, flight.date);
        let (number, origin, distance) = (flight.number, flight.origin, flight.distance);
        async move { table.insert(&DayFlight { date, carrier, number, origin, distance }).await }
    });
    inserts.buffer_unordered(AT_ONCE).try_for_each(|_| std::future::ready(Ok(()))).await?;

    let days = keys_by_day(flights);
    let mut miles = 0;
    for (date, keys) in &days {
        let day: Vec<DayFlight> = table.query().partition(DayFlight::partition(*date)?).all().await?;
        if !day.iter().map(key).eq(keys.iter().cloned()) {
            return Err(format!("the flights of {date} differ from those of the file").into());
        }
        miles += day.iter().map(|flight| i64::from(flight.distance)).sum::<i64>();
    }
    let expected: i64 = flights.all.iter().map(|flight| i64::from(flight.distance)).sum();
    same("miles", usize::try_from(miles)?, usize::try_from(expected)?)?;
    Ok(format!("{} flights of {} days in 8 buckets each, in order", flights.all.len(), days.len()))
}

fn key(flight: &DayFlight) -> String {
    format!("{}_{:04}_{}", flight.carrier, flight.number, flight.origin)
}

/// Returns the sorted RowKeys of each day.
fn keys_by_day(flights: &Flights) -> BTreeMap<NaiveDate, Vec<String>> {
    let mut days = BTreeMap::<_, Vec<_>>::new();
    for flight in &flights.all {
        let key = format!("{}_{:04}_{}", flight.carrier, flight.number, flight.origin);
        days.entry(flight.date).or_default().push(key);
    }
    days.values_mut().for_each(|keys| keys.sort_unstable());
    days
}
