//! Tests that need the inside of the crate. The conformance suite tests the behaviour on every backend.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName, Ticks, ValueRef};
use table_core::query::{Filter, Query, Select};
use table_core::store::{GroupTransaction, Operation, OperationKind, TableStore};

use super::*;
use crate::testing::{CountingWrap, kek};
use crate::{DataKeyBounds, KeyWrap};

type Inner = Arc<Metered<MemoryStore>>;

fn people() -> TableName {
    TableName::new("People").unwrap()
}

struct Rig {
    meter: RequestMeter,
    raw: Inner,
    key: Arc<CountingWrap>,
    store: EncryptedStore<Inner>,
}

async fn rig_with(
    configure: impl FnOnce(EncryptedStoreBuilder<Inner>) -> EncryptedStoreBuilder<Inner>,
) -> Rig {
    let meter = RequestMeter::new();
    let raw = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let key = Arc::new(CountingWrap::new(kek(1)));
    let builder = EncryptedStore::builder(
        Arc::clone(&raw),
        Keys::new(Arc::clone(&key) as Arc<dyn KeyWrap>),
    );
    let store = configure(builder).build().unwrap();
    store.create_table(&people()).await.unwrap();
    meter.reset();
    Rig {
        meter,
        raw,
        key,
        store,
    }
}

async fn rig() -> Rig {
    rig_with(|builder| builder).await
}

fn ken() -> Entity {
    Entity::new("Sales", "223")
        .unwrap()
        .with_encrypted("NationalId", "760519")
        .with("Age", 41)
}

impl Rig {
    async fn insert(&self, entity: Entity) {
        self.store
            .write(&people(), Operation::Insert(entity))
            .await
            .unwrap();
        self.meter.reset();
    }

    async fn read(&self, key: &Key) -> Entity {
        self.store.get(&people(), key, None).await.unwrap().unwrap()
    }

    async fn raw(&self, key: &Key) -> Entity {
        self.raw.get(&people(), key, None).await.unwrap().unwrap()
    }
}

/// Ten thousand entities with four data keys: a new reader unwraps four keys.
#[tokio::test]
async fn a_table_is_read_with_as_many_unwraps_as_data_keys() {
    let rig = rig_with(|b| {
        b.with_data_key_bounds(DataKeyBounds {
            max_writes: 2500,
            ..Default::default()
        })
    })
    .await;
    for group in 0..100 {
        let partition = PartitionKey::new(format!("p{group}")).unwrap();
        let mut writes = GroupTransaction::new(partition, rig.store.profile());
        for row in 0..100 {
            let entity = Entity::new(format!("p{group}"), format!("{row}")).unwrap();
            writes
                .push(Operation::Insert(entity.with_encrypted("NationalId", row)))
                .unwrap();
        }
        rig.store.transact(&people(), writes).await.unwrap();
    }
    assert_eq!(rig.key.wraps(), 4);
    let counts = Arc::new(CountingWrap::new(kek(1)));
    let reader = EncryptedStore::new(
        Arc::clone(&rig.raw),
        Keys::new(Arc::clone(&counts) as Arc<dyn KeyWrap>),
    )
    .unwrap();
    let all = table_core::store::TableStoreExt::query_all(&reader, &people(), &Query::new())
        .await
        .unwrap();
    assert!(
        all.len() == 10_000
            && all
                .iter()
                .all(|e| e.properties().find("NationalId").unwrap().is_encrypted())
    );
    assert_eq!(counts.wraps(), 0);
    assert_eq!(counts.unwraps(), 4);
    assert_eq!(rig.key.unwraps(), 0);
}

