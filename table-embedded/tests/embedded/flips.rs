//! Single bit flips. Whatever byte they change, a read is correct or fails, and `verify` finds the damage.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};

use table_core::model::{Entity, PartitionKey, TableName};
use table_core::query::Query;
use table_core::store::{ErrorKind, GroupTransaction, Operation, Result, TableStore};
use table_embedded::{Durability, EmbeddedStore};

use crate::support::{Place, entity, fill, key, name};

const PAGE: usize = 4096;

/// Returns the leaves and the branches of a file. The first page is the header.
fn pages(file: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let of_type = |kind: u8| (1..file.len() / PAGE).filter(move |page| file[page * PAGE] == kind);
    (of_type(1).collect(), of_type(2).collect())
}

fn write_at(file: &mut File, at: usize, byte: u8) {
    file.seek(SeekFrom::Start(at as u64)).unwrap();
    file.write_all(&[byte]).unwrap();
}

/// Returns the rows of a scan, after checking their order.
async fn scan(store: &EmbeddedStore, table: &TableName) -> Result<Vec<Entity>> {
    let (mut rows, mut from) = (Vec::new(), None);
    loop {
        let page = store
            .query(table, &Query::new(), from.as_ref())
            .await?
            .into_page()?;
        rows.extend(page.items);
        from = page.continuation;
        if from.is_none() {
            return Ok(rows);
        }
    }
}

fn is_damage<T>(read: &Result<T>) -> bool {
    match read {
        Ok(_) => false,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Storage(_)), "{error:?}");
            true
        }
    }
}

/// Flips bits in one byte of an open store without page cache, and checks all reads. Returns whether a read
/// failed.
async fn flip(
    store: &EmbeddedStore,
    table: &TableName,
    expected: &BTreeMap<String, Entity>,
) -> bool {
    let scanned = scan(store, table).await;
    let mut damaged = is_damage(&scanned);
    if let Ok(rows) = scanned {
        assert!(
            rows.iter().eq(expected.values()),
            "{} rows of {}",
            rows.len(),
            expected.len()
        );
    }
    for (row, entity) in expected.iter().step_by(expected.len() / 7) {
        let read = store.get(table, &key("p", row), None).await;
        damaged |= is_damage(&read);
        assert!(read.is_err() || read.unwrap().as_ref() == Some(entity));
    }
    damaged
}

async fn rows(store: &EmbeddedStore, table: &TableName) -> BTreeMap<String, Entity> {
    scan(store, table)
        .await
        .unwrap()
        .into_iter()
        .map(|row| (row.key().row().to_owned(), row))
        .collect()
}

/// Returns an open store that reads each page from the file, and the file.
async fn reading(place: &Place) -> (EmbeddedStore, File) {
    let builder = EmbeddedStore::builder(place.path())
        .verify_up_to(0)
        .cache_bytes(0);
    let file = OpenOptions::new().write(true).open(place.file()).unwrap();
    (builder.open().await.unwrap(), file)
}

#[tokio::test]
async fn every_flip_in_a_small_file_is_found() {
    const FLIPS: usize = 80;
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 1500).await;
    store.compact().await.unwrap();
    store.close().await.unwrap();
    let (store, mut file) = reading(&place).await;
    let whole = fs::read(place.file()).unwrap();
    let expected = rows(&store, &table).await;
    let (leaves, branches) = pages(&whole);
    assert!(!branches.is_empty());
    let (mut random, mut damaged, mut found) = (fastrand::Rng::with_seed(32), 0, 0);
    for n in 0..FLIPS {
        // As many flips in branches as in leaves, and more at the start of pages.
        let pages = if n % 2 == 0 { &leaves } else { &branches };
        let within = if n % 3 == 0 {
            random.usize(..64)
        } else {
            random.usize(..PAGE)
        };
        let at = random.choice(pages).unwrap() * PAGE + within;
        write_at(&mut file, at, whole[at] ^ (1 << random.u32(..8)));
        let noticed = flip(&store, &table, &expected).await;
        // If every commit needs the damaged page, `verify` returns an error instead of a report.
        let report = store.verify(u64::MAX).await;
        let is_found = is_damage(&report) || !report.unwrap().is_sound();
        // The scan does not read pages of other tables or free pages, and the end of a page is unused.
        assert!(!noticed || is_found, "byte {at}");
        damaged += usize::from(noticed);
        found += usize::from(is_found);
        write_at(&mut file, at, whole[at]);
    }
    assert!(
        damaged > FLIPS / 3 && found >= damaged,
        "{damaged} noticed, {found} found"
    );
    // A flip in a page that each commit needs prevents writes until the file is reopened.
    let insert = || store.write(&table, Operation::Insert(entity("p", "after")));
    for _ in 0..600 {
        if insert().await.is_ok() {
            assert!(store.verify(u64::MAX).await.unwrap().is_sound());
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("the store cannot be written any more");
}

/// A file above the size that opening verifies by default.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_flip_in_a_large_file_is_found() {
    const ROWS: usize = 17_000;
    let (place, table) = (Place::new(), name("Things"));
    let store = EmbeddedStore::builder(place.path())
        .durability(Durability::Relaxed)
        .open()
        .await
        .unwrap();
    store.create_table(&table).await.unwrap();
    let text = "x".repeat(3800);
    for first in (0..ROWS).step_by(100) {
        let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), store.profile());
        for n in first..first + 100 {
            group
                .push(Operation::Insert(
                    entity("p", &format!("{n:07}")).with("Text", text.as_str()),
                ))
                .unwrap();
        }
        store.transact(&table, group).await.unwrap();
    }
    store.compact().await.unwrap();
    store.close().await.unwrap();
    let len = fs::metadata(place.file()).unwrap().len();
    assert!(len > 64 << 20, "{len} bytes");

    let store = EmbeddedStore::builder(place.path())
        .cache_bytes(0)
        .open()
        .await
        .unwrap();
    let mut file = OpenOptions::new().write(true).open(place.file()).unwrap();
    let mut whole = Vec::new();
    File::open(place.file())
        .unwrap()
        .read_to_end(&mut whole)
        .unwrap();
    let (_, branches) = pages(&whole);
    let (mut random, mut damaged) = (fastrand::Rng::with_seed(64), 0);
    for n in 0..24 {
        let page = random.choice(&branches).unwrap() * PAGE;
        let keys = usize::from(u16::from_le_bytes([whole[page + 2], whole[page + 3]]));
        // The number of keys, a pointer, the end of a key, a separator.
        let children = 8 + 24 * (keys + 1);
        let within = match n % 4 {
            0 => 2 + random.usize(..2),
            1 => 8 + 16 * (keys + 1) + random.usize(..8 * (keys + 1)),
            2 => children + random.usize(..4 * keys),
            _ => (children + 4 * keys + random.usize(..16 * keys)).min(PAGE - 1),
        };
        let at = page + within;
        write_at(&mut file, at, whole[at] ^ (1 << random.u32(..8)));
        let counted = count_or_damage(&store, &table, ROWS).await;
        damaged += usize::from(counted);
        write_at(&mut file, at, whole[at]);
    }
    assert!(
        damaged >= 8,
        "{damaged} of 24 flips in branches were noticed"
    );
    let report = store.verify(u64::MAX).await.unwrap();
    assert!(
        report.is_sound() && report.rows == ROWS as u64,
        "{report:?}"
    );
    assert!(report.bytes > 64 << 20, "{report:?}");
}

