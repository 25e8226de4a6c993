//! Any text is an error or a continuation token that prints to the same text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_core::query::Continuation;

fuzz_target!(|text: &str| {
    if let Ok(continuation) = text.parse::<Continuation>() {
        assert_eq!(continuation.to_string(), text);
    }
});
