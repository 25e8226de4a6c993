//! Several types in one table, without indexes: a handle per type, and one query that reads all of them as an enum. Use it to read
//! related entities of different types together. (Types with indexes: `several_types`; types with a common base: `inheritance`.)
//!
//! Cost: 1 request per page for all types; a change without the type 2, and 2 more per conflict.

use table_patterns::heterogeneous::{Resolver, modify};
use table_patterns::prelude::*;

/// A department: the first row of its partition.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Department",
    partition_key = "{name}",
    row_key = "department",
    rename_all = "PascalCase"
)]
struct Department {
    name: String,
    budget: i64,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
}

/// A row of a department's partition.
#[derive(Debug, PartialEq, EntityResolver)]
enum SalesRow {
    Department(Department),
    Employee(Employee),
    #[resolver(other)]
    Other(Entity),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let db = Database::new(MemoryStore::new());
    let employees = db.table::<Employee>("Company")?;
    let departments = db.table::<Department>("Company")?;
    employees.declare().await?;

    let sales = Department {
        name: "Sales".to_owned(),
        budget: 1_000_000,
    };
    let ken = Employee {
        department: "Sales".to_owned(),
        id: 223,
        name: "Ken".to_owned(),
    };
    departments.insert(&sales).await?;
    employees.insert(&ken).await?;
    // "EntityType" is the discriminator: the property with the type of an entity.
    let note = Entity::new("Sales", "note_1")?
        .with("EntityType", "Note")
        .with("Text", "by another program");
    employees
        .store()
        .write(employees.name(), Operation::Insert(note.clone()))
        .await?;

    // One request reads the whole partition, each row as its own type.
    let rows = db
        .view::<SalesRow>("Company")?
        .query()
        .partition(PartitionKey::new("Sales")?)
        .all()
        .await?;
    assert_eq!(rows[0], SalesRow::Department(sales));
    assert_eq!(rows[1], SalesRow::Employee(ken.clone()));
    assert!(matches!(&rows[2], SalesRow::Other(other) if other.key() == note.key()));

    // A query of one type omits the others.
    assert_eq!(employees.query().all().await?, std::slice::from_ref(&ken));

    // Reading a row of another type is an error, not a struct of default values.
    let error = employees.get(note.key()).await.unwrap_err();
    assert!(error.to_string().contains("Note"), "{error}");

    // Changes one property of an entity of any type, and keeps the others: 2 requests.
    modify(&employees, ken.entity_key()?.key(), |entity| {
        if !matches!(entity.get("Name"), Some(ValueRef::String(_))) {
            return Err(table_core::Error::application("this entity has no name"));
        }
        let mut changes = Properties::new();
        changes.set("Name", "Kenneth");
        Ok(changes)
    })
    .await?;

    // A resolver with closures converts each type to a common result: 1 request per page, as for the enum.
    let labels = Resolver::new()
        .on_type(|department: Department| department.name)
        .on_type(|employee: Employee| employee.name)
        .other(|entity| {
            Ok(format!(
                "{} of {}",
                entity.key().row(),
                entity.key().partition()
            ))
        });
    let all = db.view::<Entity>("Company")?.query();
    assert_eq!(
        labels.all(&all).await?,
        ["Sales", "Kenneth", "note_1 of Sales"]
    );
    Ok(())
}
