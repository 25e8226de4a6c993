//! Opening a table with its indexes: the process registers, reads the manifest, and declares indexes in a new
//! table.

use std::collections::BTreeSet;
use std::sync::Arc;

use table_core::manifest::{IndexState, StoredIndex, StoredType};
use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::store::{Error, ErrorKind, ManifestCache, Operation, Result, TableStore};

use super::IndexedEntities;
use super::options::IndexOptions;
use crate::entry::{Index, Placement, Shape, Uniqueness};
use crate::index::exposure::check_indexes;
use crate::index::states::manifest::{Loaded, TableRow};
use crate::index::states::names::{check_generations, check_names};
use crate::index::states::set::{IndexSet, Writes};
use crate::journal::{Clearing, Journal};

/// Attempts to register while other processes change the manifest.
const ROUNDS: usize = 16;

/// Whether a program is the first to open a table.
enum First {
    No,
    Registered(TableRow),
    /// Another program changed the manifest first: read it again.
    Lost,
}

impl IndexedEntities {
    /// Opens a table with its indexes. The first program to open an empty table declares its indexes (up to 98)
    /// in the manifest as readable. A later index is absent until it is [built](Self::build), even in an empty
    /// table: other programs without the index may write by then. Indexes that the manifest has and the program
    /// does not define are maintained from their definitions.
    ///
    /// A handle from this function may write entities of any type. An [`IndexedTable`](crate::index::IndexedTable)
    /// writes entities of one type. The first program to open a table for a type declares the type's indexes as
    /// readable, unless the table has entities of the type, or a program has opened the table for any type.
    ///
    /// An index with a changed definition is another generation: [build](Self::build) it, and
    /// [drop](Self::drop_index) the earlier generation when no program reads by it. Declarations of other
    /// programs never make `open` fail. A write of an entity is refused if this program cannot maintain one of
    /// its indexes: the keys come from a Rust function that the program lacks, or the definition has a newer
    /// format.
    ///
    /// A unique index does not become readable by its declaration. Until it is [built](Self::build), writes
    /// that give an entity a value of the index are refused; writes that keep or remove a value go on. Build
    /// the index before you start a version of the program that needs it.
    ///
    /// # Cost in requests
    /// 1; 1 for this process's row if other processes may write the store; 1 for each other table of entries or
    /// of copies. The first time, 3 more and 1 for each such table. While entities are written or looked up,
    /// the process's row is written again every ten times [`IndexOptions::cache`], or every lease if that is
    /// longer.
    ///
    /// # Errors
    /// - An index or the durations are inconsistent, two indexes have one name, or an index needs a blob store that the options lack.
    /// - An index would expose a property that the store encrypts by a rule.
    /// - The manifest has another layout for the type, or declares a property as encrypted that the program would write as plaintext.
    /// - The table, or a table of entries, does not exist; or a table of entries has the entries of another table.
    /// - An index copies into the entities of another table that has indexes.
    pub async fn open(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        Self::open_for(store, table, indexes, options, Writes::AnyType).await
    }

    /// Opens a table for a program that writes the entities of `writes`.
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

    /// Opens a table to maintain its indexes from the manifest alone: to build, scrub and drop them, and to
    /// recover and sweep writes, in a program without the Rust types. The handle writes no new entities; it
    /// only rewrites existing entities with their entries, and clears the journal rows of its writes before their answers, whatever
    /// [`IndexOptions::clearing`] says. As many requests as [`open`](Self::open) of a table
    /// that was opened before.
    ///
    /// # Errors
    /// The durations are inconsistent; the table does not exist.
    pub async fn open_for_upkeep(
        store: Arc<dyn TableStore>,
        table: TableName,
        options: IndexOptions,
    ) -> Result<Self> {
        // Nobody waits for a single answer of upkeep, and a round ends when its rows are gone.
        let options = IndexOptions { clearing: Clearing::BeforeAnswer, ..options };
        Self::open_for(store, table, Vec::new(), options, Writes::Nothing).await
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
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
    ) -> Result<Self> {
        Self::open_reader(store, table, indexes, options, Writes::Nothing).await
    }

    /// As [`open_to_read`](Self::open_to_read), for a reader of the entities in `of`.
    pub(crate) async fn open_reader(
        store: Arc<dyn TableStore>,
        table: TableName,
        indexes: Vec<Index>,
        options: IndexOptions,
        of: Writes,
    ) -> Result<Self> {
        let set = |set: IndexSet| set.of(of).read_only();
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
        let durations = options.durations();
        let set = Arc::new(set(IndexSet::new(store.clone(), table.clone(), indexes, durations)));
        let mut journal = Journal::new(store.clone(), table, set.clone())
            .with_timing(options.timing)
            .with_concurrency(options.concurrency)
            .with_clearing(options.clearing);
        if let Some(queue) = &options.queue {
            journal = journal.with_queue(queue.clone());
        }
        Ok(Self { store, set, journal, options, writes_entities: true })
    }

