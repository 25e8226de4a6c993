use table_core::typed::{PropertyGroup, TableEntity};

#[derive(PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Place {
    key: String,
    stamp: i32,
}

/// Stores `PartitionKey`.
#[derive(TableEntity)]
struct Keys {
    #[partition_key]
    partition: String,
    #[row_key]
    row: String,
    #[entity(flatten(prefix = "Partition"))]
    place: Place,
}

#[derive(PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Owner {
    owner_row: String,
}

/// Index entries have a property of this name.
#[derive(TableEntity)]
#[index(name, row_key = "name_{name}")]
struct Entries {
    #[partition_key]
    partition: String,
    #[row_key(format = "row_{}")]
    row: String,
    name: String,
    #[entity(flatten)]
    owner: Owner,
}

/// Without indexes the name is free.
#[derive(TableEntity)]
struct Free {
    #[partition_key]
    partition: String,
    #[row_key]
    row: String,
    #[entity(flatten)]
    owner: Owner,
}

fn main() {}
