use table_core::model::{ETag, Properties};
use table_core::model::KeyPart;
use table_core::typed::{PropertyGroup, TableEntity};

#[derive(TableEntity)]
#[entity(row_key = "{id:06}")]
struct Roles {
    #[partition_key]
    #[encrypt]
    department: String,
    #[entity(json, rename = "Id")]
    id: u32,
    #[entity(skip, json)]
    skipped: String,
    #[entity(flatten, rename = "Address")]
    address: Address,
    #[entity(json, with = Codec)]
    both: String,
    #[etag]
    #[encrypt]
    etag: Option<ETag>,
    #[entity(rest, default)]
    rest: Properties,
}

#[derive(TableEntity)]
#[entity(partition_key = "x", row_key = "{id:06}")]
struct TwoTemplates {
    id: u32,
    #[row_key]
    other: u32,
}

#[derive(PropertyGroup)]
struct Address {
    #[row_key]
    city: String,
    #[entity(rest)]
    rest: Properties,
}

#[derive(TableEntity)]
#[entity(projection_of = Roles, type = "Roles", row_key = "{id}")]
struct Projection {
    #[entity(skip)]
    id: u32,
    #[entity(flatten)]
    address: Address,
}

#[derive(KeyPart)]
#[entity(rename_all = "lowercase")]
struct Newtype(String);

fn main() {}
