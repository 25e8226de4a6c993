//! Rows that an attacker with write access plants: plaintext in place of ciphertext, and invalid headers.

use std::collections::BTreeMap;
use std::sync::Arc;
use table_patterns::Database;

use table_core::model::{Entity, IfMatch, ValueRef};
use table_core::query::{Filter, Query, Select};
use table_core::store::{ErrorKind, Operation, TableStore, TableStoreExt};

use table_encryption::{Keys, LegacyV1};

use super::{HEADER, TableViews, assert_hidden, kek, ken, key, keys, text};
use crate::Harness;

const PLANTED: &str = "830303-9999";

/// Ken and Rob. Rob's row has no header, and plaintext in place of the ciphertext.
async fn stripped(harness: &Harness) -> (TableViews, Entity) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let planted = Entity::from(key("Sales", "100"))
        .with("NationalId", PLANTED)
        .with("Age", 41);
    table.store_raw(planted.clone()).await;
    (table, planted)
}

fn refused<T: std::fmt::Debug>(result: table_core::Result<T>) {
    let error = result.expect_err("plaintext");
    assert!(
        matches!(error.root().kind(), ErrorKind::Encryption(_)),
        "{error}"
    );
    assert!(error.to_string().contains("'NationalId'"), "{error}");
    assert!(!error.to_string().contains(PLANTED), "{error}");
}

/// A reader of dynamic entities refuses planted plaintext once it knows the encrypted name: from an earlier
/// read, from a write, from the same page in any order, or from a typed table.
pub(crate) async fn planted_plaintext_is_refused(harness: &Harness) {
    let (table, planted) = stripped(harness).await;
    let name = table.raw.name();
    let fresh = || TableViews::over(table.raw.clone(), keys(), |b, _| b);
    // The name is not known yet: the row looks like an entity that was never encrypted.
    assert_eq!(
        fresh()
            .clear
            .existing(planted.key())
            .await
            .get("NationalId"),
        text(PLANTED)
    );

    let by_read = fresh();
    by_read.clear.existing(ken().key()).await;
    let by_write = fresh();
    by_write
        .clear
        .insert(ken().with_key(key("Sales", "300")))
        .await;
    let by_type = fresh();
    by_type
        .store
        .context()
        .declare_encrypted(name, &["NationalId"]);
    let by_page = fresh();
    refused(by_page.store.query(name, &Query::new(), None).await);
    for met in [by_read, by_write, by_type, by_page] {
        refused(met.store.get(name, planted.key(), None).await);
        refused(
            met.store
                .get(name, planted.key(), Some(&Select::new(["NationalId"])))
                .await,
        );
        refused(met.store.query(name, &Query::new(), None).await);
        refused(
            met.store
                .query_all(name, &Query::new().with_filter(Filter::eq("Age", 41)))
                .await,
        );
        let people = Database::new(Arc::clone(&met.store) as Arc<dyn TableStore>)
            .view::<Entity>(name.clone());
        refused(people.expect("a table").query().all().await);
        // A projection without the property does not check it.
        let age = met
            .store
            .get(name, planted.key(), Some(&Select::new(["Age"])))
            .await
            .expect("an answer");
        assert_eq!(
            age.expect("an entity").get("Age"),
            Some(ValueRef::Int32(41))
        );
        let page = met
            .store
            .query(name, &Query::new().with_unreadable(), None)
            .await
            .expect("a page");
        assert_eq!(
            page.unreadable
                .iter()
                .map(|e| e.key.row())
                .collect::<Vec<_>>(),
            ["100"]
        );
        assert!(page.page.items.iter().all(|e| {
            e.properties()
                .find("NationalId")
                .is_some_and(|p| p.is_encrypted())
        }));
    }
}

/// Planted plaintext is refused in an entity with other encrypted properties. Ciphertext without a header is
/// refused, too.
pub(crate) async fn planted_plaintext_beside_ciphertext_is_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    table
        .clear
        .insert(Entity::from(key("Sales", "300")).with_encrypted("Salary", 1.5))
        .await;
    let name = table.raw.name();
    let mut headless = table.raw.existing(ken().key()).await;
    headless.properties_mut().remove(HEADER);
    table
        .store_raw(headless.with_key(key("Sales", "400")))
        .await;
    refused(table.store.get(name, &key("Sales", "400"), None).await);
    let half = table
        .raw
        .existing(&key("Sales", "300"))
        .await
        .with("NationalId", PLANTED);
    table.store_raw(half.clone()).await;
    refused(table.store.get(name, half.key(), None).await);
}

/// A merge of an encrypted property reads the entity first. It refuses planted plaintext and does not put it
/// under a valid header.
pub(crate) async fn merges_refuse_planted_plaintext(harness: &Harness) {
    let (table, planted) = stripped(harness).await;
    table.clear.existing(ken().key()).await;
    let patch = Entity::from(planted.key().clone()).with_encrypted("Salary", 2.5);
    for operation in [
        Operation::Merge(patch.clone(), IfMatch::Any),
        Operation::InsertOrMerge(patch),
    ] {
        refused(table.store.write(table.raw.name(), operation).await);
    }
    assert_eq!(
        table.raw.existing(planted.key()).await.properties(),
        planted.properties()
    );
    // A replacement of the whole entity removes planted plaintext.
    table
        .clear
        .put(Operation::InsertOrReplace(
            ken().with_key(planted.key().clone()),
        ))
        .await;
    assert_hidden(&table, &[PLANTED]).await;
}

