//! The journal: atomic writes of entities whose index entries lie in other partitions or tables.
//!
//! # Problem
//! An entity group transaction covers one partition. An entity's entries in other partitions must follow the entity, whatever
//! crashes between two requests, and a unique value must have one owner.
//!
//! # Key layout
//!
//! | row | location | RowKey |
//! |---|---|---|
//! | journal row, or abort row in its place | the entity's partition | `~~j_` + write id |
//! | entry | where the index says | as the index says; the row also has the owner's key; a unique entry also has `OwnerWrite`, `OwnerPending`, and during a move `HeirPartition`, `HeirRow` |
//! | ticket | the queue | none |
//!
//! # Protocol
//! `docs/protocol.md` in the repository explains every rule; `docs/model/` has executable models.
//!
//! 1. Read the entity, or use the caller's old state with its ETag.
//! 2. Send a *ticket*, invisible for a lease: a queue message that points workers to the write.
//! 3. Reserve the unique keys that the new state adds, within the lease of the ticket. If another write has reserved a key, give
//!    that write up first. If the owner of an entry no longer has its value, remove the entry.
//! 4. Commit: one group transaction under the entity's ETag, with the entity, its local entries and the journal row. The group is
//!    dropped at the end of the lease.
//! 5. Apply: make the affected keys agree with the entity *as it is now*, all of them with one version of it.
//! 6. Read the entity again. If it has changed, repeat step 5.
//! 7. Delete the journal row, then the ticket.
//!
//! # Moves
//! If an entity with remote entries goes to another partition of its table, one write *moves* it. The journal row is in the target's
//! partition. Steps 3 to 5 have more parts then:
//!
//! - Step 3: the source is *marked*. The mark is two properties that name the move; it changes the ETag. Then the row of each unique value
//!   that the entity keeps becomes a *pair*: it names the source as the owner, the target as the heir, and the move.
//! - Step 4: the group writes the entity at the target. Its journal row names the source and the keys of both.
//! - Step 5: first one group deletes the source with its local entries. Then the pairs are settled for the heir.
//!
//! A writer of a marked entity inserts the move's abort row first, so that no move commits the state of an entity before a write. If the
//! move is committed, the writer deletes the source, as the move would, and reports a conflict. Readers get the entity without the mark's
//! properties and with the mark in the ETag: writes of the journal understand that ETag, and any other write with it fails. A write that
//! wants the value of a pair gives the move up too, and then asks the owner whether it still has the value; if the move is committed, it
//! asks the heir. Only the applier of the committed move gives a value to its heir.
//!
//! Within one group a unique value may pass from one entity to another: its row is a pair of both, and no mark is needed.
//!
//! # Guarantees
//! The write is committed at step 4, atomically. The entries follow: at once if the answer says [`Entries::Applied`], otherwise when a
//! worker or a sweep recovers the write. At no time does a value of a unique index have two owners. A write that answers *not applied*
//! never commits.
//!
//! # Failure windows
//! - Between steps 4 and 7 an entry may be missing or stale. A lookup that reads entities (references,
//!   [`Trust::Entity`](crate::index::Trust), `Lookup::verified`) leaves a stale entry out. A lookup that reads entries alone (`payload = full` or
//!   `fields(…)`, the default) returns it.
//! - Step 5 finds a row that is not an entry of this index at the key of an entry, or the entry of another entity that still has the key: the
//!   error says *applied* and names the row. The other entries are written, and the journal row is deleted, because the row in the way may
//!   stay for ever. A sweep that finds the row has the entry in its report. A scrub reports the key as taken, and adds the entry when the row is
//!   gone. A store that is [served](table_core::store::LocalWriters::serve) is asked before step 2, and nothing is written.
//! - Step 5 finds that another entity has a unique value: the error says *applied*, and the journal row stays. In a complete index only a
//!   foreign write to the index's rows can cause it.
//! - A process that is paused *inside* a request for longer than the longest life of a request can leave a stale entry until the next
//!   scrub.
//!
//! # Assumptions
//! - Clocks measure durations and are never compared between machines. Uniqueness and commits depend on ETags and abort rows. Durations
//!   matter to two rules only: a journal row has one applier at a time, and no process writes by expired index states.
//! - [`Timing`] has the durations. After the client's part of its life, an applier's request is dropped, including retries and pauses of
//!   adapters. After the server's part, the service must have finished the request: 30 seconds for Azure Table Storage, zero for a store in
//!   the process, which executes a dropped request before any later one, or never.
//! - A lower layer that sends a request again after it was dropped is not covered. Nor is a machine that is suspended during a write: its
//!   clock may stop (on Linux it does), and the process resumes with a lease and with index states that have expired. Uniqueness holds
//!   even then if abort rows are kept longer than the pause; entries may be stale or missing until the next scrub.
//!
//! # Equal in every process
//! The index definitions, which the [manifest](crate::index) holds, the name of the store in tickets
//! ([`with_store_name`](Journal::with_store_name)), and the maintainer's entries for the same entity. The durations may differ.
//!
//! # Structure
//! [`Journal`] is the facade. Each of these types has its own file, and has the parts that it uses as fields:
//!
//! | type | work |
//! |---|---|
//! | `Planner` | computes everything that a write will send, before its first request |
//! | `Writer` | steps 2 to 7 of a write, by its own process |
//! | `UniqueKeys` | reservations, and their end (rule U) |
//! | `Committer` | step 4: the group, again after conflicts, and the search for a lost commit |
//! | `Applier`, with `RemoteRows` | steps 5 to 7, by the writer, a worker or a sweep |
//! | `Mover`, `Moves` | moves, and their end when another process meets them |
//! | `UnfinishedWrites`, `Sweep`, [`Recovery`] | the end of writes that their writers have left |
//! | `JournalRows`, `Tickets` | the evidence of a write, in its partition and in the queue |
//! | `EntityTable` | the store, the table, and the entries of its entities |
//!
//! # Cost in requests
//! Without contention, if the old state is known:
//!
//! | part of a write | requests |
//! |---|---|
//! | a write with remote entries: ticket, group, read, journal row, ticket | 5 + 1 per remote partition |
//! | the same without a queue | 3 + 1 per remote partition |
//! | the same, [left to workers](Acknowledge::Committed) | 3 and the renewal of the ticket |
//! | a remote entry that is changed or removed: its row is read first, because another entity or index may have it | + 1 |
//! | a remote entry whose new key has the entry of another entity: the row, that entity, the row again if that entity has given it up | + 3 |
//! | each row of a remote entry that a write adds or changes, in a store that is [served](table_core::store::LocalWriters::serve): its row is read before the commit | + 1 |
//! | a unique key that is added: reserve, settle | + 2 |
//! | a unique key that is removed: read before the commit, delete | + 2 |
//! | a unique key that stays while its payload changes (with a full payload on every change): read before the commit, write | + 2 |
//! | a unique key that passes to another entity of the write: read, pair, settle | + 3 |
//! | every further entity of the group | + 1 read |
//! | a move: two reads, mark, group, deletion of the source, two reads, journal row | 8 + 1 per remote partition + 3 per unique key that is kept; 2 more with a queue |
//! | a write of an entity that was read during a move | + 1 |
//! | while an index is [built or dropped](crate::index::Maintainer::is_complete) | + 1 per local entry of that index that the write adds again, changes or removes |
//!
//! Round trips until the answer, with any number of entries: 3, and 1 more each with unique values, with a ticket, and to read the
//! old value first; 1 more for lists, summaries and copies, and for remote entries that are changed or removed, which are read before they are written. At most
//! [`with_concurrency`](Journal::with_concurrency) requests are under way at the same time. The journal row and the ticket are deleted
//! after the answer, unless [`with_clearing`](Journal::with_clearing) says [`Clearing::BeforeAnswer`]: 1 round trip more, 2 more with a
//! ticket. If a value is taken, the write has reserved and releases the others that it wanted too.

