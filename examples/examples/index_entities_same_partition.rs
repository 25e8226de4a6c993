//! Index entities in the entities' partition: one entity per surname of a department lists its employees. It
//! changes in the employee's group transaction.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};

fn employee(id: u32, last_name: &str) -> Result<Entity> {
    Ok(Entity::new("Sales", format!("empid_{id:06}"))?.with("LastName", last_name))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("Employees")?;
    store.create_table(&table).await?;
    let by_surname = Index::keyed("surname", Placement::SamePartition, "", "surname_{LastName}")?;
    let indexes = vec![by_surname.with_shape(Shape::LIST)];
    let employees = IndexedEntities::open(store, table, indexes, IndexOptions::local()).await?;
    for (id, last_name) in [(152, "Jones"), (7, "Jones"), (223, "Kwok")] {
        employees.insert(employee(id, last_name)?).await?; // 2 requests: the list, the group
    }

    let before = meter.total();
    let jones = employees.list("surname", &Key::new("Sales", "surname_Jones")?).await?;
    assert_eq!(jones.iter().map(|e| e.key().row()).collect::<Vec<_>>(), ["empid_000007", "empid_000152"]);
    assert_eq!(meter.total() - before, 1 + 2, "the list, and each employee concurrently");

    // A new surname changes three entities: the employee, the old list and the new list. All or none.
    employees.upsert(employee(7, "Kwok")?).await?;
    let of = async |name: &str| {
        let key = Key::new("Sales", format!("surname_{name}"))?;
        Ok::<_, table_core::Error>(employees.references("surname", &key).await?.len())
    };
    assert_eq!(of("Jones").await?, 1);
    assert_eq!(of("Kwok").await?, 2);
    Ok(())
}
