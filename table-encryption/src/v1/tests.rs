//! The test vectors of the format, in both directions.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Select;
use table_core::store::{Operation, TableStore};

use super::*;
use crate::testing::{hex, kek};
use crate::{AesKeyWrap, EncryptedStore, Keys};

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../../tests/vectors/v1.json")).unwrap()
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap()
}

fn binary(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

fn table() -> TableName {
    TableName::new("Employees").unwrap()
}

fn legacy(vector: &Value) -> LegacyV1 {
    let key = AesKeyWrap::new(text(vector, "key_id"), &hex(text(vector, "kek")).into()).unwrap();
    LegacyV1::new(Keys::new(Arc::new(key)))
}

fn stored(vector: &Value) -> Entity {
    let mut entity = Entity::new(text(vector, "partition"), text(vector, "row"))
        .unwrap()
        .with("Age", 41);
    for (name, value) in vector["properties"].as_object().unwrap() {
        entity = entity.with(name, binary(value));
    }
    entity
        .with(METADATA[0], text(vector, "metadata1"))
        .with(METADATA[1], binary(&vector["metadata2"]))
}

async fn raw(entity: Entity) -> Arc<MemoryStore> {
    let raw = Arc::new(MemoryStore::new());
    raw.create_table(&table()).await.unwrap();
    raw.write(&table(), Operation::Insert(entity))
        .await
        .unwrap();
    raw
}

fn reading(raw: &Arc<MemoryStore>, legacy: LegacyV1) -> EncryptedStore<Arc<MemoryStore>> {
    EncryptedStore::builder(Arc::clone(raw), Keys::new(Arc::new(kek(1))))
        .with_legacy_v1(legacy)
        .build()
        .unwrap()
}

#[tokio::test]
async fn data_of_every_legacy_library_is_read() {
    for vector in vectors() {
        let raw = raw(stored(&vector)).await;
        let store = reading(&raw, legacy(&vector).read(&table()));
        let key = Key::new("pk", "rk").unwrap();
        let read = store.get(&table(), &key, None).await.unwrap().unwrap();
        assert_eq!(read.properties().len(), 3);
        for (name, value) in vector["values"].as_object().unwrap() {
            let property = read.properties().find(name).unwrap();
            assert_eq!(property.value(), ValueRef::String(value.as_str().unwrap()));
            assert!(property.is_encrypted());
        }
        let one = store
            .get(&table(), &key, Some(&Select::new(["mail"])))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(one.properties().len(), 1);
        assert_eq!(one.get("mail"), Some(ValueRef::String("ñandú")));
    }
}

#[tokio::test]
async fn other_tables_and_other_keys_are_refused() {
    let vector = &vectors()[0];
    let raw = raw(stored(vector)).await;
    let key = Key::new("pk", "rk").unwrap();
    let other_table = reading(&raw, legacy(vector).read(&TableName::new("Other").unwrap()));
    let untouched = other_table
        .get(&table(), &key, None)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(untouched.get("name"), Some(ValueRef::Binary(_))));
    let other = LegacyV1::new(Keys::new(Arc::new(kek(7)))).read(&table());
    let error = reading(&raw, other)
        .get(&table(), &key, None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("cannot be decrypted"), "{error}");
    let same = LegacyV1::new(Keys::new(Arc::new(kek(1)))).read(&table());
    let keys = Keys::new(Arc::new(kek(1)));
    assert!(
        EncryptedStore::builder(raw, keys)
            .with_legacy_v1(same)
            .build()
            .is_err()
    );
}

/// The first vector as we write it, except for the random values: the same key produces the same structure.
#[tokio::test]
async fn written_entities_are_read_back() {
    let vector = &vectors()[0];
    let raw = raw(stored(vector)).await;
    let store = reading(
        &raw,
        legacy(vector).write_insecurely_for_interoperability(&table()),
    );
    let entity = Entity::new("p", "r")
        .unwrap()
        .with_encrypted("name", "Ken")
        .with("Age", 41);
    store
        .write(&table(), Operation::Insert(entity.clone()))
        .await
        .unwrap();
    let written = raw
        .get(&table(), entity.key(), None)
        .await
        .unwrap()
        .unwrap();
    let Some(ValueRef::String(json)) = written.get(METADATA[0]) else {
        panic!()
    };
    let order: Vec<usize> = [
        "WrappedContentKey",
        "EncryptionAgent",
        "ContentEncryptionIV",
        "KeyWrappingMetadata",
    ]
    .map(|name| json.find(&format!("\"{name}\"")).unwrap())
    .into();
    assert!(order.is_sorted() && order[0] == 1, "{json}");
    assert!(written.get(crate::v2::HEADER).is_none());
    let read = store
        .get(&table(), entity.key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.properties(), entity.properties());
    let number = Entity::new("p", "n").unwrap().with_encrypted("Age", 41);
    let error = store
        .write(&table(), Operation::Insert(number))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("Edm.String only"), "{error}");
}

#[test]
fn foreign_metadata_is_refused() {
    let json = vectors()[0]["metadata1"].as_str().unwrap().to_owned();
    assert!(Metadata::parse(&json, b"").is_some());
    for (from, to) in [
        ("\"1.0\"", "\"2.0\""),
        ("AES_CBC_256", "AES_GCM_256"),
        ("\"KeyId\"", "\"Id\""),
        ("ZGVm", "!!!!"),
    ] {
        assert!(json.contains(from));
        assert!(
            Metadata::parse(&json.replace(from, to), b"").is_none(),
            "{to}"
        );
    }
    let java = json.replace("Python 1.0.6", "Java 5.0.0");
    assert!(
        Metadata::parse(&java, b"").unwrap().is_java
            && !Metadata::parse(&json, b"").unwrap().is_java
    );
}