mod apply;
mod change;
mod commit;
mod entity_table;
mod in_process;
mod lease;
mod moving;
mod plan;
mod recover;
mod remote_rows;
mod row;
mod sweep;
mod ticket;
mod unique;
mod worker;
mod write;

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "blobs")]
use object_store::ObjectStore;
use table_core::model::{Entity, TableName};
use table_core::queue::WorkQueue;
use table_core::store::{Result, TableStore, TableStoreExt as _};

use self::apply::Applier;
pub use self::apply::Entries;
pub use self::change::Change;
use self::commit::Committer;
use self::entity_table::EntityTable;
use self::in_process::{BackgroundTasks, PartitionLocks};
pub use self::lease::Timing;
pub(crate) use self::lease::{LONGEST_LEASE, Lease, before};
pub(crate) use self::moving::{MoveAttempt, Moved};
use self::moving::{Mover, Moves};
use self::plan::Planner;
pub(crate) use self::plan::violation;
pub use self::recover::RecoveryProgress;
use self::recover::UnfinishedWrites;
use self::remote_rows::RemoteRows;
use self::row::JournalRows;
pub(crate) use self::row::{damage, is_journal_row};
use self::sweep::Sweep;
pub use self::sweep::SweepReport;
use self::ticket::Tickets;
use self::unique::UniqueKeys;
pub(crate) use self::worker::{MAX_TICKET_FAILURES, SET_ASIDE};
pub use self::worker::{PoisonedTicket, Recovery};
use self::write::Writer;
pub use self::write::{Acknowledge, Clearing, Committed};
pub use crate::entity_rows::WriteId;
pub(crate) use crate::entity_rows::{as_read, is_marked};
use crate::entry::Maintainer;
pub(crate) use crate::entry::row_properties::{has_mark, holders, is_pending};
use crate::entry::shared::feed::Counters;
use crate::entry::shared::{Blobs, SharedRows};

