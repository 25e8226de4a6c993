use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(partition_key = "{a}{b}", row_key = "{a}F{b}")]
struct Separators {
    a: String,
    b: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "{a}·{b}", row_key = "{b:06}")]
struct Widths {
    a: Box<str>,
    b: i32,
}

fn main() {}
