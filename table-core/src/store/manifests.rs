//! The cache of manifests, which all handles of a store in a process share.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout};

use super::{LocalPermit, LocalWriters, TableStore, TableStoreExt as _};
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::manifest::{Consent, Manifest, consents_to};
use crate::model::{MANIFEST_PARTITION, TableName};
use crate::profile::ServiceProfile;
use crate::query::{Filter, Query};

/// How long a task waits for another task that reads the same manifest. Afterwards it reads the manifest itself.
const READ_WAIT: Duration = Duration::from_secs(5);
/// Tables whose consents are read at the same time.
const CONSENTS_AT_ONCE: usize = 16;
/// Maximum number of cached tables. Beyond it the cache removes outdated manifests.
const MAX_TABLES: usize = 1024;

/// The manifests of a store's tables, as far as this process has read them ([`StoreContext::manifests`](super::StoreContext::manifests)). The clones and
/// adapters of a store share one cache. Every writer asks it before each write, so that no program misses an index
/// that another program has declared.
///
/// A cached manifest is used for [`LIFE`](Self::LIFE), also if it is empty. If this process writes a manifest row or
/// deletes a table, the table's cached manifest is removed at once; if this process creates a table, an empty manifest
/// is cached. Writes of manifests by other processes are known after at most [`LIFE`](Self::LIFE).
pub struct ManifestCache {
    profile: ServiceProfile,
    /// Whether the cache returns empty manifests without reading.
    unmanaged: bool,
    /// By the table's identity. A read that started before `forget` fills the slot that `forget` removed, so
    /// an outdated answer never reaches the map.
    tables: Mutex<HashMap<String, Arc<Slot>>>,
    /// The number of forgotten manifests. A manifest that rests on consents of other tables is not cached if one of these may have
    /// changed during the read.
    forgotten: AtomicU64,
}

/// The cached manifest of one table.
#[derive(Default)]
struct Slot {
    cached: Mutex<Option<CachedManifest>>,
    /// Locked by the task that reads the manifest; the other tasks wait for its answer.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedManifest {
    manifest: Arc<Manifest>,
    requested: RequestTime,
}

/// When the request for a manifest was sent: the last change of any manifest before it in this process, and the time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RequestTime {
    change: u64,
    at: Instant,
}

impl ManifestCache {
    /// How long a manifest is used, from the moment when its request was sent: 30 seconds. A program that writes plain
    /// rows knows an index at most this long after its declaration.
    pub const LIFE: Duration = Duration::from_secs(30);

