//! Any bytes are the JSON of an entity, which is written to JSON that reads back the same, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_azure::wire::{decode_entities, decode_entity, decode_table_names, encode_entity};

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_table_names(bytes);
    let _ = decode_entities(bytes);
    let Ok(entity) = decode_entity(bytes) else { return };
    let json = encode_entity(&entity);
    let read = decode_entity(&json).expect("what is written reads back");
    // The JSON again, because NaN equals nothing.
    assert_eq!(encode_entity(&read), json);
});
