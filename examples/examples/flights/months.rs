//! Tables by month (time slices) and wide entities by year.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use chrono::{Datelike, NaiveDate, NaiveDateTime};
use examples::Result;
use table_core::model::{Entity, Key, Ticks, ValueRef};
use table_core::store::TableStore;
use table_patterns::series::{Days, SlotSet};
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideEntities;

use crate::import::Overview;
use crate::model::{MONTHS, MonthFlight, YEARS};

/// The flights of each month in a separate table.
pub(crate) type Months = TimeSlices<MonthFlight>;

/// Opens the family.
pub(crate) fn months(store: Arc<dyn TableStore>) -> Result<Months> {
    Ok(TimeSlices::new(
        store,
        MONTHS,
        Every::Month,
        MonthFlight::day,
    )?)
}

/// Opens the years.
pub(crate) fn years(store: Arc<dyn TableStore>) -> Result<WideEntities> {
    Ok(WideEntities::new(store, YEARS.parse()?))
}

/// Drops the month tables of an earlier import.
pub(crate) async fn drop_all(store: &Arc<dyn TableStore>) -> Result<()> {
    months(Arc::clone(store))?.drop_before(Ticks::MAX).await?;
    Ok(())
}

/// Creates the month tables, and stores each airport's departures with a property per day of the year.
pub(crate) async fn prepare(store: &Arc<dyn TableStore>, overview: &Overview) -> Result<()> {
    let months = months(Arc::clone(store))?;
    for month in &overview.months {
        months.table_for(NaiveDateTime::from(*month).into()).await?;
    }
    let years = years(Arc::clone(store))?;
    for entity in year_entities(overview)? {
        years.upsert(&entity).await?;
    }
    Ok(())
}

fn year_entities(overview: &Overview) -> Result<Vec<Entity>> {
    let mut entities = BTreeMap::<(&str, i32), Entity>::new();
    for ((airport, day), departures) in &overview.departures {
        let year = day.year();
        let entity = match entities.entry((airport, year)) {
            Entry::Occupied(entity) => entity.into_mut(),
            Entry::Vacant(place) => place.insert(Entity::from(year_key(airport, year)?)),
        };
        entity.properties_mut().set(&property(*day)?, *departures);
    }
    Ok(entities.into_values().collect())
}

/// Returns the key of an airport's year.
pub(crate) fn year_key(airport: &str, year: i32) -> Result<Key> {
    Ok(Key::new(airport, year.to_string())?)
}

/// Returns the departures of a year by day.
pub(crate) fn departures(year: i32, entity: &Entity) -> Result<BTreeMap<NaiveDate, u64>> {
    let days = Days::of_year(year)?;
    let departures = |slot: usize| match entity.get(&days.name(slot)) {
        Some(ValueRef::Int32(departures)) => {
            Some((days.slot(slot), u64::from(departures.unsigned_abs())))
        }
        _ => None,
    };
    Ok((0..days.count()).filter_map(departures).collect())
}

fn property(day: NaiveDate) -> Result<String> {
    let days = Days::of_year(day.year())?;
    let slot = days.index(&day).ok_or("a year has all of its days")?;
    Ok(days.name(slot))
}
