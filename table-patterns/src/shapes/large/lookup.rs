use std::fmt;
use std::future::ready;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use table_core::model::Entity;
use table_core::query::{Continuation, Page};
use table_core::store::Result;
use table_core::typed::{FromEntity, IndexEntries, IndexedEntity, ManyEntries, OneEntry};

use super::{LargeRow, LargeTable};
use crate::index::Lookup;

/// A lookup of whole entities by an index, large values included: made by [`LargeTable::by`], then run.
///
/// # Cost
/// That of a [`Lookup`] that reads every entity, and one request for each large value.
///
/// # Consistency
/// No entry holds a large value, so every entity is read, and must still have its entry: nothing is stale. One that is replaced
/// before its values are read is read again; one that has lost its entry by then is left out.
#[must_use = "a lookup does nothing until it is run"]
pub struct LargeLookup<'a, T, K = ManyEntries> {
    table: &'a LargeTable<T>,
    rows: Lookup<'a, T, LargeRow<T>, K>,
    limit: Option<usize>,
}

impl<'a, T: IndexedEntity, K> LargeLookup<'a, T, K> {
    pub(super) const fn new(table: &'a LargeTable<T>, rows: Lookup<'a, T, LargeRow<T>, K>) -> Self {
        Self { table, rows, limit: None }
    }

    /// Returns at most this many: see [`Lookup::limit`].
    pub fn limit(self, entities: usize) -> Self {
        Self { rows: self.rows.limit(entities), limit: Some(entities), ..self }
    }

    /// Asks for at most this many entries in a page: see [`Lookup::page_size`].
    pub fn page_size(self, entries: usize) -> Self {
        Self { rows: self.rows.page_size(entries), ..self }
    }

    /// Returns entities in the order of their entries from every store: see [`Lookup::sorted_on_client`].
    pub fn sorted_on_client(self) -> Self {
        Self { rows: self.rows.sorted_on_client(), ..self }
    }

    /// The rows, without the values that are in blobs; [`LargeTable::load`] reads those of some.
    pub fn rows(self) -> Lookup<'a, T, LargeRow<T>, K> {
        self.rows
    }

    /// Returns another type: a projection of `T`, which has no large field. Where the entries hold every property of it, no
    /// entity is read.
    pub fn project<P: FromEntity>(self) -> Lookup<'a, T, P, K> {
        self.rows.project()
    }

    /// All of them, collected.
    ///
    /// # Errors
    /// As for [`Lookup::page`]; the blob store's; a blob is missing or damaged.
    pub async fn all(&self) -> Result<Vec<T>> {
        self.stream().try_collect().await
    }

    /// All of them, with the large values of several at once as [`LargeOptions::concurrency`](super::LargeOptions) says.
    ///
    /// # Errors
    /// As for [`all`](Self::all), as an item.
    pub fn stream(&self) -> impl Stream<Item = Result<T>> + Send + use<'_, 'a, T, K> {
        let most = self.table.options().concurrency.max(1).min(self.limit.unwrap_or(usize::MAX).max(1));
        let loaded = self.rows.stream().map(move |row| async move { self.load(row?).await }).buffered(most);
        loaded.try_filter_map(|found| ready(Ok(found)))
    }

    /// One page, from the start or from where another ended: see [`Lookup::page`].
    ///
    /// # Errors
    /// As for [`all`](Self::all).
    pub async fn page(&self, from: Option<&Continuation>) -> Result<Page<T>> {
        let page = self.rows.page(from).await?;
        let loads = stream::iter(page.items).map(|row| self.load(row));
        let loaded = loads.buffered(self.table.options().concurrency.max(1));
        let items = loaded.try_filter_map(|found| ready(Ok(found))).try_collect().await?;
        Ok(Page { items, continuation: page.continuation })
    }

    /// The first in the order of the entries.
    ///
    /// # Errors
    /// As for [`all`](Self::all), and [`Lookup::first`].
    pub async fn first(&self) -> Result<Option<T>> {
        // What is left out has lost its entry: the next time another is first.
        while let Some(row) = self.rows.first().await? {
            if let Some(found) = self.load(row).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// How many there are, by their entries: see [`Lookup::count`].
    ///
    /// # Errors
    /// As for [`Lookup::page`].
    pub async fn count(&self) -> Result<usize> {
        self.rows.count().await
    }

    /// The entity of a row; `None` if it is gone, or has lost its entry, since the row was read.
    pub(super) async fn load(&self, row: LargeRow<T>) -> Result<Option<T>> {
        let entries = self.rows.entries()?;
        let key = row.entity.key().clone();
        let mut now = row.entity;
        loop {
            if let Some(found) = self.table.hydrate_or_again(now).await? {
                return Ok(Some(found));
            }
            let Some(changed) = self.table.row(&key).await? else { return Ok(None) };
            if !self.is_among(&entries, &changed)? {
                return Ok(None);
            }
            now = changed;
        }
    }

    fn is_among(&self, entries: &IndexEntries<T>, row: &Entity) -> Result<bool> {
        let (index, partition) = (entries.index(), entries.partition().as_str());
        self.rows.entities()?.has_entry_among(index, row, partition, entries.rows())
    }
}

impl<T: IndexedEntity> LargeLookup<'_, T, OneEntry> {
    /// The entity, or `None`. Two requests, and one for each large value.
    ///
    /// # Errors
    /// As for [`all`](Self::all).
    pub async fn get(&self) -> Result<Option<T>> {
        let Some(row) = self.rows.get().await? else { return Ok(None) };
        self.load(row).await
    }
}

impl<T, K> fmt::Debug for LargeLookup<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LargeLookup").field("rows", &self.rows).finish_non_exhaustive()
    }
}
