//! [`IndexedEntities`]: the handle of a table with indexes.

use std::sync::Arc;

use futures_util::{Stream, TryStreamExt as _};
use table_core::manifest::{IndexState, StoredIndex};
use table_core::model::{Entity, Key, TableName};
use table_core::query::{Continuation, Explanation, Page, Query};
use table_core::store::{
    BulkOutcome, CycleDetector, Error, Result, TableStore, TableStoreExt as _,
};

use super::build::IndexBuild;
use super::bulk::{BulkInsert, GroupedInserts, modify_all};
use super::changes::EntityChanges;
use super::consent;
use super::drop::{IndexDrop, collect_blobs};
use super::lookup::{IndexQuery, Lists, Lookups, MergedLookup, Pages, Trust};
use super::open::{open_to_read, open_to_write};
use super::options::IndexOptions;
use super::rows::IndexedRows;
use super::scrub::{Scrub, ScrubCursor, ScrubMode, ScrubReport, check_complete};
use super::states::manifest::{ROUNDS, TableRow};
use super::states::names::check_generations;
use super::states::set::{EntityScope, IndexSet};
use super::states::waiting::{Waiting, Waits};
use super::stored::Stored;
use crate::entry::{Index, Placement, Summary};
use crate::journal::{Change, Clearing, Committed, Journal};

/// Entities of one table, written together with the entries of the table's indexes.
///
/// The dynamic form: [`Table`](crate::Table) is the form for typed entities. Every write knows
/// the old value, so no entry stays stale.
#[derive(Clone, Debug)]
pub struct IndexedEntities {
    pub(crate) set: Arc<IndexSet>,
    pub(super) journal: Journal,
    pub(crate) options: IndexOptions,
    /// `false` for a handle that was opened for upkeep only: it refuses writes of entities.
    pub(super) writes_entities: bool,
}

/// Opening.
impl IndexedEntities {
    /// Opens a table with its indexes. The first program to open an empty table declares its indexes (up to 98)
    /// in the manifest as readable. A later index is absent until it is [built](Self::build), even in an empty
    /// table: other programs without the index may write by then. Indexes that the manifest has and the program
    /// does not define are maintained from their definitions.
    ///
    /// A handle from this function may write entities of any type. A [`Table`](crate::Table)
    /// writes entities of one type. The first program to open a table for a type declares the type's indexes as
    /// readable, unless the table has entities of the type, or a program has opened the table for any type.
    ///
    /// An index with a changed definition is another generation: [build](Self::build) it, and
    /// [drop](Self::drop_index) the earlier generation when no program reads by it. Declarations of other
    /// programs never make `open` fail. A write of an entity is refused if this program cannot maintain one of
    /// its indexes: the keys come from a Rust function that the program lacks, or the definition has a newer
    /// format.
    ///
    /// A unique index that is added to a table with entities is not readable before it is [built](Self::build). Until then, writes
    /// that give an entity a value of the index are refused; writes that keep or remove a value go on. Build
    /// the index before you start a version of the program that needs it.
    ///
    /// # Cost in requests
    /// 1; 1 for this process's row if other processes may write the store, unless a handle of the table with the same durations has written
    /// it; 1 for each other table of entries or of copies, to read its consents. The first time, 3 more; with such tables 1 more for the pairing id and 1 for the consent of each. While entities are written or looked up,
    /// the process's row is written again every ten times [`IndexOptions::cache`], or every lease if that is
    /// longer.
    ///
    /// # Errors
    /// - An index or the durations are inconsistent, two indexes have one name, or an index needs a blob store that the options lack.
    /// - An index would expose a property that the store encrypts by a rule.
    /// - The manifest has another layout for the type, or declares a property as encrypted that the program would write as plaintext.
    /// - The table does not exist; or a table of entries does not exist when its index is declared.
    /// - An index copies into the entities of another table that has indexes.
    pub async fn open(
        store: impl TableStore,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        open_to_write(
            store.into_shared(),
            table,
            indexes,
            options,
            EntityScope::AnyType,
        )
        .await
    }