    /// Creates an empty cache for a store with this profile.
    pub fn new(profile: &ServiceProfile) -> Self {
        Self {
            profile: profile.clone(),
            unmanaged: false,
            tables: Mutex::default(),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Creates a cache for a store whose credential may not read manifests. The cache sends no requests and returns empty
    /// manifests, so no write is refused.
    pub fn unmanaged(profile: &ServiceProfile) -> Self {
        Self {
            unmanaged: true,
            ..Self::new(profile)
        }
    }

    /// Whether the cache was created by [`unmanaged`](Self::unmanaged).
    pub(crate) const fn is_unmanaged(&self) -> bool {
        self.unmanaged
    }

    /// Returns the manifest of a table. No request if it was requested within [`LIFE`](Self::LIFE) and has not changed
    /// through this store since; otherwise 1 request.
    ///
    /// If the future is dropped, the cache does not change and another waiting task sends the request.
    ///
    /// # Errors
    /// Returns the errors of [`Manifest::load`], for example for a missing table. Errors are not cached.
    pub(crate) async fn get<S: TableStore + ?Sized>(
        &self,
        store: &S,
        table: &TableName,
    ) -> Result<Arc<Manifest>> {
        if self.unmanaged {
            return Ok(Arc::default());
        }
        let identity = self.profile.table_identity(table);
        let local = store.context().local_writers().map(|local| &**local);
        loop {
            let slot = self.slot(&identity);
            if let Some(manifest) = slot.fresh(local, &identity) {
                return Ok(manifest);
            }
            // The wait is bounded, because the task that reads may not poll its future.
            let _reading = timeout(READ_WAIT, slot.reading.lock()).await;
            // A change removed the slot while this task waited. The slot of the change may have a newer manifest.
            if !self.is_current(&identity, &slot) {
                continue;
            }
            if let Some(manifest) = slot.fresh(local, &identity) {
                return Ok(manifest);
            }
            // Before the request. With local writers, a change that follows has a later number, and `fresh` then
            // refuses the answer, whether or not the answer has the change.
            let requested = RequestTime::now(local);
            let forgotten = self.forgotten.load(Ordering::SeqCst);
            let manifest = Arc::new(Manifest::load(store, table).await?);
            let leaves_table = manifest
                .all_definitions()
                .any(|index| index.table.is_some());
            if !leaves_table || forgotten == self.forgotten.load(Ordering::SeqCst) {
                slot.put(CachedManifest {
                    manifest: Arc::clone(&manifest),
                    requested,
                });
            }
            return Ok(manifest);
        }
    }

    /// Returns the manifest of a table if [`get`](Self::get) would send no request.
    pub(crate) fn known(
        &self,
        local: Option<&LocalWriters>,
        table: &TableName,
    ) -> Option<Arc<Manifest>> {
        if self.unmanaged {
            return Some(Arc::default());
        }
        let identity = self.profile.table_identity(table);
        let slot = self.tables().get(&identity).cloned()?;
        slot.fresh(local, &identity)
    }

    /// Removes the manifest of a table from the cache, and every manifest with a definition that needs the table's consent.
    pub fn forget(&self, table: &TableName) {
        self.forgotten.fetch_add(1, Ordering::SeqCst);
        let mut tables = self.tables();
        tables.remove(&self.profile.table_identity(table));
        tables.retain(|_, slot| !slot.names(&self.profile, table));
    }

    /// Registers that the manifest of a table, or the table itself, changes until the result is dropped. The cache forgets
    /// the manifest now and again when the result is dropped.
    #[must_use]
    pub fn change(self: &Arc<Self>, table: &TableName) -> ManifestChange {
        self.forget(table);
        // Once is not enough: a task may read the manifest while the request of the change is under way, and cache
        // the state from before it. So the drop forgets the manifest again.
        ManifestChange {
            cache: Arc::clone(self),
            table: table.clone(),
        }
    }

    /// Calls [`change`](Self::change) if the partition is the manifest's. A store calls it before it writes the partition.
    #[must_use]
    pub fn change_of(
        self: &Arc<Self>,
        table: &TableName,
        partition: &str,
    ) -> Option<ManifestChange> {
        (partition == MANIFEST_PARTITION).then(|| self.change(table))
    }

    /// Registers the start of a table's creation. A store calls it before the request, and [`NewTable::created`] after the
    /// request has succeeded: a new table has an empty manifest, which the cache then need not read.
    pub(crate) fn new_table(
        self: &Arc<Self>,
        table: &TableName,
        local: Option<&LocalWriters>,
    ) -> NewTable {
        let identity = self.profile.table_identity(table);
        // A cached manifest stays, because the table may exist already.
        let slot = self.slot(&identity);
        NewTable {
            cache: Arc::clone(self),
            identity,
            slot,
            requested: RequestTime::now(local),
        }
    }

    fn slot(&self, identity: &str) -> Arc<Slot> {
        if let Some(slot) = self.tables().get(identity) {
            return Arc::clone(slot);
        }
        // Another task may add the slot before the second lock; `entry` then finds it.
        self.evict();
        Arc::clone(self.tables().entry(identity.to_owned()).or_default())
    }

    fn is_current(&self, identity: &str, slot: &Arc<Slot>) -> bool {
        self.tables()
            .get(identity)
            .is_some_and(|current| Arc::ptr_eq(current, slot))
    }

    /// Limits the number of cached tables: a program may use any number of tables, such as time slices. Removes outdated
    /// manifests first, and all manifests if that is not enough.
    fn evict(&self) {
        let mut tables = self.tables();
        if tables.len() >= MAX_TABLES {
            // A task that holds a slot is about to fill it.
            tables.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_young());
        }
        if tables.len() >= MAX_TABLES {
            tables.clear();
        }
    }

    fn tables(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn fresh(&self, local: Option<&LocalWriters>, identity: &str) -> Option<Arc<Manifest>> {
        let cached = self.cached();
        let CachedManifest {
            manifest,
            requested,
        } = cached.as_ref()?;
        let has_all_changes =
            local.is_none_or(|local| local.last_change_of(identity) <= requested.change);
        (has_all_changes && requested.is_young()).then(|| Arc::clone(manifest))
    }

    /// Caches an answer, unless the cached answer belongs to a later request. Answers may arrive in another order than
    /// their requests.
    fn put(&self, answer: CachedManifest) {
        let mut cached = self.cached();
        if cached
            .as_ref()
            .is_none_or(|before| before.requested <= answer.requested)
        {
            *cached = Some(answer);
        }
    }

    /// Whether a definition of the cached manifest names another table.
    fn names(&self, profile: &ServiceProfile, other: &TableName) -> bool {
        self.cached().as_ref().is_some_and(|cached| {
            let named = cached
                .manifest
                .all_definitions()
                .filter_map(|index| index.table.as_ref());
            { named }.any(|named| profile.is_same_table(named, other))
        })
    }

    fn is_young(&self) -> bool {
        self.cached()
            .as_ref()
            .is_some_and(|cached| cached.requested.is_young())
    }

    fn cached(&self) -> MutexGuard<'_, Option<CachedManifest>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestTime {
    fn now(local: Option<&LocalWriters>) -> Self {
        Self {
            change: local.map_or(0, LocalWriters::last_change),
            at: Instant::now(),
        }
    }

    fn is_young(&self) -> bool {
        self.at.elapsed() < ManifestCache::LIFE
    }
}

impl Manifest {
    /// Reads the manifest of a table. 1 request per 1,000 rows of the manifest, so in practice 1 request; 1 more for each other
    /// table that a definition names, to read the consents of that table.
    ///
    /// # Errors
    /// Returns the errors of the store. A row that is damaged is [refused](Self::refused) by itself.
    pub async fn load<S: TableStore + ?Sized>(store: &S, table: &TableName) -> Result<Self> {
        let query = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION));
        let rows = store.query_all(table, &query).await?;
        let mut manifest = Self::from_rows(store.profile(), table, rows);
        manifest.read_consents(store, table).await?;
        Ok(manifest)
    }

