//! Any bytes on a connection of the server end in an answer or in the end of the connection.
#![no_main]

use libfuzzer_sys::fuzz_target;
use table_server::fuzzing::Target;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let served = tokio::spawn(Target::new().await.connection(server));
        // The server may close before it has read everything.
        let _ = client.write_all(bytes).await;
        let _ = client.shutdown().await;
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer).await;
        served.await.expect("no panic");
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1."),
            "{answer:?}"
        );
        assert!(
            !answer.starts_with(b"HTTP/1.1 500"),
            "no request makes the server fail"
        );
    });
});
