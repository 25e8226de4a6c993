//! Reads of encrypted properties.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, RetryPolicy, Retrying};
use table_core::model::{Entity, ValueRef};
use table_core::query::{Filter, Query, Select};
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_encryption::{Description, EncryptedStore, Keys};

use super::{HEADER, TableViews, kek, ken, key, keys, text};
use crate::Harness;

/// A projection returns the named properties, decrypted, and no others.
pub(crate) async fn projections_are_decrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    for (names, expected) in [
        (vec!["NationalId"], vec!["NationalId"]),
        (vec!["Age"], vec!["Age"]),
        (vec!["Salary", "Age", "Missing"], vec!["Age", "Salary"]),
        (vec!["PartitionKey"], vec![]),
    ] {
        let select = Select::new(names);
        let read = table
            .store
            .get(table.raw.name(), ken().key(), Some(&select))
            .await
            .expect("a read");
        let page = table
            .clear
            .page(&Query::new().with_select(select), None)
            .await;
        for entity in [
            read.expect("an entity"),
            page.items.into_iter().next().expect("an entity"),
        ] {
            let mut found: Vec<_> = entity.properties().iter().map(|p| p.name()).collect();
            found.sort_unstable();
            assert_eq!(found, expected);
            assert!(
                entity
                    .properties()
                    .iter()
                    .all(|p| p.is_encrypted() == (p.name() != "Age"))
            );
        }
    }
}

/// Every page is decrypted.
pub(crate) async fn pages_are_decrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let entity =
        |n: usize| Entity::from(key("p", &format!("{n:03}"))).with_encrypted("N", format!("n{n}"));
    table.clear.load("p", (0..90).map(entity)).await;
    let (mut seen, mut from) = (Vec::new(), None);
    loop {
        let page = table
            .clear
            .page(&Query::new().with_top(40), from.as_ref())
            .await;
        seen.extend(page.items.iter().map(|e| e.get("N").map(|v| v.to_owned())));
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(
        seen,
        (0..90)
            .map(|n| Some(format!("n{n}").into()))
            .collect::<Vec<_>>()
    );
}

/// A filter on a property is refused if a rule encrypts the property, or if an earlier write or read found it
/// encrypted.
pub(crate) async fn filters_on_encrypted_properties_are_refused(harness: &Harness) {
    let table = TableViews::with(harness, |b, t| b.encrypt(t, ["Iban"])).await;
    let by = |name: &str| Query::new().with_filter(Filter::ne(name, "x").and(Filter::gt("Age", 0)));
    let refused = async |table: &TableViews, name: &str| {
        let error = table
            .store
            .query(table.raw.name(), &by(name), None)
            .await
            .expect_err("an encrypted property");
        assert!(error.to_string().contains(name), "{error}");
    };
    refused(&table, "Iban").await;
    table.clear.insert(ken()).await;
    refused(&table, "NationalId").await;
    let fresh = TableViews::over(table.raw.clone(), keys(), |b, _| b);
    refused(&fresh, "NationalId").await;
}

/// A filter on other properties works, and its rows are decrypted.
pub(crate) async fn filters_on_other_properties_work(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    table
        .clear
        .insert(ken().with_key(key("Sales", "224")).with("Age", 20))
        .await;
    let older =
        Query::new().with_filter(Filter::gt("Age", 30).and(Filter::eq("PartitionKey", "Sales")));
    let found = table.clear.all(&older).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get("NationalId"), text("760519-1234"));
}

/// Data under an earlier key is readable while the store has that key. Without it the error does not name the
/// key; `describe` does.
pub(crate) async fn keys_are_found_by_their_id(harness: &Harness) {
    let table = TableViews::new(harness).await;
    table.clear.insert(ken()).await;
    let both = TableViews::over(
        table.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, _| b,
    );
    both.clear.insert(ken().with_key(key("Sales", "224"))).await;
    assert_eq!(both.clear.all(&Query::new()).await.len(), 2);
    let new = TableViews::over(table.raw.clone(), Keys::new(kek(2)), |b, _| b);
    assert_eq!(
        new.clear
            .existing(&key("Sales", "224"))
            .await
            .get("NationalId"),
        text("760519-1234")
    );
    let error = new
        .store
        .get(table.raw.name(), ken().key(), None)
        .await
        .expect_err("a key is missing");
    assert!(!error.to_string().contains("kek1"), "{error}");
    let described = new
        .store
        .describe(table.raw.name(), ken().key())
        .await
        .expect("a header");
    assert!(matches!(described, Some(Description::V2 { key_id, .. }) if key_id == "kek1"));
}

/// Over retries with write ids, lost answers and failed requests: no reader sees a write id or a header, and no
/// write is applied twice.
pub(crate) async fn retries_and_lost_answers_show_no_write_id(harness: &Harness) {
    let table = harness.table().await;
    let faults = FaultInjector::new(5);
    faults.add(FaultRule::new(Fault::LoseAnswer).every(3));
    faults.add(FaultRule::new(Fault::FailBefore).every(4));
    let policy = RetryPolicy::default()
        .with_max_attempts(50)
        .with_delays(Duration::ZERO, Duration::ZERO);
    let retrying = Retrying::new(
        Faulty::new(Arc::clone(table.store()), faults.clone()),
        policy.with_write_ids(),
    );
    let store = EncryptedStore::new(retrying, keys()).expect("sound keys");
    for n in 0..10 {
        let entity = ken().with_key(key("Sales", &n.to_string()));
        store
            .write(table.name(), Operation::Insert(entity.clone()))
            .await
            .expect("an insert");
        let patch = Entity::from(entity.key().clone()).with_encrypted("Salary", f64::from(n));
        store
            .write(table.name(), Operation::InsertOrMerge(patch))
            .await
            .expect("a merge");
    }
    let all = store
        .query_all(table.name(), &Query::new())
        .await
        .expect("a scan");
    assert_eq!(all.len(), 10);
    for entity in all {
        let n = entity.key().row().parse().expect("a number");
        assert_eq!(entity.get("Salary"), Some(ValueRef::Double(n)));
        assert_eq!(entity.properties().len(), 3);
        assert!(entity.get(HEADER).is_none());
    }
    assert!(faults.injected().len() > 10);
}
