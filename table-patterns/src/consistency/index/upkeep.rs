//! What upkeep needs of a table: the manifest, and the indexes that a program without the Rust types can
//! maintain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::manifest::{Layout, Manifest, StoredIndex, StoredType};
use table_core::model::{ETag, Entity, IfMatch, MANIFEST_PARTITION, TableName, Ticks, ValueRef};
use table_core::store::{Operation, Result, TableStore};

use super::entities::IndexedEntities;
use super::options::IndexOptions;
use super::states::manifest::ManifestRows;
use super::states::set::FORGOTTEN_AT_ONCE;
use crate::clock::after;
use crate::entry::{Index, Placement, Uniqueness};

/// After this time, a run of upkeep that has not ended counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The manifest of a table, for upkeep.
#[derive(Debug)]
pub(crate) struct UpkeepManifest {
    pub(crate) indexes: Vec<StoredIndex>,
    pub(crate) scrub: LastRun,
    /// The types whose large values are in blobs.
    pub(crate) large: BTreeSet<String>,
    pub(crate) collection: LastRun,
    /// The types whose entities expire.
    pub(crate) expiring: Vec<StoredType>,
    pub(crate) expiry: LastRun,
}

impl UpkeepManifest {
    /// Reads the manifest of a table for its handle, and removes rows of ended processes. `None` if the table was
    /// recreated since the handle was opened. 1 request; 1 for each ended process, up to 10; 1 if this process
    /// must be registered again.
    pub(crate) async fn of_open(entities: &IndexedEntities) -> Result<Option<Self>> {
        let set = &entities.set;
        let asked = set.ensure_registered().await?;
        let loaded = set.manifest().load().await?;
        set.adopt_manifest(&loaded, asked)?;
        set.forget_gone(FORGOTTEN_AT_ONCE).await;
        if loaded.table.is_new() {
            return Ok(None);
        }
        Ok(Some(Self::of(loaded.manifest)))
    }

    /// The tables with reservations of unique values: the tables of remote unique entries. `table` is the table of the entities.
    pub(crate) fn unique_tables(&self, table: &TableName) -> Vec<TableName> {
        let unique = self.indexes.iter().filter(|stored| {
            stored.definition.as_ref().is_some_and(|definition| {
                definition.uniqueness != Uniqueness::No
                    && definition.placement != Placement::SamePartition
            })
        });
        let tables: BTreeSet<_> = unique
            .map(|stored| stored.table.as_ref().unwrap_or(table))
            .collect();
        tables.into_iter().cloned().collect()
    }

    /// Whether entities of an index also belong to another index that the handle cannot maintain; upkeep does
    /// not write such entities.
    pub(crate) fn leaves_entities_of(
        &self,
        stored: &StoredIndex,
        entities: &IndexedEntities,
    ) -> bool {
        let Some(of) = &stored.entity else {
            return true;
        };
        let meets = |other: &StoredIndex| {
            other
                .entity
                .as_ref()
                .is_none_or(|e| !e.is_disjoint_from(of))
        };
        // Without blobs the handle can still remove entries: such an index is in the way only in states in which writers write them.
        let in_the_way = |other: &StoredIndex| {
            Obstacle::of(other, entities).is_some_and(|obstacle| {
                obstacle != Obstacle::NoBlobs || other.state.writes_entries()
            })
        };
        self.indexes
            .iter()
            .any(|other| meets(other) && in_the_way(other))
    }

