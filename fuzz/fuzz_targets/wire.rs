//! Any bytes are an error, or the JSON of an entity that is written to JSON with the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_azure::wire::{decode_entities, decode_entity, decode_table_names, encode_entity};

fuzz_target!(|bytes: &[u8]| {
    let _ = decode_table_names(bytes);
    let _ = decode_entities(bytes);
    let Ok(entity) = decode_entity(bytes) else {
        return;
    };
    let json = encode_entity(&entity);
    let read = decode_entity(&json).expect("written JSON can be parsed");
    // Compares the JSON, because NaN equals nothing.
    assert_eq!(encode_entity(&read), json);
});
