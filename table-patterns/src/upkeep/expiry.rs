//! The removal of entities that are due: expired, or deleted and kept long enough.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::{BoxFuture, ready};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
#[cfg(feature = "blobs")]
use object_store::ObjectStore;
use table_core::manifest::{Expiry, Layout, StoredIndex, StoredType, WriteTarget};
use table_core::model::{Entity, Key, TableName, Ticks, ValueRef};
use table_core::query::{Continuation, Filter, ReadablePage, UnreadableEntity};
use table_core::store::{
    BulkOutcome, BulkSummary, CycleDetector, Error, Result, TableStore, TableStoreExt as _, Written,
};
use table_core::typed::set::{Decision, RowChange, SetWrite, SetWriter};
use table_core::typed::{PlainTable, Schema};
use tokio::time::sleep;

use super::Upkeep;
use super::expiry_index::ExpiryIndex;
use super::report::Due;
use crate::blobs::first_name_in_blobs;
use crate::entity_rows::{EntityRows, as_read, is_entity};
use crate::index::IndexedEntities;
use crate::journal::{Acknowledge, Change, Entries};
#[cfg(feature = "blobs")]
use crate::large::{LargeOptions, remove_blobs};
use crate::rows::write_together;
use crate::spread::is_moving;
use crate::wide::WideEntities;

/// The number of attempts for one entity that other writers change.
const ATTEMPTS: u32 = 10;
/// The end of the error of a removal that an index prevents.
const ADVICE: &str = "the next round removes the entity with its entries";

/// What a sweep of one type has done.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Removed entities, failures and requests.
    pub(super) summary: BulkSummary,
    /// Whether the sweep has seen every row.
    pub(super) ended: bool,
    /// The reason why entities stay.
    pub(super) due: Option<Due>,
}

/// The entities of one type of a table, to be removed when they are due.
pub(super) struct ExpirySweep<'a> {
    pub(super) upkeep: &'a Upkeep,
    pub(super) table: &'a TableName,
    /// The handle with the indexes of the table; `None` for a table without.
    pub(super) entities: Option<&'a IndexedEntities>,
    /// The indexes of the manifest.
    pub(super) indexes: &'a [StoredIndex],
    pub(super) stored: &'a StoredType,
    pub(super) expiry: &'a Expiry,
}

