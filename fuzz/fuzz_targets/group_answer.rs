//! Any text with any boundary is the answer to a group transaction, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_azure::fuzzing::group_answer;

fuzz_target!(|input: (&str, &str)| {
    let (boundary, text) = input;
    // Each part has a line of its own.
    assert!(group_answer(text, boundary).unwrap_or_default() <= text.lines().count());
});
