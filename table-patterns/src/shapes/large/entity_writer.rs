//! The seam of writes: one way from an entity as a program knows it to everything that is stored of it.
//!
//! ```text
//! logical entity ─► large values into blobs ─► row ─► entries of its indexes ─► journal ─► store
//! ```
//!
//! What is refused is refused before the row is written, and what was prepared for it is withdrawn. The order is what
//! crashes rest on: blobs before the row that names them, entries by the journal in the row's own group, and the blobs that
//! a row named before only after it names them no more. No entry names a blob, so the row alone decides which of them
//! count, and what nobody could withdraw is left to a collection.

use std::sync::Arc;

use table_core::model::{Entity, TableName};
use table_core::store::{
    Error, ErrorKind, GroupTransaction, Operation, Outcome, Result, TableStore, Written,
};

use crate::index::{IndexOptions, IndexedEntities};
use crate::journal::{Change, Committed, Entries, Moved, Tried, before};
use crate::large::{LargeOptions, LargeValues, NewBlobs};
use crate::rows::conflict::version_of;

/// Writes the entities of one table with what belongs to them: large values, and the entries of indexes.
#[derive(Clone, Debug)]
pub(crate) struct EntityWriter {
    store: Arc<dyn TableStore>,
    table: TableName,
    values: LargeValues,
    indexes: Option<IndexedEntities>,
}

impl EntityWriter {
    /// A writer of entities with large values, and without indexes.
    pub(crate) fn new(store: Arc<dyn TableStore>, table: TableName, values: LargeValues) -> Self {
        Self { store, table, values, indexes: None }
    }

    /// The same with indexes of the table, whose entries follow every write.
    pub(crate) fn with_indexes(self, indexes: IndexedEntities) -> Self {
        Self { indexes: Some(indexes), ..self }
    }

    /// The same with other options of its large values and of its indexes.
    pub(crate) fn with_options(
        mut self,
        of_values: impl FnOnce(&mut LargeOptions),
        of_indexes: impl FnOnce(&mut IndexOptions),
    ) -> Self {
        of_values(self.values.options_mut());
        if let Some(indexes) = &mut self.indexes {
            of_indexes(indexes.options_mut());
        }
        self
    }

    pub(crate) const fn values(&self) -> &LargeValues {
        &self.values
    }

    pub(crate) const fn indexes(&self) -> Option<&IndexedEntities> {
        self.indexes.as_ref()
    }

    /// The indexes, if some have entries in other partitions: a move to another partition is then one write of their journal.
    pub(crate) fn indexes_elsewhere(&self) -> Option<&IndexedEntities> {
        self.indexes.as_ref().filter(|indexes| indexes.has_entries_elsewhere())
    }

    /// One attempt to move a row to another partition, whose new blobs are there already, by one write of the journal of `indexes`.
    ///
    /// The blobs of what was there go with it. Those of the source go when it is certainly gone: who reads it until then finds
    /// them, and what a mover that died has left is for a collection.
    pub(crate) async fn move_row(
        &self,
        indexes: &IndexedEntities,
        new: &NewBlobs,
        (source, there): (&Entity, Option<&Entity>),
        moved: &Entity,
    ) -> Result<Tried> {
        let moving = Box::pin(indexes.journal().move_read(source, there.cloned(), moved.clone()));
        let tried = self.in_time(new, moving).await;
        match &tried {
            Ok(Ok(Moved::Done(entries))) => {
                let gone = (*entries == Entries::Applied).then_some(source);
                let old: Vec<&Entity> = there.into_iter().chain(gone).collect();
                self.values.remove_replaced(&old, &[moved]).await;
            }
            Ok(Ok(_)) => {}
            Ok(Err(_)) => self.values.withdraw(new).await,
            Err(error) if error.outcome() == Outcome::NotApplied => self.values.withdraw(new).await,
            Err(_) => {}
        }
        tried
    }

    /// Replaces a row of an older version of the type by an entity of the present one.
    pub(crate) async fn upgrade(&self, old: Entity, new: Entity) -> Result<Written> {
        self.write(match &self.indexes {
            Some(indexes) => indexes.upgrade(old, new),
            None => Change::replace(old, new),
        })
        .await
    }

