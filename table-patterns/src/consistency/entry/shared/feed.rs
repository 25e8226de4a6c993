//! A change feed: the numbered changes of a partition, and the counter of their numbers.
//!
//! The group of a write inserts its changes and replaces the counter in the version that was read. So of two writers that took the same
//! number, one starts again, and the feed has neither a gap nor a number twice. `docs/model/feed.py` shows why the insert alone would not do:
//! the change with that number may have been trimmed.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use table_core::manifest::{Shape, Text};
use table_core::model::{
    ETag, Entity, FEED_COUNTER, Key, PartitionKey, Properties, TableName, Ticks, ValueRef,
};
use table_core::store::{Error, Operation, Result};
use uuid::Uuid;

use super::{Merge, Prepared, SharedRows, put};
use crate::entry::{Entry, Location};

// The names of properties: see the key layout of `crate::changes`.
const NEXT: &str = "Next";
const FEED: &str = "Feed";
const KIND: &str = "Kind";
const ROW: &str = "Row";
const TYPE: &str = "Type";
/// The number of digits of a change's number in its RowKey.
const DIGITS: usize = 19;
/// The largest number of a change: the counter has the number after it.
pub(crate) const MAX_NUMBER: i64 = i64::MAX - 1;
/// The maximal number of partitions whose counters a process remembers for a table.
const MAX_KNOWN: usize = 1024;

/// What a change has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The entity was inserted.
    Inserted,
    /// The entity existed, and was replaced, merged or updated; or a soft deletion was taken back.
    Updated,
    /// The entity got its time of deletion: reads leave it out from now on, and it can be restored.
    SoftDeleted,
    /// The entity was deleted, or moved to another key.
    Deleted,
    /// The entity was removed because it had expired, or was deleted softly long enough ago.
    Expired,
}

impl ChangeKind {
    const ALL: [Self; 5] = [
        Self::Inserted,
        Self::Updated,
        Self::SoftDeleted,
        Self::Deleted,
        Self::Expired,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Updated => "updated",
            Self::SoftDeleted => "soft_deleted",
            Self::Deleted => "deleted",
            Self::Expired => "expired",
        }
    }
}

/// A change of an entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The number of the change in its partition, from 1.
    pub number: i64,
    /// What the change has done.
    pub kind: ChangeKind,
    /// The key of the entity.
    pub key: Key,
    /// The name of the entity's type.
    pub entity_type: String,
    /// The time of the change by the store's clock, if the store returned it.
    pub at: Option<Ticks>,
}

/// The key of the counter of a partition.
pub(crate) fn counter_key(partition: &PartitionKey) -> Result<Key> {
    Key::new(partition.as_str(), FEED_COUNTER)
}

/// The counter of the changes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The number of the next change.
    pub(crate) next: i64,
    /// A random id. A feed that begins again in the partition has another one, so that no cursor of the earlier feed counts for it.
    pub(crate) feed: Uuid,
}

impl Counter {
    /// Reads a counter. Nothing but a feed writes its rows, but any client of the table can: the numbers in them are checked wherever they are
    /// read.
    pub(crate) fn read(row: &Entity) -> Result<Self> {
        Ok(Self {
            // Below 1, changes would sort before the changes that consumers ask for.
            next: number(row, NEXT, 1..=i64::MAX, "a number of at least 1")?,
            feed: feed_id(row)?,
        })
    }

    fn row(self, partition: &PartitionKey) -> Result<Entity> {
        let row = Entity::from(counter_key(partition)?);
        Ok(row.with(NEXT, self.next).with(FEED, self.feed))
    }
}

/// The id of the feed in a counter or a cursor.
pub(crate) fn feed_id(row: &Entity) -> Result<Uuid> {
    match row.get(FEED) {
        Some(ValueRef::Guid(id)) => Ok(id),
        _ => Err(damaged(row, FEED, "Edm.Guid")),
    }
}

/// The row with the id of its feed.
pub(crate) fn with_feed(row: Entity, feed: Uuid) -> Entity {
    row.with(FEED, feed)
}

/// The number of the change after this one.
///
/// # Errors
/// There is none: the counter is damaged, because no feed has that number of changes.
fn following(partition: &PartitionKey, number: i64) -> Result<i64> {
    if number <= MAX_NUMBER {
        return Ok(number + 1);
    }
    let counter = Entity::from(counter_key(partition)?);
    Err(damaged(
        &counter,
        NEXT,
        "a number that leaves room for the next change",
    ))
}

/// The RowKey of a change.
pub(crate) fn change_row(number: i64) -> String {
    // Every `i64` fits into 19 digits, so the order of RowKeys is the order of numbers.
    format!("{FEED_COUNTER}~{number:0DIGITS$}")
}

/// The change of an entity, as the part of a shared row that is written with it.
pub(crate) fn recorded(
    table: &TableName,
    key: &Key,
    kind: ChangeKind,
    entity_type: &Text,
) -> Result<Entry> {
    let mut properties = Properties::new();
    properties.set(KIND, kind.name());
    properties.set(TYPE, &**entity_type);
    properties.set(ROW, key.row());
    Ok(Entry {
        location: Location {
            table: table.clone(),
            key: counter_key(&key.partition_key())?,
        },
        owner: key.clone(),
        properties,
        index: FEED_COUNTER.to_owned(),
        unique: false,
        shape: Shape::Feed,
    })
}

