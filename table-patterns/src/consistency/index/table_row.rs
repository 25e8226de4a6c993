//! The table's own row in the manifest: the longest durations of processes without a row of their own, whether
//! such a process writes entities of any type, and whether entries have collided.

use table_core::model::{ETag, Entity, IfMatch, MANIFEST_PARTITION, ValueRef};
use table_core::store::{ErrorKind, Operation, Result};
use uuid::Uuid;

use super::manifest::{ManifestRows, is_lost};
use super::options::IndexOptions;
use super::processes::{Durations, read_millis, to_millis};

const CACHE: &str = "LongestCache";
const REQUEST: &str = "LongestRequest";
const LEASE: &str = "LongestLease";
const COLLIDED: &str = "EntriesCollided";
const ANY_TYPE: &str = "WrittenAsAnyType";
const BLOBS: &str = "BlobFolder";

/// Attempts to extend the row while other processes change it.
const ROUNDS: usize = 16;

/// The row. Its values only grow: a duration remains after its process has ended. It has the durations of
/// processes that opened the table in a store which only they wrote. Those have no [row of their
/// own](super::processes), and the same store may later be served to other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableRow {
    /// The longest durations of processes without a row of their own.
    pub(super) durations: Durations,
    /// Whether two entities have had the same entry.
    pub(super) collided: bool,
    /// Whether a program that may write entities of any type has opened the table.
    pub(super) any_type: bool,
    /// The id of this table in the blob store, where another table may have the same name.
    pub(super) blobs: Option<String>,
    etag: Option<ETag>,
}

impl TableRow {
    pub(super) const NAME: &str = "table";

    /// What a process with these options adds to the row; `durations` is zero for a process with a row of its
    /// own.
    pub(super) fn of(options: &IndexOptions, any_type: bool, durations: Durations) -> Self {
        let blobs = options.blobs.as_ref().map(|_| Uuid::new_v4().simple().to_string());
        Self { durations, collided: false, any_type, blobs, etag: None }
    }

    /// Whether no program has opened the table yet.
    pub(super) const fn is_new(&self) -> bool {
        self.etag.is_none()
    }

    /// A row that records a collision of entries.
    pub(super) fn of_collision() -> Self {
        Self { collided: true, ..Self::default() }
    }

    /// The union of this row and another.
    pub(super) fn with(&self, other: &Self) -> Self {
        Self {
            durations: self.durations.max(other.durations),
            collided: self.collided || other.collided,
            any_type: self.any_type || other.any_type,
            blobs: self.blobs.clone().or_else(|| other.blobs.clone()),
            etag: self.etag.clone(),
        }
    }

    pub(super) fn read(row: &Entity) -> Result<Self> {
        let millis = |name: &str| read_millis(row, name);
        let is = |name| row.get(name) == Some(ValueRef::Boolean(true));
        let (collided, any_type) = (is(COLLIDED), is(ANY_TYPE));
        let blobs = match row.get(BLOBS) {
            Some(ValueRef::String(id)) => Some(id.to_owned()),
            _ => None,
        };
        let durations = Durations { cache: millis(CACHE)?, request: millis(REQUEST)?, lease: millis(LEASE)? };
        Ok(Self { durations, collided, any_type, blobs, etag: row.etag().cloned() })
    }

    pub(super) fn to_entity(&self) -> Result<Entity> {
        let mut row = Entity::new(MANIFEST_PARTITION, Self::NAME)?
            .with(CACHE, to_millis(self.durations.cache))
            .with(REQUEST, to_millis(self.durations.request))
            .with(LEASE, to_millis(self.durations.lease))
            .with(COLLIDED, self.collided)
            .with(ANY_TYPE, self.any_type);
        if let Some(id) = &self.blobs {
            row.properties_mut().set(BLOBS, id.as_str());
        }
        Ok(row)
    }

    /// The operation that writes the row over the version that was read.
    pub(super) fn operation(&self) -> Result<Operation> {
        let row = self.to_entity()?;
        Ok(match &self.etag {
            Some(etag) => Operation::Replace(row, IfMatch::from(etag)),
            None => Operation::Insert(row),
        })
    }
}

impl ManifestRows<'_> {
    /// Extends the row that was read by `more`, and returns the result. No request if the row has all of it
    /// already, otherwise 1; 2 more for each conflict with another process.
    pub(super) async fn extend_table_row(&self, mut found: TableRow, more: &TableRow) -> Result<TableRow> {
        for _ in 0..ROUNDS {
            let wanted = found.with(more);
            // The first program to open the table writes the row, even without any value: `is_new` is false from then on.
            if wanted == found && !found.is_new() {
                return Ok(found);
            }
            match self.store.write(self.table, wanted.operation()?).await {
                Err(e) if is_lost(&e) => {}
                other => return other.map(|_| wanted),
            }
            found = self.load().await?.table;
        }
        let (table, key) = (self.table.to_string(), TableRow::NAME.to_owned());
        Err(ErrorKind::PreconditionFailed { table, key }.into())
    }
}
