//! How the entities of a table are kept as rows. Everything in `consistency` that reads, writes or scans *entities* asks this module, and
//! knows nothing of rows itself. The rows of the protocols (journal, unique values, entries, rows that entities share) are no entities.
//!
//! There is one way so far: an entity is one row at its own key, and the row has the mark of a move. A table also has rows that are no
//! entities, which a scan leaves out: system rows and index entries.
//!
//! | question | answer |
//! |---|---|
//! | which operations does a change of an entity take in a group, and which of the answers is the entity's? | [`operations`], [`answer`] |
//! | what is stored of the entity with a key, and what do readers get of it? | [`EntityRows::stored`], [`EntityRows::get`] |
//! | which rows does the mark of a move change? | [`EntityRows::write_mark`], [`Mark`] |
//! | which entities are in a page of the table, in a range of keys? which partitions have any? | [`EntityRows::page`], [`EntityRows::in_range`], [`EntityRows::partition_after`] |
//! | has the table any entity, or one of a type? | [`EntityRows::has_none`], [`EntityRows::has_none_of`] |

mod mark;

use std::collections::HashSet;

use futures_util::{Stream, TryStreamExt as _, future::ready};
use table_core::manifest::EntityType;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, SYSTEM_PREFIX, TableName, key_order};
use table_core::query::{Continuation, Filter, Query, Select};
use table_core::store::{
    CycleDetector, Error, KeyOrder, Operation, Result, TableStore, TableStoreExt as _, Written,
    check_progress,
};

pub use self::mark::WriteId;
pub(crate) use self::mark::{Mark, as_read, is_marked, separate_mark};
use crate::entry::Entry;
use crate::rows::{accept_applied, existing_keys};

/// The operations that a change of an entity takes in a group: conditional on the ETag of the old state, or an insert. The first one
/// carries the condition and has the key of the entity.
///
/// # Errors
/// The old state was not read from the store, or is of another entity.
pub(crate) fn operations(old: Option<&Entity>, new: Option<&Entity>) -> Result<[Operation; 1]> {
    Ok([match (old, new) {
        (None, Some(new)) => Operation::Insert(new.clone()),
        (Some(old), Some(new)) if old.key() == new.key() => {
            Operation::Replace(new.clone(), condition(old)?)
        }
        (Some(old), None) => Operation::Delete(old.key().clone(), condition(old)?),
        (Some(old), Some(new)) => {
            return Err(Error::misuse(format!(
                "a change replaces {} by {}: the keys of both must be equal; delete the first and insert the second",
                old.key(),
                new.key()
            )));
        }
        (None, None) => return Err(without_entity()),
    }])
}

/// The error of a change of nothing.
pub(crate) fn without_entity() -> Error {
    Error::misuse(
        "a change has neither an old nor a new entity: make it by `Change::insert`, `replace` or `delete`",
    )
}

/// The condition that the entity is stored in its old state.
fn condition(old: &Entity) -> Result<IfMatch> {
    let etag = old.etag();
    let etag = etag.ok_or_else(|| {
        Error::misuse(format!(
            "the old state of {} has no ETag: read the entity from the store first",
            old.key()
        ))
    })?;
    Ok(IfMatch::from(etag))
}

/// The answer of a group to the [`operations`] of its `n`th entity: the new version of the entity. The operations of the entities are the
/// first of the group, in the order of the entities.
pub(crate) fn answer(written: &[Written], n: usize) -> Option<&Written> {
    written.get(n)
}

/// Whether a row that was read whole is one of an entity, and no index entry or system row.
pub(crate) fn is_entity(row: &Entity) -> bool {
    !row.key().is_system() && Entry::index_of(row).is_none()
}

/// The rows of the entities of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntityRows<'a> {
    store: &'a dyn TableStore,
    table: &'a TableName,
}

/// The entities in a page of the rows of a table.
pub(crate) struct EntityPage {
    /// As they are stored.
    pub(crate) entities: Vec<Entity>,
    /// The number of rows of the page, those of entities and all others.
    pub(crate) rows: usize,
    /// The key of the last row of the page.
    pub(crate) last: Option<Key>,
    pub(crate) continuation: Option<Continuation>,
}

impl<'a> EntityRows<'a> {
    pub(crate) const fn new(store: &'a dyn TableStore, table: &'a TableName) -> Self {
        Self { store, table }
    }

    /// The entity with a key as it is stored: with the mark of a move, if it has one. 1 request.
    pub(crate) async fn stored(self, key: &Key) -> Result<Option<Entity>> {
        self.store.get(self.table, key, None).await
    }

    /// The entity with a key as readers get it: the mark of a move is in the ETag only. 1 request.
    pub(crate) async fn get(self, key: &Key) -> Result<Option<Entity>> {
        Ok(self.stored(key).await?.map(as_read))
    }

