//! Lookups in lists and summaries; pages of lists, which may end within a list.

use std::collections::BTreeSet;
use std::ops::Bound;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, Key, RowKey, TableName};
use table_core::query::{Continuation, Filter, Position, Query, Range, ReadablePage, Select};
use table_core::store::{CycleDetector, Error, Result, TableStoreExt as _};

use super::entries::{Lookups, Readable, Resolved, of_one_entity, with_unreadable};
use super::query::IndexQuery;
use crate::entry::shared::Summary;
use crate::entry::{Entry, Index, Location, Shape};
use crate::index::scrub::count;
use crate::rows::readable;

/// Looks entities up by the rows of indexes that hold the entries of several entities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lists<'a> {
    pub(crate) lookups: Lookups<'a>,
}

impl Lists<'_> {
    /// See [`IndexedEntities::references`](crate::index::IndexedEntities::references).
    pub(crate) async fn references(&self, index: &str, key: &Key) -> Result<Vec<Key>> {
        let index = self.list_index(index).await?;
        self.read_references(&index, &self.lookups.rows.location(&index, key))
            .await
    }

    /// See [`IndexedEntities::list`](crate::index::IndexedEntities::list).
    pub(crate) async fn list(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        let index = self.list_index(index).await?;
        let at = self.lookups.rows.location(&index, key);
        let keys = self.read_references(&index, &at).await?;
        let found = self.follow(&index, &at, keys, usize::MAX).await?.0;
        found.into_iter().map(|(_, entity)| entity).collect()
    }

    /// See [`IndexedEntities::list_by_range`](crate::index::IndexedEntities::list_by_range).
    pub(crate) async fn list_by_range(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        let (index, rows) = (self.list_index(index).await?, self.lookups.rows);
        let at = rows.location(&index, key);
        let keys: BTreeSet<_> = self
            .read_references(&index, &at)
            .await?
            .into_iter()
            .collect();
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(Vec::new());
        };
        if first.partition() != last.partition() {
            let reason = format!("the list {key} has entities of several partitions: call `list`");
            return Err(Error::misuse(reason));
        }
        let range =
            Filter::ge(Filter::ROW_KEY, first.row()).and(Filter::le(Filter::ROW_KEY, last.row()));
        let filter = Filter::eq(Filter::PARTITION_KEY, first.partition()).and(range);
        let found: Vec<_> = rows.entities().in_range(filter).try_collect().await?;
        let mut entities = Vec::with_capacity(keys.len());
        // The range also has entities between the first and the last that are not in the list.
        for entity in found.into_iter().filter(|e| keys.contains(e.key())) {
            if index.matches_origin(rows.table, &entity, &at)? {
                entities.push(entity);
            }
        }
        entities.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(entities)
    }

    /// See [`IndexedEntities::summary`](crate::index::IndexedEntities::summary).
    pub(crate) async fn summary(&self, index: &str, key: &Key) -> Result<Summary> {
        let index = self.summary_index(index).await?;
        check_fits(&index, key)?;
        let Some(row) = self.lookups.rows.entry(&index, key).await? else {
            return Ok(Summary::of_shape(index.shape()));
        };
        let summary = Summary::read(row.key(), row.properties())?;
        // A row keeps a few extreme values. When all of these have been removed, only a count of the entities
        // finds the next one.
        if summary.is_complete() {
            return summary.within_range(key);
        }
        count(self.lookups.rows, &index, key.partition())
            .await?
            .1
            .remove(key)
            .unwrap_or(summary)
            .within_range(key)
    }

    /// See [`IndexedEntities::summaries`](crate::index::IndexedEntities::summaries).
    pub(crate) async fn summaries(
        &self,
        index: &str,
        query: &IndexQuery,
    ) -> Result<Vec<(Key, Summary)>> {
        let (index, rows) = (self.summary_index(index).await?, self.lookups.rows);
        let found = rows
            .store
            .query_all(rows.table, &query.to_query(&index, rows.table))
            .await?;
        let found = found
            .into_iter()
            .filter(|row| Entry::index_of(row) == Some(index.id()));
        let read = |row: Entity| {
            Ok((
                row.key().clone(),
                Summary::read(row.key(), row.properties())?,
            ))
        };
        let mut found: Vec<(Key, Summary)> = found.map(read).collect::<Result<_>>()?;
        // An `IndexQuery` is of one partition, so one count finds the extremes of all of its summaries.
        if let Some((key, _)) = found.iter().find(|(_, summary)| !summary.is_complete()) {
            let (_, mut counted) = count(rows, &index, key.partition()).await?;
            for (key, summary) in found
                .iter_mut()
                .filter(|(_, summary)| !summary.is_complete())
            {
                *summary = counted.remove(key).unwrap_or_else(|| summary.clone());
            }
        }
        found
            .into_iter()
            .map(|(key, summary)| {
                let summary = summary.within_range(&key)?;
                Ok((key, summary))
            })
            .collect()
    }

    /// Reads entities of a list until `limit` of them are found. Each round reads only as many as are still
    /// needed, so more are read only in place of entities that have left the list. An entity that cannot be read is found.
    /// Also returns the last reference that was followed, if the list has more.
    async fn follow(
        &self,
        index: &Index,
        at: &Location,
        keys: Vec<Key>,
        limit: usize,
    ) -> Result<(Vec<Resolved>, Option<Key>)> {
        let (mut found, mut last, mut keys) = (Vec::new(), None, keys.into_iter());
        while found.len() < limit {
            let next: Vec<_> = keys.by_ref().take(limit - found.len()).collect();
            if next.is_empty() {
                break;
            }
            last = next.last().cloned();
            found.extend(self.follow_all(index, at, next).await?);
        }
        Ok((found, last.filter(|_| keys.len() > 0)))
    }

    /// Reads entities of a list, and keeps the ones that still belong to it.
    async fn follow_all(
        &self,
        index: &Index,
        at: &Location,
        keys: Vec<Key>,
    ) -> Result<Vec<Resolved>> {
        let reads =
            stream::iter(keys).map(|key| async move { self.follow_one(index, at, key).await });
        reads
            .buffered(self.lookups.rows.concurrency)
            .try_filter_map(|found| async move { Ok(found) })
            .try_collect()
            .await
    }

    /// Reads an entity of a list, if it still belongs to it.
    async fn follow_one(&self, index: &Index, at: &Location, key: Key) -> Result<Option<Resolved>> {
        let found = self.member(index, at, &key).await;
        of_one_entity(key, found)
    }

    async fn member(&self, index: &Index, at: &Location, key: &Key) -> Result<Option<Entity>> {
        let rows = self.lookups.rows;
        let Some(entity) = rows.entities().get(key).await? else {
            return Ok(None);
        };
        Ok(index
            .matches_origin(rows.table, &entity, at)?
            .then_some(entity))
    }

    /// Reads the references of a list.
    async fn read_references(&self, index: &Index, at: &Location) -> Result<Vec<Key>> {
        let members = self
            .lookups
            .rows
            .shared
            .members(at, &self.lookups.rows.entry_id(index))
            .await?;
        members.keys().ok_or_else(|| damaged(at))
    }

    /// The references of a list whose row was read.
    async fn references_in_row(
        &self,
        index: &Index,
        at: &Location,
        row: &Entity,
    ) -> Result<Vec<Key>> {
        match self.lookups.rows.shared.members_of(at, row).await? {
            Some(members) => members.keys().ok_or_else(|| damaged(at)),
            None => self.read_references(index, at).await,
        }
    }

    async fn list_index(&self, name: &str) -> Result<Readable> {
        let index = self.lookups.readable(name).await?;
        if index.shape().is_list() {
            return Ok(index);
        }
        let shape = index.shape();
        let reason =
            format!("the index '{name}' has the shape {shape}, not list: call `page` or `find`");
        Err(Error::misuse(reason))
    }

    async fn summary_index(&self, name: &str) -> Result<Readable> {
        let index = self.lookups.readable(name).await?;
        if matches!(index.shape(), Shape::Summary { .. }) {
            return Ok(index);
        }
        let shape = index.shape();
        let reason = format!(
            "the index '{name}' has the shape {shape}, not summary: call `page`, `find` or `list`"
        );
        Err(Error::misuse(reason))
    }
}

