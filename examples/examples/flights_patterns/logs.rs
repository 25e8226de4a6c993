//! A log record per departure, collected in a blob per hour.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{Days, Timelike};
use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use serde::{Deserialize, Serialize};
use table_core::model::Ticks;
use table_patterns::clock::Clock;
use table_patterns::log_blobs::{LogEntry, LogOptions, LogWriter, read_logs};

use crate::flight::{Flight, Flights};
use crate::{Result, expect_count};

/// A clock that shows the time of the logged flight.
#[derive(Debug, Default)]
struct Schedule(AtomicI64);

impl Clock for Schedule {
    fn now(&self) -> Ticks {
        Ticks::new(self.0.load(Ordering::SeqCst)).unwrap_or(Ticks::MIN)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Departure {
    carrier: String,
    number: u32,
}

/// Logs every flight at its time, and finds each day's records.
pub(crate) async fn run(flights: &Flights) -> Result<String> {
    let blobs: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let mut sorted: Vec<&Flight> = flights.all.iter().collect();
    sorted.sort_by_key(|flight| flight.scheduled);
    write(&blobs, &sorted).await?;

    let hours: BTreeSet<_> = sorted
        .iter()
        .map(|f| (f.scheduled.date(), f.scheduled.hour()))
        .collect();
    let stored = blobs.list(None).try_collect::<Vec<_>>().await?.len();
    expect_count("blobs", stored, hours.len())?;
    let days = flights.count_by(|flight| Some(flight.scheduled.date()));
    for (day, count) in &days {
        let time = |day: chrono::NaiveDate| Ticks::from(day.and_time(chrono::NaiveTime::MIN));
        let range = time(*day)..time(*day + Days::new(1));
        let found: Vec<LogEntry> = read_logs(Arc::clone(&blobs), "departures", range)
            .try_collect()
            .await?;
        expect_count(&format!("records of {day}"), found.len(), *count)?;
        let wanted = sorted
            .iter()
            .filter(|flight| flight.scheduled.date() == *day);
        for (entry, flight) in found.iter().zip(wanted) {
            let departure: Departure = entry.json()?;
            if (departure.carrier, departure.number) != (flight.carrier.clone(), flight.number) {
                return Err(format!("a record of {day} differs from that of the file").into());
            }
        }
    }
    Ok(format!(
        "{} records in {stored} blobs, found by {} days",
        flights.all.len(),
        days.len()
    ))
}

async fn write(blobs: &Arc<dyn ObjectStore>, sorted: &[&Flight]) -> Result<()> {
    let clock = Arc::new(Schedule::default());
    // A buffer ends with the hour of the flights (the clock above), not after a time on this computer.
    let options = LogOptions::default().with_buffer(4 << 20, Duration::from_secs(24 * 3600));
    let log = LogWriter::new(
        Arc::clone(blobs),
        "departures",
        options.with_clock(clock.clone()),
    )?;
    for flight in sorted {
        clock
            .0
            .store(Ticks::from(flight.scheduled).get(), Ordering::SeqCst);
        log.append(&Departure {
            carrier: flight.carrier.clone(),
            number: flight.number,
        })
        .await?;
    }
    Ok(log.close().await?)
}