    /// Writes a change of an entity as a program knows it. The old state, if there is one, is the row that was read.
    pub(crate) async fn write(&self, mut change: Change) -> Result<Written> {
        let mut new = NewBlobs::none();
        if let Some(entity) = &mut change.new
            && let Err(error) = self.values.move_out(entity, &mut new).await
        {
            self.values.withdraw(&new).await;
            return Err(error);
        }
        Box::pin(self.commit(&new, &[change])).await
    }

    /// Writes changes of rows of one partition, whose new blobs are there already: all or none.
    ///
    /// Where they are certainly not written, the new blobs go; where nobody knows, they stay for a collection. What the
    /// old rows referred to goes once the new ones are there.
    pub(crate) async fn commit(&self, new: &NewBlobs, changes: &[Change]) -> Result<Written> {
        let written = match &self.indexes {
            // Apart from the caller's own future: a write by the journal has a large one.
            Some(indexes) => Box::pin(self.in_time(new, indexes.write(changes))).await,
            None => self.in_time(new, Box::pin(self.send(changes))).await,
        };
        let written = self.settle(new, written).await?;
        let (old, now): (Vec<_>, Vec<_>) = changes.iter().map(|c| (c.old(), c.new.as_ref())).unzip();
        let (old, now): (Vec<_>, Vec<_>) =
            (old.into_iter().flatten().collect(), now.into_iter().flatten().collect());
        self.values.remove_replaced(&old, &now).await;
        Ok(last(written))
    }

    /// Writes properties of a row over those that were read, in that version; their new blobs are there already.
    pub(crate) async fn merge(&self, new: &NewBlobs, old: &Entity, patch: Entity) -> Result<Written> {
        let mut now = old.clone().with_system(None, None);
        now.properties_mut().merge(patch.properties());
        if self.indexes.is_some() {
            return Box::pin(self.commit(new, &[Change::replace(old.clone(), now)])).await;
        }
        let merge = async {
            let merge = Operation::Merge(patch, version_of(old)?);
            let written = self.store.write(&self.table, merge).await?;
            Ok(Committed { written: vec![written], entries: Entries::Applied })
        };
        let written = self.in_time(new, merge).await;
        let written = self.settle(new, written).await?;
        self.values.remove_replaced(&[old], &[&now]).await;
        Ok(last(written))
    }

    /// Without indexes: the rows alone.
    async fn send(&self, changes: &[Change]) -> Result<Committed> {
        let mut operations = changes.iter().map(Change::operation).collect::<Result<Vec<_>>>()?;
        let written = match (operations.pop(), operations.is_empty()) {
            (Some(one), true) => vec![self.store.write(&self.table, one).await?],
            (last, _) => {
                operations.extend(last);
                let first = operations.first().ok_or_else(|| Error::invalid_request("a write of nothing"))?;
                let mut group = GroupTransaction::new(first.key().partition_key(), self.store.profile());
                operations.into_iter().try_for_each(|operation| group.push(operation))?;
                self.store.transact(&self.table, group).await?
            }
        };
        Ok(Committed { written, entries: Entries::Applied })
    }

    /// Sends rows while their blobs are certainly there: a write that takes longer than its deadline is given up, since a
    /// collection could take them.
    async fn in_time<W>(&self, new: &NewBlobs, write: impl Future<Output = Result<W>>) -> Result<W> {
        let deadline = self.values.deadline();
        match new.until(deadline)? {
            // One request is as long under way as the grace of a collection allows for.
            Some(until) if self.indexes.is_some() => before(until, write).await.unwrap_or_else(|| {
                Err(Error::new(ErrorKind::Timeout { after: deadline }).with_outcome(Outcome::Ambiguous))
            }),
            _ => write.await,
        }
    }

    async fn settle(&self, new: &NewBlobs, written: Result<Committed>) -> Result<Committed> {
        if written.as_ref().is_err_and(|error| error.outcome() == Outcome::NotApplied) {
            self.values.withdraw(new).await;
        }
        written
    }
}

/// The version of what came last: of a move, the entity where it is now.
fn last(committed: Committed) -> Written {
    committed.written.into_iter().last().unwrap_or_default()
}
