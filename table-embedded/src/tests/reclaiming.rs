use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use table_core::store::TableStore;

use super::disk::{FULL, SOUND};
use super::{Fixture, name};
use crate::Durability;

/// The rows are removed after the answer, in commits of bounded size.
#[tokio::test]
async fn dropping_a_table_of_any_size_is_one_small_commit() {
    const SMALL: usize = 128 << 10;
    for rows in [10, 10_000] {
        let fixture = Fixture::with_rows(rows).await;
        let commits = fixture.disk.commits.lock().unwrap().len();
        fixture.store.delete_table(&fixture.table).await.unwrap();
        let written: usize = fixture.disk.commits.lock().unwrap()[commits..].iter().sum();
        assert!(
            written > 0 && written < SMALL,
            "{written} bytes for {rows} rows"
        );
        fixture.store.create_table(&fixture.table).await.unwrap();
        assert!(!fixture.exists("000001").await.unwrap());
    }
}

/// Returns a store with a table that has one unreadable page.
async fn with_a_damaged_table() -> Fixture {
    let mut fixture = Fixture::new(Durability::Relaxed).await;
    for table in ["Damaged", "Sound"] {
        fixture.store.create_table(&name(table)).await.unwrap();
        fixture.fill(&name(table), 3000).await;
    }
    fixture.store.close().await.unwrap();
    let bytes = fs::read(fixture.directory.path().join("store/tables.redb")).unwrap();
    // The key of a row in the middle of the table.
    let key = [&2_u64.to_be_bytes()[..], b"p\x00001500"].concat();
    let row = bytes
        .windows(key.len())
        .rposition(|window| window == key)
        .unwrap() as u64;
    *fixture.disk.damaged.lock().unwrap() = Some(row..row + 1);
    fixture.builder = |builder| builder.verify_up_to(0).cache_bytes(0);
    fixture.reopen().await;
    fixture
}

#[tokio::test]
async fn a_dropped_table_that_cannot_be_reclaimed_blocks_nothing() {
    let fixture = with_a_damaged_table().await;
    let opens = fixture.disk.opens.load(Ordering::SeqCst);
    fixture.store.delete_table(&name("Sound")).await.unwrap();
    fixture.store.delete_table(&name("Damaged")).await.unwrap();
    for n in 0..100 {
        fixture.insert(&format!("a{n}")).await.unwrap();
        assert!(fixture.exists(&format!("a{n}")).await.unwrap());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // An unreadable page is no reason to reopen the file.
    assert_eq!(fixture.disk.opens.load(Ordering::SeqCst), opens);
    fixture.store.close().await.unwrap();
}

/// A typical reason to drop a table is a full disk.
#[tokio::test]
async fn on_a_full_disk_a_table_is_dropped_or_kept_and_reads_continue() {
    let fixture = Fixture::with_rows(1).await;
    let large = name("Large");
    fixture.store.create_table(&large).await.unwrap();
    fixture.fill(&large, 20_000).await;
    fixture.disk.set(FULL);
    let dropped = fixture.store.delete_table(&large).await;
    for _ in 0..50 {
        assert!(fixture.exists("000000").await.unwrap());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    fixture.disk.set(SOUND);
    fixture.insert_until_it_works("after").await;
    if dropped.is_err() {
        fixture.store.delete_table(&large).await.unwrap();
    }
    fixture.store.compact().await.unwrap();
    assert!(fixture.exists("after").await.unwrap());
    let length = fs::metadata(fixture.directory.path().join("store/tables.redb"))
        .unwrap()
        .len();
    assert!(length < 1 << 20, "{length} bytes are left");
}