/// Plaintext is read if a rule names the rows with plaintext, if a migration is declared, or if the store reads
/// the legacy format, which encrypts row by row.
pub(crate) async fn declared_plaintext_is_read(harness: &Harness) {
    let (table, planted) = stripped(harness).await;
    let by_row =
        |b: super::Builder, t: &_| b.encrypt_where(t, ["NationalId"], |_, row, _| row == "223");
    for declared in [
        TableViews::over(table.raw.clone(), keys(), by_row),
        TableViews::over(table.raw.clone(), keys(), |b, t| b.accept_plaintext(t)),
        TableViews::over(table.raw.clone(), keys(), |b, t| {
            b.with_legacy_v1(LegacyV1::new(Keys::new(kek(9))).read(t))
        }),
    ] {
        declared.clear.existing(ken().key()).await;
        assert_eq!(
            declared
                .clear
                .existing(planted.key())
                .await
                .get("NationalId"),
            text(PLANTED)
        );
        assert_eq!(declared.clear.all(&Query::new()).await.len(), 2);
    }
}

/// Plants rows with invalid headers among the others.
async fn with_garbage(table: &TableViews) {
    for (n, header) in [vec![], vec![2, 1], vec![1; 200]].into_iter().enumerate() {
        table
            .store_raw(Entity::from(key("Sales", &format!("0{n}"))).with(HEADER, header))
            .await;
    }
    let stored = table.raw.existing(&key("Sales", "500")).await;
    table.store_raw(stored.with_key(key("Sales", "03"))).await;
    table
        .store_raw(Entity::from(key("Sales", "04")).with(HEADER, "text"))
        .await;
}

const GARBAGE: [&str; 5] = ["00", "01", "02", "03", "04"];

/// Rotation, migration and lenient pages skip unreadable rows and report their keys.
pub(crate) async fn invalid_headers_do_not_stop_sweeps(harness: &Harness) {
    let raw = harness.table().await;
    let old = TableViews::over(raw, Keys::new(kek(1)), |b, _| b);
    let person = |n: u32| {
        Entity::from(key("Sales", &n.to_string())).with_encrypted("NationalId", format!("id{n}"))
    };
    for n in 500..530 {
        old.clear.insert(person(n)).await;
    }
    with_garbage(&old).await;
    let name = old.raw.name();
    let both = TableViews::over(
        old.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, _| b,
    );
    both.store
        .query(name, &Query::new(), None)
        .await
        .expect_err("garbage in the page");
    let done = both
        .store
        .rotation(name)
        .with_page_size(7)
        .run()
        .await
        .expect("a rotation");
    assert_eq!(done.read, 35);
    assert_eq!(done.changed, 30);
    assert_eq!(done.skipped, 5);
    let mut listed: Vec<_> = done
        .unreadable
        .iter()
        .map(|skipped| skipped.key.row())
        .collect();
    listed.sort_unstable();
    assert_eq!(listed, GARBAGE);
    let new = TableViews::over(old.raw.clone(), Keys::new(kek(2)), |b, _| b);
    let page = new
        .store
        .query(name, &Query::new().with_unreadable(), None)
        .await
        .expect("a page");
    assert_eq!(page.page.items.len(), 30);
    assert_eq!(page.unreadable.len(), 5);
    let again = new
        .store
        .migration(name)
        .with_reencryption()
        .run()
        .await
        .expect("a migration");
    assert_eq!(again.changed, 30);
    assert_eq!(again.skipped, 5);
    let counted = new
        .store
        .rotation(name)
        .counting()
        .run()
        .await
        .expect("a count");
    assert_eq!(counted.keys, BTreeMap::from([("kek2".to_owned(), 30)]));
    assert_eq!(counted.changed, 0);
}

/// Another key with the same id: rows that it cannot decrypt are not counted as rows of the new key.
pub(crate) async fn rows_of_another_key_with_the_same_id_are_not_counted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let namesake =
        table_encryption::AesKeyWrap::new("kek1", &vec![99; 32].into()).expect("32 bytes");
    let other = TableViews::over(table.raw.clone(), Keys::new(Arc::new(namesake)), |b, _| b);
    other
        .clear
        .insert(ken().with_key(key("Sales", "300")))
        .await;
    let done = other
        .store
        .rotation(table.raw.name())
        .run()
        .await
        .expect("a rotation");
    assert_eq!(done.changed, 0);
    assert_eq!(done.skipped, 1);
    assert_eq!(done.keys, BTreeMap::from([("kek1".to_owned(), 1)]));
    assert_eq!(done.unreadable[0].key.row(), "223");
}
