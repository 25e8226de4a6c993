//! Several types in one table.

use table_core::model::{Entity, PartitionKey};
use table_core::store::Operation;
use table_core::typed::{EntityResolver, Table, TableEntity};

use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Department", partition_key = "{name}", row_key = "department", rename_all = "PascalCase")]
struct Department {
    name: String,
    employee_count: i32,
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

#[derive(Debug, PartialEq, EntityResolver)]
enum Row {
    Department(Department),
    Employee(Employee),
    #[resolver(other)]
    Other(Entity),
}

fn sales() -> Department {
    Department { name: "Sales".to_owned(), employee_count: 1 }
}

fn ken() -> Employee {
    Employee { department: "Sales".to_owned(), id: 223, name: "Ken".to_owned() }
}

async fn rows(harness: &Harness) -> Table<Row> {
    let table = harness.table().await;
    let view = Table::<Row>::new(harness.store().clone(), table.name().clone()).expect("a table");
    view.view::<Department>().expect("a view").insert(&sales()).await.expect("a new row");
    view.view::<Employee>().expect("a view").insert(&ken()).await.expect("a new row");
    table.put(Operation::Insert(note())).await;
    view
}

fn note() -> Entity {
    let note = Entity::new("Sales", "note_1").expect("a legal key");
    note.with("EntityType", "Note").with("Text", "by another program")
}

/// One query reads every type; a row of an unknown one comes as it is.
pub async fn rows_are_read_as_what_they_are(harness: &Harness) {
    let rows = rows(harness).await;
    let sales_partition = PartitionKey::new("Sales").expect("a legal key");
    let all = rows.query().partition(sales_partition).all().await.expect("three rows");
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.contains(&Row::Department(sales())));
    assert!(all.contains(&Row::Employee(ken())));
    let other = |row: &Row| matches!(row, Row::Other(e) if e.properties() == note().properties());
    assert!(all.iter().any(other), "{all:?}");
}