#[tokio::test]
async fn merges_read_only_what_they_need() {
    let rig = rig().await;
    rig.insert(ken().with_encrypted("Iban", "CH93")).await;
    let key = ken().key().clone();
    let patch = |entity: Entity| Operation::Merge(entity, IfMatch::Any);
    let bare = || Entity::from(key.clone());

    rig.store
        .write(&people(), patch(bare().with("Age", 42)))
        .await
        .unwrap();
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Get), 1);
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Merge), 1);
    assert_eq!(rig.meter.total(), 2);
    rig.meter.reset();
    rig.store
        .write(
            &people(),
            patch(
                bare()
                    .with_encrypted("NationalId", "1")
                    .with("City", "Bern"),
            ),
        )
        .await
        .unwrap();
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Get), 1);
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Merge), 1);
    assert_eq!(rig.meter.total(), 2);
    let expected = bare().with_encrypted("NationalId", "1").with("Age", 42);
    let expected = expected.with_encrypted("Iban", "CH93").with("City", "Bern");
    let read = rig.read(&key).await;
    assert_eq!(read.properties().len(), 4);
    expected
        .properties()
        .iter()
        .for_each(|p| assert_eq!(read.properties().find(p.name()), Some(p)));

    rig.meter.reset();
    let stale = Operation::Merge(
        bare().with("Age", 1),
        IfMatch::Exactly("W/\"other\"".into()),
    );
    assert!(
        rig.store
            .write(&people(), stale)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    assert_eq!(rig.meter.total(), 1);
    let uncovers = rig
        .store
        .write(&people(), patch(bare().with("Iban", "CH93")))
        .await
        .unwrap_err();
    assert!(uncovers.to_string().contains("'Iban'"), "{uncovers}");
    rig.meter.reset();
    rig.store.write(&people(), patch(bare())).await.unwrap();
    assert_eq!(rig.meter.total(), 1);
    assert_eq!(rig.read(&key).await.properties().len(), 4);
}

#[tokio::test]
async fn other_operations_cost_the_same_as_without_encryption() {
    let rig = rig().await;
    rig.store
        .write(&people(), Operation::Insert(ken()))
        .await
        .unwrap();
    rig.store
        .write(&people(), Operation::InsertOrReplace(ken()))
        .await
        .unwrap();
    rig.store
        .write(&people(), Operation::Replace(ken(), IfMatch::Any))
        .await
        .unwrap();
    rig.store.get(&people(), ken().key(), None).await.unwrap();
    rig.store
        .query(&people(), &Query::new(), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    rig.store
        .write(
            &people(),
            Operation::Delete(ken().key().clone(), IfMatch::Any),
        )
        .await
        .unwrap();
    assert_eq!(rig.meter.total(), 6);
    assert_eq!(rig.key.wraps(), 1);
    assert_eq!(rig.key.unwraps(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_merge_of_a_missing_entity_is_refused_at_the_first_attempt() {
    let rig = rig().await;
    let started = tokio::time::Instant::now();
    let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), rig.store.profile());
    group
        .push(Operation::Insert(Entity::new("p", "new").unwrap()))
        .unwrap();
    group
        .push(Operation::Merge(
            Entity::new("p", "missing").unwrap().with("N", 1),
            IfMatch::Any,
        ))
        .unwrap();
    rig.meter.reset();
    let refused = rig.store.transact(&people(), group).await.unwrap_err();
    assert!(refused.is_entity_not_found());
    assert_eq!(refused.failed_index(), Some(1));
    // The read of the merge, and the group, which has changed nothing.
    assert_eq!(rig.meter.total(), 2);
    assert_eq!(started.elapsed(), std::time::Duration::ZERO);
}

/// A store in which another writer deletes an entity before each write of it.
#[derive(Debug)]
struct DeletesFirst(Inner);

#[async_trait]
impl TableStore for DeletesFirst {
    forward_to_store!(self => self.0;
        profile, create_table, delete_table, list_tables, get, query, transact, context);

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.0
            .write(
                table,
                Operation::Delete(operation.key().clone(), IfMatch::Any),
            )
            .await?;
        self.0.write(table, operation).await
    }
}

#[tokio::test]
async fn a_merge_of_an_entity_that_was_deleted_after_the_read_is_refused() {
    let rig = rig().await;
    rig.insert(ken()).await;
    let kek: Arc<dyn KeyWrap> = rig.key.clone();
    let store = EncryptedStore::new(DeletesFirst(Arc::clone(&rig.raw)), Keys::new(kek)).unwrap();
    let change = Entity::new("Sales", "223").unwrap().with("Age", 42);
    let refused = store
        .write(&people(), Operation::Merge(change, IfMatch::Any))
        .await
        .unwrap_err();
    assert!(refused.is_entity_not_found());
    // The read, the deletion by the other writer, and the merge.
    assert_eq!(rig.meter.total(), 3);
}

#[tokio::test]
async fn groups_read_once_per_merge() {
    let rig = rig().await;
    rig.insert(ken()).await;
    let mut group = GroupTransaction::new(PartitionKey::new("Sales").unwrap(), rig.store.profile());
    let at = |row: &str| Entity::new("Sales", row).unwrap();
    group
        .push(Operation::Merge(
            at("223").with_encrypted("NationalId", "2"),
            IfMatch::Any,
        ))
        .unwrap();
    group
        .push(Operation::InsertOrMerge(
            at("224").with_encrypted("NationalId", "3"),
        ))
        .unwrap();
    group
        .push(Operation::Insert(at("225").with("Age", 1)))
        .unwrap();
    rig.store.transact(&people(), group).await.unwrap();
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Get), 2);
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Transact), 1);
    assert_eq!(
        rig.read(ken().key()).await.get("NationalId"),
        Some(ValueRef::String("2"))
    );
    assert_eq!(
        rig.read(at("224").key()).await.get("NationalId"),
        Some(ValueRef::String("3"))
    );
    assert!(
        rig.raw(at("225").key())
            .await
            .get(crate::v2::HEADER)
            .is_none()
    );
}

