//! Opening a table with its indexes.

use std::sync::Arc;

use table_core::manifest::{IndexState, StoredIndex, StoredType};
use table_core::model::TableName;
use table_core::store::{Error, ErrorKind, ManifestCache, Result, TableStore};
use table_core::typed::Schema;

use super::build::check_generations;
use super::definition::{Index, Uniqueness};
use super::indexed::IndexedEntities;
use super::manifest::Loaded;
use super::options::IndexOptions;
use super::owner;
use super::processes::Durations;
use super::set::IndexSet;
use super::shape::Shape;
use super::table_row::TableRow;
use crate::journal::Journal;
use crate::rows::encrypted::check_indexes;

/// How often a table is registered again while others do so.
const ROUNDS: usize = 16;

/// Which entities a program may write by a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    /// Those of one type, as this schema stores them.
    Type(&'static Schema),
    /// Those of any type.
    AnyType,
    /// None, but those that are there once more with their entries.
    Nothing,
}

/// Whether a program is the first to open a table.
enum First {
    No,
    Registered(TableRow),
    /// Another one was quicker with something.
    Lost,
}

impl IndexedEntities {
    /// Opens a table with its indexes. The first who opens an empty table declares them (up to 98) in its manifest as readable;
    /// an index that comes later is absent until it is [built](Self::build), even if the table is still empty: others
    /// write by then that do not know it yet. Indexes that the manifest names and the program does not define are kept in step all the same,
    /// from their definitions. One request, and one for the row of this process where others may write the store; one for each other table of entries or of copies; the first time
    /// three more, and one for each of those. That row is written again every ten times
    /// [`IndexOptions::cache`], or every lease where that is longer, while entities are written or looked up.
    ///
    /// A handle that is opened in this way may write entities of any type. An
    /// [`IndexedTable`](super::IndexedTable) writes those of one: the first that opens a table for its type declares its indexes as
    /// readable, unless there are entities of the type, or a program has opened the table for any type.
    ///
    /// # Errors
    /// An index or the durations make no sense, two have one name, or one needs blobs and has no store for them; an index would show what the
    /// store encrypts by a rule; the manifest says that the type is stored in another layout, or that a property is encrypted which the
    /// program would write in plaintext; the table or one for entries is missing, or that has the entries of another table; copies are to go into
    /// another table that has indexes.
    ///
    /// An index that is defined otherwise than before is another generation of it: [build](Self::build) it, and
    /// [drop](Self::drop_index) the earlier one when no program reads by it any more. What other programs have declared never
    /// refuses an `open`. A write is refused of entities whose index this program cannot maintain: its keys are made by a function that it
    /// does not have, or the definition is of a newer format.
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
        Self::open_for(store, table, indexes, options, Writes::AnyType).await
    }

    /// The same for who writes certain entities.
    pub(crate) async fn open_for(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
        writes: Writes,
    ) -> Result<Self> {
        let mut this = Self::unregistered(store, table, indexes, options, |set| set.of(writes).registered())?;
        this.writes_entities = writes != Writes::Nothing;
        this.register(&writes).await?;
        Ok(this)
    }

    /// Opens a table to look after its indexes, with nothing but what its manifest says: to build, scrub and drop them, to recover and
    /// sweep writes, in a program without the Rust types. Entities are not written by it, but again with their entries. As many
    /// requests as [`open`](Self::open) of a table that was opened before.
    ///
    /// # Errors
    /// The durations make no sense; the table is missing.
    pub async fn open_for_upkeep(
        store: Arc<dyn TableStore>,
        table: TableName,
        options: IndexOptions,
    ) -> Result<Self> {
        Self::open_for(store, table, Vec::new(), options, Writes::Nothing).await
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
        Self::open_reader(store, table, indexes, options, Writes::Nothing).await
    }

    /// The same for who reads the entities of a type.
    pub(crate) async fn open_reader(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
        of: Writes,
    ) -> Result<Self> {
        let set = |set: IndexSet| set.of(of).only_read();
        let mut this = Self::unregistered(store, table, indexes, options, set)?;
        this.refresh().await?;
        this.set.check_type()?;
        this.keep_blobs(&this.set.table_row());
        Ok(this)
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
        let durations = Durations::of(&options);
        let set = Arc::new(set(IndexSet::new(store.clone(), table.clone(), indexes, durations)));
        let mut journal = Journal::new(store.clone(), table, set.clone()).with_timing(options.timing);
        if let Some(queue) = &options.queue {
            journal = journal.with_queue(queue.clone());
        }
        Ok(Self { store, set, journal, options, writes_entities: true })
    }

    async fn register(&mut self, writes: &Writes) -> Result<()> {
        owner::claim_tables(&*self.store, self.table(), self.set.own()).await?;
        self.check_targets().await?;
        let durations = self.set.unregistered_durations();
        let mine = TableRow::of(&self.options, matches!(writes, Writes::AnyType), durations);
        for _ in 0..ROUNDS {
            // Registered before the states are read: who changes one waits for those that are known.
            let asked = self.set.ask(&*self.store).await?;
            let loaded = self.rows().load().await?;
            self.set.check_stored_type(&loaded)?;
            let (row, is_as_read) = match self.register_first(&loaded, &mine, writes).await? {
                First::Registered(row) => (row, false),
                First::No => {
                    let row = self.rows().remember(loaded.table.clone(), &mine).await?;
                    let is_as_read = row == loaded.table && !row.is_new();
                    (row, is_as_read)
                }
                First::Lost => continue,
            };
            self.keep_blobs(&row);
            return match is_as_read {
                true => self.set.load(&loaded, asked),
                false => self.refresh().await,
            };
        }
        let (table, key) = (self.table().to_string(), TableRow::NAME.to_owned());
        Err(ErrorKind::PreconditionFailed { table, key }.into())
    }

    /// Refuses copies into the entities of another table that has indexes: its entries would not have them.
    async fn check_targets(&self) -> Result<()> {
        for index in self.set.own().iter().filter(|index| matches!(index.shape(), Shape::Copy { .. })) {
            let other = self.index_table(index);
            if other == *self.table() {
                continue;
            }
            let manifest = ManifestCache::over(&*self.store).of(&*self.store, &other).await?;
            if !manifest.indexes.is_empty() {
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

    /// If this is the first to open an empty table, or the first to open it for its type, of which there is no entity: then
    /// nobody writes such entities without the indexes, and they are readable at once. They come in one group with the table's row, which
    /// every program writes that adds something to it, and with the type's row, by which the next one sees that the table was opened
    /// for the type. Not where a program has the table open that may write entities of any type: it could know no index yet.
    async fn register_first(&self, loaded: &Loaded, mine: &TableRow, writes: &Writes) -> Result<First> {
        let is_new = loaded.table.is_new() && loaded.manifest.indexes.is_empty();
        let row = loaded.table.with(mine);
        let (is_first, types) = match writes {
            Writes::Type(schema) => {
                let mine = StoredType::of(schema);
                match loaded.stored_type(&schema.entity_type()) {
                    // What it does not say yet: a later version, a large or encrypted property more.
                    Some(stored) => (
                        false,
                        Some(stored.with(&mine)).filter(|grown| grown != stored).into_iter().collect(),
                    ),
                    None => (is_new || !row.any_type, vec![mine]),
                }
            }
            Writes::AnyType => (is_new, Vec::new()),
            Writes::Nothing => (false, Vec::new()),
        };
        let later = |index: &Index| self.options.built_later.iter().any(|name| name == index.name());
        let beside_the_rows = self.store.profile().group_operations - 1 - types.len();
        let indexes = self.set.own().iter().filter(|index| !later(index)).take(beside_the_rows);
        let is_of_type = |index: &&Index| match writes {
            Writes::Type(schema) => is_new || index.definition().entity.is_told_as(&schema.entity_type()),
            Writes::AnyType | Writes::Nothing => true,
        };
        let is_apart = |index: &&Index| check_generations(index, loaded, self.table()).is_ok();
        let indexes = indexes.filter(|_| is_first).filter(is_of_type).filter(is_apart);
        let mut indexes: Vec<_> =
            indexes.map(|index| StoredIndex::new(index.definition(), IndexState::Readable)).collect();
        let has_none = match writes {
            _ if indexes.is_empty() => false,
            Writes::Type(schema) if !is_new => self.rows().has_none_of(&schema.entity_type()).await?,
            _ => self.rows().is_empty_table().await?,
        };
        if !has_none {
            indexes.clear();
        }
        // The type's row comes in any case: whoever opens the table for it from now on is not the first.
        if indexes.is_empty() && types.is_empty() {
            return Ok(First::No);
        }
        let registered = self.rows().found(&row, &types, &indexes).await?;
        Ok(if registered { First::Registered(row) } else { First::Lost })
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
        let entity = &index.definition().entity;
        let same = |other: &&Index| other.name() == name && !other.definition().entity.is_apart_from(entity);
        if indexes[..n].iter().any(|other| same(&other)) {
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
