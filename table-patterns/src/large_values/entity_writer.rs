//! Writes of entities with large values and index entries: all writes of types with large fields pass through here.
//!
//! ```text
//! logical entity ─► large values into blobs ─► row ─► entries of its indexes ─► journal ─► store
//! ```
//!
//! Invariant: a row never refers to a missing blob, whenever the process dies. Therefore the blobs are stored before the row
//! that refers to them; the journal writes row and local entries in one group; and the old row's blobs are removed after
//! the row refers to them no more. A write that is refused removes its new blobs. No index entry refers to a blob, so the
//! row alone decides which blobs are valid. A collection removes blobs that no process could remove.

use std::sync::Arc;

use table_core::model::{Entity, Key, TableName};
use table_core::store::{
    Conflicts, Error, ErrorKind, Operation, Outcome, PlainWrite, Result, TableStore, Written,
};

use super::{LargeValues, NewBlobs};
use crate::entity_rows;
use crate::index::{IndexedEntities, MAX_CLAIMS, due_row};
use crate::journal::{Change, Committed, Entries, MoveAttempt, Moved, before};
use crate::rows::plain::permit;
use crate::rows::write_together;

/// Writes the entities of one table with their large values and index entries.
#[derive(Clone, Debug)]
pub(crate) struct EntityWriter {
    store: Arc<dyn TableStore>,
    table: TableName,
    values: LargeValues,
    indexes: Option<IndexedEntities>,
    /// Whether writes do not check the manifest, so that index entries may become stale.
    unmanaged: bool,
}

impl EntityWriter {
    /// A writer of entities with large values, and without indexes.
    pub(crate) fn new(store: Arc<dyn TableStore>, table: TableName, values: LargeValues) -> Self {
        Self {
            store,
            table,
            values,
            indexes: None,
            unmanaged: false,
        }
    }

    /// Makes writes ignore the table's manifest and leave index entries as they are.
    pub(crate) fn ignoring_indexes(self) -> Self {
        Self {
            unmanaged: true,
            ..self
        }
    }

    /// The same writer, with these indexes of the table.
    pub(crate) fn maintaining(&self, indexes: Option<&IndexedEntities>) -> Self {
        Self {
            indexes: indexes.cloned(),
            ..self.clone()
        }
    }

    /// Merges properties, none of which is large, into a row in the version that was read.
    pub(crate) async fn merge_row(&self, old: &Entity, patch: Entity) -> Result<Written> {
        self.merge(&NewBlobs::none(), old, patch).await
    }

    /// Sets the number of attempts and of requests at once.
    pub(crate) fn with_bounds(mut self, attempts: u32, concurrency: usize) -> Self {
        self.values.attempts = attempts.max(1);
        self.values.concurrency = concurrency.max(1);
        self
    }

    pub(crate) const fn values(&self) -> &LargeValues {
        &self.values
    }

    pub(crate) const fn indexes(&self) -> Option<&IndexedEntities> {
        self.indexes.as_ref()
    }

    /// The indexes, if some have remote entries: a move to another partition is then one write of their journal.
    pub(crate) fn indexes_with_remote_entries(&self) -> Option<&IndexedEntities> {
        self.indexes
            .as_ref()
            .filter(|indexes| indexes.changes().has_remote_entries())
    }

    /// One attempt to move a row to another partition by one write of the journal of `indexes`. The new blobs are stored.
    ///
    /// Removes the blobs of a replaced target row, and the source's blobs only when the source row is certainly gone: until
    /// then, readers of the source need them. A collection removes the blobs of a move that died.
    pub(crate) async fn move_row(
        &self,
        indexes: &IndexedEntities,
        new: &NewBlobs,
        (source, there): (&Entity, Option<&Entity>),
        moved: &Entity,
    ) -> Result<MoveAttempt> {
        let mover = indexes.journal().mover();
        let moving = Box::pin(mover.move_read(source, there.cloned(), moved.clone()));
        let tried = self.in_time(new, moving).await;
        match &tried {
            Ok(MoveAttempt::Ended(Moved::Done(entries))) => {
                let gone = (*entries == Entries::Applied).then_some(source);
                let old: Vec<&Entity> = there.into_iter().chain(gone).collect();
                self.values.remove_replaced(&old, &[moved]).await;
            }
            Ok(MoveAttempt::Ended(_)) => {}
            Ok(MoveAttempt::GivenUp(_)) => self.values.withdraw(new).await,
            Err(error) if error.outcome() == Outcome::NotApplied => self.values.withdraw(new).await,
            Err(_) => {}
        }
        tried
    }

