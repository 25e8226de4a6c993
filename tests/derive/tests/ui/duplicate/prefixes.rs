use table_core::typed::{PropertyGroup, TableEntity};

#[derive(PropertyGroup)]
struct Address {
    #[entity(alias = "Town")]
    city: String,
}

#[derive(TableEntity)]
#[entity(partition_key = "x", row_key = "{id}")]
struct Employee {
    id: u32,
    #[entity(flatten(prefix = "Home"))]
    home: Address,
    #[entity(rename = "HomeTown")]
    town: String,
}

fn main() {}
