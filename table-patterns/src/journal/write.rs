//! Steps 1 to 4, and what follows a commit or its failure.

use std::collections::BTreeMap;

use table_core::model::{ETag, Entity, IfMatch, Key, PartitionKey};
use table_core::queue::Receipt;
use table_core::store::{Error, ErrorKind, GroupTransaction, Operation, Outcome, Result, Written};

use super::Journal;
use super::apply::{Entries, Reserved};
use super::lease::Lease;
use super::row::{JournalRow, WriteId};
use super::state::States;
use super::ticket::Ticket;
use super::touched::Touched;
use super::unique::Reservation;
use crate::index::{Entry, EntryDiff, Location};

/// A change of one entity, with what it was: the old state decides which entries go.
#[derive(Clone, Debug)]
pub struct Change {
    pub(super) old: Option<Entity>,
    pub(super) new: Option<Entity>,
    /// Whether entries are written although they do not change.
    pub(super) all_entries: bool,
}

impl Change {
    /// A new entity.
    pub const fn insert(new: Entity) -> Self {
        Self { old: None, new: Some(new), all_entries: false }
    }

    /// An entity instead of the one that was read, under its ETag.
    pub const fn replace(old: Entity, new: Entity) -> Self {
        Self { old: Some(old), new: Some(new), all_entries: false }
    }

    /// The removal of the entity that was read, under its ETag.
    pub const fn delete(old: Entity) -> Self {
        Self { old: Some(old), new: None, all_entries: false }
    }

    /// The entity as it was read, under its ETag, with all of its entries: what repairs one that is
    /// missing.
    pub fn rewrite(entity: Entity) -> Self {
        Self { old: Some(entity.clone()), new: Some(entity), all_entries: true }
    }

    fn operation(&self) -> Result<Operation> {
        let condition = |old: &Entity| {
            let etag = old.etag().ok_or_else(|| {
                Error::invalid_request(format!("{} was not read: it has no ETag", old.key()))
            })?;
            Ok::<_, Error>(IfMatch::from(etag))
        };
        match (&self.old, &self.new) {
            (None, Some(new)) => Ok(Operation::Insert(new.clone())),
            (Some(old), Some(new)) if old.key() == new.key() => {
                Ok(Operation::Replace(new.clone(), condition(old)?))
            }
            (Some(old), None) => Ok(Operation::Delete(old.key().clone(), condition(old)?)),
            (Some(old), Some(new)) => Err(Error::invalid_request(format!(
                "{} cannot become {}: a key does not change",
                old.key(),
                new.key()
            ))),
            (None, None) => Err(Error::invalid_request("a change of nothing to nothing")),
        }
    }
}

/// When a write answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acknowledge {
    /// When remote entries are in step as well.
    #[default]
    Applied,
    /// When it is committed: a worker or sweep applies the remote entries.
    Committed,
}

/// A committed write.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The entities' new versions, in the order of the changes; without an ETag where the answer
    /// was lost and the commit was proved by the journal row.
    pub written: Vec<Written>,
    /// Whether remote entries are in step.
    pub entries: Entries,
}

impl Committed {
    /// Nothing was to be written.
    pub(crate) const fn nothing() -> Self {
        Self { written: Vec::new(), entries: Entries::Applied }
    }
}

/// A write before it is sent.
struct Plan {
    id: WriteId,
    partition: PartitionKey,
    owners: Vec<Key>,
    /// The group, with the entities' operations first.
    operations: Vec<Operation>,
    /// Entries of the partition, in the order of their operations.
    local: Vec<Entry>,
    touched: Vec<Touched>,
    unique: Vec<Entry>,
}

/// What a group transaction came to.
enum Sent {
    Committed(Vec<Written>),
    /// The journal row's key is taken by an abort row: start over under a new id.
    GivenUp,
    Failed(Error),
}

impl Journal {
    /// Writes changes of entities of one partition, atomically, and their entries.
    ///
    /// # Errors
    /// A precondition failed, a unique value is taken, a limit; nothing was applied then. An ambiguous
    /// error where even the journal row could not be read.
    pub async fn write(&self, changes: &[Change], acknowledge: Acknowledge) -> Result<Committed> {
        loop {
            let plan = self.plan(changes)?;
            if let Some(committed) = self.attempt(plan, changes, acknowledge).await? {
                return Ok(committed);
            }
        }
    }

    async fn attempt(
        &self,
        plan: Plan,
        changes: &[Change],
        acknowledge: Acknowledge,
    ) -> Result<Option<Committed>> {
        let lease = Lease::start(self.timing);
        let ticket = self.put_ticket(&plan).await?;
        let reserved = match self.reserve_all(&plan).await {
            Ok(reserved) => reserved,
            Err(error) => return Err(self.give_up(&plan, ticket.as_ref(), error).await),
        };
        match self.send(&plan).await {
            Sent::Failed(error) => Err(self.give_up(&plan, ticket.as_ref(), error).await),
            Sent::GivenUp => {
                self.release(&plan, ticket.as_ref()).await;
                Ok(None)
            }
            Sent::Committed(written) => {
                let entries = self.follow(&plan, changes, &written, &reserved, lease, acknowledge).await;
                if entries == Entries::Applied {
                    self.drop_ticket(ticket.as_ref()).await;
                }
                Ok(Some(Committed { written: written.into_iter().take(changes.len()).collect(), entries }))
            }
        }
    }

