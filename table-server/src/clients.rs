//! The store as clients see it that know nothing of indexes and layouts.
//!
//! A table describes its indexes and layouts in its manifest. The programs of this library maintain them and say
//! so in a header. Other clients see no index entries and no system rows, and their writes pass an
//! [`Maintainer`], which writes the index entries too, or are refused before anything is written. So do the writes of a program of this
//! library whose credential does not have full rights: it could otherwise write an entity without its entries, or with entries of another entity.

use std::sync::Arc;

use async_trait::async_trait;
use table_core::Result;
use table_core::forward_to_store;
use table_core::manifest::{Consent, IndexDefinition, Layout, Manifest, StoredIndex, StoredType};
use table_core::model::{Entity, INDEX_NAME, Key, RowKind, SYSTEM_PREFIX, TableName};
use table_core::query::{Continuation, Page, Query, ReadablePage, Select};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, Operation, Outcome, PlainWrite, TableStore,
    TableStoreExt as _, Written,
};

/// How many pages of the store without a visible row a query reads, before it answers with an empty page and a continuation token.
const HIDDEN_PAGES: usize = 16;

/// Writes entities together with the entries of the indexes in the manifest.
#[async_trait]
pub(crate) trait Maintainer: std::fmt::Debug + Send + Sync + 'static {
    /// Executes the operations of one partition as one group. `check` refuses an entity, before or after an
    /// operation, before anything is written. Returns a result for each operation.
    async fn write(
        &self,
        table: &TableName,
        operations: Vec<Operation>,
        check: Check,
    ) -> Result<Vec<Written>>;

    /// Forgets a table that was deleted.
    fn forget(&self, table: &TableName);
}

/// A check of an entity, before and after a write.
pub(crate) type Check = Arc<dyn Fn(&Entity) -> Result<()> + Send + Sync>;

/// What the clients of a [`ClientStore`] know of manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// Nothing: they see entities only.
    Nothing,
    /// The layouts of entities: they see every row, and write the rows of an entity as its layout has them. They write no index entries.
    Layouts,
}

/// A store for clients whose indexes the server maintains.
#[derive(Clone, Debug)]
pub(crate) struct ClientStore {
    store: Arc<dyn TableStore>,
    /// `None`: writes that indexes or layouts need are refused.
    maintainer: Option<Arc<dyn Maintainer>>,
    knowledge: Knowledge,
}

impl ClientStore {
    /// For clients that know nothing of manifests.
    pub(crate) fn new(store: Arc<dyn TableStore>, maintainer: Option<Arc<dyn Maintainer>>) -> Self {
        Self {
            store,
            maintainer,
            knowledge: Knowledge::Nothing,
        }
    }

    /// For programs of this library that do not write past the indexes.
    pub(crate) fn for_programs(self) -> Self {
        Self {
            knowledge: Knowledge::Layouts,
            ..self
        }
    }

    /// Returns the maintainer of the table's rows and the check of its entities; `None` if the operations of one partition can be executed
    /// unchanged. Keep the permit until they are.
    fn maintenance(
        &self,
        table: &TableName,
        permit: &PlainWrite,
        operations: &[Operation],
    ) -> Result<Option<(Arc<dyn Maintainer>, Check)>> {
        let (manifest, knowledge) = (permit.manifest(), self.knowledge);
        for (index, operation) in operations.iter().enumerate() {
            check_row(table, operation, knowledge)
                .map_err(|e| group_error(operations, index, e))?;
        }
        if !needs_maintenance(manifest, knowledge)
            || operations
                .iter()
                .all(|operation| operation.key().is_system())
        {
            return Ok(None);
        }
        if let Some(part) = operations
            .iter()
            .position(|operation| operation.key().is_system())
        {
            let reason = format!(
                "the group writes entities of the table '{table}', which has indexes, and {}, which is not an entity: the server writes entities \
                 with their index entries and no other rows; use a credential with the permissions r, a, u and d on all rows",
                operations[part].key()
            );
            return Err(group_error(operations, part, Error::misuse(reason)));
        }
        let Some(maintainer) = self.maintainer.clone() else {
            return Err(Error::manifest_mismatch(format!(
                "the table '{table}' has indexes or layouts, and this server does not maintain them: write it with a program of the library \
                 that has made them, or with a server that maintains indexes"
            )));
        };
        let (types, indexes, named) = (manifest.types.clone(), maintained(manifest), table.clone());
        let check: Check = Arc::new(move |entity| {
            match knowledge {
                Knowledge::Nothing => check_types(&named, &types, entity)?,
                Knowledge::Layouts => check_encrypted(&named, &types, &indexes, entity)?,
            }
            check_indexes(&named, &indexes, entity)
        });
        Ok(Some((maintainer, check)))
    }
}

