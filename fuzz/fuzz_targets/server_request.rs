//! Any request of an account's owner has an answer, and no request makes the server fail: paths, options, filters, headers, bodies.
//!
//! The input is `METHOD PATH`, a header on each further line, an empty line, and the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_server::fuzzing::Target;

fuzz_target!(|text: &str| {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let target = Target::new().await;
        let Some((status, _)) = target.request(head, body.as_bytes()).await else {
            return;
        };
        assert!((200..500).contains(&status) || status == 501, "{status}");
        // What was written can be read.
        let all = target
            .request(
                "GET abc()\nAccept: application/json;odata=fullmetadata",
                b"",
            )
            .await;
        let Some((200, page)) = all else {
            // The request has deleted the table, by its verb or by `X-HTTP-Method`.
            assert!(head.contains("DELETE"), "{all:?}");
            return;
        };
        assert!(page.starts_with(b"{\"odata.metadata\""));
    });
});
