use uuid::Uuid;

use super::job::{Job, Repeat};
use super::write_id::carries;
use super::{AbsentInsert, WRITE_ID_PROPERTY};
use crate::model::{Entity, IfMatch};
use crate::query::Select;
use crate::store::{Operation, Written};

/// The conclusion from stored entities about a write whose answer was lost.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Conclusion {
    /// Applied: an entity has the write's id.
    Applied(Vec<Written>),
    /// Not found, and repeating the write is allowed.
    NotSeen,
    /// The write may have been applied, and its entity overwritten or deleted since.
    Undecided,
}

/// Returns the properties that must be read to find a write's id.
pub(super) fn projection() -> Select {
    Select::new([WRITE_ID_PROPERTY])
}

/// Evaluates the entities found under a write's keys. For deletes nothing is read.
///
/// Only the id is proof, because two writers can store equal content.
pub(super) fn judge(job: &Job, found: &[Option<Entity>], id: Uuid, absent: AbsentInsert) -> Conclusion {
    let each = || job.operations().iter().zip(found);
    // One id is enough, because a group is atomic: if one of its writes took effect, all did, also its deletes.
    if each().any(|(_, entity)| carries(entity.as_ref(), id)) {
        return Conclusion::Applied(each().map(|(op, entity)| answer(op, entity.as_ref(), id)).collect());
    }
    // Before `NotSeen`: an entity that has changed since may have been changed by our own write and then by another
    // one.
    if each().any(|(operation, entity)| cannot_succeed(operation, entity.as_ref())) {
        return Conclusion::Undecided;
    }
    match (job.repeat(), absent) {
        (Repeat::Insert, AbsentInsert::Report) => Conclusion::Undecided,
        _ => Conclusion::NotSeen,
    }
}

/// Returns the lost answer. If another writer has written since, the ETag of our write is unknown.
fn answer(operation: &Operation, entity: Option<&Entity>, id: Uuid) -> Written {
    match (operation, entity) {
        (Operation::Delete(..), _) => Written::deleted(),
        (_, Some(entity)) if carries(Some(entity), id) => Written { etag: entity.etag().cloned() },
        _ => Written { etag: None },
    }
}

/// Whether a repetition would fail with a conflict that our own earlier effect may have caused.
fn cannot_succeed(operation: &Operation, entity: Option<&Entity>) -> bool {
    match operation {
        Operation::Insert(_) => entity.is_some(),
        Operation::Replace(_, IfMatch::Any) | Operation::Merge(_, IfMatch::Any) => entity.is_none(),
        Operation::Replace(_, IfMatch::Exactly(etag)) | Operation::Merge(_, IfMatch::Exactly(etag)) => {
            entity.and_then(Entity::etag) != Some(etag)
        }
        Operation::InsertOrReplace(_) | Operation::InsertOrMerge(_) | Operation::Delete(..) => false,
    }
}
