use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee", version = 2)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
}

fn main() {}
