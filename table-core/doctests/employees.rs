// The type and the table of the examples in the documentation of `typed::PlainTable`. The examples include this file.

use table_core::memory::MemoryStore;
use table_core::model::ETag;
use table_core::typed::{PlainTable, TableEntity};

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
    age: Option<i32>,
    #[etag]
    etag: Option<ETag>,
}

/// Creates an empty table.
async fn employees() -> table_core::Result<PlainTable<Employee>> {
    let employees = PlainTable::new(MemoryStore::new(), "Employees")?;
    employees.create_if_missing().await?;
    Ok(employees)
}

fn ken() -> Employee {
    Employee { department: "Sales".into(), id: 223, name: "Ken".into(), age: None, etag: None }
}
