//! Conditions that are joined like `bool`, and values that are no conditions.

use table_core::typed::{PlainTable, TableEntity};

#[derive(TableEntity)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    age: i32,
    name: String,
}

#[derive(TableEntity)]
struct Plane {
    #[partition_key]
    maker: String,
    #[row_key]
    tail: String,
    age: i32,
}

fn queries(employees: &PlainTable<Employee>) {
    let _ = employees.query().filter(Employee::AGE.gt(30) && Employee::NAME.eq("Ken"));
    let _ = employees.query().filter(Employee::AGE.gt(30) || Employee::AGE.lt(20));
    let _ = employees.query().filter(Employee::AGE == 30);
    let _ = employees.query().filter(Plane::AGE.gt(30));
    let _ = employees.query().filter("Age gt 30");
}

fn main() {}
