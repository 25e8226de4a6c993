//! The manifest rows of indexes, types and processes: reading and writing. docs/manifest.md describes the rows.

use table_core::manifest::{EntityType, IndexState, Manifest, StoredIndex, StoredType};
use table_core::model::{Entity, IfMatch, MANIFEST_PARTITION, PartitionKey, SYSTEM_PREFIX, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{GroupTransaction, Operation, Result, TableStore};

use super::processes::ProcessRow;
use super::table_row::TableRow;

/// The manifest of a table, for reading and writing.
#[derive(Clone, Debug)]
pub(super) struct ManifestRows<'a> {
    pub(super) store: &'a dyn TableStore,
    pub(super) table: &'a TableName,
}

/// The content of the manifest.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) manifest: Manifest,
    pub(super) table: TableRow,
    /// The registered processes, including ended processes whose rows remain.
    pub(super) processes: Vec<ProcessRow>,
}

impl Loaded {
    /// The generation with this id.
    pub(super) fn index(&self, id: &str) -> Option<&StoredIndex> {
        self.manifest.indexes.iter().find(|index| index.id() == id)
    }

    /// The manifest's row of a type; `None` if no program has opened the table for it.
    pub(super) fn stored_type(&self, entity: &EntityType) -> Option<&StoredType> {
        let is_it =
            |stored: &&StoredType| stored.entity.as_ref().is_some_and(|known| known.has_same_rows(entity));
        self.manifest.types.iter().find(is_it)
    }

    /// The encrypted properties of all types whose rows may be of this type.
    pub(super) fn encrypted_of<'l>(&'l self, entity: &EntityType) -> impl Iterator<Item = &'l str> {
        let meets =
            |stored: &&StoredType| stored.entity.as_ref().is_none_or(|of| !of.is_disjoint_from(entity));
        let types: Vec<_> = self.manifest.types.iter().filter(meets).collect();
        types.into_iter().flat_map(|stored| &stored.encrypted).map(String::as_str)
    }
}

impl ManifestRows<'_> {
    /// Reads the manifest. 1 request.
    pub(super) async fn load(&self) -> Result<Loaded> {
        let manifest = Manifest::load(self.store, self.table).await?;
        let table = manifest.other(TableRow::NAME).map_or_else(|| Ok(TableRow::default()), TableRow::read)?;
        let processes = manifest.others.iter().map(ProcessRow::read);
        let processes = processes.filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(Loaded { manifest, table, processes })
    }

    /// Reads the row of one index, by its id. 1 request.
    pub(super) async fn index(&self, id: &str) -> Result<Option<StoredIndex>> {
        let loaded = self.load().await?;
        Ok(loaded.manifest.indexes.into_iter().find(|index| index.id() == id))
    }

    /// Whether the table holds only system rows. 1 request.
    pub(super) async fn is_empty_table(&self) -> Result<bool> {
        let user = Filter::lt(Filter::PARTITION_KEY, SYSTEM_PREFIX);
        let after = Filter::ge(Filter::PARTITION_KEY, "~~\u{10FFFF}");
        self.has_none(user.or(after)).await
    }

    /// Whether the table certainly holds no entity of a type. Also `false` if the first page is empty and has a
    /// continuation: a service may answer so after it has read a part of a large table. 1 request.
    pub(super) async fn has_none_of(&self, entity: &EntityType) -> Result<bool> {
        match entity.discriminator.filter(&entity.name) {
            Some(filter) => self.has_none(filter).await,
            None => self.is_empty_table().await,
        }
    }

    async fn has_none(&self, filter: Filter) -> Result<bool> {
        let page = self.store.query(self.table, &Query::new().with_filter(filter).with_top(1), None).await?;
        Ok(page.items.is_empty() && page.continuation.is_none())
    }

    /// Writes the table's row and the rows of types, and inserts indexes as readable, in one group. `false` if
    /// another program wrote one of the rows first. 1 request.
    pub(super) async fn found(
        &self,
        row: &TableRow,
        types: &[StoredType],
        indexes: &[StoredIndex],
    ) -> Result<bool> {
        let mut group = GroupTransaction::new(PartitionKey::new(MANIFEST_PARTITION)?, self.store.profile());
        // Under the row's ETag: every program that opens the table writes this row, so one of two concurrent programs starts again.
        group.push(row.operation()?)?;
        for entity in types {
            group.push(entity.operation()?)?;
        }
        for index in indexes {
            group.push(Operation::Insert(index.to_entity()?))?;
        }
        match self.store.transact(self.table, group).await {
            Err(e) if is_lost(&e) => Ok(false),
            other => other.map(|_| true),
        }
    }

    /// Inserts an index in a state. 1 request.
    pub(super) async fn insert(&self, index: &StoredIndex) -> Result<()> {
        match self.store.write(self.table, Operation::Insert(index.to_entity()?)).await {
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Changes the state of an index under the ETag that was read. 1 request.
    pub(super) async fn advance(
        &self,
        index: &mut StoredIndex,
        state: IndexState,
        progress: Option<String>,
    ) -> Result<()> {
        let patch: Entity = index.state_patch(state, progress.as_deref())?;
        let merge = Operation::Merge(patch, condition(index));
        let written = self.store.write(self.table, merge).await?;
        (index.state, index.progress, index.etag) = (state, progress, written.etag);
        Ok(())
    }

    /// Deletes the row of an index, unless another program has deleted it. 1 request.
    pub(super) async fn remove(&self, index: &StoredIndex) -> Result<()> {
        let delete = Operation::Delete(index.key()?, condition(index));
        match self.store.write(self.table, delete).await {
            Err(e) if e.is_entity_not_found() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }
}

fn condition(index: &StoredIndex) -> IfMatch {
    index.etag.clone().map_or(IfMatch::Any, IfMatch::Exactly)
}

/// Whether another program changed one of the rows first.
pub(super) fn is_lost(error: &table_core::store::Error) -> bool {
    !error.is_ambiguous()
        && (error.is_already_exists() || error.is_precondition_failed() || error.is_entity_not_found())
}
