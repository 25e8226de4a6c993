//! Work on every entity of a table, page by page, while writers go on: rotating the key-encryption key, migrating to v2.

mod migrate;
mod rewrap;
#[cfg(test)]
mod tests;

use std::fmt;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
pub use migrate::Migration;
pub use rewrap::Rotation;
use table_core::model::{Entity, TableName};
use table_core::query::{Continuation, Query, Select};
use table_core::store::{Result, TableStore};

use crate::store::Pauses;

/// What a sweep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweepProgress {
    /// Entities read.
    pub seen: u64,
    /// Entities written.
    pub changed: u64,
}

/// What a sweep does to one entity.
#[async_trait]
pub(crate) trait Job: Send + Sync {
    /// What it reads.
    fn select(&self) -> Option<Select>;

    /// Writes the entity under its ETag if it needs it; whether it did. A conflict is an error.
    async fn change(&self, table: &TableName, entity: Entity) -> Result<bool>;
}

/// A sweep over a table.
///
/// It reads the table page by page, and writes what needs it under the ETag that it read; where another writer comes
/// between, it reads the entity again. It can be stopped at any time and resumed at [`cursor`](Self::cursor), or be run
/// again from the start: what is done is left alone. Entities that are written meanwhile are in the new form already, if every
/// writer has the new configuration: deploy it before the sweep.
///
/// # Cost
/// A request a page, and one for each entity that needs it; two more where another writer comes between.
pub struct Sweep<'a, S, J> {
    inner: &'a S,
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
/// Times that one entity is tried.
const ATTEMPTS: u32 = 10;

#[expect(private_bounds, reason = "the jobs are this crate's")]
impl<'a, S: TableStore, J: Job> Sweep<'a, S, J> {
    pub(crate) fn new(inner: &'a S, job: J, table: &TableName) -> Self {
        let (table, progress) = (table.clone(), SweepProgress::default());
        Self {
            inner,
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

    /// Goes on where an earlier sweep of the same kind and table was.
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
    /// The store's, a key service's, an entity that cannot be decrypted. The page can be done again.
    pub async fn step(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let query = Query { filter: None, select: self.job.select(), top: self.page_size };
        let page = self.inner.query(&self.table, &query, self.from.as_ref()).await?;
        let seen = page.items.len() as u64;
        let changes = stream::iter(page.items).map(|entity| self.change(entity));
        let changed: Vec<bool> = changes.buffer_unordered(self.concurrency).try_collect().await?;
        self.progress.seen += seen;
        self.progress.changed += changed.into_iter().filter(|changed| *changed).count() as u64;
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
        Ok(self.progress)
    }

    /// Where it is: the next page, or `None` before the first and after the last. Print it, parse it back.
    pub const fn cursor(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// What it has done.
    pub const fn progress(&self) -> SweepProgress {
        self.progress
    }

    async fn change(&self, mut entity: Entity) -> Result<bool> {
        let (key, select) = (entity.key().clone(), self.job.select());
        let mut pauses = Pauses::new(ATTEMPTS);
        loop {
            match self.job.change(&self.table, entity).await {
                Err(error) if error.is_entity_not_found() && !error.is_ambiguous() => return Ok(false),
                Err(error) if error.is_precondition_failed() && !error.is_ambiguous() => {
                    pauses.wait(error).await?;
                }
                other => return other,
            }
            match self.inner.get(&self.table, &key, select.as_ref()).await? {
                None => return Ok(false),
                Some(now) => entity = now,
            }
        }
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
