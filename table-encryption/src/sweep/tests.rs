use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, INDEX_TABLE, Key, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::query::{Continuation, Query, ReadablePage};
use table_core::store::{ErrorKind, Operation, Result, TableStore};

use crate::testing::{CountingWrap, Outage, UnreliableWrap, kek};
use crate::v2::HEADER;
use crate::{
    AesKeyWrap, DataKeyBounds, Description, EncryptedStore, EncryptedStoreBuilder, KeyWrap, Keys,
    LegacyV1,
};

type Store = EncryptedStore<Arc<MemoryStore>>;
type Builder = EncryptedStoreBuilder<Arc<MemoryStore>>;

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn person(n: i32) -> Entity {
    Entity::new("Sales", format!("{n:03}"))
        .unwrap()
        .with("NationalId", format!("id{n}"))
        .with("Age", n)
}

fn open(raw: &Arc<MemoryStore>, keys: Keys, configure: impl FnOnce(Builder) -> Builder) -> Store {
    configure(EncryptedStore::builder(Arc::clone(raw), keys))
        .build()
        .unwrap()
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
        store
            .write(&people(), Operation::Insert(person(n)))
            .await
            .unwrap();
    }
}

async fn described(store: &Store, n: i32) -> Description {
    store
        .describe(&people(), person(n).key())
        .await
        .unwrap()
        .unwrap()
}

async fn raw_value(raw: &MemoryStore, n: i32, name: &str) -> Vec<u8> {
    let entity = raw
        .get(&people(), person(n).key(), None)
        .await
        .unwrap()
        .unwrap();
    let Some(ValueRef::Binary(bytes)) = entity.get(name) else {
        panic!("{entity:?}")
    };
    bytes.to_vec()
}

async fn assert_reads(store: &Store, people_of: impl Iterator<Item = i32>) {
    for n in people_of {
        let read = store
            .get(&people(), person(n).key(), None)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            read.get("NationalId"),
            Some(ValueRef::String(&format!("id{n}")))
        );
        assert!(read.properties().find("NationalId").unwrap().is_encrypted());
    }
}

/// Forty entities with four data keys: four unwraps, four wraps, no ciphertext changed. Afterwards the former
/// key is not needed.
#[tokio::test]
async fn rotation_rewraps_keys_without_reencryption() {
    let raw = table().await;
    let bounds = DataKeyBounds {
        max_writes: 10,
        ..DataKeyBounds::default()
    };
    fill(
        &open(&raw, key(1), |b| encrypting(b).with_data_key_bounds(bounds)),
        0..40,
    )
    .await;
    let (ciphertext, header) = (
        raw_value(&raw, 7, "NationalId").await,
        raw_value(&raw, 7, HEADER).await,
    );
    let [new, old] = [2, 1].map(|n| Arc::new(CountingWrap::new(kek(n))));
    let keys = Keys::new(Arc::clone(&new) as Arc<dyn KeyWrap>)
        .with_key(Arc::clone(&old) as Arc<dyn KeyWrap>);
    let store = open(&raw, keys, encrypting);
    let done = store.rotation(&people()).run().await.unwrap();
    assert_eq!(done.read, 40);
    assert_eq!(done.changed, 40);
    assert_eq!(done.skipped, 0);
    assert_eq!(done.keys, BTreeMap::from([("kek2".to_owned(), 40)]));
    assert_eq!(new.wraps(), 4);
    assert_eq!(old.unwraps(), 4);
    assert_eq!(raw_value(&raw, 7, "NationalId").await, ciphertext);
    assert_ne!(raw_value(&raw, 7, HEADER).await, header);
    assert_reads(&open(&raw, key(2), encrypting), 0..40).await;
    assert_eq!(store.rotation(&people()).run().await.unwrap().changed, 0);
}

/// Stopped after each page, and resumed by a cursor that was converted to text and back.
#[tokio::test]
async fn a_sweep_resumes_at_its_cursor() {
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
        seen += sweep.progress().read;
        cursor = sweep.cursor().map(ToString::to_string);
        if !more {
            break;
        }
    }
    assert_eq!(seen, 25);
    assert_eq!(cursor, None);
    assert_reads(&open(&raw, key(2), encrypting), 0..25).await;
}

