use std::sync::Arc;

use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Continuation;
use table_core::store::{Operation, TableStore};

use super::SweepProgress;
use crate::testing::{CountingWrap, kek};
use crate::v2::HEADER;
use crate::{DataKeyBounds, Description, EncryptedStore, EncryptedStoreBuilder, KeyWrap, Keys, LegacyV1};

type Store = EncryptedStore<Arc<MemoryStore>>;
type Builder = EncryptedStoreBuilder<Arc<MemoryStore>>;

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn person(n: i32) -> Entity {
    Entity::new("Sales", format!("{n:03}")).unwrap().with("NationalId", format!("id{n}")).with("Age", n)
}

fn open(raw: &Arc<MemoryStore>, keys: Keys, configure: impl FnOnce(Builder) -> Builder) -> Store {
    configure(EncryptedStore::builder(Arc::clone(raw), keys)).build().unwrap()
}

fn key(n: u8) -> Keys {
    Keys::new(Arc::new(kek(n)))
}

fn encrypting(builder: Builder) -> Builder {
    builder.encrypt(&people(), ["NationalId"])
}

async fn table() -> Arc<MemoryStore> {
    let raw = Arc::new(MemoryStore::new());
    raw.create_table(&people()).await.unwrap();
    raw
}

async fn fill(store: &dyn TableStore, people_of: impl Iterator<Item = i32>) {
    for n in people_of {
        store.write(&people(), Operation::Insert(person(n))).await.unwrap();
    }
}

async fn described(store: &Store, n: i32) -> Description {
    store.describe(&people(), person(n).key()).await.unwrap().unwrap()
}

async fn raw_value(raw: &MemoryStore, n: i32, name: &str) -> Vec<u8> {
    let entity = raw.get(&people(), person(n).key(), None).await.unwrap().unwrap();
    let Some(ValueRef::Binary(bytes)) = entity.get(name) else { panic!("{entity:?}") };
    bytes.to_vec()
}

async fn assert_reads(store: &Store, people_of: impl Iterator<Item = i32>) {
    for n in people_of {
        let read = store.get(&people(), person(n).key(), None).await.unwrap().unwrap();
        assert_eq!(read.get("NationalId"), Some(ValueRef::String(&format!("id{n}"))));
        assert!(read.properties().find("NationalId").unwrap().is_encrypted());
    }
}

/// Forty entities under four data keys: four unwraps, four wraps, no ciphertext changed, and afterwards the
/// former key is not needed.
#[tokio::test]
async fn rotation_rewraps_and_encrypts_nothing_again() {
    let raw = table().await;
    let bounds = DataKeyBounds { max_writes: 10, ..DataKeyBounds::default() };
    fill(&open(&raw, key(1), |b| encrypting(b).with_data_key_bounds(bounds)), 0..40).await;
    let (ciphertext, header) = (raw_value(&raw, 7, "NationalId").await, raw_value(&raw, 7, HEADER).await);
    let [new, old] = [2, 1].map(|n| Arc::new(CountingWrap::new(kek(n))));
    let keys = Keys::new(Arc::clone(&new) as Arc<dyn KeyWrap>).with_key(Arc::clone(&old) as Arc<dyn KeyWrap>);
    let store = open(&raw, keys, encrypting);
    let done = store.rotation(&people()).run().await.unwrap();
    assert_eq!(done, SweepProgress { seen: 40, changed: 40 });
    assert_eq!((new.wraps(), old.unwraps()), (4, 4));
    assert_eq!(raw_value(&raw, 7, "NationalId").await, ciphertext);
    assert_ne!(raw_value(&raw, 7, HEADER).await, header);
    assert_reads(&open(&raw, key(2), encrypting), 0..40).await;
    assert_eq!(store.rotation(&people()).run().await.unwrap().changed, 0);
}

