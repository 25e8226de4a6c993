use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "")]
struct Names {
    #[partition_key]
    #[allow(non_snake_case)]
    a: String,
    #[row_key]
    b: String,
    #[entity(rename = "RowKey")]
    c: String,
    #[entity(rename = "EntityType")]
    d: String,
    #[entity(rename = "EntityVersion")]
    e: String,
    #[entity(rename = "first-name")]
    f: String,
    #[entity(rename = "1st")]
    g: String,
    #[entity(rename = "")]
    h: String,
}

#[derive(TableEntity)]
#[entity(discriminator = "Row Kind", rename_all = "kebab-case")]
struct Kind {
    #[partition_key]
    a: String,
    #[row_key]
    b: String,
    first_name: String,
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix), partition_key = "x", row_key = "{id}")]
struct NoPrefix {
    id: u32,
}

fn main() {}
