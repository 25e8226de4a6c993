//! Slow blob stores, damaged blobs, and numbers with more than six digits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};
use object_store::{ObjectStore, ObjectStoreExt};
use table_core::adapter::CrashPoint;
use table_core::model::Ticks;
use table_core::store::Result;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{all, blobs, names, options};
use crate::log_blobs::{LogEntry, LogSync, LogWriter, read_logs};

/// Blobs whose creation takes a minute.
fn slow() -> (Arc<InMemory>, Arc<dyn ObjectStore>) {
    let inner = Arc::new(InMemory::new());
    let slowly = ThrottleConfig {
        wait_put_per_call: Duration::from_secs(60),
        ..Default::default()
    };
    let store = Arc::clone(&inner) as Arc<dyn ObjectStore>;
    (inner, Arc::new(ThrottledStore::new(store, slowly)))
}

#[tokio::test(start_paused = true)]
async fn appends_continue_during_a_slow_flush_until_the_buffers_are_full() -> Result<()> {
    let (inner, slow) = slow();
    let start = Instant::now();
    let log = LogWriter::new(
        slow,
        "shop",
        options().with_buffer(20_000, Duration::from_secs(20)),
    )?;
    let mut taken = 0u32;
    let refused = loop {
        match log.append(&taken).await {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert!(
        refused.to_string().contains("buffers are full"),
        "{refused}"
    );
    assert!(
        (1000..4000).contains(&taken),
        "four buffers of 20,000 bytes: {taken}"
    );

    log.flush().await?;
    log.append(&taken).await?;
    log.close().await?;
    assert!(all(&inner).await?.into_iter().eq(0..=taken));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn appends_during_a_flush_share_the_next_flush() -> Result<()> {
    let (inner, slow) = slow();
    let log = LogWriter::new(slow, "shop", options().with_sync(LogSync::Every(1)))?;
    let mut tasks: JoinSet<Result<()>> = JoinSet::new();
    for n in 0..10u32 {
        let log = log.clone();
        tasks.spawn(async move {
            tokio::time::sleep(Duration::from_secs(n.into())).await;
            log.append(&n).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic")?;
    }
    assert_eq!(names(&inner).await.len(), 2);
    assert!(all(&inner).await?.into_iter().eq(0..10));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn close_repeats_a_failed_request() -> Result<()> {
    // The list of the directory, and the blob.
    for (request, point) in [1, 2]
        .into_iter()
        .flat_map(|request| CrashPoint::ALL.map(|point| (request, point)))
    {
        let (inner, faulty) = blobs();
        let log = LogWriter::new(faulty.clone(), "shop", options())?;
        log.append(&0u32).await?;
        faulty.fail_at(request, point, false);
        log.close().await?;
        assert!(faulty.has_failed());
        assert_eq!(all(&inner).await?, [0]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_intact_records_of_a_damaged_blob_are_read() -> Result<()> {
    for (damage, whole) in [("half", vec![0, 2]), ("{\"time\":\"x\"}\nmore", vec![0, 2])] {
        let (inner, faulty) = blobs();
        let log = LogWriter::new(faulty, "shop", options())?;
        for n in 0..3u32 {
            log.append(&n).await?;
        }
        log.close().await?;
        let blob = inner.list(None).try_next().await.unwrap().unwrap().location;
        let content = inner.get(&blob).await.unwrap().bytes().await.unwrap();
        let mut lines: Vec<_> = std::str::from_utf8(&content).unwrap().lines().collect();
        lines[2] = damage;
        inner.put(&blob, lines.join("\n").into()).await.unwrap();

        let found: Vec<_> = read_logs(inner, "shop", Ticks::MIN..Ticks::MAX)
            .collect()
            .await;
        let (last, records) = found.split_last().unwrap();
        assert!(
            last.as_ref()
                .unwrap_err()
                .to_string()
                .contains("000001.log is damaged")
        );
        let records: Vec<u32> = records
            .iter()
            .map(|r| r.as_ref().unwrap().json().unwrap())
            .collect();
        assert_eq!(records, whole);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn blobs_are_read_in_the_order_of_their_numbers_past_999999() -> Result<()> {
    let (inner, faulty) = blobs();
    let log = LogWriter::new(faulty.clone(), "shop", options())?;
    for n in 0..2u32 {
        log.append(&n).await?;
        log.flush().await?;
    }
    for (from, to) in [("000001", "999999"), ("000002", "1000000")] {
        let path = |number| format!("shop/2014/07/31/1800/{number}.log").into();
        inner.rename(&path(from), &path(to)).await.unwrap();
    }
    assert_eq!(all(&inner).await?, [0, 1]);
    let log = LogWriter::new(faulty, "shop", options())?;
    log.append(&2u32).await?;
    log.close().await?;
    let read: Vec<_> = read_logs(inner.clone(), "shop", Ticks::MIN..Ticks::MAX)
        .try_collect()
        .await?;
    let read: Vec<u32> = read.iter().map(LogEntry::json).collect::<Result<_>>()?;
    assert_eq!(read, [0, 1, 2]);
    assert!(
        names(&inner)
            .await
            .contains(&"shop/2014/07/31/1800/1000001.log".to_owned())
    );
    Ok(())
}
