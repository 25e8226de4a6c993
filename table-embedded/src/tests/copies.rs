use std::sync::atomic::Ordering;
use std::time::Duration;

use table_core::model::Key;
use table_core::store::TableStore;
use tokio::time::{sleep, timeout};

use super::Fixture;
use super::disk::{SOUND, SYNCS_FAIL, SYNCS_WAIT, WRITES_FAIL, WRITES_PANIC};
use crate::EmbeddedStore;

const ROWS: usize = 300;

/// The copy is whole.
async fn assert_copied(fixture: &Fixture) {
    let copy = EmbeddedStore::open(fixture.copy()).await.unwrap();
    for n in [0, ROWS - 1] {
        let key = Key::new("p", format!("{n:06}")).unwrap();
        assert!(copy.get(&fixture.table, &key, None).await.unwrap().is_some());
    }
}

/// Until the backup is in the middle of its work.
async fn until_it_waits(fixture: &Fixture) {
    while fixture.copies.waiting.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
}

/// The fault of the other disk shows in each stage of a backup in turn.
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
        let left: Vec<_> = fixture.copy().read_dir().unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["lock"], "after {syncs} syncs");
    }
    assert!(failed > 1, "the fault showed in {failed} stages");
    assert_copied(&fixture).await;
}

#[tokio::test]
async fn a_failed_sync_of_a_copy_harms_nothing_else() {
    backup_survives(SYNCS_FAIL).await;
}

#[tokio::test]
async fn a_full_disk_of_a_copy_harms_nothing_else() {
    backup_survives(WRITES_FAIL).await;
}

#[tokio::test]
async fn a_panic_of_the_engine_in_a_copy_harms_nothing_else() {
    backup_survives(WRITES_PANIC).await;
}

#[tokio::test]
async fn a_backup_goes_on_while_the_store_cannot_be_written() {
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
async fn a_backup_that_nobody_waits_for_goes_on_and_a_compaction_waits_for_it() {
    let fixture = Fixture::with_rows(ROWS).await;
    fixture.copies.set(SYNCS_WAIT);
    timeout(Duration::from_millis(50), fixture.store.backup(fixture.copy())).await.unwrap_err();
    until_it_waits(&fixture).await;
    let (compacted, ()) = tokio::join!(fixture.store.compact(), async {
        sleep(Duration::from_millis(50)).await;
        fixture.copies.set(SOUND);
    });
    compacted.unwrap();
    assert_copied(&fixture).await;
}