    /// Opens a table to maintain its indexes from the manifest alone: to build, scrub and drop them, and to
    /// recover and sweep writes, in a program without the Rust types. The handle writes no new entities; it
    /// only rewrites existing entities with their entries, and clears the journal rows of its writes before their answers, whatever
    /// [`IndexOptions::clearing`] says. As many requests as [`open`](Self::open) of a table
    /// that was opened before.
    ///
    /// # Errors
    /// The durations are inconsistent; the table does not exist.
    pub async fn open_for_upkeep(
        store: impl TableStore,
        table: TableName,
        options: IndexOptions,
    ) -> Result<Self> {
        // No caller waits for a single answer of upkeep, and a round ends when its rows are gone.
        let options = IndexOptions {
            clearing: Clearing::BeforeAnswer,
            ..options
        };
        open_to_write(
            store.into_shared(),
            table,
            Vec::new(),
            options,
            EntityScope::Nothing,
        )
        .await
    }

    /// Opens the table read-only; does not register in the manifest, so changes of state do not wait for this
    /// handle. 1 request. The handle need not know all indexes of the table. It refuses every write, build,
    /// repair and drop.
    ///
    /// Because no process waits for a reader, its lookups can miss entries for up to [`IndexOptions::cache`]
    /// after another process has begun to drop or rebuild an index. `timing`, `queue` and `built_later` have no
    /// effect.
    ///
    /// # Errors
    /// As for [`open`](Self::open); the table does not exist.
    pub async fn open_to_read(
        store: impl TableStore,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        open_to_read(
            store.into_shared(),
            table,
            indexes,
            options,
            EntityScope::Nothing,
        )
        .await
    }

    /// The journal, for workers and sweeps.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn TableStore> {
        self.set.store()
    }

    /// The table.
    pub const fn table(&self) -> &TableName {
        self.journal.table()
    }

    /// The other table of an index with entries in another table.
    pub(crate) fn other_table(&self) -> Option<TableName> {
        self.set
            .indexes()
            .iter()
            .find_map(|index| match index.placement() {
                Placement::OtherTable(table) => Some(table.clone()),
                Placement::SamePartition | Placement::OtherPartition => None,
            })
    }

    /// The same handle with other options.
    pub(crate) fn with_options(mut self, change: impl FnOnce(&mut IndexOptions)) -> Self {
        change(&mut self.options);
        self.journal = self.journal.with_concurrency(self.options.concurrency);
        self
    }
}

/// The states of the indexes.
impl IndexedEntities {
    /// The state of an index, by its name or its [id](crate::index::Index::id), at the last read of the manifest.
    pub fn state(&self, index: &str) -> IndexState {
        self.set.state_in_manifest(index)
    }

    /// As [`state`](Self::state), but *absent* for an index that this program cannot maintain.
    pub(crate) fn maintained_state(&self, index: &str) -> IndexState {
        self.set.state(index)
    }

    /// Explains how a query of the table runs, and names the index that has all results, if there is a readable one, with the lookup and its
    /// cost. Uses the manifest as it was last read. Sends no request.
    pub fn explain(&self, query: &Query) -> Explanation {
        let indexes = self.set.indexes();
        let readable = indexes
            .iter()
            .filter(|index| self.set.state(index.id()) == IndexState::Readable)
            .map(|index| index.definition());
        query
            .explain(self.store().profile())
            .with_indexes(query, readable, None)
    }

