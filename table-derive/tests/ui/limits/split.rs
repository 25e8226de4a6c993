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
