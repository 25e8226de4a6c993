//! Expired entities by an index on their time, which finds them without a scan of the table.

use std::future::ready;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use table_core::manifest::{
    Expiry, IndexDefinition, IndexKeys, IndexState, KeySegment, KeyTemplate, PartSource, Placement,
    Shape, StoredIndex, StoredType, TemplatePart, Transform,
};
use table_core::model::key_order::prefix_end;
use table_core::model::{Entity, INDEX_NAME, TableName, Ticks, ValueRef, entry_id};
use table_core::query::Filter;
use table_core::store::{Error, KeyOrder, Result, TableStore};
use table_core::typed::PlainTable;

use crate::entity_rows::EntityRows;
use crate::index::IndexedEntities;
use crate::journal::holders;

/// An index of the manifest whose entries are in the order of the time at which their entities expire, and have an entry of every entity
/// that expires.
#[derive(Debug)]
pub(super) struct ExpiryIndex<'a> {
    entities: &'a IndexedEntities,
    id: String,
    table: TableName,
    /// The template of the PartitionKeys: a literal, the time, and perhaps more.
    partitions: KeyTemplate,
    expires: String,
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
                let partitions = template_of_times(definition, expires)?.clone();
                let table = stored.table.as_ref().unwrap_or(entities.table()).clone();
                let source = stored.table.as_ref().map(|_| entities.table());
                let id = entry_id(&stored.id(), source);
                Some(Self {
                    entities,
                    id,
                    table,
                    partitions,
                    expires: expires.to_string(),
                })
            });
        usable.next()
    }

    /// The rows of entities that are due, in the order of their times. Reads the entries up to the present time, by their keys alone: what an
    /// entry contains ends no sweep, because others may have written it. 1 request per page of entries, and 1 per entry that does not show
    /// that its entity is not due.
    pub(super) fn rows(
        &'a self,
        now: Ticks,
        concurrency: usize,
        is_due: impl Fn(&Entity) -> bool + Send + Sync + 'a,
    ) -> Result<BoxStream<'a, Result<Entity>>> {
        let rows =
            PlainTable::<Entity>::new(Arc::clone(self.entities.store()), self.table.clone())?;
        // The keys begin with the time, perhaps only with its date or hour: the last ones are of the present date or hour.
        let first = self.partitions.start_at(Ticks::MIN);
        let end = self
            .partitions
            .start_at(now)
            .as_deref()
            .and_then(prefix_end);
        let Some((first, end)) = first.zip(end) else {
            return Err(Error::invalid_value(
                &self.expires,
                format!("the index '{}' has no key of the present time", self.id),
            ));
        };
        let filter = Filter::ge(Filter::PARTITION_KEY, first)
            .and(Filter::lt(Filter::PARTITION_KEY, end))
            .and(Filter::eq(INDEX_NAME, &*self.id));
        let entries = rows.query().raw_filter(filter).require_order().stream();
        let is_due = Arc::new(is_due);
        let followed = entries.map_ok(move |entry| {
            let is_due = Arc::clone(&is_due);
            async move { self.follow(entry, now, &*is_due).await }
        });
        Ok(followed
            .try_buffered(concurrency)
            .try_filter_map(|row| ready(Ok(row)))
            .boxed())
    }

    /// Reads the entity of an entry, if it is due.
    async fn follow(
        &self,
        entry: Entity,
        now: Ticks,
        is_due: &(dyn Fn(&Entity) -> bool + Send + Sync),
    ) -> Result<Option<Entity>> {
        // The copy of the time saves the read if the entry has its key by it.
        if let Some(ValueRef::DateTime(at)) = entry.get(&self.expires)
            && at > now
            && let Some(start) = self.partitions.start_at(at)
            && entry.key().partition().starts_with(&start)
        {
            return Ok(None);
        }
        let rows = EntityRows::new(&**self.entities.store(), self.entities.table());
        for holder in holders(&entry)? {
            let row = rows.get(&holder).await?;
            if let Some(row) = row.filter(is_due) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

/// The template of the PartitionKeys of an index, if it begins with a literal and the property's time in ascending order, and every entity with
/// the property has an entry.
///
/// A template that begins with the time itself is not used: without a literal, the range of the entries would be the whole table.
fn template_of_times<'d>(
    definition: &'d IndexDefinition,
    property: &str,
) -> Option<&'d KeyTemplate> {
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
    let [KeySegment::Literal(_), KeySegment::Part(first), ..] = partition.segments() else {
        return None;
    };
    (is_complete && is_time(first) && ascends(first)).then_some(partition)
}
