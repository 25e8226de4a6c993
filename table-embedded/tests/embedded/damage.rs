//! Pages that are damaged after the file was opened, or that opening did not check.

use std::fs;
use std::io::{Seek, SeekFrom, Write};

use table_core::query::Query;
use table_core::store::{ErrorKind, Result, TableStore};
use table_embedded::{EmbeddedStore, Reads};

use crate::support::{Place, fill, key, name};

const PAGE: usize = 4096;
const ROWS: usize = 1000;

/// Returns whether the read succeeded. A failure must say that the file is damaged or unreadable.
fn is_answer<T>(answer: &Result<T>) -> bool {
    answer.as_ref().map_or_else(
        |error| matches!(error.kind(), ErrorKind::Storage(_)),
        |_| true,
    )
}

/// Reads every row by its key, and all rows by a scan, without a panic. Returns whether damage was found.
async fn reads_are_answers(store: &EmbeddedStore) -> bool {
    let mut damaged = false;
    for n in (0..ROWS).step_by(7) {
        let read = store
            .get(&name("Things"), &key("p", &format!("{n:07}")), None)
            .await;
        assert!(is_answer(&read), "{read:?}");
        damaged |= read.is_err();
        let point = format!("PartitionKey eq 'p' and RowKey eq '{n:07}'");
        let point = Query::new().with_filter(point.parse().unwrap());
        let read = store.query(&name("Things"), &point, None).await;
        assert!(is_answer(&read), "{read:?}");
        damaged |= read.is_err();
    }
    let scan = store.query(&name("Things"), &Query::new(), None).await;
    assert!(is_answer(&scan), "{scan:?}");
    damaged | scan.is_err()
}

/// Overwrites a page of the file of an open store that has no page cache.
async fn overwritten(place: &Place, page: usize, filler: u8, reads: Reads) -> bool {
    let builder = EmbeddedStore::builder(place.path())
        .verify_up_to(0)
        .cache_bytes(0)
        .reads(reads);
    let store = builder.open().await.unwrap();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(place.file())
        .unwrap();
    file.seek(SeekFrom::Start((page * PAGE) as u64)).unwrap();
    file.write_all(&[filler; PAGE]).unwrap();
    let damaged = reads_are_answers(&store).await;
    // Closing may fail, because the file is damaged.
    let _ = store.close().await;
    damaged
}

/// With any contents of a page, a read succeeds or fails, and the task continues.
#[tokio::test]
async fn an_overwritten_page_at_any_place_is_an_error() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, ROWS).await;
    store.close().await.unwrap();
    let whole = fs::read(place.file()).unwrap();
    // The first page is the header. Leaves and branches start with their type; some leaves and all branches
    // are tried.
    let first_byte = |page: usize| whole[page * PAGE];
    let leaves = (1..whole.len() / PAGE)
        .filter(|page| first_byte(*page) == 1)
        .step_by(16);
    let branches = (1..whole.len() / PAGE).filter(|page| first_byte(*page) == 2);
    let (mut damaged, mut tried) = (0, 0);
    for page in leaves.chain(branches) {
        for (filler, reads) in [
            (0x00, Reads::Inline),
            (0x02, Reads::Inline),
            (0xFF, Reads::Blocking),
        ] {
            fs::write(place.file(), &whole).unwrap();
            damaged += usize::from(overwritten(&place, page, filler, reads).await);
            tried += 1;
        }
    }
    assert!(damaged > 4, "{damaged} of {tried} were noticed");
}

const CHILD: &str = "TABLE_EMBEDDED_DAMAGED";

/// The test starts itself as the program whose output is checked.
#[tokio::test]
async fn a_damaged_page_prints_no_panic() {
    let place = Place::new();
    if let Some(path) = std::env::var_os(CHILD) {
        let builder = EmbeddedStore::builder(&path).verify_up_to(0).cache_bytes(0);
        let Ok(store) = builder.open().await else {
            return;
        };
        reads_are_answers(&store).await;
        let _ = store.close().await;
        return;
    }
    let (store, table) = (place.open().await, name("Things"));
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, ROWS).await;
    store.close().await.unwrap();
    let mut damaged = fs::read(place.file()).unwrap();
    let key = damaged
        .windows(7)
        .rposition(|bytes| bytes == b"0000500")
        .unwrap();
    damaged[key / PAGE * PAGE..][..PAGE].fill(0xFF);
    fs::write(place.file(), &damaged).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "damage::a_damaged_page_prints_no_panic",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, place.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let printed = [child.stdout, child.stderr].concat();
    assert!(
        !String::from_utf8_lossy(&printed).contains("panicked at"),
        "{}",
        String::from_utf8_lossy(&printed)
    );
}