    /// Reads the states of the indexes. 1 request.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn refresh(&self) -> Result<()> {
        self.set.refresh().await
    }

    /// The indexes in the manifest that are in force, including the indexes of other programs and types. 1 request, and 1 for each other
    /// table that a definition names.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn declared(&self) -> Result<Vec<StoredIndex>> {
        Ok(self.set.manifest().load().await?.manifest.indexes)
    }

    /// Gives the consent of another table to a definition of the manifest whose entries go there, by its name or id. The definition is
    /// then in force, in the state *delete-only*: [`build`](Self::build) it. Does nothing if the definition is in force.
    ///
    /// A client that may add rows to this table can have added the definition: look at it first. A program that defines the index itself needs
    /// no call: it consents when it declares or builds the index.
    ///
    /// 5 requests, and 1 more the first time.
    ///
    /// # Errors
    /// There is no such definition; its entries could have the rows of another index; the other table does not exist.
    pub async fn trust_index(&self, index: &str) -> Result<()> {
        self.set.check_writes()?;
        for _ in 0..ROUNDS {
            let loaded = self.set.manifest().load().await?;
            let Some(stored) = loaded.not_in_force(index) else {
                self.set.refresh().await?;
                return self.set.find(index).map(drop);
            };
            if let Some(definition) = &stored.definition {
                check_generations(definition, &loaded, self.table())?;
            }
            if consent::bring_into_force(&self.set, &loaded, stored).await? {
                return Ok(());
            }
        }
        Err(Error::precondition_failed(self.table(), TableRow::NAME))
    }
}

/// Reads by the key of the entity.
impl IndexedEntities {
    /// The entity with this key, as stored. 1 request.
    ///
    /// # Errors
    /// An error of the store.
    pub async fn get(&self, key: &Key) -> Result<Option<Stored<Entity>>> {
        self.read(key).await?.map(Stored::read).transpose()
    }

    /// The entity with this key. 1 request.
    ///
    /// # Errors
    /// The entity does not exist; an error of the store.
    pub async fn get_existing(&self, key: &Key) -> Result<Stored<Entity>> {
        let entity = self.read(key).await?;
        Stored::read(entity.ok_or_else(|| Error::entity_not_found(self.table(), key))?)
    }

    /// The entity with this key, as readers get it: the mark of a move is in the ETag only.
    pub(crate) async fn read(&self, key: &Key) -> Result<Option<Entity>> {
        self.rows().entities().get(key).await
    }
}

/// Lookups by an index.
impl IndexedEntities {
    /// The entity whose entry has this key. 1 request for an index with a payload; 2 for references or
    /// with [`Trust::Entity`].
    ///
    /// # Errors
    /// The index is unknown or not readable.
    pub async fn find(&self, index: &str, key: &Key, trust: Trust) -> Result<Option<Entity>> {
        self.lookups().find(index, key, trust).await
    }