/// Executes the operations of one partition as one group, also if the client disconnects: a write must not stop between two of its requests.
async fn maintain(
    (maintainer, check): (Arc<dyn Maintainer>, Check),
    table: TableName,
    operations: Vec<Operation>,
) -> Result<Vec<Written>> {
    let written =
        tokio::spawn(async move { maintainer.write(&table, operations, check).await }).await;
    written.map_err(|_| ambiguous("the write ended early"))?
}

/// The error of a write whose result is not known.
fn ambiguous(reason: &str) -> Error {
    Error::new(ErrorKind::Storage(reason.to_owned())).with_outcome(Outcome::Ambiguous)
}

/// The error of an operation, with its index if it is in a group.
pub(crate) fn group_error(operations: &[Operation], index: usize, error: Error) -> Error {
    if operations.len() == 1 {
        error
    } else {
        Error::in_transaction(index, error)
    }
}

/// Whether writes need more than their own row: index entries, a check of the type, or a check that the row is no entry of another table's index.
fn needs_maintenance(manifest: &Manifest, knowledge: Knowledge) -> bool {
    let is_refused = |stored: &StoredType| refusal(stored).is_some();
    let has_entries_of_others = manifest
        .others
        .iter()
        .any(|row| Consent::read(row).is_some());
    !manifest.indexes.is_empty()
        || has_entries_of_others
        || knowledge == Knowledge::Nothing && manifest.types.iter().any(is_refused)
}

/// Why only a program with the type can write its entities.
fn refusal(stored: &StoredType) -> Option<String> {
    if stored.layout != Layout::Plain {
        return Some(format!("is stored as {}", stored.layout));
    }
    (!stored.encrypted.is_empty()).then(|| "has encrypted properties".to_owned())
}

fn check_types(table: &TableName, types: &[StoredType], entity: &Entity) -> Result<()> {
    for stored in types {
        let Some(reason) = refusal(stored) else {
            continue;
        };
        if stored.entity.as_ref().is_none_or(|of| of.admits(entity)) {
            let (name, key) = (stored.name(), entity.key());
            return Err(Error::manifest_mismatch(format!(
                "the manifest of the table '{table}' says that {name} {reason}, so a write of {key} alone would damage the entity: write it with a \
                 program that has the type"
            )));
        }
    }
    Ok(())
}

/// The advice for a write that needs a program which writes the index entries itself.
const FULL_RIGHTS: &str = "a program that has the type, with a credential that has the permissions r, a, u and d on all rows";

/// Refuses an entity with encrypted properties that an index covers: its entries come from the plaintext, which the server does not have.
fn check_encrypted(
    table: &TableName,
    types: &[StoredType],
    indexes: &[StoredIndex],
    entity: &Entity,
) -> Result<()> {
    let is_encrypted = |stored: &&StoredType| {
        !stored.encrypted.is_empty() && stored.entity.as_ref().is_none_or(|of| of.admits(entity))
    };
    let (Some(stored), Some(index)) = (
        types.iter().find(is_encrypted),
        indexes.iter().find(|index| covers(index, entity)),
    ) else {
        return Ok(());
    };
    let (name, index, key) = (stored.name(), &index.name, entity.key());
    Err(Error::manifest_mismatch(format!(
        "{name} has encrypted properties, and the index '{index}' of the table '{table}' covers {key}: the server has no key and cannot maintain the \
         index; write the entity with {FULL_RIGHTS}"
    )))
}

/// The indexes that have entries, or will have them.
fn maintained(manifest: &Manifest) -> Vec<StoredIndex> {
    manifest
        .indexes
        .iter()
        .filter(|index| !index.is_dropping())
        .cloned()
        .collect()
}

/// Whether an entity may have entries of the index.
fn covers(index: &StoredIndex, entity: &Entity) -> bool {
    index.entity.as_ref().is_none_or(|of| of.admits(entity))
}

/// Refuses an entity of an index whose keys only a Rust function computes.
fn check_indexes(table: &TableName, indexes: &[StoredIndex], entity: &Entity) -> Result<()> {
    let is_opaque = |index: &StoredIndex| {
        index
            .definition
            .as_ref()
            .is_some_and(IndexDefinition::is_opaque)
    };
    let Some(index) = indexes
        .iter()
        .find(|index| is_opaque(index) && covers(index, entity))
    else {
        return Ok(());
    };
    let (name, key) = (&index.name, entity.key());
    Err(Error::manifest_mismatch(format!(
        "a Rust function computes the keys of the index '{name}' of the table '{table}', so a write of {key} by another client would damage the \
         index: write it with {FULL_RIGHTS}"
    )))
}

