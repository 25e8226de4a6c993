//! Errors: their content, and that a failed operation changes nothing.

use table_core::model::IfMatch;
use table_core::query::{Filter, Query};
use table_core::store::{Error, Operation, TableStore};

use super::table::{entity, key, refused};
use super::{Harness, TestTable};

/// Every operation distinguishes a missing table from a missing entity.
pub(crate) async fn distinguish_a_missing_table_from_a_missing_entity(h: &Harness) {
    let table = h.missing_table();
    for operation in every_operation() {
        let label = operation.kind();
        names_the_table(
            &refused(table.write(operation.clone()).await),
            &table,
            label.name(),
        );
        names_the_table(
            &refused(table.transact("p", vec![operation]).await),
            &table,
            "transact",
        );
    }
    let store = h.store();
    names_the_table(
        &refused(store.get(table.name(), &key("p", "r"), None).await),
        &table,
        "get",
    );
    names_the_table(
        &refused(store.query(table.name(), &Query::new(), None).await),
        &table,
        "query",
    );
    let point =
        Query::new().with_filter(Filter::eq("PartitionKey", "p").and(Filter::eq("RowKey", "r")));
    names_the_table(
        &refused(store.query(table.name(), &point, None).await),
        &table,
        "point query",
    );
    names_the_table(
        &refused(store.delete_table(table.name()).await),
        &table,
        "delete_table",
    );
}

/// The error of a missing entity contains the table and the key.
pub(crate) async fn name_the_missing_entity(h: &Harness) {
    let table = h.table().await;
    let (key, made) = (key("p", "it's"), entity("p", "it's"));
    let operations = [
        Operation::Replace(made.clone(), IfMatch::Any),
        Operation::Merge(made, IfMatch::Any),
        Operation::Delete(key.clone(), IfMatch::Any),
    ];
    for operation in operations {
        let error = refused(table.write(operation.clone()).await);
        assert!(error.is_entity_not_found(), "{error}");
        assert!(!error.is_table_not_found(), "{error}");
        names_the_entity(&error, &table, &key.to_string());
        let error = refused(table.transact("p", vec![operation]).await);
        names_the_entity(&error, &table, &key.to_string());
    }
}

/// The errors of an existing entity and of a failed condition contain the table and the key.
pub(crate) async fn name_the_existing_entity(h: &Harness) {
    let table = h.table().await;
    let stale = table.insert(entity("p", "r")).await;
    table
        .put(Operation::InsertOrMerge(entity("p", "r").with("A", 1)))
        .await;
    let operations = [
        Operation::Insert(entity("p", "r")),
        Operation::Replace(entity("p", "r"), (&stale).into()),
        Operation::Merge(entity("p", "r"), (&stale).into()),
        Operation::Delete(key("p", "r"), stale.into()),
    ];
    for operation in operations {
        names_the_entity(&refused(table.write(operation).await), &table, "('p', 'r')");
    }
}

/// An error of a refused operation is not transient: an identical attempt would fail, too.
pub(crate) async fn of_refused_operations_are_not_transient(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r")).await;
    table
        .write(Operation::Delete(key("p", "r"), (&etag).into()))
        .await
        .expect("a delete");
    let error = refused(
        table
            .write(Operation::Delete(key("p", "r"), etag.into()))
            .await,
    );
    assert!(!error.is_transient(), "{error}");
    assert!(!error.is_ambiguous(), "{error}");
}

fn every_operation() -> Vec<Operation> {
    let made = entity("p", "r").with("A", 1);
    vec![
        Operation::Insert(made.clone()),
        Operation::Replace(made.clone(), IfMatch::Any),
        Operation::Merge(made.clone(), IfMatch::Any),
        Operation::InsertOrReplace(made.clone()),
        Operation::InsertOrMerge(made),
        Operation::Delete(key("p", "r"), IfMatch::Any),
    ]
}

#[track_caller]
fn names_the_table(error: &Error, table: &TestTable, operation: &str) {
    assert!(error.is_table_not_found(), "{operation}: {error}");
    assert!(!error.is_entity_not_found(), "{operation}: {error}");
    assert!(
        error.to_string().contains(table.name().as_str()),
        "{operation}: {error}"
    );
}

#[track_caller]
fn names_the_entity(error: &Error, table: &TestTable, key: &str) {
    let text = error.to_string();
    assert!(text.contains(table.name().as_str()), "{text}");
    assert!(text.contains(key), "{text}");
}