/// Requests of one write that are under way at the same time, unless set.
const CONCURRENCY: usize = 16;

/// Writes the entities of one table with their index entries. See the [module](self).
#[derive(Clone, Debug)]
pub struct Journal {
    entities: EntityTable,
    tickets: Tickets,
    blobs: Option<Blobs>,
    timing: Timing,
    clearing: Clearing,
    background: BackgroundTasks,
    partition_locks: PartitionLocks,
    /// Of all journals of the table in this process.
    counters: Arc<Counters>,
}

impl Journal {
    /// A journal for a table. `maintainer` derives the entries. Without a queue, [`sweep`](Self::sweep) recovers the writes that a
    /// crash leaves unfinished.
    pub fn new(store: impl TableStore, table: TableName, maintainer: Arc<dyn Maintainer>) -> Self {
        let store = store.into_shared();
        // Handles of several types write the same partitions. Without a common memory, each would find the counter changed by the others.
        let counters = store.context().shared(table.as_str(), Counters::default);
        Self {
            entities: EntityTable {
                store,
                name: table,
                maintainer,
                concurrency: CONCURRENCY,
            },
            tickets: Tickets {
                queue: None,
                store_name: "default".to_owned(),
            },
            blobs: None,
            timing: Timing::default(),
            clearing: Clearing::default(),
            background: BackgroundTasks::default(),
            counters,
            partition_locks: PartitionLocks::default(),
        }
    }

    /// Sends a ticket for every write with remote entries, so that workers recover unfinished writes.
    ///
    /// A ticket that would exceed a message (a group with many long keys) does not name the unique keys that it reserves. If the
    /// write dies before its commit, these reservations wait for a sweep, or for the next write that wants one of the keys.
    #[must_use]
    pub fn with_queue(mut self, queue: Arc<dyn WorkQueue>) -> Self {
        self.tickets.queue = Some(queue);
        self
    }

    /// Sets the blob store for lists in blobs, below `{folder}/{index}/`. Blobs there that no list names are
    /// [collected](crate::index::IndexedEntities::collect_blobs): no other table and no other store may use the folder.
    #[cfg(feature = "blobs")]
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

    /// Sets how many requests of one write are under way at the same time, at least 1; 16 unless set. The write reserves its unique
    /// values together, and writes its entries in other partitions together. With 1, one request follows the other.
    #[must_use]
    pub const fn with_concurrency(mut self, requests: usize) -> Self {
        self.entities.concurrency = if requests == 0 { 1 } else { requests };
        self
    }

    /// Sets whether a write clears its journal row and its ticket before its answer or after it.
    #[must_use]
    pub const fn with_clearing(mut self, clearing: Clearing) -> Self {
        self.clearing = clearing;
        self
    }

    /// Waits until everything is done that follows the answers of the writes of this handle and its clones
    /// ([`Clearing::AfterAnswer`]). Sends no request of its own, and reports no error: what a background task could not clear, a
    /// worker or a sweep clears.
    pub async fn flush(&self) {
        self.background.wait().await;
    }

    /// Sets the name of the store in tickets, for queues that serve several stores.
    #[must_use]
    pub fn with_store_name(mut self, name: impl Into<String>) -> Self {
        self.tickets.store_name = name.into();
        self
    }

    /// The store.
    pub fn store(&self) -> &dyn TableStore {
        &*self.entities.store
    }

    /// The table of the entities.
    pub const fn table(&self) -> &TableName {
        &self.entities.name
    }

    /// The name of the store in tickets.
    pub fn store_name(&self) -> &str {
        &self.tickets.store_name
    }

    /// Writes changes of entities of one partition, with their entries, atomically.
    ///
    /// A remote unique value may pass from one entity of the write to another: 3 requests for each. If an entity was
    /// read during a move, the move is given up first: 1 more request.
    ///
    /// # Errors
    /// A precondition failed, a unique value is taken, a limit is exceeded, or the steps before the commit took too
    /// long 10 times: nothing is applied then. An ambiguous error if it is unknown whether the write was committed.
    pub async fn write(&self, changes: &[Change], acknowledge: Acknowledge) -> Result<Committed> {
        self.writer().write(changes, acknowledge).await
    }

