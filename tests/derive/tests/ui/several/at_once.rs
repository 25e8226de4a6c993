//! Six mistakes, six errors, and none from the uses of the type.

use table_core::typed::{FromEntity, TableEntity};

#[derive(TableEntity)]
#[entity(type = "", versions = 2, row_key = "{identifier:06}")]
struct Employee {
    #[partition_key]
    #[encrypt]
    department: Option<String>,
    id: u32,
    #[entity(rename = "Timestamp")]
    written: u64,
}

fn read<T: TableEntity>(entity: table_core::model::Entity) -> T {
    T::from_entity(entity).unwrap()
}

fn main() {
    let employee: Employee = read(table_core::model::Entity::new("a", "b").unwrap());
    let _ = employee.to_entity();
    let _ = <Employee as FromEntity>::select();
}
