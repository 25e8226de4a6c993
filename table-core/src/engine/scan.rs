use std::ops::Bound;
use std::sync::Arc;

use super::page_rows::{PageRows, PendingKey};
use super::{RecordRef, Stamp};
use crate::error::{Error, Result};
use crate::limits;
use crate::model::{Entity, Key, PackBuffer, PropertyDictionary, TableName, key_order};
use crate::profile::ServiceProfile;
use crate::query::{
    Continuation, Filter, KeyBounds, Page, Position, Query, Range, ResidualFilter, RowRef, Select,
};

/// Maximum number of rows visited for one page. A filter with few matches gets a short page with a
/// continuation token, so that it does not occupy the store for long. (The service stops after 5 seconds:
/// <https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination>.)
const MAX_VISITED: usize = 10_000;
/// Maximum bytes of visited rows, as `MAX_VISITED`: one row can be as large as a thousand others.
const MAX_VISITED_BYTES: usize = 16 * limits::PAGE_BYTES;

/// Builds one page of a query over ordered rows: selects the rows to visit, receives them and builds the
/// page.
#[derive(Debug)]
pub struct Scan<'a> {
    profile: &'a ServiceProfile,
    table: &'a TableName,
    query: &'a Query,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    /// The part of the filter that the key range does not imply.
    filter: Option<Filter>,
    /// Maximum number of rows of the page.
    limit: usize,
    /// Number and bytes of the rows that were visited, whether they matched or not.
    visited: usize,
    visited_bytes: usize,
    /// The rows that matched.
    rows: PageRows,
    /// The first row of the next page.
    next: Option<Key>,
    /// Buffer for one row at a time, if the query needs its properties.
    unpacked: PackBuffer,
}

/// A range of keys as sortable bytes.
pub type SortableRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// How to continue after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// Visit the next row.
    Continue,
    /// Stop; the page is full.
    Done,
}

impl<'a> Scan<'a> {
    /// Starts a page of `query`, from the start or from a continuation token.
    ///
    /// # Errors
    /// Fails if the continuation token belongs to another query or is not one of a local store.
    pub fn new(
        profile: &'a ServiceProfile,
        table: &'a TableName,
        query: &'a Query,
        from: Option<&Continuation>,
    ) -> Result<Self> {
        let bounds = query.bounds();
        let (mut start, mut end) = (lower(&bounds), upper(&bounds));
        if let Some(from) = from {
            start = later(start, position(from, profile, table, query)?);
        }
        let filter = match query
            .filter
            .as_ref()
            .map(|filter| filter.residual(&bounds_of_visited(&bounds)))
        {
            None | Some(ResidualFilter::Always) => None,
            Some(ResidualFilter::When(filter)) => Some(filter),
            // An empty range, not an error: a filter that no row can match is a valid query with an empty result.
            Some(ResidualFilter::Never) => {
                (start, end) = (Bound::Included(Vec::new()), Bound::Excluded(Vec::new()));
                None
            }
        };
        let limit = query
            .top
            .unwrap_or(profile.page_size)
            .min(profile.page_size);
        Ok(Self {
            profile,
            table,
            query,
            from: start,
            to: end,
            filter,
            limit,
            visited: 0,
            visited_bytes: 0,
            rows: PageRows::new(limit),
            next: None,
            unpacked: PackBuffer::default(),
        })
    }

