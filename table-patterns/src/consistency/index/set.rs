//! Set operations: writes of all entities that a query finds, with their entries.

use std::collections::BTreeSet;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use table_core::model::{Entity, Key};
use table_core::store::{Result, Written};
use table_core::typed::set::{RowChange, SetWriter};

use crate::entry::{Location, Maintainer as _};
use crate::index::IndexedEntities;
use crate::journal::{Change, Entries, as_read};

/// Writes rows with their index entries.
impl SetWriter for IndexedEntities {
    fn check<'a>(&'a self, _: &'a Key) -> BoxFuture<'a, Result<()>> {
        async move {
            self.changes().check_writable()?;
            drop(self.set.prepare_write().await?);
            self.set.check_type()
        }
        .boxed()
    }

    fn as_read(&self, row: Entity) -> Entity {
        as_read(row)
    }

    /// The entity, its entries in the partition before and after, and a journal row if there are remote entries.
    fn operations(&self, change: &RowChange) -> usize {
        let (mut local, mut remote) = (BTreeSet::<Location>::new(), false);
        let old = self.set.removable(&change.old);
        let new = change.new.as_ref().map(|new| self.set.entries(new));
        // If the entries cannot be derived, the entity gets a group of its own, and the write of that group returns the error.
        let Ok(all) = [Some(old), new]
            .into_iter()
            .flatten()
            .collect::<Result<Vec<_>>>()
        else {
            return self.most_operations();
        };
        for entry in all.into_iter().flatten() {
            match entry
                .location
                .is_within(self.table(), change.old.key().partition())
            {
                true => drop(local.insert(entry.location)),
                false => remote = true,
            }
        }
        // The entity, its local entries, its change in a feed, and the journal row that remote entries need.
        let recorded = self::change(change).records_by(&*self.set);
        1 + local.len() + recorded.map_or(0, |records| records.len()) + usize::from(remote)
    }

    /// One operation less if the group writes the counter of a feed.
    fn most_operations(&self) -> usize {
        self.store().profile().group_operations - usize::from(self.set.has_feed())
    }

    fn write<'a>(
        &'a self,
        changes: &'a [RowChange],
    ) -> BoxFuture<'a, Result<(Vec<Written>, bool)>> {
        async move {
            let changes: Vec<Change> = changes.iter().map(change).collect();
            let committed = Box::pin(Self::write(self, &changes)).await?;
            Ok((committed.written, committed.entries == Entries::Pending))
        }
        .boxed()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Entity>>> {
        Self::read(self, key).boxed()
    }
}

/// The change of an indexed entity.
pub(crate) fn change(change: &RowChange) -> Change {
    match &change.new {
        Some(new) => Change::replace(change.old.clone(), new.clone()),
        None => Change::delete(change.old.clone()),
    }
}
