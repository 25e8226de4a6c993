use table_core::model::ETag;
use table_core::typed::{EntityResolver, Property, TableEntity};

#[derive(TableEntity)]
#[entity(type = "A", type = "B")]
struct Twice {
    #[partition_key]
    department: String,
    #[partition_key]
    team: String,
    #[row_key]
    #[row_key]
    id: u32,
    name: String,
    #[entity(rename = "name")]
    other: String,
    #[etag]
    etag: Option<ETag>,
    #[etag]
    version: Option<ETag>,
}

#[derive(Property)]
#[entity(rename_all = "lowercase")]
enum SameText {
    AB,
    Ab,
    #[entity(rename = "ab")]
    C,
}

#[derive(EntityResolver)]
enum TwoOthers {
    Twice(Twice),
    #[resolver(other)]
    A(table_core::model::Entity),
    #[resolver(other)]
    B(table_core::model::Entity),
}

fn main() {}
