//! What upkeep needs of a table: the manifest, and the indexes that a program without the Rust types can
//! maintain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::manifest::StoredIndex;
use table_core::model::{ETag, Entity, IfMatch, MANIFEST_PARTITION, TableName, Ticks, ValueRef};
use table_core::store::{Operation, Result, TableStore};

use super::definition::{Index, Placement, Uniqueness};
use super::indexed::IndexedEntities;
use super::manifest::{ManifestRows, is_lost};
use super::options::IndexOptions;
use super::set::FORGOTTEN_AT_ONCE;
use crate::clock::after;

/// After this time, a scrub that has not ended counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The manifest of a table, for upkeep.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) indexes: Vec<StoredIndex>,
    pub(crate) scrub: LastScrub,
}

/// Why a program without the Rust types cannot maintain an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Rust code derives the keys.
    Opaque,
    /// The definition has a newer format.
    Newer,
    /// The index uses encrypted properties, and the store does not decrypt.
    Encrypted,
    /// The index keeps blobs, and the options have no object store.
    NoBlobs,
}

/// The last scrub of a table's indexes by any process: a row of the manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastScrub {
    /// The time of the last write of the row, by the store's clock.
    at: Option<Ticks>,
    finished: bool,
    etag: Option<ETag>,
}

impl LastScrub {
    const ROW: &str = "scrub";
    const FINISHED: &str = "Finished";

    fn read(row: &Entity) -> Self {
        let finished = row.get(Self::FINISHED) == Some(ValueRef::Boolean(true));
        Self { at: row.timestamp(), finished, etag: row.etag().cloned() }
    }

    fn operation(&self, finished: bool) -> Result<Operation> {
        let row = Entity::new(MANIFEST_PARTITION, Self::ROW)?.with(Self::FINISHED, finished);
        Ok(match &self.etag {
            Some(etag) => Operation::Replace(row, IfMatch::from(etag)),
            None => Operation::Insert(row),
        })
    }

    /// Whether the next scrub is due. Clocks decide only when a scrub begins, never whether an entry is right.
    pub(crate) fn is_due(&self, every: Duration) -> bool {
        let wait = if self.finished { every } else { every.min(ABANDONED) };
        self.at.is_none_or(|at| after(at, wait) <= Ticks::now())
    }
}

impl IndexedEntities {
    /// As [`open_for_upkeep`](Self::open_for_upkeep); `None` if no program has opened the table with indexes.
    /// In that case the manifest stays empty, so that the first program with indexes is the first to open the
    /// table. 1 request more.
    pub(crate) async fn open_to_keep(
        store: Arc<dyn TableStore>,
        table: TableName,
        options: IndexOptions,
    ) -> Result<Option<Self>> {
        let loaded = ManifestRows { store: &*store, table: &table }.load().await?;
        if loaded.table.is_new() {
            return Ok(None);
        }
        Self::open_for_upkeep(store, table, options).await.map(Some)
    }

    /// Reads the manifest for this handle and removes rows of ended processes. `None` if the table was
    /// recreated since the handle was opened. 1 request; 1 for each ended process, up to 10; 1 if this process
    /// must be registered again.
    pub(crate) async fn kept(&self) -> Result<Option<Kept>> {
        let asked = self.set.ask(&*self.store).await?;
        let loaded = self.rows().load().await?;
        self.set.load(&loaded, asked)?;
        self.set.forget_gone(&*self.store, FORGOTTEN_AT_ONCE).await;
        if loaded.table.is_new() {
            return Ok(None);
        }
        let scrub = loaded.manifest.other(LastScrub::ROW).map(LastScrub::read).unwrap_or_default();
        Ok(Some(Kept { indexes: loaded.manifest.indexes, scrub }))
    }

    /// The tables with reservations of unique values: those of remote unique entries.
    pub(crate) fn unique_tables(&self, indexes: &[StoredIndex]) -> Vec<TableName> {
        let unique = indexes.iter().filter(|stored| {
            stored.definition.as_ref().is_some_and(|definition| {
                definition.uniqueness != Uniqueness::No && definition.placement != Placement::SamePartition
            })
        });
        let tables: BTreeSet<_> =
            unique.map(|stored| stored.table.as_ref().unwrap_or(self.table())).collect();
        tables.into_iter().cloned().collect()
    }

    /// Why this handle cannot maintain an index; `None` if it can.
    pub(crate) fn obstacle(&self, stored: &StoredIndex) -> Option<Obstacle> {
        let Some(definition) = &stored.definition else { return Some(Obstacle::Newer) };
        if Index::from_definition(definition.clone()).is_err() {
            return Some(Obstacle::Opaque);
        }
        // By the states known here: an index that was dropped since is no obstacle.
        if self.set.is_unmaintainable(&stored.id()) {
            return Some(Obstacle::Encrypted);
        }
        (definition.shape.needs_blobs() && self.options.blobs.is_none()).then_some(Obstacle::NoBlobs)
    }

    /// Whether entities of an index also belong to another index that this handle cannot maintain; upkeep does
    /// not write such entities.
    pub(crate) fn leaves_entities_of(&self, stored: &StoredIndex, all: &[StoredIndex]) -> bool {
        let Some(of) = &stored.entity else { return true };
        let meets = |other: &StoredIndex| other.entity.as_ref().is_none_or(|e| !e.is_disjoint_from(of));
        let in_the_way = |other: &StoredIndex| {
            self.obstacle(other).is_some_and(|obstacle| obstacle != Obstacle::NoBlobs || other.state.puts())
        };
        all.iter().any(|other| meets(other) && in_the_way(other))
    }

    /// Records in the manifest that this process scrubs the table's indexes; `None` if another process began
    /// first. 1 request.
    pub(crate) async fn begin_scrub(&self, last: &LastScrub) -> Result<Option<LastScrub>> {
        match self.store.write(self.table(), last.operation(false)?).await {
            Err(e) if is_lost(&e) => Ok(None),
            other => other.map(|written| Some(LastScrub { at: None, finished: false, etag: written.etag })),
        }
    }

    /// Records the end of the scrub. 1 request.
    pub(crate) async fn end_scrub(&self, begun: &LastScrub) -> Result<()> {
        match self.store.write(self.table(), begun.operation(true)?).await {
            // The scrub counted as abandoned, and another process has begun the next.
            Err(e) if is_lost(&e) => Ok(()),
            other => other.map(drop),
        }
    }
}
