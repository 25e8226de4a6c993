//! Work on every entity of a table, page by page, while writers go on: rotating the key-encryption key, migrating to v2.

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
use table_core::store::{Error, ErrorKind, Result, TableStore};

use crate::store::{EncryptedStore, Failure, Pauses};

/// What a sweep found and did of one entity.
#[derive(Debug, Default)]
pub(crate) struct SweptEntity {
    /// Whether it was written.
    pub(crate) changed: bool,
    /// The key-encryption key that it is under now, where the sweep has verified that.
    pub(crate) key_id: Option<String>,
}

/// What a sweep does to one entity.
#[async_trait]
pub(crate) trait Job: Send + Sync {
    /// What it reads.
    fn select(&self) -> Option<Select>;

    /// Writes the entity under its ETag if it needs it. A conflict is an error of the entity.
    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure>;
}

/// A sweep over a table.
///
/// It reads the table page by page, and writes what needs it under the ETag that it read; where another writer comes
/// between, it reads the entity again. It can be stopped at any time and resumed at [`cursor`](Self::cursor), or be run
/// again from the start: what is done is left alone. Entities that are written meanwhile are in the new form already, if every
/// writer has the new configuration: deploy it before the sweep.
///
/// An entity that cannot be done is left as it is, and counted and listed in the [progress](SweepProgress): one that is
/// damaged or was planted, is under a key that is not here, would be too large, or is changed by others all the time. So none
/// keeps a sweep from the others. **Look at [`SweepProgress::skipped`] before a key is dropped or plaintext refused.**
///
/// # Cost
/// A request a page, and one for each entity that needs it; two more where another writer comes between.
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

/// Entities written at once unless told otherwise.
const CONCURRENCY: usize = 8;
/// Times that an entity is read again where others interfere.
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

    /// Goes on where an earlier sweep of the same kind and table was. What it counts starts there, too.
    #[must_use]
    pub fn resumed_at(mut self, cursor: Continuation) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Writes at most so many entities at once; at least 1, and 8 unless told otherwise.
    #[must_use]
    pub fn with_concurrency(mut self, writes: usize) -> Self {
        self.concurrency = writes.max(1);
        self
    }

    /// Reads at most so many entities at a time; at least 1.
    #[must_use]
    pub fn with_page_size(mut self, entities: usize) -> Self {
        self.page_size = Some(entities.max(1));
        self
    }

    /// Does one page; whether more follow.
    ///
    /// # Errors
    /// The store's; the key service is busy or unreachable, or does not wrap. The page can be done again.
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
        self.progress.seen += seen;
        self.progress.index_tables.extend(tables.into_iter().filter(|table| *table != self.table));
        found.into_iter().for_each(|found| self.progress.add(found));
        self.done = page.continuation.is_none();
        self.from = page.continuation;
        Ok(!self.done)
    }

    /// Does the rest.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub async fn run(&mut self) -> Result<SweepProgress> {
        while self.step().await? {}
        Ok(self.progress.clone())
    }

    /// Where it is: the next page, or `None` before the first and after the last. Print it, parse it back.
    pub const fn cursor(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// What it has found and done.
    pub const fn progress(&self) -> &SweepProgress {
        &self.progress
    }

    /// What became of an entity, or why it was left as it is.
    async fn change(&self, entity: Entity) -> Result<Result<SweptEntity, (Key, Error)>> {
        let key = entity.key().clone();
        match self.change_now(entity).await {
            Ok(done) => Ok(Ok(done)),
            Err(Failure::OfEntity(error)) => Ok(Err((key, error))),
            Err(Failure::OfService(error)) => Err(error),
        }
    }

    async fn change_now(&self, mut entity: Entity) -> Result<SweptEntity, Failure> {
        let (key, select) = (entity.key().clone(), self.job.select());
        let mut pauses = Pauses::new(ATTEMPTS);
        loop {
            match self.job.change(&self.table, entity).await {
                Err(failure) if is_gone(&failure) => return Ok(SweptEntity::default()),
                Err(Failure::OfEntity(error)) if error.is_precondition_failed() && !error.is_ambiguous() => {
                    pauses.wait(error).await.map_err(Failure::OfEntity)?;
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

/// Whether the entity was deleted since it was read.
fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::OfEntity(error) if error.is_entity_not_found() && !error.is_ambiguous())
}

/// The error of a write, by whether it is about the entity or about the store.
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
