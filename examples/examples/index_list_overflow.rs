//! A list that exceeds its entity continues in further entities or in a blob, and returns when it shrinks.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Overflow, Placement, Shape};
use table_patterns::journal::Change;

const MEMBERS: usize = 900;

fn employee(id: usize) -> Result<Entity> {
    Ok(Entity::new("Sales", format!("empid_{id:06}"))?.with("LastName", "Jones"))
}

/// Returns the requests of a lookup with many references and with one reference.
async fn lookups(overflow: Overflow) -> Result<(u64, u64)> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("Employees")?;
    store.create_table(&table).await?;
    let by_surname = Index::keyed("surname", Placement::SamePartition, "", "surname_{LastName}")?;
    // 1 KiB instead of nearly 1 MiB, so that the list overflows soon.
    let indexes = vec![by_surname.with_shape(Shape::List { bytes: 1024, overflow })];
    let mut options = IndexOptions::local();
    options.blobs = Some(Arc::new(InMemory::new()));
    let employees = IndexedEntities::open(store, table, indexes, options).await?;

    let changes = (0..MEMBERS).map(|id| employee(id).map(Change::insert)).collect::<Result<Vec<_>>>()?;
    for group in changes.chunks(75) {
        employees.write(group).await?;
    }
    let jones = Key::new("Sales", "surname_Jones")?;
    employees.flush().await; // what follows the answers of the writes is not counted below
    let before = meter.total();
    assert_eq!(employees.references("surname", &jones).await?.len(), MEMBERS);
    let long = meter.total() - before;

    for id in 1..MEMBERS {
        employees.modify(employee(id)?.key(), |_| Ok(None)).await?;
    }
    let before = meter.total();
    assert_eq!(employees.references("surname", &jones).await?.len(), 1);
    Ok((long, meter.total() - before))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (long, short) = lookups(Overflow::Entities).await?;
    assert!(long > 4, "the list's entity, then its chunks at once: {long}");
    assert_eq!(short, 1);
    // Reading the blob is not a request to the table.
    assert_eq!(lookups(Overflow::Blob).await?, (1, 1));
    Ok(())
}
