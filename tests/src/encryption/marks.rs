//! Encrypted properties stay encrypted, whichever program changes them.

use std::sync::Arc;

use table_core::model::{Entity, IfMatch, Properties};
use table_core::store::{GroupTransaction, Operation, TableStore};

use table_encryption::{Keys, LegacyV1};
use table_patterns::Database;
use table_patterns::heterogeneous::modify;

use super::{TableViews, assert_hidden, kek, ken, key, keys, text};
use crate::Harness;

const NEW: &str = "790122-4321";

/// An entity is read and changed by name, by a program that sets no marks.
pub(crate) async fn changed_entities_stay_encrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let fresh = TableViews::over(table.raw.clone(), keys(), |b, _| b);
    let read = fresh.clear.existing(ken().key()).await;
    fresh
        .clear
        .put(Operation::Replace(
            read.with("NationalId", NEW).with("Age", 42),
            IfMatch::Any,
        ))
        .await;
    let read = fresh.clear.existing(ken().key()).await;
    assert_eq!(read.get("NationalId"), text(NEW));
    assert_eq!(read.properties().len(), 3);
    assert_hidden(&table, &[NEW, "760519"]).await;

    let people = Database::new(Arc::clone(&fresh.store) as Arc<dyn TableStore>)
        .view::<Entity>(table.raw.name().clone());
    let change = |_: &Entity| Ok(Properties::from_iter([("NationalId", "830303-9999")]));
    let set = modify(&people.expect("a table"), ken().key(), change)
        .await
        .expect("a change");
    assert!(set.find("NationalId").is_some_and(|p| p.is_encrypted()));
    assert_eq!(
        fresh.clear.existing(ken().key()).await.get("NationalId"),
        text("830303-9999")
    );
    assert_hidden(&table, &["830303"]).await;
}

/// The legacy format does not list its encrypted names in plaintext; a merge decrypts the list.
pub(crate) async fn merges_into_legacy_data_stay_encrypted(harness: &Harness) {
    let legacy = || LegacyV1::new(Keys::new(kek(9)));
    let old = TableViews::with(harness, |b, t| {
        b.with_legacy_v1(legacy().write_insecurely_for_interoperability(t))
    })
    .await;
    old.clear
        .insert(Entity::from(key("Sales", "1")).with_encrypted("NationalId", "760519-1234"))
        .await;
    let fresh = TableViews::over(old.raw.clone(), keys(), |b, t| {
        b.with_legacy_v1(legacy().read(t))
    });
    let patch = Entity::from(key("Sales", "1")).with("NationalId", NEW);
    fresh.clear.put(Operation::Merge(patch, IfMatch::Any)).await;
    assert_hidden(&old, &[NEW, "760519"]).await;
    assert_eq!(
        fresh
            .clear
            .existing(&key("Sales", "1"))
            .await
            .get("NationalId"),
        text(NEW)
    );
}

/// A name that is encrypted in one entity of the table cannot be written in plaintext to another entity, by any
/// operation.
pub(crate) async fn plaintext_of_an_encrypted_name_is_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let other = Entity::from(key("Sales", "9"))
        .with("NationalId", NEW)
        .with("Age", 1);
    let refused = |result: table_core::Result<()>| {
        let error = result.expect_err("plaintext").to_string();
        assert!(error.contains("'NationalId'"), "{error}");
        assert!(!error.contains(NEW), "{error}");
    };
    for operation in [
        Operation::Insert(other.clone()),
        Operation::InsertOrReplace(other.clone()),
        Operation::InsertOrMerge(other.clone()),
        Operation::Replace(other.clone().with_key(ken().key().clone()), IfMatch::Any),
        Operation::Merge(other.clone().with_key(ken().key().clone()), IfMatch::Any),
    ] {
        refused(
            table
                .store
                .write(table.raw.name(), operation.clone())
                .await
                .map(drop),
        );
        let mut group = GroupTransaction::new(other.key().partition_key(), table.store.profile());
        group.push(operation).expect("room");
        refused(
            table
                .store
                .transact(table.raw.name(), group)
                .await
                .map(drop),
        );
    }
    assert_hidden(&table, &[NEW]).await;
    assert_eq!(
        table.clear.existing(ken().key()).await.properties(),
        ken().properties()
    );

    let by_row = |_: &str, row: &str, _: &str| row == "223";
    let table = TableViews::over(table.raw, keys(), |b, t| {
        b.encrypt_where(t, ["NationalId"], by_row)
    });
    table.clear.insert(other.clone()).await;
    assert_eq!(
        table.raw.existing(other.key()).await.get("NationalId"),
        text(NEW)
    );
}
