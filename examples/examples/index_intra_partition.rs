//! An index in the entity's partition (the design guide's intra-partition secondary index): an index entry with a copy of the employee
//! under the e-mail address. The entity and its entry change in one group transaction. Use it for questions within a partition.
//!
//! Cost: a write 1 request, 2 if the old value must be read first; a lookup 1.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

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
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;
    let jones = Employee {
        department: "Sales".to_owned(),
        id: 152,
        last_name: "Jones".to_owned(),
        email: Some("jones@contoso.com".to_owned()),
    };

    let (inserted, cost) = meter.measure(employees.insert(&jones)).await;
    inserted?;
    assert_eq!(cost.total(), 1, "the employee and the entry, or neither");

    let by_email = || Employee::by_email("Sales").email("jones@contoso.com");
    let (found, cost) = meter.measure(employees.by(by_email()).get()).await;
    assert_eq!(found?, Some(jones.clone()));
    assert_eq!(cost.total(), 1);
    let starting_with_jo = employees
        .by(Employee::by_email("Sales").email_starting("jo"))
        .all()
        .await?;
    assert_eq!(starting_with_jo.len(), 1);

    // No other employee of the department can have the address.
    let other = Employee { id: 153, ..jones };
    assert!(
        employees
            .insert(&other)
            .await
            .unwrap_err()
            .is_unique_violation()
    );

    // Setting the address to `None` deletes the entry: 2 requests.
    let key = Employee::key("Sales", 152)?;
    let no_address = |jones: &mut Employee| {
        jones.email = None;
        Ok(())
    };
    employees.update(&key, no_address).await?;
    assert_eq!(employees.by(by_email()).get().await?, None);

    // `replace` and `update` read the old value, which decides the entries to remove: 2 requests. A `Stored` value is the old value,
    // so `replace_stored` reads nothing.
    let jones = employees.get_existing_stored(&key).await?;
    let with_address = Employee {
        email: Some("jones@contoso.com".to_owned()),
        ..(*jones).clone()
    };
    let (replaced, cost) = meter
        .measure(employees.replace_stored(&jones, &with_address))
        .await;
    replaced?;
    assert_eq!(cost.total(), 1);
    Ok(())
}
