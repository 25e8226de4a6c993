//! [`TypeIndexes`]: the indexes of a type in a table, opened when a program first needs them.

use std::any::TypeId;
use std::sync::Arc;

use table_core::manifest::IndexDefinition;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Filter;
use table_core::store::{Error, ErrorKind, Result, TableStore, TableStoreExt as _};
use table_core::typed::{Schema, TableEntity};
use tokio::sync::OnceCell;

use crate::blobs::with_placeholders;
use crate::entry::{Index, Placement};
use crate::index::open::{open_to_read, open_to_write};
use crate::index::states::set::EntityScope;
use crate::index::{IndexOptions, IndexedEntities};

/// What a write must know of an entity type, as a value.
#[derive(Clone, Copy)]
pub(crate) struct EntityCode {
    pub(super) id: TypeId,
    pub(crate) schema: &'static Schema,
    filter: fn() -> Option<Filter>,
    keys: fn(usize, Entity) -> Result<Vec<Key>>,
}

impl EntityCode {
    pub(crate) fn of<T: TableEntity>() -> Self {
        Self {
            id: TypeId::of::<T>(),
            schema: T::SCHEMA,
            filter: T::type_filter,
            keys: |n, entity| T::from_entity(entity)?.index_keys(n),
        }
    }

    /// The indexes that the type declares. The type derives the keys, and converts rows of older schema versions. The feed has no entries.
    fn indexes(self) -> impl Iterator<Item = Index> {
        let numbered = self.schema.indexes.iter().enumerate();
        numbered.map(move |(n, definition)| {
            if definition.is_feed() {
                return Index::without_entries(definition.clone());
            }
            Index::derived(definition.clone(), move |entity| {
                self.keys(n, definition, entity)
            })
        })
    }

    /// The keys of an entity's entries; none for rows of other types. The keys do not depend on values in blobs, which placeholders
    /// replace.
    fn keys(self, n: usize, definition: &IndexDefinition, entity: &Entity) -> Result<Vec<Key>> {
        if (self.filter)().is_some_and(|filter| !filter.matches(entity)) {
            return Ok(Vec::new());
        }
        let (schema, keys) = (self.schema, self.keys);
        let Some(row) = with_placeholders(schema, entity, "") else {
            return keys(n, entity.clone());
        };
        let found = keys(n, row)?;
        // The conversion from an older version may read a large value: two placeholders must give the same keys.
        let older = schema.stored_version(entity)? < i64::from(schema.version);
        if older
            && let Some(other) = with_placeholders(schema, entity, "another text")
            && keys(n, other)? != found
        {
            let (name, key, index) = (schema.rust_name, entity.key(), &definition.name);
            return Err(Error::invalid_declaration(format!(
                "the conversion of {key} from an older version of {name} derives the entry of the index '{index}' from a large value, \
                 which is in a blob: derive the indexed fields from other properties"
            )));
        }
        Ok(found)
    }
}

/// The indexes of a type, and more.
fn all_indexes(code: EntityCode, more: Vec<Index>) -> Vec<Index> {
    code.indexes().chain(more).collect()
}

/// Opens the entities of a type with its indexes, and creates missing tables.
async fn open_entities(
    store: Arc<dyn TableStore>,
    table: TableName,
    schema: &'static Schema,
    indexes: Vec<Index>,
    options: IndexOptions,
) -> Result<IndexedEntities> {
    store.profile().check_reads("indexes")?;
    store.create_table_if_missing(&table).await?;
    for index in &indexes {
        // Before the manifest declares the index: from then on, every program writes its entries.
        if let Placement::OtherTable(other) = index.placement() {
            store.create_table_if_missing(other).await?;
        }
    }
    open_to_write(store, table, indexes, options, EntityScope::Type(schema)).await
}

/// The indexes of a type in a table. A program that only reads opens them without a row in the manifest; its first write registers it as a
/// writer, and declares the indexes in a new table.
pub(crate) struct TypeIndexes {
    store: Arc<dyn TableStore>,
    table: TableName,
    code: EntityCode,
    /// The indexes that the handle has and the type does not declare.
    more: Vec<Index>,
    options: IndexOptions,
    /// The same indexes with other options. They are opened once for both.
    base: Option<Arc<TypeIndexes>>,
    written: OnceCell<IndexedEntities>,
    read: OnceCell<IndexedEntities>,
}

