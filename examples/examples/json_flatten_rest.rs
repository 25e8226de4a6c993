//! Nested values as JSON, a group of fields as separate properties, and keeping the properties that other programs have added.
//!
//! Cost: no additional requests.

use serde::{Deserialize, Serialize};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Skill {
    name: String,
    years: u8,
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Address {
    street: String,
    city: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(json)]
    skills: Vec<Skill>,
    #[entity(flatten)]
    address: Address,
    /// The properties that this type does not name. They are written back unchanged.
    #[entity(rest)]
    rest: Properties,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let employees = Database::new(MemoryStore::new()).table::<Employee>("Employees")?;
    employees.declare().await?;
    let ken = Employee {
        department: "Sales".to_owned(),
        id: 223,
        skills: vec![Skill {
            name: "Rust".to_owned(),
            years: 9,
        }],
        address: Address {
            street: "1 Main St".to_owned(),
            city: "Seattle".to_owned(),
        },
        rest: Properties::new(),
    };
    employees.insert(&ken).await?;

    // The skills are one property, the address is two.
    let stored = employees
        .view::<Entity>()?
        .get_existing(ken.entity_key()?.key())
        .await?;
    assert_eq!(
        stored.get("Skills"),
        Some(ValueRef::String(r#"[{"name":"Rust","years":9}]"#))
    );
    assert_eq!(stored.get("City"), Some(ValueRef::String("Seattle")));

    // Another program adds a property that this program does not know ...
    let added = Entity::from(stored.key().clone()).with("Badge", 7);
    employees
        .store()
        .write(employees.name(), Operation::Merge(added, IfMatch::Any))
        .await?;

    // ... and an update by this program keeps it: `rest` has every property without a field.
    let move_house = |ken: &mut Employee| {
        ken.address.city = "Tacoma".to_owned();
        Ok(())
    };
    employees.update(ken.entity_key()?, move_house).await?;
    let stored = employees
        .view::<Entity>()?
        .get_existing(stored.key())
        .await?;
    assert_eq!(stored.get("City"), Some(ValueRef::String("Tacoma")));
    assert_eq!(stored.get("Badge"), Some(ValueRef::Int32(7)));
    Ok(())
}
