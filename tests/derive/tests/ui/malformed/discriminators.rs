//! Values of `discriminator`, each with one error.

use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "A", discriminator = 3)]
struct Number {
    #[partition_key]
    a: String,
    #[row_key]
    b: String,
}

#[derive(TableEntity)]
#[entity(type = "A", discriminator(property = "Kind"))]
struct Nested {
    #[partition_key]
    a: String,
    #[row_key]
    b: String,
}

#[derive(TableEntity)]
#[entity(type = "A", discriminator(suffix))]
struct Unknown {
    #[partition_key]
    a: String,
    #[row_key]
    b: String,
}

fn main() {}