#[tokio::test]
async fn rotation_does_not_sign_a_changed_header() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..1).await;
    let mut entity = raw
        .get(&people(), person(0).key(), None)
        .await
        .unwrap()
        .unwrap();
    let mut header = raw_value(&raw, 0, HEADER).await;
    let last = header.len() - 33;
    header[last] ^= 1;
    entity.properties_mut().set(HEADER, header);
    raw.write(&people(), Operation::InsertOrReplace(entity))
        .await
        .unwrap();
    let store = open(&raw, key(2).with_key(Arc::new(kek(1))), encrypting);
    let stored = raw.get(&people(), person(0).key(), None).await.unwrap();
    let done = store.rotation(&people()).run().await.unwrap();
    assert_eq!(done.changed, 0);
    assert_eq!(done.skipped, 1);
    assert_eq!(done.keys.len(), 0);
    assert!(
        done.unreadable[0]
            .error
            .to_string()
            .contains("cannot be decrypted")
    );
    assert_eq!(
        raw.get(&people(), person(0).key(), None).await.unwrap(),
        stored
    );
}

/// Rows that are invalid in different ways.
fn garbage() -> [Entity; 4] {
    let row = |n: i32| {
        Entity::new("Sales", format!("garbage{n}"))
            .unwrap()
            .with("Age", n)
    };
    let mut claimed = vec![2, 1, 6];
    claimed.extend(b"A256KW\0\x04kek1\0\x30");
    claimed.extend([7; 48 + 32 + 32 + 2 + 32]);
    let of_nobody = {
        let mut header = claimed.clone();
        header[11] = b'x';
        header
    };
    [
        row(0).with(HEADER, "text"),
        row(1).with(HEADER, vec![2, 1, 0]),
        row(2).with(HEADER, of_nobody),
        row(3).with(HEADER, claimed),
    ]
}

/// Invalid rows do not keep a sweep from the other rows.
#[tokio::test]
async fn invalid_rows_are_skipped_and_listed() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..30).await;
    for row in garbage() {
        raw.write(&people(), Operation::Insert(row)).await.unwrap();
    }
    let store = open(&raw, key(2).with_key(Arc::new(kek(1))), |b| {
        encrypting(b).accept_plaintext(&people())
    });
    fill(&raw, 30..33).await;
    let mut rotation = store.rotation(&people()).with_page_size(5);
    let done = rotation.run().await.unwrap();
    assert_eq!(done.read, 37);
    assert_eq!(done.changed, 30);
    assert_eq!(done.skipped, 4);
    let keys: Vec<_> = done
        .unreadable
        .iter()
        .map(|skipped| skipped.key.row())
        .collect();
    assert_eq!(keys, ["garbage0", "garbage1", "garbage2", "garbage3"]);
    let mut migration = store.migration(&people());
    let done = migration.run().await.unwrap();
    assert_eq!(done.read, 37);
    assert_eq!(done.changed, 3);
    assert_eq!(done.skipped, 4);
    let done = store
        .migration(&people())
        .with_reencryption()
        .run()
        .await
        .unwrap();
    assert_eq!(done.changed, 33);
    assert_eq!(done.skipped, 4);
    let strict = open(&raw, key(2), encrypting);
    assert_reads(&strict, 0..33).await;
    let counted = strict.rotation(&people()).counting().run().await.unwrap();
    assert_eq!(counted.keys, BTreeMap::from([("kek2".to_owned(), 33)]));
    assert_eq!(counted.skipped, 4);
}

/// The list is bounded; the count is not.
#[tokio::test]
async fn a_table_of_invalid_rows_is_counted() {
    let raw = table().await;
    for n in 0..150 {
        let row = Entity::new("Sales", format!("{n:03}"))
            .unwrap()
            .with(HEADER, "text");
        raw.write(&people(), Operation::Insert(row)).await.unwrap();
    }
    let store = open(&raw, key(1), encrypting);
    let done = store.rotation(&people()).run().await.unwrap();
    assert_eq!(done.read, 150);
    assert_eq!(done.skipped, 150);
    assert_eq!(done.unreadable.len(), 100);
}

/// A busy key service, or one that does not wrap, says nothing about the data: the page can be processed
/// again.
#[tokio::test]
async fn an_unavailable_key_service_ends_a_sweep() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..5).await;
    for (old, new) in [
        (Outage::Busy, Outage::None),
        (Outage::None, Outage::Busy),
        (Outage::None, Outage::Forbidden),
    ] {
        let keys = Keys::new(Arc::new(UnreliableWrap::new(kek(2), new)));
        let keys = keys.with_key(Arc::new(UnreliableWrap::new(kek(1), old)));
        let store = open(&raw, keys, encrypting);
        let error = store.rotation(&people()).run().await.unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Throttled { .. } | ErrorKind::Forbidden(_)
            ),
            "{error}"
        );
    }
}

