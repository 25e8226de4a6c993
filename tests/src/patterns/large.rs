//! Large entities: rows and blobs in the stores of the backend.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, PutOptions};
use table_core::model::{ETag, IfMatch, TableName};
use table_core::typed::TableEntity;
use table_patterns::large::{CollectMode, LargeOptions};
use table_patterns::{Database, Table};
use tokio::task::JoinSet;

use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Document",
    rename_all = "PascalCase",
    partition_key = "{folder}",
    row_key = "doc_{number:04}"
)]
struct Document {
    folder: String,
    number: u32,
    #[large]
    text: String,
    #[large(over = 1000)]
    scan: Option<Vec<u8>>,
    #[etag]
    etag: Option<ETag>,
}

fn document(number: u32, text: &str, scan: usize) -> Document {
    let scan = (scan > 0).then(|| vec![number as u8; scan]);
    Document {
        folder: "In / Out".replace('/', "+"),
        number,
        text: text.to_owned(),
        scan,
        etag: None,
    }
}

/// A table of documents with its blobs.
async fn open(harness: &Harness) -> (Table<Document>, Arc<dyn ObjectStore>) {
    let (table, blobs) = (harness.table().await, harness.blobs().await);
    (
        over(table.name(), harness, &blobs, Duration::from_secs(30)),
        blobs,
    )
}

/// The same table; its writes have this deadline.
fn over(
    table: &TableName,
    harness: &Harness,
    blobs: &Arc<dyn ObjectStore>,
    deadline: Duration,
) -> Table<Document> {
    let options = LargeOptions::default().with_write_deadline(deadline);
    let db = Database::new(Arc::clone(harness.store())).with_blobs(Arc::clone(blobs));
    db.with_large(options)
        .table(table.clone())
        .expect("a table")
}

async fn blob_count(blobs: &dyn ObjectStore) -> usize {
    blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .expect("names")
        .len()
}

/// Values of every size are written and read by points, queries and streams. A smaller value or a deletion
/// leaves no blob behind.
pub(crate) async fn values_of_every_size_are_stored(harness: &Harness) {
    let (documents, blobs) = open(harness).await;
    let long = "a long text with \u{1F600} ".repeat(20_000);
    let all = [
        document(1, "short", 0),
        document(2, &long, 500),
        document(3, &long, 3_000_000),
    ];
    for document in &all {
        documents.insert(document).await.expect("a new document");
    }
    assert_eq!(blob_count(&*blobs).await, 3);
    let query = documents
        .query()
        .partition(Document::partition("In + Out").expect("a key"));
    let read = query.all().await.expect("documents");
    let read: Vec<_> = read
        .into_iter()
        .map(|document| Document {
            etag: None,
            ..document
        })
        .collect();
    assert_eq!(read, all);

    let key = all[2].entity_key().expect("a key");
    let pieces = stream::iter(vec![Ok(Bytes::from(vec![7; 1_000_000])); 9]);
    documents
        .put_stream(&key, Document::SCAN, pieces, IfMatch::Any)
        .await
        .expect("a stream in");
    let content = documents
        .read_stream(&key, Document::SCAN)
        .await
        .expect("a stream")
        .expect("a value");
    let bytes = content
        .content
        .try_fold(0, |sum, piece| async move { Ok(sum + piece.len()) });
    assert_eq!(content.size, 9_000_000);
    assert_eq!(bytes.await.expect("a stream out"), 9_000_000);

    let small = Document {
        text: "now short".to_owned(),
        scan: None,
        ..documents.get_existing(&key).await.expect("it")
    };
    documents.replace(&small).await.expect("no other writer");
    assert_eq!(blob_count(&*blobs).await, 1);
    documents
        .delete(all[1].entity_key().expect("a key"), IfMatch::Any)
        .await
        .expect("the row exists");
    assert_eq!(blob_count(&*blobs).await, 0);

    documents.upsert(&all[2]).await.expect("another document");
    let mut group = documents.group(Document::partition("In + Out").expect("a key"));
    group.delete(&key, IfMatch::Any).expect("its partition");
    assert_eq!(blob_count(&*blobs).await, 2);
    group.commit().await.expect("the row exists");
    assert_eq!(blob_count(&*blobs).await, 0);
}

