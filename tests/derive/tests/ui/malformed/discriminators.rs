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

#[derive(TableEntity)]
#[entity(discriminator(row_prefix), partition_key = "{a}", row_key = "doc_meta_{b}")]
struct TwoEnds {
    a: String,
    b: String,
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix), partition_key = "{a}", row_key = "doc{b}")]
struct NoEnd {
    a: String,
    b: String,
}

#[derive(TableEntity)]
#[entity(discriminator(partition_prefix), partition_key = "north-west-{a}", row_key = "{b}")]
struct Partition {
    a: String,
    b: String,
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix), partition_key = "{a}", row_key = "größe9.{b}")]
struct Right {
    a: String,
    b: String,
}

fn main() {}
