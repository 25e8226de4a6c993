//! What is known of the manifests of a store, shared by all who write through it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{LocalPermit, LocalWriters, TableStore, TableStoreExt as _};
use crate::error::{Error, ErrorKind, Result};
use crate::manifest::Manifest;
use crate::model::{MANIFEST_PARTITION, TableName};
use crate::profile::ServiceProfile;
use crate::query::{Filter, Query};

/// How long one who needs a manifest waits for another who reads it; then it reads itself.
const WAIT: Duration = Duration::from_secs(5);
/// Tables that are kept; of more, those are dropped that nobody has asked for lately.
const TABLES: usize = 1024;

/// What is known of the manifests of a store's tables: one for each store in a process ([`TableStore::manifests`]), which its clones and
/// adapters share. Who writes rows asks it before each write, so that no program misses an index that another one has declared.
///
/// A manifest is read when it is asked for and was not read for [`LIFE`](Self::LIFE); that it is empty is remembered as well. Who
/// writes a row of a manifest through the store, creates a table or deletes one, changes what is known at once. What other
/// processes write is known after [`LIFE`](Self::LIFE) at most.
pub struct ManifestCache {
    profile: ServiceProfile,
    /// Whether every manifest is taken for an empty one.
    unmanaged: bool,
    /// By the table's identity. What is forgotten is taken out, so that a read of before, which may still be under way, is not
    /// taken for one of after.
    tables: Mutex<HashMap<String, Arc<Slot>>>,
}

/// What is known of one table.
#[derive(Default)]
struct Slot {
    known: Mutex<Option<Known>>,
    /// One reads for all who wait.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Known {
    manifest: Arc<Manifest>,
    asked: Asked,
}

/// When a manifest was asked for: by the changes that other handles of this process told before, and by the clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    change: u64,
    at: Instant,
}

impl ManifestCache {
    /// How long a manifest is used after it was asked for: 30 seconds. A program that writes plain rows
    /// ([`Table`](crate::typed::Table)) learns of an index so long after it was declared at most.
    pub const LIFE: Duration = Duration::from_secs(30);

    /// One for a store with this profile, that knows nothing yet.
    pub fn new(profile: &ServiceProfile) -> Self {
        Self { profile: profile.clone(), unmanaged: false, tables: Mutex::default() }
    }

    /// One for a store whose credential may not read manifests: it reads none, takes every manifest for an empty one, and refuses
    /// no write.
    pub fn unmanaged(profile: &ServiceProfile) -> Self {
        Self { unmanaged: true, ..Self::new(profile) }
    }

    /// That of the store; one of its own for a store that has none.
    pub fn over(store: &dyn TableStore) -> Arc<Self> {
        store.manifests().unwrap_or_else(|| Arc::new(Self::new(store.profile())))
    }

    /// The manifest of a table. One request where it was not asked for within [`LIFE`](Self::LIFE), or has changed through this
    /// store since; none otherwise. Dropped before it is done, it leaves nothing; another one who waits reads.
    ///
    /// # Errors
    /// As for [`Manifest::load`], a missing table among them. Nothing is remembered then.
    pub async fn of(&self, store: &dyn TableStore, table: &TableName) -> Result<Arc<Manifest>> {
        if self.unmanaged {
            return Ok(Arc::default());
        }
        let (identity, local) = (self.profile.table_identity(table), store.local_writers());
        loop {
            let slot = self.slot(&identity);
            if let Some(manifest) = slot.fresh(local.as_deref(), &identity) {
                return Ok(manifest);
            }
            // One whose future nobody polls holds up nobody for long.
            let _turn = timeout(WAIT, slot.reading.lock()).await;
            if !self.is_current(&identity, &slot) {
                continue;
            }
            if let Some(manifest) = slot.fresh(local.as_deref(), &identity) {
                return Ok(manifest);
            }
            let asked = Asked::now(local.as_deref());
            let manifest = Arc::new(Manifest::load(store, table).await?);
            slot.keep(Known { manifest: Arc::clone(&manifest), asked });
            return Ok(manifest);
        }
    }

    /// The manifest of a table, if that needs no request: see [`of`](Self::of).
    pub fn known(&self, store: &dyn TableStore, table: &TableName) -> Option<Arc<Manifest>> {
        if self.unmanaged {
            return Some(Arc::default());
        }
        let identity = self.profile.table_identity(table);
        let slot = self.tables().get(&identity).cloned()?;
        slot.fresh(store.local_writers().as_deref(), &identity)
    }

    /// What a write of plain rows rests on: the manifest, and where only this process writes the store the permit that a change of
    /// the manifest waits for. Keep it until the write is done. As many requests as [`of`](Self::of).
    ///
    /// # Errors
    /// As there. Who may not read the manifest is told what else to do.
    pub async fn plain_write(&self, store: &dyn TableStore, table: &TableName) -> Result<PlainWrite> {
        // Before it is looked: who changes the manifest waits for the permit, or is known here.
        let permit = store.local_writers().map(|local| local.enter());
        match self.of(store, table).await {
            Ok(manifest) => Ok(PlainWrite { manifest, _permit: permit }),
            Err(error) => Err(explained(error, table)),
        }
    }

    /// Forgets what is known of a table: who asks next reads it.
    pub fn forget(&self, table: &TableName) {
        self.tables().remove(&self.profile.table_identity(table));
    }