    fn plan(&self, changes: &[Change]) -> Result<Plan> {
        let id = WriteId::fresh();
        let mut operations = changes.iter().map(Change::operation).collect::<Result<Vec<_>>>()?;
        let first = operations.first().ok_or_else(|| Error::invalid_request("a write of nothing"))?;
        let partition = first.key().partition_key();
        let owners = operations.iter().map(|o| o.key().clone()).collect();
        let diff = EntryDiff::new(self.old_entries(changes)?, self.new_entries(changes)?);
        let (local, remote) = diff.split(&self.table, partition.as_str());
        let (local, local_operations) = local_operations(local);
        operations.extend(local_operations);
        let touched = touched(&remote);
        let held = |entry: &Entry, old: &Option<Entry>| old.as_ref().is_some_and(|o| o.owner == entry.owner);
        let gained = remote.put.into_iter().filter(|(entry, old)| entry.unique && !held(entry, old));
        let unique = gained.map(|(entry, _)| entry).collect();
        Ok(Plan { id, partition, owners, operations, local, touched, unique })
    }

    fn old_entries(&self, changes: &[Change]) -> Result<Vec<Entry>> {
        let old = changes.iter().filter(|c| !c.all_entries).filter_map(|c| c.old.as_ref());
        let entries = old.map(|e| self.maintainer.removable(e));
        Ok(entries.collect::<Result<Vec<_>>>()?.concat())
    }

    /// The entries of the new states; two entities of one group cannot share a unique one.
    fn new_entries(&self, changes: &[Change]) -> Result<Vec<Entry>> {
        let entries = changes.iter().filter_map(|c| c.new.as_ref()).map(|e| self.entries(e));
        let entries = entries.collect::<Result<Vec<_>>>()?.concat();
        let mut owners: BTreeMap<&Location, &Entry> = BTreeMap::new();
        for entry in &entries {
            if let Some(other) = owners.insert(&entry.location, entry)
                && (entry.unique || other.owner == entry.owner)
            {
                return Err(violation(entry, &other.owner));
            }
        }
        Ok(entries)
    }

    async fn put_ticket(&self, plan: &Plan) -> Result<Option<Receipt>> {
        let Some(queue) = self.queue.as_ref().filter(|_| !plan.touched.is_empty()) else { return Ok(None) };
        let ticket = Ticket {
            write: plan.id.uuid(),
            store: self.store_name.clone(),
            table: self.table.to_string(),
            partition: plan.partition.to_string(),
            rows: plan.owners.iter().map(|k| k.row().to_owned()).collect(),
            reserved: plan.unique.iter().map(Touched::of).collect(),
        };
        // The queue's errors are those of nothing applied: no reservation stands yet.
        let sent = queue.send(&ticket.to_text()?, self.timing.lease()).await;
        sent.map(Some).map_err(|e| e.with_outcome(Outcome::NotApplied))
    }

    async fn reserve_all(&self, plan: &Plan) -> Result<Reserved> {
        let mut reserved = Reserved::new();
        for entry in &plan.unique {
            match self.reserve(entry, plan.id).await? {
                Reservation::Taken(owner) => return Err(violation(entry, &owner)),
                Reservation::Mine(Some(etag)) => drop(reserved.insert(entry.location.clone(), etag)),
                Reservation::Mine(None) => {}
            }
        }
        Ok(reserved)
    }

    /// Step 4. An answer that was lost is found out: the journal row is there, or an abort row is put
    /// in its place.
    async fn send(&self, plan: &Plan) -> Sent {
        let mut operations = plan.operations.clone();
        loop {
            let group = match self.group(plan, &operations) {
                Ok(group) => group,
                Err(error) => return Sent::Failed(error),
            };
            let error = match self.store.transact(&self.table, group).await {
                Ok(written) => return Sent::Committed(written),
                Err(error) => error,
            };
            if error.is_ambiguous() && !plan.touched.is_empty() {
                return self.find_out(plan, error).await;
            }
            let Some(index) = error.failed_index().filter(|_| !error.is_ambiguous()) else {
                return Sent::Failed(error);
            };
            match operations.get(index) {
                None => return Sent::GivenUp,
                // An entry of the partition that is not there need not be removed.
                Some(Operation::Delete(..)) if index >= plan.owners.len() && error.is_entity_not_found() => {
                    operations.remove(index);
                }
                Some(operation) => return Sent::Failed(self.meaning(plan, operation, error)),
            }
        }
    }

    fn group(&self, plan: &Plan, operations: &[Operation]) -> Result<GroupTransaction> {
        let mut group = GroupTransaction::new(plan.partition.clone(), self.store.profile());
        for operation in operations {
            group.push(operation.clone())?;
        }
        if !plan.touched.is_empty() {
            group.push(Operation::Insert(self.journal_row(plan, None)?.to_entity()?))?;
        }
        Ok(group)
    }

