//! Maintains the indexes of manifests for clients that do not know them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use table_core::Result;
use table_core::model::{Entity, IfMatch, TableName};
use table_core::store::{Conflicts, Error, ErrorKind, Operation, TableStore, Written};
use table_patterns::index::{IndexOptions, IndexedEntities};
use table_patterns::journal::{Change, Timing};
use tokio::sync::OnceCell;

use crate::clients::{Check, Maintainer, group_error};

/// Handles of the tables that have indexes.
#[derive(Debug)]
pub(crate) struct Indexes {
    store: Arc<dyn TableStore>,
    options: IndexOptions,
    tables: Mutex<HashMap<String, Arc<OnceCell<IndexedEntities>>>>,
}

impl Indexes {
    pub(crate) fn new(store: Arc<dyn TableStore>) -> Result<Self> {
        let mut options = IndexOptions::default();
        if store.context().local_writers().is_some() {
            // Recovery waits for the longest lease: seconds are enough for a store of this process, also on a slow disk.
            options.timing = Timing::new(
                Duration::from_secs(12),
                Duration::from_secs(3),
                Duration::ZERO,
            )?;
            options.cache = Duration::from_secs(1);
        }
        Ok(Self {
            store,
            options,
            tables: Mutex::default(),
        })
    }

    async fn open(&self, table: &TableName) -> Result<IndexedEntities> {
        let identity = self.store.profile().table_identity(table);
        let slot = Arc::clone(self.tables().entry(identity).or_default());
        // Requests that come during the opening wait for it. After a failure the next request opens the table
        // again, because the cell stays empty.
        let opened = slot.get_or_try_init(|| {
            IndexedEntities::open(
                Arc::clone(&self.store),
                table.clone(),
                Vec::new(),
                self.options.clone(),
            )
        });
        opened.await.cloned()
    }

    // The map is consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn tables(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<IndexedEntities>>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Maintainer for Indexes {
    async fn write(
        &self,
        table: &TableName,
        operations: Vec<Operation>,
        check: Check,
    ) -> Result<Vec<Written>> {
        let indexed = self.open(table).await?;
        let mut conflicts = Conflicts::new(Conflicts::ATTEMPTS);
        loop {
            let changes = changes(&indexed, &operations, &check).await?;
            let error = match indexed.write(&changes).await {
                Ok(committed) => return Ok(results(committed.written, operations.len())),
                Err(error) => error,
            };
            if !error.is_conflict() {
                return Err(of_operation(&operations, error));
            }
            if let Some(index) = existing(&indexed, &operations).await? {
                let (table, key) = (table.to_string(), operations[index].key().to_string());
                return Err(group_error(
                    &operations,
                    index,
                    ErrorKind::EntityAlreadyExists { table, key }.into(),
                ));
            }
            // Another writer has changed an entity since the read. The next attempt reads the entities and compares the client's conditions
            // again, so a condition that no longer holds is refused and not overwritten.
            conflicts.wait(error).await?;
        }
    }

    fn forget(&self, table: &TableName) {
        self.tables()
            .remove(&self.store.profile().table_identity(table));
    }
}

/// Returns the error of a unique value that is taken as the error of the operation that wanted the value.
fn of_operation(operations: &[Operation], error: Error) -> Error {
    let ErrorKind::UniqueViolation { wanted_by, .. } = error.kind() else {
        return error;
    };
    match operations
        .iter()
        .position(|operation| operation.key().to_string() == *wanted_by)
    {
        Some(index) => group_error(operations, index, error),
        None => error,
    }
}

/// Pads the results to one for each operation, without an ETag: after a lost answer the write is known to be applied, but not its ETags.
fn results(mut written: Vec<Written>, operations: usize) -> Vec<Written> {
    written.resize_with(operations, Written::deleted);
    written
}

/// Returns the first insert whose entity exists. 1 request for each insert, after a conflict.
async fn existing(indexed: &IndexedEntities, operations: &[Operation]) -> Result<Option<usize>> {
    for (index, operation) in operations.iter().enumerate() {
        if matches!(operation, Operation::Insert(_))
            && indexed.get(operation.key()).await?.is_some()
        {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Reads the entities and describes the operations as changes of them.
async fn changes(
    indexed: &IndexedEntities,
    operations: &[Operation],
    check: &Check,
) -> Result<Vec<Change>> {
    let old = operations.iter().map(|operation| read(indexed, operation));
    let old = try_join_all(old).await?;
    let described = operations.iter().zip(old).enumerate();
    described
        .map(|(index, (operation, old))| {
            change(indexed.table(), operation, old, check)
                .map_err(|error| group_error(operations, index, error))
        })
        .collect()
}

/// The entity before an operation. An insert reads nothing: its write fails if the entity exists.
async fn read(indexed: &IndexedEntities, operation: &Operation) -> Result<Option<Entity>> {
    match operation {
        Operation::Insert(_) => Ok(None),
        other => Ok(indexed
            .get(other.key())
            .await?
            .map(|stored| stored.into_inner())),
    }
}

fn change(
    table: &TableName,
    operation: &Operation,
    old: Option<Entity>,
    check: &Check,
) -> Result<Change> {
    if old.as_ref().is_some_and(Entity::is_index_entry) {
        return Err(Error::misuse(format!(
            "the row {} of the table '{table}' is an index entry: write its entity, and the entry follows",
            operation.key()
        )));
    }
    let (table, key) = (table.to_string(), operation.key().to_string());
    if let Operation::Replace(_, condition)
    | Operation::Merge(_, condition)
    | Operation::Delete(_, condition) = operation
    {
        match &old {
            None => return Err(ErrorKind::EntityNotFound { table, key }.into()),
            Some(old) if !matches(old, condition) => {
                return Err(ErrorKind::PreconditionFailed { table, key }.into());
            }
            Some(_) => {}
        }
    }
    let new = match (operation, &old) {
        (Operation::Delete(..), _) => None,
        (Operation::Merge(patch, _) | Operation::InsertOrMerge(patch), Some(old)) => {
            let mut merged = old.clone();
            merged.properties_mut().merge(patch.properties());
            Some(merged)
        }
        (
            Operation::Insert(new)
            | Operation::Replace(new, _)
            | Operation::InsertOrReplace(new)
            | Operation::Merge(new, _)
            | Operation::InsertOrMerge(new),
            _,
        ) => Some(new.clone()),
    };
    // Both sides: a write may give an entity a layout, or remove one, that only a program with the type can write.
    old.iter()
        .chain(&new)
        .try_for_each(|entity| check(entity))?;
    match (old, new) {
        (None, Some(new)) => Ok(Change::insert(new)),
        (Some(old), Some(new)) => Ok(Change::replace(old, new)),
        (Some(old), None) => Ok(Change::delete(old)),
        (None, None) => Err(ErrorKind::EntityNotFound { table, key }.into()),
    }
}

/// Returns whether a stored version satisfies a condition of a write.
fn matches(old: &Entity, condition: &IfMatch) -> bool {
    match condition {
        IfMatch::Any => true,
        IfMatch::Exactly(etag) => old.etag() == Some(etag),
    }
}
