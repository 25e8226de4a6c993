//! Counts and sums of a department's employees, in an entity of the same partition. They are exact, because
//! the group transaction of every write updates them.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexQuery, IndexedEntities, Placement, Shape};
use table_patterns::journal::Change;

fn employee(id: u32, office: &str, salary: i64) -> Result<Entity> {
    Ok(Entity::new("Sales", format!("empid_{id:06}"))?.with("Office", office).with("Salary", salary))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("Employees")?;
    store.create_table(&table).await?;
    let by_office = Index::keyed("office", Placement::SamePartition, "", "office_{Office}")?;
    let indexes = vec![by_office.with_shape(Shape::summary(["Salary"]))];
    let employees = IndexedEntities::open(store, table, indexes, IndexOptions::local()).await?;

    let hired =
        (0..60).map(|id| employee(id, if id < 20 { "Oslo" } else { "Rome" }, 1000).map(Change::insert));
    let before = meter.total();
    employees.write(&hired.collect::<Result<Vec<_>>>()?).await?;
    assert_eq!(meter.total() - before, 3, "two summaries read, one group");

    employees.upsert(employee(0, "Rome", 1500)?).await?;
    let before = meter.total();
    let rome = employees.summary("office", &Key::new("Sales", "office_Rome")?).await?;
    assert_eq!(rome.count, 41);
    assert_eq!(rome.sums["Salary"], 41_500);
    assert_eq!(meter.total() - before, 1, "the employees are not read");
    let all = employees.summaries("office", &IndexQuery::partition("Sales")).await?;
    assert_eq!(all.iter().map(|(_, office)| office.count).collect::<Vec<_>>(), [19, 41]);
    Ok(())
}
