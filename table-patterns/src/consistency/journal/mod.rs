//! Consistency across partitions: writes whose index entries lie in other partitions or tables.
//!
//! # Problem
//! A group transaction covers one partition. An entity's entries elsewhere must follow it, whatever
//! crashes between the requests, and a unique value must have one owner.
//!
//! # Key layout
//!
//! | row | where | RowKey |
//! |---|---|---|
//! | journal row, or abort row in its place | the entity's partition | `~~j_` + write id |
//! | entry | where the index says | as the index says, with the owner's key beside the payload |
//! | ticket | the queue | none |
//!
//! # Protocol
//! 1. The entity is read, or the caller knows it with its ETag.
//! 2. A *ticket* is queued, invisible for a lease.
//! 3. Unique keys of the new state are reserved. A reservation in the way is taken over, or adopted if
//!    it is the entity's own, only after the write that it was made for has been given up for good.
//!    An entry whose owner does not have the value any more is removed, whether or not what its owner has written since
//!    was applied. Nothing is reserved once the lease is over: no ticket would name it.
//! 4. One group transaction, under the entity's ETag: entity, entries of the partition, journal row. It is dropped
//!    when the lease ends: the ticket may be gone then.
//! 5. The touched keys are made to agree with the entity *as it is now*: all of them with one version of it. A reservation
//!    of another write is given up before it is settled or removed; one that committed is left to its journal row.
//! 6. The entity is read again; if it changed, step 5 is repeated.
//! 7. The journal row goes, then the ticket.
//!
//! # Moves
//! An entity that has entries in other partitions and goes to another partition of its table is *moved* by one write, whose journal row
//! is beside the moved entity. Steps 3 to 5 have more parts then:
//! - 3: The source is *marked*: the mark, two properties and a new ETag, names the move. Then the row of each unique value that the
//!   entity keeps becomes a *pair*: it names the source as its owner, the moved entity as the heir, and the move.
//! - 4: The group writes the moved entity, in the target's partition; its journal row names the source, and the keys that either has.
//! - 5: First the source is deleted, with its entries in its partition, in one group transaction. Then the pairs are settled for the heir.
//!
//! Who writes a marked entity inserts the move's abort row first, so that no move commits what an entity was before a write; if the move is
//! committed, the writer deletes the source, as the move would, and is told that the entity has changed. Readers get the entity without the mark's
//! properties, and with the mark in the ETag: writes of the journal understand it, and any other write is refused by it. Who wants a value of a pair
//! gives its move up, too, and then asks the owner whether it has the value; if the move is committed, the heir. Only the applier of the
//! committed move gives a value to its heir.
//!
//! Within one group transaction a unique value may go from one entity to another: its row is a pair of both, and no mark is needed.
//!
//! # Guarantees
//! The write is committed at step 4, atomically. Entries follow: at once where the answer says
//! [`Entries::Applied`], else as soon as a worker or sweep comes by. No value of a unique index has
//! two owners, at any moment. A write that answers *not applied* never commits.
//!
//! # Failure windows
//! Between steps 4 and 7 an entry may be missing or stale: reads that verify never show it. An entry whose
//! key another entity has is found out at step 5: the error says *applied*, names both, and the journal row stays. So it
//! is of a unique value, which nothing but a foreign write to the rows of the index can do to a complete index. A process
//! paused *inside* a request for longer than the longest life of a request can leave a stale
//! entry until the next scrub. Where keys collide, entries are looked at before they are changed or removed,
//! from the first collision on; a process that has not read the states of indexes since (for
//! [`cache`](crate::index::IndexOptions::cache) at most), and one that changes the refused entity before its
//! entry was tried, can still take the other entity's entry, until the next scrub.
//!
//! # Assumptions
//! Clocks measure durations only and are never compared between machines. Uniqueness and commits rest on
//! ETags and abort rows; durations matter to two rules alone: a journal row has one applier at a time, and
//! nobody writes by states of indexes that are too old. [`Timing`] has them: after its client part a request
//! of an applier is dropped, whatever adapters in front of the store do with it, retries and pauses
//! included; after its server part the service must have done with it. So the server part must be true of
//! the service: 30 seconds for Azure Table Storage, nothing for a store in the process, which does what was
//! dropped before anything that is asked for later, or not at all. What a lower layer sends of its own accord
//! after a request was dropped is not covered. Nor is a machine that is suspended while it writes, between requests as
//! well as inside one: its clock may stand still meanwhile (on Linux it does), and it comes back with a lease, and with
//! states of indexes, that it takes for valid. Uniqueness holds even then, as long as abort rows are kept for longer;
//! entries may be stale or missing until the next scrub.
//!
//! # What must be the same in every process
//! The definitions of the indexes, which the [manifest](crate::index) holds, the name of the store in tickets
//! ([`with_store_name`](Journal::with_store_name)), and the maintainer's answers for the same entity. The
//! durations need not be.
//!
//! # Cost in requests
//! Without contention, the old value known: 5 + 1 per remote partition touched (ticket, group
//! transaction, read, journal row, ticket), 2 less without a queue; 3 and the renewal of
//! the ticket where it is [left to workers](Acknowledge::Committed); + 2 per unique key gained (reserve,
//! settle), 2 per unique key lost (read before the commit, delete) and 3 per unique key that is kept and whose
//! payload changes, with a full payload on every change (read, read the entity, write), and 3 per unique key that goes from one entity of
//! the write to another (read, pair, settle); + 1 read per further entity of
//! the group. A move: 8 + 1 per remote partition touched + 3 per unique key kept (two reads, mark, group transaction, deletion of the source,
//! two reads, journal row), 2 more with a queue. A write of an entity that was read while it was being moved: + 1. Once keys have [collided](crate::index::Maintainer::may_collide), + 1 per entry removed and + 2 per
//! entry changed. While an index is [built or removed](crate::index::Maintainer::is_complete), + 1 per entry of it
//! in the entity's partition that the write adds again, changes or removes.

