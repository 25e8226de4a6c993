use table_core::typed::TableEntity;

struct Opaque;

#[derive(TableEntity)]
#[entity(partition_key = "x", row_key = "{id}")]
struct Employee {
    id: u32,
    #[entity(text)]
    opaque: Opaque,
    #[entity(text)]
    list: Vec<u32>,
}

fn main() {}
