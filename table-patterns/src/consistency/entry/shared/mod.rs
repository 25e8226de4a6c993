//! Rows that hold the entries of several entities: lists, summaries, copies, the counters of feeds. Each row is read, changed and
//! written under its ETag, so one of two concurrent writers starts again.

#[cfg(feature = "blobs")]
mod blobs;
mod chunks;
mod copy;
mod extremes;
pub(crate) mod feed;
mod list;
mod members;
mod summary;

pub(crate) use blobs::Blobs;
pub(crate) use chunks::{is_chunk, list_of};
pub(crate) use copy::{
    agrees as copies_agree, apply as apply_copy, copied_names, owner as copy_owner, without_copies,
};
pub(crate) use list::ListRow;
pub(crate) use members::Members;
pub use summary::Summary;
pub(crate) use summary::contribution;

use std::collections::BTreeMap;
use std::fmt;

use table_core::manifest::index_name;
use table_core::model::{Entity, IfMatch, Key};
use table_core::store::{Error, ErrorKind, Operation, Result, TableStore};

use crate::entry::{Entry, EntryDiff, Location, Shape};
use crate::rows::{accept_applied, write_together};

/// The change of one shared row.
#[derive(Clone, Debug)]
pub(crate) struct Merge {
    pub(crate) at: Location,
    pub(crate) index: String,
    pub(crate) shape: Shape,
    /// The entries to add or to change.
    pub(crate) put: Vec<Entry>,
    /// The earlier entries of the same entities, which a summary subtracts.
    pub(crate) old: Vec<Entry>,
    /// The entities to remove.
    pub(crate) gone: Vec<Key>,
    /// The changes of other indexes in the same entity; only copies share a row.
    pub(crate) also: Vec<Self>,
}

impl Merge {
    pub(crate) const fn new(at: Location, index: String, shape: Shape) -> Self {
        Self {
            at,
            index,
            shape,
            put: Vec::new(),
            old: Vec::new(),
            gone: Vec::new(),
            also: Vec::new(),
        }
    }

    /// The changes of shared rows in a diff, one for each row.
    pub(crate) fn all_of(diff: EntryDiff) -> Vec<Self> {
        let mut all: BTreeMap<(Location, String), Self> = BTreeMap::new();
        let place = |e: &Entry| (e.location.clone(), e.index.clone());
        let new = |e: &Entry| Self::new(e.location.clone(), e.index.clone(), e.shape.clone());
        for (entry, old) in diff.put {
            let merge = all.entry(place(&entry)).or_insert_with(|| new(&entry));
            merge.old.extend(old);
            merge.put.push(entry);
        }
        for entry in diff.removed {
            let merge = all.entry(place(&entry)).or_insert_with(|| new(&entry));
            merge.gone.push(entry.owner.clone());
            merge.old.push(entry);
        }
        all.into_values().fold(Vec::new(), Self::together)
    }

    /// Adds a change to others; changes of one entity are written together.
    fn together(mut all: Vec<Self>, merge: Self) -> Vec<Self> {
        // The changes are in the order of their rows, so two copies into one entity follow each other.
        match all.last_mut() {
            Some(last) if last.at == merge.at && last.copies() && merge.copies() => {
                last.also.push(merge);
            }
            _ => all.push(merge),
        }
        all
    }

    const fn copies(&self) -> bool {
        matches!(self.shape, Shape::Copy { .. })
    }

    /// This change and the changes of other indexes in the same row.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.also)
    }
}

/// The operations that write a change into a row that was read.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) operations: Vec<Operation>,
    /// For rows that need no change: operations that change nothing, and fail if the row has changed since the read. A group
    /// that depends on such a row includes them; otherwise another writer could change the row before the group is applied.
    pub(crate) unchanged: Vec<Operation>,
    /// Whether the target entity of a copy does not exist.
    pub(crate) without_target: bool,
    /// Blobs that no row names after the operations are applied.
    old_blobs: Vec<String>,
    /// Blobs that no row names unless the operations are applied.
    new_blobs: Vec<String>,
    /// The numbers of the changes that are recorded.
    pub(crate) numbers: Option<feed::Numbers>,
}

