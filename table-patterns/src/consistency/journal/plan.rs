//! What a write will send, worked out before anything is sent.

use std::collections::BTreeMap;

use table_core::engine::check_operation;
use table_core::manifest::index_name;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::store::{Error, ErrorKind, Operation, Result};
use tokio::time::Instant;

use super::change::Change;
use super::row::WriteId;
use super::rules::Rule;
use super::touched::Touched;
use super::{Journal, unique};
use crate::index::shared::{Merge, apply_copy, without_copies};
use crate::index::{Entry, EntryDiff, IndexState, Location, Permission, Shape};
use crate::rows::encrypted::marked;

/// A write before it is sent.
pub(super) struct Plan {
    pub(super) id: WriteId,
    pub(super) partition: PartitionKey,
    pub(super) owners: Vec<Key>,
    /// The group, with the entities' operations first.
    pub(super) operations: Vec<Operation>,
    /// Entries of the partition, in the order of their operations.
    pub(super) local: Vec<Entry>,
    /// Changes of rows of the partition that hold the entries of several entities.
    pub(super) shared: Vec<Merge>,
    pub(super) touched: Vec<Touched>,
    /// The entity that the write moves here from another partition, as it was read, without a mark.
    pub(super) source: Option<Entity>,
    /// Unique entries elsewhere that go from one entity of the write to another: what the first one has, and who has it then.
    pub(super) passed: Vec<(Entry, Key)>,
    /// Unique keys elsewhere that the new states have and the old ones had not.
    pub(super) gained: Vec<Entry>,
    /// Unique keys elsewhere that the new states no longer have.
    pub(super) lost: Vec<Location>,
    /// Which operations are on entries of the partition whose rows may be another entity's, in ascending order.
    pub(super) unsure: Vec<usize>,
    /// For how long the states of indexes that it was made from may be used.
    pub(super) permission: Permission,
    pub(super) made: Instant,
}

impl Plan {
    pub(super) fn is_valid(&self) -> bool {
        self.permission.valid_until.is_none_or(|until| Instant::now() <= until)
    }

    /// Whether something is left to do after the group: a journal row tells what.
    pub(super) fn has_journal(&self) -> bool {
        !self.touched.is_empty() || self.source.is_some()
    }

    /// The entities that entries must agree with.
    pub(super) fn entities(&self) -> Vec<Key> {
        self.owners.iter().chain(self.source.iter().map(Entity::key)).cloned().collect()
    }
}

impl Journal {
    pub(super) fn plan(&self, changes: &[Change], permission: Permission) -> Result<Plan> {
        let id = WriteId::fresh();
        for new in changes.iter().filter_map(|change| change.new.as_ref()) {
            Entry::check_owner(new)?;
            self.maintainer.check(new)?;
        }
        let mut operations = changes.iter().map(Change::operation).collect::<Result<Vec<_>>>()?;
        let first = operations.first().ok_or_else(|| Error::invalid_request("a write of nothing"))?;
        let partition = first.key().partition_key();
        let owners = operations.iter().map(|o| o.key().clone()).collect();
        changes.iter().try_for_each(|change| self.check_ready(change))?;
        let diff = EntryDiff::new(self.old_entries(changes)?, self.new_entries(changes)?);
        let (mut local, mut remote) = diff.split(&self.table, partition.as_str());
        let mut shared = Merge::all_of(local.take_shared());
        self.keep_copies(changes, &mut operations);
        copy_within(&mut operations, &mut shared)?;
        let remote_shared = Merge::all_of(remote.take_shared());
        self.check_remote(&remote, id)?;
        let (local, local_operations) = local_operations(local);
        let unsure = self.unsure(&local, &local_operations, operations.len());
        operations.extend(local_operations);
        let mut touched = touched(&remote);
        touched.extend(remote_shared.iter().flat_map(Merge::each).map(Touched::shared));
        let lost = remote.removed.iter().filter(|e| e.unique).map(|e| e.location.clone()).collect();
        let (gained, passed) = gained(remote);
        let made = Instant::now();
        let plan = Plan {
            id,
            partition,
            owners,
            operations,
            local,
            shared,
            touched,
            source: None,
            passed,
            gained,
            lost,
            unsure,
            permission,
            made,
        };
        self.check_passed(&plan)?;
        Ok(plan)
    }

