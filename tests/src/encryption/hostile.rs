//! A store that returns valid rows of another key, another range or another table.

use std::fmt::Debug;
use std::sync::Arc;
use table_patterns::Database;

use table_core::model::{Entity, IfMatch, TableName};
use table_core::prelude::*;
use table_core::query::{Filter, Query, Select};
use table_core::store::{ErrorKind, GroupTransaction, Operation, Result, TableStore};
use table_encryption::EncryptedStore;

use super::tampering_store::{TamperingStore, WrongAnswer};
use super::{Encrypted, TableViews, key, keys, text};
use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Account {
    #[partition_key]
    bank: String,
    #[row_key]
    owner: String,
    #[encrypt]
    iban: String,
}

fn account(owner: &str, iban: &str) -> Entity {
    Entity::from(key("Bank", owner))
        .with_encrypted("Iban", iban)
        .with("Limit", 10)
}

/// The accounts of Alice and Bob, and the hostile store between them and the reader.
struct Scene {
    table: TableViews,
    hostile: Arc<TamperingStore>,
    store: Arc<Encrypted>,
}

impl Scene {
    async fn new(harness: &Harness) -> Self {
        let table = TableViews::new(harness).await;
        table.clear.insert(account("alice", "CH-alice")).await;
        table.clear.insert(account("bob", "CH-bob")).await;
        let hostile = TamperingStore::wrap(table.raw.store());
        let inner = Arc::clone(&hostile) as Arc<dyn TableStore>;
        let store = Arc::new(EncryptedStore::new(inner, keys()).expect("sound keys"));
        Self {
            table,
            hostile,
            store,
        }
    }

    fn name(&self) -> &TableName {
        self.table.raw.name()
    }

    /// Asserts that both accounts are unchanged.
    async fn assert_untouched(&self) {
        for (owner, iban) in [("alice", "CH-alice"), ("bob", "CH-bob")] {
            let read = self.table.clear.existing(&key("Bank", owner)).await;
            assert_eq!(read.get("Iban"), text(iban), "{owner}");
            assert_eq!(read.properties().len(), 2, "{owner}");
        }
    }
}

/// Asserts the error that names the requested and the returned key.
fn refused<T: Debug>(result: Result<T>) {
    let error = result.expect_err("another entity");
    let root = error.root();
    assert!(matches!(root.kind(), ErrorKind::Service(_)), "{error}");
    assert!(error.to_string().contains("'alice'"), "{error}");
    assert!(error.to_string().contains("'bob'"), "{error}");
}

/// The store returns Bob's valid row for Alice's key. Every read refuses it, and no write merges it into
/// Alice's row.
pub(crate) async fn a_row_of_another_key_is_refused(harness: &Harness) {
    let scene = Scene::new(harness).await;
    let (alice, bob) = (key("Bank", "alice"), key("Bank", "bob"));
    scene.hostile.answer_with(WrongAnswer::OtherEntity(bob));
    let (store, name) = (&scene.store, scene.name());
    refused(store.get(name, &alice, None).await);
    refused(store.get(name, &alice, Some(&Select::new(["Iban"]))).await);
    refused(
        store
            .get(name, &alice, Some(&Select::new(["PartitionKey"])))
            .await,
    );
    refused(store.describe(name, &alice).await);
    let accounts = Database::new(Arc::clone(store) as Arc<dyn TableStore>)
        .table::<Account>(name.clone())
        .expect("a table");
    refused(
        accounts
            .get(Account::key("Bank", "alice").expect("a key"))
            .await,
    );
    let update = |account: &mut Account| {
        account.iban.push('!');
        Ok(())
    };
    refused(
        accounts
            .update(Account::key("Bank", "alice").expect("a key"), update)
            .await,
    );
    for patch in [
        Entity::from(alice.clone()).with_encrypted("Pin", 7),
        Entity::from(alice.clone()).with("Limit", 9),
    ] {
        for operation in [
            Operation::Merge(patch.clone(), IfMatch::Any),
            Operation::Merge(patch.clone(), IfMatch::Exactly("W/\"of alice\"".into())),
            Operation::InsertOrMerge(patch.clone()),
        ] {
            refused(store.write(name, operation.clone()).await);
            let mut group = GroupTransaction::new(alice.partition_key(), store.profile());
            group.push(operation).expect("room");
            refused(store.transact(name, group).await);
        }
    }
    scene.assert_untouched().await;
}

/// Rows that the query cannot match are refused: rows of another partition, of another range, of another table.
pub(crate) async fn rows_that_the_query_cannot_match_are_refused(harness: &Harness) {
    let scene = Scene::new(harness).await;
    let other = TableViews::new(harness).await;
    other.clear.insert(account("bob", "CH-elsewhere")).await;
    let partition = |name: &str| Filter::eq(Filter::PARTITION_KEY, name);
    let rows = Filter::starts_with(Filter::ROW_KEY, "al");
    let alices = [
        partition("Bank").and(rows.clone()),
        partition("Credit"),
        partition("Bank")
            .and(Filter::lt(Filter::ROW_KEY, "b"))
            .and(Filter::eq("Limit", 10)),
        rows,
    ];
    for table in [scene.name(), other.raw.name()] {
        scene
            .hostile
            .answer_with(WrongAnswer::OtherTable(table.clone()));
        for filter in &alices {
            for select in [
                None,
                Some(Select::new(["PartitionKey", "RowKey"])),
                Some(Select::new(["Limit"])),
            ] {
                let query = Query {
                    select,
                    ..Query::new().with_filter(filter.clone())
                };
                for error in [
                    scene
                        .store
                        .query(scene.name(), &query, None)
                        .await
                        .map(drop),
                    scene
                        .store
                        .query(scene.name(), &query.clone().with_unreadable(), None)
                        .await
                        .map(drop),
                ] {
                    let error = error.expect_err("rows of others");
                    assert!(
                        matches!(error.kind(), ErrorKind::Service(_)),
                        "{filter}: {error}"
                    );
                }
            }
        }
    }
    // A query without bounds on keys: the ciphertext is bound to its table, so a row of another table is
    // refused.
    let error = scene
        .store
        .query(scene.name(), &Query::new(), None)
        .await
        .expect_err("another table's");
    assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
}

/// A sweep reads an entity again after a conflict. It refuses the row of another key.
pub(crate) async fn sweeps_refuse_a_row_of_another_key(harness: &Harness) {
    let scene = Scene::new(harness).await;
    let bob = key("Bank", "bob");
    let stale = scene
        .table
        .raw
        .existing(&key("Bank", "alice"))
        .await
        .etag()
        .cloned()
        .expect("a version");
    scene
        .table
        .clear
        .put(Operation::InsertOrReplace(account("alice", "CH-alice")))
        .await;
    scene.hostile.answer_with(WrongAnswer::Stale(stale, bob));
    let error = scene
        .store
        .migration(scene.name())
        .with_reencryption()
        .run()
        .await
        .expect_err("another entity");
    assert!(matches!(error.kind(), ErrorKind::Service(_)), "{error}");
    scene.assert_untouched().await;
}
