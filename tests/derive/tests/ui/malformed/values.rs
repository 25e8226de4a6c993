use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = 7, version = "2", previous = "Old", rename_all(Pascal), crate = "table_core")]
struct Values {
    #[partition_key]
    a: String,
    #[row_key]
    b: String,
    #[entity(skip = true)]
    c: String,
    #[entity(default = "x")]
    d: String,
    #[entity(with = "Codec")]
    e: u64,
    #[encrypt(always)]
    f: String,
    #[entity(rename)]
    g: String,
}

#[derive(TableEntity)]
#[entity(partition_key = "{a", row_key = "a}")]
struct Braces {
    a: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "~{a}", row_key = "~~meta_{a}")]
struct System {
    a: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "{a:6}", row_key = "{a:021}")]
struct Widths {
    a: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "a/{a}", row_key = "{a b}")]
struct Texts {
    a: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "x", version = 0)]
struct Formats {
    #[row_key(format = "{a}_{}")]
    a: u32,
}

#[derive(TableEntity)]
#[entity(partition_key = "x")]
struct TwoPlaces {
    #[row_key(format = "{}_{}")]
    a: u32,
}

#[derive(TableEntity)]
#[entity(type "Employee")]
struct Syntax {
    #[partition_key]
    a: String,
    #[row_key]
    b: String,
}

fn main() {}
