//! Checks of steps against the tables they write. A step writes plain rows: it must not write rows that an index follows,
//! nor move or delete a row that is only a part of its entity.

use std::collections::BTreeSet;

use table_core::manifest::WriteTarget;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Select;
use table_core::store::{Error, ErrorKind, PlainWrite, Result, TableStore, TableStoreExt as _};

use super::coordinator::Coordinator;
use super::plan::EventualTransaction;
use super::step::{Place, Step};
use crate::blobs::first_name_in_blobs;
use crate::consistency::work::is_infrastructure_error;
use crate::{spread, wide};

impl Coordinator {
    /// Refuses a plan that would leave a table wrong, before it is committed. A plan that is known already is not refused: it may be
    /// applied by now. A step whose store does not answer, or is known to other processes only, is checked by the worker.
    pub(super) async fn check_tables(&self, transaction: &EventualTransaction) -> Result<()> {
        let mut earlier = BTreeSet::new();
        for step in transaction.steps() {
            match self.check_step(step, &earlier).await {
                Err(error) if is_infrastructure_error(&error) || error.is_table_not_found() => {}
                Err(refused) => {
                    let known = self.transactions.read(transaction.id()).await;
                    return if matches!(known, Ok(Some(_))) {
                        Ok(())
                    } else {
                        Err(refused)
                    };
                }
                Ok(()) => {}
            }
            let entities = step.entities().into_iter();
            earlier.extend(
                entities.map(|(store, table, key)| (store.to_owned(), table.clone(), key.clone())),
            );
        }
        Ok(())
    }

    /// Checks one step; `earlier` has the entities that earlier steps write.
    async fn check_step(
        &self,
        step: &Step,
        earlier: &BTreeSet<(String, TableName, Key)>,
    ) -> Result<()> {
        if let Some((store, table, operation)) = step.operation() {
            self.plain_write(store, table, WriteTarget::of(&operation))
                .await?;
        }
        let (from, moves) = match step {
            Step::Move { from, .. } => (from.clone(), true),
            Step::DeleteIfExists(place) => (place.clone(), false),
            Step::ReplaceIfExists {
                store,
                table,
                entity,
            } => (
                Place::new(store.as_str(), table.clone(), entity.key().clone()),
                false,
            ),
            _ => return Ok(()),
        };
        let Some(store) = self.resources.known_store(&from.store)? else {
            return Ok(());
        };
        // The stored row says nothing about a step whose entity an earlier step writes.
        if earlier.contains(&(from.store.clone(), from.table.clone(), from.key.clone())) {
            return Ok(());
        }
        // A move needs the whole row, to see whether an index or a blob is of it.
        let select = (!moves).then(|| Select::new(["PartitionKey"]));
        match store.get(&from.table, &from.key, select.as_ref()).await? {
            Some(row) if moves => {
                self.permit_move(step, &row).await?;
                check_movable(&from.table, &row)
            }
            Some(_) => Ok(()),
            None => {
                check_absent(&**store, &from.table, &from.key).await?;
                if moves {
                    self.check_moved(step).await
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Checks that a move whose source is missing has been done: the target exists.
    pub(super) async fn check_moved(&self, step: &Step) -> Result<()> {
        let Step::Move { from, to } = step else {
            return Ok(());
        };
        let Some(target) = self.resources.known_store(&to.store)? else {
            return Ok(());
        };
        if target
            .get(&to.table, &to.key, Some(&Select::new(["PartitionKey"])))
            .await?
            .is_some()
        {
            return Ok(());
        }
        let (table, key) = (from.table.to_string(), from.key.to_string());
        let hint = format!(
            "'{table}' has no row at {key}, and there is no row at the target of the move: move entities of a `SpreadTable` or a \
             `WideTable` by a `Mover` (`move_by`)"
        );
        Err(Error::from(ErrorKind::EntityNotFound { table, key }).with_source(hint))
    }

    /// Checks that no index follows the rows that a step writes: the step would not update the index entries.
    ///
    /// Keep the returned value until the step is done: it shows that the manifest is fresh. `None` if this process does
    /// not have the store.
    pub(super) async fn plain_write(
        &self,
        store_name: &str,
        table: &TableName,
        target: WriteTarget<'_>,
    ) -> Result<Option<PlainWrite>> {
        const ADVICE: &str =
            "move entities by their `Table` (`move_by`), and write them by a handler that has it";
        let Some(store) = self.resources.known_store(store_name)? else {
            return Ok(None);
        };
        let permission = store.plain_write(table).await?;
        permission
            .manifest()
            .check_plain(table, target, "a step", ADVICE)?;
        Ok(Some(permission))
    }

    /// [`plain_write`](Self::plain_write) for the source and the target of a move.
    pub(super) async fn permit_move(
        &self,
        step: &Step,
        row: &Entity,
    ) -> Result<[Option<PlainWrite>; 2]> {
        let Step::Move { from, to } = step else {
            return Ok([None, None]);
        };
        let moved = row.clone().with_key(to.key.clone());
        Ok([
            self.plain_write(&from.store, &from.table, WriteTarget::Entity(row))
                .await?,
            self.plain_write(&to.store, &to.table, WriteTarget::Entity(&moved))
                .await?,
        ])
    }
}

/// Checks that a row is the whole entity.
pub(super) fn check_movable(table: &TableName, row: &Entity) -> Result<()> {
    let reason = if row.key().is_system() {
        "is a row that a pattern maintains: a step cannot move it; use that pattern's table"
            .to_owned()
    } else if let Some(property) = first_name_in_blobs(row) {
        format!(
            "has the value of '{property}' in a blob, which the step would lose: move the entity by a `Mover` over a `Table` with its type (`move_by`)"
        )
    } else {
        return Ok(());
    };
    Err(Error::misuse(format!(
        "{} of '{table}' {reason}",
        row.key()
    )))
}

/// Checks that a missing row is not a wide or a spread entity, whose rows have other keys.
async fn check_absent(store: &dyn TableStore, table: &TableName, key: &Key) -> Result<()> {
    let reason = if wide::is_there(store, table, key).await? {
        "is a wide entity with several rows: write, move and remove it by its `WideTable`, in a handler or by `move_by`"
    } else if spread::is_there(store, table, key.partition(), Some(key.row())).await? {
        "is in a bucket of a spread partition: write, move and remove it by its `SpreadTable`, in a handler or by `move_by`"
    } else {
        return Ok(());
    };
    Err(Error::misuse(format!("{key} of '{table}' {reason}")))
}
