use table_core::model::KeyPart;
use table_core::typed::{EntityResolver, Property, PropertyGroup, TableEntity};

#[derive(TableEntity)]
struct NoKeys {
    name: String,
}

#[derive(TableEntity)]
struct Unnamed(String);

#[derive(TableEntity)]
enum NotAStruct {
    A,
}

#[derive(EntityResolver)]
enum NoTypes {}

#[derive(EntityResolver)]
enum NoEntity {
    Employee,
    Department { name: String },
}

#[derive(EntityResolver)]
struct NotAnEnum;

#[derive(PropertyGroup)]
struct NoNames(u32);

#[derive(Property)]
struct NoField;

#[derive(KeyPart)]
struct TwoFields {
    a: u32,
    b: u32,
}

#[derive(TableEntity)]
#[entity(row_key = "one", previous = NoKeys)]
struct NoVersion {
    #[partition_key]
    name: String,
}

fn main() {}
