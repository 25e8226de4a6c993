//! Any text with any boundary is the answer to a group transaction, or is refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_azure::fuzzing::group_answer;

fuzz_target!(|input: (&str, &str)| {
    let (boundary, text) = input;
    // Each part has at least one line.
    assert!(group_answer(text, boundary).unwrap_or_default() <= text.lines().count());
});
