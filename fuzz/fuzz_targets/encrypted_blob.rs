//! Any bytes, in pieces of any size, are refused as a blob.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use table_core::model::{Key, TableName};
use table_encryption::{AesKeyWrap, BlobCipher, BlobPlace, Keys};

fuzz_target!(|pieces: Vec<&[u8]>| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let kek = AesKeyWrap::new("kek", &vec![1; 32].into()).expect("32 bytes");
        let cipher = BlobCipher::with_keys(Keys::new(Arc::new(kek))).expect("one key");
        let (table, key) = (
            TableName::new("Documents").expect("a name"),
            Key::new("p", "r").expect("keys"),
        );
        let mut opener = cipher.opener(&BlobPlace {
            table,
            key,
            name: "Body".into(),
        });
        for piece in pieces {
            match opener.push(piece).await {
                Ok(opened) => assert!(opened.is_empty()),
                Err(_) => return,
            }
        }
        assert!(opener.finish().await.is_err());
    });
});
