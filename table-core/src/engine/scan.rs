use std::ops::Bound;

use super::{Record, RecordRef};
use crate::model::{Entity, Key, TableName, key_order};
use crate::query::{Continuation, Filter, KeyBounds, Page, Position, Query, Select};
use crate::store::{Error, ErrorKind, Result, ServiceProfile};

/// Rows looked at for one page, at most: a filter that matches little answers a short page with a
/// continuation rather than hold the store for long, as the service does after 5 seconds.
const MAX_VISITED: usize = 10_000;

/// One page of a query over ordered rows: tells which rows to visit, takes them, makes the page.
#[derive(Debug)]
pub struct Scan<'a> {
    table: &'a TableName,
    query: &'a Query,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    limit: usize,
    visited: usize,
    items: Vec<Entity>,
    next: Option<Key>,
}

/// A range of keys as sortable bytes.
pub type SortableRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// What a [`Scan`] wants after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// The next row.
    Continue,
    /// No more: the page is full.
    Done,
}

impl<'a> Scan<'a> {
    /// A page of `query`, from the start or from a continuation.
    ///
    /// # Errors
    /// The continuation belongs to another query or is not a local one.
    pub fn new(
        profile: &ServiceProfile,
        table: &'a TableName,
        query: &'a Query,
        from: Option<&Continuation>,
    ) -> Result<Self> {
        let bounds = query.bounds();
        let start = match from {
            None => lower(&bounds),
            Some(c) => {
                let Position { first, second } = c.position(table, query)?;
                let second = second.as_deref().unwrap_or_default();
                let key = Key::new(first, second).map_err(|e| {
                    Error::new(ErrorKind::InvalidContinuation("it holds no key".to_owned())).with_source(e)
                })?;
                Bound::Included(key.to_sortable())
            }
        };
        let limit = query.top.unwrap_or(profile.page_size).min(profile.page_size);
        let to = upper(&bounds);
        Ok(Self { table, query, from: start, to, limit, visited: 0, items: Vec::new(), next: None })
    }

    /// The sortable keys to visit, in order; `None` if there can be none.
    pub fn range(&self) -> Option<SortableRange<'_>> {
        let (from, to) = (as_slice(&self.from), as_slice(&self.to));
        let empty = match (from, to) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
            _ => false,
        };
        (!empty).then_some((from, to))
    }

    /// Takes a row by its stored bytes.
    ///
    /// # Errors
    /// The row's header is damaged.
    pub fn offer(&mut self, key: &[u8], record: &[u8]) -> Result<ScanStep> {
        let key = Key::from_sortable(key).ok_or_else(|| Error::corrupt("a stored key is damaged"))?;
        if self.items.len() == self.limit || self.visited == MAX_VISITED {
            self.next = Some(key);
            return Ok(ScanStep::Done);
        }
        self.visited += 1;
        let record = RecordRef::parse(record)?.to_record();
        if matches(self.query.filter.as_ref(), &key, &record) {
            self.items.push(project(record, self.query.select.as_ref()).into_entity(key));
        }
        Ok(ScanStep::Continue)
    }

    /// The page.
    pub fn finish(self) -> Page<Entity> {
        let position =
            |key: Key| Position { first: key.partition().to_owned(), second: Some(key.row().to_owned()) };
        let continuation = self.next.map(|key| Continuation::new(self.table, self.query, position(key)));
        Page { items: self.items, continuation }
    }
}

/// The entity of a stored row, with the selected properties only.
///
/// # Errors
/// The row's header is damaged.
pub fn read_entity(key: Key, record: &[u8], select: Option<&Select>) -> Result<Entity> {
    Ok(project(RecordRef::parse(record)?.to_record(), select).into_entity(key))
}

fn project(mut record: Record, select: Option<&Select>) -> Record {
    if let Some(select) = select {
        record.properties.retain(|property| select.contains(property.name()));
    }
    record
}

fn matches(filter: Option<&Filter>, key: &Key, record: &Record) -> bool {
    filter.is_none_or(|f| f.matches_parts(key, Some(record.stamp.time), &record.properties))
}

/// The smallest key within the bounds.
fn lower(bounds: &KeyBounds) -> Bound<Vec<u8>> {
    match (&bounds.partition.from, bounds.partition.as_single()) {
        (_, Some(partition)) => match &bounds.row.from {
            Bound::Unbounded => Bound::Included(key_order::sortable_key(partition, "")),
            Bound::Included(row) => Bound::Included(key_order::sortable_key(partition, row)),
            Bound::Excluded(row) => Bound::Excluded(key_order::sortable_key(partition, row)),
        },
        (Bound::Unbounded, None) => Bound::Unbounded,
        (Bound::Included(partition), None) => Bound::Included(edge(partition, 0)),
        (Bound::Excluded(partition), None) => Bound::Included(edge(partition, 1)),
    }
}

/// The end of the keys within the bounds.
fn upper(bounds: &KeyBounds) -> Bound<Vec<u8>> {
    match (&bounds.partition.to, bounds.partition.as_single()) {
        (_, Some(partition)) => match &bounds.row.to {
            Bound::Unbounded => Bound::Excluded(edge(partition, 1)),
            Bound::Included(row) => Bound::Included(key_order::sortable_key(partition, row)),
            Bound::Excluded(row) => Bound::Excluded(key_order::sortable_key(partition, row)),
        },
        (Bound::Unbounded, None) => Bound::Unbounded,
        (Bound::Included(partition), None) => Bound::Excluded(edge(partition, 1)),
        (Bound::Excluded(partition), None) => Bound::Excluded(edge(partition, 0)),
    }
}

/// Before (0) or after (1) every key of a partition: keys separate the partition by a zero byte,
/// which bounds therefore never hold.
fn edge(partition: &str, side: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(partition.len() + 1);
    key_order::push_sortable(&mut out, partition);
    out.push(side);
    out
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

#[cfg(test)]
mod tests;