    /// Moves the definitions to which their other tables have consented to the indexes in force. 1 request for each other table;
    /// none if this table has no pairing id, which every consent names.
    async fn read_consents<S: TableStore + ?Sized>(
        &mut self,
        store: &S,
        table: &TableName,
    ) -> Result<()> {
        let Some(pairing) = self.pairing() else {
            return Ok(());
        };
        let profile = store.profile();
        let mut others: Vec<TableName> = Vec::new();
        for other in self
            .not_in_force
            .iter()
            .filter_map(|index| index.table.as_ref())
        {
            if !others
                .iter()
                .any(|known| profile.is_same_table(known, other))
            {
                others.push(other.clone());
            }
        }
        // More tables are not asked: each would cost every reader of the manifest a request.
        let unasked = others.split_off(others.len().min(limits::INDEX_DEFINITIONS));
        let query = Query::new().with_filter(consents_to(profile, table));
        let reads: Vec<_> = others
            .iter()
            .map(|other| store.query_all(other, &query))
            .collect();
        let answers: Vec<_> = stream::iter(reads)
            .buffered(CONSENTS_AT_ONCE)
            .collect()
            .await;
        let mut consents = HashMap::new();
        for (other, answer) in others.iter().zip(answers) {
            let read = match answer {
                Ok(rows) => Ok(rows.iter().filter_map(Consent::read).collect::<Vec<_>>()),
                // A definition makes no table. A dropped table has taken its consents along.
                Err(error) if error.is_table_not_found() => Ok(Vec::new()),
                Err(error) if matches!(error.kind(), ErrorKind::Forbidden(_)) => {
                    Err(error.to_string())
                }
                Err(error) => return Err(error),
            };
            consents.insert(profile.table_identity(other), read);
        }
        for other in unasked {
            let reason = format!(
                "the definitions name more than {} other tables",
                limits::INDEX_DEFINITIONS
            );
            consents.insert(profile.table_identity(&other), Err(reason));
        }
        self.admit(|index| {
            let other = index
                .table
                .as_ref()
                .map(|other| profile.table_identity(other));
            match other.and_then(|other| consents.get(&other)) {
                Some(Ok(given)) => given
                    .iter()
                    .any(|consent| consent.is_to(profile, table, pairing, index)),
                Some(Err(reason)) => {
                    index.unconfirmed = Some(reason.clone());
                    true
                }
                None => false,
            }
        });
        Ok(())
    }
}

/// The manifest for a write of plain rows, and the permit of the write: see [`TableStoreExt::plain_write`](super::TableStoreExt::plain_write).
#[derive(Debug)]
pub struct PlainWrite {
    manifest: Arc<Manifest>,
    _permit: Option<LocalPermit>,
}

impl PlainWrite {
    pub(super) const fn new(manifest: Arc<Manifest>, permit: Option<LocalPermit>) -> Self {
        Self {
            manifest,
            _permit: permit,
        }
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// Adds advice if the credential may not read the manifest, for example because it is valid for one partition only.
pub(super) fn with_advice(error: Error, table: &TableName) -> Error {
    let ErrorKind::Forbidden(reason) = error.kind() else {
        return error;
    };
    let kind = ErrorKind::Forbidden(format!(
        "{reason}; a write of '{table}' first reads the table's manifest, and the credential does not allow this. Allow it to read \
         the partition '{MANIFEST_PARTITION}'. If the written entities have no index and no layout, use `ignoring_indexes()` of the table \
         or `unmanaged()` of the store instead, or `write_indexed` of a bulk write"
    ));
    error.into_cause_of(kind)
}

impl fmt::Debug for ManifestCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestCache")
            .field("tables", &self.tables().len())
            .finish_non_exhaustive()
    }
}

/// A change of a manifest in progress. When it is dropped, the cache forgets the manifest again.
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

/// The creation of a table in progress: see [`StoreContext::new_table`](super::StoreContext::new_table).
#[must_use]
pub struct NewTable {
    cache: Arc<ManifestCache>,
    identity: String,
    slot: Arc<Slot>,
    requested: RequestTime,
}

impl NewTable {
    /// Caches an empty manifest, because the table is new. Does nothing if this process has changed the manifest since the
    /// creation started.
    pub fn created(self) {
        if self.cache.is_current(&self.identity, &self.slot) {
            self.slot.put(CachedManifest {
                manifest: Arc::default(),
                requested: self.requested,
            });
        }
    }
}

impl fmt::Debug for NewTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewTable")
            .field("table", &self.identity)
            .finish_non_exhaustive()
    }
}
