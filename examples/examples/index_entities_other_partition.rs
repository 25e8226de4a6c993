//! Index entities in another partition: one entity per surname of the whole company. It follows the employee,
//! also after a crash.

use std::sync::Arc;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};

fn employee(department: &str, id: u32) -> Result<Entity> {
    Ok(Entity::new(department, format!("empid_{id:06}"))?.with("LastName", "Jones"))
}

async fn open(store: impl TableStore) -> Result<IndexedEntities> {
    let by_surname = Index::keyed("surname", Placement::OtherPartition, "surname", "{LastName}")?;
    let indexes = vec![by_surname.with_shape(Shape::LIST)];
    IndexedEntities::open(Arc::new(store), TableName::new("Employees")?, indexes, IndexOptions::local()).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let store = MemoryStore::new();
    store.create_table(&TableName::new("Employees")?).await?;
    let employees = open(store.clone()).await?;
    employees.insert(employee("Sales", 152)?).await?;
    employees.insert(employee("Marketing", 7)?).await?;
    let jones = Key::new("surname", "Jones")?;
    let found = employees.list("surname", &jones).await?;
    assert_eq!(found.iter().map(|e| e.key().partition()).collect::<Vec<_>>(), ["Marketing", "Sales"]);

    // A program crashes after the group that writes the employee and before the list.
    let faults = FaultInjector::new(0);
    let dying = open(Faulty::new(store, faults.clone())).await?;
    faults.crash_at(1, CrashPoint::After);
    assert!(dying.insert(employee("Sales", 9)?).await.is_err());
    assert_eq!(employees.references("surname", &jones).await?.len(), 2);

    // The group contained the journal row. Another program finds it and completes the write.
    assert_eq!(employees.journal().sweep(&[], Default::default()).await?.applied, 1);
    assert_eq!(employees.list("surname", &jones).await?.len(), 3);
    employees.flush().await;
    Ok(())
}
