use table_core::typed::{PropertyGroup, TableEntity};

#[derive(PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Address {
    city: String,
}

#[derive(TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(local, row_key = "local_{id:06}", where = "HomeCity eq 'Oslo'")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    #[entity(flatten(prefix = "Home"))]
    home: Address,
    #[entity(flatten(prefix = "Work"))]
    work: Address,
}

fn main() {
    // The condition of the index reads a property of this group only.
    let _ = Employee::patch().home(Address { city: "Rome".to_owned() });
    let _ = Employee::patch().work(Address { city: "Rome".to_owned() });
}
