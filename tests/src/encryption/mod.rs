//! The suite of encrypted properties: what [`EncryptedStore`] must do on every store. It has one module for
//! each subject and one function for each behaviour. Pass a [`Backend`](crate::Backend) to
//! [`encryption_tests!`](crate::encryption_tests), which makes a test of each behaviour.

use std::sync::Arc;

use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Operation, TableStore};
use table_encryption::{AesKeyWrap, EncryptedStore, EncryptedStoreBuilder, Keys};

mod concurrency;
mod expiry;
mod filters;
mod garbage;
mod hostile;
mod indexes;
mod large;
#[doc(hidden)]
pub mod list;
mod marks;
mod moves;
mod operations;
mod patterns;
mod readable;
mod reads;
mod rules;
mod tamper;
mod tampering_store;
mod typed;
mod wide;

use crate::{Harness, TestTable};

/// The store under test, around any store.
type Encrypted = EncryptedStore<Arc<dyn TableStore>>;
type Builder = EncryptedStoreBuilder<Arc<dyn TableStore>>;

/// The header property.
const HEADER: &str = "_EncryptionHeader";

fn kek(n: u8) -> Arc<AesKeyWrap> {
    Arc::new(AesKeyWrap::new(format!("kek{n}"), &vec![n; 32].into()).expect("32 bytes"))
}

fn keys() -> Keys {
    Keys::new(kek(1))
}

/// Two views of one table: the stored rows, and the decrypted entities.
struct TableViews {
    raw: TestTable,
    clear: TestTable,
    store: Arc<Encrypted>,
}

impl TableViews {
    async fn new(harness: &Harness) -> Self {
        Self::with(harness, |builder, _| builder).await
    }

    async fn with(
        harness: &Harness,
        configure: impl FnOnce(Builder, &TableName) -> Builder,
    ) -> Self {
        let raw = harness.table().await;
        Self::over(raw, keys(), configure)
    }

    /// The same table with other keys and rules.
    fn over(
        raw: TestTable,
        keys: Keys,
        configure: impl FnOnce(Builder, &TableName) -> Builder,
    ) -> Self {
        let builder = EncryptedStore::builder(Arc::clone(raw.store()), keys);
        let store = Arc::new(configure(builder, raw.name()).build().expect("sound keys"));
        let clear = TestTable::new(
            Arc::clone(&store) as Arc<dyn TableStore>,
            raw.name().clone(),
        );
        Self { raw, clear, store }
    }

    /// Writes the entity without encryption, over any stored row.
    async fn store_raw(&self, entity: Entity) {
        self.raw.put(Operation::InsertOrReplace(entity)).await;
    }
}

/// Asserts that no stored row contains one of the texts.
async fn assert_hidden(table: &TableViews, texts: &[&str]) {
    for row in table.raw.all(&Query::new()).await {
        assert_eq!(shows(&row, texts), None, "{}", row.key());
    }
}

/// Returns the first of the texts that the row contains, in its key or in a stored value.
fn shows<'a>(row: &Entity, texts: &[&'a str]) -> Option<&'a str> {
    let has = |bytes: &[u8], text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    let values = row
        .properties()
        .iter()
        .map(|property| match property.value() {
            ValueRef::Binary(bytes) => bytes.to_vec(),
            other => format!("{other:?}").into_bytes(),
        });
    let all: Vec<_> = values.chain([row.key().to_string().into_bytes()]).collect();
    texts
        .iter()
        .find(|text| all.iter().any(|bytes| has(bytes, text)))
        .copied()
}

fn key(partition: &str, row: &str) -> Key {
    Key::new(partition, row).expect("a legal key")
}

fn ken() -> Entity {
    Entity::from(key("Sales", "223"))
        .with_encrypted("NationalId", "760519-1234")
        .with_encrypted("Salary", 125.5)
        .with("Age", 41)
}

fn text(value: &str) -> Option<ValueRef<'_>> {
    Some(ValueRef::String(value))
}

pub use crate::suite::{Behaviour, run, run_in_virtual_time};
