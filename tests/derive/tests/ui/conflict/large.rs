use table_core::typed::{PropertyGroup, TableEntity};

#[derive(TableEntity)]
struct Report {
    #[partition_key]
    #[large]
    department: String,
    #[row_key]
    id: u32,
    #[large]
    #[entity(json)]
    skills: Vec<String>,
    #[large(over = "many")]
    text: String,
    #[large(under = 3)]
    more: String,
}

#[derive(TableEntity)]
struct Whole {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    #[large]
    text: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Whole)]
struct Part {
    #[large]
    text: String,
}

#[derive(PropertyGroup)]
struct Group {
    #[large]
    text: String,
}

fn main() {}
