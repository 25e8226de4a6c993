//! Pages of lists: a page may end within a list, and the next page continues there.

use std::ops::Bound;

use table_core::model::{Entity, Key};
use table_core::query::{Continuation, Page, Position, Query, Range, Select};
use table_core::store::Result;

use super::definition::Index;
use super::indexed::IndexedEntities;
use super::query::IndexQuery;

/// Distinguishes a continuation within lists from a continuation of the store for the same rows: no query
/// selects this property.
const MARKER: &str = "~~within";
/// Separates the two keys of a reference in a continuation; no key contains it.
const SEPARATOR: char = '\u{1}';

/// The end of a page.
struct Place {
    /// The RowKey of the list.
    list: String,
    /// The last reference that was followed; `None`: the whole list.
    after: Option<Key>,
}

impl Place {
    fn to_position(&self) -> Position {
        let second = self.after.as_ref().map(|key| format!("{}{SEPARATOR}{}", key.partition(), key.row()));
        Position { first: self.list.clone(), second }
    }

    fn of_position(Position { first, second }: &Position) -> Option<Self> {
        let after = second.as_ref().map(|text| {
            let (partition, row) = text.split_once(SEPARATOR)?;
            Key::new(partition, row).ok()
        });
        match after {
            None => Some(Self { list: first.clone(), after: None }),
            Some(after) => Some(Self { list: first.clone(), after: Some(after?) }),
        }
    }

    /// The lists that remain.
    fn rows(&self) -> Range {
        let list = self.list.clone();
        let from = if self.after.is_some() { Bound::Included(list) } else { Bound::Excluded(list) };
        Range { from, to: Bound::Unbounded }
    }
}

impl IndexedEntities {
    /// A page of at most `limit` entities of one list.
    pub(super) async fn page_of_list(
        &self,
        index: &str,
        list: &Key,
        query: &IndexQuery,
        from: Option<&Continuation>,
        limit: usize,
    ) -> Result<Page<Entity>> {
        let index = self.list_index(index).await?;
        let after = match from {
            None => None,
            // No page follows the whole list, or an invalid place.
            Some(from) => match Place::of_position(self.within(&index, query, from)?).and_then(|p| p.after) {
                None => return Ok(Page { items: Vec::new(), continuation: None }),
                after => after,
            },
        };
        let at = self.location(&index, list);
        let keys = references_after(self.keys_in(&index, &at).await?, after.as_ref());
        let (items, last) = self.follow(&index, &at, keys, limit).await?;
        let place = last.map(|key| Place { list: list.row().to_owned(), after: Some(key) });
        let continuation = place.map(|place| self.continuation(&index, query, &place));
        Ok(Page { items, continuation })
    }

    /// A page of at most `limit` entities of several lists.
    pub(super) async fn page_of_lists(
        &self,
        index: &Index,
        query: &IndexQuery,
        from: Option<&Continuation>,
        limit: usize,
    ) -> Result<Page<Entity>> {
        let place = from.and_then(|from| Place::of_position(self.within(index, query, from).ok()?));
        let page = match &place {
            None => self.read_rows(index, query, from).await?,
            Some(place) => self.rows_from(index, query, place).await?,
        };
        let mut items = Vec::new();
        let on = |place: Place| Some(self.continuation(index, query, &place));
        let last = page.items.last().map(|row| Place { list: row.key().row().to_owned(), after: None });
        let mut done: Option<String> = None;
        for row in page.items.into_iter().filter(|row| !row.key().is_system()) {
            if let Some(list) = done.filter(|_| items.len() >= limit) {
                return Ok(Page { items, continuation: on(Place { list, after: None }) });
            }
            let (at, list) = (self.location(index, row.key()), row.key().row().to_owned());
            let after = place.as_ref().filter(|place| place.list == list).and_then(|p| p.after.as_ref());
            let keys = references_after(self.keys_of(index, &at, &row).await?, after);
            let (found, last) = self.follow(index, &at, keys, limit - items.len()).await?;
            items.extend(found);
            if let Some(key) = last {
                return Ok(Page { items, continuation: on(Place { list, after: Some(key) }) });
            }
            done = Some(list);
        }
        // `rows_from` sent another query, so its continuation does not fit the caller's query.
        let continuation = match (place, page.continuation) {
            (None, continuation) => continuation,
            (Some(_), None) => None,
            (Some(_), Some(_)) => last.and_then(on),
        };
        Ok(Page { items, continuation })
    }

    /// The first page of the remaining lists that is not empty, or the last page.
    async fn rows_from(&self, index: &Index, query: &IndexQuery, place: &Place) -> Result<Page<Entity>> {
        let query = query.clone().rows(&place.rows());
        let mut page = self.read_rows(index, &query, None).await?;
        while let Some(from) = page.continuation.take_if(|_| page.items.is_empty()) {
            page = self.read_rows(index, &query, Some(&from)).await?;
        }
        Ok(page)
    }

    fn continuation(&self, index: &Index, query: &IndexQuery, place: &Place) -> Continuation {
        let (table, query) = (self.index_table(index), within(index, query));
        Continuation::new(self.store().profile(), &table, &query, place.to_position())
    }

    /// The place of a continuation within lists.
    fn within<'c>(&self, index: &Index, query: &IndexQuery, from: &'c Continuation) -> Result<&'c Position> {
        from.position(self.store().profile(), &self.index_table(index), &within(index, query))
    }
}

fn within(index: &Index, query: &IndexQuery) -> Query {
    query.to_query(index).with_select(Select::new([MARKER]))
}

/// The references after a key; references are in the order of keys.
fn references_after(mut keys: Vec<Key>, after: Option<&Key>) -> Vec<Key> {
    if let Some(after) = after {
        keys.retain(|key| key > after);
    }
    keys
}
