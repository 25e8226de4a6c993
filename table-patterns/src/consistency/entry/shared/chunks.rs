//! Long lists: the list's row names chunks. A chunk has the references from its first reference up to the first
//! of the next chunk.
//!
//! Invariant: a chunk's row changes only while the chunk's range stays the same. A chunk that is split, emptied
//! or merged back is deleted. So every read or write that assumed the old range fails at the chunk's ETag.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::model::{Entity, IfMatch, Key, SYSTEM_PREFIX, ValueRef};
use table_core::store::{Operation, Result};
use uuid::Uuid;

use super::list::{List, chunk_row, read_members};
use super::members::{MemberChange, Members, number, push_number};
use super::{Prepared, SharedRows, check_unchanged};
use crate::entry::Location;

/// The property with the RowKey of the list that a chunk belongs to.
pub(crate) const OF: &str = "ListOf";
const FORMAT: u8 = 1;
/// Chunks that are read in parallel.
const IN_PARALLEL: usize = 16;

/// The chunks of a list, by their first reference.
///
/// Format 1: the byte 1; then for each chunk its id in 16 bytes, the length of its first reference (LEB128),
/// and the first reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory(BTreeMap<Vec<u8>, Uuid>);

impl Directory {
    pub(crate) fn ids(&self) -> Vec<Uuid> {
        self.0.values().copied().collect()
    }

    /// Whether the directory names a chunk.
    pub(crate) fn names(&self, chunk: &Key) -> bool {
        self.0.values().any(|id| row_key(*id) == chunk.row())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        for (first, id) in &self.0 {
            out.extend_from_slice(id.as_bytes());
            push_number(&mut out, first.len());
            out.extend_from_slice(first);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (format, mut rest) = bytes.split_first()?;
        let mut all = BTreeMap::new();
        while *format == FORMAT && !rest.is_empty() {
            let (id, after) = rest.split_at_checked(16)?;
            rest = after;
            let length = number(&mut rest)?;
            let (first, after) = rest.split_at_checked(length)?;
            all.insert(first.to_vec(), Uuid::from_slice(id).ok()?);
            rest = after;
        }
        // A list without references has no row, so an empty directory is damage.
        (*format == FORMAT && !all.is_empty()).then_some(Self(all))
    }

    /// The first reference of the chunk whose range includes `member`; the first chunk also covers everything
    /// below.
    fn place(&self, member: &[u8]) -> Option<&Vec<u8>> {
        let up_to = self.0.range::<[u8], _>((
            std::ops::Bound::Unbounded,
            std::ops::Bound::Included(member),
        ));
        up_to
            .last()
            .or_else(|| self.0.first_key_value())
            .map(|(first, _)| first)
    }

    /// The changes, divided by chunk.
    fn divide(&self, change: &MemberChange) -> BTreeMap<Vec<u8>, MemberChange> {
        let mut parts: BTreeMap<Vec<u8>, MemberChange> = BTreeMap::new();
        let mut add = |members: &BTreeSet<Vec<u8>>,
                       to: fn(&mut MemberChange) -> &mut BTreeSet<Vec<u8>>| {
            for member in members {
                if let Some(first) = self.place(member) {
                    to(parts.entry(first.clone()).or_default()).insert(member.clone());
                }
            }
        };
        add(&change.add, |part| &mut part.add);
        add(&change.remove, |part| &mut part.remove);
        parts
    }
}

/// Prepares a change of a list in chunks; `None` if the list was reorganized during the read.
pub(crate) async fn prepare(
    list: &List<'_>,
    list_etag: IfMatch,
    directory: Directory,
    change: &MemberChange,
) -> Result<Option<Prepared>> {
    // All operations are one group with the list's row: the directory and the chunks that it names change together.
    let mut after = directory.clone();
    let (mut operations, mut unchanged) = (Vec::new(), Vec::new());
    let parts = directory.divide(change);
    let chunks = read_all(
        list.rows,
        list.at,
        parts.keys().map(|first| directory.0[first]).collect(),
    )
    .await?;
    for ((first, part), chunk) in parts.iter().zip(chunks) {
        // The chunk was split, emptied or folded since the directory was read.
        let Some((row, members)) = chunk else {
            return Ok(None);
        };
        let changes = change_chunk(list, &mut after, first, &row, members, part)?;
        if changes.is_empty() {
            unchanged.push(check_unchanged(row.key(), row.version()?));
        }
        operations.extend(changes);
    }
    if after.0.len() == 1
        && after != directory
        && let Some(folded) = fold(list, &list_etag, &after, &mut operations).await?
    {
        operations.push(folded);
    } else if after.0.is_empty() {
        operations.push(Operation::Delete(list.at.key.clone(), list_etag));
    } else if after != directory {
        operations.push(Operation::Replace(list.directory(&after), list_etag));
    }
    // A group may have one operation on a row. A chunk that is folded back is deleted under the ETag that its check would have.
    unchanged.retain(|check| {
        operations
            .iter()
            .all(|operation| operation.key() != check.key())
    });
    Ok(Some(Prepared {
        operations,
        unchanged,
        ..Prepared::default()
    }))
}

fn change_chunk(
    list: &List<'_>,
    directory: &mut Directory,
    first: &Vec<u8>,
    row: &Entity,
    mut members: Members,
    change: &MemberChange,
) -> Result<Vec<Operation>> {
    if !members.apply(change) {
        return Ok(Vec::new());
    }
    let fits = members.encode().len() <= list.layout.bytes;
    if fits && !members.is_empty() {
        let row_now = chunk_row(row.key().clone(), list.index, list.at.key.row(), &members);
        return Ok(vec![Operation::Replace(row_now, row.version()?)]);
    }
    // The range of the chunk changes, so its row goes and new ids take its place. A reader with the old directory finds the row missing and
    // reads the directory again; with the same id it would take a part of the range for the whole.
    directory.0.remove(first);
    let mut operations = vec![Operation::Delete(row.key().clone(), row.version()?)];
    if !members.is_empty() {
        operations.extend(insert(list, directory, members)?);
    }
    Ok(operations)
}

/// Adds chunks with these references.
pub(crate) fn insert(
    list: &List<'_>,
    directory: &mut Directory,
    members: Members,
) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    for piece in members.split(list.layout.bytes) {
        let id = Uuid::new_v4();
        let row = chunk_row(key(list.at, id)?, list.index, list.at.key.row(), &piece);
        directory
            .0
            .insert(piece.first().unwrap_or_default().to_vec(), id);
        operations.push(Operation::Insert(row));
    }
    Ok(operations)
}

