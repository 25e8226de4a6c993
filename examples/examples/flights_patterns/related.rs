//! Flights joined with their planes in the client, and planes related to their flights by a convention.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::typed::RowPrefix;
use table_patterns::relationship::{JoinCache, JoinOptions, Relation};

use crate::fleet::{Fleet, Leg, Plane};
use crate::flight::Flights;
use crate::{Result, expect_count};

const CONCURRENCY: usize = 32;

/// Counts the flights per manufacturer by a join, and per plane by its relation.
pub(crate) async fn run(fleet: &Fleet, flights: &Flights) -> Result<String> {
    let expected =
        flights.count_by(|flight| flights.planes.get(flight.tail_number.as_ref()?).cloned());
    let joined = joined(fleet).await?;
    if joined != expected {
        return Err("the flights by manufacturer differ from the files".into());
    }
    let flights_of_plane = Relation::many(fleet.legs.clone(), |plane: &Plane| {
        Ok((
            Leg::partition(&plane.tail_number)?,
            Some(RowPrefix::escaped("plane_")),
        ))
    });
    let planes = fleet.planes.query().all().await?;
    let flights_of_plane = &flights_of_plane;
    let counts =
        stream::iter(&planes).map(|plane| async move { flights_of_plane.of(plane)?.count().await });
    let counts: Vec<usize> = counts.buffer_unordered(CONCURRENCY).try_collect().await?;
    let sum: usize = counts.iter().sum();
    expect_count("flights of known planes", sum, expected.values().sum())?;
    Ok(format!(
        "{sum} flights of {} manufacturers, joined and related",
        expected.len()
    ))
}

/// Returns flights by the manufacturer of their plane: 1 request per page of flights, and 1 per plane, however many flights it has.
async fn joined(fleet: &Fleet) -> Result<BTreeMap<String, usize>> {
    let options = JoinOptions::default().remember_missing();
    let cache = JoinCache::new(fleet.planes.clone(), options);
    let mut counts = BTreeMap::new();
    let mut chunks = Box::pin(fleet.legs.query().stream().chunks(1000));
    while let Some(chunk) = chunks.next().await {
        let legs: Vec<Leg> = chunk.into_iter().collect::<table_core::Result<_>>()?;
        for (_, plane) in cache.join(legs, |leg| Plane::key(&leg.tail_number)).await? {
            if let Some(plane) = plane {
                *counts.entry(plane.manufacturer.clone()).or_default() += 1;
            }
        }
    }
    Ok(counts)
}