    /// A page of the entities whose entries are in a partition of the index and match a filter on the RowKey,
    /// in the order of the entries. A store that does not sort returns its own order, unless the query has
    /// [`sorted_on_client`](IndexQuery::sorted_on_client). 1 request, and 1 for each reference, with
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions) requests in parallel: 2 round trips for up to that many
    /// references.
    ///
    /// References are followed by point queries. One query for several RowKeys of a partition, joined by `or`, would be one request,
    /// but the service scans the partition for it
    /// ([source](https://learn.microsoft.com/azure/storage/tables/table-storage-design-for-query)).
    ///
    /// Stale references are omitted, so a page may be short. A page of lists has all entities of each list.
    ///
    /// # Errors
    /// The index is unknown or not readable; an error of the store.
    pub async fn page(
        &self,
        index: &str,
        query: &IndexQuery,
        from: Option<&Continuation>,
        trust: Trust,
    ) -> Result<Page<Entity>> {
        self.pages()
            .page(index, query, from, trust, usize::MAX)
            .await
    }

    /// All entities of [`page`](Self::page), one page at a time: the next page is read when all entities of the
    /// page before are consumed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use futures_util::{StreamExt, TryStreamExt};
    /// use table_patterns::index::{Index, IndexOptions, IndexQuery, IndexedEntities, Placement, Trust};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// let by_city = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")?;
    /// let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// for id in ["1", "2", "3"] {
    ///     people.insert(Entity::new("p", id)?.with("City", "oslo")).await?;
    /// }
    /// let in_oslo = IndexQuery::partition("p").prefix("city_oslo_");
    /// let two: Vec<_> = people.stream("city", &in_oslo, Trust::Entry).take(2).try_collect().await?;
    /// assert_eq!(two.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`page`](Self::page), as an item.
    pub fn stream<'a>(
        &'a self,
        index: &'a str,
        query: &IndexQuery,
        trust: Trust,
    ) -> impl Stream<Item = Result<Entity>> + Send + use<'a> {
        self.pages().stream(index, query, trust)
    }

    /// All entities of [`page`](Self::page), collected.
    ///
    /// # Errors
    /// As for [`page`](Self::page).
    pub async fn all(&self, index: &str, query: &IndexQuery, trust: Trust) -> Result<Vec<Entity>> {
        self.stream(index, query, trust).try_collect().await
    }

    /// The entities of several partitions of an index, merged in the order of their entries' RowKeys: a range
    /// over [`Shards`](crate::index::Shards). The query restricts the row keys; its own partition is ignored.
    ///
    /// Cost: the requests of [`page`](Self::page) for each partition, one page ahead of the consumer. All
    /// partitions together send [`IndexOptions::concurrency`](crate::index::IndexOptions) requests in parallel.
    ///
    /// # Errors
    /// In the stream: the index is unknown, not readable, or keeps no rows; the store does not sort, and the
    /// query does not have [`sorted_on_client`](IndexQuery::sorted_on_client); an error of the store.
    pub fn merged<'a>(
        &'a self,
        index: &'a str,
        partitions: &[String],
        query: &IndexQuery,
        trust: Trust,
    ) -> impl Stream<Item = Result<Entity>> + Send + 'a {
        MergedLookup {
            lookups: self.lookups(),
            index,
            trust,
        }
        .stream(partitions, query)
    }

    /// All of [`merged`](Self::merged), collected.
    ///
    /// # Errors
    /// As for [`merged`](Self::merged).
    pub async fn all_merged(
        &self,
        index: &str,
        partitions: &[String],
        query: &IndexQuery,
        trust: Trust,
    ) -> Result<Vec<Entity>> {
        self.merged(index, partitions, query, trust)
            .try_collect()
            .await
    }

    /// The keys of the entities in a list, in the order of keys, as the list has them. 1 request; 1 more for
    /// each chunk of a long list, sent in parallel.
    ///
    /// # Errors
    /// The index is unknown, not readable, or keeps no lists.
    pub async fn references(&self, index: &str, key: &Key) -> Result<Vec<Key>> {
        self.lists().references(index, key).await
    }

    /// The entities of a list, in the order of their keys. 1 request for the list and 1 for each entity, with
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions) requests in parallel: 2 round trips for 16 entities.
    /// Entities that have left the list are omitted.
    ///
    /// # Errors
    /// As for [`references`](Self::references).
    pub async fn list(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        self.lists().list(index, key).await
    }

    /// As [`list`](Self::list), with one range query for the entities instead of 1 request for each: from the
    /// list's first entity to its last, in one partition. Cheaper for entities that are close together; the
    /// query also reads the entities between them. 1 request for the list, 1 for each 1,000 entities in the
    /// range.
    ///
    /// # Errors
    /// As for [`references`](Self::references); the list has entities of several partitions.
    pub async fn list_by_range(&self, index: &str, key: &Key) -> Result<Vec<Entity>> {
        self.lists().list_by_range(index, key).await
    }

    /// The summary of a key; zeros for a key without entities. 1 request.
    ///
    /// 1 request more per page of the partition's entities if the row has lost a minimum or maximum, because as many entities with the
    /// smallest values were deleted as the row has values. A scrub (`ScrubMode::Repair`) completes the row.
    ///
    /// # Errors
    /// The index is unknown, not readable, or keeps no summaries. The index cannot have the key.
    pub async fn summary(&self, index: &str, key: &Key) -> Result<Summary> {
        self.lists().summary(index, key).await
    }

    /// The summaries of the matching keys of a partition. 1 request for each 1,000 keys; more as for [`summary`](Self::summary).
    ///
    /// # Errors
    /// As for [`summary`](Self::summary).
    pub async fn summaries(&self, index: &str, query: &IndexQuery) -> Result<Vec<(Key, Summary)>> {
        self.lists().summaries(index, query).await
    }
}