    /// Finishes or gives up the write of a ticket. `dequeues` is the number of receives of its message. For a
    /// committed write this waits for the lease of its last applier, unless the writer has [handed it
    /// over](Acknowledge::Committed).
    ///
    /// # Errors
    /// The text is not a ticket of this journal, the table was opened to read (nothing is written then), or the store's error.
    pub async fn recover(&self, ticket: &str, dequeues: u32) -> Result<RecoveryProgress> {
        self.unfinished().recover(ticket, dequeues, None).await
    }

    /// Finishes unfinished writes, gives up uncommitted moves, releases the reservations of uncommitted writes in
    /// `unique_tables`, and removes abort rows older than `keep_aborts`. The age is measured by this machine's clock
    /// against the store's. In addition, this process watches every abort row for the longest lease of any process
    /// before it removes the row: an abort row must outlive the writer that it has stopped.
    ///
    /// The sweep may give up a move that is under way; that move starts over.
    ///
    /// Cost: a scan of the journal's table and of each unique table (1 request per 1,000 entities), a wait for the
    /// longest lease found, another wait if there are abort rows to remove, and 4 requests + 1 per remote partition
    /// for each write found. In a store that only this process writes, the waits end with the writes under way.
    ///
    /// # Errors
    /// The store's errors of the scans. Errors of single writes, reservations, moves and abort rows are in the report; the sweep
    /// continues.
    pub async fn sweep(
        &self,
        unique_tables: &[TableName],
        keep_aborts: Duration,
    ) -> Result<SweepReport> {
        let unfinished = self.unfinished();
        let UnfinishedWrites {
            entities,
            rows,
            unique,
            moves,
            timing,
            ..
        } = unfinished;
        Sweep {
            entities,
            rows,
            unique,
            moves,
            unfinished,
            timing,
        }
        .run(unique_tables, keep_aborts)
        .await
    }

    /// Ends the move of an entity that was read, if it has a mark. See [`UnfinishedWrites::end_move`].
    pub(crate) async fn end_move(&self, entity: Entity) -> Result<Option<Entity>> {
        self.unfinished().end_move(entity).await
    }

    /// The rows that hold the entries of several entities.
    pub(crate) fn shared(&self) -> SharedRows<'_> {
        SharedRows {
            store: &*self.entities.store,
            blobs: self.blobs.as_ref(),
            counters: &self.counters,
        }
    }

    const fn journal_rows(&self) -> JournalRows<'_> {
        JournalRows {
            entities: &self.entities,
        }
    }

    const fn unique_keys(&self) -> UniqueKeys<'_> {
        UniqueKeys {
            entities: &self.entities,
            rows: self.journal_rows(),
        }
    }

    const fn planner(&self) -> Planner<'_> {
        Planner {
            entities: &self.entities,
        }
    }

    fn committer(&self) -> Committer<'_> {
        let (entities, rows) = (&self.entities, self.journal_rows());
        Committer {
            entities,
            rows,
            shared: self.shared(),
            timing: self.timing,
        }
    }

    /// The rows of remote entries, for builds and drops.
    pub(crate) fn remote_rows(&self) -> RemoteRows<'_> {
        RemoteRows {
            entities: &self.entities,
            shared: self.shared(),
        }
    }

    fn moves(&self) -> Moves<'_> {
        let (entities, rows) = (&self.entities, self.journal_rows());
        Moves {
            entities,
            rows,
            planner: self.planner(),
            committer: self.committer(),
            timing: self.timing,
        }
    }

    fn applier(&self) -> Applier<'_> {
        let (entities, rows, unique) = (&self.entities, self.journal_rows(), self.unique_keys());
        Applier {
            entities,
            rows,
            unique,
            remote: self.remote_rows(),
            moves: self.moves(),
            timing: self.timing,
        }
    }

    fn unfinished(&self) -> UnfinishedWrites<'_> {
        UnfinishedWrites {
            entities: &self.entities,
            rows: self.journal_rows(),
            unique: self.unique_keys(),
            moves: self.moves(),
            applier: self.applier(),
            tickets: &self.tickets,
            timing: self.timing,
        }
    }

    fn writer(&self) -> Writer<'_> {
        Writer {
            journal: self,
            entities: &self.entities,
            rows: self.journal_rows(),
            planner: self.planner(),
            unique: self.unique_keys(),
            committer: self.committer(),
            moves: self.moves(),
            applier: self.applier(),
            tickets: &self.tickets,
            timing: self.timing,
        }
    }

    /// The moves of entities to another partition.
    pub(crate) fn mover(&self) -> Mover<'_> {
        let (entities, planner, moves) = (&self.entities, self.planner(), self.moves());
        Mover {
            entities,
            planner,
            moves,
            writer: self.writer(),
        }
    }
}

#[cfg(test)]
mod tests;
