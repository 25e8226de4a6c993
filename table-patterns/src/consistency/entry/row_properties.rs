//! The properties by which rows are distinguished: rows of unique entries, rows that several entities share, and entities that are being
//! moved.

use std::borrow::Cow;

use table_core::model::{Entity, Key, ValueRef};
use table_core::store::Result;

use super::Entry;

/// The write that has written a unique row.
pub(crate) const OWNER_WRITE: &str = "OwnerWrite";
/// Whether a unique row is pending.
pub(crate) const OWNER_PENDING: &str = "OwnerPending";
/// The PartitionKey of the entity that gets the value of a pair.
pub(crate) const HEIR_PARTITION: &str = "HeirPartition";
/// The RowKey of the entity that gets the value of a pair.
pub(crate) const HEIR_ROW: &str = "HeirRow";

/// The move whose source an entity is.
pub(crate) const MOVE_WRITE: &str = "EntityMoveWrite";
/// The PartitionKey of the target of the move.
pub(crate) const MOVE_TO: &str = "EntityMoveTo";

/// The references of a list or a chunk, in numbered binary properties.
pub(crate) const LIST_MEMBERS: &str = "List";
/// The chunks of a long list, in numbered binary properties.
pub(crate) const LIST_CHUNKS: &str = "ListChunks";
/// The name of the blob with the references of a long list.
pub(crate) const LIST_BLOB: &str = "ListBlob";

/// The number of entities of a summary.
pub(crate) const SUMMARY_COUNT: &str = "Count";

/// Whether a property belongs to a unique row and not to its payload.
pub(crate) fn is_unique_row_property(name: &str) -> bool {
    [OWNER_PENDING, OWNER_WRITE, HEIR_PARTITION, HEIR_ROW].contains(&name)
}

/// Whether a row is a unique row, pending or settled.
pub(crate) fn is_unique_row(row: &Entity) -> bool {
    row.properties()
        .iter()
        .any(|p| is_unique_row_property(p.name()))
}

/// Whether a row is a reservation that is not settled.
pub(crate) fn is_pending(row: &Entity) -> bool {
    row.get(OWNER_PENDING) == Some(ValueRef::Boolean(true))
}

/// The entity that gets the value of a pair.
pub(crate) fn heir_of(row: &Entity) -> Result<Option<Key>> {
    match (row.get(HEIR_PARTITION), row.get(HEIR_ROW)) {
        (Some(ValueRef::String(partition)), Some(ValueRef::String(row))) => {
            Key::new(partition, row).map(Some)
        }
        _ => Ok(None),
    }
}

/// The entities of which one has the entry: the owner, and the heir of a value that is being moved.
pub(crate) fn holders(row: &Entity) -> Result<Vec<Key>> {
    Ok(std::iter::once(Entry::owner_of(row)?)
        .chain(heir_of(row)?)
        .collect())
}

/// Whether a property belongs to the mark of a move.
pub(crate) fn is_mark_property(name: &str) -> bool {
    name == MOVE_WRITE || name == MOVE_TO
}

/// Whether a stored entity has the mark of a move.
pub(crate) fn has_mark(entity: &Entity) -> bool {
    let (write, to) = (entity.get(MOVE_WRITE), entity.get(MOVE_TO));
    matches!(
        (write, to),
        (Some(ValueRef::Guid(_)), Some(ValueRef::String(_)))
    )
}

/// The entity without the mark of a move, with the ETag of the stored entity.
pub(crate) fn without_mark(entity: &Entity) -> Cow<'_, Entity> {
    if !has_mark(entity) {
        return Cow::Borrowed(entity);
    }
    let mut entity = entity.clone();
    entity
        .properties_mut()
        .retain(|p| !is_mark_property(p.name()));
    Cow::Owned(entity)
}

/// Whether a row has properties of a list.
pub(crate) fn is_list(row: &Entity) -> bool {
    let binary = |name: &str| matches!(row.get(&format!("{name}0")), Some(ValueRef::Binary(_)));
    matches!(row.get(LIST_BLOB), Some(ValueRef::String(_)))
        || binary(LIST_MEMBERS)
        || binary(LIST_CHUNKS)
}

/// Whether a row has the properties of a summary.
fn is_summary(row: &Entity) -> bool {
    matches!(row.get(SUMMARY_COUNT), Some(ValueRef::Int64(_)))
}

/// Whether a row has the properties of a list, a chunk or a summary.
pub(crate) fn is_shared_row(row: &Entity) -> bool {
    is_list(row) || is_summary(row)
}
