use std::sync::atomic::Ordering;
use std::time::Duration;

use table_core::model::{IfMatch, Key};
use table_core::query::Query;
use table_core::store::{Error, ErrorKind, Operation, Outcome, TableStore};

use super::disk::{SOUND, SYNCS_FAIL, SYNCS_WAIT, WRITES_FAIL, WRITES_PANIC};
use super::{Fixture, name};
use crate::file::checksums::UNKNOWN;
use crate::{Durability, EmbeddedStore};

/// Asserts that a fault in one write leaves earlier writes intact and later writes working. Returns the error
/// of the failed write.
async fn survives(fault: u8) -> Error {
    let fixture = Fixture::new(Durability::Immediate).await;
    let before = fixture.insert("before").await.unwrap();

    fixture.disk.set(fault);
    let error = fixture.insert("during").await.unwrap_err();
    // The store reopens the file during the fault, and again afterwards.
    tokio::time::sleep(Duration::from_millis(100)).await;

    fixture.disk.set(SOUND);
    let after = fixture.insert_until_it_works("after").await;
    assert_ne!(before.etag, after.etag);
    assert!(fixture.exists("before").await.unwrap());
    assert!(fixture.exists("after").await.unwrap());
    // Both results are correct, but they must agree: a second insert matches what is read.
    let during = fixture.exists("during").await.unwrap();
    assert_eq!(fixture.insert("during").await.is_err(), during);
    assert!(!during || error.is_ambiguous());
    fixture.store.close().await.unwrap();
    error
}