#[tokio::test]
async fn queries_of_keys_do_not_read_the_header() {
    let rig = rig_with(|b| b.require_encryption(&people())).await;
    rig.insert(ken()).await;
    let keys = Query::new().with_select(Select::new(["PartitionKey", "RowKey"]));
    let page = rig
        .store
        .query(&people(), &keys, None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].properties().len(), 0);
    assert_eq!(rig.key.unwraps(), 0);
}

/// A filter on plaintext is checked with the headers' lists, for which no key is needed. The result does not
/// contain the headers.
#[tokio::test]
async fn filtered_queries_of_keys_need_no_decryption_key() {
    let rig = rig().await;
    rig.insert(ken()).await;
    let fresh = EncryptedStore::new(Arc::clone(&rig.raw), Keys::new(Arc::new(kek(2)))).unwrap();
    let keys = Query::new().with_select(Select::new(["PartitionKey", "RowKey"]));
    let by = |filter| keys.clone().with_filter(filter);
    let page = fresh
        .query(&people(), &by(Filter::eq("Age", 41)), None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(page.items.len(), 1);
    assert_eq!(page.items[0].properties().len(), 0);
    assert_eq!(rig.meter.total(), 1);
    let error = fresh
        .query(&people(), &by(Filter::ne("NationalId", "x")), None)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("'NationalId'"), "{error}");
}

/// Recorded names are removed with their table. A name cannot be both encrypted and compared.
#[tokio::test]
async fn rules_end_with_their_table_and_do_not_contradict() {
    let rig = rig().await;
    rig.insert(ken()).await;
    let plain = Entity::new("Sales", "1").unwrap().with("NationalId", 1);
    rig.store
        .write(&people(), Operation::Insert(plain.clone()))
        .await
        .unwrap_err();
    rig.store.delete_table(&people()).await.unwrap();
    rig.store.create_table(&people()).await.unwrap();
    rig.store
        .write(&people(), Operation::Insert(plain))
        .await
        .unwrap();
    let builder = EncryptedStore::builder(Arc::clone(&rig.raw), Keys::new(Arc::new(kek(1))));
    let error = builder
        .encrypt(&people(), ["Iban"])
        .filter_only_by(&people(), ["Iban"])
        .build()
        .unwrap_err();
    assert!(error.to_string().contains("'Iban'"), "{error}");
}