    async fn find_out(&self, plan: &Plan, error: Error) -> Sent {
        match self.abort(plan.id, plan.partition.as_str()).await {
            Ok(evidence) if evidence.is_journal() => {
                Sent::Committed(vec![Written::default(); plan.operations.len()])
            }
            Ok(_) => Sent::Failed(error.with_outcome(Outcome::NotApplied)),
            Err(_) => Sent::Failed(error),
        }
    }

    /// The error of an operation in the caller's words.
    fn meaning(&self, plan: &Plan, operation: &Operation, error: Error) -> Error {
        let entry = plan.local.iter().find(|e| e.location.key == *operation.key());
        match entry {
            Some(entry) if error.is_already_exists() => violation_unknown(entry),
            _ => match error.into_kind() {
                ErrorKind::TransactionFailed { error, .. } => *error,
                kind => Error::new(kind),
            },
        }
    }

    /// Releases what a failed write holds and hands its error on. An ambiguous one leaves the ticket:
    /// a worker will find out.
    async fn give_up(&self, plan: &Plan, ticket: Option<&Receipt>, error: Error) -> Error {
        if !error.is_ambiguous() {
            self.release(plan, ticket).await;
        }
        error
    }

    async fn release(&self, plan: &Plan, ticket: Option<&Receipt>) {
        let mut states = States::new(plan.owners.clone());
        for entry in &plan.unique {
            if self.settle(&entry.location, plan.id, &mut states).await.is_err() {
                return;
            }
        }
        self.drop_ticket(ticket).await;
    }

    /// Steps 5 to 7 by the writer itself. Whatever fails now, the write is committed.
    async fn follow(
        &self,
        plan: &Plan,
        changes: &[Change],
        written: &[Written],
        reserved: &Reserved,
        lease: Lease,
        acknowledge: Acknowledge,
    ) -> Entries {
        if plan.touched.is_empty() {
            return Entries::Applied;
        }
        let Some(row) = self.appliable(plan, written).filter(|_| acknowledge == Acknowledge::Applied) else {
            return Entries::Pending;
        };
        let states = new_states(plan, changes, written);
        self.apply(&row, states, reserved, lease).await.unwrap_or(Entries::Pending)
    }

    /// The journal row in the version the group gave it; unknown where the answer was lost.
    fn appliable(&self, plan: &Plan, written: &[Written]) -> Option<JournalRow> {
        self.journal_row(plan, Some(written.last()?.etag.clone()?)).ok()
    }

    fn journal_row(&self, plan: &Plan, etag: Option<ETag>) -> Result<JournalRow> {
        Ok(JournalRow {
            id: plan.id,
            key: plan.id.key(plan.partition.as_str())?,
            etag,
            rows: plan.owners.iter().map(|k| k.row().to_owned()).collect(),
            touched: plan.touched.clone(),
            claim: None,
        })
    }

    /// A ticket that stays is found out to be done by a worker.
    async fn drop_ticket(&self, ticket: Option<&Receipt>) {
        if let (Some(queue), Some(ticket)) = (&self.queue, ticket)
            && let Err(error) = queue.delete(ticket).await
        {
            tracing::debug!(%error, "a ticket stays for a worker");
        }
    }
}

/// The entities as the write made them, with their new versions.
fn new_states(plan: &Plan, changes: &[Change], written: &[Written]) -> States {
    let mut states = States::new(plan.owners.clone());
    for ((key, change), written) in plan.owners.iter().zip(changes).zip(written) {
        let entity = change.new.clone().map(|e| e.with_system(written.etag.clone(), None));
        states.set(key.clone(), entity);
    }
    states
}

/// The operations on entries of the entity's own partition, with the entries they are about.
fn local_operations(diff: EntryDiff) -> (Vec<Entry>, Vec<Operation>) {
    let put = diff.put.into_iter().map(|(entry, old)| {
        let operation = match old {
            None if entry.unique => Operation::Insert(entry.to_entity()),
            _ => Operation::InsertOrReplace(entry.to_entity()),
        };
        (entry, operation)
    });
    let removed = diff.removed.into_iter().map(|entry| {
        let delete = Operation::Delete(entry.location.key.clone(), IfMatch::Any);
        (entry, delete)
    });
    put.chain(removed).unzip()
}

fn touched(remote: &EntryDiff) -> Vec<Touched> {
    remote.put.iter().map(|(entry, _)| entry).chain(&remote.removed).map(Touched::of).collect()
}

fn violation(entry: &Entry, owner: &Key) -> Error {
    let (index, key) = (entry.index.clone(), entry.location.key.to_string());
    Error::new(ErrorKind::UniqueViolation { index, entry: key, owner: owner.to_string() })
}

fn violation_unknown(entry: &Entry) -> Error {
    let (index, key) = (entry.index.clone(), entry.location.key.to_string());
    Error::new(ErrorKind::UniqueViolation { index, entry: key, owner: "another one".to_owned() })
}
