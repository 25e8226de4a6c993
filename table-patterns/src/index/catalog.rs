use std::collections::BTreeMap;

use table_core::model::{
    ETag, Entity, INDEX_TABLE, INDEXES_PARTITION, IfMatch, Key, PartitionKey, SYSTEM_PREFIX, TableName,
    ValueRef,
};
use table_core::query::{Filter, Query};
use table_core::store::{Error, GroupTransaction, Operation, Result, TableStore, TableStoreExt as _};

use super::definition::{Index, Placement};
use super::shape::Shape;
use super::state::IndexState;
use super::table_row::TableRow;

const STATE: &str = "IndexState";
const FINGERPRINT: &str = "IndexDefinition";
const PROGRESS: &str = "IndexProgress";
const SHAPE: &str = "IndexShape";

/// What the table says of one index.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogEntry {
    /// Where it is in its life.
    pub state: IndexState,
    /// The definition it was made with; see [`Index::fingerprint`].
    pub fingerprint: String,
    /// The table of its entries, if that is not the entities' own.
    pub table: Option<TableName>,
    /// How its entries are kept.
    pub shape: Shape,
    /// Where a build goes on.
    pub progress: Option<String>,
    pub(super) etag: Option<ETag>,
}

/// The catalog of a table's indexes: rows in a system partition of the table itself.
#[derive(Clone, Debug)]
pub(super) struct Catalog<'a> {
    pub(super) store: &'a dyn TableStore,
    pub(super) table: &'a TableName,
}

/// What the catalog holds.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) indexes: BTreeMap<String, CatalogEntry>,
    pub(super) table: TableRow,
}

pub(super) fn partition() -> String {
    INDEXES_PARTITION.to_owned()
}

/// Whether the table's catalog names an index. One request.
pub(crate) async fn is_indexed(store: &dyn TableStore, table: &TableName) -> Result<bool> {
    let here = Filter::eq(Filter::PARTITION_KEY, partition());
    let indexes = Filter::lt(Filter::ROW_KEY, SYSTEM_PREFIX).or(Filter::ge(Filter::ROW_KEY, "~~\u{10FFFF}"));
    let query = Query::new().with_filter(here.and(indexes)).with_top(1);
    Ok(!store.query_all(table, &query).await?.is_empty())
}

impl Catalog<'_> {
    /// Everything the catalog holds. One request.
    pub(super) async fn load(&self) -> Result<Loaded> {
        let query = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, partition()));
        let rows = self.store.query_all(self.table, &query).await?;
        let mut loaded = Loaded::default();
        for row in rows {
            match row.key().row() {
                TableRow::NAME => loaded.table = TableRow::read(&row)?,
                name if name.starts_with(SYSTEM_PREFIX) => {}
                name => drop(loaded.indexes.insert(name.to_owned(), read(&row)?)),
            }
        }
        Ok(loaded)
    }

    /// Whether the table holds nothing but system rows. One request.
    pub(super) async fn is_empty_table(&self) -> Result<bool> {
        let user = Filter::lt(Filter::PARTITION_KEY, SYSTEM_PREFIX);
        let after = Filter::ge(Filter::PARTITION_KEY, "~~\u{10FFFF}");
        let query = Query::new().with_filter(user.or(after)).with_top(1);
        Ok(self.store.query_all(self.table, &query).await?.is_empty())
    }

    /// Adds the table's row and indexes that are readable, all at once. `false` if another was quicker. One
    /// request.
    pub(super) async fn found(&self, row: &TableRow, indexes: &[&Index]) -> Result<bool> {
        let mut group = GroupTransaction::new(PartitionKey::new(partition())?, self.store.profile());
        group.push(Operation::Insert(row.to_entity()?))?;
        for index in indexes {
            let entry = CatalogEntry::new(index, IndexState::Readable);
            group.push(Operation::Insert(write(index.name(), &entry)?))?;
        }
        match self.store.transact(self.table, group).await {
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Adds an index in a state. One request.
    pub(super) async fn insert(&self, index: &Index, state: IndexState) -> Result<()> {
        let row = write(index.name(), &CatalogEntry::new(index, state))?;
        match self.store.write(self.table, Operation::Insert(row)).await {
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Changes an entry that was loaded, under its ETag. One request.
    pub(super) async fn advance(
        &self,
        name: &str,
        entry: &mut CatalogEntry,
        state: IndexState,
        progress: Option<String>,
    ) -> Result<()> {
        let next = CatalogEntry { state, progress, ..entry.clone() };
        let condition = entry.etag.clone().map_or(IfMatch::Any, IfMatch::Exactly);
        let replace = Operation::Replace(write(name, &next)?, condition);
        let written = self.store.write(self.table, replace).await?;
        *entry = CatalogEntry { etag: written.etag, ..next };
        Ok(())
    }

    /// Forgets an index, unless another program has done so. One request.
    pub(super) async fn remove(&self, name: &str, entry: &CatalogEntry) -> Result<()> {
        let condition = entry.etag.clone().map_or(IfMatch::Any, IfMatch::Exactly);
        let delete = Operation::Delete(Key::new(partition(), name)?, condition);
        match self.store.write(self.table, delete).await {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }
}

impl CatalogEntry {
    fn new(index: &Index, state: IndexState) -> Self {
        let table = match index.placement() {
            Placement::OtherTable(table) => Some(table.clone()),
            Placement::SamePartition | Placement::OtherPartition => None,
        };
        let (fingerprint, shape) = (index.fingerprint(), index.shape().clone());
        Self { state, fingerprint, table, shape, progress: None, etag: None }
    }
}

fn write(name: &str, entry: &CatalogEntry) -> Result<Entity> {
    let CatalogEntry { state, fingerprint, table, shape, progress, etag: _ } = entry;
    let shape = serde_json::to_string(shape).map_err(|e| Error::invalid_request(e.to_string()))?;
    let row = Entity::new(partition(), name)?.with(STATE, state.name());
    let mut row = row.with(FINGERPRINT, fingerprint.as_str()).with(SHAPE, shape);
    if let Some(table) = table {
        row.properties_mut().set(INDEX_TABLE, table.as_str());
    }
    if let Some(progress) = progress {
        row.properties_mut().set(PROGRESS, progress.as_str());
    }
    Ok(row)
}

fn read(row: &Entity) -> Result<CatalogEntry> {
    let text = |name: &str| match row.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    };
    let damaged =
        |name: &str| Error::decode("index catalog", row.key(), name, "Edm.String", "something else");
    let needed = |name: &str| text(name).ok_or_else(|| damaged(name));
    Ok(CatalogEntry {
        state: IndexState::parse(needed(STATE)?)?,
        fingerprint: needed(FINGERPRINT)?.to_owned(),
        table: text(INDEX_TABLE).map(TableName::new).transpose()?,
        shape: serde_json::from_str(needed(SHAPE)?).map_err(|_| damaged(SHAPE))?,
        progress: text(PROGRESS).map(str::to_owned),
        etag: row.etag().cloned(),
    })
}