    /// A write that moves `source` to where `change` writes; `None` where neither has entries in other partitions.
    pub(super) fn plan_move(
        &self,
        source: &Entity,
        change: &Change,
        permission: Permission,
    ) -> Result<Option<Plan>> {
        let while_planned = Permission { valid_until: permission.valid_until, permit: None };
        let mut plan = self.plan(std::slice::from_ref(change), permission)?;
        let gone = self.plan(&[Change::delete(source.clone())], while_planned)?;
        if plan.touched.is_empty() && gone.touched.is_empty() {
            return Ok(None);
        }
        let is_kept = |at: &Location| plan.gained.iter().any(|entry| entry.location == *at);
        let mut kept = self.entries(source)?;
        kept.retain(|entry| entry.unique && is_kept(&entry.location));
        let is_kept = |at: &Location| kept.iter().any(|entry| entry.location == *at);
        plan.gained.retain(|entry| !is_kept(&entry.location));
        plan.lost.extend(gone.lost.into_iter().filter(|at| !is_kept(at)));
        let heir = change.key()?;
        plan.passed.extend(kept.into_iter().map(|entry| (entry, heir.clone())));
        self.check_passed(&plan)?;
        for touched in gone.touched {
            match plan.touched.iter_mut().find(|known| known.is_at(&touched)) {
                Some(known) => known.added = false,
                None => plan.touched.push(touched),
            }
        }
        plan.source = Some(source.clone());
        Ok(Some(plan))
    }

    /// Refuses to give an entity a value of a unique index of which it cannot be told whether another entity has it.
    fn check_ready(&self, change: &Change) -> Result<()> {
        let unready = |entity: &Option<Entity>| match entity {
            Some(entity) => self.maintainer.unready(&marked(&*self.store, &self.table, entity)),
            None => Ok(Vec::new()),
        };
        let wanted = unready(&change.new)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let had = unready(&change.old)?;
        let gained = wanted.iter().find(|(e, _)| !had.iter().any(|(old, _)| old.location == e.location));
        gained.map_or(Ok(()), |(entry, state)| Err(not_ready(entry, *state, &self.table)))
    }

    /// The operations that would change or remove a row whoever has it, of indexes of which entities lack entries:
    /// such a row may be another entity's. What is inserted notices itself. They come behind so many others.
    fn unsure(&self, local: &[Entry], operations: &[Operation], behind: usize) -> Vec<usize> {
        let blind = |operation: &Operation| !matches!(operation, Operation::Insert(_));
        let unsure =
            |entry: &Entry| !self.maintainer.is_complete(&entry.index) && self.keeps(Rule::LookBeside);
        let all = local.iter().zip(operations).zip(behind..);
        all.filter(|((entry, operation), _)| blind(operation) && unsure(entry)).map(|(_, n)| n).collect()
    }

    /// What copy indexes have written into an entity stays, whatever its writer knows of it.
    fn keep_copies(&self, changes: &[Change], operations: &mut [Operation]) {
        let copied = self.maintainer.copied();
        for (change, operation) in changes.iter().zip(operations) {
            let Some(new) = operation.entity_mut().filter(|_| !copied.is_empty()) else { continue };
            without_copies(new.properties_mut(), &copied);
            for p in change.old.iter().flat_map(|old| old.properties().iter()) {
                if copied.iter().any(|name| name == p.name()) {
                    new.properties_mut().put(p.name(), p.value(), p.is_encrypted());
                }
            }
        }
    }

    fn old_entries(&self, changes: &[Change]) -> Result<Vec<Entry>> {
        let mut all = Vec::new();
        for change in changes {
            let Some(old) = &change.old else { continue };
            let entries = self.removable(old)?.into_iter();
            // Numbers that are there already must not be added again.
            all.extend(entries.filter(|e| !change.all_entries || matches!(e.shape, Shape::Summary { .. })));
        }
        Ok(all)
    }

    /// The entries of the new states; two entities of one group cannot share one.
    fn new_entries(&self, changes: &[Change]) -> Result<Vec<Entry>> {
        let entries = changes.iter().filter_map(|c| c.new.as_ref()).map(|e| self.entries(e));
        let entries = entries.collect::<Result<Vec<_>>>()?.concat();
        let mut owners: BTreeMap<&Location, &Entry> = BTreeMap::new();
        for entry in &entries {
            let Some(other) = owners.insert(&entry.location, entry) else { continue };
            if entry.index != other.index && !both_copy(entry, other) {
                return Err(same_place(entry, other));
            }
            if !entry.shape.is_shared() {
                return Err(violation(entry, &other.owner));
            }
        }
        Ok(entries)
    }

