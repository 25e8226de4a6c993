use table_core::typed::{PropertyGroup, TableEntity};

#[derive(TableEntity)]
struct Report {
    #[partition_key]
    #[entity(split)]
    department: String,
    #[row_key]
    id: u32,
    #[large]
    #[entity(split)]
    scan: Vec<u8>,
    #[entity(split = 3)]
    text: String,
    #[entity(split, flatten)]
    group: Group,
}

#[derive(TableEntity)]
#[index(body, row_key = "body_{body}_{id}")]
#[index(named, row_key = "named_{id}_{name}", payload = fields(body))]
#[index(open, row_key = "open_{id}_{name}", where = "body ne ''")]
struct Indexed {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    name: String,
    #[entity(split)]
    body: String,
}

#[derive(TableEntity)]
struct Whole {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(split)]
    body: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Whole)]
struct Part {
    #[entity(split)]
    body: String,
}

#[derive(PropertyGroup)]
struct Group {
    #[entity(split)]
    body: String,
}

fn main() {}
