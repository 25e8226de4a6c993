//! What upkeep asks of a table: what its manifest says now, and what of that a program without the types can keep.

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

/// After which time a scrub counts as abandoned that was begun and has not ended.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// What the manifest of a table has for upkeep.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) indexes: Vec<StoredIndex>,
    pub(crate) scrub: LastScrub,
}

/// Why a program without the types cannot keep an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    Opaque,
    Newer,
    Encrypted,
    NoBlobs,
}

/// The scrub of a table's indexes that was begun last, in whatever process: a row of the manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastScrub {
    /// When the row was written, by the clock of the store.
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

    /// Whether the next one is due. Clocks decide when one begins, and nothing else.
    pub(crate) fn is_due(&self, every: Duration) -> bool {
        let wait = if self.finished { every } else { every.min(ABANDONED) };
        self.at.is_none_or(|at| after(at, wait) <= Ticks::now())
    }
}

impl IndexedEntities {
    /// The same as [`open_for_upkeep`](Self::open_for_upkeep), unless no program has opened the table with indexes: then the
    /// manifest stays without rows, so that the first who does is the first. One request more.
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

    /// What the manifest says now, by which this handle goes on. `None` where it is not the one that the handle was opened
    /// with: the table was made anew. Rows of processes that are gone are removed. One request, one for each of those, up to ten, and
    /// one where this process is to be registered again.
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

    /// The tables that hold reservations of unique values: those of entries in other partitions.
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

    /// What is in the way of keeping an index here.
    pub(crate) fn obstacle(&self, stored: &StoredIndex) -> Option<Obstacle> {
        let Some(definition) = &stored.definition else { return Some(Obstacle::Newer) };
        if Index::from_definition(definition.clone()).is_err() {
            return Some(Obstacle::Opaque);
        }
        // Not one that is gone by now, which stands in nobody's way.
        if self.set.cannot_keep(&stored.id()) {
            return Some(Obstacle::Encrypted);
        }
        (definition.shape.needs_blobs() && self.options.blobs.is_none()).then_some(Obstacle::NoBlobs)
    }

    /// Whether entities of an index have another one that cannot be kept here: they are not written then.
    pub(crate) fn leaves_entities_of(&self, stored: &StoredIndex, all: &[StoredIndex]) -> bool {
        let Some(of) = &stored.entity else { return true };
        let meets = |other: &StoredIndex| other.entity.as_ref().is_none_or(|e| !e.is_apart_from(of));
        let in_the_way = |other: &StoredIndex| {
            self.obstacle(other).is_some_and(|obstacle| obstacle != Obstacle::NoBlobs || other.state.puts())
        };
        all.iter().any(|other| meets(other) && in_the_way(other))
    }

    /// Whether it is this process that scrubs the table's indexes now: its word for the others. One request.
    pub(crate) async fn begin_scrub(&self, last: &LastScrub) -> Result<Option<LastScrub>> {
        match self.store.write(self.table(), last.operation(false)?).await {
            Err(e) if is_lost(&e) => Ok(None),
            other => other.map(|written| Some(LastScrub { at: None, finished: false, etag: written.etag })),
        }
    }

    /// Says that the scrub has ended. One request.
    pub(crate) async fn end_scrub(&self, begun: &LastScrub) -> Result<()> {
        match self.store.write(self.table(), begun.operation(true)?).await {
            // It took so long that another process has begun again.
            Err(e) if is_lost(&e) => Ok(()),
            other => other.map(drop),
        }
    }
}
