//! Denormalization: the manager's name and e-mail address are copied into the department, so that one point query returns both. (For
//! dynamic entities: the derive does not declare copies; `IndexedTable::open_with` takes them.)
//!
//! Cost: a write of the manager 1 request more, which reads the department; a read 1.

use std::sync::Arc;

use table_core::Result;
use table_core::prelude::*;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};
use table_patterns::journal::Change;

#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Department",
    rename_all = "PascalCase",
    partition_key = "{name}",
    row_key = "department"
)]
struct Department {
    name: String,
    floor: i32,
    manager_name: Option<String>,
    manager_email: Option<String>,
}

fn manager(name: &str) -> Result<Entity> {
    let employee = Entity::new("Sales", "empid_000223")?.with("Name", name);
    Ok(employee
        .with("Email", format!("{}@contoso.com", name.to_lowercase()))
        .with("Manages", true))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let store = MemoryStore::new();
    let departments = Table::<Department>::new(store.clone(), "Company")?;
    departments.create_if_missing().await?;
    // The entities with `Manages` are copied into the row `department` of their partition.
    let copies = Index::keyed("manager", Placement::SamePartition, "", "department")?;
    let copies = copies.with_condition("Manages eq true")?;
    // Copies Name and Email of the manager into the department, as ManagerName and ManagerEmail.
    let shape = Shape::copy("Manager", vec!["Name".to_owned(), "Email".to_owned()]);
    let indexes = vec![copies.with_shape(shape)];
    let table = TableName::new("Company")?;
    let company =
        IndexedEntities::open(Arc::new(store), table, indexes, IndexOptions::default()).await?;

    let sales = Department {
        name: "Sales".to_owned(),
        floor: 1,
        manager_name: None,
        manager_email: None,
    };
    company
        .write(&[
            Change::insert(sales.to_entity()?),
            Change::insert(manager("Ken")?),
        ])
        .await?;
    let read = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!(read.manager_name.as_deref(), Some("Ken"));
    assert_eq!(read.floor, 1);

    // The copy follows its source. An upsert of the department without the copied fields keeps them: the handle adds them again.
    company.upsert(manager("Kim")?).await?;
    company
        .upsert(Department { floor: 2, ..sales }.to_entity()?)
        .await?;
    let read = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!(read.manager_email.as_deref(), Some("kim@contoso.com"));
    assert_eq!(read.floor, 2);
    Ok(())
}
