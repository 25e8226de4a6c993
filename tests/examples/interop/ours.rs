//! The part of this library: writes the sample with every operation, and reads the samples of other clients.

use std::collections::BTreeMap;

use conformance::DIFFICULT_KEYS;
use serde_json::{Map, Value};
use table_azure::AzureTableStore;
use table_core::Result;
use table_core::model::{ETag, Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{GroupTransaction, Operation, TableStore, TableStoreExt};

use crate::Failure;
use crate::client::{Check, Client};
use crate::neutral::properties;
use crate::sample::{self, TYPES, entity};

/// Writes entities with equal keys one by one, all others in groups.
pub(crate) async fn write(store: &AzureTableStore, table: &TableName) -> Result<()> {
    store.create_table(table).await?;
    let (single, grouped): (Vec<_>, Vec<_>) = sample::entities()
        .into_iter()
        .partition(|e| e.key().partition() == TYPES || is_single(e.key()));
    for (n, entity) in single.into_iter().enumerate() {
        write_one(store, table, n, entity).await?;
    }
    for partition in DIFFICULT_KEYS {
        let group: Vec<_> = grouped
            .iter()
            .filter(|e| e.key().partition() == partition)
            .cloned()
            .collect();
        write_group(store, table, partition, group).await?;
    }
    Ok(())
}

fn is_single(key: &Key) -> bool {
    key.partition() == key.row()
}

async fn write_one(
    store: &AzureTableStore,
    table: &TableName,
    n: usize,
    entity: Entity,
) -> Result<()> {
    let empty = Operation::Insert(entity.key().clone().into());
    let operation = match n % 4 {
        0 => Operation::Insert(entity),
        1 => Operation::InsertOrReplace(entity),
        2 => Operation::Merge(entity, version(store.write(table, empty).await?.etag)),
        _ => Operation::Replace(entity, version(store.write(table, empty).await?.etag)),
    };
    store.write(table, operation).await.map(drop)
}

fn version(etag: Option<ETag>) -> IfMatch {
    etag.expect("a write returns an ETag").into()
}

/// One group inserts, a second group uses every other operation.
async fn write_group(
    store: &AzureTableStore,
    table: &TableName,
    partition: &str,
    entities: Vec<Entity>,
) -> Result<()> {
    let gone = entity(partition, "gone");
    let inserts = entities
        .iter()
        .chain([&gone])
        .map(|e| Operation::Insert(e.key().clone().into()));
    let inserts = group(store, partition, inserts)?;
    store.transact(table, inserts).await?;
    let changes = entities
        .iter()
        .enumerate()
        .map(|(n, e)| change(n, e.clone()));
    let deletes = [Operation::Delete(gone.key().clone(), IfMatch::Any)];
    let changes = group(store, partition, changes.chain(deletes))?;
    store.transact(table, changes).await.map(drop)
}

fn change(n: usize, entity: Entity) -> Operation {
    match n % 4 {
        0 => Operation::InsertOrMerge(entity),
        1 => Operation::InsertOrReplace(entity),
        2 => Operation::Merge(entity, IfMatch::Any),
        _ => Operation::Replace(entity, IfMatch::Any),
    }
}

fn group(
    store: &AzureTableStore,
    partition: &str,
    operations: impl IntoIterator<Item = Operation>,
) -> Result<GroupTransaction> {
    let mut group = GroupTransaction::new(PartitionKey::new(partition)?, store.profile());
    operations.into_iter().try_for_each(|o| group.push(o))?;
    Ok(group)
}

/// Reads the sample of another client: by key, by filter, and by a table scan.
pub(crate) async fn read(store: &AzureTableStore, table: &TableName) -> Vec<Check> {
    let (mut checks, mut points, mut filters) = (Vec::new(), Vec::new(), Vec::new());
    for expected in sample::entities() {
        let key = expected.key();
        if key.partition() == TYPES {
            checks.push(Check::of(
                key.row(),
                &differences(&expected, store.get_existing(table, key).await),
            ));
        } else if is_single(key) {
            points.extend(differences(&expected, store.get_existing(table, key).await));
            filters.extend(differences(&expected, by_filter(store, table, key).await));
        }
    }
    checks.push(Check::of("point reads", &points));
    checks.push(Check::of("filters", &filters));
    checks.push(Check::of("whole table", &whole(store, table).await));
    checks
}

async fn by_filter(store: &AzureTableStore, table: &TableName, key: &Key) -> Result<Entity> {
    let (partition, row) = (
        Filter::eq("PartitionKey", key.partition()),
        Filter::eq("RowKey", key.row()),
    );
    let mut found = store
        .query_all(table, &Query::new().with_filter(partition.and(row)))
        .await?;
    Ok(found.pop().unwrap_or_else(|| entity("nothing", "found")))
}

fn differences(expected: &Entity, found: Result<Entity>) -> Vec<String> {
    match found {
        Err(error) => vec![format!("{}: {error}", expected.key())],
        Ok(found) if found.key() != expected.key() => {
            vec![format!("{} for {}", found.key(), expected.key())]
        }
        Ok(found) => unequal(&properties(expected), &properties(&found)),
    }
}

fn unequal(expected: &Map<String, Value>, found: &Map<String, Value>) -> Vec<String> {
    let missing = expected
        .iter()
        .filter(|(name, value)| found.get(*name) != Some(value));
    let mut problems: Vec<_> = missing
        .map(|(n, v)| format!("{n}: {v}, found {:?}", found.get(n)))
        .collect();
    problems.extend(
        found
            .keys()
            .filter(|n| !expected.contains_key(*n))
            .map(|n| format!("{n} is unexpected")),
    );
    problems
}

async fn whole(store: &AzureTableStore, table: &TableName) -> Vec<String> {
    let by_key = |entities: Vec<Entity>| -> BTreeMap<_, _> {
        entities
            .into_iter()
            .map(|e| (e.key().to_string(), properties(&e)))
            .collect()
    };
    match store.query_all(table, &Query::new()).await {
        Err(error) => vec![error.to_string()],
        Ok(found) => {
            let (expected, found) = (by_key(sample::entities()), by_key(found));
            let wrong = expected
                .iter()
                .filter(|(key, value)| found.get(*key) != Some(value));
            let more = found.keys().filter(|key| !expected.contains_key(*key));
            let wrong = wrong.map(|(key, _)| match found.get(key) {
                None => format!("{key} is missing"),
                Some(_) => format!("{key} differs"),
            });
            wrong
                .chain(more.map(|key| format!("{key} is unexpected")))
                .collect()
        }
    }
}

/// The other client writes under the ETag that this library got, and this library writes under the ETag of the
/// other client.
pub(crate) async fn versions(
    store: &AzureTableStore,
    table: &TableName,
    client: &Client<'_>,
) -> std::result::Result<Vec<Check>, Failure> {
    let shared = entity("versions", "it's %2F").with("Writer", "Rust");
    let ours = store
        .write(table, Operation::InsertOrReplace(shared.clone()))
        .await?
        .etag
        .expect("a write returns an ETag");
    let (partition, row) = (shared.key().partition(), shared.key().row());
    let theirs: String =
        client.run(&["update", table.as_str(), partition, row, &ours.to_string()])?;
    let stale = store
        .write(table, Operation::Replace(shared.clone(), ours.into()))
        .await;
    let current = IfMatch::Exactly(ETag::from(theirs.as_str()));
    let current = store
        .write(table, Operation::Delete(shared.key().clone(), current))
        .await;
    let refused: &[String] = if stale.is_err_and(|e| e.is_precondition_failed()) {
        &[]
    } else {
        &[
            "a write under the ETag from before the other client's write was not refused"
                .to_owned(),
        ]
    };
    let accepted: Vec<_> = current.err().map(|e| e.to_string()).into_iter().collect();
    Ok(vec![
        Check::of("the ETag of table-azure is stale", refused),
        Check::of("the ETag of the client is current", &accepted),
    ])
}
