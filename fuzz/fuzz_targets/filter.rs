//! Any text is a filter or an error. A filter prints to text that parses to the same filter, and can be
//! bounded, planned and evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_core::model::Entity;
use table_core::query::{Filter, Query};
use table_core::store::ServiceProfile;

fuzz_target!(|text: &str| {
    let Ok(filter) = text.parse::<Filter>() else {
        return;
    };
    let printed = filter.to_string();
    let read: Filter = printed.parse().expect("a printed filter can be parsed");
    // Compares the text, because NaN equals nothing.
    assert_eq!(read.to_string(), printed);
    let entity = Entity::new("a", "b").expect("a key").with("A", 1);
    let matches = filter.matches(&entity);
    let query = Query::new().with_filter(filter);
    assert!(!matches || query.bounds().contains(entity.key()));
    let _ = query.explain(&ServiceProfile::AZURE_TABLES).to_string();
});
