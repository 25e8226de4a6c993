//! Jobs on every entity of a table, page by page, while writers continue: rotating the key-encryption key,
//! migrating to format v2.

mod migrate;
mod progress;
mod rewrap;
#[cfg(test)]
mod tests;

use std::fmt;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
pub use migrate::Migration;
pub use progress::SweepProgress;
pub use rewrap::Rotation;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Query, Select};
use table_core::store::{Conflicts, Error, ErrorKind, Result, TableStore};

use crate::error::Failure;
use crate::store::EncryptedStore;

/// The result of a sweep for one entity.
#[derive(Debug, Default)]
pub(crate) struct SweptEntity {
    /// Whether the entity was written.
    pub(crate) changed: bool,
    /// The id of the entity's key-encryption key, if the sweep has verified it.
    pub(crate) key_id: Option<String>,
}

/// The work of a sweep on one entity.
#[async_trait]
pub(crate) trait Job: Send + Sync {
    /// Returns the properties that the job reads.
    fn select(&self) -> Option<Select>;

    /// Writes the entity under its ETag if it needs work. A conflict is an error of this entity.
    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure>;
}

/// A job over all entities of a table.
///
/// It reads the table page by page and writes the entities that need work under the ETag that it read. After
/// a conflict with another writer it reads the entity again. It can be stopped at any time, and resumed at
/// [`cursor`](Self::cursor) or restarted; finished entities are skipped. Deploy the new configuration to
/// every writer before the sweep, so that entities written during the sweep have the new form already.
///
/// An entity that cannot be processed is left unchanged, and is counted and listed in the
/// [progress](SweepProgress): because it is damaged or forged, its key is not available, it would become too
/// large, or other writers change it continually. The sweep continues with the others. **Check
/// [`SweepProgress::skipped`] before you drop a key or refuse plaintext.**
///
/// # Cost
/// 1 request per page, and 1 per entity that needs work; 2 more per conflict with another writer.
pub struct Sweep<'a, S, J> {
    store: &'a EncryptedStore<S>,
    job: J,
    table: TableName,
    from: Option<Continuation>,
    done: bool,
    progress: SweepProgress,
    concurrency: usize,
    page_size: Option<usize>,
}

/// Default number of concurrent writes.
const CONCURRENCY: usize = 8;
/// Maximum number of times that an entity is read again after conflicts.
const ATTEMPTS: u32 = 10;

#[expect(private_bounds, reason = "the jobs are this crate's")]
impl<'a, S: TableStore, J: Job> Sweep<'a, S, J> {
    pub(crate) fn new(store: &'a EncryptedStore<S>, job: J, table: &TableName) -> Self {
        let (table, progress) = (table.clone(), SweepProgress::default());
        Self {
            store,
            job,
            table,
            from: None,
            done: false,
            progress,
            concurrency: CONCURRENCY,
            page_size: None,
        }
    }

    pub(crate) const fn job_mut(&mut self) -> &mut J {
        &mut self.job
    }

    /// Continues where an earlier sweep of the same kind and table stopped. The counts start at zero.
    #[must_use]
    pub fn resumed_at(mut self, cursor: Continuation) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Sets the maximum number of concurrent writes; at least 1, default 8.
    #[must_use]
    pub fn with_concurrency(mut self, writes: usize) -> Self {
        self.concurrency = writes.max(1);
        self
    }

    /// Sets the maximum number of entities per page; at least 1.
    #[must_use]
    pub fn with_page_size(mut self, entities: usize) -> Self {
        self.page_size = Some(entities.max(1));
        self
    }

    /// Processes one page. Returns whether more pages follow.
    ///
    /// # Errors
    /// Fails with the store's errors, and if the key service is busy, is unreachable or does not wrap. The
    /// page can be processed again.
    pub async fn step(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let query = Query { filter: None, select: self.job.select(), top: self.page_size };
        let page = self.store.inner().query(&self.table, &query, self.from.as_ref()).await?;
        let tables: Vec<_> = page.items.iter().filter_map(Entity::index_table).collect();
        let seen = page.items.len() as u64;
        let changes = stream::iter(page.items).map(|entity| self.change(entity));
        let found: Vec<_> = changes.buffer_unordered(self.concurrency).try_collect().await?;
        self.progress.read += seen;
        self.progress.index_tables.extend(tables.into_iter().filter(|table| *table != self.table));
        found.into_iter().for_each(|found| self.progress.add(found));
        // Only after every entity of the page: a sweep that stops before reads the page again and finds the finished entities done.
        self.done = page.continuation.is_none();
        self.from = page.continuation;
        Ok(!self.done)
    }

    /// Processes the remaining pages.
    ///
    /// # Errors
    /// Fails like [`step`](Self::step).
    pub async fn run(&mut self) -> Result<SweepProgress> {
        while self.step().await? {}
        Ok(self.progress.clone())
    }

    /// Returns the position: the next page, or `None` before the first and after the last page. Convert it to
    /// text to store it.
    pub const fn cursor(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// Returns the counts so far.
    pub const fn progress(&self) -> &SweepProgress {
        &self.progress
    }

    /// Processes an entity. Returns its result, or why it was left unchanged.
    async fn change(&self, entity: Entity) -> Result<Result<SweptEntity, (Key, Error)>> {
        let key = entity.key().clone();
        match self.change_now(entity).await {
            Ok(done) => Ok(Ok(done)),
            Err(Failure::OfEntity(error)) => Ok(Err((key, error))),
            Err(Failure::OfService(error)) => Err(error),
        }
    }

    /// Processes an entity, again after each conflict with another writer.
    async fn change_now(&self, mut entity: Entity) -> Result<SweptEntity, Failure> {
        let (key, select) = (entity.key().clone(), self.job.select());
        let mut conflicts = Conflicts::new(ATTEMPTS);
        loop {
            match self.job.change(&self.table, entity).await {
                Err(failure) if is_gone(&failure) => return Ok(SweptEntity::default()),
                Err(Failure::OfEntity(error)) if error.is_precondition_failed() && !error.is_ambiguous() => {
                    conflicts.wait(error).await.map_err(Failure::OfEntity)?;
                }
                other => return other,
            }
            match self.store.fetch(&self.table, &key, select.as_ref()).await.map_err(Failure::OfService)? {
                None => return Ok(SweptEntity::default()),
                Some(now) => entity = now,
            }
        }
    }
}

/// Whether the entity was deleted after it was read.
fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::OfEntity(error) if error.is_gone())
}

/// Classifies the error of a write: a problem of the entity, or of the store.
pub(crate) fn classify_write_error(error: Error) -> Failure {
    let conflict = error.is_precondition_failed() || error.is_entity_not_found();
    let refused = matches!(
        error.root().kind(),
        ErrorKind::LimitExceeded { .. }
            | ErrorKind::InvalidKey { .. }
            | ErrorKind::InvalidName { .. }
            | ErrorKind::InvalidValue { .. }
            | ErrorKind::Encryption(_)
    );
    // An ambiguous error is the store's: the write may have happened, so the entity cannot be counted either way.
    if (conflict || refused) && !error.is_ambiguous() {
        Failure::OfEntity(error)
    } else {
        Failure::OfService(error)
    }
}

impl<S, J> fmt::Debug for Sweep<'_, S, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("table", &self.table)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}
