use table_core::model::KeyPart;
use table_core::typed::{Property, PropertyGroup, TableEntity};

#[derive(Property)]
enum State {
    Open,
    #[entity(alias = "Open", json)]
    Closed,
    #[entity(other, rename = "x")]
    Other { text: String },
    #[entity(other)]
    Rest,
    Data(u32),
}

#[derive(Property)]
#[entity(integer, rename_all = "lowercase")]
enum Level {
    Low = 1,
    #[entity(rename = "high")]
    High,
}

#[derive(Property)]
#[entity(integer)]
struct Newtype(u32);

#[derive(KeyPart)]
enum Part {
    #[entity(alias = "a")]
    A,
    #[entity(other)]
    Other,
}

#[derive(PropertyGroup)]
struct Address {
    city: String,
}

#[derive(TableEntity)]
#[entity(partition_key = "x", row_key = "{id}")]
#[index(name, row_key = "name_{name}")]
struct Employee {
    #[entity(alias = "Number")]
    id: u32,
    #[entity(alias = "surname")]
    name: String,
    #[entity(alias = "age", alias = "a b")]
    years: u32,
    #[entity(rename = "age")]
    age: u32,
    #[entity(text, json)]
    both: String,
    #[entity(flatten(prefix = "1"))]
    home: Address,
    #[entity(flatten(suffix = "x"))]
    work: Address,
    #[entity(flatten = "Home", alias = "Other")]
    other: Address,
    #[entity(other)]
    unknown: u32,
}

fn main() {}
