//! The rows of the manifest that indexes have, and what writes them.

use table_core::manifest::{EntityType, IndexState, Manifest, StoredIndex, StoredType};
use table_core::model::{Entity, IfMatch, MANIFEST_PARTITION, PartitionKey, SYSTEM_PREFIX, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{GroupTransaction, Operation, Result, TableStore};

use super::processes::ProcessRow;
use super::table_row::TableRow;

/// The manifest of a table, to be changed.
#[derive(Clone, Debug)]
pub(super) struct ManifestRows<'a> {
    pub(super) store: &'a dyn TableStore,
    pub(super) table: &'a TableName,
}

/// What the manifest holds.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) manifest: Manifest,
    pub(super) table: TableRow,
    /// The processes that are registered, those that are gone among them.
    pub(super) processes: Vec<ProcessRow>,
}

impl Loaded {
    /// The generation with this id.
    pub(super) fn index(&self, id: &str) -> Option<&StoredIndex> {
        self.manifest.indexes.iter().find(|index| index.id() == id)
    }

    /// What programs that have opened the table for the type say of it.
    pub(super) fn stored_type(&self, entity: &EntityType) -> Option<&StoredType> {
        let is_it =
            |stored: &&StoredType| stored.entity.as_ref().is_some_and(|known| known.is_told_as(entity));
        self.manifest.types.iter().find(is_it)
    }

    /// The properties that are encrypted in rows which may be of the type.
    pub(super) fn encrypted_of<'l>(&'l self, entity: &EntityType) -> impl Iterator<Item = &'l str> {
        let meets = |stored: &&StoredType| stored.entity.as_ref().is_none_or(|of| !of.is_apart_from(entity));
        let types: Vec<_> = self.manifest.types.iter().filter(meets).collect();
        types.into_iter().flat_map(|stored| &stored.encrypted).map(String::as_str)
    }
}

impl ManifestRows<'_> {
    /// Everything the manifest holds. One request.
    pub(super) async fn load(&self) -> Result<Loaded> {
        let manifest = Manifest::load(self.store, self.table).await?;
        let table = manifest.other(TableRow::NAME).map_or_else(|| Ok(TableRow::default()), TableRow::read)?;
        let processes = manifest.others.iter().map(ProcessRow::read);
        let processes = processes.filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(Loaded { manifest, table, processes })
    }

    /// One generation of an index. One request.
    pub(super) async fn index(&self, id: &str) -> Result<Option<StoredIndex>> {
        let loaded = self.load().await?;
        Ok(loaded.manifest.indexes.into_iter().find(|index| index.id() == id))
    }

    /// Whether the table holds nothing but system rows. One request.
    pub(super) async fn is_empty_table(&self) -> Result<bool> {
        let user = Filter::lt(Filter::PARTITION_KEY, SYSTEM_PREFIX);
        let after = Filter::ge(Filter::PARTITION_KEY, "~~\u{10FFFF}");
        self.has_none(user.or(after)).await
    }

    /// Whether the table certainly holds no entity of a type: `false` also where one answer does not tell, which a service
    /// gives after it has looked at a part of a large table. One request.
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

    /// Writes the table's row and those of types, and adds indexes that are readable, all at once. `false` if another was quicker. One
    /// request.
    pub(super) async fn found(
        &self,
        row: &TableRow,
        types: &[StoredType],
        indexes: &[StoredIndex],
    ) -> Result<bool> {
        let mut group = GroupTransaction::new(PartitionKey::new(MANIFEST_PARTITION)?, self.store.profile());
        // Under its ETag: whoever else opens the table writes the row, so that of two one starts again.
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

    /// Adds an index in a state. One request.
    pub(super) async fn insert(&self, index: &StoredIndex) -> Result<()> {
        match self.store.write(self.table, Operation::Insert(index.to_entity()?)).await {
            Err(e) if e.is_already_exists() && !e.is_ambiguous() => Ok(()),
            other => other.map(drop),
        }
    }

    /// Changes the state of an index that was loaded, under its ETag. One request.
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

    /// Forgets an index, unless another program has done so. One request.
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

/// Whether another program has changed one of the rows first.
pub(super) fn is_lost(error: &table_core::store::Error) -> bool {
    !error.is_ambiguous()
        && (error.is_already_exists() || error.is_precondition_failed() || error.is_entity_not_found())
}