/// A key service that refuses a key permanently affects only the entities under that key.
#[tokio::test]
async fn a_forbidden_key_affects_only_its_own_entities() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..5).await;
    fill(&open(&raw, key(3), encrypting), 5..8).await;
    let forbidden = Arc::new(UnreliableWrap::new(kek(3), Outage::Forbidden));
    let store = open(
        &raw,
        key(2).with_key(Arc::new(kek(1))).with_key(forbidden),
        encrypting,
    );
    let done = store.rotation(&people()).run().await.unwrap();
    assert_eq!(done.changed, 5);
    assert_eq!(done.skipped, 3);
    assert!(matches!(
        done.unreadable[0].error.kind(),
        ErrorKind::Forbidden(_)
    ));
}

/// Two successive keys with the same id: data of the first is not counted for the second.
#[tokio::test]
async fn a_key_is_verified_although_its_id_is_the_same() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..4).await;
    let namesake = || {
        Keys::new(Arc::new(
            AesKeyWrap::new("kek1", &vec![9; 32].into()).unwrap(),
        ))
    };
    let store = open(&raw, namesake(), encrypting);
    fill(&store, 4..6).await;
    for counting in [false, true] {
        let sweep = store.rotation(&people());
        let mut sweep = if counting { sweep.counting() } else { sweep };
        let done = sweep.run().await.unwrap();
        assert_eq!(done.changed, 0);
        assert_eq!(done.skipped, 4);
        assert_eq!(done.keys, BTreeMap::from([("kek1".to_owned(), 2)]));
    }
}

/// An entity that would be too large under the new key stays unchanged, and the sweep continues.
#[tokio::test]
async fn an_entity_that_would_be_too_large_is_skipped() {
    let raw = table().await;
    let full = |row: &str| {
        let parts = (0..15).map(|n| (format!("P{n:02}"), vec![0_u8; 65_536]));
        parts.fold(Entity::new("Sales", row).unwrap(), |e, (name, bytes)| {
            e.with(&name, bytes)
        })
    };
    let room =
        1_048_576 - table_core::engine::entity_size(full("000").key(), full("000").properties());
    let full = full("000")
        .with("Rest", vec![0_u8; room - 100])
        .with("NationalId", "id");
    raw.write(&people(), Operation::Insert(full)).await.unwrap();
    fill(&raw, 1..3).await;
    let store = open(&raw, key(1), |b| encrypting(b).accept_plaintext(&people()));
    let done = store.migration(&people()).run().await.unwrap();
    assert_eq!(done.changed, 2);
    assert_eq!(done.skipped, 1);
    assert!(matches!(
        done.unreadable[0].error.kind(),
        ErrorKind::LimitExceeded { .. }
    ));
}

/// Tables of index entries are listed: they need their own migration.
#[tokio::test]
async fn tables_of_index_entries_are_listed() {
    let raw = table().await;
    fill(&raw, 0..2).await;
    let catalog = |name: &str, table: &str| {
        Entity::new(MANIFEST_PARTITION, name)
            .unwrap()
            .with(INDEX_TABLE, table)
    };
    for row in [
        catalog("city", "Cities"),
        catalog("mail", "Mails"),
        catalog("own", "People"),
    ] {
        raw.write(&people(), Operation::Insert(row)).await.unwrap();
    }
    let store = open(&raw, key(1), |b| encrypting(b).accept_plaintext(&people()));
    let named = ["Cities", "Mails"].map(|name| TableName::new(name).unwrap());
    assert_eq!(
        store.migration(&people()).run().await.unwrap().index_tables,
        BTreeSet::from(named.clone())
    );
    assert_eq!(
        store.rotation(&people()).run().await.unwrap().index_tables,
        BTreeSet::from(named)
    );
}

#[tokio::test]
async fn plaintext_is_migrated() {
    let raw = table().await;
    fill(&raw, 0..30).await;
    let strict = open(&raw, key(1), |b| {
        encrypting(b).require_encryption(&people())
    });
    let refused = strict
        .get(&people(), person(3).key(), None)
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("accept_plaintext"),
        "{refused}"
    );
    let store = open(&raw, key(1), |b| encrypting(b).accept_plaintext(&people()));
    fill(&store, 30..32).await;
    assert_reads(&store, 0..32).await;
    let done = store.migration(&people()).run().await.unwrap();
    assert_eq!(done.read, 32);
    assert_eq!(done.changed, 30);
    assert_eq!(done.skipped, 0);
    assert_reads(&strict, 0..32).await;
    assert_eq!(store.migration(&people()).run().await.unwrap().changed, 0);
}