/// Writes.
impl IndexedEntities {
    /// Writes changes of one partition, with their entries: the end of every write of this handle. A [`Change`]
    /// must name the true old state; this method does not check it.
    ///
    /// Requests: 1 without remote entries; see [`journal`](crate::journal#cost-in-requests) otherwise. In a table of a type with `#[expires]` or
    /// `#[deleted_at]`, an entity that is due and has the key or a unique value of the write is removed first: 1 request to read it, the
    /// requests of its removal, and those of the write again.
    ///
    /// # Errors
    /// See [`Journal::write`](crate::journal::Journal::write); the handle was opened for upkeep.
    pub async fn write(&self, changes: &[Change]) -> Result<Committed> {
        self.changes().write(changes).await
    }

    /// Waits until the background tasks of earlier writes have deleted or handed over their journal rows and tickets. See
    /// [`Journal::flush`](crate::journal::Journal::flush).
    pub async fn flush(&self) {
        self.journal.flush().await;
    }

    /// Inserts an entity. Requests: see [`write`](Self::write).
    ///
    /// # Errors
    /// The entity exists already, or a unique value is taken.
    pub async fn insert(&self, entity: Entity) -> Result<Committed> {
        self.write(&[Change::insert(entity)]).await
    }

    /// Replaces an entity that was [read](Self::get), in that version. The old value decides which entries to
    /// remove. Requests: see [`write`](Self::write).
    ///
    /// # Errors
    /// Another writer changed the entity since the read, or a unique value is taken.
    pub async fn replace(&self, old: &Stored<Entity>, new: Entity) -> Result<Committed> {
        self.write(&[Change::replace(old.entity().clone(), new)])
            .await
    }

    /// Deletes an entity that was [read](Self::get), in that version. Requests: see [`write`](Self::write).
    ///
    /// # Errors
    /// Another writer changed the entity since the read.
    pub async fn delete(&self, old: &Stored<Entity>) -> Result<Committed> {
        self.write(&[Change::delete(old.entity().clone())]).await
    }

    /// Inserts or replaces an entity: reads the old value first, and tries again after a conflict. 1 request
    /// more than a replace.
    ///
    /// # Errors
    /// A unique value is taken; the write conflicts after all attempts.
    pub async fn upsert(&self, entity: Entity) -> Result<Committed> {
        let key = entity.key().clone();
        self.modify(&key, |_| Ok(Some(entity.clone()))).await
    }

