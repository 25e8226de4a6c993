use table_core::typed::{PropertyGroup, TableEntity};

#[derive(TableEntity)]
struct Report {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(split)]
    count: i32,
    #[entity(split)]
    body: String,
    #[entity(flatten)]
    group: Group,
}

#[derive(PropertyGroup)]
#[allow(non_snake_case)]
struct Group {
    body_Part3: String,
}

// The names of own fields, of aliases and of the discriminator.
#[derive(TableEntity)]
#[entity(type = "Names", discriminator = "body_Part7")]
struct Names {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(split, alias = "text")]
    body: String,
    #[entity(rename = "body_Parts")]
    count: i32,
    #[entity(alias = "text_Part12")]
    other: Option<String>,
    body_parts: String,
}

// A flattened name and a flattened alias. Each collides with a part of an alias of the split field.
#[derive(TableEntity)]
struct Flattened {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(split, alias = "text", alias = "HomeText")]
    body: String,
    #[entity(flatten)]
    group: FormerGroup,
    #[entity(flatten(prefix = "Home"))]
    home: FormerGroup,
}

#[derive(PropertyGroup)]
#[allow(non_snake_case)]
struct FormerGroup {
    #[entity(alias = "Text_Part12")]
    text_Parts: String,
}

// No names of parts: a type may have them.
#[derive(TableEntity)]
#[allow(non_snake_case)]
struct Partners {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(split)]
    body: String,
    body_Partner: String,
    body_Part01: String,
    #[entity(flatten(prefix = "body_"))]
    group: PartGroup,
}

#[derive(PropertyGroup)]
#[allow(non_snake_case)]
struct PartGroup {
    Part: String,
    Partition: String,
    Part1a: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Report)]
struct Body {
    body: String,
}

#[derive(TableEntity)]
struct Letter {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[entity(split)]
    body: String,
}

fn main() {
    let _ = LetterPatch::default().body("b");
    let _ = Letter::BODY.eq("b");
    let _ = Letter::BODY.starts_with("b");
}
