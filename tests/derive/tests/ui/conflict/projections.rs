//! Settings of the entity that a projection repeats.

use table_core::typed::TableEntity;

#[derive(TableEntity)]
#[entity(type = "Event", discriminator = "Kind", partition_key = "{day}", row_key = "{number:06}")]
struct Event {
    day: String,
    number: u32,
    text: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Event, discriminator = "Sort")]
struct Discriminated {
    text: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Event, discriminator(none))]
struct Undiscriminated {
    text: String,
}

#[derive(TableEntity)]
#[entity(projection_of = Event)]
struct Keys {
    #[partition_key(format = "day_{}", spread = 16, salt = "events")]
    day: String,
    #[row_key(format = "{:08}")]
    number: u32,
}

fn main() {}