    /// Reads, changes and writes an entity, and tries again after a conflict. `change` gets `None` if the
    /// entity does not exist, and returns `None` to delete it. In each attempt 1 request to read the entity, and the requests of a
    /// [`write`](Self::write).
    ///
    /// # Errors
    /// An error of `change`; a unique value is taken; the write conflicts after all attempts.
    pub async fn modify(
        &self,
        key: &Key,
        change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Committed> {
        self.changes().modify(key, change).await
    }

    /// Moves an entity with its entries to a key of this or another table, and replaces an entity at that key.
    /// The move includes changes that another writer makes during the move.
    ///
    /// | from, to | atomic part | requests without contention |
    /// |---|---|---|
    /// | a partition, the same partition | everything: one write | a read of each, at the same time, and the write |
    /// | a table, another partition of the table, with remote entries | the commit: the entity has the new key from then on. Workers, sweeps and writers of the entity finish or stop a move whose process died | 8; 2 more with a queue, 1 for each partition with entries, 3 for each unique value that the entity keeps |
    /// | the same without remote entries | each of the two writes | 4; 6 in a table whose indexes may have remote entries |
    /// | a table, another table | each of the two writes | a read of each, a write at the target, a delete at the source |
    ///
    /// A unique value belongs to the entity from the first request to the last: other writers of the value are
    /// refused. Between the commit and the removal at the source, both keys can be read. A writer that has read
    /// the entity during the move stops the move, with 1 request more, and the move starts again. See
    /// [`journal`](crate::journal#moves).
    ///
    /// A move of two writes first writes the target, then deletes the source. If the process dies in between,
    /// both exist; run the move again. If the move fails after the first write, for example because another
    /// writer deletes the source, it removes what it has written, in the version that it has written: 1 request more.
    /// The outcome of the error is *applied* if the copy has, or may have, replaced an entity, or cannot be removed.
    /// Another table has its own indexes, in which values are unique separately.
    ///
    /// # Errors
    /// Entity not found; a unique value is taken at the target; the move conflicts after all attempts; both keys are equal; the
    /// entity has a value in a blob; with remote entries, the entity has more properties than fit with the two
    /// properties of the mark.
    pub async fn move_to(&self, key: &Key, target: &Self, to: &Key) -> Result<()> {
        self.changes()
            .move_to(key, &target.changes(), to, |_| Ok(()))
            .await
    }

    /// Inserts entities while the stream is polled; returns a result for each, in the order of the answers.
    ///
    /// Entities of one key are inserted in the order of the input: the first is stored, and the others are refused.
    /// Entities of one partition are written together: a group holds each entity with all its local entries, up
    /// to 100 operations. A partition's entities are ordered by their remote entries, so that a group changes
    /// few other partitions. Groups of several partitions take turns. A group writes each summary or list of
    /// its partition once, for all its entities; parallel groups wait for each other at such a row. The next window is read while
    /// groups of the last one are under way, and a group reserves all its unique values together. The stream ends when the journal rows
    /// of its writes are cleared.
    ///
    /// Requests: 1 for each group; with remote entries, the requests of one write (see the
    /// [`journal`](crate::journal#cost-in-requests)) and 1 read for each entity. A group that cannot be written
    /// is halved until the failing entity is alone: about 2 requests more for each halving. 1 request finds the entities of a group that
    /// exist.
    ///
    /// # Errors
    /// As the last item: an error of the input, or of reading the states of indexes. Nothing more of the input is read then.
    pub fn insert_all<'a, S>(
        &'a self,
        entities: S,
        options: BulkInsert,
    ) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<'a, S>
    where
        S: Stream<Item = Result<Entity>> + Send + 'a,
    {
        GroupedInserts {
            changes: self.changes(),
        }
        .run(entities, options)
    }

    /// Writes rows over entities while the stream is polled; returns a result for each, in the order of the answers. `combine` returns
    /// the entity that is stored, from the stored entity, if there is one, and the row. Rows of one key are written in the order of the
    /// input. The stream ends when the journal rows of its writes are cleared.
    ///
    /// Requests: as [`modify`](Self::modify) for each row.
    ///
    /// # Errors
    /// As the last item: an error of the input. Nothing more of the input is read then.
    pub fn modify_all<'a, S, F>(
        &'a self,
        rows: S,
        options: BulkInsert,
        combine: F,
    ) -> impl Stream<Item = Result<BulkOutcome>> + Send + use<'a, S, F>
    where
        S: Stream<Item = Result<Entity>> + Send + 'a,
        F: Fn(Option<&Entity>, &Entity) -> Result<Entity> + Send + Sync + 'a,
    {
        modify_all(self.changes(), rows, options.concurrency, combine)
    }
}