#[tokio::test]
async fn migrated_legacy_data_does_not_need_the_legacy_key() {
    let raw = table().await;
    let legacy = || LegacyV1::new(key(9));
    let old = open(&raw, key(1), |b| {
        encrypting(b).with_legacy_v1(legacy().write_insecurely_for_interoperability(&people()))
    });
    fill(&old, 0..10).await;
    assert!(matches!(described(&old, 3).await, Description::V1 { .. }));
    let store = open(&raw, key(1), |b| {
        encrypting(b).with_legacy_v1(legacy().read(&people()))
    });
    assert_reads(&store, 0..10).await;
    let patch = Entity::from(person(3).key().clone()).with("Age", 50);
    store
        .write(&people(), Operation::InsertOrMerge(patch))
        .await
        .unwrap();
    assert!(matches!(described(&store, 3).await, Description::V2 { .. }));
    assert_eq!(store.migration(&people()).run().await.unwrap().changed, 9);
    let after = open(&raw, key(1), encrypting);
    assert_reads(&after, 0..10).await;
    let merged = after
        .get(&people(), &Key::new("Sales", "003").unwrap(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(merged.get("Age"), Some(ValueRef::Int32(50)));
    assert_eq!(merged.properties().len(), 2);
}

#[tokio::test]
async fn with_reencryption_uses_new_data_keys() {
    let raw = table().await;
    fill(&open(&raw, key(1), encrypting), 0..5).await;
    let before = raw_value(&raw, 2, "NationalId").await;
    let store = open(&raw, key(1), encrypting);
    assert_eq!(store.migration(&people()).run().await.unwrap().changed, 0);
    assert_eq!(
        store
            .migration(&people())
            .with_reencryption()
            .run()
            .await
            .unwrap()
            .changed,
        5
    );
    assert_ne!(raw_value(&raw, 2, "NationalId").await, before);
    assert_reads(&store, 0..5).await;
}

/// A store whose pages are wrong.
#[derive(Debug)]
struct WrongPages {
    inner: Arc<MemoryStore>,
    /// Whether entities have no ETags; otherwise each page ends where it began.
    lacks_etags: bool,
}

#[async_trait]
impl TableStore for WrongPages {
    forward_to_store!(self => self.inner;
        profile, create_table, delete_table, list_tables, get, write, transact, context);

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut page = self.inner.query(table, query, from).await?.into_page()?;
        if self.lacks_etags {
            page.items = page
                .items
                .into_iter()
                .map(|entity| entity.with_system(None, None))
                .collect();
        } else if let Some(from) = from {
            page.continuation = Some(from.clone());
        }
        Ok(page.into())
    }
}

async fn wrong_pages(lacks_etags: bool) -> EncryptedStore<WrongPages> {
    let inner = table().await;
    fill(&*inner, 0..5).await;
    let keys = key(2).with_key(Arc::new(kek(1)));
    let before = open(&inner, key(1), encrypting);
    fill(&before, 5..10).await;
    let builder = EncryptedStore::builder(WrongPages { inner, lacks_etags }, keys);
    builder
        .encrypt(&people(), ["NationalId"])
        .accept_plaintext(&people())
        .build()
        .unwrap()
}

/// No entity of such a store can be written, so the sweep ends instead of skipping them all.
#[tokio::test]
async fn an_entity_without_an_etag_ends_a_sweep() {
    let store = wrong_pages(true).await;
    let migrated = store.migration(&people()).run().await.map(drop);
    let rotated = store.rotation(&people()).run().await.map(drop);
    for done in [migrated, rotated] {
        let error = done.unwrap_err().to_string();
        assert!(error.contains("without an ETag"), "{error}");
    }
}

#[tokio::test]
async fn repeated_continuations_end_a_sweep() {
    let store = wrong_pages(false).await;
    let mut sweep = store.rotation(&people()).with_page_size(1);
    for _ in 0..50 {
        if let Err(error) = sweep.step().await {
            return assert!(error.to_string().contains("continuation"), "{error}");
        }
    }
    panic!("the sweep has no end");
}
