//! Denormalization: the manager's name and e-mail address are copied into the department, so that one point
//! query gets all.

use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::prelude::*;
use table_core::store::Result;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};
use table_patterns::journal::Change;

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Department", rename_all = "PascalCase", partition_key = "{name}", row_key = "department")]
struct Department {
    name: String,
    floor: i32,
    manager_name: Option<String>,
    manager_email: Option<String>,
}

fn manager(name: &str) -> Result<Entity> {
    let employee = Entity::new("Sales", "empid_000223")?.with("Name", name);
    Ok(employee.with("Email", format!("{}@contoso.com", name.to_lowercase())).with("Manages", true))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let store = MemoryStore::new();
    let departments = Table::<Department>::new(store.clone(), "Company")?;
    departments.create_if_missing().await?;
    // The manager is copied into the department in the same partition.
    let copies = Index::new("manager", Placement::SamePartition, "1", |e| match e.get("Manages") {
        Some(_) => Department::key(e.key().partition()).map(|key| Some(key.into_key())),
        None => Ok(None),
    });
    let fields = vec!["Name".to_owned(), "Email".to_owned()];
    let indexes = vec![copies.with_shape(Shape::copy("Manager", fields))];
    let table = TableName::new("Company")?;
    let company = IndexedEntities::open(Arc::new(store), table, indexes, IndexOptions::local()).await?;

    let sales = Department { name: "Sales".to_owned(), floor: 1, manager_name: None, manager_email: None };
    company.write(&[Change::insert(sales.to_entity()?), Change::insert(manager("Ken")?)]).await?;
    let read = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!((read.manager_name.as_deref(), read.floor), (Some("Ken"), 1));

    // The copy follows its source, and survives a write of the department by a program that does not know it.
    company.upsert(manager("Kim")?).await?;
    company.upsert(Department { floor: 2, ..sales }.to_entity()?).await?;
    let read = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!((read.manager_email.as_deref(), read.floor), (Some("kim@contoso.com"), 2));
    company.flush().await;
    Ok(())
}
