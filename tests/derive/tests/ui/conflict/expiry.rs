use table_core::model::Ticks;
use table_core::typed::{PropertyGroup, TableEntity};

#[derive(TableEntity)]
struct Session {
    #[partition_key]
    user: String,
    #[row_key]
    #[expires]
    id: u32,
    #[expires]
    #[encrypt]
    secret: Ticks,
    #[expires]
    #[entity(json)]
    written: Ticks,
    #[expires]
    #[entity(alias = "end")]
    renamed: Ticks,
    #[expires]
    #[deleted_at]
    both: Option<Ticks>,
    #[expires(at = 3)]
    valued: Ticks,
}

#[derive(TableEntity)]
struct Twice {
    #[partition_key]
    user: String,
    #[row_key]
    id: u32,
    #[expires]
    one: Ticks,
    #[expires]
    two: Ticks,
    #[deleted_at(keep_days = "many")]
    three: Option<Ticks>,
    #[deleted_at(days = 3)]
    four: Option<Ticks>,
    #[deleted_at]
    five: Ticks,
}

#[derive(TableEntity)]
#[entity(projection_of = Whole)]
struct Part {
    #[expires]
    until: Ticks,
}

#[derive(PropertyGroup)]
struct Group {
    #[deleted_at]
    deleted: Option<Ticks>,
}

#[derive(TableEntity)]
struct Whole {
    #[partition_key]
    user: String,
    #[row_key]
    id: u32,
    until: Ticks,
}

fn main() {}
