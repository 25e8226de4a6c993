use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt};
use table_core::model::{Entity, IfMatch, PartitionKey, TableName};
use table_core::query::{Filter, Query, Select};
use table_core::store::{Error, Operation, Result, TableStore};

use super::scan::scan;
use super::{BulkOptions, BulkOutcome, BulkSummary, BulkWriter};
use crate::rows::conflict::version_of;
use crate::spread;

/// What becomes of entities that another writer changes between being found and being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// They stay, and are reported with a failed precondition: they may no longer match.
    Required,
    /// They go all the same.
    Ignored,
}

/// Deletes a partition, in whatever version its entities are; rows that patterns keep there go too.
///
/// One request a page of keys and one a group of 100; up to three more where there is nothing, to see that the partition is not
/// spread over buckets, which is refused. What another writer deletes meanwhile counts as
/// written; what another writer adds may stay. Blobs of large entities stay too, until
/// [`LargeTable::collect`](crate::large::LargeTable::collect) takes them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// use std::sync::Arc;
/// use table_core::{memory::MemoryStore, prelude::*};
/// use table_patterns::bulk::{BulkOptions, delete_partition};
///
/// let (store, table) = (Arc::new(MemoryStore::new()), TableName::new("Employees")?);
/// store.create_table(&table).await?;
/// store.write(&table, Operation::Insert(Entity::new("Sales", "1")?)).await?;
/// let sales = PartitionKey::new("Sales")?;
/// let summary = delete_partition(store, &table, &sales, BulkOptions::default()).await?;
/// assert_eq!(summary.written, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Reading failed, or the table holds indexes: a row may be one that they are of. Failed deletes are in the summary.
pub async fn delete_partition(
    store: Arc<dyn TableStore>,
    table: &TableName,
    partition: &PartitionKey,
    options: BulkOptions,
) -> Result<BulkSummary> {
    let all = Filter::eq(Filter::PARTITION_KEY, partition.as_str());
    let deleted = delete_where(Arc::clone(&store), table, all, Unchanged::Ignored, options).await?;
    let nothing = deleted.written + deleted.failed + deleted.ambiguous == 0;
    if nothing && spread::is_there(&*store, table, partition.as_str(), None).await? {
        return Err(Error::invalid_request(format!(
            "'{partition}' of '{table}' is spread over buckets: delete each, by its stored key (`SpreadTable::stored_partitions`)"
        )));
    }
    Ok(deleted)
}

/// Deletes the entities that match a filter.
///
/// One request a page of keys and one a group of 100 of a partition. It is no snapshot and not atomic. Blobs of large
/// entities stay until [`LargeTable::collect`](crate::large::LargeTable::collect) takes them.
///
/// # Errors
/// As [`delete_partition`].
pub async fn delete_where(
    store: Arc<dyn TableStore>,
    table: &TableName,
    filter: Filter,
    unchanged: Unchanged,
    options: BulkOptions,
) -> Result<BulkSummary> {
    let keys = Query::new().with_filter(filter).with_select(Select::new([Filter::PARTITION_KEY]));
    let found = scan(Arc::clone(&store), table.clone(), keys);
    let name = table.clone();
    let deletes = found.map(move |entity| Ok((name.clone(), delete(&entity?, unchanged)?)));
    let count = |mut summary: BulkSummary, outcome| async move {
        summary.add(gone(outcome));
        Ok(summary)
    };
    BulkWriter::with_options(store, options).outcomes(deletes).try_fold(BulkSummary::default(), count).await
}

pub(super) fn delete(entity: &Entity, unchanged: Unchanged) -> Result<Operation> {
    let version = match unchanged {
        Unchanged::Required => version_of(entity)?,
        Unchanged::Ignored => IfMatch::Any,
    };
    Ok(Operation::Delete(entity.key().clone(), version))
}

/// What is not there any more is deleted.
fn gone(mut outcome: BulkOutcome) -> BulkOutcome {
    let missing = |error: &table_core::Error| error.is_entity_not_found() && !error.is_ambiguous();
    if outcome.result.as_ref().is_err_and(missing) {
        outcome.result = Ok(table_core::store::Written::deleted());
    }
    outcome
}
