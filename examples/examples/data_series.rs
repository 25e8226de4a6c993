//! A value per hour in one entity: set without reading, read as a whole, and counted without lost updates.

use table_core::Error;
use table_core::prelude::*;
use table_patterns::series::{DataSeries, Days, Grouped, Hours};

/// The properties of a day.
#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Day {
    flights: i32,
    delay: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    // Messages per hour: properties H00 to H23 of one entity.
    let store = MemoryStore::new().into_shared();
    let messages = DataSeries::<Hours, i64>::new(store.clone(), "Series", Hours)?;
    messages.create_if_missing().await?;
    let today = Key::new("Sales", "empid_000223_2013-01-15")?;
    messages.set(&today, 9, &12).await?; // one request
    messages.add(&today, 9, 1).await?; // two, again where another writer was quicker
    messages.set(&today, 10, &0).await?;
    let day = messages.get(&today).await?; // one
    assert_eq!(day[9], Some(13));
    assert_eq!(day[10], Some(0));
    assert_eq!(day[11], None);

    // A year of small structs exceeds one entity, so it continues in further rows, which one query reads.
    let year = Days::of_year(2013)?;
    let flights = DataSeries::<Days, Day, Grouped>::with_codec(store, "Series", year)?;
    let jfk = Key::new("JFK", "2013")?;
    let summer =
        chrono::NaiveDate::from_ymd_opt(2013, 7, 1).ok_or_else(|| Error::invalid_request("a date"))?;
    flights.set(&jfk, summer, &Day { flights: 320, delay: 21.5 }).await?;
    let year = flights.get(&jfk).await?;
    assert_eq!(year.iter().count(), 1);
    assert_eq!(year.get(&summer).map(|day| day.flights), Some(320));
    Ok(())
}
