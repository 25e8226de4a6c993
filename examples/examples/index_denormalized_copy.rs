//! Denormalization: the manager's name and e-mail address are copied into the department, so that one point query returns both. (The
//! derive does not declare copies: `Database::table_with` takes them.)
//!
//! Cost: a write of the manager 1 request more, which reads the department; a read 1.

use table_patterns::index::{Index, Placement, Shape};
use table_patterns::prelude::*;

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

/// An employee. The manager's name and address are copied.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
    email: String,
    manages: bool,
}

fn manager(name: &str) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id: 223,
        name: name.to_owned(),
        email: format!("{}@contoso.com", name.to_lowercase()),
        manages: true,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let db = Database::new(MemoryStore::new());
    // The entities with `Manages` are copied into the row `department` of their partition: Name and Email of the manager, as ManagerName
    // and ManagerEmail.
    let copies = Index::keyed("manager", Placement::SamePartition, "", "department")?
        .with_condition("Manages eq true")?
        .with_shape(Shape::copy(
            "Manager",
            vec!["Name".to_owned(), "Email".to_owned()],
        ));
    let employees = db.table_with::<Employee>("Company", vec![copies])?;
    employees.declare().await?;
    let departments = db.table::<Department>("Company")?;

    let sales = Department {
        name: "Sales".to_owned(),
        floor: 1,
        manager_name: None,
        manager_email: None,
    };
    let mut group = employees.group(Employee::partition("Sales")?);
    group.insert(&sales)?.insert(&manager("Ken"))?;
    group.commit().await?;
    let read = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!(read.manager_name.as_deref(), Some("Ken"));
    assert_eq!(read.floor, 1);

    // The copy follows its source. An upsert of the department without the copied fields keeps them: the handle adds them again.
    employees.upsert(&manager("Kim")).await?;
    departments
        .upsert(&Department { floor: 2, ..sales })
        .await?;
    let read = departments.get_existing(Department::key("Sales")?).await?;
    assert_eq!(read.manager_email.as_deref(), Some("kim@contoso.com"));
    assert_eq!(read.floor, 2);
    Ok(())
}
