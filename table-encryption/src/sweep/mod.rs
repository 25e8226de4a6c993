//! Jobs on every entity of a table, page by page, while writers continue: rotating the key encryption key,
//! migrating to format v2.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use table_core::engine;
use table_core::model::{ETag, Entity, INDEX_TABLE, IfMatch, Key, Properties, TableName, ValueRef};
use table_core::query::{Continuation, Query, Select, UnreadableEntity};
use table_core::store::{
    Conflicts, CycleDetector, Error, ErrorKind, Operation, Result, TableStore,
};
use tokio::sync::Mutex;

use crate::data_key::{Secret, Wrapping};
use crate::error::{Failure, Unreadable};
use crate::store::{EncryptedStore, StoredForm, encrypt_entity};
use crate::v1::METADATA;
use crate::v2::{HEADER, Header, Scope, WriteKeys};

/// The result of a sweep for one entity.
#[derive(Debug, Default)]
pub(crate) struct SweptEntity {
    /// Whether the entity was written.
    pub(crate) changed: bool,
    /// The id of the entity's key encryption key, if the sweep has verified it; of a legacy entity, the key that it claims.
    pub(crate) key_id: Option<String>,
}

/// The work of a sweep on one entity.
#[async_trait]
pub(crate) trait Job: Send + Sync {
    /// Returns the properties that the job reads.
    fn select(&self) -> Option<Select>;

    /// Writes the entity under its ETag if it needs work. A conflict is an error of this entity.
    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure>;
}

/// A job over all entities of a table.
///
/// It reads the table page by page and writes the entities that need work under the ETag that it read. After
/// a conflict with another writer it reads the entity again. It can be stopped at any time, and resumed at
/// [`cursor`](Self::cursor) or restarted; finished entities are skipped. Deploy the new configuration to
/// every writer before the sweep, so that entities written during the sweep have the new form already.
///
/// An entity that cannot be processed is left unchanged, and is counted and listed in the
/// [progress](SweepProgress): because it is damaged or forged, its key is not available, it would become too
/// large, or other writers change it continually. The sweep continues with the others. **Check
/// [`SweepProgress::skipped`] before you drop a key or refuse plaintext.**
///
/// # Cost
/// 1 request per page, and 1 per entity that needs work; 2 more per conflict with another writer.
pub struct Sweep<'a, S, J> {
    store: &'a EncryptedStore<S>,
    job: J,
    table: TableName,
    from: Option<Continuation>,
    cycles: CycleDetector,
    done: bool,
    progress: SweepProgress,
    concurrency: usize,
    page_size: Option<usize>,
}

/// Default number of concurrent writes.
const CONCURRENCY: usize = 8;
/// Maximum number of attempts to write an entity that other writers change.
const ATTEMPTS: u32 = 10;

#[expect(private_bounds, reason = "the jobs are this crate's")]
impl<'a, S: TableStore, J: Job> Sweep<'a, S, J> {
    pub(crate) fn new(store: &'a EncryptedStore<S>, job: J, table: &TableName) -> Self {
        let (table, progress) = (table.clone(), SweepProgress::default());
        Self {
            store,
            job,
            table,
            from: None,
            cycles: CycleDetector::default(),
            done: false,
            progress,
            concurrency: CONCURRENCY,
            page_size: None,
        }
    }

    pub(crate) const fn job_mut(&mut self) -> &mut J {
        &mut self.job
    }

    /// Continues where an earlier sweep of the same kind and table stopped. The counts start at zero.
    #[must_use]
    pub fn resumed_at(mut self, cursor: Continuation) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Sets the maximum number of concurrent writes; at least 1, default 8.
    #[must_use]
    pub fn with_concurrency(mut self, writes: usize) -> Self {
        self.concurrency = writes.max(1);
        self
    }

    /// Sets the maximum number of entities per page; at least 1.
    #[must_use]
    pub fn with_page_size(mut self, entities: usize) -> Self {
        self.page_size = Some(entities.max(1));
        self
    }