/// Writes rows as an attacker without the key would: each header has its own made-up wrapped key.
async fn plant_garbage(rig: &Rig, rows: u16) {
    rig.insert(ken()).await;
    let stored = rig.raw(ken().key()).await;
    let Some(ValueRef::Binary(header)) = stored.get(crate::v2::HEADER) else {
        panic!("{stored:?}")
    };
    for n in 0..rows {
        let mut header = header.to_vec();
        // The wrapped key follows version, suite, algorithm and key id.
        let planted = u16::from_be_bytes([header[19], header[20]]) ^ (n + 1); // never equal to the original key
        header[19..21].copy_from_slice(&planted.to_be_bytes());
        let row = stored
            .clone()
            .with_key(Key::new("Sales", format!("a{n:03}")).unwrap());
        let row = row.with(crate::v2::HEADER, header);
        rig.raw
            .write(&people(), Operation::Insert(row))
            .await
            .unwrap();
    }
    rig.meter.reset();
}

/// A page that fails as a whole causes no more calls of the key service than needed.
#[tokio::test]
async fn made_up_keys_cause_few_calls_of_the_key_service() {
    let rig = rig().await;
    plant_garbage(&rig, 900).await;
    for _ in 0..3 {
        let error = rig
            .store
            .query(&people(), &Query::new(), None)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("'a000'"), "{error}");
    }
    // A few keys concurrently, in the order of the page. From the second scan on, the refusals are recorded.
    assert_eq!(rig.key.unwraps(), 8);
    assert_eq!(rig.meter.total(), 3);
}

/// If all readable entities are requested, each made-up key is tried once, and not again by the next scan.
#[tokio::test]
async fn made_up_keys_are_tried_once() {
    let rig = rig().await;
    plant_garbage(&rig, 900).await;
    for _ in 0..3 {
        let page = rig
            .store
            .query(&people(), &Query::new().with_unreadable(), None)
            .await
            .unwrap();
        let rows: Vec<_> = page.page.items.iter().map(|e| e.key().row()).collect();
        assert_eq!(rows, vec!["223"]);
        assert_eq!(page.unreadable.len(), 900);
        assert!(page.page.continuation.is_none());
    }
    assert_eq!(rig.key.unwraps(), 900);
    assert_eq!(rig.meter.total(), 3);
}

/// The same for legacy entities, each of which has its own key.
#[tokio::test]
async fn made_up_legacy_keys_are_tried_once() {
    let counts = Arc::new(CountingWrap::new(kek(9)));
    let legacy = crate::LegacyV1::new(Keys::new(Arc::clone(&counts) as Arc<dyn KeyWrap>));
    let rig = rig_with(|b| b.with_legacy_v1(legacy.read(&people()))).await;
    for n in 0..20 {
        let json = format!(
            r#"{{"WrappedContentKey":{{"KeyId":"kek9","EncryptedKey":"{n:064}","Algorithm":"A256KW"}},"EncryptionAgent":{{"Protocol":"1.0","EncryptionAlgorithm":"AES_CBC_256"}},"ContentEncryptionIV":"ZGVmZ2hpamtsbW5vcHFycw=="}}"#
        );
        let row = Entity::new("Sales", format!("{n:02}")).unwrap();
        let row = row
            .with("_ClientEncryptionMetadata1", json)
            .with("_ClientEncryptionMetadata2", vec![0; 32]);
        rig.raw
            .write(&people(), Operation::Insert(row))
            .await
            .unwrap();
    }
    for _ in 0..3 {
        let page = rig
            .store
            .query(&people(), &Query::new().with_unreadable(), None)
            .await
            .unwrap();
        assert_eq!(page.page.items.len(), 0);
        assert_eq!(page.unreadable.len(), 20);
    }
    assert_eq!(counts.unwraps(), 20);
}

