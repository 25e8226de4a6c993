//! Any bytes in place of a header give the uniform error that readers see.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{ErrorKind, Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, Keys};

fuzz_target!(|input: (&[u8], &[u8])| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (header, ciphertext) = input;
        let (raw, table) = (
            Arc::new(MemoryStore::new()),
            TableName::new("People").expect("a name"),
        );
        raw.create_table(&table).await.expect("a table");
        let entity = Entity::new("p", "r")
            .expect("keys")
            .with("_EncryptionHeader", header)
            .with("Name", ciphertext);
        if raw
            .write(&table, Operation::Insert(entity.clone()))
            .await
            .is_err()
        {
            return;
        }
        let kek = AesKeyWrap::new("kek", &vec![1; 32].into()).expect("32 bytes");
        let store = EncryptedStore::new(raw, Keys::new(Arc::new(kek))).expect("keys");
        let error = store
            .get(&table, entity.key(), None)
            .await
            .expect_err("no key was wrapped");
        assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
    });
});