    async fn register(&mut self, writes: &Writes) -> Result<()> {
        claim_tables(&*self.store, self.table(), self.set.own()).await?;
        self.check_targets().await?;
        let durations = self.set.unregistered_durations();
        let mine = TableRow::of(self.options.blobs.is_some(), matches!(writes, Writes::AnyType), durations);
        for _ in 0..ROUNDS {
            // The process registers before it reads the states: a change of state waits only for registered processes.
            let asked = self.set.ask(&*self.store).await?;
            let loaded = self.rows().load().await?;
            self.set.check_stored_type(&loaded)?;
            self.set.check_large(&loaded)?;
            let (row, is_as_read) = match self.register_first(&loaded, &mine, writes).await? {
                First::Registered(row) => (row, false),
                First::No => {
                    let row = self.rows().extend_table_row(loaded.table.clone(), &mine).await?;
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

    /// Refuses copies into the entities of another table that has indexes: this handle would not maintain the
    /// indexes of that table.
    async fn check_targets(&self) -> Result<()> {
        for index in self.set.own().iter().filter(|index| matches!(index.shape(), Shape::Copy { .. })) {
            let other = self.index_table(index);
            if other == *self.table() {
                continue;
            }
            let manifest = ManifestCache::for_store(&*self.store).get(&*self.store, &other).await?;
            if !manifest.indexes.is_empty() {
                return Err(Error::invalid_request(format!(
                    "the index '{}' copies into the entities of the table '{other}', whose indexes would become stale: copy into entities of \
                     '{}', or into a table without indexes",
                    index.name(),
                    self.table()
                )));
            }
        }
        Ok(())
    }

    /// Declares the program's indexes as readable if the program is the first to open an empty table, or the
    /// first to open it for its type while the table has no entity of the type. No program writes such entities
    /// without the indexes then.
    ///
    /// The declaration is one group with the table's row, which every program writes that adds a value, and
    /// with the type's row, which shows the next program that the table was opened for the type. There is no
    /// declaration after a program has opened the table for any type: such a program may run without having
    /// read the indexes.
    async fn register_first(&self, loaded: &Loaded, mine: &TableRow, writes: &Writes) -> Result<First> {
        let row = loaded.table.with(mine);
        let is_new = is_new_table(loaded);
        let (is_first, types) = types_to_declare(loaded, &row, writes);
        let mut indexes = match is_first {
            true => self.indexes_to_declare(loaded, writes, types.len()),
            false => Vec::new(),
        };
        if !indexes.is_empty() && !self.has_no_entity(writes, is_new).await? {
            indexes.clear();
        }
        // The type's row is written in any case: from now on, no program is the first to open the table for the type.
        if indexes.is_empty() && types.is_empty() {
            return Ok(First::No);
        }
        let registered = self.rows().declare_first(&row, &types, &indexes).await?;
        Ok(if registered { First::Registered(row) } else { First::Lost })
    }

    /// The indexes of the program that may become readable at once: indexes of its entities, in the rest of a group with the table's row
    /// and `types` rows of types, except indexes that are built later and indexes whose entries could collide with existing ones.
    fn indexes_to_declare(&self, loaded: &Loaded, writes: &Writes, types: usize) -> Vec<StoredIndex> {
        let is_new = is_new_table(loaded);
        let later = |index: &Index| self.options.built_later.iter().any(|name| name == index.name());
        let is_of_type = |index: &&Index| match writes {
            Writes::Type(schema) => is_new || index.definition().entity.has_same_rows(&schema.entity_type()),
            Writes::AnyType | Writes::Nothing => true,
        };
        let has_own_rows = |index: &&Index| check_generations(index, loaded, self.table()).is_ok();
        let most = self.store.profile().group_operations - 1 - types;
        let indexes = self.set.own().iter().filter(|index| !later(index)).take(most);
        let indexes = indexes.filter(is_of_type).filter(has_own_rows);
        indexes.map(|index| StoredIndex::new(index.definition(), IndexState::Readable)).collect()
    }

    /// Whether the table certainly has no entity of the program's type; of any type, if the table is new. 1 request.
    async fn has_no_entity(&self, writes: &Writes, is_new: bool) -> Result<bool> {
        match writes {
            Writes::Type(schema) if !is_new => self.rows().has_none_of(&schema.entity_type()).await,
            _ => self.rows().is_empty_table().await,
        }
    }

    /// Sets the blob folder of this table in this store; other tables may share the blob store.
    pub(crate) fn keep_blobs(&mut self, row: &TableRow) {
        if let (Some(blobs), Some(id)) = (&self.options.blobs, &row.blobs) {
            let folder = format!("{}-{id}", self.table().to_lowercase());
            self.journal = self.journal.clone().with_blobs(blobs.clone(), folder);
        }
    }
}

/// Whether no program has opened the table or declared an index.
const fn is_new_table(loaded: &Loaded) -> bool {
    loaded.table.is_new() && loaded.manifest.indexes.is_empty()
}

/// Whether the program is the first to open the table for its entities, and the rows of types that it adds to the manifest or updates.
fn types_to_declare(loaded: &Loaded, row: &TableRow, writes: &Writes) -> (bool, Vec<StoredType>) {
    let schema = match writes {
        Writes::Type(schema) => schema,
        Writes::AnyType => return (is_new_table(loaded), Vec::new()),
        Writes::Nothing => return (false, Vec::new()),
    };
    let mine = StoredType::of(schema);
    match loaded.manifest.type_of(&schema.entity_type()) {
        // An update of the type's row: a later version, or a further large or encrypted property.
        Some(stored) => {
            let update = Some(stored.with(&mine)).filter(|update| update != stored);
            (false, update.into_iter().collect())
        }
        None => (is_new_table(loaded) || !row.any_type, vec![mine]),
    }
}

/// Refuses inconsistent indexes and options.
fn check(indexes: &[Index], options: &IndexOptions) -> Result<()> {
    options.check()?;
    indexes.iter().try_for_each(Index::validate)?;
    check_names(indexes)?;
    let later = |index: &&Index| options.built_later.iter().any(|name| name == index.name());
    if let Some(unique) = indexes.iter().filter(later).find(|index| index.uniqueness() != Uniqueness::No) {
        return Err(Error::invalid_request(format!(
            "the index '{}' is unique, and writes of its values are refused before it is built: remove it from \
             `IndexOptions::built_later`",
            unique.name()
        )));
    }
    let without = indexes.iter().find(|i| i.shape().needs_blobs() && options.blobs.is_none());
    without.map_or(Ok(()), |index| {
        Err(Error::invalid_request(format!(
            "the index '{}' keeps lists in blobs: set `IndexOptions::blobs` to an object store",
            index.name()
        )))
    })
}

const ROW: &str = "owner";
const OWNER: &str = "EntriesOf";

/// Makes `table` the owner of the tables with its remote entries. 1 request for each; 1 more the first time.
///
/// # Errors
/// A table has the entries of another table, or does not exist.
pub(crate) async fn claim_tables(store: &dyn TableStore, table: &TableName, indexes: &[Index]) -> Result<()> {
    let elsewhere: BTreeSet<_> = indexes.iter().filter_map(|index| entries_in(index, table)).collect();
    for entries in elsewhere {
        claim(store, table, entries).await?;
    }
    Ok(())
}

/// The other table in which an index keeps rows; `None` for copies, which go into the entities of a table.
fn entries_in<'a>(index: &'a Index, table: &TableName) -> Option<&'a TableName> {
    match (index.placement(), index.shape()) {
        (_, Shape::Copy { .. }) => None,
        (Placement::OtherTable(other), _) => Some(other).filter(|other| *other != table),
        _ => None,
    }
}

async fn claim(store: &dyn TableStore, table: &TableName, entries: &TableName) -> Result<()> {
    let key = Key::new(MANIFEST_PARTITION, ROW)?;
    let mut row = store.get(entries, &key, None).await?;
    if row.is_none() {
        let owner = Entity::from(key.clone()).with(OWNER, table.as_str());
        match store.write(entries, Operation::Insert(owner)).await {
            Err(e) if e.is_already_exists() => row = store.get(entries, &key, None).await?,
            other => return other.map(drop),
        }
    }
    match row.as_ref().and_then(|row| row.get(OWNER)) {
        Some(ValueRef::String(owner)) if is_same(store, owner, table) => Ok(()),
        owner => {
            let owner = owner.map_or_else(|| "another".to_owned(), |owner| format!("{owner:?}"));
            Err(Error::invalid_request(format!(
                "the table '{entries}' has the index entries of the table {owner}, not of '{table}': a scrub or sweep of one table would \
                 delete the entries of the other; choose a separate table for the entries of '{table}'"
            )))
        }
    }
}

fn is_same(store: &dyn TableStore, owner: &str, table: &TableName) -> bool {
    match store.profile().case_sensitive_tables {
        true => owner == table.as_str(),
        false => owner.eq_ignore_ascii_case(table.as_str()),
    }
}
