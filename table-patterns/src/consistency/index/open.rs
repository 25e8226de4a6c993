//! Opening a table with its indexes: the process registers, reads the manifest, and declares indexes in a new
//! table.

use std::sync::Arc;

use table_core::manifest::{IndexState, StoredIndex, StoredType};
use table_core::model::TableName;
use table_core::store::{Error, Result, TableStore, TableStoreExt as _};

use super::consent;
use super::entities::IndexedEntities;
use super::exposure::check_and_declare_copies;
use super::options::IndexOptions;
use super::states::manifest::{Loaded, TableRow};
use super::states::names::{check_generations, check_names};
use super::states::set::{EntityScope, IndexSet};
use crate::entry::{Index, Placement, Shape, Uniqueness};
use crate::journal::Journal;

/// Attempts to register while other processes change the manifest.
const ROUNDS: usize = 16;

/// Whether a program is the first to open a table.
enum First {
    No,
    Registered(TableRow),
    /// Another program changed the manifest first: read it again.
    Lost,
}

/// Opens a table for a program that writes the entities of `scope`.
pub(crate) async fn open_to_write(
    store: Arc<dyn TableStore>,
    table: TableName,
    indexes: Vec<Index>,
    options: IndexOptions,
    scope: EntityScope,
) -> Result<IndexedEntities> {
    let set = new_set(&store, &table, indexes, &options)?
        .with_scope(scope)
        .with_registration();
    let row = Opening {
        set: &set,
        options: &options,
        scope,
    }
    .register()
    .await?;
    Ok(handle(set, options, &row, scope != EntityScope::Nothing))
}

/// Opens a table for a program that reads the entities of `scope`. 1 request.
pub(crate) async fn open_to_read(
    store: Arc<dyn TableStore>,
    table: TableName,
    indexes: Vec<Index>,
    options: IndexOptions,
    scope: EntityScope,
) -> Result<IndexedEntities> {
    let set = new_set(&store, &table, indexes, &options)?
        .with_scope(scope)
        .read_only();
    set.refresh().await?;
    set.check_type()?;
    let row = set.table_row();
    Ok(handle(set, options, &row, true))
}

fn new_set(
    store: &Arc<dyn TableStore>,
    table: &TableName,
    indexes: Vec<Index>,
    options: &IndexOptions,
) -> Result<IndexSet> {
    check(&indexes, options)?;
    store.profile().check_reads("indexes")?;
    check_and_declare_copies(&**store, table, &indexes)?;
    Ok(IndexSet::new(
        store.clone(),
        table.clone(),
        indexes,
        options.durations(),
    ))
}

/// The handle, with the blob folder of this table in this store: other tables may share the blob store.
fn handle(
    set: IndexSet,
    options: IndexOptions,
    row: &TableRow,
    writes_entities: bool,
) -> IndexedEntities {
    let set = Arc::new(set);
    let mut journal = Journal::new(set.store().clone(), set.table().clone(), set.clone())
        .with_timing(options.timing)
        .with_concurrency(options.concurrency)
        .with_clearing(options.clearing);
    if let Some(queue) = &options.queue {
        journal = journal.with_queue(queue.clone());
    }
    #[cfg(not(feature = "blobs"))]
    let _ = row;
    #[cfg(feature = "blobs")]
    if let (Some(blobs), Some(id)) = (&options.blobs, &row.blobs) {
        let folder = format!("{}-{id}", set.table().to_lowercase());
        journal = journal.with_blobs(blobs.clone(), folder);
    }
    IndexedEntities {
        set,
        journal,
        options,
        writes_entities,
    }
}

/// The opening of a table by a program that writes it.
#[derive(Clone, Copy, Debug)]
struct Opening<'a> {
    set: &'a IndexSet,
    options: &'a IndexOptions,
    scope: EntityScope,
}