    /// The keys of entities of one partition at which nothing can be inserted, as far as 1 request tells. See [`existing_keys`].
    pub(crate) async fn taken<'k>(self, keys: impl IntoIterator<Item = &'k Key>) -> HashSet<Key> {
        existing_keys(self.store, self.table, keys).await
    }

    /// Writes an entity that differs from the stored one by the mark of a move, in the version that was read. 1 request.
    pub(crate) async fn write_mark(self, entity: Entity, version: IfMatch) -> Result<Written> {
        let replace = Operation::Replace(entity, version);
        accept_applied(self.store.write(self.table, replace).await)
    }

    /// A page of a scan of the table. 1 request.
    pub(crate) async fn page(self, from: Option<&Continuation>) -> Result<EntityPage> {
        let page = self
            .store
            .query(self.table, &Query::new(), from)
            .await?
            .into_page()?;
        let rows = page.items.len();
        check_progress(from, page.continuation.as_ref(), rows)?;
        Ok(EntityPage {
            last: page.items.last().map(|row| row.key().clone()),
            entities: page.items.into_iter().filter(is_entity).collect(),
            rows,
            continuation: page.continuation,
        })
    }

    /// The entities in a range of keys, as readers get them. 1 request per page.
    pub(crate) fn in_range(
        self,
        keys: Filter,
    ) -> impl Stream<Item = Result<Entity>> + Send + Unpin + use<'a> {
        let rows = self
            .store
            .query_stream(self.table.clone(), Query::new().with_filter(keys));
        rows.try_filter(|row| ready(is_entity(row))).map_ok(as_read)
    }

    /// The lowest partition after another that may have entities: it is not a system partition.
    pub(crate) async fn partition_after(self, after: Option<&str>) -> Result<Option<String>> {
        let beyond = |key: &str| Filter::gt(Filter::PARTITION_KEY, key);
        let mut query = Query::new().with_select(Select::new::<&str>([]));
        if let Some(after) = after {
            query = query.with_filter(beyond(after));
        }
        // A store that sorts returns the lowest partition first: 1 row is enough. Any other store is read whole, for keys alone.
        let sorted = self.store.profile().order == KeyOrder::Sorted;
        let (mut least, mut from): (Option<PartitionKey>, _) = (None, None);
        let mut cycles = CycleDetector::default();
        loop {
            let page_query = if sorted {
                query.clone().with_top(1)
            } else {
                query.clone()
            };
            let page = self
                .store
                .query(self.table, &page_query, from.as_ref())
                .await?
                .into_page()?;
            check_progress(from.as_ref(), page.continuation.as_ref(), page.items.len())?;
            page.continuation
                .iter()
                .try_for_each(|next| cycles.add(next, page.items.len()))?;
            for key in page.items.iter().map(Entity::key) {
                if key.partition().starts_with(SYSTEM_PREFIX) {
                    if sorted {
                        // The system partitions are contiguous: continue after them.
                        query = Query::new()
                            .with_select(Select::new::<&str>([]))
                            .with_filter(after_system_partitions());
                    }
                    continue;
                }
                let key = key.partition_key();
                if least.as_ref().is_none_or(|least| key < *least) {
                    least = Some(key);
                }
            }
            // The page had system rows only. The query has changed to begin behind them, so it starts without
            // the continuation of the earlier one.
            let skipped = sorted && least.is_none() && !page.items.is_empty();
            from = if skipped { None } else { page.continuation };
            if (sorted && least.is_some()) || (from.is_none() && !skipped) {
                return Ok(least.map(|key| key.to_string()));
            }
        }
    }

    /// Whether the table certainly holds system rows only. Also `false` if the first page is empty and has a continuation: a service may
    /// answer so after it has read a part of a large table. 1 request.
    pub(crate) async fn has_none(self) -> Result<bool> {
        // The ranges before and after the system partitions, because a filter cannot exclude a prefix.
        let user = Filter::lt(Filter::PARTITION_KEY, SYSTEM_PREFIX);
        self.has_no_row(user.or(after_system_partitions())).await
    }

    /// Whether the table certainly holds no entity of a type. See [`has_none`](Self::has_none). 1 request.
    pub(crate) async fn has_none_of(self, entity: &EntityType) -> Result<bool> {
        match entity.discriminator.filter(&entity.name) {
            Some(filter) => self.has_no_row(filter).await,
            None => self.has_none().await,
        }
    }

    async fn has_no_row(self, filter: Filter) -> Result<bool> {
        let query = Query::new().with_filter(filter).with_top(1);
        let page = self
            .store
            .query(self.table, &query, None)
            .await?
            .into_page()?;
        Ok(page.items.is_empty() && page.continuation.is_none())
    }
}

/// A filter for the partitions after the system partitions.
fn after_system_partitions() -> Filter {
    // The prefix has an end, because it does not consist of the last character.
    let end = key_order::key_prefix_end(SYSTEM_PREFIX).unwrap_or_default();
    Filter::ge(Filter::PARTITION_KEY, end)
}
