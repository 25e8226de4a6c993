//! A list of references: in its row, in chunks that the row names, or in a blob that the row names.

use std::collections::BTreeSet;

use futures_util::TryStreamExt as _;
use table_core::manifest::index_name;
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::query::{Filter, Query, Select};
use table_core::store::{Error, Operation, Result, TableStoreExt as _};

use super::chunks::{self, Directory};
use super::members::{MemberChange, Members};
use super::{Merge, Prepared, SharedRows, put};
use crate::entry::row_properties::{LIST_BLOB, LIST_CHUNKS, LIST_MEMBERS, is_list};
use crate::entry::{Entry, Location, Overflow, Shape};
use crate::rows::{get_bytes, set_bytes};

/// A row of a list.
#[derive(Debug)]
pub(crate) enum ListRow {
    /// The references.
    Members(Members),
    /// The chunks with the references.
    Chunks(Directory),
    /// The name of the blob with the references.
    Blob(String),
}

impl ListRow {
    /// Reads a row.
    ///
    /// # Errors
    /// The row is not a list, has another format, or is damaged.
    pub(crate) fn read(row: &Entity) -> Result<Self> {
        if let Some(ValueRef::String(name)) = row.get(LIST_BLOB) {
            return Ok(Self::Blob(name.to_owned()));
        }
        let chunks = get_bytes(row, LIST_CHUNKS);
        if !chunks.is_empty() {
            return Directory::decode(&chunks)
                .map(Self::Chunks)
                .ok_or_else(|| unread(row, &chunks));
        }
        read_members(row).map(Self::Members)
    }
}

/// The references in a row, of a list or of a chunk.
pub(crate) fn read_members(row: &Entity) -> Result<Members> {
    let bytes = get_bytes(row, LIST_MEMBERS);
    Members::decode(&bytes).ok_or_else(|| unread(row, &bytes))
}

fn unread(row: &Entity, bytes: &[u8]) -> Error {
    let damaged = || {
        Error::decode(
            "list of references",
            row.key(),
            LIST_MEMBERS,
            "references in format 1",
            "something else",
        )
    };
    other_format(&format!("the list {}", row.key()), bytes).unwrap_or_else(damaged)
}

/// The error for a list in the format of another version; such a list is not damaged.
fn other_format(list: &str, bytes: &[u8]) -> Option<Error> {
    let format = Members::other_format(bytes)?;
    let what =
        format!("{list} in format {format}: use the version that wrote it, or rebuild the index");
    Some(Error::unsupported("this version of the library", what))
}

/// Prepares a change of a list; `None` if the list was reorganized during the read.
pub(crate) async fn prepare(rows: SharedRows<'_>, merge: &Merge) -> Result<Option<Prepared>> {
    let list = List {
        rows,
        at: &merge.at,
        index: &merge.index,
        layout: Layout::of(&merge.shape),
    };
    let change = MemberChange {
        add: merge
            .put
            .iter()
            .map(|entry| entry.owner.to_sortable())
            .collect(),
        remove: merge.gone.iter().map(Key::to_sortable).collect(),
    };
    let row = match rows.row(&merge.at, &merge.index).await {
        // The row of another index, or a row of this index in another shape: it has no list entry to remove.
        Ok(Some(row)) if change.add.is_empty() && !is_list(&row) => {
            return Ok(Some(Prepared::default()));
        }
        Err(error) if change.add.is_empty() && error.is_key_collision() => {
            return Ok(Some(Prepared::default()));
        }
        row => row?,
    };
    let Some(row) = row else {
        return list
            .write(None, Members::default(), &change, None)
            .await
            .map(Some);
    };
    // `SharedInVersion`: whatever the list becomes, its row is written under the ETag of this read, so the change starts again if another
    // writer has changed the list or moved it to another place since.
    let etag = row.version()?;
    match ListRow::read(&row)? {
        ListRow::Members(members) => list
            .write(Some(etag), members, &change, None)
            .await
            .map(Some),
        ListRow::Blob(name) => match rows.blob_members(&name).await? {
            Some(members) => list
                .write(Some(etag), members, &change, Some(name))
                .await
                .map(Some),
            None => rows
                .reorganized(&merge.at, &merge.index, &row)
                .await
                .map(|()| None),
        },
        ListRow::Chunks(directory) => match chunks::prepare(&list, etag, directory, &change).await?
        {
            None => rows
                .reorganized(&merge.at, &merge.index, &row)
                .await
                .map(|()| None),
            prepared => Ok(prepared),
        },
    }
}

