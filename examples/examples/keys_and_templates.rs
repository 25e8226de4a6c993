//! Key templates: how fields become PartitionKey and RowKey (padding, dates, newest first, escapes), and how a typed prefix of
//! a key becomes a range query.
//!
//! Cost: computing a key sends no request; a range query costs 1 request per page.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use table_patterns::prelude::*;

/// A reservation. Its RowKey starts with the day, so a day is a range.
#[derive(Debug, TableEntity)]
#[entity(
    type = "Reservation",
    partition_key = "hotel_{hotel}",
    row_key = "{day}_{room:04}"
)]
struct Reservation {
    hotel: String,
    day: NaiveDate,
    room: u32,
    guest: String,
}

/// A log in which the newest entry comes first.
#[derive(Debug, TableEntity)]
#[entity(type = "LogEntry", partition_key = "{service}", row_key = "{at}")]
struct LogEntry {
    service: String,
    at: Reverse<NaiveDateTime>,
    text: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    reservations().await?;
    log().await
}

async fn reservations() -> table_core::Result<()> {
    let key = Reservation::key("Ritz", day(9), 12)?;
    assert_eq!(key.key().partition(), "hotel_Ritz");
    assert_eq!(key.key().row(), "2013-01-09_0012");

    // Characters that a key cannot contain are escaped, and unescaped when read.
    assert_eq!(
        Reservation::partition("Ritz / Carlton")?.to_string(),
        "hotel_Ritz ~2F Carlton"
    );

    // A number that does not fit is an error, never a wider key that would sort wrongly.
    let error = Reservation::key("Ritz", day(9), 10_000).unwrap_err();
    assert!(error.to_string().contains("10000"), "{error}");

    let table = Database::new(MemoryStore::new()).table::<Reservation>("Reservations")?;
    table.declare().await?;
    for (date, room) in [(9, 101), (9, 12), (10, 12)] {
        let reservation = Reservation {
            hotel: "Ritz / Carlton".to_owned(),
            day: day(date),
            room,
            guest: format!("guest of {room}"),
        };
        table.insert(&reservation).await?;
    }

    // The start of the RowKey is a typed prefix: 1 request for a row range, in the order of the rooms.
    let hotel = Reservation::partition("Ritz / Carlton")?;
    let found = table
        .query()
        .partition(hotel)
        .rows(Reservation::row_prefix().day(day(9)))
        .all()
        .await?;
    assert_eq!(found.iter().map(|r| r.room).collect::<Vec<_>>(), [12, 101]);
    assert_eq!(found[0].hotel, "Ritz / Carlton", "the escapes are removed");
    Ok(())
}

async fn log() -> table_core::Result<()> {
    // `Reverse` of a time is written as inverted ticks, `DateTime.MaxValue.Ticks - ticks` in 19 digits, as in Microsoft's Table design
    // guide: a later time has a smaller key.
    let key = LogEntry::key("web", Reverse(day(1).and_time(NaiveTime::MIN)))?;
    assert_eq!(key.key().row(), "2520453023999999999");

    let table = Database::new(MemoryStore::new()).table::<LogEntry>("Log")?;
    table.declare().await?;
    for date in 1..=20 {
        let at = Reverse(day(date).and_time(NaiveTime::MIN));
        table
            .insert(&LogEntry {
                service: "web".to_owned(),
                at,
                text: format!("day {date}"),
            })
            .await?;
    }
    let newest = table
        .query()
        .partition(LogEntry::partition("web")?)
        .limit(3)
        .all()
        .await?; // 1 request
    assert_eq!(
        newest.iter().map(|e| e.text.as_str()).collect::<Vec<_>>(),
        ["day 20", "day 19", "day 18"]
    );
    Ok(())
}

fn day(day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(2013, 1, day).expect("a day of January 2013")
}