    /// Says that the manifest of a table changes, or the table as a whole, until the answer is dropped: what was read before that is
    /// forgotten.
    #[must_use]
    pub fn change(self: &Arc<Self>, table: &TableName) -> ManifestChange {
        self.forget(table);
        ManifestChange { cache: Arc::clone(self), table: table.clone() }
    }

    /// The same, if rows of this partition are the manifest's: for a store that is about to write them.
    #[must_use]
    pub fn change_of(self: &Arc<Self>, table: &TableName, partition: &str) -> Option<ManifestChange> {
        (partition == MANIFEST_PARTITION).then(|| self.change(table))
    }

    /// Says that a table is about to be created: for a store, which says by [`NewTable::created`] that it was.
    pub fn new_table(self: &Arc<Self>, table: &TableName, local: Option<&LocalWriters>) -> NewTable {
        let identity = self.profile.table_identity(table);
        // What is known stays, for a table that turns out to be there.
        let slot = self.slot(&identity);
        NewTable { cache: Arc::clone(self), identity, slot, asked: Asked::now(local) }
    }

    fn slot(&self, identity: &str) -> Arc<Slot> {
        if let Some(slot) = self.tables().get(identity) {
            return Arc::clone(slot);
        }
        self.make_room();
        Arc::clone(self.tables().entry(identity.to_owned()).or_default())
    }

    fn is_current(&self, identity: &str, slot: &Arc<Slot>) -> bool {
        self.tables().get(identity).is_some_and(|current| Arc::ptr_eq(current, slot))
    }

    /// A program may go through any number of tables, such as slices of time.
    fn make_room(&self) {
        let mut tables = self.tables();
        if tables.len() >= TABLES {
            tables.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_young());
        }
        if tables.len() >= TABLES {
            tables.clear();
        }
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn fresh(&self, local: Option<&LocalWriters>, identity: &str) -> Option<Arc<Manifest>> {
        let known = self.known();
        let Known { manifest, asked } = known.as_ref()?;
        let is_last = local.is_none_or(|local| local.changed(identity) <= asked.change);
        (is_last && asked.is_young()).then(|| Arc::clone(manifest))
    }

    /// Takes over what was read, unless a later read is known: an answer that was long on its way says what was true before.
    fn keep(&self, read: Known) {
        let mut known = self.known();
        if known.as_ref().is_none_or(|before| before.asked <= read.asked) {
            *known = Some(read);
        }
    }

    fn is_young(&self) -> bool {
        self.known().as_ref().is_some_and(|known| known.asked.is_young())
    }

    fn known(&self) -> MutexGuard<'_, Option<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    fn now(local: Option<&LocalWriters>) -> Self {
        Self { change: local.map_or(0, LocalWriters::last), at: Instant::now() }
    }

    fn is_young(&self) -> bool {
        self.at.elapsed() < ManifestCache::LIFE
    }
}

impl Manifest {
    /// Reads the manifest of a table. One request.
    ///
    /// # Errors
    /// A row is damaged; the storage's.
    pub async fn load(store: &dyn TableStore, table: &TableName) -> Result<Self> {
        let query = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION));
        Self::from_rows(store.query_all(table, &query).await?)
    }
}

/// What a write of plain rows rests on, until it is done: see [`ManifestCache::plain_write`].
#[derive(Debug)]
pub struct PlainWrite {
    manifest: Arc<Manifest>,
    _permit: Option<LocalPermit>,
}

impl PlainWrite {
    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// A guest's credential may be good for rows of one partition alone.
fn explained(error: Error, table: &TableName) -> Error {
    let ErrorKind::Forbidden(reason) = error.kind() else { return error };
    let kind = ErrorKind::Forbidden(format!(
        "{reason}; a write of '{table}' reads its manifest first, which this credential may not: allow it to read the partition \
         '{MANIFEST_PARTITION}', or, where no index and no layout is of what is written, ask for it by `unmanaged()` \
         (of the table, or of the store for other handles; `write_indexed` of a bulk write)"
    ));
    let told = match error.answer().cloned() {
        Some(answer) => Error::new(kind).with_answer(answer),
        None => Error::new(kind),
    };
    told.with_source(error)
}

impl fmt::Debug for ManifestCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestCache").field("tables", &self.tables().len()).finish_non_exhaustive()
    }
}

/// A change of a manifest that is under way until this is dropped.
#[derive(Debug)]
pub struct ManifestChange {
    cache: Arc<ManifestCache>,
    table: TableName,
}

impl Drop for ManifestChange {
    fn drop(&mut self) {
        self.cache.forget(&self.table);
    }
}

/// A table that is being created.
#[must_use]
pub struct NewTable {
    cache: Arc<ManifestCache>,
    identity: String,
    slot: Arc<Slot>,
    asked: Asked,
}

impl NewTable {
    /// It was, so that its manifest was empty when it was asked for; unless somebody in this process has written it since.
    pub fn created(self) {
        if self.cache.is_current(&self.identity, &self.slot) {
            self.slot.keep(Known { manifest: Arc::default(), asked: self.asked });
        }
    }
}

impl fmt::Debug for NewTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTable").field("table", &self.identity).finish_non_exhaustive()
    }
}
