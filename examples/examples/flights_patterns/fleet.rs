//! Planes with all their flights in one table. Flights without a plane are a third type.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::NaiveDate;
use futures_util::{StreamExt, TryStreamExt, stream};
use table_patterns::bulk::BulkWriter;
use table_patterns::compound::Compound;
use table_patterns::heterogeneous::{Resolver, modify};
use table_patterns::prelude::*;

use crate::flight::{Flight, Flights};
use crate::{Result, expect_count};

const CONCURRENCY: usize = 32;

/// A plane: the first row of its partition.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Plane", rename_all = "PascalCase", row_key = "plane")]
pub(crate) struct Plane {
    #[partition_key]
    pub(crate) tail_number: String,
    pub(crate) manufacturer: String,
    pub(crate) flights: Option<i32>,
}

/// A flight of a plane.
#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Leg",
    rename_all = "PascalCase",
    partition_key = "{tail_number}",
    row_key = "plane_{date}_{carrier}_{number:04}_{origin}"
)]
pub(crate) struct Leg {
    pub(crate) tail_number: String,
    pub(crate) date: NaiveDate,
    pub(crate) carrier: String,
    pub(crate) number: u32,
    pub(crate) origin: String,
}

/// A row of a plane's partition.
#[derive(Debug, EntityResolver)]
enum Row {
    Plane(Plane),
    Leg(Leg),
    #[resolver(other)]
    Other(Entity),
}

/// The table of the planes and their flights.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) planes: Table<Plane>,
    pub(crate) legs: Table<Leg>,
}

/// Loads planes and flights in full group transactions.
pub(crate) async fn load(store: &Arc<dyn TableStore>, flights: &Flights) -> Result<Fleet> {
    let db = Database::new(Arc::clone(store));
    let planes = db.table::<Plane>("Fleet")?;
    planes.declare().await?;
    let mut rows = Vec::new();
    for (tail_number, manufacturer) in &flights.planes {
        let (tail_number, manufacturer) = (tail_number.clone(), manufacturer.clone());
        rows.push(
            Plane {
                tail_number,
                manufacturer,
                flights: None,
            }
            .to_entity()?,
        );
    }
    for flight in &flights.all {
        rows.push(row(flight)?);
    }
    // Rows of one partition are adjacent, so that groups are full.
    rows.sort_by(|a, b| a.key().partition().cmp(b.key().partition()));
    let name = planes.name().clone();
    let inserts = rows
        .into_iter()
        .map(move |row| Ok((name.clone(), Operation::Insert(row))));
    BulkWriter::new(Arc::clone(store))
        .write(stream::iter(inserts))
        .await?
        .into_result()?;
    Ok(Fleet {
        legs: db.table("Fleet")?,
        planes,
    })
}

/// Returns a flight of a plane, or a flight whose plane is unknown.
fn row(flight: &Flight) -> Result<Entity> {
    let (carrier, origin) = (flight.carrier.clone(), flight.origin.clone());
    let (date, number) = (flight.date, flight.number);
    match flight.tail_number.clone() {
        Some(tail_number) => Ok(Leg {
            tail_number,
            date,
            carrier,
            number,
            origin,
        }
        .to_entity()?),
        None => {
            let row = format!("{date}_{carrier}_{number:04}_{origin}");
            Ok(Entity::new("no plane", row)?.with("EntityType", "Cancelled"))
        }
    }
}

impl Fleet {
    /// Reads each plane with all its flights by range queries: 1 request per page.
    pub(crate) async fn check_each_plane(&self, flights: &Flights) -> Result<String> {
        let by_tail = flights.count_by(|flight| flight.tail_number.clone());
        let reads =
            stream::iter(&by_tail).map(|(tail, count)| self.check_plane(tail, *count, flights));
        let found: Vec<usize> = reads.buffer_unordered(CONCURRENCY).try_collect().await?;
        let sum = found.iter().sum::<usize>();
        expect_count("flights of planes", sum, by_tail.values().sum())?;
        Ok(format!(
            "{sum} flights of {} planes, each plane in one range",
            by_tail.len()
        ))
    }

    async fn check_plane(&self, tail: &str, expected: usize, flights: &Flights) -> Result<usize> {
        let (mut legs, mut planes) = (0, 0);
        for row in Compound::<Row>::new(&self.planes, Plane::key(tail)?)?
            .all()
            .await?
        {
            match row {
                Row::Leg(leg) => legs += usize::from(leg.tail_number == tail),
                Row::Plane(plane) => planes += usize::from(plane.tail_number == tail),
                Row::Other(other) => return Err(format!("{} is no flight", other.key()).into()),
            }
        }
        expect_count(&format!("flights of {tail}"), legs, expected)?;
        expect_count(
            &format!("planes {tail}"),
            planes,
            usize::from(flights.planes.contains_key(tail)),
        )?;
        Ok(legs)
    }

    /// Reads every entity as its own type and counts the types: 1 request per page.
    pub(crate) async fn count_types(&self, flights: &Flights) -> Result<String> {
        let resolver = Resolver::new()
            .on_type(|_: Plane| "plane")
            .on_type(|_: Leg| "flight")
            .other(|entity| {
                Ok(if entity.get("EntityType").is_some() {
                    "cancelled"
                } else {
                    "unknown"
                })
            });
        let mut counts = BTreeMap::<&str, usize>::new();
        let query = self.planes.view::<Entity>()?.query();
        let mut rows = Box::pin(resolver.stream(&query));
        while let Some(kind) = rows.try_next().await? {
            *counts.entry(kind).or_default() += 1;
        }
        let count_of = |kind| counts.get(kind).copied().unwrap_or_default();
        let flown = flights
            .all
            .iter()
            .filter(|flight| flight.tail_number.is_some())
            .count();
        expect_count("planes", count_of("plane"), flights.planes.len())?;
        expect_count("flights", count_of("flight"), flown)?;
        expect_count(
            "cancelled flights",
            count_of("cancelled"),
            flights.all.len() - flown,
        )?;
        expect_count("unknown rows", count_of("unknown"), 0)?;
        Ok(format!(
            "{} planes, {flown} flights, {} of a third type",
            count_of("plane"),
            count_of("cancelled")
        ))
    }

    /// Writes the number of flights into every plane by `modify`, which needs no type: 2 requests per plane. Then reads the planes.
    pub(crate) async fn add_flight_counts(&self, flights: &Flights) -> Result<String> {
        let by_tail = flights.count_by(|flight| flight.tail_number.clone());
        let count = &|tail: &str| by_tail.get(tail).copied().unwrap_or_default();
        let tails = stream::iter(flights.planes.keys()).map(Ok::<_, table_core::Error>);
        let changes = tails.try_for_each_concurrent(CONCURRENCY, |tail| async move {
            let mut changes = Properties::new();
            changes.set("Flights", count(tail) as i32);
            modify(&self.planes, Plane::key(tail)?.key(), |_| {
                Ok(changes.clone())
            })
            .await
            .map(drop)
        });
        changes.await?;
        let planes = self.planes.query().all().await?;
        let counted = planes
            .iter()
            .map(|plane| plane.flights.map_or(0, |n| n as usize))
            .sum();
        expect_count(
            "flights counted",
            counted,
            flights.planes.keys().map(|tail| count(tail)).sum(),
        )?;
        Ok(format!(
            "{counted} flights counted in {} planes",
            planes.len()
        ))
    }
}