/// Stopped after each page, resumed by a cursor that went through text.
#[tokio::test]
async fn a_sweep_resumes_where_it_was() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..25).await;
    let store = open(&raw, key(2).with_key(Arc::new(kek(1))), encrypting);
    let (mut cursor, mut seen): (Option<String>, u64) = (None, 0);
    loop {
        let sweep = store.rotation(&people()).with_page_size(4);
        let mut sweep = match &cursor {
            None => sweep,
            Some(text) => sweep.resumed_at(text.parse::<Continuation>().unwrap()),
        };
        let more = sweep.step().await.unwrap();
        seen += sweep.progress().seen;
        cursor = sweep.cursor().map(ToString::to_string);
        if !more {
            break;
        }
    }
    assert_eq!((seen, cursor), (25, None));
    assert_reads(&open(&raw, key(2), encrypting), 0..25).await;
}

#[tokio::test]
async fn a_changed_header_is_not_laundered_by_rotation() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..1).await;
    let mut entity = raw.get(&people(), person(0).key(), None).await.unwrap().unwrap();
    let mut header = raw_value(&raw, 0, HEADER).await;
    let last = header.len() - 33;
    header[last] ^= 1;
    entity.properties_mut().set(HEADER, header);
    raw.write(&people(), Operation::InsertOrReplace(entity)).await.unwrap();
    let store = open(&raw, key(2).with_key(Arc::new(kek(1))), encrypting);
    assert!(store.rotation(&people()).run().await.unwrap_err().to_string().contains("cannot be decrypted"));
}

#[tokio::test]
async fn plaintext_is_migrated() {
    let raw = table().await;
    fill(&raw, 0..30).await;
    let strict = open(&raw, key(1), |b| encrypting(b).require_encryption(&people()));
    let refused = strict.get(&people(), person(3).key(), None).await.unwrap_err();
    assert!(refused.to_string().contains("accept_plaintext"), "{refused}");
    let store = open(&raw, key(1), |b| encrypting(b).accept_plaintext(&people()));
    fill(&store, 30..32).await;
    assert_reads(&store, 0..32).await;
    assert_eq!(store.migration(&people()).run().await.unwrap(), SweepProgress { seen: 32, changed: 30 });
    assert_reads(&strict, 0..32).await;
    assert_eq!(store.migration(&people()).run().await.unwrap().changed, 0);
}

#[tokio::test]
async fn legacy_data_is_migrated_and_then_its_key_is_not_needed() {
    let raw = table().await;
    let legacy = || LegacyV1::new(key(9));
    let old = open(&raw, key(1), |b| {
        encrypting(b).with_legacy_v1(legacy().write_insecurely_for_interoperability(&people()))
    });
    fill(&old, 0..10).await;
    assert!(matches!(described(&old, 3).await, Description::V1 { .. }));
    let store = open(&raw, key(1), |b| encrypting(b).with_legacy_v1(legacy().read(&people())));
    assert_reads(&store, 0..10).await;
    let patch = Entity::from(person(3).key().clone()).with("Age", 50);
    store.write(&people(), Operation::InsertOrMerge(patch)).await.unwrap();
    assert!(matches!(described(&store, 3).await, Description::V2 { .. }));
    assert_eq!(store.migration(&people()).run().await.unwrap().changed, 9);
    let after = open(&raw, key(1), encrypting);
    assert_reads(&after, 0..10).await;
    let merged = after.get(&people(), &Key::new("Sales", "003").unwrap(), None).await.unwrap().unwrap();
    assert_eq!((merged.get("Age"), merged.properties().len()), (Some(ValueRef::Int32(50)), 2));
}

#[tokio::test]
async fn encrypting_again_takes_new_data_keys() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..5).await;
    let before = raw_value(&raw, 2, "NationalId").await;
    let store = open(&raw, key(1), encrypting);
    assert_eq!(store.migration(&people()).run().await.unwrap().changed, 0);
    assert_eq!(store.migration(&people()).encrypting_again().run().await.unwrap().changed, 5);
    assert_ne!(raw_value(&raw, 2, "NationalId").await, before);
    assert_reads(&store, 0..5).await;
}