    /// Replaces a row of an older schema version by an entity of the current version.
    pub(crate) async fn upgrade(&self, old: Entity, new: Entity) -> Result<Written> {
        self.write(match &self.indexes {
            Some(indexes) => indexes.changes().upgrade(old, new),
            None => Change::replace(old, new).without_record(),
        })
        .await
    }

    /// Writes a change whose new state is a logical entity. The old state is the row that was read. A due entity that has the key or a
    /// unique value of the new state is removed first, with its blobs.
    pub(crate) async fn write(&self, change: Change) -> Result<Written> {
        self.write_group(vec![change])
            .await
            .map(|(committed, _)| last(committed))
    }

    /// As [`write`](Self::write). Returns the new row as stored, too.
    pub(crate) async fn write_row(&self, change: Change) -> Result<(Written, Option<Entity>)> {
        let (committed, changes) = self.write_group(vec![change]).await?;
        let row = changes.into_iter().next().and_then(|change| change.new);
        Ok((last(committed), row))
    }

    /// Reads the row, and writes what `change` makes of it: a new row, or `None` for none. Starts again after a conflict. `None` if there was
    /// nothing to write.
    pub(crate) async fn modify(
        &self,
        key: &Key,
        mut change: impl FnMut(Option<&Entity>) -> Result<Option<Entity>> + Send,
    ) -> Result<Option<Written>> {
        let mut conflicts = Conflicts::new(self.values.attempts);
        loop {
            let old = self.values.row(key).await?;
            let new = change(old.as_ref())?.map(|new| new.with_system(None, None));
            let Some(change) = Change::between(old, new) else {
                return Ok(None);
            };
            match self.write(change).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done.map(Some),
            }
        }
    }

    /// Writes changes of rows of one partition atomically. The new blobs are stored.
    ///
    /// Removes the new blobs if the write was certainly not applied; after an ambiguous outcome they stay for a collection.
    /// Removes the old rows' blobs after a success.
    pub(crate) async fn commit(&self, new: &NewBlobs, changes: &[Change]) -> Result<Written> {
        self.commit_all(new, changes).await.map(last)
    }

    /// As [`commit`](Self::commit), with the answers to all changes.
    async fn commit_all(&self, new: &NewBlobs, changes: &[Change]) -> Result<Committed> {
        let written = match &self.indexes {
            // Boxed: the future of a write by the journal is large.
            Some(indexes) => {
                Box::pin(self.in_time(new, indexes.changes().write_once(changes))).await
            }
            None => self.in_time(new, Box::pin(self.send(changes))).await,
        };
        let written = self.withdraw_if_not_applied(new, written).await?;
        let (old, now): (Vec<_>, Vec<_>) =
            changes.iter().map(|c| (c.old(), c.new.as_ref())).unzip();
        let (old, now): (Vec<_>, Vec<_>) = (
            old.into_iter().flatten().collect(),
            now.into_iter().flatten().collect(),
        );
        self.values.remove_replaced(&old, &now).await;
        Ok(written)
    }

    /// Writes changes of one partition, all or none, with their blobs and entries. Removes due entities that are in the way, as
    /// [`write`](Self::write) does.
    pub(crate) async fn write_group(
        &self,
        changes: Vec<Change>,
    ) -> Result<(Committed, Vec<Change>)> {
        if self.values.schema.expiry.is_none() || changes.iter().all(|change| change.new.is_none())
        {
            return self.write_once(changes).await;
        }
        let mut claims_left = MAX_CLAIMS;
        loop {
            // The blobs of a refused write are removed: another attempt stores them again.
            let error = match self.write_once(changes.clone()).await {
                Err(error) if claims_left > 0 => error,
                done => return done,
            };
            let due = due_row(
                &*self.store,
                &self.table,
                self.values.schema,
                &error,
                &changes,
            )
            .await?;
            let Some(due) = due else { return Err(error) };
            claims_left -= 1;
            match self.write_once(vec![Change::expire(due)]).await {
                // The due entity may be gone; the write itself was not applied.
                Err(error) if !error.is_conflict() => {
                    return Err(error.with_outcome(Outcome::NotApplied));
                }
                // After a conflict the owner was renewed or removed: the next attempt of the write shows which.
                _ => {}
            }
        }
    }

    /// One attempt to write changes of one partition with their blobs and entries.
    async fn write_once(&self, mut changes: Vec<Change>) -> Result<(Committed, Vec<Change>)> {
        let mut new = NewBlobs::none();
        // Before the first blob is stored: a refused write stores nothing. `send` asks again, because the manifest may change while the blobs are
        // stored.
        let mut permitted = Vec::new();
        for change in &changes {
            permitted.push(self.permit(change.key()?).await?);
        }
        for entity in changes.iter_mut().filter_map(|change| change.new.as_mut()) {
            if let Err(error) = self.values.move_out(entity, &mut new).await {
                self.values.withdraw(&new).await;
                return Err(error);
            }
        }
        let committed = Box::pin(self.commit_all(&new, &changes)).await?;
        Ok((committed, changes))
    }

    pub(crate) const fn store(&self) -> &Arc<dyn TableStore> {
        &self.store
    }

    pub(crate) const fn table(&self) -> &TableName {
        &self.table
    }

    /// Merges properties into a row in the version that was read. The new blobs are stored.
    pub(crate) async fn merge(
        &self,
        new: &NewBlobs,
        old: &Entity,
        patch: Entity,
    ) -> Result<Written> {
        self.merge_as(new, old, patch, |change| change).await
    }

    /// As [`merge`](Self::merge), of references to blobs with the same values: a feed records nothing.
    pub(crate) async fn merge_references(
        &self,
        new: &NewBlobs,
        old: &Entity,
        patch: Entity,
    ) -> Result<Written> {
        self.merge_as(new, old, patch, Change::without_record).await
    }

    async fn merge_as(
        &self,
        new: &NewBlobs,
        old: &Entity,
        patch: Entity,
        recorded: fn(Change) -> Change,
    ) -> Result<Written> {
        let mut now = old.clone().with_system(None, None);
        now.properties_mut().merge(patch.properties());
        if self.indexes.is_some() {
            let change = recorded(Change::replace(old.clone(), now));
            return Box::pin(self.commit(new, &[change])).await;
        }
        let merge = async {
            let _permitted = self.permit(old.key()).await?;
            let merge = Operation::Merge(patch, old.version()?);
            let written = self.store.write(&self.table, merge).await?;
            Ok(Committed {
                written: vec![written],
                entries: Entries::Applied,
            })
        };
        let written = self.in_time(new, merge).await;
        let written = self.withdraw_if_not_applied(new, written).await?;
        self.values.remove_replaced(&[old], &[&now]).await;
        Ok(last(written))
    }

    /// Permits a write of rows without indexes; `None` with indexes, whose journal reads the manifest itself.
    pub(crate) async fn permit(&self, key: &Key) -> Result<Option<PlainWrite>> {
        match &self.indexes {
            _ if self.unmanaged => Ok(None),
            Some(_) => Ok(None),
            None => permit(&*self.store, &self.table, self.values.schema, key)
                .await
                .map(Some),
        }
    }

    /// Writes rows without indexes.
    async fn send(&self, changes: &[Change]) -> Result<Committed> {
        let (mut operations, mut permitted) = (Vec::with_capacity(changes.len()), Vec::new());
        for change in changes {
            operations.extend(entity_rows::operations(change.old(), change.new.as_ref())?);
        }
        for operation in &operations {
            permitted.push(self.permit(operation.key()).await?);
        }
        let written = write_together(&*self.store, &self.table, &operations).await?;
        Ok(Committed {
            written,
            entries: Entries::Applied,
        })
    }

    /// Runs a write within the write deadline of its blobs. After the deadline a collection could remove the blobs, so the
    /// write fails.
    pub(super) async fn in_time<W>(
        &self,
        new: &NewBlobs,
        write: impl Future<Output = Result<W>>,
    ) -> Result<W> {
        let deadline = self.values.deadline();
        let Some(until) = new.until(deadline)? else {
            return write.await;
        };
        // A write may take several requests. The grace period of collections covers the last one, which may still arrive.
        before(until, write).await.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Timeout { after: deadline }).with_outcome(Outcome::Ambiguous))
        })
    }

    /// Removes the new blobs if the write was certainly not applied.
    async fn withdraw_if_not_applied(
        &self,
        new: &NewBlobs,
        written: Result<Committed>,
    ) -> Result<Committed> {
        if written
            .as_ref()
            .is_err_and(|error| error.outcome() == Outcome::NotApplied)
        {
            self.values.withdraw(new).await;
        }
        written
    }
}

/// The version of the last row written: for a move, the target row.
fn last(committed: Committed) -> Written {
    committed.written.into_iter().last().unwrap_or_default()
}