/// Scans the whole table without its texts. Either all rows are returned or an error reports damage.
async fn count_or_damage(store: &EmbeddedStore, table: &TableName, rows: usize) -> bool {
    let query = Query::new().with_select(table_core::query::Select::new(["Value"]));
    let (mut count, mut from) = (0, None);
    loop {
        let page = store.query(table, &query, from.as_ref()).await;
        if is_damage(&page) {
            return true;
        }
        let page = page.unwrap().into_page().unwrap();
        count += page.items.len();
        from = page.continuation;
        if from.is_none() {
            assert_eq!(count, rows, "rows are missing without an error");
            return false;
        }
    }
}

/// One page is damaged; the other rows can be read and written.
#[tokio::test]
async fn a_damaged_page_affects_only_its_rows() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 1000).await;
    store.close().await.unwrap();
    let (store, mut file) = reading(&place).await;
    let whole = fs::read(place.file()).unwrap();
    let at = whole
        .windows(7)
        .rposition(|bytes| bytes == b"0000500")
        .unwrap();
    write_at(&mut file, at, b'9');
    let insert = |row: &str| store.write(&table, Operation::InsertOrReplace(entity("p", row)));
    for _ in 0..3 {
        assert!(is_damage(
            &store.get(&table, &key("p", "0000500"), None).await
        ));
        let refused = insert("0000500").await;
        assert!(is_damage(&refused) && !refused.unwrap_err().is_ambiguous());
        for row in ["0000000", "0000999", "new"] {
            insert(row).await.unwrap();
            assert!(
                store
                    .get(&table, &key("p", row), None)
                    .await
                    .unwrap()
                    .is_some()
            );
        }
    }
    let report = store.verify(u64::MAX).await.unwrap();
    assert_eq!(report.damaged, 1, "{report:?}");
    assert_eq!(report.damages.len(), 1, "{report:?}");
    assert_eq!(report.damages[0].offset, (at / PAGE * PAGE) as u64);
    let backup = store.backup(place.other("copy")).await;
    assert!(is_damage(&backup));
    assert!(!place.other("copy").join("tables.redb").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn verification_runs_during_writes() {
    let (place, table) = (Place::new(), name("Things"));
    let store = place.open().await;
    store.create_table(&table).await.unwrap();
    fill(&store, &table, 0, 1000).await;
    let verifying = tokio::spawn({
        let store = store.clone();
        // 1 MiB per second: several snapshots.
        async move { store.verify(1 << 20).await.unwrap() }
    });
    let mut written = 1000;
    while !verifying.is_finished() && written < 10_000 {
        fill(&store, &table, written, written + 100).await;
        written += 100;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let report = verifying.await.unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert!((1000..=written as u64).contains(&report.rows), "{report:?}");
    assert!(report.pages > 0 && report.bytes >= report.pages * PAGE as u64);

    let reader_place = Place::new();
    store.backup(reader_place.path()).await.unwrap();
    let reader = EmbeddedStore::builder(reader_place.path())
        .read_only()
        .open()
        .await
        .unwrap();
    assert_eq!(reader.verify(u64::MAX).await.unwrap().rows, written as u64);
}
