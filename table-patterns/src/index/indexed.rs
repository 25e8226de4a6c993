use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use table_core::model::{Entity, Key, TableName};
use table_core::queue::WorkQueue;
use table_core::store::{Error, ErrorKind, Result, TableStore, TableStoreExt as _};
use tokio::time::sleep;

use super::catalog::{Catalog, CatalogEntry, Loaded};
use super::definition::Index;
use super::entry::Maintainer as _;
use super::owner;
use super::set::IndexSet;
use super::state::IndexState;
use super::table_row::TableRow;
use crate::journal::{Acknowledge, Change, Committed, Entries, Journal, Rule, Timing, before};

/// How an [`IndexedEntities`] behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IndexOptions {
    /// The durations of the cross-partition protocol.
    pub timing: Timing,
    /// For how long the states of indexes may be cached; a change of state waits this long, and the
    /// longest life of a request: the longest of any process that has opened the table.
    pub cache: Duration,
    /// How often a read-modify-write is tried when others write the same entity.
    pub attempts: u32,
    /// Where tickets go; without a queue a sweep finds what crashes leave.
    pub queue: Option<Arc<dyn WorkQueue>>,
    /// When writes answer.
    pub acknowledge: Acknowledge,
    /// Where lists are kept that an index puts into blobs, below `{table}-{id}/{index}/`. The id is drawn when the
    /// table is first opened with a store of blobs, and is in its catalog: tables of one name in several stores can
    /// share a store of blobs. A copy of a table with its catalog has the id too: give it blobs of its own.
    pub blobs: Option<Arc<dyn ObjectStore>>,
    /// Requests at once when references are followed, partitions are merged, and entries are checked.
    pub concurrency: usize,
    /// Indexes that are left absent in a new table, to be built once it is loaded: writes do not maintain
    /// them until then.
    pub built_later: Vec<String>,
}

impl Default for IndexOptions {
    /// States cached for 30 seconds, 10 attempts, no queue, an answer when entries are in step, 16
    /// reads at once, every index from the start.
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            cache: Duration::from_secs(30),
            attempts: 10,
            queue: None,
            acknowledge: Acknowledge::Applied,
            blobs: None,
            concurrency: 16,
            built_later: Vec::new(),
        }
    }
}

impl IndexOptions {
    /// Short durations, for a store in this process: what is dropped there is done before anything that is
    /// asked for later, or never, so that state changes and recovery need not wait minutes. Leases of a
    /// second, a quarter of it for a request, states cached for a tenth. Not for a service, where a write takes longer
    /// than states are cached.
    ///
    /// # Panics
    /// Never: the durations are consistent.
    pub fn local() -> Self {
        let timing = Timing::new(Duration::from_secs(1), Duration::from_millis(250), Duration::ZERO);
        let timing = timing.expect("a lease of four requests is long enough");
        Self { timing, cache: Duration::from_millis(100), ..Self::default() }
    }
}

/// Entities of one table, written together with the entries of its indexes.
///
/// The dynamic form: see [`IndexedTable`](super::IndexedTable) for typed entities. Every write goes
/// through `update(old, new)`, so that no entry is left stale.
#[derive(Clone, Debug)]
pub struct IndexedEntities {
    store: Arc<dyn TableStore>,
    pub(super) set: Arc<IndexSet>,
    pub(super) journal: Journal,
    pub(super) options: IndexOptions,
}

impl IndexedEntities {
    /// Opens a table with its indexes. The first who opens an empty table registers them (up to 99) as readable;
    /// an index that comes later is absent until it is [built](Self::build), even if the table is still empty: others
    /// write by then that do not know it. Two requests, and one for each other table of entries; the first time
    /// two more, and one for each of those; one more where this process waits or caches longer than any
    /// before it.
    ///
    /// # Errors
    /// An index makes no sense, two have one name, or one needs blobs and has no store for them; the table or one for entries is
    /// missing, or that has the entries of another table; the catalog has an index that is not given here,
    /// or another definition: see [`drop_outdated`](Self::drop_outdated).
    pub async fn open(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        let mut this = Self::unopened(store, table, indexes, options)?;
        this.register().await?;
        Ok(this)
    }

    /// Before the catalog was asked.
    pub(super) fn unopened(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        check(&indexes, &options)?;
        store.profile().check_reads("indexes")?;
        let set = Arc::new(IndexSet::new(table.clone(), indexes, options.cache));
        let mut journal = Journal::new(store.clone(), table, set.clone()).with_timing(options.timing);
        if let Some(queue) = &options.queue {
            journal = journal.with_queue(queue.clone());
        }
        Ok(Self { store, set, journal, options })
    }