impl ExpirySweep<'_> {
    /// Removes the due entities, each in the version that was found due: an entity that is renewed or restored meanwhile stays.
    pub(super) async fn run(&self, is_stopped: impl Fn() -> bool + Send + Sync) -> Result<Swept> {
        let now = self.upkeep.store.context().now();
        match &self.stored.layout {
            Layout::Wide => self.remove_wide(now, is_stopped).await,
            Layout::Plain | Layout::Large { .. } | Layout::Spread { .. } => {
                self.remove_rows(now, is_stopped).await
            }
            layout => {
                let reason = format!("{} is stored as {layout}", self.stored.name());
                Ok(Swept {
                    due: Some(Due::Failed(Error::manifest_mismatch(reason))),
                    ..Swept::default()
                })
            }
        }
    }

    async fn remove_wide(
        &self,
        now: Ticks,
        is_stopped: impl Fn() -> bool + Send + Sync,
    ) -> Result<Swept> {
        let wide = WideEntities::new(Arc::clone(&self.upkeep.store), self.table.clone());
        let summary = wide
            .delete_set(|entity| self.is_due(entity, now), &is_stopped)
            .await?;
        Ok(self.swept(summary, !is_stopped()))
    }

    /// Rows of one entity each.
    async fn remove_rows(
        &self,
        now: Ticks,
        is_stopped: impl Fn() -> bool + Send + Sync,
    ) -> Result<Swept> {
        let index = self.entities.and_then(|entities| {
            ExpiryIndex::find(entities, self.indexes, self.stored, self.expiry)
        });
        let unreadable = Mutex::new(Vec::new());
        let found = match &index {
            Some(index) => index.rows(now, self.upkeep.options.concurrency.max(1), |row| {
                self.is_due(row, now)
            })?,
            None => self.scan(now, &unreadable)?,
        };
        let found = found.take_while(|_| ready(!is_stopped()));
        let remover = Remover {
            store: Arc::clone(&self.upkeep.store),
            table: self.table.clone(),
            entities: self.entities.cloned(),
            #[cfg(feature = "blobs")]
            blobs: self.upkeep.large.clone(),
            #[cfg(feature = "blobs")]
            concurrency: self.upkeep.options.concurrency.max(1),
        };
        let write = SetWrite {
            table: self.table,
            writer: &remover,
            decide: |row: Entity| ready(Ok(self.decide(row, now))).boxed(),
            is_in_set: |row: &Entity| self.is_due(row, now),
            concurrency: self.upkeep.options.concurrency.max(1),
            attempts: ATTEMPTS,
        };
        let mut summary = write.run(found).await?;
        // A row that cannot be read does not prevent the removal of other rows.
        for UnreadableEntity { key, error } in unreadable
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            summary.add(BulkOutcome::refused(self.table.clone(), key, error));
        }
        Ok(self.swept(summary, !is_stopped()))
    }

    /// The rows that a filter selects, so that the service sends due rows only. `unreadable` gets those that cannot be read.
    fn scan<'s>(
        &self,
        now: Ticks,
        unreadable: &'s Mutex<Vec<UnreadableEntity>>,
    ) -> Result<BoxStream<'s, Result<Entity>>> {
        let rows = PlainTable::<Entity>::new(Arc::clone(&self.upkeep.store), self.table.clone())?;
        let of_type = self.stored.entity.as_ref();
        let of_type = of_type.and_then(|entity| entity.discriminator.filter(&entity.name));
        let query = match Filter::and_maybe(of_type, self.expiry.due_filter(now)) {
            // The store compares, so a page has due rows only. `decide` looks again, because the filter knows
            // neither schema versions nor moves.
            Some(filter) => rows.query().raw_filter(filter).in_any_order(),
            None => rows.query().in_any_order(),
        };
        let pause = self.upkeep.pause;
        let start = Some((None, CycleDetector::default()));
        let pages = stream::try_unfold(
            start,
            move |state: Option<(Option<Continuation>, CycleDetector)>| {
                let query = query.clone();
                async move {
                    let Some((from, mut cycles)) = state else {
                        return Ok::<_, Error>(None);
                    };
                    if from.is_some() && !pause.is_zero() {
                        sleep(pause).await;
                    }
                    let ReadablePage {
                        page,
                        unreadable: found,
                    } = query.readable_page(from.as_ref()).await?;
                    if let Some(next) = &page.continuation {
                        cycles.add(next, page.items.len() + found.len())?;
                    }
                    unreadable
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .extend(found);
                    let rows = stream::iter(page.items.into_iter().map(Ok::<_, Error>));
                    Ok(Some((
                        rows,
                        page.continuation.map(|next| (Some(next), cycles)),
                    )))
                }
            },
        );
        Ok(pages.try_flatten().boxed())
    }

    fn decide(&self, row: Entity, now: Ticks) -> Decision {
        if !self.is_due(&row, now) {
            return Decision::Ignore;
        }
        // The row names its blobs: without their store, or without the keys to read the names, it stays, so that a later sweep
        // removes both.
        let names_unknown_blobs = self.upkeep.has_no_blobs() && first_name_in_blobs(&row).is_some();
        if names_unknown_blobs || self.hides_blobs(&row) {
            return Decision::Keep;
        }
        Decision::delete(row)
    }

    /// Whether a row may name a blob that this process cannot read, because the store has no keys.
    fn hides_blobs(&self, row: &Entity) -> bool {
        let Layout::Large { properties } = &self.stored.layout else {
            return false;
        };
        let is_hidden =
            |name: &str| self.stored.encrypted.contains(name) && row.get(name).is_some();
        row.is_ciphertext() && properties.iter().any(|name| is_hidden(name))
    }

    /// Whether a stored entity is of the type and due. A row of a schema version that the manifest does not know stays, and so does a row
    /// that moves to another bucket.
    fn is_due(&self, row: &Entity, now: Ticks) -> bool {
        let is_of_type = self
            .stored
            .entity
            .as_ref()
            .is_some_and(|entity| entity.admits(row));
        let is_known = match row.get(Schema::VERSION_PROPERTY) {
            None => true,
            Some(ValueRef::Int32(version)) => version <= self.stored.version,
            // Another program may have written the number as `Edm.Int64`.
            Some(ValueRef::Int64(version)) => version <= i64::from(self.stored.version),
            Some(_) => false,
        };
        // Index entries hold properties of their entity, and go with it. A wide entity was assembled from its rows: it is never an entry,
        // although its rows are system rows.
        let is_row = self.stored.layout == Layout::Wide || is_entity(row);
        is_of_type && is_known && is_row && !is_moving(row) && self.expiry.is_due(row, now)
    }

    fn swept(&self, summary: BulkSummary, ended: bool) -> Swept {
        let failed = summary
            .failures
            .first()
            .and_then(|outcome| outcome.result.as_ref().err());
        let due = match (failed, summary.unchanged) {
            (Some(error), _) => Some(Due::Failed(error.clone())),
            (None, 0) => None,
            (None, _) if self.upkeep.has_no_blobs() => Some(Due::NoLargeBlobs),
            (None, _) => Some(Due::NoKeys),
        };
        Swept {
            summary,
            ended,
            due,
        }
    }
}

