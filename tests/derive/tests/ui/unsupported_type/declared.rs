use table_core::model::ETag;
use table_core::model::KeyPart;
use table_core::typed::{EntityResolver, Property, TableEntity};

#[derive(TableEntity)]
struct Types<'a> {
    #[partition_key]
    department: Option<String>,
    #[row_key]
    id: u32,
    name: &'a str,
    #[etag]
    etag: ETag,
    #[timestamp]
    written: u64,
}

#[derive(TableEntity)]
struct GenericKey<T> {
    #[partition_key]
    department: T,
    #[row_key]
    id: u32,
}

#[derive(Property, KeyPart)]
enum WithFields {
    A(u32),
    B { c: u32 },
}

#[derive(Property)]
union Either {
    a: u32,
    b: f32,
}

#[derive(EntityResolver)]
enum Generic<T> {
    A(T),
}

fn main() {}
