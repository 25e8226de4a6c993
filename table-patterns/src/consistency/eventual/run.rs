//! What each kind of step does.

use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use table_core::manifest::Touched;
use table_core::store::{Error, ErrorKind, Operation, Outcome, Result};

use super::coordinator::Coordinator;
use super::resources::StepId;
use super::step::{Place, Step, blob_path};
use super::tables::check_movable;
use crate::blobs::blob_error;

/// How often a move starts over because the entity was changed.
const ROUNDS: usize = 16;

impl Coordinator {
    pub(super) async fn run_step(&self, id: StepId, step: &Step) -> Result<()> {
        if let Some((store, table, operation)) = step.operation() {
            let _rests_on = self.plain_write(store, table, Touched::by(&operation)).await?;
            let store = self.resources.store(store)?;
            return match store.write(table, operation).await {
                // What is gone need not be removed, and what was removed is not brought back.
                Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(()),
                written => written.map(drop),
            };
        }
        match step {
            Step::Move { from, to } => self.move_entity(step, from, to).await,
            Step::PutBlob { blobs, path, bytes } => {
                let payload = PutPayload::from(bytes.clone());
                let put = self.resources.blobs(blobs)?.put(&blob_path(path)?, payload).await;
                put.map(drop).map_err(of_blobs)
            }
            Step::DeleteBlob { blobs, path } => delete_blob(&**self.resources.blobs(blobs)?, path).await,
            Step::Handle { handler, payload } => self.resources.handler(handler)?.run(id, payload).await,
            _ => Ok(()),
        }
    }

    /// Read, write, delete in the version that was read. What goes to the other store is read from this one
    /// each time: a change is never lost.
    async fn move_entity(&self, step: &Step, from: &Place, to: &Place) -> Result<()> {
        let (source, target) = (self.resources.store(&from.store)?, self.resources.store(&to.store)?);
        for _ in 0..ROUNDS {
            let Some(entity) = source.get(&from.table, &from.key, None).await? else {
                // Moved before: by this step, when it could not record that.
                return self.check_moved(step).await;
            };
            let _rest_on = self.move_rests_on(step, &entity).await?;
            check_movable(&from.table, &entity)?;
            let Some(etag) = entity.etag().cloned() else { break };
            let moved = entity.with_system(None, None).with_key(to.key.clone());
            target.write(&to.table, Operation::InsertOrReplace(moved)).await?;
            let delete = Operation::Delete(from.key.clone(), etag.into());
            match source.write(&from.table, delete).await {
                Err(e) if e.is_precondition_failed() && !e.is_ambiguous() => {}
                Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => return Ok(()),
                deleted => return deleted.map(drop),
            }
        }
        let (table, key) = (from.table.to_string(), from.key.to_string());
        Err(ErrorKind::PreconditionFailed { table, key }.into())
    }
}

async fn delete_blob(blobs: &dyn ObjectStore, path: &str) -> Result<()> {
    match blobs.delete(&blob_path(path)?).await {
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        deleted => deleted.map_err(of_blobs),
    }
}

/// A blob store does not say whether what failed took effect, unless it refused it.
fn of_blobs(error: object_store::Error) -> Error {
    let error = blob_error(error);
    if error.is_transient() { error.with_outcome(Outcome::Ambiguous) } else { error }
}
