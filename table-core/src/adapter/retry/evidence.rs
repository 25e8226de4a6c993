use uuid::Uuid;

use super::job::{Job, Repeat};
use super::write_id::carries;
use super::{AbsentInsert, WRITE_ID_PROPERTY};
use crate::model::{Entity, IfMatch};
use crate::query::Select;
use crate::store::{Operation, Written};

/// What the stored entities tell about a write whose answer was lost.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Evidence {
    /// It was applied: an entity carries its id.
    Applied(Vec<Written>),
    /// It is not there, and repeating it is allowed.
    NotSeen,
    /// It may have been applied and overwritten or deleted since.
    Undecided,
}

/// What must be read to find a write's id.
pub(super) fn projection() -> Select {
    Select::new([WRITE_ID_PROPERTY])
}

/// Judges a write by what was found under its keys; nothing is looked for where it deletes.
///
/// Only the id proves anything: two writers can store equal content.
pub(super) fn judge(job: &Job, found: &[Option<Entity>], id: Uuid, absent: AbsentInsert) -> Evidence {
    let each = || job.operations().iter().zip(found);
    if each().any(|(_, entity)| carries(entity.as_ref(), id)) {
        return Evidence::Applied(each().map(|(op, entity)| answer(op, entity.as_ref(), id)).collect());
    }
    if each().any(|(operation, entity)| cannot_succeed(operation, entity.as_ref())) {
        return Evidence::Undecided;
    }
    match (job.repeat(), absent) {
        (Repeat::Insert, AbsentInsert::Report) => Evidence::Undecided,
        _ => Evidence::NotSeen,
    }
}

/// The answer that was lost. Where another writer came since, our version is not known.
fn answer(operation: &Operation, entity: Option<&Entity>, id: Uuid) -> Written {
    match (operation, entity) {
        (Operation::Delete(..), _) => Written::deleted(),
        (_, Some(entity)) if carries(Some(entity), id) => Written { etag: entity.etag().cloned() },
        _ => Written { etag: None },
    }
}

/// Whether the repetition would meet a conflict, which our own earlier effect may have caused.
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
