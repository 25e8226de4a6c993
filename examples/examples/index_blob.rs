//! Index entities, option 1 of the design guide: a blob per surname. Blobs never change; a row names the
//! current blob.

use std::sync::Arc;

use futures_util::TryStreamExt;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};

fn employee(id: u32) -> Result<Entity> {
    Ok(Entity::new("Sales", format!("empid_{id:06}"))?.with("LastName", "Jones"))
}

async fn open(store: impl TableStore, blobs: Arc<InMemory>) -> Result<IndexedEntities> {
    let by_surname = Index::keyed("surname", Placement::OtherPartition, "surname", "{LastName}")?;
    let indexes = vec![by_surname.with_shape(Shape::Blob)];
    let mut options = IndexOptions::local();
    options.blobs = Some(blobs);
    IndexedEntities::open(Arc::new(store), TableName::new("Employees")?, indexes, options).await
}

async fn count(blobs: &InMemory) -> usize {
    blobs.list(None).try_collect::<Vec<_>>().await.expect("blobs in memory").len()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (store, blobs) = (MemoryStore::new(), Arc::new(InMemory::new()));
    store.create_table(&TableName::new("Employees")?).await?;
    let employees = open(store.clone(), blobs.clone()).await?;
    for id in 0..10 {
        employees.insert(employee(id)?).await?;
    }
    let jones = Key::new("surname", "Jones")?;
    assert_eq!(employees.list("surname", &jones).await?.len(), 10);
    assert_eq!(count(&blobs).await, 1, "the earlier blobs are deleted");

    // A program crashes after it wrote a new blob and before it named the blob in the row: group, row read,
    // row written.
    let faults = FaultInjector::new(0);
    let dying = open(Faulty::new(store, faults.clone()), blobs.clone()).await?;
    faults.crash_at(3, CrashPoint::Before);
    dying.insert(employee(10)?).await.ok();
    assert_eq!(employees.list("surname", &jones).await?.len(), 10);
    assert_eq!(employees.journal().sweep(&[], Default::default()).await?.applied, 1);
    assert_eq!(employees.list("surname", &jones).await?.len(), 11);

    // The collection deletes the blob that no row names.
    employees.collect_blobs("surname").await?;
    assert_eq!(count(&blobs).await, 1);
    employees.flush().await;
    Ok(())
}
