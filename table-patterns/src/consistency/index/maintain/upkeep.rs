//! What upkeep needs of a table: the manifest, and the indexes that a program without the Rust types can
//! maintain.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::manifest::{Layout, Manifest, StoredIndex};
use table_core::model::{ETag, Entity, IfMatch, MANIFEST_PARTITION, TableName, Ticks, ValueRef};
use table_core::store::{Operation, Result, TableStore};

use crate::clock::after;
use crate::entry::{Index, Placement, Uniqueness};
use crate::index::handle::IndexedEntities;
use crate::index::handle::options::IndexOptions;
use crate::index::states::manifest::ManifestRows;
use crate::index::states::set::FORGOTTEN_AT_ONCE;

/// After this time, a scrub that has not ended counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// The manifest of a table, for upkeep.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) indexes: Vec<StoredIndex>,
    pub(crate) scrub: LastRun,
    /// The types whose large values are in blobs.
    pub(crate) large: BTreeSet<String>,
    pub(crate) collection: LastRun,
}

impl Kept {
    fn of(manifest: Manifest) -> Self {
        let large = manifest.types.iter().filter(|stored| matches!(stored.layout, Layout::Large { .. }));
        let large = large.map(|stored| stored.entity.as_ref().map_or("", |of| &of.name).to_owned()).collect();
        let [scrub, collection] =
            [LastRun::SCRUB, LastRun::COLLECTION].map(|row| LastRun::of(row, manifest.other(row)));
        Self { indexes: manifest.indexes, scrub, large, collection }
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

/// Work on a whole table that was begun last, in whatever process: a row of the manifest.
#[derive(Clone, Debug)]
pub(crate) struct LastRun {
    row: &'static str,
    /// When the row was written, by the clock of the store.
    at: Option<Ticks>,
    finished: bool,
    etag: Option<ETag>,
}

impl LastRun {
    /// Of a scrub of the table's indexes.
    const SCRUB: &str = "scrub";
    /// Of a collection of the blobs of large values.
    const COLLECTION: &str = "collection";
    const FINISHED: &str = "Finished";

    fn of(name: &'static str, row: Option<&Entity>) -> Self {
        let finished = row.is_some_and(|row| row.get(Self::FINISHED) == Some(ValueRef::Boolean(true)));
        let (at, etag) = (row.and_then(Entity::timestamp), row.and_then(Entity::etag).cloned());
        Self { row: name, at, finished, etag }
    }

    fn operation(&self, finished: bool) -> Result<Operation> {
        let row = Entity::new(MANIFEST_PARTITION, self.row)?.with(Self::FINISHED, finished);
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

    /// Claims the next run: whether it is this process that does the work now, by its word for the others. One request.
    pub(crate) async fn begin(&self, store: &dyn TableStore, table: &TableName) -> Result<Option<Self>> {
        match store.write(table, self.operation(false)?).await {
            Err(e) if e.is_conflict() => Ok(None),
            other => {
                other.map(|written| Some(Self { at: None, finished: false, etag: written.etag, ..*self }))
            }
        }
    }

    /// Says that the run has ended. One request.
    pub(crate) async fn end(&self, store: &dyn TableStore, table: &TableName) -> Result<()> {
        match store.write(table, self.operation(true)?).await {
            // It took so long that another process has begun again.
            Err(e) if e.is_conflict() => Ok(()),
            other => other.map(drop),
        }
    }
}

/// What upkeep finds in a table.
pub(crate) struct ToKeep {
    /// What keeps its indexes; `None` where no program has opened the table with indexes. Then nothing of the manifest says so after
    /// this either: the first program that opens the table is the first.
    pub(crate) entities: Option<IndexedEntities>,
    pub(crate) kept: Kept,
}

impl IndexedEntities {
    /// Reads the manifest and opens the table as [`open_for_upkeep`](Self::open_for_upkeep) does, if a program has opened the table
    /// with indexes. One request, and then the requests of opening and of [`kept`](Self::kept).
    pub(crate) async fn find_to_keep(
        store: Arc<dyn TableStore>,
        table: TableName,
        options: IndexOptions,
    ) -> Result<ToKeep> {
        let loaded = ManifestRows { store: &*store, table: &table }.load().await?;
        if loaded.table.is_new() {
            return Ok(ToKeep { entities: None, kept: Kept::of(loaded.manifest) });
        }
        let entities = Self::open_for_upkeep(store, table, options).await?;
        let kept = entities.kept().await?;
        // Gone again, if there is none.
        let (entities, kept) =
            kept.map_or_else(|| (None, Kept::of(Manifest::default())), |kept| (Some(entities), kept));
        Ok(ToKeep { entities, kept })
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
        Ok(Some(Kept::of(loaded.manifest)))
    }

    /// The tables with reservations of unique values: the tables of remote unique entries.
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
}