    fn of(manifest: Manifest) -> Self {
        let large = manifest
            .types
            .iter()
            .filter(|stored| matches!(stored.layout, Layout::Large { .. }));
        let large = large
            .map(|stored| stored.entity.as_ref().map_or("", |of| &of.name).to_owned())
            .collect();
        let [scrub, collection, expiry] = [LastRun::SCRUB, LastRun::COLLECTION, LastRun::EXPIRY]
            .map(|row| LastRun::of(row, manifest.other(row)));
        let expiring = manifest
            .types
            .iter()
            .filter(|stored| stored.expiry.is_some())
            .cloned()
            .collect();
        Self {
            indexes: manifest.indexes,
            scrub,
            large,
            collection,
            expiring,
            expiry,
        }
    }
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

impl Obstacle {
    /// Why a handle that was opened for upkeep cannot maintain an index; `None` if it can.
    pub(crate) fn of(stored: &StoredIndex, entities: &IndexedEntities) -> Option<Self> {
        let Some(definition) = &stored.definition else {
            return Some(Self::Newer);
        };
        if Index::from_definition(definition.clone()).is_err() {
            return Some(Self::Opaque);
        }
        // By the states known here: an index that was dropped since is no obstacle.
        if entities.set.is_unmaintainable(&stored.id()) {
            return Some(Self::Encrypted);
        }
        (definition.shape.needs_blobs() && !entities.options.has_blobs()).then_some(Self::NoBlobs)
    }
}

/// The last run of one kind of upkeep on a table (a scrub, a collection or a removal of expired entities), as its row in the manifest says.
#[derive(Clone, Debug)]
pub(crate) struct LastRun {
    row: &'static str,
    /// When the row was written, by the clock of the store.
    at: Option<Ticks>,
    finished: bool,
    etag: Option<ETag>,
}

impl LastRun {
    /// The row of the last scrub of the table's indexes.
    const SCRUB: &str = "scrub";
    /// The row of the last collection of the blobs of large values.
    const COLLECTION: &str = "collection";
    /// The row of the last removal of entities that have expired.
    const EXPIRY: &str = "expiry";
    const FINISHED: &str = "Finished";

    fn of(name: &'static str, row: Option<&Entity>) -> Self {
        let finished =
            row.is_some_and(|row| row.get(Self::FINISHED) == Some(ValueRef::Boolean(true)));
        let (at, etag) = (
            row.and_then(Entity::timestamp),
            row.and_then(Entity::etag).cloned(),
        );
        Self {
            row: name,
            at,
            finished,
            etag,
        }
    }

    fn operation(&self, finished: bool) -> Result<Operation> {
        let row = Entity::new(MANIFEST_PARTITION, self.row)?.with(Self::FINISHED, finished);
        Ok(match &self.etag {
            Some(etag) => Operation::Replace(row, IfMatch::from(etag)),
            None => Operation::Insert(row),
        })
    }

    /// Whether the next run is due. Clocks decide only when a run begins, never whether an entry is right.
    pub(crate) fn is_due(&self, every: Duration) -> bool {
        let wait = if self.finished {
            every
        } else {
            every.min(ABANDONED)
        };
        self.at.is_none_or(|at| after(at, wait) <= Ticks::now())
    }

    /// Takes the next run for this process, in the version of the row that was read. `None` if another process was first. 1 request.
    pub(crate) async fn begin(
        &self,
        store: &dyn TableStore,
        table: &TableName,
    ) -> Result<Option<Self>> {
        match store.write(table, self.operation(false)?).await {
            Err(e) if e.is_conflict() => Ok(None),
            other => other.map(|written| {
                Some(Self {
                    at: None,
                    finished: false,
                    etag: written.etag,
                    ..*self
                })
            }),
        }
    }

    /// Stores that the run has ended. One request.
    pub(crate) async fn end(&self, store: &dyn TableStore, table: &TableName) -> Result<()> {
        match store.write(table, self.operation(true)?).await {
            // It took so long that another process has begun again.
            Err(e) if e.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }
}

/// A table, as upkeep opens it.
pub(crate) struct UpkeepTable {
    /// The handle that maintains the indexes; `None` if no program has opened the table with indexes. The handle is then not opened:
    /// the first program that opens the table must find that it is the first.
    pub(crate) entities: Option<IndexedEntities>,
    pub(crate) manifest: UpkeepManifest,
}

impl UpkeepTable {
    /// Reads the manifest, and opens the table as [`IndexedEntities::open_for_upkeep`] does if a program has opened the table
    /// with indexes. One request, and then the requests of opening and of [`UpkeepManifest::of_open`].
    pub(crate) async fn find(
        store: Arc<dyn TableStore>,
        table: TableName,
        options: IndexOptions,
    ) -> Result<Self> {
        let loaded = ManifestRows {
            store: &*store,
            table: &table,
        }
        .load()
        .await?;
        if loaded.table.is_new() {
            return Ok(Self {
                entities: None,
                manifest: UpkeepManifest::of(loaded.manifest),
            });
        }
        let entities = IndexedEntities::open_for_upkeep(store, table, options).await?;
        Ok(match UpkeepManifest::of_open(&entities).await? {
            Some(manifest) => Self {
                entities: Some(entities),
                manifest,
            },
            // The table was recreated in between.
            None => Self {
                entities: None,
                manifest: UpkeepManifest::of(Manifest::default()),
            },
        })
    }
}