/// The store reports its encrypted names: from rules, marks of types, and recorded names.
#[tokio::test]
async fn encrypted_names_are_declared() {
    let rig = rig_with(|b| {
        b.encrypt(&people(), ["Iban"])
            .encrypt_where(&people(), ["Salary"], |_, row, _| row == "1")
    })
    .await;
    let names = || rig.store.context().encrypted_names(&people());
    assert_eq!(names().iter().collect::<Vec<_>>(), ["Iban", "Salary"]);
    rig.store.context().declare_encrypted(&people(), &["Email"]);
    rig.insert(ken()).await;
    assert_eq!(
        names().iter().collect::<Vec<_>>(),
        ["Iban", "Salary", "Email", "NationalId"]
    );
    let at = |row: &str| names().contains_at(&Key::new("Sales", row).unwrap(), "Salary");
    assert!(at("1") && !at("2"));
    // Table names ignore case here, and a store around another encrypting store also reports its names.
    assert!(
        rig.store
            .context()
            .encrypted_names(&TableName::new("PEOPLE").unwrap())
            .contains("Email")
    );
    let around = EncryptedStore::new(Arc::new(rig.store), Keys::new(Arc::new(kek(2)))).unwrap();
    assert!(around.context().encrypted_names(&people()).contains("Iban"));
    assert!(
        around
            .context()
            .encrypted_names(&TableName::new("Others").unwrap())
            .is_empty()
    );
}

/// Adapters around an encrypting store forward `encrypted_names` and unreadable entities.
#[tokio::test]
async fn adapters_forward_what_encryption_needs() {
    use table_core::adapter::{FaultInjector, RetryPolicy, ScanGuard, StoreBuilder, TraceKeys};
    let rig = rig_with(|b| b.encrypt(&people(), ["Iban"])).await;
    plant_garbage(&rig, 2).await;
    let around = RequestMeter::new();
    let store = StoreBuilder::new(rig.store)
        .trace(TraceKeys::Hidden)
        .scan_guard(ScanGuard::new().allow(people()))
        .limit(4)
        .retry(RetryPolicy::default())
        .meter(around.clone())
        .fault(FaultInjector::new(1))
        .build();
    assert!(store.context().encrypted_names(&people()).contains("Iban"));
    let clocked = table_core::adapter::WithClock::new(Arc::clone(&store), || Ticks::MIN);
    assert!(
        clocked
            .context()
            .encrypted_names(&people())
            .contains("Iban")
    );
    let inside = EncryptedStore::new(clocked, Keys::new(Arc::new(kek(2)))).unwrap();
    assert_eq!(inside.context().now(), Ticks::MIN);
    assert!(inside.context().encrypted_names(&people()).contains("Iban"));
    let found = store
        .query(&people(), &Query::new().with_unreadable(), None)
        .await
        .unwrap();
    assert_eq!(found.page.items.len(), 1);
    assert_eq!(found.unreadable.len(), 2);
    assert_eq!(around.total(), 1);
    let refusing = table_core::adapter::Guarded::new(store, ScanGuard::new());
    refusing
        .query(&people(), &Query::new(), None)
        .await
        .unwrap_err();
    assert_eq!(around.total(), 1);
}

/// The properties named by the resolver are encrypted in the rows that it selects.
#[tokio::test]
async fn a_resolver_decides_by_row() {
    let rig =
        rig_with(|b| b.encrypt_where(&people(), ["Salary"], |_, row, _| row.starts_with("emp")))
            .await;
    let [employee, guest] =
        ["emp1", "guest1"].map(|row| Entity::new("Sales", row).unwrap().with("Salary", 5));
    rig.insert(employee.clone()).await;
    rig.insert(guest.clone()).await;
    assert!(matches!(
        rig.raw(employee.key()).await.get("Salary"),
        Some(ValueRef::Binary(_))
    ));
    assert_eq!(
        rig.raw(guest.key()).await.get("Salary"),
        Some(ValueRef::Int32(5))
    );
    assert!(
        rig.read(employee.key())
            .await
            .properties()
            .find("Salary")
            .unwrap()
            .is_encrypted()
    );
    assert!(
        !rig.read(guest.key())
            .await
            .properties()
            .find("Salary")
            .unwrap()
            .is_encrypted()
    );
}