impl Opening<'_> {
    /// Registers the process, reads the states, and declares the indexes if the program is the first. Returns the table's row.
    async fn register(&self) -> Result<TableRow> {
        let set = self.set;
        self.check_targets().await?;
        let any_type = self.scope == EntityScope::AnyType;
        let mine = TableRow::of(
            self.options.has_blobs(),
            any_type,
            set.unregistered_durations(),
        );
        for _ in 0..ROUNDS {
            // The process registers before it reads the states: a change of state waits only for registered processes.
            let (loaded, asked) = set.load().await?;
            if let EntityScope::Type(schema) = self.scope {
                loaded
                    .manifest
                    .check_type_row(set.table(), &schema.entity_type())?;
            }
            set.check_stored_type(&loaded)?;
            set.check_large(&loaded)?;
            let (row, is_as_read) = match self.register_first(&loaded, &mine).await? {
                First::Registered(row) => (row, false),
                First::No => {
                    let row = set
                        .manifest()
                        .extend_table_row(loaded.table.clone(), &mine)
                        .await?;
                    let is_as_read = row == loaded.table && !row.is_new();
                    (row, is_as_read)
                }
                First::Lost => continue,
            };
            match is_as_read {
                true => set.adopt_manifest(&loaded, asked)?,
                // This program or another one has written the manifest since it was read.
                false => set.refresh().await?,
            }
            return Ok(row);
        }
        Err(Error::precondition_failed(set.table(), TableRow::NAME))
    }

    /// Refuses copies into the entities of another table that has indexes: this handle would not maintain the
    /// indexes of that table.
    async fn check_targets(&self) -> Result<()> {
        let (store, table) = (&**self.set.store(), self.set.table());
        for index in self
            .set
            .own()
            .iter()
            .filter(|index| matches!(index.shape(), Shape::Copy { .. }))
        {
            let Placement::OtherTable(other) = index.placement() else {
                continue;
            };
            if other == table {
                continue;
            }
            let manifest = store.manifest(other).await?;
            if !manifest.indexes.is_empty() {
                return Err(Error::invalid_declaration(format!(
                    "the index '{}' copies into the entities of the table '{other}', whose indexes would become stale: copy into entities of \
                     '{}', or into a table without indexes",
                    index.name(),
                    table
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
    async fn register_first(&self, loaded: &Loaded, mine: &TableRow) -> Result<First> {
        let row = loaded.table.with(mine);
        let is_new = is_new_table(loaded);
        let (is_first, types) = types_to_declare(loaded, &row, self.scope);
        let mut indexes = match is_first {
            true => self.indexes_to_declare(loaded, types.len()),
            false => Vec::new(),
        };
        if !indexes.is_empty() && !self.has_no_entity(is_new).await? {
            indexes.clear();
        }
        // The type's row is written in any case: from now on, no program is the first to open the table for the type.
        if indexes.is_empty() && types.is_empty() {
            return Ok(First::No);
        }
        // First the consents of the other tables: a definition without them is not in force.
        consent::give(self.set, loaded, &indexes).await?;
        let registered = self.set.manifest().declare(&row, &types, &indexes).await?;
        Ok(if registered {
            First::Registered(row)
        } else {
            First::Lost
        })
    }

    /// The indexes of the program that may become readable at once: indexes of its entities, in the rest of a group with the table's row
    /// and `types` rows of types, except indexes that are built later and indexes whose entries could collide with existing ones.
    fn indexes_to_declare(&self, loaded: &Loaded, types: usize) -> Vec<StoredIndex> {
        let is_new = is_new_table(loaded);
        let is_of_type = |index: &&Index| match self.scope {
            EntityScope::Type(schema) => {
                is_new
                    || index
                        .definition()
                        .entity
                        .has_same_rows(&schema.entity_type())
            }
            EntityScope::AnyType | EntityScope::Nothing => true,
        };
        let has_own_rows = |index: &&Index| {
            check_generations(index.definition(), loaded, self.set.table()).is_ok()
        };
        let most = self.set.store().profile().group_operations - 1 - types;
        // A definition that is there already is brought into force by a build, and not declared.
        let is_absent = |index: &&Index| loaded.not_in_force(index.id()).is_none();
        let indexes = self
            .set
            .own()
            .iter()
            .filter(|index| !self.options.builds_later(index))
            .filter(is_absent);
        let indexes = indexes.filter(is_of_type).filter(has_own_rows).take(most);
        indexes
            .map(|index| StoredIndex::new(index.definition(), IndexState::Readable))
            .collect()
    }

    /// Whether the table certainly has no entity of the program's type; of any type, if the table is new. 1 request.
    async fn has_no_entity(&self, is_new: bool) -> Result<bool> {
        match self.scope {
            EntityScope::Type(schema) if !is_new => {
                self.set
                    .entity_rows()
                    .has_none_of(&schema.entity_type())
                    .await
            }
            _ => self.set.entity_rows().has_none().await,
        }
    }
}

/// Whether no program has opened the table or declared an index.
const fn is_new_table(loaded: &Loaded) -> bool {
    loaded.table.is_new() && loaded.manifest.indexes.is_empty()
}

/// Whether the program is the first to open the table for its entities, and the rows of types that it adds to the manifest or updates.
fn types_to_declare(
    loaded: &Loaded,
    row: &TableRow,
    scope: EntityScope,
) -> (bool, Vec<StoredType>) {
    let schema = match scope {
        EntityScope::Type(schema) => schema,
        EntityScope::AnyType => return (is_new_table(loaded), Vec::new()),
        EntityScope::Nothing => return (false, Vec::new()),
    };
    let mine = StoredType::from_schema(schema);
    match loaded.manifest.type_of(&schema.entity_type()) {
        // An update of the type's row: a later version, or a further large or encrypted property.
        Some(stored) => {
            let update = Some(stored.merged_with(&mine)).filter(|update| update != stored);
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
    if let Some(unique) = indexes
        .iter()
        .filter(|index| options.builds_later(index))
        .find(|index| index.uniqueness() != Uniqueness::No)
    {
        return Err(Error::invalid_argument(format!(
            "the index '{}' is unique, and writes of its values are refused before it is built: remove it from \
             `IndexOptions::built_later`",
            unique.name()
        )));
    }
    let without = indexes
        .iter()
        .find(|i| i.shape().needs_blobs() && !options.has_blobs());
    without.map_or(Ok(()), |index| {
        Err(Error::invalid_argument(format!(
            "the index '{}' keeps lists in blobs: set `IndexOptions::blobs` to an object store (feature `blobs` of table-patterns)",
            index.name()
        )))
    })
}