/// Maintenance of indexes.
impl IndexedEntities {
    /// Prepares the build of an index that is absent or only partly built.
    ///
    /// Programs without the index maintain it after they have read the manifest again, or refuse to write its entities. The build of a type's
    /// first index waits for that. A program that is [ignoring indexes](crate::Table::ignoring_indexes) does not read the manifest: stop it
    /// first.
    ///
    /// # Errors
    /// The index is unknown.
    pub fn build(&self, index: &str) -> Result<IndexBuild<'_>> {
        IndexBuild::new(self.changes(), self.options.timing, index)
    }

    /// Compares an index with its entities, in both directions, while writers go on. A scrub never deletes an
    /// entry whose entity was rewritten after the read, and never adds an entry for an entity that changed
    /// after the read.
    ///
    /// Cost: the pages of the index and of the table; 1 request per entry and per entity, with
    /// [`IndexOptions::concurrency`](crate::index::IndexOptions) in parallel; 2 requests to remove a dangling entry;
    /// the requests of a write to add a missing entry.
    ///
    /// # Errors
    /// The index is unknown, or neither building nor readable; a list has a newer format than this program
    /// reads; an error of the store.
    pub async fn scrub(&self, index: &str, mode: ScrubMode) -> Result<ScrubReport> {
        let mut report = ScrubReport::default();
        let (mut cursor, mut cycles) = (Some(ScrubCursor::default()), CycleDetector::default());
        while let Some(at) = cursor {
            let before = report.entries + report.entities;
            cursor = self.scrub_page(index, mode, at, &mut report).await?;
            if let Some(next) = &cursor {
                cycles.add(&next.to_string(), report.entries + report.entities - before)?;
            }
        }
        Ok(report)
    }

    /// Scrubs one page and returns the cursor of the next; `None` at the end. A caller that stores the cursor
    /// as text continues after a crash with the page that was under way.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
    /// use table_patterns::index::{ScrubCursor, ScrubMode, ScrubReport};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// # let by_city = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")?;
    /// # let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// # people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// let mut report = ScrubReport::default();
    /// let mut stored = Some(ScrubCursor::default().to_string());
    /// while let Some(text) = stored {
    ///     let next = people.scrub_page("city", ScrubMode::Repair, text.parse()?, &mut report).await?;
    ///     stored = next.map(|cursor| cursor.to_string()); // where the next process finds it
    /// }
    /// assert_eq!((report.entries, report.dangling, report.missing), (1, 0, 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`scrub`](Self::scrub).
    pub async fn scrub_page(
        &self,
        index: &str,
        mode: ScrubMode,
        cursor: ScrubCursor,
        report: &mut ScrubReport,
    ) -> Result<Option<ScrubCursor>> {
        if mode == ScrubMode::Repair {
            self.set.check_writes()?;
        }
        let index = self.complete(index).await?;
        Scrub::new(self.changes(), self.options.timing, &index, mode)
            .page(cursor, report)
            .await
    }

    /// Compares some entries and some entities of an index, by their keys, and changes nothing. Entries in another table are those of
    /// its first page. 1 request for each key, and 1 or 2 for each entry and entity.
    ///
    /// # Errors
    /// As for [`scrub`](Self::scrub); the index has sums, which only a whole partition shows.
    pub(crate) async fn check_sample(
        &self,
        index: &str,
        entries: &[Key],
        entities: &[Key],
    ) -> Result<ScrubReport> {
        let index = self.complete(index).await?;
        let scrub = Scrub::new(
            self.changes(),
            self.options.timing,
            &index,
            ScrubMode::Report,
        );
        scrub.sample(entries, entities).await
    }

    /// An index in a state in which every entity has its entries. Reads the states again if they are old.
    async fn complete(&self, index: &str) -> Result<Arc<Index>> {
        drop(self.set.permission().await?);
        let index = self.set.find(index)?;
        self.set.check_can_maintain(&index)?;
        check_complete(&self.set, &index)?;
        Ok(index)
    }

    /// Deletes blobs that crashes left and that no list names; returns their number. Waits for the longest
    /// lease plus the longest request of the registered processes: after that, every write that was under way
    /// is finished or stopped.
    ///
    /// # Errors
    /// The index is unknown; an error of the store.
    pub async fn collect_blobs(&self, index: &str) -> Result<usize> {
        self.set.check_writes()?;
        let index = self.set.find(index)?;
        collect_blobs(
            self.rows(),
            &index,
            &mut Waits {
                set: &self.set,
                report: &mut |_| (),
            },
        )
        .await
    }

    /// Drops an index: its entries, then its row in the manifest. A name means the generation that this program
    /// defines, or the only generation there is. An [id](Index::id) means any generation, of any program or
    /// type, whether or not this program can maintain it. The index passes through the states write-only and
    /// delete-only to absent, so writers maintain less of it at each step. After a crash, call this function
    /// again to continue; several programs may run it. A program that still defines a dropped unique index
    /// refuses writes of its values: remove the index from the definitions, too.
    ///
    /// Cost: the pages of the index (of the whole table, if its entries are in the entities' table: a service
    /// may return short pages); 1 group per 100 entries of a partition in each page (1 request per row of
    /// lists, summaries and copies); 3 requests per change of state; 1 request for each
    /// [`IndexOptions::cache`](crate::index::IndexOptions::cache) that it takes. A drop waits at each change of state
    /// as a [build](IndexBuild) does, and waits for a running builder.
    ///
    /// # Errors
    /// The index is unknown, or several indexes of this name exist and none is of this program; an error of the
    /// store.
    pub async fn drop_index(&self, index: &str) -> Result<()> {
        self.drop_index_with(index, |_| ()).await
    }

    /// As [`drop_index`](Self::drop_index); reports each wait with its latest end.
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn drop_index_with(
        &self,
        index: &str,
        mut on_wait: impl FnMut(Waiting) + Send,
    ) -> Result<()> {
        self.index_drop(&mut on_wait).run(index).await
    }

    /// Drops an index with all its entries and prepares its build: for an index whose content is in doubt.
    /// Lookups by the index are refused until the build has run; other indexes are unaffected. After a crash,
    /// [`build`](Self::build) continues the build, and this function starts again.
    ///
    /// Until a unique index is built again, writes that give an entity a value of it are refused.
    ///
    /// An index with a changed *definition* is another generation, which is [built](Self::build) in addition to
    /// the earlier generation.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> table_core::Result<()> {
    /// # use std::sync::Arc;
    /// # use table_core::memory::MemoryStore;
    /// # use table_core::model::{Entity, TableName};
    /// # use table_core::store::TableStore;
    /// use table_patterns::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement};
    /// # let store = Arc::new(MemoryStore::new());
    /// # let table = TableName::new("People")?;
    /// # store.create_table(&table).await?;
    /// let by_city = Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")?;
    /// let people = IndexedEntities::open(store, table, vec![by_city], IndexOptions::local()).await?;
    /// people.insert(Entity::new("p", "1")?.with("City", "oslo")).await?;
    /// let built = people.rebuild("city").await?.run().await?;
    /// assert_eq!((built.entries, people.state("city")), (1, IndexState::Readable));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`drop_index`](Self::drop_index).
    pub async fn rebuild(&self, index: &str) -> Result<IndexBuild<'_>> {
        self.drop_index(index).await?;
        self.build(index)
    }
}

