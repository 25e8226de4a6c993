use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Employee")]
struct First {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(rename = "EntityReader")]
    reader: i32,
}

#[derive(TableEntity)]
#[entity(type = "Employee", min_reader = 1)]
struct Unversioned {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
}

#[derive(TableEntity)]
#[entity(type = "Employee", version = 2, min_reader = 3, previous = First)]
struct Later {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
}

#[derive(TableEntity)]
#[entity(type = "Employee", version = 2, min_reader = 0, previous = First)]
struct Zero {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
}

#[derive(TableEntity)]
#[entity(projection_of = First, min_reader = 1)]
struct Projection {
    #[row_key]
    id: u32,
}

fn main() {}