    /// Refuses rows of values that go from one entity to another, where no table would take them.
    fn check_passed(&self, plan: &Plan) -> Result<()> {
        plan.passed.iter().try_for_each(|(entry, heir)| {
            let row = unique::pair_row(entry, heir, plan.id);
            check_operation(self.store.profile(), &Operation::InsertOrReplace(row))
        })
    }

    /// Refuses entries that no table would take: after the commit it would be too late.
    fn check_remote(&self, remote: &EntryDiff, id: WriteId) -> Result<()> {
        remote.put.iter().try_for_each(|(entry, _)| {
            let row = if entry.unique { unique::row(entry, id, true) } else { entry.to_entity() };
            check_operation(self.store.profile(), &Operation::InsertOrReplace(row))
        })
    }
}

/// The operations on entries of the entity's own partition, with the entries they are about.
fn local_operations(diff: EntryDiff) -> (Vec<Entry>, Vec<Operation>) {
    let put = diff.put.into_iter().map(|(entry, old)| {
        let operation = match old {
            None => Operation::Insert(entry.to_entity()),
            Some(_) => Operation::InsertOrReplace(entry.to_entity()),
        };
        (entry, operation)
    });
    let removed = diff.removed.into_iter().map(|entry| {
        let delete = Operation::Delete(entry.location.key.clone(), IfMatch::Any);
        (entry, delete)
    });
    put.chain(removed).unzip()
}

/// Copies into entities of the same group: an entity can be written once in it.
fn copy_within(operations: &mut [Operation], shared: &mut Vec<Merge>) -> Result<()> {
    let mut elsewhere = Vec::with_capacity(shared.len());
    for merge in shared.drain(..) {
        match (&merge.shape, operations.iter_mut().find(|operation| *operation.key() == merge.at.key)) {
            (Shape::Copy { .. }, Some(operation)) => {
                if let Some(target) = operation.entity_mut() {
                    apply_copy(target, &merge)?;
                }
            }
            _ => elsewhere.push(merge),
        }
    }
    *shared = elsewhere;
    Ok(())
}

fn touched(remote: &EntryDiff) -> Vec<Touched> {
    let put = remote.put.iter().map(|(entry, old)| Touched::of(entry, old.is_none()));
    put.chain(remote.removed.iter().map(|entry| Touched::of(entry, false))).collect()
}

/// The unique entries to reserve, which no entity of the write had, and those that go from one of them to another.
fn gained(remote: EntryDiff) -> (Vec<Entry>, Vec<(Entry, Key)>) {
    let (mut gained, mut passed) = (Vec::new(), Vec::new());
    for (entry, old) in remote.put.into_iter().filter(|(entry, _)| entry.unique) {
        match old.filter(|old| old.unique) {
            Some(old) if old.owner == entry.owner => {}
            Some(old) => passed.push((old, entry.owner)),
            None => gained.push(entry),
        }
    }
    (gained, passed)
}

/// Copies of several indexes may go into one entity.
const fn both_copy(a: &Entry, b: &Entry) -> bool {
    matches!((&a.shape, &b.shape), (Shape::Copy { .. }, Shape::Copy { .. }))
}

/// The error of two indexes that give one key.
fn same_place(entry: &Entry, other: &Entry) -> Error {
    let (index, another, key) = (index_name(&entry.index), index_name(&other.index), &entry.location.key);
    Error::invalid_request(format!(
        "the indexes '{another}' and '{index}' both have an entry {key}: start their keys with other text"
    ))
}

/// The error of a value of a unique index that is not readable.
fn not_ready(entry: &Entry, state: IndexState, table: &TableName) -> Error {
    let Entry { index, location, owner, .. } = entry;
    let index = index_name(index);
    Error::invalid_request(format!(
        "the unique index '{index}' of the table '{table}' is {state}: until it is built and readable, {owner} cannot get \
         {} in it, which another entity may have; `build` it first (removals, and writes that keep a value, go on)",
        location.key
    ))
}

/// The error of an entry whose key another entity has.
pub(crate) fn violation(entry: &Entry, owner: &Key) -> Error {
    let (index, key) = (index_name(&entry.index).to_owned(), entry.location.key.to_string());
    let (owner, wanted_by) = (owner.to_string(), entry.owner.to_string());
    Error::new(if entry.unique {
        ErrorKind::UniqueViolation { index, entry: key, owner, wanted_by }
    } else {
        ErrorKind::KeyCollision { index, entry: key, owner }
    })
}
