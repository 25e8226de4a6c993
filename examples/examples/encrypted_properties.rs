//! Encrypted properties: fields marked `#[encrypt]` leave the program as authenticated ciphertext, bound to their table, keys and property
//! name. Ciphertext that was moved to another row is refused.
//!
//! Cost: no additional requests; a merge 1 more.

use std::sync::Arc;

use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, Keys};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    age: i32,
    #[encrypt]
    national_id: String,
    #[encrypt]
    salary: Option<f64>,
}

#[tokio::main]
async fn main() -> table_core::Result<()> {
    // A store that does not encrypt refuses the type before anything is written.
    let raw = Arc::new(MemoryStore::new());
    assert!(
        Database::new(Arc::clone(&raw))
            .table::<Employee>("Employees")
            .is_err()
    );

    // For this example only: this key is gone when the program ends, and with it every encrypted value. A program reads its key from a
    // secret store or uses a key vault (see `key_vault`).
    let kek = AesKeyWrap::new("kek-2026", &KeyBytes::random(32)?)?;
    let store = EncryptedStore::new(Arc::clone(&raw), Keys::new(Arc::new(kek)))?;
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;

    let ken = Employee {
        department: "Sales".to_owned(),
        id: 223,
        age: 41,
        national_id: "760519-1234".to_owned(),
        salary: Some(125.5),
    };
    employees.insert(&ken).await?;
    let key = Employee::key("Sales", 223)?;
    assert_eq!(employees.get_existing(&key).await?, ken);

    // A merge of one encrypted field, and a filter on a plaintext field. `Employee::NATIONAL_ID.eq(…)` does not compile.
    employees
        .merge(&key, &Employee::patch().salary(130.0), IfMatch::Any)
        .await?;
    let older = employees.query().filter(Employee::AGE.gt(40)).all().await?;
    assert_eq!(
        older,
        [Employee {
            salary: Some(130.0),
            ..ken
        }]
    );

    // The store sees the names of properties and the lengths of values, but no values.
    let key = Key::new("Sales", "empid_000223")?;
    let stored = raw.get(employees.name(), &key, None).await?.expect("Ken");
    assert!(matches!(stored.get("NationalId"), Some(ValueRef::Binary(bytes)) if bytes.len() == 11));
    assert_eq!(stored.get("Age"), Some(ValueRef::Int32(41)));

    // Copied to another row, the ciphertext cannot be decrypted.
    let moved = stored.with_key(Key::new("Sales", "empid_000224")?);
    raw.write(employees.name(), Operation::Insert(moved))
        .await?;
    let refused = employees
        .get(Employee::key("Sales", 224)?)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("cannot be decrypted"),
        "{refused}"
    );
    Ok(())
}