/// Refuses a key that no entity has in the index. Its summary would be zero, and the mistake would not be noticed.
fn check_fits(index: &Index, key: &Key) -> Result<()> {
    let definition = index.definition();
    let of_row = definition
        .row_key()
        .filter(|template| !template.fits(key.row()));
    let of_partition = definition
        .partition_key()
        .filter(|template| !template.fits(key.partition()));
    let Some(template) = of_row.or(of_partition) else {
        return Ok(());
    };
    Err(Error::invalid_argument(format!(
        "the index '{}' has no key such as {key}: its keys have the form `{template}`",
        index.name()
    )))
}

fn damaged(at: &Location) -> Error {
    Error::corrupt(format!(
        "the list {} has a reference that is not a valid key",
        at.key
    ))
}

/// Distinguishes a continuation within lists from a continuation of the store for the same rows: no query
/// selects this property.
const MARKER: &str = "~~within";
/// Separates the two keys of a reference in a continuation; no key contains it.
const SEPARATOR: char = '\u{1}';

/// The end of a page.
struct PageEnd {
    /// The RowKey of the list.
    list: String,
    /// The last reference that was followed; `None`: the whole list.
    after: Option<Key>,
}

impl PageEnd {
    fn to_position(&self) -> Position {
        let second = self
            .after
            .as_ref()
            .map(|key| format!("{}{SEPARATOR}{}", key.partition(), key.row()));
        Position {
            first: self.list.clone(),
            second,
        }
    }

