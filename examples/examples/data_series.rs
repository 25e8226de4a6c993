//! A value per hour in one entity: set without reading, read as a whole, and counted without lost updates.
//!
//! Cost: set 1 request, get 1 per 1,000 rows, add 2, and 2 more per conflict with another writer of the entity.

use chrono::NaiveDate;
use table_patterns::prelude::*;
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
    messages.set(&today, 9, &12).await?; // 1 request
    messages.add(&today, 9, 1).await?; // 2 requests; 2 more if another writer has changed the entity in between
    messages.set(&today, 10, &0).await?;
    let day = messages.get(&today).await?; // 1 request
    assert_eq!(day[9], Some(13));
    assert_eq!(day[10], Some(0));
    assert_eq!(day[11], None);

    // A year of two numbers per day needs 730 properties, so the series has several rows; 1 request reads them. `Grouped`: each slot is a
    // group of properties, such as D001Flights and D001Delay.
    let year = Days::of_year(2013)?;
    let flights = DataSeries::<Days, Day, Grouped>::with_codec(store, "FlightDays", year)?;
    flights.create_if_missing().await?;
    let jfk = Key::new("JFK", "2013")?;
    let first_of_july = NaiveDate::from_ymd_opt(2013, 7, 1).expect("a date");
    flights
        .set(
            &jfk,
            first_of_july,
            &Day {
                flights: 320,
                delay: 21.5,
            },
        )
        .await?;
    let year = flights.get(&jfk).await?;
    assert_eq!(year.iter().count(), 1);
    assert_eq!(year.get(&first_of_july).map(|day| day.flights), Some(320));
    Ok(())
}