impl Prepared {
    pub(crate) const fn has_blobs(&self) -> bool {
        !self.new_blobs.is_empty()
    }

    /// The operations of a group that depends on the row.
    pub(crate) fn in_group(&self) -> impl Iterator<Item = &Operation> {
        self.operations.iter().chain(&self.unchanged)
    }

    /// Only the condition that the row has not changed since the read.
    fn nothing(row: &Key, etag: Option<IfMatch>) -> Self {
        Self {
            unchanged: etag
                .map(|etag| check_unchanged(row, etag))
                .into_iter()
                .collect(),
            ..Self::default()
        }
    }

    /// One operation.
    fn one(operation: Operation) -> Self {
        Self {
            operations: vec![operation],
            ..Self::default()
        }
    }
}

/// The shared rows of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedRows<'a> {
    pub(crate) store: &'a dyn TableStore,
    pub(crate) blobs: Option<&'a Blobs>,
    pub(crate) counters: &'a feed::Counters,
}

/// Attempts to read a row that other writers reorganize.
const ROUNDS: usize = 16;

impl<'a> SharedRows<'a> {
    /// Reads the row and prepares its change under the ETags that were read. No operation if the row needs no
    /// change. 1 request; 1 more for each chunk or blob of a long list.
    pub(crate) async fn prepare(&self, merge: &Merge) -> Result<Prepared> {
        match &merge.shape {
            Shape::Row => Err(Error::misuse(
                "an index of the shape row has no shared rows",
            )),
            Shape::List { .. } | Shape::Blob => {
                for _ in 0..ROUNDS {
                    if let Some(prepared) = list::prepare(*self, merge).await? {
                        return Ok(prepared);
                    }
                }
                Err(contended(&merge.at))
            }
            Shape::Summary { .. } => summary::prepare(*self, merge).await,
            Shape::Copy { .. } => copy::prepare(*self, merge).await,
            Shape::Feed => feed::prepare(*self, merge).await,
        }
    }

    /// Checks that a change can add its entries to the row that is there. 1 request if the change adds entries.
    ///
    /// # Errors
    /// A key collision: the row is not of the index, or the target of a copy has the properties of another entity. The row is damaged.
    pub(crate) async fn check(&self, merge: &Merge) -> Result<()> {
        match &merge.shape {
            Shape::Copy { .. } => copy::prepare(*self, merge).await.map(drop),
            _ if merge.put.is_empty() => Ok(()),
            Shape::List { .. } | Shape::Blob => {
                let row = self.row(&merge.at, &merge.index).await?;
                row.as_ref().map(ListRow::read).transpose().map(drop)
            }
            Shape::Row | Shape::Summary { .. } => self.row(&merge.at, &merge.index).await.map(drop),
            // A feed is in the partition of its entities: no change of another partition is checked.
            Shape::Feed => Ok(()),
        }
    }

    /// Sends a prepared change. `false` if the row has changed since the read: nothing was written.
    pub(crate) async fn send(&self, at: &Location, prepared: Prepared) -> Result<bool> {
        let sent = write_together(self.store, &at.table, &prepared.operations).await;
        match accept_applied(sent.map(drop)) {
            Ok(()) => {
                self.discard_old_blobs([prepared]).await;
                Ok(true)
            }
            // `DoubtKeepsBlobs`: the operation may still take effect, and its row would name the new blobs. The old blobs stay too, because
            // the row may still name them. A collection deletes the blobs that no row names.
            Err(error) if error.is_ambiguous() => Err(error),
            Err(error) => {
                self.discard_new_blobs([prepared]).await;
                if error.is_conflict() {
                    Ok(false)
                } else {
                    Err(error)
                }
            }
        }
    }

    /// Deletes the blobs that the rows named before.
    pub(crate) async fn discard_old_blobs(
        &self,
        prepared: impl IntoIterator<Item = Prepared> + Send,
    ) {
        self.discard(prepared.into_iter().flat_map(|p| p.old_blobs).collect())
            .await;
    }