#[tokio::test]
async fn describe_shows_the_claims_of_a_header() {
    let rig = rig().await;
    rig.insert(ken()).await;
    let Some(Description::V2 {
        key_id,
        algorithm,
        properties,
    }) = rig.store.describe(&people(), ken().key()).await.unwrap()
    else {
        panic!("not v2")
    };
    assert_eq!(key_id.as_str(), "kek1");
    assert_eq!(algorithm.as_str(), "A256KW");
    assert_eq!(properties.len(), 1);
    assert_eq!(rig.meter.total(), 1);
}

/// No `Debug` or error text shows a secret.
#[tokio::test]
async fn secrets_are_not_shown() {
    let rig = rig().await;
    rig.insert(ken()).await;
    let stored = rig.raw(ken().key()).await;
    let data_key = rig.store.shared.keys.for_write().await.unwrap();
    let blobs = rig.store.blob_cipher();
    let blind = crate::BlindIndex::new("email", &vec![1; 32].into()).unwrap();
    let shown = format!(
        "{:?} {:?} {data_key:?} {blobs:?} {blind:?} {:?} {:?}",
        rig.store,
        rig.store.shared,
        rig.read(ken().key()).await,
        crate::KeyBytes::from(vec![1; 32]),
    );
    let mut moved = stored.clone();
    moved.properties_mut().set("NationalId", "760519");
    rig.raw
        .write(&people(), Operation::InsertOrReplace(moved))
        .await
        .unwrap();
    let error = rig
        .store
        .get(&people(), ken().key(), None)
        .await
        .unwrap_err();
    let limit = Entity::new("a", "b")
        .unwrap()
        .with_encrypted("NationalId", "760519".repeat(11_000));
    let limit = rig
        .store
        .write(&people(), Operation::Insert(limit))
        .await
        .unwrap_err();
    let shown = format!("{shown} {error} {error:?} {limit} {limit:?} {stored:?}");
    let secret = data_key.secret.expose();
    let listed = |bytes: &[u8]| format!("{bytes:?}").trim_matches(['[', ']']).to_owned();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    for needle in [
        "760519".to_owned(),
        listed(&secret[..4]),
        hex(&secret[..4]),
        listed(&[1; 4]),
        hex(&[1; 4]),
    ] {
        assert!(!shown.contains(&needle), "{needle} in {shown}");
    }
}

/// Sizes by the service's formula, for Strings of ASCII characters, as in `docs/performance.md`.
#[tokio::test]
async fn entities_grow_as_documented() {
    let rig = rig().await;
    for (properties, bytes, plain, encrypted) in [
        (1, 16, 100, 321),
        (1, 1024, 2116, 1329),
        (10, 16, 658, 987),
        (10, 1024, 20_818, 11_067),
    ] {
        let value = || "x".repeat(bytes);
        let empty = Entity::new("Sales", "empid_000223").unwrap();
        let entity = (0..properties).fold(empty, |e, n| {
            e.with_encrypted(&format!("Property{n}"), value())
        });
        assert_eq!(
            table_core::engine::entity_size(entity.key(), entity.properties()),
            plain
        );
        rig.store
            .write(&people(), Operation::InsertOrReplace(entity.clone()))
            .await
            .unwrap();
        let stored = rig.raw(entity.key()).await;
        assert_eq!(
            table_core::engine::entity_size(stored.key(), stored.properties()),
            encrypted
        );
    }
}
