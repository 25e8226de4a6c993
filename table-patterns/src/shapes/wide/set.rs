//! Set operations: writes of all wide entities of a partition.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::ready;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use table_core::model::{Entity, Key, Properties};
use table_core::query::UnreadableEntity;
use table_core::store::{BulkOutcome, BulkSummary, Conflicts, Error, Outcome, Result, Written};
use table_core::typed::TableEntity;
use table_core::typed::set::changed;

use super::rows::Stored;
use super::{Wide, WideEntities, WideQuery};

/// The number of entities that a set operation writes at once.
const CONCURRENCY: usize = 16;

/// What to do with an entity.
enum Step {
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
            Ok(Step::Delete)
        })
        .await
    }

    /// Calls `change` with each entity and replaces the entity, unless `change` leaves it as it was. Only rows that change are
    /// written. Requests as for [`delete`](Self::delete).
    ///
    /// # Errors
    /// As [`delete`](Self::delete). In the summary: an error of `change`, or a change of a key; such an entity is not written.
    pub async fn update(&self, change: impl Fn(&mut T) -> Result<()> + Send + Sync) -> Result<BulkSummary> {
        self.write_set(|old| {
            let new = changed(&old, &change)?;
            let is_same = old.properties().len() == new.properties().len()
                && new.properties().iter().all(|p| old.properties().find(p.name()) == Some(p));
            Ok(if is_same { Step::Keep } else { Step::Replace(new.into_parts().1) })
        })
        .await
    }

    async fn write_set(&self, decide: impl Fn(Entity) -> Result<Step> + Send + Sync) -> Result<BulkSummary> {
        let hides = self.hidden();
        let decide = |old: &Stored| {
            let (is_hidden, old) = (hides.as_ref().is_some_and(|hides| hides(old)), old.to_entity());
            match !is_hidden && T::type_filter().is_none_or(|filter| filter.matches(&old)) {
                true => decide(old),
                false => Ok(Step::Ignore),
            }
        };
        let of = self.checked()?;
        let entities = WideEntities { schema: Some(T::SCHEMA), ..self.entities.clone() };
        let found = self.found(of, None).take(self.limit.unwrap_or(usize::MAX));
        let found = found.and_then(|scanned| ready(scanned.into_stored().map(Ok)));
        run(found, Write { entities, decide }).await
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
        let decide = |old: &Stored| Ok(if is_in_set(&old.to_entity()) { Step::Delete } else { Step::Ignore });
        let found = self.scan_all(None)?.take_while(|_| ready(!is_stopped()));
        // An entity that cannot be read is an error of its own, and the others are still written.
        let found = found.map_ok(|scanned| scanned.read);
        run(found, Write { entities: self.clone(), decide }).await
    }
}

/// Writes the entities that are found, several at once.
async fn run<D: Fn(&Stored) -> Result<Step> + Send + Sync>(
    found: impl Stream<Item = Result<std::result::Result<Stored, UnreadableEntity>>> + Send,
    write: Write<D>,
) -> Result<BulkSummary> {
    let requests = AtomicU64::new(0);
    let (write, requests) = (&write, &requests);
    let steps = found.map_ok(|old| async move {
        match old {
            Ok(old) => write.one(old, requests).await,
            Err(UnreadableEntity { key, error }) => {
                let table = write.entities.reader.table.clone();
                Ok(Some(Some(BulkOutcome::refused(table, key, error))))
            }
        }
    });
    let mut done = steps.try_buffer_unordered(CONCURRENCY).boxed();
    let mut summary = BulkSummary::default();
    while let Some(result) = done.try_next().await? {
        match result {
            Some(Some(outcome)) => summary.add(outcome),
            Some(None) => summary.unchanged += 1,
            None => {}
        }
    }
    drop(done);
    summary.requests = requests.load(Ordering::Relaxed);
    Ok(summary)
}

struct Write<D> {
    entities: WideEntities,
    decide: D,
}

impl<D: Fn(&Stored) -> Result<Step> + Send + Sync> Write<D> {
    /// Writes one entity. Returns `None` for an entity that does not exist any more or is not of the type, `Some(None)` for an
    /// unchanged one.
    async fn one(&self, mut old: Stored, requests: &AtomicU64) -> Result<Option<Option<BulkOutcome>>> {
        let (key, mut conflicts) = (old.key.clone(), Conflicts::new(self.entities.reader.attempts));
        loop {
            let step = match (self.decide)(&old) {
                Ok(Step::Ignore) => return Ok(None),
                Ok(Step::Keep) => return Ok(Some(None)),
                Ok(step) => step,
                Err(error) => {
                    let table = self.entities.reader.table.clone();
                    return Ok(Some(Some(BulkOutcome::refused(table, key, error))));
                }
            };
            let number = requests.fetch_add(1, Ordering::Relaxed);
            let written = match step {
                Step::Replace(new) => {
                    let written = self.entities.write(Some(&old), &key, &new).await;
                    written.map(|wide| wide.etag().cloned().map_or_else(Written::default, Written::version))
                }
                _ => self.entities.delete_stored(&Wide::from(old)).await.map(|()| Written::default()),
            };
            let error = match written {
                Err(error) if error.is_entity_not_found() && error.outcome() == Outcome::NotApplied => {
                    return Ok(None);
                }
                Err(error) if error.is_conflict() => error,
                done => return Ok(Some(Some(self.outcome(key, number, done)))),
            };
            if let Err(error) = conflicts.wait(error).await {
                return Ok(Some(Some(self.outcome(key, number, Err(error)))));
            }
            old = match self.entities.reader.read(&key).await {
                Ok(None) => return Ok(None),
                Ok(Some(now)) => now,
                Err(error) => return Ok(Some(Some(self.outcome(key, number, Err(error))))),
            };
        }
    }

    fn outcome(&self, key: Key, number: u64, result: Result<Written, Error>) -> BulkOutcome {
        BulkOutcome::of_request(self.entities.reader.table.clone(), key, number, result)
    }
}