    fn of_position(Position { first, second }: &Position) -> Option<Self> {
        let after = second.as_ref().map(|text| {
            let (partition, row) = text.split_once(SEPARATOR)?;
            Key::new(partition, row).ok()
        });
        match after {
            None => Some(Self {
                list: first.clone(),
                after: None,
            }),
            Some(after) => Some(Self {
                list: first.clone(),
                after: Some(after?),
            }),
        }
    }

    /// The lists that remain.
    fn rows(&self) -> Range {
        let list = self.list.clone();
        let from = if self.after.is_some() {
            Bound::Included(list)
        } else {
            Bound::Excluded(list)
        };
        Range {
            from,
            to: Bound::Unbounded,
        }
    }
}

/// Pages.
impl Lists<'_> {
    /// A page of at most `limit` entities of one list, with a list of the unreadable ones.
    pub(crate) async fn page_of_list(
        &self,
        index: &str,
        list: &Key,
        query: &IndexQuery,
        from: Option<&Continuation>,
        limit: usize,
    ) -> Result<ReadablePage> {
        let index = self.list_index(index).await?;
        let after = match from {
            None => None,
            // No page follows the whole list, or an invalid place.
            Some(from) => match PageEnd::of_position(self.within(&index, query, from)?)
                .and_then(|p| p.after)
            {
                None => return Ok(readable([], None)),
                after => after,
            },
        };
        let at = self.lookups.rows.location(&index, list);
        let keys = references_after(self.read_references(&index, &at).await?, after.as_ref());
        let (items, last) = self.follow(&index, &at, keys, limit).await?;
        let place = last.map(|key| PageEnd {
            list: list.row().to_owned(),
            after: Some(key),
        });
        let continuation = place.map(|place| self.continuation(&index, query, &place));
        Ok(readable(items, continuation))
    }

    /// A page of at most `limit` entities of several lists, with a list of the unreadable ones.
    pub(crate) async fn page_of_lists(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
        limit: usize,
    ) -> Result<ReadablePage> {
        let place =
            from.and_then(|from| PageEnd::of_position(self.within(index, query, from).ok()?));
        let ReadablePage {
            page,
            mut unreadable,
        } = match &place {
            None => self.lookups.read_rows(index, query, from).await?,
            Some(place) => self.rows_from(index, query, place).await?,
        };
        let on = |place: PageEnd| Some(self.continuation(index, query, &place));
        // Also if it is the row of a chunk, or cannot be read: the next page begins behind it.
        let last = page
            .items
            .last()
            .map(|row| row.key())
            .into_iter()
            .chain(unreadable.iter().map(|row| &row.key))
            .max();
        let last = last.map(|key| PageEnd {
            list: key.row().to_owned(),
            after: None,
        });
        // Chunks have the index's id, too. They are read through the list that names them.
        let rows = page.items.into_iter().filter(|row| !row.key().is_system());
        let (mut items, mut done, mut rows) =
            (Vec::new(), None::<RowKey>, rows.collect::<Vec<_>>());
        if limit == usize::MAX {
            items = self
                .follow_lists(index, std::mem::take(&mut rows), place.as_ref())
                .await?;
        }
        // With a limit one list after the other: nothing is read behind the limit. A page that ends early lists the unreadable rows up to
        // its end: the next page reads the rows from there again.
        for row in rows {
            if let Some(list) = done.filter(|_| items.len() >= limit) {
                unreadable.retain(|other| other.key.row_key() <= list);
                let place = PageEnd {
                    list: list.to_string(),
                    after: None,
                };
                return Ok(with_unreadable(readable(items, on(place)), unreadable));
            }
            let (at, list) = (
                self.lookups.rows.location(index, row.key()),
                row.key().row_key(),
            );
            let keys = self
                .references_from_place(index, &at, &row, place.as_ref())
                .await?;
            let (found, last) = self.follow(index, &at, keys, limit - items.len()).await?;
            items.extend(found);
            if let Some(key) = last {
                unreadable.retain(|other| other.key.row_key() <= list);
                let place = PageEnd {
                    list: list.to_string(),
                    after: Some(key),
                };
                return Ok(with_unreadable(readable(items, on(place)), unreadable));
            }
            done = Some(list);
        }
        // `rows_from` sent another query, so its continuation does not fit the caller's query.
        let continuation = match (place, page.continuation) {
            (None, continuation) => continuation,
            (Some(_), None) => None,
            (Some(_), Some(_)) => last.and_then(on),
        };
        Ok(with_unreadable(readable(items, continuation), unreadable))
    }

    /// The entities of several lists, in the order of the lists. The references of all lists are followed together.
    async fn follow_lists(
        &self,
        index: &Index,
        lists: Vec<Entity>,
        place: Option<&PageEnd>,
    ) -> Result<Vec<Resolved>> {
        let references = stream::iter(lists).map(|row| async move {
            let at = self.lookups.rows.location(index, row.key());
            let keys = self.references_from_place(index, &at, &row, place).await?;
            Ok::<_, Error>(
                keys.into_iter()
                    .map(|key| (at.clone(), key))
                    .collect::<Vec<_>>(),
            )
        });
        let references = references
            .buffered(self.lookups.rows.concurrency)
            .try_concat()
            .await?;
        let reads = stream::iter(references)
            .map(|(at, key)| async move { self.follow_one(index, &at, key).await })
            .buffered(self.lookups.rows.concurrency);
        reads
            .try_filter_map(|found| async move { Ok(found) })
            .try_collect()
            .await
    }

    /// The references of a list whose row was read, from a place on.
    async fn references_from_place(
        &self,
        index: &Index,
        at: &Location,
        row: &Entity,
        place: Option<&PageEnd>,
    ) -> Result<Vec<Key>> {
        let place = place.filter(|place| place.list == at.key.row());
        Ok(references_after(
            self.references_in_row(index, at, row).await?,
            place.and_then(|place| place.after.as_ref()),
        ))
    }

    /// The first page of the remaining lists that is not empty, or the last page.
    async fn rows_from(
        &self,
        index: &Index,
        query: &IndexQuery,
        place: &PageEnd,
    ) -> Result<ReadablePage> {
        let query = query.clone().rows(&place.rows());
        let (mut found, mut cycles) = (
            self.lookups.read_rows(index, &query, None).await?,
            CycleDetector::default(),
        );
        while found.page.items.is_empty() && found.unreadable.is_empty() {
            let Some(from) = found.page.continuation.take() else {
                break;
            };
            cycles.add(&from, 0)?;
            found = self.lookups.read_rows(index, &query, Some(&from)).await?;
        }
        Ok(found)
    }

    fn continuation(&self, index: &Index, query: &IndexQuery, place: &PageEnd) -> Continuation {
        let rows = self.lookups.rows;
        let (profile, table) = (rows.store.profile(), rows.table_of(index));
        Continuation::new(
            profile,
            table,
            &within(index, query, rows.table),
            place.to_position(),
        )
    }

    /// The place of a continuation within lists.
    fn within<'c>(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: &'c Continuation,
    ) -> Result<&'c Position> {
        let rows = self.lookups.rows;
        from.position(
            rows.store.profile(),
            rows.table_of(index),
            &within(index, query, rows.table),
        )
    }
}

fn within(index: &Index, query: &IndexQuery, table: &TableName) -> Query {
    query
        .to_query(index, table)
        .with_select(Select::new([MARKER]))
}

/// The references after a key; references are in the order of keys.
fn references_after(mut keys: Vec<Key>, after: Option<&Key>) -> Vec<Key> {
    if let Some(after) = after {
        keys.retain(|key| key > after);
    }
    keys
}