impl Change {
    pub(crate) fn read(row: &Entity) -> Result<Self> {
        let digits = row.key().row().rsplit('~').next().unwrap_or_default();
        let number = digits
            .parse()
            .ok()
            .filter(|number| (1..=MAX_NUMBER).contains(number));
        let number = number.ok_or_else(|| damaged(row, "RowKey", "the number of a change"))?;
        let text = |name: &'static str| match row.get(name) {
            Some(ValueRef::String(text)) => Ok(text),
            _ => Err(damaged(row, name, "Edm.String")),
        };
        let stored = text(KIND)?;
        let kind = ChangeKind::ALL
            .into_iter()
            .find(|kind| kind.name() == stored);
        let kind = kind.ok_or_else(|| {
            let names = ChangeKind::ALL.map(ChangeKind::name).join(", ");
            damaged(row, KIND, &format!("one of {names}"))
        })?;
        Ok(Self {
            number,
            kind,
            key: Key::new(row.key().partition(), text(ROW)?)?,
            entity_type: text(TYPE)?.to_owned(),
            at: row.timestamp(),
        })
    }
}

/// The number in a property of a row of the feed.
///
/// # Errors
/// It is not a number of the range, which `expected` describes.
pub(crate) fn number(
    row: &Entity,
    name: &'static str,
    range: RangeInclusive<i64>,
    expected: &str,
) -> Result<i64> {
    match row.get(name) {
        Some(ValueRef::Int64(number)) if range.contains(&number) => Ok(number),
        _ => Err(damaged(row, name, expected)),
    }
}

/// The error of a change that the feed has not written: its number is that of a later change.
pub(crate) fn foreign_change(partition: &PartitionKey, number: i64) -> Error {
    let row = change_row(number);
    Error::corrupt(format!(
        "the change '{row}' in the partition '{partition}' has a number that its feed has not given yet: another program has written the row. \
         Delete the row"
    ))
}

fn damaged(row: &Entity, name: &str, expected: &str) -> Error {
    Error::decode("change feed", row.key(), name, expected, "another value")
}

/// The damage of a counter or a change; `None` for a sound row, and for all other rows.
pub(crate) fn damage(row: &Entity) -> Option<Error> {
    match row.key().row().strip_prefix(FEED_COUNTER)? {
        "" => Counter::read(row).err(),
        number if number.starts_with('~') => Change::read(row).err(),
        _ => None,
    }
}

/// The counters of a table's partitions, as this process has last written them: a write need not read such a counter.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<HashMap<PartitionKey, (Counter, ETag)>>);

impl Counters {
    fn known(&self) -> MutexGuard<'_, HashMap<PartitionKey, (Counter, ETag)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, partition: &PartitionKey, counter: Counter, version: ETag) {
        let mut known = self.known();
        // A forgotten counter is read again: 1 request.
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(partition.clone(), (counter, version));
    }

    /// Takes the counter out (`CounterTaken`), for three reasons: another task must not use the same number; if the caller is dropped, the
    /// next write must read the counter; and so must a write that finds the counter in another version.
    fn take(&self, partition: &PartitionKey) -> Option<(Counter, ETag)> {
        self.known().remove(partition)
    }
}

/// The numbers that a group gives to its changes.
#[derive(Debug)]
pub(crate) struct Numbers {
    partition: PartitionKey,
    /// The counter before the group, and its version; `None`: the partition has no counter yet.
    before: Counter,
    version: Option<ETag>,
    next: i64,
}

impl Numbers {
    /// The number of the change at this position in the group; `None` for the position of the counter.
    pub(crate) fn at(&self, position: usize) -> Option<i64> {
        let number = self
            .before
            .next
            .checked_add(i64::try_from(position).ok()?)?;
        (number < self.next).then_some(number)
    }

    /// Refuses to give a number that a stored change has already: its writer would have raised the counter in the same transaction.
    pub(crate) fn check_unused(&self, taken: i64) -> Result<()> {
        if self.before.next <= taken {
            return Err(foreign_change(&self.partition, taken));
        }
        Ok(())
    }

    /// Remembers the counter after the group was committed, in this version.
    pub(crate) fn committed(&self, counters: &Counters, version: Option<ETag>) {
        if let Some(version) = version {
            let counter = Counter {
                next: self.next,
                ..self.before
            };
            counters.remember(&self.partition, counter, version);
        }
    }

    /// Remembers the counter as it was before the group, which was not applied.
    pub(crate) fn unused(&self, counters: &Counters) {
        if let Some(version) = &self.version {
            counters.remember(&self.partition, self.before, version.clone());
        }
    }
}

pub(super) async fn prepare(rows: SharedRows<'_>, merge: &Merge) -> Result<Prepared> {
    let partition = merge.at.key.partition_key();
    let (before, version) = match rows.counters.take(&partition) {
        Some((counter, version)) => (counter, Some(version)),
        None => match rows.store.get(&merge.at.table, &merge.at.key, None).await? {
            None => {
                let feed = Uuid::new_v4();
                (Counter { next: 1, feed }, None)
            }
            Some(row) => {
                let missing = || Error::missing_etag(row.key());
                let version = row.etag().cloned().ok_or_else(missing)?;
                (Counter::read(&row)?, Some(version))
            }
        },
    };
    let mut operations = Vec::with_capacity(merge.put.len() + 1);
    let mut next = before.next;
    for entry in &merge.put {
        let key = Key::new(partition.as_str(), change_row(next))?;
        let row = Entity::from_parts(key, entry.properties.clone());
        operations.push(Operation::Insert(row));
        next = following(&partition, next)?;
    }
    let counter = Counter { next, ..before }.row(&partition)?;
    // `CounterInVersion`: after a trim, the insert of a change with a number that was given does not fail.
    operations.push(put(counter, version.clone().map(Into::into)));
    Ok(Prepared {
        operations,
        numbers: Some(Numbers {
            partition,
            before,
            version,
            next,
        }),
        ..Prepared::default()
    })
}
