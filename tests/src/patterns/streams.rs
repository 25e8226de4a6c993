//! Streams hold a bounded number of pages, values or operations, whatever the size of the input and the speed
//! of the caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use table_core::Result;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, TableName};
use table_core::query::Query;
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_core::typed::TableEntity;
use table_patterns::Database;
use table_patterns::bulk::{BulkOptions, BulkWriter, CopyJob, scan_partitions, split_partitions};
use table_patterns::spread::SpreadTable;
use tokio::task::yield_now;

use super::counting_blobs::CountingBlobs;
use crate::Harness;
use crate::wrappers::SmallPageStore;

const ROWS: usize = 240;
const PAGE: usize = 10;

fn row(n: usize) -> Entity {
    Entity::new(["a", "b", "c"][n % 3], format!("{n:04}")).expect("a legal key")
}

fn inserts(
    table: &TableName,
    rows: usize,
) -> impl Iterator<Item = Result<(TableName, Operation)>> + Send + use<> {
    let table = table.clone();
    (0..rows).map(move |n| Ok((table.clone(), Operation::Insert(row(n)))))
}

async fn fill(harness: &Harness) -> TableName {
    let table = harness.table().await.name().clone();
    let writer = BulkWriter::new(harness.store().clone());
    let written = writer
        .write(stream::iter(inserts(&table, ROWS)))
        .await
        .expect("the store works");
    assert_eq!(written.written, ROWS as u64);
    table
}

/// A store with small pages and counted requests.
fn paged(harness: &Harness) -> (Arc<dyn TableStore>, RequestMeter) {
    let meter = RequestMeter::new();
    let metered = Arc::new(Metered::new(harness.store().clone(), meter.clone()));
    (Arc::new(SmallPageStore::new(PAGE, metered)), meter)
}

/// Takes all items; after each item, compares the items that the stream has read with the items taken. Returns
/// the number of items, and the largest number that was read ahead.
async fn most_ahead<T>(
    items: impl Stream<Item = Result<T>>,
    begun: impl Fn() -> usize,
) -> (usize, usize) {
    let (mut items, mut taken, mut most) = (std::pin::pin!(items), 0, 0);
    while let Some(item) = items.next().await {
        item.expect("the stores work");
        most = most.max(begun().saturating_sub(taken));
        taken += 1;
        // A task that reads ahead gets time to do so.
        yield_now().await;
    }
    (taken, most)
}

/// A stream holds one page per concurrent range, and reads no page before its caller needs the page.
pub(crate) async fn queries_hold_one_page_per_range(harness: &Harness) {
    let table = fill(harness).await;
    let (store, meter) = paged(harness);
    let rows = store.query_stream(table.clone(), Query::new());
    let (taken, most) = most_ahead(rows, || meter.total() as usize * PAGE).await;
    assert_eq!(taken, ROWS);
    assert_eq!(most, PAGE);

    meter.reset();
    let ranges = split_partitions(["b", "c"]);
    let rows = scan_partitions(store.clone(), &table, &Query::new(), ranges, 2);
    let (taken, most) = most_ahead(rows, || meter.total() as usize * PAGE).await;
    // The last page of a range can be empty.
    assert_eq!(taken, ROWS, "{most} of {taken} rows were held");
    assert!(most <= (2 + 3) * PAGE, "{most} of {taken} rows were held");
}

const BUCKETS: usize = 4;

#[derive(Debug, TableEntity)]
#[entity(type = "Reading")]
struct Reading {
    #[partition_key(spread = 4)]
    day: String,
    #[row_key(format = "{:04}")]
    number: u32,
}

/// A merge holds two pages per bucket.
pub(crate) async fn merged_buckets_hold_two_pages_each(harness: &Harness) {
    let (store, meter) = paged(harness);
    let table = harness.table().await.name().clone();
    let readings = SpreadTable::<Reading>::new(store, table).expect("a table");
    for number in 0..ROWS as u32 {
        readings
            .insert(&Reading {
                day: "monday".to_owned(),
                number,
            })
            .await
            .expect("a new reading");
    }
    meter.reset();
    let merged = readings
        .query()
        .partition(Reading::partition("monday").expect("a key"))
        .stream();
    let (taken, most) = most_ahead(merged, || meter.total() as usize * PAGE).await;
    // The last page of a bucket is not full.
    assert_eq!(taken, ROWS, "{most} of {taken} rows were held");
    assert!(
        most <= (2 * BUCKETS + BUCKETS) * PAGE,
        "{most} of {taken} rows were held"
    );
}

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Film")]
struct Film {
    #[partition_key]
    year: u32,
    #[row_key]
    number: u32,
    #[large(over = 10)]
    pictures: Vec<u8>,
}

