mod failures;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use proptest::prelude::{any, prop};
use table_core::adapter::{CrashPoint, FaultInjector};
use table_core::model::Ticks;
use table_core::store::Result;
use tokio::task::JoinSet;

use super::{LogEntry, LogFormat, LogOptions, LogPeriod, LogSync, LogWriter, read_logs};
use crate::clock::TokioClock;
use crate::tests::faulty_blobs::FaultyBlobs;

fn start() -> Ticks {
    "2014-07-31T18:59:30Z".parse().expect("a time")
}

/// Options under `tokio`'s paused time, from [`start`].
fn options() -> LogOptions {
    LogOptions::default().with_clock(Arc::new(TokioClock::starting_at(start())))
}

/// Blobs in memory, and the same blobs with injected faults.
fn blobs() -> (Arc<InMemory>, Arc<FaultyBlobs>) {
    let inner = Arc::new(InMemory::new());
    let faulty = FaultyBlobs::apart(inner.clone(), FaultInjector::new(1));
    (inner, Arc::new(faulty))
}

async fn names(blobs: &InMemory) -> Vec<String> {
    let mut names: Vec<_> = blobs
        .list(None)
        .map_ok(|b| b.location.to_string())
        .try_collect()
        .await
        .unwrap();
    names.sort();
    names
}

async fn read(blobs: Arc<InMemory>, from: &str, to: &str) -> Result<Vec<LogEntry>> {
    read_logs(blobs, "shop", from.parse()?..to.parse()?)
        .try_collect()
        .await
}

async fn all(blobs: &Arc<InMemory>) -> Result<Vec<u32>> {
    let entries = read(
        Arc::clone(blobs),
        "2014-07-01T00:00:00Z",
        "2014-08-02T00:00:00Z",
    )
    .await?;
    entries.iter().map(LogEntry::json).collect()
}

