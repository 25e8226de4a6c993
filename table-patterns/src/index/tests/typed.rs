use std::sync::Arc;

use table_core::Result;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::Key;
use table_core::prelude::*;

use crate::index::{IndexOptions, IndexQuery, IndexedTable, Trust};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email}", unique = "partition", payload = full)]
#[index(surname, partition_key = "surname_{last_name}", row_key = "{department}_{id:06}")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    last_name: String,
    email: Option<String>,
    #[etag]
    etag: Option<ETag>,
}

fn employee(id: u32, last_name: &str, email: Option<&str>) -> Employee {
    let (department, email) = ("Sales".to_owned(), email.map(str::to_owned));
    Employee { department, id, last_name: last_name.to_owned(), email, etag: None }
}

async fn employees() -> Result<(IndexedTable<Employee>, RequestMeter)> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    Ok((IndexedTable::open(store, "Employees", IndexOptions::local()).await?, meter))
}

#[tokio::test(start_paused = true)]
async fn a_copy_in_the_partition_is_found_in_one_request_and_hidden_from_the_table() -> Result<()> {
    let (employees, meter) = employees().await?;
    let ken = employee(1, "Kwok", Some("ken@x"));
    employees.insert(&ken).await?;
    let before = meter.total();
    let key = Key::new("Sales", "email_ken@x")?;
    assert_eq!(employees.find("email", &key, Trust::Entry).await?, Some(ken));
    assert_eq!(meter.total() - before, 1);
    let rows = employees.table().query().partition(Employee::partition("Sales")?).all().await?;
    assert_eq!(rows.len(), 1, "entries are not employees");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_absent_value_has_no_entry_and_an_update_moves_the_others() -> Result<()> {
    let (employees, _) = employees().await?;
    employees.insert_group(&[employee(1, "Kwok", None), employee(2, "Kwok", None)]).await?;
    employees
        .update(Employee::key("Sales", 2)?, |e| {
            (e.last_name, e.email) = ("Lee".to_owned(), Some("lee@x".to_owned()));
            Ok(())
        })
        .await?;
    let of = |name: &str| IndexQuery::partition(format!("surname_{name}"));
    let ids = |found: Vec<Employee>| found.into_iter().map(|e| e.id).collect::<Vec<_>>();
    assert_eq!(ids(employees.all("surname", &of("Kwok"), Trust::Entry).await?), [1]);
    assert_eq!(ids(employees.all("surname", &of("Lee"), Trust::Entry).await?), [2]);
    let key = Key::new("Sales", "email_lee@x")?;
    assert_eq!(employees.find("email", &key, Trust::Entity).await?.map(|e| e.id), Some(2));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_replace_needs_the_version_that_was_read() -> Result<()> {
    let (employees, _) = employees().await?;
    employees.insert(&employee(1, "Kwok", None)).await?;
    let old = employees.table().get_existing(Employee::key("Sales", 1)?).await?;
    employees.replace(&old, &employee(1, "Lee", None)).await?;
    let stale = employees.replace(&old, &employee(1, "Park", None)).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    let unread = employees.replace(&employee(1, "Lee", None), &employee(1, "Park", None)).await.unwrap_err();
    assert!(unread.to_string().contains("ETag"), "{unread}");
    assert!(employees.delete(Employee::key("Sales", 1)?).await?);
    assert!(!employees.delete(Employee::key("Sales", 1)?).await?);
    Ok(())
}
