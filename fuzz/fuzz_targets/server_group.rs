//! Any content type and text are a group with a bounded number of requests, or are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_server::fuzzing::group;

fuzz_target!(|text: &str| {
    let (content_type, body) = text.split_once('\n').unwrap_or((text, ""));
    // A group may have 100 requests; one more shows the excess.
    assert!(group(content_type, body).unwrap_or_default() <= 101.min(body.lines().count()));
});
