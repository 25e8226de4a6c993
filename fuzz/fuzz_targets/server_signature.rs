//! Any query is refused as a signature, or has a string to sign with the fields of its version, so that no value is taken for two fields.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_server::fuzzing::signature;

fuzz_target!(|query: &str| {
    let Some(text) = signature(query) else { return };
    let lines = text.split('\n').count();
    assert!([10, 11, 12].contains(&lines), "{lines}: {text:?}");
});
