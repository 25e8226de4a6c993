use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use table_core::model::{Entity, IfMatch, Key, PartitionKey, ValueRef};
use table_core::store::{GroupTransaction, Operation, TableStore};
use tokio::time::{sleep, timeout};

use super::Fixture;
use super::disk::{SOUND, SYNCS_FAIL, SYNCS_WAIT, WRITES_FAIL, WRITES_PANIC};
use crate::EmbeddedStore;

const ROWS: usize = 300;

/// Asserts that the copy is complete.
async fn assert_copied(fixture: &Fixture) {
    let copy = EmbeddedStore::open(fixture.copy()).await.unwrap();
    for n in [0, ROWS - 1] {
        let key = Key::new("p", format!("{n:06}")).unwrap();
        assert!(
            copy.get(&fixture.table, &key, None)
                .await
                .unwrap()
                .is_some()
        );
    }
}

/// Waits until the backup is at a sync.
async fn until_it_waits(fixture: &Fixture) {
    while fixture.copies.waiting.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Asserts that a fault of the copy's disk, at each stage of a backup in turn, does not affect the store.
async fn backup_survives(fault: u8) {
    let fixture = Fixture::with_rows(ROWS).await;
    let mut failed = 0;
    for syncs in 0.. {
        fixture.copies.set_after(syncs, fault);
        let copied = fixture.store.backup(fixture.copy()).await;
        fixture.copies.set(SOUND);
        fixture.insert(&format!("after{syncs}")).await.unwrap();
        if copied.is_ok() {
            break;
        }
        failed += 1;
        let left: Vec<_> = fixture
            .copy()
            .read_dir()
            .unwrap()
            .map(|file| file.unwrap().file_name())
            .collect();
        assert_eq!(left, ["lock"], "after {syncs} syncs");
    }
    assert!(failed > 1, "the fault showed in {failed} stages");
    assert_copied(&fixture).await;
}

#[tokio::test]
async fn a_failed_sync_of_a_copy_does_not_affect_the_store() {
    backup_survives(SYNCS_FAIL).await;
}

#[tokio::test]
async fn a_full_disk_of_a_copy_does_not_affect_the_store() {
    backup_survives(WRITES_FAIL).await;
}

#[tokio::test]
async fn a_panic_of_the_engine_in_a_copy_does_not_affect_the_store() {
    backup_survives(WRITES_PANIC).await;
}

#[tokio::test]
async fn a_backup_continues_while_writes_fail() {
    let fixture = Fixture::with_rows(ROWS).await;
    fixture.copies.set(SYNCS_WAIT);
    let (copied, ()) = tokio::join!(fixture.store.backup(fixture.copy()), async {
        until_it_waits(&fixture).await;
        fixture.disk.set(SYNCS_FAIL);
        fixture.insert("during").await.unwrap_err();
        fixture.copies.set(SOUND);
    });
    copied.unwrap();
    assert_copied(&fixture).await;
    fixture.disk.set(SOUND);
    fixture.insert_until_it_works("after").await;
}

#[tokio::test]
async fn a_dropped_backup_continues_and_a_compaction_waits_for_it() {
    let fixture = Fixture::with_rows(ROWS).await;
    fixture.copies.set(SYNCS_WAIT);
    timeout(
        Duration::from_millis(50),
        fixture.store.backup(fixture.copy()),
    )
    .await
    .unwrap_err();
    until_it_waits(&fixture).await;
    let (compacted, ()) = tokio::join!(fixture.store.compact(), async {
        sleep(Duration::from_millis(50)).await;
        fixture.copies.set(SOUND);
    });
    compacted.unwrap();
    assert_copied(&fixture).await;
}

/// The backup takes many steps. Related rows are far apart and change together throughout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_in_steps_is_one_snapshot_and_lets_the_original_reuse_pages() {
    const ROWS: usize = 4000;
    let fixture = Fixture::with_rows(ROWS).await;
    let file = fixture.directory.path().join("store/tables.redb");
    let before = std::fs::metadata(&file).unwrap().len();
    let (done, round) = (AtomicBool::new(false), AtomicI32::new(0));
    // Each sync of the backup takes as long as ten changes: the disk lets one pass, however fast the backup is.
    fixture.copies.set(SYNCS_WAIT);
    let slow = async {
        while !done.load(Ordering::SeqCst) {
            let until = round.load(Ordering::SeqCst) + 10;
            while round.load(Ordering::SeqCst) < until && !done.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(1)).await;
            }
            fixture.copies.set_after(1, SYNCS_WAIT);
        }
        fixture.copies.set(SOUND);
    };
    let copying = async {
        fixture.store.backup(fixture.copy()).await.unwrap();
        done.store(true, Ordering::SeqCst);
    };
    let writing = async {
        while !done.load(Ordering::SeqCst) {
            let next = round.load(Ordering::SeqCst) + 1;
            change_together(&fixture, next).await;
            round.store(next, Ordering::SeqCst);
        }
        round.load(Ordering::SeqCst)
    };
    let ((), (), rounds) = tokio::join!(slow, copying, writing);
    assert!(rounds >= 80, "{rounds} rounds");
    let copy = EmbeddedStore::open(fixture.copy()).await.unwrap();
    let mut seen = HashSet::new();
    for n in (0..ROWS).step_by(ROWS / 50) {
        seen.insert(round_of(&copy, &fixture, &format!("{n:06}")).await.unwrap());
    }
    // All rows are of one round. Of the rows that each round inserts and the next deletes, only that round's
    // row exists.
    assert_eq!(seen.len(), 1, "{seen:?}");
    let round = seen.into_iter().next().unwrap();
    assert!(round > 0 && round <= rounds);
    for other in 1..=rounds {
        let there = round_of(&copy, &fixture, &format!("round{other:05}")).await;
        assert_eq!(there.is_some(), other == round, "{other} of {round}");
    }
    assert!(copy.verify(u64::MAX).await.unwrap().is_sound());
    let grown = std::fs::metadata(&file).unwrap().len();
    // Each change rewrites 50 leaves. If no page were reused before the end of the backup, the file, which
    // grows by doubling, would exceed their total size.
    let written = u64::try_from(rounds).unwrap() * 50 * 4096;
    assert!(
        grown < before + written,
        "{before} bytes grew to {grown}, {written} were written"
    );
}

