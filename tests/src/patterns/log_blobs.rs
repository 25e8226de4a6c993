//! Logs in blobs: a range of time finds the appended records.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::ObjectStore;
use serde_json::value::RawValue;
use table_core::model::Ticks;
use table_patterns::clock::Clock;
use table_patterns::log_blobs::{
    LogEntry, LogFormat, LogOptions, LogPeriod, LogSync, LogWriter, read_logs,
};
use tokio::task::JoinSet;

use super::counting_blobs::CountingBlobs;
use crate::Harness;

const MINUTE: i64 = 60 * 10_000_000;

/// A clock that the test sets.
#[derive(Debug)]
struct Watch(AtomicI64);

impl Watch {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(time("2014-07-31T18:59:30Z").get())))
    }

    fn advance(&self, minutes: i64) {
        self.0.fetch_add(minutes * MINUTE, Ordering::SeqCst);
    }
}

impl Clock for Watch {
    fn now(&self) -> Ticks {
        Ticks::new(self.0.load(Ordering::SeqCst)).expect("a time")
    }
}

fn time(text: &str) -> Ticks {
    text.parse().expect("a time")
}

/// Buffers are stored only when the program flushes them.
fn options(watch: &Arc<Watch>) -> LogOptions {
    LogOptions::default()
        .with_buffer(1 << 20, Duration::from_secs(3600))
        .with_clock(watch.clone())
}

async fn read(blobs: &Arc<dyn ObjectStore>, from: &str, to: &str) -> Vec<LogEntry> {
    let found = read_logs(Arc::clone(blobs), "shop", time(from)..time(to));
    found.try_collect().await.expect("records")
}

async fn names(blobs: &dyn ObjectStore) -> Vec<String> {
    let names = blobs.list(None).map_ok(|blob| blob.location.to_string());
    let mut names: Vec<_> = names.try_collect().await.expect("names");
    names.sort();
    names
}

/// A record every 20 minutes for a day, in both formats. A range of time is exact and reads a range of blob
/// names.
pub(crate) async fn records_are_read_by_time(harness: &Harness) {
    for (format, period) in [
        (LogFormat::JsonLines, LogPeriod::Hour),
        (LogFormat::Delimited('\t'), LogPeriod::Minute),
    ] {
        let (blobs, watch) = (harness.blobs().await, Watch::new());
        let options = options(&watch).with_format(format).with_period(period);
        let log = LogWriter::new(Arc::clone(&blobs), "shop", options).expect("a log");
        for n in 0..72u32 {
            let text = format!("order\t{n}\n");
            match format {
                LogFormat::JsonLines => log.append(&text).await.expect("a record"),
                LogFormat::Delimited(_) => log.append_fields(&[text]).await.expect("a record"),
            }
            watch.advance(20);
        }
        log.close().await.expect("stored");
        let stored = names(&*blobs).await;
        let first = if period == LogPeriod::Hour {
            "1800"
        } else {
            "1859"
        };
        assert_eq!(stored[0], format!("shop/2014/07/31/{first}/000001.log"));
        assert_eq!(
            stored.len(),
            if period == LogPeriod::Hour { 25 } else { 72 }
        );
        // Record n has the time 18:59:30 plus n × 20 minutes.
        let found = read(&blobs, "2014-07-31T19:19:30Z", "2014-08-01T00:19:30Z").await;
        let text = |entry: &LogEntry| match format {
            LogFormat::JsonLines => entry.json::<String>().expect("a text"),
            LogFormat::Delimited(_) => entry.fields().concat(),
        };
        let expected: Vec<_> = (1..16).map(|n| format!("order\t{n}\n")).collect();
        assert_eq!(
            found.iter().map(text).collect::<Vec<_>>(),
            expected,
            "{format:?}"
        );
        assert_eq!(found[0].time, time("2014-07-31T19:19:30Z"));
    }
}

/// JSON with its own line breaks is one record, and its numbers keep their text.
pub(crate) async fn json_with_line_breaks_is_one_record(harness: &Harness) {
    let (blobs, watch) = (harness.blobs().await, Watch::new());
    let log = LogWriter::new(Arc::clone(&blobs), "shop", options(&watch)).expect("a log");
    let text = "{\n  \"total\": 1.10,\r\n  \"lines\": [\"a\\nb\",\n12345678901234567890123]\r}";
    let raw = RawValue::from_string(text.to_owned()).expect("JSON");
    log.append(&raw).await.expect("a record");
    log.append(&(1, &raw, "after")).await.expect("a record");
    log.close().await.expect("stored");
    let found = read(&blobs, "2014-07-31T18:00:00Z", "2014-07-31T19:00:00Z").await;
    let expected = text.replace(['\n', '\r'], " ");
    let texts: Vec<_> = found.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(
        texts,
        [expected.clone(), format!("[1,{expected},\"after\"]")]
    );
}