    /// Deletes the blobs that no row will ever name.
    pub(crate) async fn discard_new_blobs(
        &self,
        prepared: impl IntoIterator<Item = Prepared> + Send,
    ) {
        self.discard(prepared.into_iter().flat_map(|p| p.new_blobs).collect())
            .await;
    }

    async fn discard(&self, names: Vec<String>) {
        if let Some(blobs) = self.blobs {
            blobs.discard(&names).await;
        }
    }

    /// The row at a location, if it belongs to the index.
    async fn row(&self, at: &Location, index: &str) -> Result<Option<Entity>> {
        let row = self.store.get(&at.table, &at.key, None).await?;
        match row.as_ref().map(Entry::index_of) {
            None => Ok(None),
            // Only rows of the same index are shared; anything else at the key is a collision.
            Some(Some(name)) if name == index => Ok(row),
            Some(_) => Err(key_collision(index, &at.key, &at.key)),
        }
    }

    fn blobs(&self) -> Result<&'a Blobs> {
        self.blobs.ok_or_else(|| {
            Error::invalid_argument("a list is stored in a blob: set `IndexOptions::blobs` to an object store (feature `blobs` of table-patterns)")
        })
    }
}

/// The operation that writes a row read with this ETag, or a row that did not exist.
pub(crate) fn put(row: Entity, etag: Option<IfMatch>) -> Operation {
    match etag {
        Some(etag) => Operation::Replace(row, etag),
        None => Operation::Insert(row),
    }
}

/// An operation that changes nothing and fails if the row has changed.
fn check_unchanged(row: &Key, etag: IfMatch) -> Operation {
    Operation::Merge(Entity::from(row.clone()), etag)
}

/// The cause of an error of a taken key: the entity that has the key. Its text does not name the entity, as the text of the error does not.
#[derive(Debug)]
pub(crate) struct Holder(pub(crate) Key);

impl Holder {
    /// The entity that has the key; `None` if no entity of the index's table is known to have it.
    pub(crate) fn of(error: &Error) -> Option<&Key> {
        let cause = std::error::Error::source(error)?;
        cause.downcast_ref::<Self>().map(|holder| &holder.0)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another entity")
    }
}

impl std::error::Error for Holder {}

/// The error of an entry whose key another entity of the index's table has.
pub(crate) fn held_by(index: &str, entry: &Key, owner: &Key) -> Error {
    key_collision(index, entry, owner).with_source(Holder(owner.clone()))
}

/// The error of an entry whose row belongs to another entity or index. `index` is the id of the entry's index.
pub(crate) fn key_collision(index: &str, entry: &Key, owner: &Key) -> Error {
    let (index, entry) = (index_name(index).to_owned(), entry.to_string());
    ErrorKind::KeyCollision {
        index,
        entry,
        owner: owner.to_string(),
    }
    .into()
}

/// The error after all attempts: other writers kept changing the row.
pub(crate) fn contended(at: &Location) -> Error {
    Error::precondition_failed(&at.table, &at.key)
}

/// A build without the feature `blobs` has no blob store, so no value of this type exists.
#[cfg(not(feature = "blobs"))]
mod blobs {
    use table_core::store::Result;

    #[derive(Clone, Debug)]
    pub(crate) enum Blobs {}

    impl Blobs {
        pub(crate) async fn put(&self, _index: &str, _bytes: Vec<u8>) -> Result<String> {
            match *self {}
        }

        pub(crate) async fn get(&self, _name: &str) -> Result<Option<Vec<u8>>> {
            match *self {}
        }

        pub(crate) async fn discard(&self, _names: &[String]) {
            match *self {}
        }

        pub(crate) async fn delete(&self, _name: &str) -> Result<()> {
            match *self {}
        }

        pub(crate) async fn list(&self, _index: &str) -> Result<Vec<String>> {
            match *self {}
        }
    }
}