const AT_ONCE: usize = 3;

/// A stream reads a fixed number of large values concurrently, and the next value when its caller takes one.
pub(crate) async fn large_values_are_read_on_demand(harness: &Harness) {
    let (store, table) = (
        harness.store().clone(),
        harness.table().await.name().clone(),
    );
    let blobs = Arc::new(CountingBlobs::new(harness.blobs().await));
    let db = Database::new(store).with_blobs(blobs.clone());
    let films = db.table::<Film>(table).expect("a table");
    let films = films.with_concurrency(AT_ONCE);
    for number in 0..12 {
        films
            .insert(&Film {
                year: 1895,
                number,
                pictures: vec![1; 100_000],
            })
            .await
            .expect("a new film");
    }
    let before = blobs.requests();
    let begun = || (blobs.requests() - before) as usize;
    let (taken, most) = most_ahead(films.query().stream(), begun).await;
    assert_eq!(taken, 12, "{most} values were held");
    assert!(most <= AT_ONCE, "{most} values were held");
}

/// A streamed large value is sent part by part.
pub(crate) async fn streamed_large_values_are_sent_in_parts(harness: &Harness) {
    const PART: usize = 8 * 1024 * 1024;
    const PIECE: usize = 1024 * 1024;
    let (store, table) = (
        harness.store().clone(),
        harness.table().await.name().clone(),
    );
    let blobs = Arc::new(CountingBlobs::new(harness.blobs().await));
    let db = Database::new(store).with_blobs(blobs.clone());
    let films = db.table::<Film>(table).expect("a table");
    let film = Film {
        year: 1895,
        number: 1,
        pictures: Vec::new(),
    };
    films.insert(&film).await.expect("a new film");
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, counted) = (most.clone(), blobs.clone());
    let pieces = stream::iter(0..2 * PART / PIECE + 2).map(move |n| {
        // The first request starts the upload.
        let parts = (counted.requests() as usize).saturating_sub(1);
        seen.fetch_max(
            (n + 1) * PIECE - (parts * PART).min((n + 1) * PIECE),
            Ordering::SeqCst,
        );
        Ok(Bytes::from(vec![2; PIECE]))
    });
    films
        .put_stream(
            film.entity_key().expect("a key"),
            Film::PICTURES,
            pieces,
            IfMatch::Any,
        )
        .await
        .expect("a film");
    let most = most.load(Ordering::SeqCst);
    assert!((PART..=2 * PART).contains(&most), "{most} bytes were held");
}

/// A bulk write reads at most the operations that can wait or be in flight.
pub(crate) async fn bulk_writes_hold_a_bounded_number_of_operations(harness: &Harness) {
    const WAITING: usize = 20;
    let table = harness.table().await.name().clone();
    let read = Arc::new(AtomicUsize::new(0));
    let counted = read.clone();
    let input = stream::iter(inserts(&table, ROWS)).inspect(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let options = BulkOptions::default()
        .with_concurrency(2)
        .with_max_waiting(WAITING, usize::MAX);
    let outcomes = BulkWriter::with_options(harness.store().clone(), options).outcomes(input);
    let (taken, most) = most_ahead(outcomes, || read.load(Ordering::SeqCst)).await;
    assert_eq!(taken, ROWS, "{most} operations were held");
    assert!(most <= 4 * WAITING, "{most} operations were held");
}

/// A copy reads one window while it writes the previous window.
pub(crate) async fn copies_read_one_window_ahead(harness: &Harness) {
    const WINDOW: usize = 40;
    let from = fill(harness).await;
    let (store, meter) = paged(harness);
    let most = Arc::new(AtomicUsize::new(0));
    let seen = most.clone();
    // Under the same name: for another name the job looks for ciphertext first, which would be counted.
    let job = CopyJob::new((store, from.clone()), (Arc::new(MemoryStore::new()), from));
    let job = job.with_window(WINDOW).on_progress(move |written| {
        let read = (meter.total() as usize * PAGE).min(ROWS);
        seen.fetch_max(read - written as usize, Ordering::SeqCst);
    });
    assert_eq!(job.run().await.expect("the stores work").rows, ROWS as u64);
    let most = most.load(Ordering::SeqCst);
    assert!(most <= WINDOW, "{most} rows were ahead");
}
