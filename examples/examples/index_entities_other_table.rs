//! Index entities in another table, built over existing employees while writers continue.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement, ScrubMode, Shape};

fn employee(id: u32, last_name: &str) -> Result<Entity> {
    Ok(Entity::new("Sales", format!("empid_{id:06}"))?.with("LastName", last_name))
}

async fn open(store: &Arc<dyn TableStore>, indexes: Vec<Index>) -> Result<IndexedEntities> {
    IndexedEntities::open(store.clone(), TableName::new("Employees")?, indexes, IndexOptions::local()).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let surnames = TableName::new("Surnames")?;
    for table in [&TableName::new("Employees")?, &surnames] {
        store.create_table(table).await?;
    }
    let before = open(&store, vec![]).await?;
    for id in 0..250 {
        before.insert(employee(id, if id % 50 == 0 { "Jones" } else { "Smith" })?).await?;
    }

    let by_surname = Index::keyed("surname", Placement::OtherTable(surnames), "{LastName}", "employees")?;
    let employees = open(&store, vec![by_surname.with_shape(Shape::LIST)]).await?;
    assert_eq!(employees.state("surname"), IndexState::Absent);
    let built = employees.build("surname")?.run().await?;
    assert_eq!((built.entities, built.entries, built.groups), (250, 250, 2), "a group for each partition");

    let jones = employees.list("surname", &Key::new("Jones", "employees")?).await?;
    assert_eq!(jones.len(), 5);
    let scrub = employees.scrub("surname", ScrubMode::Report).await?;
    assert_eq!((scrub.entries, scrub.dangling, scrub.missing), (250, 0, 0));
    employees.flush().await;
    Ok(())
}
