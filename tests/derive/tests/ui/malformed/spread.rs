//! How partitions are spread.

use table_core::typed::TableEntity;

#[derive(TableEntity)]
struct SaltAlone {
    #[partition_key(salt = "events")]
    day: String,
    #[row_key]
    number: u32,
}

#[derive(TableEntity)]
#[entity(spread = 1)]
struct OneBucket {
    #[partition_key]
    day: String,
    #[row_key]
    number: u32,
}

#[derive(TableEntity)]
#[entity(spread = 16, salt = "events")]
struct Twice {
    #[partition_key(spread = 16, salt = "")]
    day: String,
    #[row_key]
    number: u32,
}

#[derive(TableEntity)]
struct OnTheRow {
    #[partition_key]
    day: String,
    #[row_key(spread = 16, salt = "events")]
    number: u32,
}

#[derive(TableEntity)]
struct EmptySalt {
    #[partition_key(spread = 16, salt = "")]
    day: String,
    #[row_key]
    number: u32,
}

fn main() {}