/// Deletes rows with their index entries, unique values and blobs.
struct Remover {
    store: Arc<dyn TableStore>,
    table: TableName,
    entities: Option<IndexedEntities>,
    #[cfg(feature = "blobs")]
    blobs: Option<(Arc<dyn ObjectStore>, LargeOptions)>,
    /// The number of blobs that are removed at once.
    #[cfg(feature = "blobs")]
    concurrency: usize,
}

impl fmt::Debug for Remover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remover")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl Remover {
    /// Deletes rows without entries, unless an index was declared since.
    async fn delete_plain(&self, changes: &[RowChange]) -> Result<Vec<Written>> {
        let (store, table) = (&*self.store, &self.table);
        // The sweep began without indexes. One that was declared since would keep the entries of these rows.
        let permitted = store.plain_write(table).await?;
        for change in changes {
            let target = WriteTarget::Entity(&change.old);
            permitted
                .manifest()
                .check_no_index(table, target, "a removal", ADVICE)?;
        }
        let deletions: Vec<_> = changes
            .iter()
            .map(RowChange::operation)
            .collect::<Result<_>>()?;
        write_together(store, table, &deletions).await
    }
}

impl SetWriter for Remover {
    fn check<'a>(&'a self, _: &'a Key) -> BoxFuture<'a, Result<()>> {
        ready(Ok(())).boxed()
    }

    fn as_read(&self, row: Entity) -> Entity {
        as_read(row)
    }

    fn operations(&self, change: &RowChange) -> usize {
        self.entities
            .as_ref()
            .map_or(1, |entities| SetWriter::operations(entities, change))
    }

    fn most_operations(&self) -> usize {
        let store = || self.store.profile().group_operations;
        self.entities
            .as_ref()
            .map_or_else(store, SetWriter::most_operations)
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        async move {
            let (written, pending) = match &self.entities {
                None => (self.delete_plain(changes).await?, false),
                Some(entities) => {
                    let expire = |change: &RowChange| Change::expire(change.old.clone());
                    let deletions: Vec<_> = changes.iter().map(expire).collect();
                    let done = Box::pin(entities.journal().write(&deletions, Acknowledge::Applied))
                        .await?;
                    (done.written, done.entries == Entries::Pending)
                }
            };
            // After the rows: until then a reader may need the blobs. A crash here leaves blobs for the next
            // collection.
            #[cfg(feature = "blobs")]
            if let Some((blobs, options)) = &self.blobs {
                let rows: Vec<&Entity> = changes.iter().map(|change| &change.old).collect();
                let concurrency = self.concurrency;
                remove_blobs(blobs, &options.root, concurrency, &self.table, &rows).await;
            }
            Ok((written, pending))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        EntityRows::new(&*self.store, &self.table).get(key).boxed()
    }

    fn failed(&self, error: &Error) -> Option<usize> {
        // In a group with entries, the operation that failed may be an entry.
        error.failed_index().filter(|_| self.entities.is_none())
    }
}
