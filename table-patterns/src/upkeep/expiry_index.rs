//! Expired entities by an index on their time, which finds them without a scan of the table.

use std::future::ready;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use table_core::manifest::{
    Expiry, IndexDefinition, IndexKeys, IndexState, KeySegment, PartSource, Placement, Shape,
    StoredIndex, StoredType, TemplatePart, Transform,
};
use table_core::model::{Entity, TableName, Ticks, ValueRef, entry_id};
use table_core::query::{Filter, Range};
use table_core::store::{KeyOrder, Result, TableStore};
use table_core::typed::Table;

use crate::index::IndexedEntities;
use crate::journal::{as_read, holders};

/// An index of the manifest whose entries are in the order of the time at which their entities expire, and have an entry of every entity
/// that expires.
#[derive(Debug)]
pub(super) struct ExpiryIndex<'a> {
    entities: &'a IndexedEntities,
    id: String,
    table: TableName,
    /// The literal before the time in the PartitionKeys.
    prefix: String,
    expires: String,
}

/// The result of following an entry to its entity.
struct EntryResult {
    partition: String,
    /// The entity, if it may be due.
    row: Option<Entity>,
    /// Whether the entry is right and its entity is not due yet.
    is_later: bool,
}

impl<'a> ExpiryIndex<'a> {
    /// Returns such an index of a type, if the manifest has one.
    pub(super) fn find(
        entities: &'a IndexedEntities,
        indexes: &[StoredIndex],
        of: &StoredType,
        expiry: &Expiry,
    ) -> Option<Self> {
        // Entities that are deleted and kept have no entry by that time.
        let expires = expiry
            .expires
            .as_ref()
            .filter(|_| expiry.deleted.is_none())?;
        let is_sorted = entities.store().profile().order == KeyOrder::Sorted;
        let of_type = |stored: &&StoredIndex| {
            let both = of.entity.as_ref().zip(stored.entity.as_ref());
            both.is_some_and(|(a, b)| a.has_same_rows(b))
        };
        let mut usable = indexes
            .iter()
            .filter(of_type)
            .filter(|_| is_sorted)
            .filter_map(|stored| {
                let state = entities.maintained_state(&stored.id());
                let definition = stored
                    .definition
                    .as_ref()
                    .filter(|_| state == IndexState::Readable)?;
                let prefix = prefix_of_times(definition, expires)?;
                let table = stored.table.as_ref().unwrap_or(entities.table()).clone();
                let source = stored.table.as_ref().map(|_| entities.table());
                let id = entry_id(&stored.id(), source);
                Some(Self {
                    entities,
                    id,
                    table,
                    prefix,
                    expires: expires.to_string(),
                })
            });
        usable.next()
    }

    /// The rows of entities that may be due, in the order of their times. Ends after the first partition of entries with one that is not
    /// due: 1 request per page of entries, and 1 per entry whose time it does not hold, or that is due.
    pub(super) fn rows(
        &'a self,
        now: Ticks,
        concurrency: usize,
        is_due: impl Fn(&Entity) -> bool + Send + Sync + 'a,
    ) -> Result<BoxStream<'a, Result<Entity>>> {
        let rows = Table::<Entity>::new(Arc::clone(self.entities.store()), self.table.clone())?;
        let of_index = Filter::eq(table_core::model::INDEX_NAME, &*self.id);
        let filter = Filter::starts_with(Filter::PARTITION_KEY, &self.prefix).and(of_index);
        let entries = rows.query().raw_filter(filter).require_order().stream();
        let is_due = Arc::new(is_due);
        let followed = entries.map_ok(move |entry| {
            let is_due = Arc::clone(&is_due);
            async move { self.follow(entry, now, &*is_due).await }
        });
        let mut last: Option<String> = None;
        let until_later = move |followed: &EntryResult| {
            // PartitionKeys begin with the time, perhaps only with its date or hour: within one of them the
            // entries are in another order, so all of them are followed.
            let goes_on = last.as_ref().is_none_or(|last| *last == followed.partition);
            if followed.is_later {
                last.get_or_insert_with(|| followed.partition.clone());
            }
            ready(Ok(goes_on))
        };
        let followed = followed
            .try_buffered(concurrency)
            .try_take_while(until_later);
        Ok(followed
            .try_filter_map(|followed| ready(Ok(followed.row)))
            .boxed())
    }

    /// Reads the entity of an entry, unless the entry shows that it is not due.
    async fn follow(
        &self,
        entry: Entity,
        now: Ticks,
        is_due: &(dyn Fn(&Entity) -> bool + Send + Sync),
    ) -> Result<EntryResult> {
        let (partition, key) = (entry.key().partition().to_owned(), entry.key().clone());
        if let Some(ValueRef::DateTime(at)) = entry.get(&self.expires)
            && at > now
        {
            return Ok(EntryResult {
                partition,
                row: None,
                is_later: true,
            });
        }
        for holder in holders(&entry)? {
            let row = self
                .entities
                .store()
                .get(self.entities.table(), &holder, None)
                .await?
                .map(as_read);
            let Some(row) = row else { continue };
            if is_due(&row) {
                return Ok(EntryResult {
                    partition,
                    row: Some(row),
                    is_later: false,
                });
            }
            // An entry that its entity has no more says nothing of the entries after it.
            let at = Range::single(key.row());
            if self
                .entities
                .lookups()
                .has_entry_among(&self.id, &row, key.partition(), &at)?
            {
                return Ok(EntryResult {
                    partition,
                    row: None,
                    is_later: true,
                });
            }
        }
        Ok(EntryResult {
            partition,
            row: None,
            is_later: false,
        })
    }
}

/// The literal with which the PartitionKeys of an index begin, if the property's time follows it in ascending order, and every entity with
/// the property has an entry.
///
/// A template that begins with the time itself is not used: without a literal, the range of the entries would be the whole table.
fn prefix_of_times(definition: &IndexDefinition, property: &str) -> Option<String> {
    let IndexKeys::Templates {
        partition_key: Some(partition),
        row_key,
    } = &definition.keys
    else {
        return None;
    };
    let is_time = |part: &TemplatePart| matches!(&part.source, PartSource::Property(name) if name == property);
    let ascends = |part: &TemplatePart| {
        part.transforms
            .iter()
            .all(|transform| matches!(transform, Transform::Date | Transform::Hour))
    };
    let is_always_there =
        |part: &TemplatePart| is_time(part) || !matches!(part.source, PartSource::Property(_));
    let is_complete = definition.condition.is_none()
        && definition.shape == Shape::Row
        && definition.placement != Placement::SamePartition
        && partition
            .parts()
            .chain(row_key.parts())
            .all(is_always_there);
    let [KeySegment::Literal(prefix), KeySegment::Part(first), ..] = partition.segments() else {
        return None;
    };
    (is_complete && is_time(first) && ascends(first)).then(|| prefix.to_string())
}
