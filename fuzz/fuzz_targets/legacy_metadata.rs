//! Any text and bytes in place of legacy metadata give the uniform error that readers see.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, TableName};
use table_core::store::{ErrorKind, Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, Keys, LegacyV1};

fuzz_target!(|input: (&str, &[u8])| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let (json, list) = input;
        let (raw, table) = (
            Arc::new(MemoryStore::new()),
            TableName::new("People").expect("a name"),
        );
        raw.create_table(&table).await.expect("a table");
        let entity = Entity::new("p", "r")
            .expect("keys")
            .with("_ClientEncryptionMetadata1", json);
        let entity = entity.with("_ClientEncryptionMetadata2", list);
        if raw
            .write(&table, Operation::Insert(entity.clone()))
            .await
            .is_err()
        {
            return;
        }
        let key = |id: &str| Arc::new(AesKeyWrap::new(id, &vec![1; 32].into()).expect("32 bytes"));
        let legacy = LegacyV1::new(Keys::new(key("local:key1"))).read(&table);
        let store = EncryptedStore::builder(raw, Keys::new(key("kek"))).with_legacy_v1(legacy);
        let store = store.build().expect("keys");
        if let Err(error) = store.get(&table, entity.key(), None).await {
            assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
        }
    });
});
