//! The windows of entities that a build reads, twice.

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{ETag, Entity, Key};
use table_core::query::Continuation;
use table_core::store::{CycleDetector, Result};

use crate::index::rows::IndexedRows;
use crate::rows::WINDOW_BYTES;

/// Maximum number of entities in a window, whose entries are sorted into groups together.
const WINDOW: usize = 10_000;

/// Entities that are processed together, and the number of pages in which they were read.
#[derive(Default)]
pub(super) struct Window {
    pub(super) entities: Vec<Entity>,
    pages: usize,
}

/// Reads the entities of a table in windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows<'a> {
    pub(super) rows: IndexedRows<'a>,
}

impl Windows<'_> {
    /// Reads a window. Also returns the token of the next window. 1 request per page.
    pub(super) async fn read(
        &self,
        from: Option<&Continuation>,
    ) -> Result<(Window, Option<Continuation>)> {
        let (mut window, mut bytes, mut from) = (Window::default(), 0, from.cloned());
        let mut cycles = CycleDetector::default();
        loop {
            let page = self.rows.entities().page(from.as_ref()).await?;
            page.continuation
                .iter()
                .try_for_each(|next| cycles.add(next, page.rows))?;
            window.pages += 1;
            let entities = page.entities.into_iter();
            window
                .entities
                .extend(entities.inspect(|e| bytes += e.properties().as_packed().len()));
            from = page.continuation;
            if from.is_none() || window.entities.len() >= WINDOW || bytes >= WINDOW_BYTES {
                return Ok((window, from));
            }
        }
    }

    /// Returns the entities of a window that have changed since they were read. The journal writes their entries again.
    ///
    /// This reads the same pages once more: 1 request per page. A new entity in these pages has a writer that knows the index. On a store that
    /// does not sort, the second read may return other entities, so the missing ones are read one by one.
    pub(super) async fn changed_since(
        &self,
        window: &Window,
        from: Option<&Continuation>,
    ) -> Result<Vec<Entity>> {
        // `ReadWindowAgain`: an entity that was written between the two reads may have got the entry of its
        // old state from the build, after its writer had found no entry to remove.
        let entities = &window.entities;
        let mut versions: HashMap<_, _> = entities.iter().map(|e| (e.key(), e.etag())).collect();
        // An empty window has no last entity: it ends with the first page.
        let last = entities.last().map(Entity::key);
        let (mut changed, mut from, mut pages) = (Vec::new(), from.cloned(), 0);
        let mut cycles = CycleDetector::default();
        loop {
            let page = self.rows.entities().page(from.as_ref()).await?;
            page.continuation
                .iter()
                .try_for_each(|next| cycles.add(next, page.rows))?;
            pages += 1;
            // Not by the number of pages alone: rows that were inserted since the first read move the last
            // entity of the window into a later page.
            let done = match self.rows.is_sorted() {
                true => page.last.as_ref() >= last,
                // Twice as many pages: the entries of the window may be between the entities.
                false => pages >= 2 * window.pages,
            };
            // Removes each key: the keys that are left were not in the pages.
            let is_changed = |e: &Entity| {
                versions
                    .remove(e.key())
                    .is_some_and(|before| before != e.etag())
            };
            changed.extend(page.entities.into_iter().filter(is_changed));
            let done = done || versions.is_empty();
            from = page.continuation;
            if done || from.is_none() {
                break;
            }
        }
        if !self.rows.is_sorted() {
            changed.extend(self.changed_of(versions).await?);
        }
        Ok(changed)
    }

    /// Returns the entities whose version has changed. One request per entity.
    async fn changed_of(&self, versions: HashMap<&Key, Option<&ETag>>) -> Result<Vec<Entity>> {
        let reads = versions.into_iter().map(|(key, before)| async move {
            let now = self.rows.entities().get(key).await?;
            Ok(now.filter(|now| now.etag() != before))
        });
        let reads = stream::iter(reads.collect::<Vec<_>>()).buffered(self.rows.concurrency);
        reads
            .try_filter_map(|changed| async move { Ok(changed) })
            .try_collect()
            .await
    }
}