    async fn register(&mut self) -> Result<()> {
        owner::claim_tables(&*self.store, self.table(), self.set.indexes()).await?;
        let Loaded { indexes: known, table } = self.catalog().load().await?;
        let mine = TableRow::of(&self.options);
        let row = match known.is_empty() && table.is_new() && self.register_first(&mine).await? {
            true => mine,
            // Before the states are read: who changes one waits for those that are known.
            false => self.catalog().remember(table, &mine).await?,
        };
        self.keep_blobs(&row);
        self.refresh().await
    }

    /// Whether this is the first to open the table, and it is empty: then nobody writes without the indexes, and
    /// they are readable at once. They come with the row by which the next one sees that the table was opened.
    async fn register_first(&self, row: &TableRow) -> Result<bool> {
        let later = |index: &Index| self.options.built_later.iter().any(|name| name == index.name());
        let beside_the_row = self.store.profile().group_operations - 1;
        let indexes = self.set.indexes().iter().filter(|index| !later(index)).take(beside_the_row);
        let indexes: Vec<_> = indexes.collect();
        if indexes.is_empty() || !self.catalog().is_empty_table().await? {
            return Ok(false);
        }
        self.catalog().found(row, &indexes).await
    }

    /// Lists go into a folder of this table of this store, whatever others there are in the store of blobs.
    pub(super) fn keep_blobs(&mut self, row: &TableRow) {
        if let (Some(blobs), Some(id)) = (&self.options.blobs, &row.blobs) {
            let folder = format!("{}-{id}", self.table().to_lowercase());
            self.journal = self.journal.clone().with_blobs(blobs.clone(), folder);
        }
    }

    /// The journal, for workers and sweeps.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    /// The table.
    pub const fn table(&self) -> &TableName {
        self.journal.table()
    }

    /// The state of an index as it was last read.
    pub fn state(&self, index: &str) -> IndexState {
        self.set.state(index)
    }

