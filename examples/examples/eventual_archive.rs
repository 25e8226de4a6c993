//! The archive example of the design guide: former employees move from the table *Current* to the table *Archive* in another store. A
//! queue message starts the move; one worker crashes, and another finishes it. Use it for changes in several partitions, tables or stores
//! that other programs may see one after another.
//!
//! Cost: before the commit 1 request per entity that a step moves, replaces or deletes; commit 1; then 2, 1 per step (4 for a step that
//! moves an entity) and 1 per stage; and the receive and delete of the queue.

use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_embedded::EmbeddedStore;
use table_patterns::eventual::{
    Coordinator, EventualTransaction, Place, Resources, TransactionProgress, TransactionStatus,
};
use table_patterns::journal::{Acknowledge, Timing};
use table_patterns::prelude::*;
use table_patterns::queue::TableQueue;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "{:06}")]
    id: u32,
    name: String,
}

/// Opens a coordinator, as each process does. All processes use the same names for the stores and the same queue.
async fn open_coordinator(
    current: Arc<dyn TableStore>,
    archive: Arc<dyn TableStore>,
    photos: Arc<dyn ObjectStore>,
) -> table_core::Result<Coordinator> {
    let queue = Arc::new(TableQueue::open(current.clone(), "Work", "archive").await?);
    let resources = Resources::new()
        .with_store("current", current.clone())
        .with_store("archive", archive)
        .with_blobs("photos", photos);
    let coordinator = Coordinator::open(current, "Transactions", queue, resources).await?;
    // Short leases, so that the second worker need not wait long for the first. On a service, keep the default.
    Ok(coordinator.with_timing(Timing::new(
        Duration::from_millis(400),
        Duration::from_millis(100),
        Duration::ZERO,
    )?))
}

/// The steps, in their order: delete the photograph, then move the entity. Each step is done at least once; other programs can see the
/// state between two steps.
fn archiving(key: &Key) -> table_core::Result<EventualTransaction> {
    let from = Place::new("current", TableName::new("Current")?, key.clone());
    let to = Place::new("archive", TableName::new("Archive")?, key.clone());
    Ok(EventualTransaction::new()
        .delete_blob("photos", "sales/456.png")
        .move_entity(from, to))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let current: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let archive: Arc<dyn TableStore> =
        Arc::new(EmbeddedStore::open(directory.path().join("archive")).await?);
    let photos: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let employees = Database::new(current.clone()).table::<Employee>("Current")?;
    let archived = Database::new(archive.clone()).table::<Employee>("Archive")?;
    employees.declare().await?;
    archived.declare().await?;
    let ken = Employee {
        department: "Sales".to_owned(),
        id: 456,
        name: "Ken".to_owned(),
    };
    employees.insert(&ken).await?;
    photos
        .put(&Path::from("sales/456.png"), "a photograph".into())
        .await?;

    // Sending the message commits the transaction: 1 request, after checks (the manifests of the tables, and 1 request for the entity
    // that is moved). From then on workers execute it, whatever crashes.
    let client = open_coordinator(current.clone(), archive.clone(), photos.clone()).await?;
    let transaction = archiving(&ken.entity_key()?.into())?;
    let submitted = client.submit(&transaction, Acknowledge::Committed).await?;
    assert_eq!(submitted.progress, TransactionProgress::Pending);

    // A worker crashes after it wrote the archive and before it removed the original.
    let faults = FaultInjector::new(0);
    let faulty = Arc::new(Faulty::new(archive.clone(), faults.clone()));
    let crashing = open_coordinator(current.clone(), faulty, photos.clone()).await?;
    faults.crash_at(1, CrashPoint::After);
    // The crashed worker's requests fail, and its run may wait for its lease, so this example stops waiting.
    let run = tokio::spawn(async move { crashing.run_once(1).await.map(drop) });
    while !faults.is_crashed() && !run.is_finished() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    run.abort();
    assert!(faults.is_crashed());
    assert!(employees.get(ken.entity_key()?).await?.is_some());

    // Another worker takes over when the claim of the crashed worker has expired. A program runs `Coordinator::run` in the background,
    // and calls `wait`.
    let worker = open_coordinator(current, archive, photos.clone()).await?;
    while worker.status(submitted.id).await? != TransactionStatus::Applied {
        worker.run_once(1).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(employees.get(ken.entity_key()?).await?, None);
    assert_eq!(archived.get(ken.entity_key()?).await?, Some(ken));
    assert!(photos.get(&Path::from("sales/456.png")).await.is_err());
    Ok(())
}
