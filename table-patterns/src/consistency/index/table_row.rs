//! What the manifest says of a table as a whole: the longest durations of those who write it without a row of their own, whether some
//! of them write entities of any type, and whether entries of its entities have met.

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

/// How often the row is read again when others change it.
const ROUNDS: usize = 16;

/// The row. It only grows: a duration stays when its process is gone. It has those of processes that have opened the table in a store
/// which only they wrote: they have no [row of their own](super::processes), and somebody may serve the store to others later.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TableRow {
    /// The longest of those who have no row of their own.
    pub(super) durations: Durations,
    /// Whether two entities were found to have the same entry.
    pub(super) collided: bool,
    /// Whether a program has opened the table that may write entities of any type.
    pub(super) any_type: bool,
    /// What tells the blobs of this table from those of another of its name.
    pub(super) blobs: Option<String>,
    etag: Option<ETag>,
}

impl TableRow {
    pub(super) const NAME: &str = "table";

    /// What a process with these options adds, and with these durations, where it has no row of its own.
    pub(super) fn of(options: &IndexOptions, any_type: bool, durations: Durations) -> Self {
        let blobs = options.blobs.as_ref().map(|_| Uuid::new_v4().simple().to_string());
        Self { durations, collided: false, any_type, blobs, etag: None }
    }

    /// Whether nobody has opened the table yet.
    pub(super) const fn is_new(&self) -> bool {
        self.etag.is_none()
    }

    /// That entries collided.
    pub(super) fn of_collision() -> Self {
        Self { collided: true, ..Self::default() }
    }

    /// This and what another one says beyond it.
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

    /// What writes the row as it is to be over the one that was read, if that has not changed since.
    pub(super) fn operation(&self) -> Result<Operation> {
        let row = self.to_entity()?;
        Ok(match &self.etag {
            Some(etag) => Operation::Replace(row, IfMatch::from(etag)),
            None => Operation::Insert(row),
        })
    }
}

impl ManifestRows<'_> {
    /// Adds what the row, as it was found, does not say yet; what it says then. No request if there is nothing to
    /// add, else one; two more for each time that others change it meanwhile.
    pub(super) async fn remember(&self, mut found: TableRow, more: &TableRow) -> Result<TableRow> {
        for _ in 0..ROUNDS {
            let wanted = found.with(more);
            // The first who opens the table says so, whatever else it adds.
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