    /// Processes one page. Returns whether more pages follow.
    ///
    /// # Errors
    /// Fails with the store's errors, if the key service is busy, is unreachable or does not wrap, and if the
    /// continuation tokens of the store form a cycle. The page can be processed again.
    pub async fn step(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let query = Query {
            filter: None,
            select: self.job.select(),
            top: self.page_size,
            ..Query::new()
        };
        let page = self
            .store
            .inner()
            .query(&self.table, &query, self.from.as_ref())
            .await?
            .into_page()?;
        let tables: Vec<_> = page.items.iter().filter_map(Entity::index_table).collect();
        let seen = page.items.len();
        let changes = stream::iter(page.items).map(|entity| self.change(entity));
        let found: Vec<_> = changes
            .buffer_unordered(self.concurrency)
            .try_collect()
            .await?;
        // After the entities: a page that is processed again has the same continuation.
        if let Some(next) = &page.continuation {
            self.cycles.add(next, seen)?;
        }
        self.progress.read += seen as u64;
        self.progress
            .index_tables
            .extend(tables.into_iter().filter(|table| *table != self.table));
        found.into_iter().for_each(|found| self.progress.add(found));
        // Only after every entity of the page: a sweep that stops before reads the page again and finds the finished entities done.
        self.done = page.continuation.is_none();
        self.from = page.continuation;
        Ok(!self.done)
    }

    /// Processes the remaining pages.
    ///
    /// # Errors
    /// Fails like [`step`](Self::step).
    pub async fn run(&mut self) -> Result<SweepProgress> {
        while self.step().await? {}
        Ok(self.progress.clone())
    }

    /// Returns the position: the next page, or `None` before the first and after the last page. Convert it to
    /// text to store it.
    pub const fn cursor(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// Returns the counts so far.
    pub const fn progress(&self) -> &SweepProgress {
        &self.progress
    }

    /// Processes an entity. Returns its result, or why it was left unchanged.
    async fn change(&self, entity: Entity) -> Result<Result<SweptEntity, (Key, Error)>> {
        let key = entity.key().clone();
        match self.change_now(entity).await {
            Ok(done) => Ok(Ok(done)),
            Err(Failure::OfEntity(error)) => Ok(Err((key, error))),
            Err(Failure::OfService(error)) => Err(error),
        }
    }

    /// Processes an entity, again after each conflict with another writer.
    async fn change_now(&self, mut entity: Entity) -> Result<SweptEntity, Failure> {
        let (key, select) = (entity.key().clone(), self.job.select());
        let mut conflicts = Conflicts::new(ATTEMPTS);
        loop {
            match self.job.change(&self.table, entity).await {
                Err(failure) if is_gone(&failure) => return Ok(SweptEntity::default()),
                Err(Failure::OfEntity(error))
                    if error.is_precondition_failed() && !error.is_ambiguous() =>
                {
                    conflicts.wait(error).await.map_err(Failure::OfEntity)?;
                }
                other => return other,
            }
            match self
                .store
                .fetch(&self.table, &key, select.as_ref())
                .await
                .map_err(Failure::OfService)?
            {
                None => return Ok(SweptEntity::default()),
                Some(now) => entity = now,
            }
        }
    }
}

/// Whether the entity was deleted after it was read.
fn is_gone(failure: &Failure) -> bool {
    matches!(failure, Failure::OfEntity(error) if error.is_certainly_missing())
}

/// Returns the ETag under which the sweep writes the entity. A missing ETag is an error of the store and not of the entity: such a store
/// returns no ETags at all.
fn etag_of(entity: &Entity) -> Result<ETag, Failure> {
    entity
        .etag()
        .cloned()
        .ok_or_else(|| Failure::OfService(Error::missing_etag(entity.key())))
}

/// Classifies the error of a write: a problem of the entity, or of the store.
pub(crate) fn classify_write_error(error: Error) -> Failure {
    let conflict = error.is_precondition_failed() || error.is_entity_not_found();
    let refused = matches!(
        error.root().kind(),
        ErrorKind::LimitExceeded { .. }
            | ErrorKind::InvalidKey { .. }
            | ErrorKind::InvalidName { .. }
            | ErrorKind::InvalidValue { .. }
            | ErrorKind::Encryption(_)
    );
    // An ambiguous error is the store's: the write may have happened, so the entity cannot be counted either way.
    if (conflict || refused) && !error.is_ambiguous() {
        Failure::OfEntity(error)
    } else {
        Failure::OfService(error)
    }
}

impl<S, J> fmt::Debug for Sweep<'_, S, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("table", &self.table)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

/// Maximum number of skipped entities that are listed.
const MAX_LISTED: usize = 100;

/// The counts of a sweep.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct SweepProgress {
    /// Number of entities read.
    pub read: u64,
    /// Number of entities written.
    pub changed: u64,
    /// Number of encrypted entities by the id of their current key encryption key. Only rotations count them,
    /// and only verified entities; a legacy entity counts by the key that it claims. A key is still needed if it
    /// has a count here or if entities were skipped.
    pub keys: BTreeMap<String, u64>,
    /// Number of entities that could not be processed and are unchanged.
    pub skipped: u64,
    /// The first 100 skipped entities, with the reasons.
    pub unreadable: Vec<UnreadableEntity>,
    /// Other tables that hold index entries of this table, according to its manifest. Entries hold properties
    /// of the entities, so **these tables need the same sweep**.
    pub index_tables: BTreeSet<TableName>,
}