#[tokio::test(start_paused = true)]
async fn records_are_stored_by_size_age_and_directory() -> Result<()> {
    let (inner, faulty) = blobs();
    let log = LogWriter::new(
        faulty.clone(),
        "shop",
        options().with_buffer(300, Duration::from_secs(20)),
    )?;
    for n in 0..10u32 {
        log.append(&n).await?;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(
        names(&inner).await,
        ["shop/2014/07/31/1800/000001.log"],
        "the buffer was full"
    );
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!(names(&inner).await.len(), 2, "the rest reached its age");
    log.append(&10u32).await?;
    tokio::time::sleep(Duration::from_secs(15)).await;
    log.append(&11u32).await?;
    log.close().await?;
    let expected = ["1800/000001", "1800/000002", "1800/000003", "1900/000001"];
    assert_eq!(
        names(&inner).await,
        expected.map(|n| format!("shop/2014/07/31/{n}.log"))
    );
    assert_eq!(
        faulty.requests(),
        4 + 2,
        "an append sends no request, a flush 1 request, and 1 more in a new directory"
    );
    assert!(all(&inner).await?.into_iter().eq(0..12));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_range_includes_its_start_and_excludes_its_end() -> Result<()> {
    for period in [LogPeriod::Hour, LogPeriod::Minute] {
        let (inner, faulty) = blobs();
        let log = LogWriter::new(faulty, "shop", options().with_period(period))?;
        for n in 0..300u32 {
            log.append(&n).await?;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        log.close().await?;
        // Record n is at 18:59:30 plus n minutes.
        let range = read(
            inner.clone(),
            "2014-07-31T19:10:30Z",
            "2014-07-31T21:00:30Z",
        )
        .await?;
        let numbers: Vec<u32> = range.iter().map(LogEntry::json).collect::<Result<_>>()?;
        assert!(numbers.into_iter().eq(11..121), "{period:?}");
        let over_midnight = read(
            inner.clone(),
            "2014-07-31T23:50:00Z",
            "2014-08-01T00:10:00Z",
        )
        .await?;
        assert_eq!(over_midnight.len(), 9, "the last record is at 23:58:30");
        assert_eq!(
            read(inner, "2014-07-31T20:00:00Z", "2014-07-31T20:00:00Z").await?,
            []
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_service_share_the_numbers() -> Result<()> {
    let (inner, _) = blobs();
    let mut writers = JoinSet::new();
    for writer in 0..5u32 {
        let blobs: Arc<dyn ObjectStore> = inner.clone();
        writers.spawn(async move {
            let log = LogWriter::new(
                blobs,
                "shop",
                LogOptions::default().with_sync(LogSync::Every(1)),
            )?;
            for n in 0..20 {
                log.append(&(writer * 100 + n)).await?;
            }
            log.close().await
        });
    }
    while let Some(done) = writers.join_next().await {
        done.expect("no panic")?;
    }
    assert_eq!(
        names(&inner).await.len(),
        100,
        "every acknowledged record is stored"
    );
    let today = Ticks::now();
    let range = Ticks::new(today.get() - 36_000_000_000).unwrap()..Ticks::MAX;
    let read: Vec<_> = read_logs(inner, "shop", range).try_collect().await?;
    let read: Vec<u32> = read.iter().map(LogEntry::json).collect::<Result<_>>()?;
    for writer in 0..5 {
        let own: Vec<_> = read.iter().filter(|n| **n / 100 == writer).collect();
        assert_eq!(own.len(), 20);
        assert!(own.is_sorted(), "a writer's records are in order");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_failure_loses_or_doubles_a_record() -> Result<()> {
    for sync in [LogSync::Buffered, LogSync::Every(1), LogSync::Every(3)] {
        for point in CrashPoint::ALL {
            for request in 1..8 {
                let (inner, faulty) = blobs();
                let log = LogWriter::new(faulty.clone(), "shop", options().with_sync(sync))?;
                faulty.fail_at(request, point, false);
                let mut failed = 0;
                for n in 0..6u32 {
                    failed += u32::from(log.append(&n).await.is_err());
                    tokio::time::sleep(Duration::from_secs(9)).await;
                }
                assert!(failed <= 1, "one request fails, so at most one flush does");
                drop(log.flush().await);
                log.close().await?;
                let read = all(&inner).await?;
                assert!(
                    read.into_iter().eq(0..6),
                    "{sync:?}, {point:?} at {request}"
                );
            }
        }
    }
    Ok(())
}

/// The answer of a flush is lost, and then the read of the blob's header fails.
#[tokio::test(start_paused = true)]
async fn a_flush_is_not_stored_twice_when_the_read_of_its_header_fails() -> Result<()> {
    let (inner, faulty) = blobs();
    let log = LogWriter::new(faulty.clone(), "shop", options())?;
    log.append(&0u32).await?;
    // After the list of the directory.
    faulty.fail_at(2, CrashPoint::After, false);
    log.flush().await.unwrap_err();
    faulty.fail_at(2, CrashPoint::Before, false);
    log.flush().await.unwrap_err();
    assert!(faulty.has_failed());
    log.close().await?;
    assert_eq!(names(&inner).await, ["shop/2014/07/31/1800/000001.log"]);
    assert_eq!(all(&inner).await?, [0]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_buffer_without_a_maximal_age_is_stored_by_size() -> Result<()> {
    let (inner, faulty) = blobs();
    let log = LogWriter::new(faulty, "shop", options().with_buffer(1000, Duration::MAX))?;
    log.append(&0u32).await?;
    tokio::time::sleep(Duration::from_secs(90_000)).await;
    assert_eq!(names(&inner).await.len(), 0);
    log.append(&"x".repeat(2000)).await?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(
        names(&inner).await.len(),
        2,
        "the blob of the first hour, and the full buffer"
    );
    log.close().await
}

#[tokio::test(start_paused = true)]
async fn a_crash_loses_only_the_documented_records() -> Result<()> {
    for (sync, kept) in [
        (LogSync::Every(1), 7),
        (LogSync::Every(3), 6),
        (LogSync::Buffered, 0),
    ] {
        let (inner, faulty) = blobs();
        let log = LogWriter::new(faulty.clone(), "shop", options().with_sync(sync))?;
        for n in 0..7u32 {
            log.append(&n).await?;
        }
        faulty.fail_at(1, CrashPoint::Before, true);
        drop(log.close().await);
        assert_eq!(all(&inner).await?.len(), kept, "{sync:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn appends_fail_once_four_buffers_cannot_be_stored() -> Result<()> {
    let (inner, faulty) = blobs();
    faulty.fail_at(1, CrashPoint::Before, true);
    let log = LogWriter::new(
        faulty,
        "shop",
        options().with_buffer(1000, Duration::from_secs(1)),
    )?;
    let mut taken = 0;
    while log.append(&"a record of some length").await.is_ok() {
        taken += 1;
        assert!(taken < 1000, "appends succeed without a bound");
    }
    assert!(taken > 10);
    assert!(
        log.flush()
            .await
            .unwrap_err()
            .to_string()
            .contains("blob store")
    );
    assert_eq!(names(&inner).await.len(), 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn invalid_services_delimiters_and_calls_are_refused() -> Result<()> {
    let (inner, faulty) = blobs();
    for service in ["", "Shop", "a/b", ".."] {
        assert!(
            LogWriter::new(faulty.clone(), service, options()).is_err(),
            "{service}"
        );
    }
    for delimiter in ['\\', '\n', 'x', ':', '\u{E4}'] {
        let options = options().with_format(LogFormat::Delimited(delimiter));
        assert!(
            LogWriter::new(faulty.clone(), "shop", options).is_err(),
            "{delimiter:?}"
        );
    }
    let log = LogWriter::new(faulty.clone(), "shop", options())?;
    assert!(log.append_fields(&["a"]).await.is_err());
    log.append(&1u32).await?;
    log.clone().close().await?;
    assert!(
        log.append(&2u32)
            .await
            .unwrap_err()
            .to_string()
            .contains("closed")
    );
    let blob = inner.list(None).try_next().await.unwrap().unwrap().location;
    inner
        .put_opts(
            &blob,
            "{\"log\":1}\nhalf".into(),
            object_store::PutOptions::default(),
        )
        .await
        .unwrap();
    assert!(
        all(&inner)
            .await
            .unwrap_err()
            .to_string()
            .contains("000001.log is damaged")
    );
    Ok(())
}

proptest::proptest! {
    /// The reader returns any text of a field unchanged.
    #[test]
    fn fields_round_trip(
        records in prop::collection::vec(prop::collection::vec(any::<String>(), 1..4), 1..8),
        delimiter in prop::sample::select(vec!['\t', ',', '|', ';']),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let check = async {
            let inner = Arc::new(InMemory::new());
            let options = LogOptions::default().with_format(LogFormat::Delimited(delimiter));
            let log = LogWriter::new(inner.clone(), "shop", options)?;
            for record in &records {
                log.append_fields(record).await?;
            }
            log.close().await?;
            let hour_ago = Ticks::new(Ticks::now().get() - 36_000_000_000).unwrap_or(Ticks::MIN);
            let read: Vec<_> = read_logs(inner, "shop", hour_ago..Ticks::MAX).try_collect().await?;
            let read: Vec<_> = read.iter().map(LogEntry::fields).collect();
            assert_eq!(read, records);
            Ok::<_, table_core::Error>(())
        };
        runtime.block_on(check).map_err(|e| proptest::test_runner::TestCaseError::fail(e.to_string()))?;
    }
}
