//! Any bytes in the body of a refusal become an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_azure::fuzzing::error_body;

fuzz_target!(|input: (u16, &[u8])| {
    let (status, body) = input;
    let error = error_body(status, body);
    assert_eq!(error.answer().map(|answer| answer.status), Some(status));
    assert!(!error.to_string().is_empty());
});