impl SweepProgress {
    fn add(&mut self, found: Result<SweptEntity, (Key, Error)>) {
        match found {
            Ok(SweptEntity { changed, key_id }) => {
                self.changed += u64::from(changed);
                if let Some(id) = key_id {
                    *self.keys.entry(id).or_default() += 1;
                }
            }
            Err((key, error)) => {
                self.skipped += 1;
                if self.unreadable.len() < MAX_LISTED {
                    self.unreadable.push(UnreadableEntity { key, error });
                }
            }
        }
    }
}

/// Encrypts plaintext and legacy entities.
#[derive(Debug)]
pub struct Migration<'a, S> {
    store: &'a EncryptedStore<S>,
    reencrypts: bool,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Migrates a table to format v2. It converts properties in plaintext that the store's rules name,
    /// entities without the header that `require_encryption` demands, and legacy entities if the store reads
    /// them in this table.
    ///
    /// During the migration, readers need `accept_plaintext` or the legacy format. Remove these options
    /// afterwards, if nothing was [skipped](crate::SweepProgress::skipped). Former plaintext may remain in
    /// backups and on disks that the service has not overwritten yet.
    ///
    /// It migrates this table only. Index entries hold copies of properties: entries in other tables
    /// ([`SweepProgress::index_tables`](crate::SweepProgress::index_tables)) need rules and their own
    /// migration, or a repairing scrub of each index, which rewrites the entries. Keys of entries and sums
    /// that contain the value, and copies under other names, are not found by the property's name: drop such
    /// an index, or scrub the copies.
    pub fn migration<'a>(&'a self, table: &TableName) -> Sweep<'a, S, Migration<'a, S>> {
        Sweep::new(
            self,
            Migration {
                store: self,
                reencrypts: false,
            },
            table,
        )
    }
}

impl<'a, S: TableStore> Sweep<'a, S, Migration<'a, S>> {
    /// Also encrypts v2 entities again, with new data keys. Use this after an old key encryption key has
    /// leaked. It does not cover the blobs of large fields; `Table::rewrite_blobs` of `table-patterns` does.
    #[must_use]
    pub fn with_reencryption(mut self) -> Self {
        self.job_mut().reencrypts = true;
        self
    }
}