/// A list and its layout.
#[derive(Debug)]
pub(crate) struct List<'a> {
    pub(crate) rows: SharedRows<'a>,
    pub(crate) at: &'a Location,
    pub(crate) index: &'a str,
    pub(crate) layout: Layout,
}

impl List<'_> {
    /// Writes a list that was read whole: from its row, or from the blob `before`.
    async fn write(
        &self,
        etag: Option<IfMatch>,
        mut members: Members,
        change: &MemberChange,
        before: Option<String>,
    ) -> Result<Prepared> {
        if !members.apply(change) {
            return Ok(Prepared::nothing(&self.at.key, etag));
        }
        // A list returns from a blob at half of the limit, so that a list at the limit does not change its place with every write.
        let room = if before.is_some() {
            self.layout.bytes / 2
        } else {
            self.layout.bytes
        };
        let mut prepared = match (members.is_empty(), etag) {
            (true, None) => Prepared::default(),
            (true, Some(etag)) => Prepared::one(Operation::Delete(self.at.key.clone(), etag)),
            (false, etag) => self.place(etag, members, room).await?,
        };
        // `RowBeforeBlob`: deleted only after the row names the new place. In the other order a crash would
        // leave a list without its references.
        prepared.old_blobs.extend(before);
        Ok(prepared)
    }

    async fn place(
        &self,
        etag: Option<IfMatch>,
        members: Members,
        room: usize,
    ) -> Result<Prepared> {
        let bytes = members.encode();
        if bytes.len() <= room {
            return Ok(Prepared::one(put(
                self.list_row(LIST_MEMBERS, &bytes),
                etag,
            )));
        }
        match self.layout.overflow {
            Overflow::Blob => {
                // The blob before the row that names it. If the row is not written, the sender of the group
                // deletes the blob.
                let name = self.rows.blobs()?.put(self.index, bytes).await?;
                let row = Entity::from(self.at.key.clone()).with(Entry::INDEX, self.index);
                let prepared = Prepared::one(put(row.with(LIST_BLOB, name.as_str()), etag));
                Ok(Prepared {
                    new_blobs: vec![name],
                    ..prepared
                })
            }
            Overflow::Entities => {
                let mut directory = Directory::default();
                let mut operations = chunks::insert(self, &mut directory, members)?;
                operations.push(put(self.list_row(LIST_CHUNKS, &directory.encode()), etag));
                Ok(Prepared {
                    operations,
                    ..Prepared::default()
                })
            }
        }
    }

    /// The list's row with the references.
    pub(crate) fn leaf(&self, members: &Members) -> Entity {
        self.list_row(LIST_MEMBERS, &members.encode())
    }

    /// The list's row with the names of its chunks.
    pub(crate) fn directory(&self, directory: &Directory) -> Entity {
        self.list_row(LIST_CHUNKS, &directory.encode())
    }

    fn list_row(&self, name: &str, bytes: &[u8]) -> Entity {
        let mut row = Entity::from(self.at.key.clone()).with(Entry::INDEX, self.index);
        set_bytes(&mut row, name, bytes);
        row
    }
}

