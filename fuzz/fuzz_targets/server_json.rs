//! Any bytes are refused, or are an entity that is written and read again with the same meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_server::fuzzing::entity;

fuzz_target!(|bytes: &[u8]| {
    let Some(written) = entity(bytes) else { return };
    // Compares the JSON, because NaN equals nothing.
    assert_eq!(entity(&written).expect("written JSON is read"), written);
});