impl<S: TableStore> Migration<'_, S> {
    /// Returns the decrypted entity if it still needs to be migrated.
    async fn unfinished(
        &self,
        table: &TableName,
        entity: Entity,
    ) -> Result<Option<Entity>, Failure> {
        let id = self.store.table_id(table);
        let mut decryptor = self.store.decryptor(table, None);
        decryptor.accepts_plaintext = true;
        let stored = decryptor.stored(&entity).map_err(Failure::OfEntity)?;
        let (is_v2, is_legacy) = (
            matches!(stored, StoredForm::V2(_)),
            matches!(stored, StoredForm::V1(_)),
        );
        let rules = &self.store.shared.rules;
        let found_plaintext = rules.finds_plaintext(&id, &entity, |name| match &stored {
            StoredForm::V2(header) => header.find(name).is_some(),
            // A legacy entity lists its encrypted names only in ciphertext; it is migrated in any case.
            _ => is_legacy,
        });
        let lacks_header = !is_v2 && rules.requires(&id);
        if !(found_plaintext || lacks_header || is_legacy || is_v2 && self.reencrypts) {
            return Ok(None);
        }
        decryptor.decrypt_as(entity, stored).await.map(Some)
    }
}

#[async_trait]
impl<S: TableStore> Job for Migration<'_, S> {
    fn select(&self) -> Option<Select> {
        None
    }

    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure> {
        let etag = etag_of(&entity)?;
        let Some(mut entity) = self.unfinished(table, entity).await? else {
            return Ok(SweptEntity::default());
        };
        let id = self.store.table_id(table);
        if !encrypt_entity(&self.store.shared, &id, &mut entity)
            .await
            .map_err(classify_write_error)?
        {
            return Ok(SweptEntity::default());
        }
        // The whole entity under the ETag that was read: a merge would leave the metadata of the legacy format in the row.
        let operation = Operation::Replace(entity, IfMatch::Exactly(etag));
        engine::check_operation(self.store.inner().profile(), &operation)
            .map_err(classify_write_error)?;
        let written = self.store.inner().write(table, operation).await;
        written
            .map(|_| SweptEntity {
                changed: true,
                key_id: None,
            })
            .map_err(classify_write_error)
    }
}

/// Maximum number of data keys whose new wrapping is kept, about a kilobyte each with RSA.
const MAX_REWRAPPED: usize = 4096;

/// Wraps data keys again with the active key encryption key.
#[derive(Debug)]
pub struct Rotation<'a, S> {
    store: &'a EncryptedStore<S>,
    /// Whether the sweep only verifies and counts.
    only_counts: bool,
    /// The new wrapping of each old one.
    rewrapped: Mutex<HashMap<Wrapping, Arc<Wrapping>>>,
}

impl<S: TableStore> EncryptedStore<S> {
    /// Rotates the key encryption key of a table. Every data key that another key wraps is wrapped again with
    /// the active key. Entities are not encrypted again; only headers are read and merged.
    ///
    /// Every header is verified, also those under the active key. An entity whose header only *claims* a key
    /// (it is damaged, or another key of the same id wrapped it) is skipped and listed
    /// ([`SweepProgress::unreadable`](crate::SweepProgress::unreadable)).
    /// [`SweepProgress::keys`](crate::SweepProgress::keys) counts the others by key;
    /// [`counting`](Sweep::counting) only counts.
    ///
    /// The key service is called once per data key, and once more per rotated data key, not per entity.
    /// Afterwards, the *rows* that were not skipped no longer need the former key. Rotate tables of index
    /// entries ([`SweepProgress::index_tables`](crate::SweepProgress::index_tables)) separately. Blobs and
    /// legacy entities are not rotated: `Table::rewrite_blobs` of `table-patterns` moves the blobs of large
    /// fields to the active key and counts them by key. **Drop the former key only after that.**
    pub fn rotation<'a>(&'a self, table: &TableName) -> Sweep<'a, S, Rotation<'a, S>> {
        Sweep::new(
            self,
            Rotation {
                store: self,
                only_counts: false,
                rewrapped: Mutex::default(),
            },
            table,
        )
    }
}