impl SharedRows<'_> {
    /// All references of a list. 1 request; 1 more for each chunk or blob, in parallel.
    pub(crate) async fn members(&self, at: &Location, index: &str) -> Result<Members> {
        for _ in 0..super::ROUNDS {
            let Some(row) = self.row(at, index).await? else {
                return Ok(Members::default());
            };
            if let Some(members) = self.members_of(at, &row).await? {
                return Ok(members);
            }
            self.reorganized(at, index, &row).await?;
        }
        Err(super::contended(at))
    }

    /// The references of a list whose row was read; `None` if the list was reorganized after the read.
    pub(crate) async fn members_of(&self, at: &Location, row: &Entity) -> Result<Option<Members>> {
        match ListRow::read(row)? {
            ListRow::Members(members) => Ok(Some(members)),
            ListRow::Blob(name) => self.blob_members(&name).await,
            ListRow::Chunks(directory) => {
                let parts = chunks::read_all(*self, at, directory.ids()).await?;
                let mut all = Members::default();
                for part in parts {
                    let Some((_, members)) = part else {
                        return Ok(None);
                    };
                    all.extend(members);
                }
                Ok(Some(all))
            }
        }
    }

    /// Called when a chunk or blob that a list names does not exist. Returns if the list changed after its row
    /// was read; otherwise the list is damaged.
    async fn reorganized(&self, at: &Location, index: &str, row: &Entity) -> Result<()> {
        let now = self.row(at, index).await?;
        if now.is_none_or(|now| now.etag() != row.etag()) {
            return Ok(());
        }
        let lost = match row.get(LIST_BLOB) {
            Some(ValueRef::String(name)) => format!("the blob '{name}'"),
            _ => "a chunk".to_owned(),
        };
        let key = &at.key;
        Err(Error::corrupt(format!(
            "the list {key} names {lost}, which does not exist: scrub the index '{}'",
            index_name(index)
        )))
    }

    async fn blob_members(&self, name: &str) -> Result<Option<Members>> {
        let Some(bytes) = self.blobs()?.get(name).await? else {
            return Ok(None);
        };
        let damaged = || {
            Error::corrupt(format!(
                "the blob '{name}' is not a list of references in format 1"
            ))
        };
        let unread = || other_format(&format!("the blob '{name}'"), &bytes).unwrap_or_else(damaged);
        Members::decode(&bytes).map(Some).ok_or_else(unread)
    }

    /// Deletes the blobs of an index that no row names. The blobs are listed, then the caller waits, then the
    /// rows are read. A writer that had written a blob before the listing has named the blob after the wait, or
    /// never will.
    pub(crate) async fn collect_blobs(
        &self,
        index: &str,
        table: &TableName,
        wait: impl Future<Output = ()> + Send,
    ) -> Result<usize> {
        let blobs = self.blobs()?;
        let before = blobs.list(index).await?;
        if before.is_empty() {
            return Ok(0);
        }
        wait.await;
        // Only the names are selected: a list in a row may have a megabyte.
        let query = Query::new()
            .with_filter(Filter::eq(Entry::INDEX, index))
            .with_select(Select::new([LIST_BLOB]));
        let rows = self.store.query_stream(table.clone(), query);
        let named = rows.try_filter_map(async |row| match row.get(LIST_BLOB) {
            Some(ValueRef::String(name)) => Ok(Some(name.to_owned())),
            _ => Ok(None),
        });
        let named: BTreeSet<_> = named.try_collect().await?;
        let orphans: Vec<_> = before
            .into_iter()
            .filter(|name| !named.contains(name))
            .collect();
        for name in &orphans {
            blobs.delete(name).await?;
        }
        Ok(orphans.len())
    }
}

/// A chunk's row.
pub(crate) fn chunk_row(key: Key, index: &str, of: &str, members: &Members) -> Entity {
    let mut row = Entity::from(key)
        .with(Entry::INDEX, index)
        .with(chunks::OF, of);
    set_bytes(&mut row, LIST_MEMBERS, &members.encode());
    row
}

/// How many bytes of a list its row holds, and where further references are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) bytes: usize,
    pub(crate) overflow: Overflow,
}

impl Layout {
    /// The layout of a list of this shape.
    pub(crate) const fn of(shape: &Shape) -> Self {
        match shape {
            Shape::List { bytes, overflow } => Self {
                bytes: *bytes,
                overflow: *overflow,
            },
            _ => Self {
                bytes: 0,
                overflow: Overflow::Blob,
            },
        }
    }
}
