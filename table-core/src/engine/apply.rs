use super::{Record, Stamp};
use crate::model::{ETag, Entity, IfMatch, Key, Properties, TableName};
use crate::store::{Error, ErrorKind, Operation, Result, Written};

/// What an operation does to its row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The row becomes this.
    Put(Record),
    /// The row goes.
    Remove,
}

impl Change {
    /// The answer to the operation.
    pub const fn written(&self) -> Written {
        match self {
            Self::Put(record) => Written::version(ETag::from_version(record.stamp.version)),
            Self::Remove => Written::deleted(),
        }
    }
}

/// Decides an operation: what it does to its row, or why it fails.
///
/// # Errors
/// The entity exists already, is missing, or is in another version.
pub fn apply(
    table: &TableName,
    current: Option<&Record>,
    operation: Operation,
    stamp: Stamp,
) -> Result<Change> {
    let put = |entity: Entity| Change::Put(Record { stamp, properties: entity.into_parts().1 });
    match operation {
        Operation::Insert(entity) => match current {
            None => Ok(put(entity)),
            Some(_) => Err(ErrorKind::EntityAlreadyExists {
                table: table.to_string(),
                key: entity.key().to_string(),
            }
            .into()),
        },
        Operation::InsertOrReplace(entity) => Ok(put(entity)),
        Operation::InsertOrMerge(entity) => Ok(match current {
            None => put(entity),
            Some(current) => merge(current, entity.properties(), stamp),
        }),
        Operation::Replace(entity, condition) => {
            matching(table, entity.key(), current, &condition)?;
            Ok(put(entity))
        }
        Operation::Merge(entity, condition) => {
            let current = matching(table, entity.key(), current, &condition)?;
            Ok(merge(current, entity.properties(), stamp))
        }
        Operation::Delete(key, condition) => {
            matching(table, &key, current, &condition)?;
            Ok(Change::Remove)
        }
    }
}

/// Decides the operations of a group in order, each against its row by its sortable key.
///
/// Nothing is written here: the caller writes all changes at once, or none.
///
/// # Errors
/// The first operation that fails, with its index.
pub fn apply_group(
    table: &TableName,
    operations: Vec<Operation>,
    mut current: impl FnMut(&[u8]) -> Result<Option<Record>>,
    mut stamp: impl FnMut() -> Stamp,
) -> Result<Vec<(Vec<u8>, Change)>> {
    let mut decide = |operation: Operation| {
        let key = operation.key().to_sortable();
        let change = apply(table, current(&key)?.as_ref(), operation, stamp())?;
        Ok((key, change))
    };
    let numbered = operations.into_iter().enumerate();
    numbered.map(|(index, op)| decide(op).map_err(|e| Error::in_transaction(index, e))).collect()
}

fn merge(current: &Record, patch: &Properties, stamp: Stamp) -> Change {
    let mut properties = current.properties.clone();
    properties.merge(patch);
    Change::Put(Record { stamp, properties })
}

fn matching<'a>(
    table: &TableName,
    key: &Key,
    current: Option<&'a Record>,
    condition: &IfMatch,
) -> Result<&'a Record> {
    let (table, key) = (|| table.to_string(), || key.to_string());
    let Some(current) = current else {
        return Err(ErrorKind::EntityNotFound { table: table(), key: key() }.into());
    };
    match condition {
        IfMatch::Any => Ok(current),
        IfMatch::Exactly(etag) if *etag == ETag::from_version(current.stamp.version) => Ok(current),
        IfMatch::Exactly(_) => Err(ErrorKind::PreconditionFailed { table: table(), key: key() }.into()),
    }
}