impl<'a, S: TableStore> Sweep<'a, S, Rotation<'a, S>> {
    /// Only verifies and counts the entities per key, and legacy entities by the key that they claim. 1
    /// request per page.
    #[must_use]
    pub fn counting(mut self) -> Self {
        self.job_mut().only_counts = true;
        self
    }
}

impl<S: TableStore> Rotation<'_, S> {
    /// Returns the data key wrapped by the active key. It is wrapped once for all entities that share it.
    async fn rewrap(&self, old: &Wrapping, secret: &Secret) -> Result<Arc<Wrapping>> {
        // Held while the key service answers, so that entities that share a data key cause one call.
        let mut rewrapped = self.rewrapped.lock().await;
        if let Some(new) = rewrapped.get(old) {
            return Ok(Arc::clone(new));
        }
        let new = Arc::new(self.store.shared.keys.wrap(secret).await?);
        // Forgetting costs a second wrapping of a data key, never correctness.
        if rewrapped.len() == MAX_REWRAPPED {
            rewrapped.clear();
        }
        rewrapped.insert(old.clone(), Arc::clone(&new));
        Ok(new)
    }

    fn is_current(&self, wrapping: &Wrapping) -> bool {
        let active = self.store.shared.keys.keys().active();
        *wrapping.key_id == *active.key_id() && *wrapping.algorithm == *active.algorithm()
    }

    /// Returns the keys of the write that created a header, after verifying the header with them.
    async fn verified(
        &self,
        header: &Header,
        scope: Scope,
    ) -> Result<(Arc<Secret>, WriteKeys), Unreadable> {
        let secret = self.store.shared.keys.open(&header.wrapping).await?;
        let keys = WriteKeys::derive(&secret, &header.salt, scope);
        if header.is_signed_by(&keys) {
            Ok((secret, keys))
        } else {
            Err(Unreadable::Refused)
        }
    }
}

#[async_trait]
impl<S: TableStore> Job for Rotation<'_, S> {
    fn select(&self) -> Option<Select> {
        Some(Select::new(
            std::iter::once(HEADER).chain(METADATA).chain([INDEX_TABLE]),
        ))
    }

    async fn change(&self, table: &TableName, entity: Entity) -> Result<SweptEntity, Failure> {
        let decryptor = self.store.decryptor(table, None);
        let header = match decryptor.stored(&entity).map_err(Failure::OfEntity)? {
            StoredForm::Plain => return Ok(SweptEntity::default()),
            StoredForm::V1(metadata) => {
                return Ok(SweptEntity {
                    changed: false,
                    key_id: Some(metadata.key_id),
                });
            }
            StoredForm::V2(header) => *header,
        };
        let scope = Scope::of_entity(&self.store.table_id(table), entity.key());
        // Also under the active key: the id is a claim of the row's writer, and the count of keys decides whether a key is dropped.
        let (secret, keys) = self
            .verified(&header, scope)
            .await
            .map_err(|e| e.failure(table, entity.key()))?;
        if self.only_counts || self.is_current(&header.wrapping) {
            return Ok(SweptEntity {
                changed: false,
                key_id: Some(header.wrapping.key_id.into()),
            });
        }
        let wrapping = self
            .rewrap(&header.wrapping, &secret)
            .await
            .map_err(Failure::OfService)?;
        let key_id = Some(wrapping.key_id.to_string());
        let header = header.rewrapped(Wrapping::clone(&wrapping), &keys);
        let mut properties = Properties::new();
        properties.put(HEADER, ValueRef::Binary(&header.to_bytes()), false);
        // Under the ETag: a header of an earlier write in a row of a later write would make the row unreadable. Each row is changed by one
        // request, so a stop at any point leaves every row under the old or under the new key, and readers have both.
        let etag = etag_of(&entity)?;
        let patch = Entity::from_parts(entity.key().clone(), properties);
        let written = self
            .store
            .inner()
            .write(table, Operation::Merge(patch, IfMatch::Exactly(etag)))
            .await;
        written
            .map(|_| SweptEntity {
                changed: true,
                key_id,
            })
            .map_err(classify_write_error)
    }
}