/// Moves the references of the only remaining chunk back into the list's row. `None` if the chunk was deleted:
/// another writer changed the list.
async fn fold(
    list: &List<'_>,
    list_etag: &IfMatch,
    directory: &Directory,
    operations: &mut Vec<Operation>,
) -> Result<Option<Operation>> {
    let Some(id) = directory.0.values().next() else {
        return Ok(None);
    };
    let at = key(list.at, *id)?;
    // The change may have written the chunk already: then its new references are in the operation, and not yet in the store.
    let written = operations
        .iter()
        .position(|operation| *operation.key() == at);
    let members = match written.map(|n| (n, &operations[n])) {
        Some((n, Operation::Replace(row, etag))) => {
            let (members, etag) = (read_members(row)?, etag.clone());
            operations[n] = Operation::Delete(at, etag);
            members
        }
        // The chunk is new from a split: it stays.
        Some(_) => return Ok(None),
        None => {
            let Some((row, members)) = read(list.rows, list.at, *id).await? else {
                return Ok(None);
            };
            operations.push(Operation::Delete(at, row.version()?));
            members
        }
    };
    Ok(Some(Operation::Replace(
        list.leaf(&members),
        list_etag.clone(),
    )))
}

/// A chunk's row, and its references.
type Chunk = (Entity, Members);

/// Reads chunks in parallel.
///
/// Boxed: the compiler cannot see that futures of a closure are `Send` for every lifetime.
pub(crate) fn read_all<'a>(
    rows: SharedRows<'a>,
    at: &'a Location,
    ids: Vec<Uuid>,
) -> BoxFuture<'a, Result<Vec<Option<Chunk>>>> {
    let reads = stream::iter(ids).map(move |id| read(rows, at, id));
    Box::pin(reads.buffered(IN_PARALLEL).try_collect())
}

/// A chunk; `None` if it was deleted.
async fn read(rows: SharedRows<'_>, at: &Location, id: Uuid) -> Result<Option<Chunk>> {
    let Some(row) = rows.store.get(&at.table, &key(at, id)?, None).await? else {
        return Ok(None);
    };
    let members = read_members(&row)?;
    Ok(Some((row, members)))
}

fn key(at: &Location, id: Uuid) -> Result<Key> {
    Key::new(at.key.partition(), row_key(id))
}

fn row_key(id: Uuid) -> String {
    format!("{SYSTEM_PREFIX}l_{}", id.simple())
}

/// Whether a row is a chunk.
pub(crate) fn is_chunk(row: &Entity) -> bool {
    list_of(row).is_some()
}

/// The RowKey of the list that a chunk belongs to.
pub(crate) fn list_of(row: &Entity) -> Option<&str> {
    match row.get(OF) {
        Some(ValueRef::String(row)) => Some(row),
        _ => None,
    }
}