/// Refuses writes of rows that the library keeps in the table.
fn check_row(table: &TableName, operation: &Operation, knowledge: Knowledge) -> Result<()> {
    let key = operation.key();
    let refused = match (key.row_kind(), knowledge) {
        (RowKind::Entity, _) | (RowKind::Part, Knowledge::Layouts) => false,
        (RowKind::Part, Knowledge::Nothing) | (RowKind::Control, _) => true,
    };
    if refused {
        return Err(Error::misuse(format!(
            "the row {key} of the table '{table}' has a key that starts with {SYSTEM_PREFIX:?}: only programs of the library write such rows"
        )));
    }
    if operation
        .entity()
        .is_some_and(|entity| !key.is_system() && entity.is_index_entry())
    {
        return Err(Error::misuse(format!(
            "the entity {key} has the property {INDEX_NAME} of an index entry: rename the property, or write the entity without it; the entries follow"
        )));
    }
    Ok(())
}

fn is_hidden(entity: &Entity) -> bool {
    entity.key().is_system() || entity.is_index_entry()
}

/// The properties to read, so that index entries are recognized.
fn with_index_name(select: Option<&Select>) -> Option<Select> {
    select.map(|select| select.union([INDEX_NAME]))
}

/// Removes the property that was read only to recognize index entries.
fn without_index_name(select: Option<&Select>, entity: &mut Entity) {
    if select.is_some_and(|select| !select.contains(INDEX_NAME)) {
        entity.properties_mut().remove(INDEX_NAME);
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for ClientStore {
    forward_to_store!(self => self.store; profile, create_table, list_tables, context);

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        let deleted = self.store.delete_table(table).await;
        if let Some(maintainer) = &self.maintainer {
            maintainer.forget(table);
        }
        deleted
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        if self.knowledge == Knowledge::Layouts {
            return self.store.get(table, key, select).await;
        }
        let found = self
            .store
            .get(table, key, with_index_name(select).as_ref())
            .await?;
        Ok(found.filter(|entity| !is_hidden(entity)).map(|mut entity| {
            without_index_name(select, &mut entity);
            entity
        }))
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        if self.knowledge == Knowledge::Layouts {
            return self.store.query(table, query, from).await;
        }
        let inner = Query {
            select: with_index_name(query.select.as_ref()),
            ..query.clone()
        };
        let profile = self.profile();
        // A token belongs to one query. The client's token is of the query that it sent; the store's token is
        // of the one that also selects the name of the index.
        let translated = |from: &Continuation, read: &Query, written: &Query| {
            let position = from.position(profile, table, read)?.clone();
            Ok::<_, Error>(Continuation::new(profile, table, written, position))
        };
        let mut from = from
            .map(|from| translated(from, query, &inner))
            .transpose()?;
        let mut pages = 0;
        loop {
            let mut page = self
                .store
                .query(table, &inner, from.as_ref())
                .await?
                .into_page()?;
            page.items.retain(|entity| !is_hidden(entity));
            pages += 1;
            // A page of index entries only: the client sees nothing of it. Bounded, so that one request of a client does not scan a table.
            if page.items.is_empty() && page.continuation.is_some() && pages < HIDDEN_PAGES {
                from = page.continuation;
                continue;
            }
            page.items
                .iter_mut()
                .for_each(|entity| without_index_name(query.select.as_ref(), entity));
            let continuation = page
                .continuation
                .map(|next| translated(&next, &inner, query))
                .transpose()?;
            let items = page.items;
            return Ok(Page {
                items,
                continuation,
            }
            .into());
        }
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        // Kept until the write is done: a change of the manifest waits for it. Of the wrapped store, because this one hides the manifest.
        let permit = self.store.plain_write(table).await?;
        let Some(maintenance) =
            self.maintenance(table, &permit, std::slice::from_ref(&operation))?
        else {
            return self.store.write(table, operation).await;
        };
        // The maintainer takes its own permit. It may wait for a change of the manifest, and the change waits for all permits: with this
        // permit kept, both would wait forever.
        drop(permit);
        let written = maintain(maintenance, table.clone(), vec![operation]).await?;
        written
            .into_iter()
            .next()
            .ok_or_else(|| ambiguous("a write has no result"))
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let permit = self.store.plain_write(table).await?;
        let Some(maintenance) = self.maintenance(table, &permit, group.operations())? else {
            return self.store.transact(table, group).await;
        };
        drop(permit);
        maintain(maintenance, table.clone(), group.into_operations()).await
    }
}
