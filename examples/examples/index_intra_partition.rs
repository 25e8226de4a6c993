//! The design guide's intra-partition secondary index: a copy of each employee under the e-mail address in
//! the same partition, declared in the derive. The employee's group transaction writes it.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email}", unique = "partition", payload = full)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
    /// Without an address there is no entry.
    email: Option<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let employees = IndexedTable::<Employee>::open(store, "Employees", IndexOptions::default()).await?;
    let jones = Employee {
        department: "Sales".to_owned(),
        id: 152,
        last_name: "Jones".to_owned(),
        email: Some("jones@contoso.com".to_owned()),
    };

    let before = meter.total();
    employees.insert(&jones).await?;
    assert_eq!(meter.total() - before, 1, "the employee and the entry, or neither");

    let before = meter.total();
    let by_email = || Employee::by_email("Sales").email("jones@contoso.com");
    let found = employees.by(by_email()).get().await?;
    assert_eq!(found, Some(jones.clone()));
    assert_eq!(meter.total() - before, 1);
    let contoso = employees.by(Employee::by_email("Sales").email_starting("jo")).all().await?;
    assert_eq!(contoso.len(), 1);

    // No other employee of the department can have the address.
    let other = Employee { id: 153, ..jones };
    assert!(employees.insert(&other).await.unwrap_err().is_unique_violation());

    // Deleting the address deletes the entry.
    let key = Employee::key("Sales", 152)?;
    let no_address = |jones: &mut Employee| {
        jones.email = None;
        Ok(())
    };
    employees.update(&key, no_address).await?;
    assert_eq!(employees.by(by_email()).get().await?, None);

    // The entity that was read shows which entries exist: 1 request, under its ETag.
    let jones = employees.get_existing(&key).await?;
    let with_address = Employee { email: Some("jones@contoso.com".to_owned()), ..(*jones).clone() };
    let before = meter.total();
    employees.replace_stored(&jones, &with_address).await?;
    assert_eq!(meter.total() - before, 1);

    // A plain table, which does not maintain entries, refuses to write.
    let plain = Table::<Employee>::new(employees.table().store().clone(), "Employees")?;
    assert!(plain.delete(&key, IfMatch::Any).await.unwrap_err().to_string().contains("IndexedTable"));
    Ok(())
}