    /// Returns the range of sortable keys to visit, in order; `None` if it is empty.
    pub fn range(&self) -> Option<SortableRange<'_>> {
        let (from, to) = (as_slice(&self.from), as_slice(&self.to));
        // `BTreeMap::range` panics if the start of a range is after its end.
        let empty = match (from, to) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
                a >= b
            }
            _ => false,
        };
        (!empty).then_some((from, to))
    }

    /// Receives a row as stored bytes. A row that does not match is not copied.
    ///
    /// # Errors
    /// Fails if the key or the row's header is damaged.
    pub fn offer(&mut self, key: &[u8], record: &[u8]) -> Result<ScanStep> {
        let bytes = key.len() + record.len();
        if self.is_full(bytes) {
            return self.stop_before(key);
        }
        let (key, record) = (self.visit(key, bytes)?, RecordRef::parse(record)?);
        if self.matches(key, record) {
            self.rows.push(key, record, self.query.select.as_ref());
        } else {
            self.rows.remove_key(key);
        }
        Ok(ScanStep::Continue)
    }

    /// Like [`offer`](Self::offer), for numbered rows, which must all use the same version of the dictionary.
    /// Properties that the query does not need stay numbered until they are accessed.
    ///
    /// # Errors
    /// Fails if the key or the row is damaged.
    pub fn offer_numbered(
        &mut self,
        key: &[u8],
        record: &[u8],
        dictionary: &Arc<PropertyDictionary>,
    ) -> Result<ScanStep> {
        let row = RecordRef::parse(record)?;
        let packed = dictionary
            .unpacked_len(row.packed())
            .ok_or_else(|| damaged_row(key))?;
        let bytes = key.len() + record.len() - row.packed().len() + packed;
        if self.is_full(bytes) {
            return self.stop_before(key);
        }
        if self.query.select.is_none() && self.filter.is_none() {
            let key = self.visit(key, bytes)?;
            self.rows.push_numbered(key, row, dictionary, packed);
            return Ok(ScanStep::Continue);
        }
        self.offer_unpacked(key, row, dictionary, packed)
    }

    fn offer_unpacked(
        &mut self,
        key: &[u8],
        row: RecordRef<'_>,
        dictionary: &Arc<PropertyDictionary>,
        packed: usize,
    ) -> Result<ScanStep> {
        // Taken out, because `self.rows` is changed while `record` borrows the buffer. It returns with its capacity.
        let mut unpacked = std::mem::take(&mut self.unpacked);
        unpacked.clear();
        dictionary
            .unpack(row.packed(), &mut unpacked)
            .ok_or_else(|| damaged_row(key))?;
        let bytes = key.len() + Stamp::BYTES + packed;
        let (key, record) = (
            self.visit(key, bytes)?,
            row.with_packed(unpacked.as_bytes()),
        );
        match self.query.select.as_ref() {
            _ if !self.matches(key, record) => self.rows.remove_key(key),
            // Only the filter needed the names: the row goes on numbered.
            None => self.rows.push_numbered(key, row, dictionary, packed),
            select => self.rows.push(key, record, select),
        }
        self.unpacked = unpacked;
        Ok(ScanStep::Continue)
    }

    fn stop_before(&mut self, key: &[u8]) -> Result<ScanStep> {
        // The token names the first row of the next page, as the service's `NextRowKey` does. A row that is deleted in between
        // changes nothing: the page starts at the next one.
        self.next = Some(Key::from_sortable(key).ok_or_else(damaged_key)?);
        Ok(ScanStep::Done)
    }

    #[inline]
    fn visit(&mut self, key: &[u8], bytes: usize) -> Result<PendingKey> {
        self.visited += 1;
        self.visited_bytes += bytes;
        self.rows.push_key(key).ok_or_else(damaged_key)
    }

    #[inline]
    fn matches(&self, key: PendingKey, record: RecordRef<'_>) -> bool {
        let Some(filter) = &self.filter else {
            return true;
        };
        let Some((partition, row)) = self.rows.texts(key) else {
            return false;
        };
        let (timestamp, packed) = (Some(record.stamp.time), record.packed());
        filter.holds(&RowRef {
            partition,
            row,
            timestamp,
            packed,
        })
    }

    /// Whether a row of this many bytes belongs to the next page. A page holds at least one row.
    const fn is_full(&self, bytes: usize) -> bool {
        // A single row may exceed both limits of bytes, and is a page of its own then. A page that visits no row
        // would return the continuation token that it received, and the query would never end.
        let (rows, taken) = (self.rows.len(), self.rows.bytes());
        rows == self.limit
            || self.visited == MAX_VISITED
            || self.visited > 0 && self.visited_bytes + bytes > MAX_VISITED_BYTES
            || rows > 0 && taken + bytes > limits::PAGE_BYTES
    }

    /// Returns the page.
    pub fn finish(self) -> Page<Entity> {
        let position = |key: Key| Position {
            first: key.partition().to_owned(),
            second: Some(key.row().to_owned()),
        };
        let continuation = self
            .next
            .map(|key| Continuation::new(self.profile, self.table, self.query, position(key)));
        Page {
            items: self.rows.into_entities(),
            continuation,
        }
    }
}

/// Returns the entity of a stored row, with the selected properties.
///
/// # Errors
/// Fails if the row's header is damaged.
pub fn read_entity(key: Key, record: &[u8], select: Option<&Select>) -> Result<Entity> {
    let mut record = RecordRef::parse(record)?.to_record();
    if let Some(select) = select {
        record
            .properties
            .retain(|property| select.contains(property.name()));
    }
    Ok(record.into_entity(key))
}

fn damaged_key() -> Error {
    Error::corrupt("a stored key is damaged")
}

#[cold]
fn damaged_row(key: &[u8]) -> Error {
    Key::from_sortable(key).map_or_else(damaged_key, |key| {
        Error::corrupt(format!(
            "the properties of the stored row {key} are damaged"
        ))
    })
}