async fn round_of(store: &EmbeddedStore, fixture: &Fixture, row: &str) -> Option<i32> {
    let found = store
        .get(&fixture.table, &Key::new("p", row).unwrap(), None)
        .await
        .unwrap()?;
    match found.get("Round") {
        Some(ValueRef::Int32(round)) => Some(round),
        other => panic!("{row} has {other:?}"),
    }
}

async fn change_together(fixture: &Fixture, round: i32) {
    let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), fixture.store.profile());
    let entity = |row: String| {
        Entity::new("p", row)
            .unwrap()
            .with("Round", round)
            .with("Text", "y".repeat(100).as_str())
    };
    for n in (0..4000).step_by(4000 / 50) {
        group
            .push(Operation::InsertOrReplace(entity(format!("{n:06}"))))
            .unwrap();
    }
    group
        .push(Operation::Insert(entity(format!("round{round:05}"))))
        .unwrap();
    if round > 1 {
        let before = Key::new("p", format!("round{:05}", round - 1)).unwrap();
        group.push(Operation::Delete(before, IfMatch::Any)).unwrap();
    }
    fixture.store.transact(&fixture.table, group).await.unwrap();
}

/// Each row changes once, so that a change that the backup misses is not made again. Rows of one group are far apart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_misses_no_change_that_is_made_once() {
    const ROWS: usize = 4000;
    const GROUPS: usize = 80;
    let fixture = Fixture::with_rows(ROWS).await;
    let (done, round) = (AtomicBool::new(false), AtomicI32::new(0));
    // Each step of the backup takes as long as five groups.
    let slow = async {
        while !done.load(Ordering::SeqCst) {
            fixture.copies.set(SYNCS_WAIT);
            let until = round.load(Ordering::SeqCst) + 5;
            while round.load(Ordering::SeqCst) < until && !done.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(1)).await;
            }
            fixture.copies.set(SOUND);
            sleep(Duration::from_millis(2)).await;
        }
    };
    let copying = async { fixture.store.backup(fixture.copy()).await.unwrap() };
    let writing = async {
        for group in 0..GROUPS {
            change_once(&fixture, group, ROWS / GROUPS, GROUPS).await;
            round.store(i32::try_from(group).unwrap() + 1, Ordering::SeqCst);
        }
        done.store(true, Ordering::SeqCst);
    };
    tokio::join!(slow, copying, writing);
    let copy = EmbeddedStore::open(fixture.copy()).await.unwrap();
    let mut states = Vec::new();
    for group in 0..GROUPS {
        let mut seen = HashSet::new();
        for n in 0..ROWS / GROUPS {
            let key = Key::new("p", format!("{:06}", group + n * GROUPS)).unwrap();
            let row = copy
                .get(&fixture.table, &key, None)
                .await
                .unwrap()
                .expect("a row");
            seen.insert(row.get("Round").is_some());
        }
        assert_eq!(seen.len(), 1, "group {group} is torn: {seen:?}");
        states.push(seen.into_iter().next().unwrap());
    }
    assert!(
        states.is_sorted_by(|earlier, later| earlier >= later),
        "a later group without an earlier one: {states:?}"
    );
}

async fn change_once(fixture: &Fixture, group: usize, rows: usize, step: usize) {
    let mut changes =
        GroupTransaction::new(PartitionKey::new("p").unwrap(), fixture.store.profile());
    for n in 0..rows {
        let row = Entity::new("p", format!("{:06}", group + n * step)).unwrap();
        let row = row
            .with("Round", i32::try_from(group).unwrap())
            .with("Text", "y".repeat(100).as_str());
        changes.push(Operation::InsertOrReplace(row)).unwrap();
    }
    fixture
        .store
        .transact(&fixture.table, changes)
        .await
        .unwrap();
}