    /// Reads the states of the indexes. One request.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn refresh(&self) -> Result<()> {
        self.set.refresh(&*self.store).await
    }

    /// Makes sure that the states of indexes may be acted upon.
    pub(super) async fn prepare(&self) -> Result<()> {
        self.set.prepare(&*self.store).await.map(drop)
    }

    /// Requests under way at once, where many are to be made.
    pub(super) fn at_once(&self) -> usize {
        self.options.concurrency.max(1)
    }

    /// Writes by the states of indexes as they are; what is still on its way when they are too old is dropped.
    pub(super) async fn while_valid<T>(&self, write: impl Future<Output = Result<T>>) -> Result<T> {
        let timing = self.options.timing;
        match self.set.prepare(&*self.store).await? {
            None => write.await,
            Some(until) => {
                before(until + timing.client(), write).await.unwrap_or_else(|| Err(timing.cut_off()))
            }
        }
    }

    pub(super) fn catalog(&self) -> Catalog<'_> {
        Catalog { store: &*self.store, table: self.journal.table() }
    }

    pub(super) async fn catalog_entry(&self, index: &str) -> Result<Option<CatalogEntry>> {
        Ok(self.catalog().load().await?.indexes.remove(index))
    }

    /// Writes changes of one partition, with their entries. Requests: see
    /// [`journal`](crate::journal); one without remote entries.
    ///
    /// # Errors
    /// See [`Journal::write`].
    pub async fn write(&self, changes: &[Change]) -> Result<Committed> {
        self.journal.write(changes, self.options.acknowledge).await
    }

    /// Adds an entity.
    ///
    /// # Errors
    /// It exists already, or a unique value is taken.
    pub async fn insert(&self, entity: Entity) -> Result<Committed> {
        self.write(&[Change::insert(entity)]).await
    }

    /// Replaces an entity that was read. The old value decides which entries go.
    ///
    /// # Errors
    /// It was changed meanwhile, or a unique value is taken.
    pub async fn replace(&self, old: Entity, new: Entity) -> Result<Committed> {
        self.write(&[Change::replace(old, new)]).await
    }

    /// Removes an entity that was read.
    ///
    /// # Errors
    /// It was changed meanwhile.
    pub async fn delete(&self, old: Entity) -> Result<Committed> {
        self.write(&[Change::delete(old)]).await
    }

    /// Writes the entity whatever was there, by reading it first and trying again when others
    /// interfere. One request more than a replace.
    ///
    /// # Errors
    /// A unique value is taken; still in conflict after all attempts.
    pub async fn upsert(&self, entity: Entity) -> Result<Committed> {
        let key = entity.key().clone();
        self.modify(&key, |_| Ok(Some(entity.clone()))).await
    }

    /// Reads, changes and writes an entity, again when others interfere: from `None` if it does not
    /// exist, to `None` to delete it.
    ///
    /// # Errors
    /// What `change` returns; a unique value is taken; still in conflict after all attempts.
    pub async fn modify(
        &self,
        key: &Key,
        mut change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Committed> {
        let mut attempt = 0;
        loop {
            let old = self.store.get(self.table(), key, None).await?;
            let new = change(old.as_ref())?;
            let Some(change) = changed(old, new) else { return Ok(Committed::nothing()) };
            match self.write(&[change]).await {
                Err(e) if is_conflict(&e) && attempt < self.options.attempts => attempt += 1,
                other => return other,
            }
            sleep(pause(attempt)).await;
        }
    }

    /// Writes an entity as it is now with all its entries, again while others write it: a writer who
    /// changes something else leaves an entry alone that it takes to be there. Whether the entity exists.
    pub(super) async fn rewrite(&self, mut entity: Entity) -> Result<bool> {
        for attempt in 0..=self.options.attempts {
            let change = Change::rewrite(entity.clone());
            match self.journal.write(&[change], Acknowledge::Applied).await {
                Ok(done) if done.entries == Entries::Applied => return Ok(true),
                Err(e) if !is_conflict(&e) => return Err(e),
                _ => sleep(pause(attempt)).await,
            }
            let Some(now) = self.get(entity.key()).await? else { return Ok(false) };
            entity = now;
        }
        let (table, key) = (self.table().to_string(), entity.key().to_string());
        Err(ErrorKind::PreconditionFailed { table, key }.into())
    }

    /// Whether a rule holds.
    pub(super) fn keeps(&self, rule: Rule) -> bool {
        self.journal.keeps(rule)
    }

    /// The same, where a rule may be broken.
    #[cfg(test)]
    pub(crate) fn breaking(self, rule: Option<Rule>) -> Self {
        let Self { journal, .. } = self;
        let journal = match rule {
            Some(rule) => journal.breaking(rule),
            None => journal,
        };
        Self { journal, ..self }
    }

    /// The entity with this key. One request.
    ///
    /// # Errors
    /// The storage's.
    pub async fn get(&self, key: &Key) -> Result<Option<Entity>> {
        self.store.get(self.table(), key, None).await
    }

    /// The entity with this key, or an error.
    ///
    /// # Errors
    /// It does not exist.
    pub async fn get_existing(&self, key: &Key) -> Result<Entity> {
        self.store.get_existing(self.table(), key).await
    }
}

/// Refuses indexes that make no sense.
fn check(indexes: &[Index], options: &IndexOptions) -> Result<()> {
    indexes.iter().try_for_each(Index::validate)?;
    for (n, index) in indexes.iter().enumerate() {
        let name = index.name();
        if indexes[..n].iter().any(|other| other.name() == name) {
            return Err(Error::invalid_request(format!("two indexes have the name '{name}': rename one")));
        }
    }
    let without = indexes.iter().find(|i| i.shape().needs_blobs() && options.blobs.is_none());
    without.map_or(Ok(()), |index| {
        Err(Error::invalid_request(format!(
            "the index '{}' keeps lists in blobs: give `IndexOptions::blobs` an object store",
            index.name()
        )))
    })
}

fn changed(old: Option<Entity>, new: Option<Entity>) -> Option<Change> {
    match (old, new) {
        (None, None) => None,
        (None, Some(new)) => Some(Change::insert(new)),
        (Some(old), None) => Some(Change::delete(old)),
        (Some(old), Some(new)) => Some(Change::replace(old, new)),
    }
}

/// Whether another writer of the same entity was quicker.
fn is_conflict(error: &Error) -> bool {
    !error.is_ambiguous()
        && (error.is_precondition_failed() || error.is_entity_not_found() || error.is_already_exists())
}

/// The pause before a conflicting write is tried again, jittered.
fn pause(attempt: u32) -> Duration {
    let ceiling = Duration::from_millis(2) * 2u32.saturating_pow(attempt.min(8));
    ceiling.mul_f64(fastrand::f64())
}