/// Concurrent writers of one entity: a reader always sees one whole write, and no orphaned blob stays.
pub(crate) async fn concurrent_writers_never_mix_an_entity(harness: &Harness) {
    let (documents, blobs) = open(harness).await;
    documents
        .insert(&document(1, &"0".repeat(40_000), 2000))
        .await
        .expect("a new document");
    let mut writers = JoinSet::new();
    for writer in 1..=4u8 {
        let documents = documents.clone();
        writers.spawn(async move {
            let digit = char::from(b'0' + writer).to_string();
            for size in 0..5 {
                let new = document(1, &digit.repeat(40_000 + size), 2000);
                let done = documents.upsert(&new).await;
                assert!(
                    done.as_ref().is_ok()
                        || done.is_err_and(|error| error.is_precondition_failed())
                );
                let read = documents
                    .get_existing(new.entity_key().expect("a key"))
                    .await
                    .expect("the row exists");
                let first = read.text.chars().next();
                assert!(
                    read.text.chars().all(|c| Some(c) == first),
                    "two writes are mixed"
                );
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no panic");
    }
    assert_eq!(blob_count(&*blobs).await, 2);
    assert_eq!(
        documents
            .scrub_blobs()
            .await
            .expect("the stores work")
            .missing,
        []
    );
}

/// A dropped table loses its blobs, also if only its store dropped the table. Blobs of other tables stay.
pub(crate) async fn a_dropped_table_loses_its_blobs(harness: &Harness) {
    let (documents, blobs) = open(harness).await;
    let other = over(
        harness.table().await.name(),
        harness,
        &blobs,
        Duration::from_secs(30),
    );
    for number in 0..20 {
        documents
            .insert(&document(number, &"x".repeat(40_000), 2000))
            .await
            .expect("a new document");
    }
    other
        .insert(&document(1, &"x".repeat(40_000), 0))
        .await
        .expect("a new document");
    let foreign = Path::parse(format!(
        "large/{}/notes.txt",
        documents.name().to_lowercase()
    ))
    .expect("a name");
    blobs
        .put_opts(
            &foreign,
            "a blob of another program".into(),
            PutOptions::default(),
        )
        .await
        .expect("a blob");
    let existed = documents.delete_table_if_exists().await;
    assert!(existed.expect("the stores work"));
    assert_eq!(blob_count(&*blobs).await, 2);
    let existed = documents.delete_table_if_exists().await;
    assert!(!existed.expect("the table is gone"));

    other
        .store()
        .delete_table(other.name())
        .await
        .expect("a table");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let hasty = over(other.name(), harness, &blobs, Duration::from_secs(1));
    let error = hasty
        .collect_blobs(Duration::from_millis(1001), CollectMode::Remove)
        .await;
    assert!(
        error.is_err_and(|error| error.is_table_not_found()),
        "the other table can be in another store"
    );
    let existed = other.delete_table_if_exists().await;
    assert!(!existed.expect("the stores work"));
    assert_eq!(blob_count(&*blobs).await, 1);
}

/// A collection that crashed leaves its clock blob. The next collection removes the clock blob as an orphan.
pub(crate) async fn clock_blobs_of_crashed_collections_are_collected(harness: &Harness) {
    let (documents, blobs) = open(harness).await;
    let clock = format!(
        "large/{}/clock/{}",
        documents.name().to_lowercase(),
        uuid::Uuid::new_v4()
    );
    let clock = Path::parse(clock).expect("a name");
    blobs
        .put_opts(&clock, "".into(), PutOptions::default())
        .await
        .expect("a blob");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let hasty = over(documents.name(), harness, &blobs, Duration::from_secs(1));
    let old = hasty
        .collect_blobs(Duration::from_millis(1001), CollectMode::Remove)
        .await
        .expect("the stores work");
    assert_eq!(old.orphans, 1);
    assert_eq!(old.foreign, 0);
    assert_eq!(blob_count(&*blobs).await, 0);
}

/// A collection finds a blob without a row once the blob is old enough, and keeps the blobs that rows refer to.
pub(crate) async fn orphans_are_collected(harness: &Harness) {
    let (documents, blobs) = open(harness).await;
    documents
        .insert(&document(1, &"x".repeat(40_000), 0))
        .await
        .expect("a new document");
    let used = blobs
        .list(None)
        .try_next()
        .await
        .expect("a list")
        .expect("a blob")
        .location;
    let directory = used.as_ref().rsplit_once('/').expect("a name").0;
    let orphan = Path::parse(format!("{directory}/{}", uuid::Uuid::new_v4())).expect("a name");
    blobs
        .put_opts(&orphan, "orphan".into(), PutOptions::default())
        .await
        .expect("a blob");
    let hour = Duration::from_secs(3600);
    let young = documents
        .collect_blobs(hour, CollectMode::Remove)
        .await
        .expect("the stores work");
    assert_eq!(young.young, 2);
    assert_eq!(young.orphans, 0);
    // Blob stores round times to whole seconds.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let hasty = over(documents.name(), harness, &blobs, Duration::from_secs(1));
    let old = hasty
        .collect_blobs(Duration::from_millis(1001), CollectMode::Remove)
        .await
        .expect("the stores work");
    assert_eq!(old.used, 1);
    assert_eq!(old.orphans, 1);
    assert_eq!(blob_count(&*blobs).await, 1);
    assert_eq!(
        documents
            .scrub_blobs()
            .await
            .expect("the stores work")
            .missing,
        []
    );
}
