use std::sync::atomic::Ordering;

use table_core::store::{ErrorKind, Outcome, TableStore};
use tokio::time::{Duration, timeout};

use super::disk::{READS_FAIL, SOUND, SYNCS_FAIL, WRITES_FAIL, WRITES_PANIC};
use super::{Fixture, name};
use crate::Durability;
use crate::disk::FreeSpace;

/// Returns a store that a compaction can shrink.
async fn to_compact() -> Fixture {
    let fixture = Fixture::with_rows(200).await;
    let (first, second) = (name("First"), name("Second"));
    for table in [&first, &second] {
        fixture.store.create_table(table).await.unwrap();
        fixture.fill(table, 300).await;
    }
    fixture.store.delete_table(&first).await.unwrap();
    fixture
}

/// Reads during a compaction. Neither may wait forever.
async fn compact_and_read(fixture: &Fixture) -> table_core::Result<()> {
    let reading = async {
        for _ in 0..20 {
            // The file may be closed for a moment.
            let _ = fixture.exists("000001").await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let both = async { tokio::join!(fixture.store.compact(), reading).0 };
    timeout(Duration::from_secs(60), both)
        .await
        .expect("the compaction or a read waits forever")
}

/// Asserts that a fault at each stage of a compaction in turn ends the compaction only.
async fn compaction_survives(fault: u8) {
    let mut failed = 0;
    for syncs in 0.. {
        let fixture = to_compact().await;
        fixture.disk.set_after(syncs, fault);
        let compacted = compact_and_read(&fixture).await;
        let shown = fixture.disk.is(fault);
        fixture.disk.set(SOUND);
        if let Err(error) = &compacted {
            assert!(!error.to_string().contains("closed"), "{error}");
            failed += 1;
        }
        fixture.insert_until_it_works("after").await;
        assert!(fixture.exists("after").await.unwrap() && fixture.exists("000001").await.unwrap());
        fixture.store.compact().await.unwrap();
        fixture.store.close().await.unwrap();
        if !shown {
            break;
        }
    }
    assert!(failed > 3, "the fault showed in {failed} stages");
}

#[tokio::test]
async fn a_failed_sync_ends_only_the_compaction() {
    compaction_survives(SYNCS_FAIL).await;
}

#[tokio::test]
async fn a_full_disk_ends_only_the_compaction() {
    compaction_survives(WRITES_FAIL).await;
}

#[tokio::test]
async fn a_panic_of_the_engine_ends_only_the_compaction() {
    compaction_survives(WRITES_PANIC).await;
}

#[tokio::test]
async fn the_store_survives_a_panic_of_the_engine_between_requests() {
    let fixture = Fixture::new(Durability::Immediate).await;
    fixture.insert("before").await.unwrap();
    // Without requests, the store prepares the file for fast recovery, which fails.
    fixture.disk.set(WRITES_PANIC);
    tokio::time::sleep(Duration::from_millis(300)).await;
    fixture.disk.set(SOUND);
    fixture.insert_until_it_works("after").await;
    assert!(fixture.exists("before").await.unwrap());
}

/// The store notices this without a write.
#[tokio::test]
async fn reads_work_again_as_soon_as_the_disk_does() {
    let mut fixture = Fixture::with_rows(300).await;
    fixture.store.close().await.unwrap();
    fixture.builder = |builder| builder.cache_bytes(0);
    fixture.reopen().await;
    fixture.disk.set(READS_FAIL);
    fixture.exists("000001").await.unwrap_err();
    fixture.disk.set(SOUND);
    let found = async {
        loop {
            match fixture.exists("000001").await {
                Ok(found) => break found,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    };
    assert!(
        timeout(Duration::from_secs(60), found)
            .await
            .expect("reads keep failing")
    );
}

#[tokio::test]
async fn a_panic_while_closing_is_an_error_and_frees_the_directory() {
    let mut fixture = Fixture::new(Durability::Immediate).await;
    fixture.insert("before").await.unwrap();
    fixture.disk.set(WRITES_PANIC);
    let error = fixture.store.close().await.unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    fixture.disk.set(SOUND);
    fixture.reopen().await;
    assert!(fixture.exists("before").await.unwrap());
}

/// Compacting a full disk would use the remaining space and then fail.
#[tokio::test]
async fn a_compaction_without_disk_space_is_refused_before_any_change() {
    let mut fixture = to_compact().await;
    fixture.store.close().await.unwrap();
    fixture.builder = |mut builder| {
        builder.config.file.free_space = FreeSpace(|_| Ok(1 << 20));
        builder
    };
    fixture.reopen().await;
    let (opens, syncs) = (
        fixture.disk.opens.load(Ordering::SeqCst),
        fixture.disk.syncs(),
    );
    let error = compact_and_read(&fixture).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::StorageFull(_)) && error.outcome() == Outcome::NotApplied,
        "{error:?}"
    );
    assert!(error.to_string().contains("1048576 are free"), "{error}");
    assert_eq!(fixture.disk.opens.load(Ordering::SeqCst), opens);
    assert_eq!(fixture.disk.syncs(), syncs);
    fixture.insert("after").await.unwrap();
    assert!(fixture.exists("000001").await.unwrap());
}