/// Records are found whatever the clock of the writer says. The log follows a clock that was ahead and is
/// corrected.
pub(crate) async fn records_are_found_whatever_the_writers_clock(harness: &Harness) {
    let (blobs, watch) = (harness.blobs().await, Watch::new());
    let log = LogWriter::new(Arc::clone(&blobs), "shop", options(&watch)).expect("a log");
    let centuries = 300 * 366 * 24 * 60;
    for (n, minutes) in [0, centuries, -1, 2, -centuries].into_iter().enumerate() {
        watch.advance(minutes);
        log.append(&n).await.expect("a record");
    }
    log.close().await.expect("stored");
    let numbers = |found: &[LogEntry]| -> Vec<u32> {
        found
            .iter()
            .map(|entry| entry.json().expect("a number"))
            .collect()
    };
    let all = read_logs(Arc::clone(&blobs), "shop", Ticks::MIN..Ticks::MAX);
    let all: Vec<_> = all.try_collect().await.expect("records");
    assert_eq!(numbers(&all), [0, 4, 1, 2, 3]);
    assert_eq!(
        all[2].time, all[3].time,
        "a write waits for a clock that goes back by one minute"
    );
    assert_eq!(
        numbers(&read(&blobs, "2014-07-31T18:00:00Z", "2014-07-31T20:00:00Z").await),
        [0, 4]
    );
    let start = format!("{}T00:00:00Z", &all[2].time.to_string()[..10]);
    let end = Ticks::new(time(&start).get() + 24 * 60 * MINUTE)
        .expect("a time")
        .to_string();
    assert_eq!(numbers(&read(&blobs, &start, &end).await), [1, 2, 3]);
}

/// Several concurrent writers of one service: no writer overwrites a blob, every acknowledged record is stored,
/// and the records of one writer keep their order.
pub(crate) async fn concurrent_writers_overwrite_no_blob(harness: &Harness) {
    let (blobs, watch) = (harness.blobs().await, Watch::new());
    let mut writers = JoinSet::new();
    for writer in 0..4u32 {
        let options = options(&watch).with_sync(LogSync::Every(1));
        let log = LogWriter::new(Arc::clone(&blobs), "shop", options).expect("a log");
        writers.spawn(async move {
            for n in 0..10 {
                log.append(&(writer * 100 + n)).await.expect("a record");
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no panic");
    }
    let numbers: Vec<_> = (1..=40)
        .map(|n| format!("shop/2014/07/31/1800/{n:06}.log"))
        .collect();
    assert_eq!(names(&*blobs).await, numbers);
    let found = read(&blobs, "2014-07-31T00:00:00Z", "2014-08-01T00:00:00Z").await;
    let found: Vec<u32> = found
        .iter()
        .map(|entry| entry.json().expect("a number"))
        .collect();
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 40);
    for writer in 0..4 {
        let own: Vec<_> = found.iter().filter(|n| **n / 100 == writer).collect();
        assert_eq!(own.len(), 10, "{own:?}");
        assert!(own.is_sorted(), "{own:?}");
    }
}

/// A flush is one request, and one more in a new directory. A read is one listing per day and one request per
/// blob.
pub(crate) async fn requests_are_as_documented(harness: &Harness) {
    let counted = Arc::new(CountingBlobs::new(harness.blobs().await));
    let (blobs, watch) = (counted.clone() as Arc<dyn ObjectStore>, Watch::new());
    let log = LogWriter::new(Arc::clone(&blobs), "shop", options(&watch)).expect("a log");
    for (minutes, cost) in [(0, 2), (0, 1), (1, 2), (1, 1), (24 * 60, 2)] {
        watch.advance(minutes);
        for n in 0..50u32 {
            log.append(&n).await.expect("a record");
        }
        assert_eq!(counted.take(), 0, "an append sends no request");
        log.flush().await.expect("stored");
        assert_eq!(counted.take(), cost, "after {minutes} minutes");
    }
    let other = LogWriter::new(Arc::clone(&blobs), "shop", options(&watch)).expect("a log");
    let another = LogWriter::new(Arc::clone(&blobs), "shop", options(&watch)).expect("a log");
    for log in [&other, &another] {
        log.append(&1u32).await.expect("a record");
        log.flush().await.expect("stored");
    }
    assert_eq!(counted.take(), 2 + 2);
    other.append(&2u32).await.expect("a record");
    other.flush().await.expect("stored");
    assert_eq!(
        counted.take(),
        1 + 2,
        "a taken blob number costs one request, and the next number is tried"
    );

    let hours = read(&blobs, "2014-07-31T18:00:00Z", "2014-07-31T19:00:00Z").await;
    assert_eq!(hours.len(), 100);
    assert_eq!(counted.take(), 1 + 2);
    let all = read(&blobs, "2014-07-31T00:00:00Z", "2014-08-02T00:00:00Z").await;
    assert_eq!(all.len(), 253);
    assert_eq!(counted.take(), 2 + 8);

    // A long range of time reads the days that exist: a service, a year, two months.
    let all = read(&blobs, "1601-01-01T00:00:00Z", "9999-12-31T00:00:00Z").await;
    assert_eq!(all.len(), 253);
    assert_eq!(counted.take(), 1 + 1 + 2 + 2 + 8);
    let july = read(&blobs, "2013-01-01T00:00:00Z", "2014-08-01T00:00:00Z").await;
    assert_eq!(july.len(), 200);
    assert_eq!(counted.take(), 1 + 1 + 1 + 1 + 4);
    assert!(july.iter().map(|entry| entry.time).is_sorted());
    let none = read(&blobs, "2015-01-01T00:00:00Z", "2016-01-01T00:00:00Z").await;
    assert_eq!(none.len(), 0);
    assert_eq!(counted.take(), 1);
}
