use super::{Record, RecordRef, Rows, Stamp};
use crate::error::{Error, Result};
use crate::model::{ETag, Entity, IfMatch, Key, TableName};
use crate::operation::{Operation, Written, check_size};
use crate::profile::ServiceProfile;

/// The effect of an operation on its row.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The row is replaced by this record.
    Put(Record),
    /// The row is removed.
    Remove,
}

impl Change {
    /// Returns the result of the operation.
    pub const fn written(&self) -> Written {
        match self {
            Self::Put(record) => Written::version(ETag::from_version(record.stamp.version)),
            Self::Remove => Written::deleted(),
        }
    }
}

/// Decides an operation: its effect on the row, or why it fails.
///
/// The operation must have passed [`check_operation`](super::check_operation).
///
/// # Errors
/// Fails if the entity already exists, does not exist or has another version, or if a merge makes it too
/// large.
pub fn apply(
    profile: &ServiceProfile,
    table: &TableName,
    current: Option<RecordRef<'_>>,
    operation: Operation,
    stamp: Stamp,
) -> Result<Change> {
    let put = |entity: Entity| {
        Change::Put(Record {
            stamp,
            properties: entity.into_parts().1,
        })
    };
    match operation {
        // <https://learn.microsoft.com/rest/api/storageservices/insert-entity>: 409 if the entity exists.
        Operation::Insert(entity) => match current {
            None => Ok(put(entity)),
            Some(_) => Err(Error::entity_already_exists(table, entity.key())),
        },
        // <https://learn.microsoft.com/rest/api/storageservices/insert-or-replace-entity>: has no condition, and
        // removes the properties that the request does not name.
        Operation::InsertOrReplace(entity) => Ok(put(entity)),
        // <https://learn.microsoft.com/rest/api/storageservices/insert-or-merge-entity>: keeps the properties that
        // the request does not name.
        Operation::InsertOrMerge(entity) => match current {
            None => Ok(put(entity)),
            Some(current) => merge(profile, current, &entity, stamp),
        },
        // <https://learn.microsoft.com/rest/api/storageservices/update-entity2>: 404 without an entity, 412 for
        // another version.
        Operation::Replace(entity, condition) => {
            check_condition(table, entity.key(), current, &condition)?;
            Ok(put(entity))
        }
        // <https://learn.microsoft.com/rest/api/storageservices/merge-entity>: as a replace.
        Operation::Merge(entity, condition) => {
            let current = check_condition(table, entity.key(), current, &condition)?;
            merge(profile, current, &entity, stamp)
        }
        // <https://learn.microsoft.com/rest/api/storageservices/delete-entity1>: as a replace.
        Operation::Delete(key, condition) => {
            check_condition(table, &key, current, &condition)?;
            Ok(Change::Remove)
        }
    }
}

/// Decides one operation against its row. Returns the row's stored key and the effect.
///
/// # Errors
/// See [`apply`]; also the backend's errors.
pub fn apply_to(
    rows: &impl Rows,
    profile: &ServiceProfile,
    table: &TableName,
    operation: Operation,
    stamp: Stamp,
) -> Result<(Vec<u8>, Change)> {
    let key = rows.key(operation.key());
    if matches!(operation, Operation::InsertOrReplace(_)) {
        // The stored row changes nothing about the result, so it is not read.
        return Ok((key, apply(profile, table, None, operation, stamp)?));
    }
    let change = rows.with_row(&key, |row| {
        let current = row.map(RecordRef::parse).transpose()?;
        apply(profile, table, current, operation, stamp)
    })?;
    Ok((key, change))
}

/// Decides the operations of a group in order, each against its row.
///
/// This function writes nothing: the caller writes all changes at once, or none.
///
/// # Errors
/// Returns the error of the first failed operation, with its index.
pub fn apply_group(
    rows: &impl Rows,
    profile: &ServiceProfile,
    table: &TableName,
    operations: Vec<Operation>,
    mut stamp: impl FnMut() -> Stamp,
) -> Result<Vec<(Vec<u8>, Change)>> {
    // Each operation sees the rows as they were before the group. The service does not define more: a group may write
    // an entity only once (`check_group`,
    // <https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>).
    let numbered = operations.into_iter().enumerate();
    let mut decide = |(index, operation)| {
        apply_to(rows, profile, table, operation, stamp())
            .map_err(|e| Error::in_transaction(index, e))
    };
    numbered.map(&mut decide).collect()
}

/// Returns the row with the properties of the patch merged into it.
fn merge(
    profile: &ServiceProfile,
    current: RecordRef<'_>,
    patch: &Entity,
    stamp: Stamp,
) -> Result<Change> {
    let mut properties = current.to_record().properties;
    properties.merge(patch.properties());
    // Only now is the size known. The patch alone was within the limits.
    check_size(profile, patch.key(), &properties)?;
    Ok(Change::Put(Record { stamp, properties }))
}

/// Returns the stored row, if it exists in the version that the condition requires.
fn check_condition<'a>(
    table: &TableName,
    key: &Key,
    current: Option<RecordRef<'a>>,
    condition: &IfMatch,
) -> Result<RecordRef<'a>> {
    // Before the condition, as in the service: a missing entity is 404 also for a request with an ETag.
    let Some(current) = current else {
        return Err(Error::entity_not_found(table, key));
    };
    match condition {
        IfMatch::Any => Ok(current),
        IfMatch::Exactly(etag) if *etag == ETag::from_version(current.stamp.version) => Ok(current),
        IfMatch::Exactly(_) => Err(Error::precondition_failed(table, key)),
    }
}
