//! What steps must not do to tables that are more than their rows: indexed ones, and those whose entities have blobs, several
//! rows, or other keys.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use table_core::manifest::Manifest;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Select;
use table_core::store::{Error, ErrorKind, Result, TableStore};
use tokio::time::Instant;

use super::coordinator::Coordinator;
use super::plan::EventualTransaction;
use super::step::{Place, Step};
use crate::work::is_of_the_storage;
use crate::{large, spread, wide};

/// How long a table is known to hold no indexes.
const KNOWN: Duration = Duration::from_secs(30);

/// Tables of which was asked whether they hold indexes, and when: those that hold none.
pub(super) type Unindexed = Mutex<HashMap<(String, TableName), Instant>>;

impl Coordinator {
    /// Refuses a plan that would leave a table wrong, before it is committed; not one that is known already, which may be
    /// applied by now. What cannot be found out here, because a storage does not answer or only others have it, is found out by
    /// the worker.
    pub(super) async fn check_tables(&self, transaction: &EventualTransaction) -> Result<()> {
        let mut touched = BTreeSet::new();
        for step in transaction.steps() {
            match self.check_step(step, &touched).await {
                Err(error) if is_of_the_storage(&error) || error.is_table_not_found() => {}
                Err(refused) => {
                    let known = self.ledger.read(transaction.id()).await;
                    return if matches!(known, Ok(Some(_))) { Ok(()) } else { Err(refused) };
                }
                Ok(()) => {}
            }
            touched.extend(
                places(step).map(|(store, table, key)| (store.to_owned(), table.clone(), key.clone())),
            );
        }
        Ok(())
    }

    async fn check_step(&self, step: &Step, touched: &BTreeSet<(String, TableName, Key)>) -> Result<()> {
        for (store, table, _) in places(step) {
            self.check_unindexed(store, table).await?;
        }
        let (from, moves) = match step {
            Step::Move { from, .. } => (from.clone(), true),
            Step::DeleteIfExists(place) => (place.clone(), false),
            Step::ReplaceIfExists { store, table, entity } => {
                (Place::new(store.as_str(), table.clone(), entity.key().clone()), false)
            }
            _ => return Ok(()),
        };
        let Some(store) = self.resources.known_store(&from.store)? else { return Ok(()) };
        if touched.contains(&(from.store.clone(), from.table.clone(), from.key.clone())) {
            return Ok(());
        }
        let select = (!moves).then(|| Select::new(["PartitionKey"]));
        match store.get(&from.table, &from.key, select.as_ref()).await? {
            Some(row) if moves => check_movable(&from.table, &row),
            Some(_) => Ok(()),
            None => {
                check_absent(&**store, &from.table, &from.key).await?;
                if moves { self.check_moved(step).await } else { Ok(()) }
            }
        }
    }

    /// Refuses to move what is neither here nor there.
    pub(super) async fn check_moved(&self, step: &Step) -> Result<()> {
        let Step::Move { from, to } = step else { return Ok(()) };
        let Some(target) = self.resources.known_store(&to.store)? else { return Ok(()) };
        if target.get(&to.table, &to.key, Some(&Select::new(["PartitionKey"]))).await?.is_some() {
            return Ok(());
        }
        let (table, key) = (from.table.to_string(), from.key.to_string());
        let hint = format!(
            "no row of '{table}' is at {key}, nor where it would be moved: entities of a `SpreadTable` or a `WideTable` are moved by \
             that (`move_by`)"
        );
        Err(Error::from(ErrorKind::EntityNotFound { table, key }).with_source(hint))
    }

    /// Refuses a table that holds indexes: its entries would go stale. A request where that is not known of the last 30
    /// seconds.
    pub(super) async fn check_unindexed(&self, store: &str, table: &TableName) -> Result<()> {
        let Some(opened) = self.resources.known_store(store)? else { return Ok(()) };
        let (key, asked) = ((store.to_owned(), table.clone()), Instant::now());
        let known = |at: &Instant| at.elapsed() < KNOWN;
        if self.unindexed.lock().unwrap_or_else(PoisonError::into_inner).get(&key).is_some_and(known) {
            return Ok(());
        }
        if Manifest::has_indexes(&**opened, table).await? {
            return Err(Error::invalid_request(format!(
                "the table '{table}' holds indexes, which a step would leave stale: move entities by their `IndexedTable` \
                 (`move_by`), and write them by a handler that has it"
            )));
        }
        self.unindexed.lock().unwrap_or_else(PoisonError::into_inner).insert(key, asked);
        Ok(())
    }
}

/// The entities that a step writes or removes.
pub(super) fn places(step: &Step) -> impl Iterator<Item = (&str, &TableName, &Key)> {
    let (one, other) = match step {
        Step::Upsert { store, table, entity }
        | Step::UpsertMerge { store, table, entity }
        | Step::ReplaceIfExists { store, table, entity } => {
            (Some((store.as_str(), table, entity.key())), None)
        }
        Step::DeleteIfExists(place) => (Some(of(place)), None),
        Step::Move { from, to } => (Some(of(from)), Some(of(to))),
        Step::PutBlob { .. } | Step::DeleteBlob { .. } | Step::Handle { .. } => (None, None),
    };
    one.into_iter().chain(other)
}

fn of(Place { store, table, key }: &Place) -> (&str, &TableName, &Key) {
    (store, table, key)
}

/// Refuses to move a row that is not all of its entity.
pub(super) fn check_movable(table: &TableName, row: &Entity) -> Result<()> {
    let reason = if row.key().is_system() {
        "is a row that a pattern keeps for itself: it is moved by that pattern's table".to_owned()
    } else if let Some(property) = large::in_a_blob(row) {
        format!(
            "has the value of '{property}' in a blob, which would be lost: it is moved by its `LargeTable`, with the blob (`move_by`)"
        )
    } else {
        return Ok(());
    };
    Err(Error::invalid_request(format!("{} of '{table}' {reason}", row.key())))
}

/// Refuses a key that no row has because its entity is stored in another way.
async fn check_absent(store: &dyn TableStore, table: &TableName, key: &Key) -> Result<()> {
    let reason = if wide::is_there(store, table, key).await? {
        "is a wide entity, of several rows: it is written, moved and removed by its `WideTable` (`move_by`, a handler)"
    } else if spread::is_there(store, table, key.partition(), Some(key.row())).await? {
        "is in a bucket of a spread partition: it is written, moved and removed by its `SpreadTable` (`move_by`, a handler)"
    } else {
        return Ok(());
    };
    Err(Error::invalid_request(format!("{key} of '{table}' {reason}")))
}
