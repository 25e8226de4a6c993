//! Set operations: writes of all wide entities of a partition.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::ready;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use table_core::model::{Entity, Key, Properties};
use table_core::query::UnreadableEntity;
use table_core::store::{BulkOutcome, BulkSummary, Conflicts, Error, Outcome, Result, Written};
use table_core::typed::TableEntity;
use table_core::typed::set::changed;

use super::rows::StoredWide;
use super::{Wide, WideEntities, WideQuery};

/// The number of entities that a set operation writes at once.
const CONCURRENCY: usize = 16;

/// What to do with an entity.
enum WideDecision {
    Ignore,
    Keep,
    Replace(Properties),
    Delete,
}

/// Set operations: see [`TableQuery::delete`](table_core::typed::TableQuery::delete). Each entity is a group of its own, 16 at
/// once.
impl<T: TableEntity> WideQuery<T> {
    /// Deletes the entities. 1 request per page of the store and 1 per entity; 2 more per entity that another writer changes.
    ///
    /// # Errors
    /// As [`stream`](Self::stream). Errors of single entities are in the summary.
    pub async fn delete(&self) -> Result<BulkSummary> {
        self.write_set(|old| {
            T::from_entity(old)?;
            Ok(WideDecision::Delete)
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, unless `change` leaves it as it was. Only rows that change are
    /// written. Requests as for [`delete`](Self::delete).
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, or a change of a key; such an entity is not written.
    pub async fn update(
        &self,
        change: impl Fn(&mut T) -> Result<()> + Send + Sync,
    ) -> Result<BulkSummary> {
        self.write_set(|old| {
            let new = changed(&old, &change)?;
            let is_same = old.properties().len() == new.properties().len()
                && new
                    .properties()
                    .iter()
                    .all(|p| old.properties().find(p.name()) == Some(p));
            Ok(if is_same {
                WideDecision::Keep
            } else {
                WideDecision::Replace(new.into_parts().1)
            })
        })
        .await
    }

    async fn write_set(
        &self,
        decide: impl Fn(Entity) -> Result<WideDecision> + Send + Sync,
    ) -> Result<BulkSummary> {
        let hides = self.hiding_test();
        let decide = |old: &StoredWide| {
            let (is_hidden, old) = (
                hides.as_ref().is_some_and(|hides| hides(old)),
                old.to_entity(),
            );
            match !is_hidden && T::type_filter().is_none_or(|filter| filter.matches(&old)) {
                true => decide(old),
                false => Ok(WideDecision::Ignore),
            }
        };
        let of = self.checked()?;
        let entities = WideEntities {
            schema: Some(T::SCHEMA),
            ..self.entities.clone()
        };
        let found = self.found(of, None).take(self.limit.unwrap_or(usize::MAX));
        let found = found.and_then(|scanned| ready(scanned.into_stored().map(Ok)));
        run(found, Write::new(entities, decide)).await
    }
}

impl WideEntities {
    /// Deletes the entities of the table for which `is_in_set` holds, each in the version that was read, until `is_stopped`. 1 request per
    /// page of the table's wide rows and 1 per entity; 2 more per entity that another writer changes.
    pub(crate) async fn delete_set(
        &self,
        is_in_set: impl Fn(&Entity) -> bool + Send + Sync,
        is_stopped: impl Fn() -> bool + Send + Sync,
    ) -> Result<BulkSummary> {
        let decide = |old: &StoredWide| {
            Ok(if is_in_set(&old.to_entity()) {
                WideDecision::Delete
            } else {
                WideDecision::Ignore
            })
        };
        let found = self.scan_all(None)?.take_while(|_| ready(!is_stopped()));
        // An entity that cannot be read is an error of its own, and the others are still written.
        let found = found.map_ok(|scanned| scanned.read);
        run(found, Write::new(self.clone(), decide)).await
    }
}

/// Writes the entities that are found, several at once.
async fn run<D: Fn(&StoredWide) -> Result<WideDecision> + Send + Sync>(
    found: impl Stream<Item = Result<std::result::Result<StoredWide, UnreadableEntity>>> + Send,
    write: Write<D>,
) -> Result<BulkSummary> {
    let write = &write;
    let steps = found.map_ok(|old| async move {
        Ok(match old {
            Ok(old) => write.one(old).await,
            Err(UnreadableEntity { key, error }) => Done::Outcome(write.refused(key, error)),
        })
    });
    let mut done = steps.try_buffer_unordered(CONCURRENCY).boxed();
    let mut summary = BulkSummary::default();
    while let Some(done) = done.try_next().await? {
        match done {
            Done::Outcome(outcome) => summary.add(outcome),
            Done::Unchanged => summary.unchanged += 1,
            Done::NotInSet => {}
        }
    }
    drop(done);
    summary.requests = write.requests.load(Ordering::Relaxed);
    Ok(summary)
}

/// The result for one entity.
enum Done {
    /// The entity does not exist any more, or is not in the set.
    NotInSet,
    /// The entity is in the set, and stays as it is.
    Unchanged,
    Outcome(BulkOutcome),
}

/// The writes of a set operation.
struct Write<D> {
    entities: WideEntities,
    decide: D,
    /// The number of write requests so far.
    requests: AtomicU64,
}

impl<D: Fn(&StoredWide) -> Result<WideDecision> + Send + Sync> Write<D> {
    fn new(entities: WideEntities, decide: D) -> Self {
        Self {
            entities,
            decide,
            requests: AtomicU64::new(0),
        }
    }

    /// Writes one entity in the version that was read; after a conflict, reads it and decides again.
    async fn one(&self, mut old: StoredWide) -> Done {
        let (key, mut conflicts) = (
            old.key.clone(),
            Conflicts::new(self.entities.reader.attempts),
        );
        loop {
            let step = match (self.decide)(&old) {
                Ok(step) => step,
                Err(error) => return Done::Outcome(self.refused(key, error)),
            };
            let new = match step {
                WideDecision::Ignore => return Done::NotInSet,
                WideDecision::Keep => return Done::Unchanged,
                WideDecision::Replace(new) => Some(new),
                WideDecision::Delete => None,
            };
            let number = self.requests.fetch_add(1, Ordering::Relaxed);
            let error = match self.write(&old, new).await {
                Err(error)
                    if error.is_entity_not_found() && error.outcome() == Outcome::NotApplied =>
                {
                    return Done::NotInSet;
                }
                Err(error) if error.is_conflict() => error,
                done => return self.outcome(key, number, done),
            };
            if let Err(error) = conflicts.wait(error).await {
                return self.outcome(key, number, Err(error));
            }
            old = match self.entities.reader.read(&key).await {
                Ok(None) => return Done::NotInSet,
                Ok(Some(now)) => now,
                Err(error) => return self.outcome(key, number, Err(error)),
            };
        }
    }

    /// Replaces the entity by these properties, or deletes it.
    async fn write(&self, old: &StoredWide, new: Option<Properties>) -> Result<Written> {
        let Some(new) = new else {
            return self
                .entities
                .delete_stored(&Wide::from(old.clone()))
                .await
                .map(|()| Written::default());
        };
        let wide = self.entities.write(Some(old), &old.key, &new).await?;
        Ok(wide
            .etag()
            .cloned()
            .map_or_else(Written::default, Written::version))
    }

    fn outcome(&self, key: Key, number: u64, result: Result<Written>) -> Done {
        let table = self.entities.table_name().clone();
        Done::Outcome(BulkOutcome::of_request(table, key, number, result))
    }

    fn refused(&self, key: Key, error: Error) -> BulkOutcome {
        BulkOutcome::refused(self.entities.table_name().clone(), key, error)
    }
}