impl TypeIndexes {
    pub(crate) fn new(
        store: Arc<dyn TableStore>,
        table: TableName,
        code: EntityCode,
        more: Vec<Index>,
        options: IndexOptions,
    ) -> Self {
        Self {
            store,
            table,
            code,
            more,
            options,
            base: None,
            written: OnceCell::new(),
            read: OnceCell::new(),
        }
    }

    /// The same indexes, with other options of calls.
    pub(crate) fn with_options(self: &Arc<Self>, change: impl FnOnce(&mut IndexOptions)) -> Self {
        let mut options = self.options.clone();
        change(&mut options);
        Self {
            base: Some(Arc::clone(self)),
            more: self.more.clone(),
            ..Self::new(
                Arc::clone(&self.store),
                self.table.clone(),
                self.code,
                Vec::new(),
                options,
            )
        }
    }

    /// Whether every write must maintain entries: the type or the handle has indexes, or an earlier write has found indexes of other
    /// programs.
    pub(crate) fn must_be_maintained(&self) -> bool {
        !self.code.schema.indexes.is_empty() || self.has_more() || self.written.initialized()
    }

    /// Whether a write of a row alone was refused, because another program has declared an index in the table.
    pub(crate) async fn are_declared_by_others(&self, refused: &Error) -> bool {
        if !matches!(refused.root().kind(), ErrorKind::ManifestMismatch(_)) {
            return false;
        }
        // Not the known manifest: a change of the manifest after the refusal, such as a step of a build, has removed it from the cache.
        let manifest = self.store.manifest(&self.table).await;
        manifest.is_ok_and(|manifest| !manifest.indexes.is_empty())
    }

    /// Whether the handle has indexes that the type does not declare: a patch may change properties that these hold.
    pub(crate) fn has_more(&self) -> bool {
        !self.more.is_empty()
    }

    pub(super) const fn code(&self) -> EntityCode {
        self.code
    }

    /// The entities, if a write has opened them.
    pub(crate) fn opened(&self) -> Option<&IndexedEntities> {
        self.written.get()
    }

    pub(crate) const fn options(&self) -> &IndexOptions {
        &self.options
    }

    pub(crate) const fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    pub(crate) const fn table(&self) -> &TableName {
        &self.table
    }

    /// The entities, to be written. The first call opens them: see [`Table::declare`](super::Table::declare).
    pub(crate) async fn to_write(&self) -> Result<&IndexedEntities> {
        let open = || async {
            match &self.base {
                Some(base) => Ok(self.adapted(Box::pin(base.to_write()).await?)),
                None => {
                    let (store, table) = (Arc::clone(&self.store), self.table.clone());
                    let options = self.options.clone();
                    open_entities(store, table, self.code.schema, self.all(), options).await
                }
            }
        };
        self.written.get_or_try_init(open).await
    }

    /// The entities, to be looked up. Until this program writes, it does not register in the manifest. 1 request for the first call.
    pub(crate) async fn to_read(&self) -> Result<&IndexedEntities> {
        if let Some(written) = self.written.get() {
            return Ok(written);
        }
        let open = || async {
            match &self.base {
                Some(base) => Ok(self.adapted(Box::pin(base.to_read()).await?)),
                None => {
                    let (store, table) = (Arc::clone(&self.store), self.table.clone());
                    let (options, scope) =
                        (self.options.clone(), EntityScope::Type(self.code.schema));
                    open_to_read(store, table, self.all(), options, scope).await
                }
            }
        };
        self.read.get_or_try_init(open).await
    }

    fn adapted(&self, entities: &IndexedEntities) -> IndexedEntities {
        let options = self.options.clone();
        entities.clone().with_options(|of_call| *of_call = options)
    }

    fn all(&self) -> Vec<Index> {
        all_indexes(self.code, self.more.clone())
    }
}

impl std::fmt::Debug for TypeIndexes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TypeIndexes")
            .field("table", &self.table)
            .field("type", &self.code.schema.rust_name)
            .field("entities", &self.written.get())
            .finish_non_exhaustive()
    }
}
