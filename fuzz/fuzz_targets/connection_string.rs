//! Any text is a connection string or an error, and neither shows the secret.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_azure::fuzzing::connection_string;

const SECRET: &str = "c2VjcmV0";

fuzz_target!(|text: &str| {
    if text.contains(SECRET) {
        return;
    }
    for text in [
        format!("{text};AccountKey={SECRET}"),
        format!("SharedAccessSignature=sig={SECRET};{text}"),
    ] {
        for service in ["Table", "Queue"] {
            let shown = connection_string(&text, service).unwrap_or_else(|error| error.to_string());
            assert!(!shown.contains(SECRET));
        }
    }
});