/// The parts that do the work.
impl IndexedEntities {
    pub(crate) fn rows(&self) -> IndexedRows<'_> {
        let (store, table, shared) = (self.set.store(), self.set.table(), self.journal.shared());
        IndexedRows {
            store,
            table,
            shared,
            concurrency: self.options.concurrency.max(1),
        }
    }

    pub(crate) fn lookups(&self) -> Lookups<'_> {
        Lookups {
            rows: self.rows(),
            set: &self.set,
        }
    }

    pub(crate) fn pages(&self) -> Pages<'_> {
        Pages {
            lookups: self.lookups(),
        }
    }

    pub(crate) fn lists(&self) -> Lists<'_> {
        Lists {
            lookups: self.lookups(),
        }
    }

    pub(crate) fn changes(&self) -> EntityChanges<'_> {
        EntityChanges {
            rows: self.rows(),
            set: &self.set,
            journal: &self.journal,
            acknowledge: self.options.acknowledge,
            attempts: self.options.attempts,
            writes_entities: self.writes_entities,
        }
    }

    pub(crate) fn index_drop<'a, 't>(
        &'a self,
        report: &'t mut (dyn FnMut(Waiting) + Send),
    ) -> IndexDrop<'a, 't> {
        let waits = Waits {
            set: &self.set,
            report,
        };
        let (rows, set, journal, cache) =
            (self.rows(), &*self.set, &self.journal, self.options.cache);
        IndexDrop {
            rows,
            set,
            journal,
            cache,
            waits,
        }
    }
}
