//! Stores a struct as an entity: insert, point read, replace under the ETag, query. Start here.
//!
//! Cost: 1 request each; a query 1 request per page.

use table_embedded::EmbeddedStore;
use table_patterns::prelude::*;

#[derive(Debug, Clone, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    first_name: String,
    age: i32,
    nickname: Option<String>,
    #[etag]
    etag: Option<ETag>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let store = EmbeddedStore::open(directory.path()).await?;
    let employees = Database::new(store).table::<Employee>("Employees")?;
    employees.declare().await?;

    let ken = Employee {
        department: "Sales".into(),
        id: 223,
        first_name: "Ken".into(),
        age: 41,
        nickname: None,
        etag: None,
    };
    employees.insert(&ken).await?; // 1 request; an error if it exists

    // A checked key of the type: PartitionKey "Sales", RowKey "empid_000223".
    let key = Employee::key("Sales", 223)?;
    assert_eq!(key.key().row(), "empid_000223");
    let mut read = employees.get_existing(&key).await?; // 1 request, a point query
    read.age += 1;
    employees.replace(&read).await?; // 1 request; an error if Ken has another ETag than `read.etag`

    let sales = employees.query().partition(Employee::partition("Sales")?);
    let older = sales.filter(Employee::AGE.gt(41)).all().await?; // 1 request per page
    assert_eq!(older.len(), 1);
    assert_eq!(older[0].first_name, "Ken");
    assert_eq!(older[0].age, 42);
    Ok(())
}