mod apply;
mod beside;
mod change;
mod lease;
mod mark;
mod merge;
mod moving;
mod plan;
mod recover;
mod row;
mod rows;
mod rules;
mod send;
mod state;
mod sweep;
mod ticket;
mod touched;
mod turns;
mod unique;
mod worker;
mod write;

use std::sync::Arc;

pub use apply::Entries;
pub use change::Change;
pub use lease::Timing;
pub(crate) use lease::{Lease, before};
#[cfg(test)]
pub(crate) use mark::journal_key;
pub(crate) use mark::{as_read, has_mark, is_mark_property, is_marked, without_mark};
pub(crate) use moving::{Moved, Tried};
pub(crate) use plan::violation;
pub use recover::Progress;
pub use row::WriteId;
pub(crate) use row::is_journal_row;
pub(crate) use rules::{Rule, Rules};
pub use sweep::SweepReport;
#[cfg(test)]
pub(crate) use unique::is_unique_row;
pub(crate) use unique::{holders, is_pending, is_unique_row_property};
pub use worker::{PoisonedTicket, Recovery};
pub use write::{Acknowledge, Committed};

use crate::index::shared::{Blobs, SharedRows};
use crate::index::{Entry, Maintainer, Permission};
use crate::rows::encrypted::marked;
use object_store::ObjectStore;
use table_core::model::{Entity, TableName};
use table_core::queue::WorkQueue;
use table_core::store::{Result, TableStore};

/// Writes entities of one table together with their index entries. See the [module](self).
#[derive(Clone, Debug)]
pub struct Journal {
    store: Arc<dyn TableStore>,
    store_name: String,
    table: TableName,
    maintainer: Arc<dyn Maintainer>,
    queue: Option<Arc<dyn WorkQueue>>,
    blobs: Option<Blobs>,
    timing: Timing,
    turns: turns::Turns,
    rules: rules::Rules,
}

impl Journal {
    /// A journal for a table whose entries `maintainer` derives, without a queue: what a crash leaves
    /// is found by [`sweep`](Self::sweep).
    pub fn new(store: Arc<dyn TableStore>, table: TableName, maintainer: Arc<dyn Maintainer>) -> Self {
        let store_name = "default".to_owned();
        let timing = Timing::default();
        Self {
            store,
            store_name,
            table,
            maintainer,
            queue: None,
            blobs: None,
            timing,
            turns: turns::Turns::default(),
            rules: rules::Rules::default(),
        }
    }

    /// Queues a ticket for every write with remote entries, so that workers find what a crash leaves. A
    /// ticket that would be longer than a message, of a group with many long keys, does not name the
    /// unique keys that it reserves: if the write dies before its commit they wait for the sweep, or for who
    /// wants one next.
    #[must_use]
    pub fn with_queue(mut self, queue: Arc<dyn WorkQueue>) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Keeps lists that an index puts into blobs there, below `{folder}/{index}/`. Blobs there that no list of the
    /// index names are [collected](crate::index::IndexedEntities::collect_blobs): no other table, and no other store,
    /// may use the folder.
    #[must_use]
    pub fn with_blobs(mut self, store: Arc<dyn ObjectStore>, folder: impl Into<String>) -> Self {
        self.blobs = Some(Blobs::new(store, folder.into()));
        self
    }

    /// Sets the durations of leases and requests.
    #[must_use]
    pub const fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Names the store in tickets, where one queue serves several.
    #[must_use]
    pub fn with_store_name(mut self, name: impl Into<String>) -> Self {
        self.store_name = name.into();
        self
    }

    /// The store.
    pub fn store(&self) -> &dyn TableStore {
        &*self.store
    }

    /// The table of the entities.
    pub const fn table(&self) -> &TableName {
        &self.table
    }

    /// The name of the store in tickets.
    pub fn store_name(&self) -> &str {
        &self.store_name
    }

    /// The rows that hold the entries of several entities.
    pub(crate) fn shared(&self) -> SharedRows<'_> {
        SharedRows { store: &*self.store, blobs: self.blobs.as_ref(), rules: self.rules }
    }

    /// For how long what the maintainer says may be acted upon.
    async fn prepare(&self) -> Result<Permission> {
        self.store.profile().check_reads("a journal")?;
        let permission = self.maintainer.prepare(self.store()).await?;
        let valid_until = permission.valid_until.filter(|_| self.keeps(Rule::FreshStates));
        Ok(Permission { valid_until, ..permission })
    }

    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.maintainer.entries(&marked(&*self.store, &self.table, &without_mark(entity)))
    }

    fn removable(&self, entity: &Entity) -> Result<Vec<Entry>> {
        self.maintainer.removable(&marked(&*self.store, &self.table, &without_mark(entity)))
    }
}

#[cfg(test)]
mod costs;
#[cfg(test)]
mod tests;
