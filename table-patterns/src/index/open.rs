//! Opening a table with its indexes.

use std::sync::Arc;

use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore};

use super::catalog::{Loaded, is_indexed};
use super::definition::{Index, Uniqueness};
use super::indexed::IndexedEntities;
use super::options::IndexOptions;
use super::owner;
use super::set::IndexSet;
use super::shape::Shape;
use super::table_row::TableRow;
use crate::encrypted::check_indexes;
use crate::journal::Journal;

impl IndexedEntities {
    /// Opens a table with its indexes. The first who opens an empty table registers them (up to 99) as readable;
    /// an index that comes later is absent until it is [built](Self::build), even if the table is still empty: others
    /// write by then that do not know it. Two requests, and one for each other table of entries or of copies; the first time
    /// two more, and one for each of those; one more where this process waits or caches longer than any
    /// before it.
    ///
    /// # Errors
    /// An index or the durations make no sense, two have one name, or one needs blobs and has no store for them; an index would show what the
    /// store encrypts by a rule; the table or one for entries is missing, or that has the entries of another table; copies are to go into another table that has indexes; the catalog has an index that is not given here,
    /// or another definition.
    ///
    /// An index that is defined otherwise than before takes another name; the one that it replaces goes by
    /// [`drop_index`](Self::drop_index), while the program still defines both. Where it is certain that no other
    /// program and no other type uses it, [`drop_outdated`](Self::drop_outdated) removes it without its definition.
    ///
    /// An index that is unique does not become readable by being declared: until it is [built](Self::build), writes that
    /// give an entity a value of it are refused, and those that keep or remove one go on. Build it before the version of
    /// a program serves that needs it.
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

    /// Opens a table to read it by its indexes: by who may not write it, and without making those wait who do. One
    /// request. It need not know all indexes of the table; every write, build, repair and drop is refused.
    ///
    /// Nobody waits for a reader: for up to [`IndexOptions::cache`] after another process has begun to drop or rebuild
    /// an index, its lookups can miss entries. `timing`, `queue` and `built_later` do not matter.
    ///
    /// # Errors
    /// As for [`open`](Self::open); the table is missing.
    pub async fn open_to_read(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        let mut this = Self::unregistered(store, table, indexes, options, IndexSet::only_read)?;
        this.refresh().await?;
        this.keep_blobs(&this.set.table_row());
        Ok(this)
    }

    /// Before the catalog was asked.
    pub(super) fn unopened(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        Self::unregistered(store, table, indexes, options, |set| set)
    }

    fn unregistered(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
        set: impl FnOnce(IndexSet) -> IndexSet,
    ) -> Result<Self> {
        check(&indexes, &options)?;
        store.profile().check_reads("indexes")?;
        check_indexes(&*store, &table, &indexes)?;
        let indexes = indexes.into_iter().map(|index| index.over(&store)).collect();
        let set = Arc::new(set(IndexSet::new(table.clone(), indexes, options.cache)));
        let mut journal = Journal::new(store.clone(), table, set.clone()).with_timing(options.timing);
        if let Some(queue) = &options.queue {
            journal = journal.with_queue(queue.clone());
        }
        Ok(Self { store, set, journal, options })
    }

    async fn register(&mut self) -> Result<()> {
        owner::claim_tables(&*self.store, self.table(), self.set.indexes()).await?;
        self.check_targets().await?;
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

    /// Refuses copies into the entities of another table that has indexes: its entries would not have them.
    async fn check_targets(&self) -> Result<()> {
        for index in self.set.indexes().iter().filter(|index| matches!(index.shape(), Shape::Copy { .. })) {
            let other = self.index_table(index);
            if other != *self.table() && is_indexed(&*self.store, &other).await? {
                return Err(Error::invalid_request(format!(
                    "the index '{}' copies into the entities of '{other}', which has indexes of its own that would not \
                     follow: copy into entities of '{}', or into a table without indexes",
                    index.name(),
                    self.table()
                )));
            }
        }
        Ok(())
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
}

/// Refuses indexes that make no sense.
fn check(indexes: &[Index], options: &IndexOptions) -> Result<()> {
    options.check()?;
    indexes.iter().try_for_each(Index::validate)?;
    for (n, index) in indexes.iter().enumerate() {
        let name = index.name();
        if indexes[..n].iter().any(|other| other.name() == name) {
            return Err(Error::invalid_request(format!("two indexes have the name '{name}': rename one")));
        }
    }
    let later = |index: &&Index| options.built_later.iter().any(|name| name == index.name());
    if let Some(unique) = indexes.iter().filter(later).find(|index| index.uniqueness() != Uniqueness::No) {
        return Err(Error::invalid_request(format!(
            "the index '{}' is unique, and no entity can get a value of it before it is built: leave it out of \
             `IndexOptions::built_later`",
            unique.name()
        )));
    }
    let without = indexes.iter().find(|i| i.shape().needs_blobs() && options.blobs.is_none());
    without.map_or(Ok(()), |index| {
        Err(Error::invalid_request(format!(
            "the index '{}' keeps lists in blobs: give `IndexOptions::blobs` an object store",
            index.name()
        )))
    })
}