#[tokio::test]
async fn a_failed_sync_is_ambiguous_and_the_store_recovers() {
    let error = survives(SYNCS_FAIL).await;
    assert!(
        error.is_ambiguous() && matches!(error.kind(), ErrorKind::Storage(_)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_full_disk_has_its_own_error_and_the_store_recovers() {
    let error = survives(WRITES_FAIL).await;
    assert!(
        matches!(error.kind(), ErrorKind::StorageFull(_)) && error.outcome() == Outcome::NotApplied,
        "{error:?}"
    );
}

#[tokio::test]
async fn a_panic_of_the_engine_is_ambiguous_and_the_store_recovers() {
    let error = survives(WRITES_PANIC).await;
    assert!(
        error.is_ambiguous() && matches!(error.kind(), ErrorKind::Storage(_)),
        "{error:?}"
    );
}

#[tokio::test]
async fn while_the_disk_fails_later_writes_are_not_applied() {
    let fixture = Fixture::new(Durability::Immediate).await;
    fixture.insert("before").await.unwrap();
    fixture.disk.set(SYNCS_FAIL);
    assert!(fixture.insert("first").await.unwrap_err().is_ambiguous());
    let error = fixture.insert("second").await.unwrap_err();
    assert!(!error.is_ambiguous(), "{error}");

    fixture.disk.set(SOUND);
    fixture.insert_until_it_works("after").await;
    assert!(!fixture.exists("second").await.unwrap());
}

/// Reads continue without interruption, as of the last acknowledged commit.
#[tokio::test]
async fn reads_continue_while_writes_fail() {
    for fault in [SYNCS_FAIL, WRITES_FAIL] {
        let mut fixture = Fixture::with_rows(300).await;
        fixture.store.close().await.unwrap();
        // Without a cache, every read goes to the file.
        fixture.builder = |builder| builder.cache_bytes(0);
        fixture.reopen().await;
        fixture.insert("before").await.unwrap();
        fixture.disk.set(fault);
        let opens = fixture.disk.opens.load(Ordering::SeqCst);
        for n in 0..200 {
            fixture.insert(&format!("during{n}")).await.unwrap_err();
            assert!(fixture.exists(&format!("{n:06}")).await.unwrap());
            assert!(fixture.exists("before").await.unwrap());
            assert!(!fixture.exists(&format!("during{n}")).await.unwrap());
        }
        // Each write failed, but the store did not reopen the file for each of them.
        let opens = fixture.disk.opens.load(Ordering::SeqCst) - opens;
        assert!((1..20).contains(&opens), "opened {opens} times");
        fixture.disk.set(SOUND);
        fixture.insert_until_it_works("after").await;
        assert!(fixture.exists("before").await.unwrap() && fixture.exists("000001").await.unwrap());
    }
}

#[tokio::test]
async fn relaxed_writes_reach_the_disk_without_a_request() {
    let fixture = Fixture::new(Durability::Relaxed).await;
    fixture.insert("first").await.unwrap();
    let syncs = fixture.disk.syncs();
    fixture.insert("second").await.unwrap();
    while fixture.disk.syncs() == syncs {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The caller of a dropped write may have done something else since.
#[tokio::test]
async fn a_write_that_is_dropped_before_its_turn_is_not_done() {
    let fixture = Fixture::new(Durability::Immediate).await;
    fixture.disk.set(SYNCS_WAIT);
    let first = fixture.insert("first");
    let second = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let second =
            tokio::time::timeout(Duration::from_millis(50), fixture.insert("second")).await;
        fixture.disk.set(SOUND);
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_ok() && second.is_err());
    fixture.insert("third").await.unwrap();
    assert!(!fixture.exists("second").await.unwrap());
}

/// Another process shares the operating system's cache and must not trust it either.
#[tokio::test]
async fn a_failed_sync_is_recorded_for_later_processes() {
    let mut fixture = Fixture::new(Durability::Immediate).await;
    let lock = fixture.directory.path().join("store/lock");
    fixture.insert("before").await.unwrap();
    assert_eq!(std::fs::read(&lock).unwrap(), b"");
    fixture.disk.set(SYNCS_FAIL);
    fixture.insert("during").await.unwrap_err();
    fixture.store.close().await.unwrap_err();
    assert_eq!(std::fs::read(&lock).unwrap(), b"unsynced");
    let reader = EmbeddedStore::builder(fixture.directory.path().join("store"))
        .read_only()
        .open()
        .await;
    assert!(
        reader
            .unwrap_err()
            .to_string()
            .contains("open the store for writing once")
    );
    fixture.disk.set(SOUND);
    fixture.reopen().await;
    assert_eq!(std::fs::read(&lock).unwrap(), b"");
    assert!(fixture.exists("before").await.unwrap());
    fixture.insert("after").await.unwrap();
}

/// Operations on a store without page cache never read a page whose checksum is unknown.
#[tokio::test]
async fn every_page_that_is_read_is_compared_with_its_checksum() {
    let mut fixture = Fixture::new(Durability::Relaxed).await;
    fixture.builder = |builder| builder.cache_bytes(0).verify_up_to(0).scan_up_to(0);
    for round in 0..3 {
        fixture.store.close().await.unwrap();
        fixture.reopen().await;
        let table = name(&format!("Table{round}"));
        fixture.store.create_table(&table).await.unwrap();
        fixture.fill(&table, 1500).await;
        for n in (0..1500).step_by(3) {
            let key = Key::new("p", format!("{n:06}")).unwrap();
            fixture
                .store
                .write(&table, Operation::Delete(key, IfMatch::Any))
                .await
                .unwrap();
        }
        let rows = fixture
            .store
            .query(&table, &Query::new(), None)
            .await
            .unwrap()
            .into_page()
            .unwrap()
            .items
            .len();
        assert_eq!(rows, 1000);
        fixture.disk.set(SYNCS_FAIL);
        fixture
            .store
            .create_table(&name("Others"))
            .await
            .unwrap_err();
        fixture.disk.set(SOUND);
        fixture
            .insert_until_it_works(&format!("after{round}"))
            .await;
        if round == 1 {
            fixture.store.delete_table(&table).await.unwrap();
            fixture.store.compact().await.unwrap();
        }
        assert!(fixture.exists(&format!("after{round}")).await.unwrap());
    }
    assert_eq!(UNKNOWN.load(Ordering::SeqCst), 0);
}