/// Returns the start of a page that continues a query.
fn position(
    from: &Continuation,
    profile: &ServiceProfile,
    table: &TableName,
    query: &Query,
) -> Result<Vec<u8>> {
    let Position { first, second } = from.position(profile, table, query)?;
    let key = Key::new(first, second.as_deref().unwrap_or_default())
        .map_err(|e| Error::invalid_continuation("it contains no key").with_source(e))?;
    Ok(key.to_sortable())
}

/// Returns the later of two starts, so that a forged continuation token reaches no row outside the bounds.
fn later(lower: Bound<Vec<u8>>, position: Vec<u8>) -> Bound<Vec<u8>> {
    match lower {
        Bound::Included(from) | Bound::Excluded(from) if position < from => Bound::Included(from),
        // A token of this query never names the excluded key, a forged one can.
        Bound::Excluded(from) if position == from => Bound::Excluded(from),
        _ => Bound::Included(position),
    }
}

/// Returns bounds that hold for every key between [`lower`] and [`upper`]. Bounds of the RowKey hold in a
/// single partition only.
fn bounds_of_visited(bounds: &KeyBounds) -> KeyBounds {
    match bounds.partition.as_single() {
        // Over several partitions: ('a', 'z') is between ('a', 'b') and ('c', 'd'), so the bounds of the RowKey do
        // not hold for it.
        Some(_) => bounds.clone(),
        None => KeyBounds {
            row: Range::ALL,
            ..bounds.clone()
        },
    }
}

/// Returns the smallest key within the bounds.
fn lower(bounds: &KeyBounds) -> Bound<Vec<u8>> {
    match (&bounds.partition.from, bounds.partition.as_single()) {
        (_, Some(partition)) => match bounds.row.from.as_ref() {
            Bound::Unbounded => Bound::Included(key_order::sortable_key(partition, "")),
            bound => bound.map(|row| key_order::sortable_key(partition, row)),
        },
        (Bound::Unbounded, None) => Bound::Unbounded,
        (Bound::Included(partition), None) => Bound::Included(edge(partition, 0)),
        (Bound::Excluded(partition), None) => Bound::Included(edge(partition, 1)),
    }
}

/// Returns the end of the keys within the bounds.
fn upper(bounds: &KeyBounds) -> Bound<Vec<u8>> {
    match (&bounds.partition.to, bounds.partition.as_single()) {
        (_, Some(partition)) => match bounds.row.to.as_ref() {
            Bound::Unbounded => Bound::Excluded(edge(partition, 1)),
            bound => bound.map(|row| key_order::sortable_key(partition, row)),
        },
        (Bound::Unbounded, None) => Bound::Unbounded,
        (Bound::Included(partition), None) => Bound::Excluded(edge(partition, 1)),
        (Bound::Excluded(partition), None) => Bound::Excluded(edge(partition, 0)),
    }
}

/// Returns the position before (`side` 0) or after (`side` 1) all keys of a partition. In stored keys a zero byte separates the
/// PartitionKey from the RowKey. The PartitionKey of a bound has no zero byte (`Range::of_text`), so no other partition is in
/// between.
fn edge(partition: &str, side: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(partition.len() + 1);
    key_order::push_sortable(&mut out, partition);
    out.push(side);
    out
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Builds a page of a listing of tables from `(identity, name)` pairs in the order of identities. `names` begins at the
/// position of the continuation token.
///
/// The prefix is compared with the identity: without case if the profile ignores case.
pub fn list_page<'a>(
    profile: &ServiceProfile,
    prefix: Option<&str>,
    names: impl Iterator<Item = (&'a str, &'a TableName)>,
) -> Page<TableName> {
    let wanted = prefix.unwrap_or_default();
    let wanted = if profile.case_sensitive_tables {
        wanted.to_owned()
    } else {
        wanted.to_ascii_lowercase()
    };
    // The identities are sorted, so the names with the prefix follow each other.
    let mut matching = names
        .skip_while(|(id, _)| *id < wanted.as_str())
        .take_while(|(id, _)| id.starts_with(&wanted));
    let items = matching
        .by_ref()
        .take(profile.page_size)
        .map(|(_, name)| name.clone())
        .collect();
    let position = |id: &str| Position {
        first: id.to_owned(),
        second: None,
    };
    let continuation = matching
        .next()
        .map(|(id, _)| Continuation::of_tables(prefix, position(id)));
    Page {
        items,
        continuation,
    }
}

#[cfg(test)]
mod tests;
