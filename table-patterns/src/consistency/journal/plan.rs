//! The plan of a write: everything that it will send, computed before the first request.

use std::collections::BTreeMap;

use table_core::engine::check_operation;
use table_core::manifest::{IndexState, index_name};
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::store::{Error, ErrorKind, Operation, Result};
use tokio::time::Instant;

use super::change::Change;
use super::entity_table::EntityTable;
use super::row::AffectedKey;
use super::unique;
use crate::entity_rows::{self, Mark, WriteId};
use crate::entry::shared::{Holder, Merge, apply_copy, feed, held_by, without_copies};
use crate::entry::{Derived, Entry, EntryDiff, Location, Permission, Shape};
use crate::rows::encrypted::marked;

/// A write before it is sent.
pub(super) struct Plan {
    /// The id of this attempt: each attempt has its own journal row.
    pub(super) id: WriteId,
    pub(super) partition: PartitionKey,
    /// The entities of the changes, in their order.
    pub(super) owners: Vec<Key>,
    /// The operations of the group; the entities' operations come first.
    pub(super) operations: Vec<Operation>,
    /// The number of the entities' operations.
    pub(super) of_entities: usize,
    /// The local entries, in the order of their operations.
    pub(super) local: Vec<Entry>,
    /// Changes of local rows that hold the entries of several entities.
    pub(super) shared: Vec<Merge>,
    /// The remote keys of the old and the new states, which the journal row lists.
    pub(super) affected: Vec<AffectedKey>,
    /// The source of a move from another partition, as it was read, without a mark.
    pub(super) source: Option<Entity>,
    /// The remote entries of the new states that have rows of their own and are not unique. No process reserves their rows.
    pub(super) plain: Vec<Entry>,
    /// Changes of remote rows that hold the entries of several entities.
    pub(super) remote_shared: Vec<Merge>,
    /// Remote unique entries that pass from one entity of the write to another: the entry of the first entity, and
    /// the key of the second.
    pub(super) passed: Vec<(Entry, Key)>,
    /// Remote unique entries that the new states have and the old ones had not: to be reserved.
    pub(super) gained: Vec<Entry>,
    /// Remote unique keys that only the old states have, and those whose entries get another payload: their rows are
    /// read before the commit.
    pub(super) seen: Vec<Location>,
    /// The positions of operations on local entries whose rows may belong to another entity, in ascending order.
    pub(super) unknown_owner: Vec<usize>,
    /// How long the index states may be used from which the plan was made.
    pub(super) permission: Permission,
    /// When the plan was made, for the text of errors.
    pub(super) made: Instant,
}

impl Plan {
    pub(super) fn is_valid(&self) -> bool {
        self.permission
            .valid_until
            .is_none_or(|until| Instant::now() <= until)
    }

    /// Whether steps are left after the group; the journal row lists them.
    pub(super) fn has_journal(&self) -> bool {
        !self.affected.is_empty() || self.source.is_some()
    }

    /// Whether an entity of the write, as it is stored now, is in the version that the write has read; the source of a move: whether it has
    /// the mark of this move.
    pub(super) fn is_as_read(&self, now: &Entity) -> bool {
        if self
            .source
            .as_ref()
            .is_some_and(|source| source.key() == now.key())
        {
            return Mark::of(now).is_some_and(|mark| mark.write == self.id);
        }
        let operation = self
            .operations
            .iter()
            .find(|operation| operation.key() == now.key());
        let condition = operation.and_then(Operation::if_match);
        matches!(condition, Some(IfMatch::Exactly(version)) if now.etag() == Some(version))
    }

    /// The entities with which the entries must agree.
    pub(super) fn entities(&self) -> Vec<Key> {
        self.owners
            .iter()
            .chain(self.source.iter().map(Entity::key))
            .cloned()
            .collect()
    }
}

/// Plans the writes of a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planner<'a> {
    pub(super) entities: &'a EntityTable,
}

impl Planner<'_> {
    /// Computes everything that a write sends. Sends no request.
    ///
    /// # Errors
    /// An entity has a property of a reserved name; a change gives an entity a value of a unique index that is not readable; two entities
    /// have one entry; a row is over the store's limits.
    pub(super) fn plan(&self, changes: &[Change], permission: Permission) -> Result<Plan> {
        let id = WriteId::fresh();
        self.check_new_states(changes)?;
        let copied = self.entities.maintainer.copied();
        let mut operations = Vec::with_capacity(changes.len());
        for change in changes {
            let mut of_entity = entity_rows::operations(change.old(), change.new.as_ref())?;
            // The copies that the stored entity has come first, then the copies of this group replace them.
            keep_copies(change, &copied, &mut of_entity);
            operations.extend(of_entity);
        }
        let of_entities = operations.len();
        let owners = changes
            .iter()
            .map(|change| change.key().cloned())
            .collect::<Result<Vec<_>>>()?;
        let first = owners
            .first()
            .ok_or_else(|| Error::misuse("the write has no change: pass at least one"))?;
        let partition = first.partition_key();
        changes
            .iter()
            .try_for_each(|change| self.check_ready(change))?;
        let new = self.new_entries(changes)?;
        let diff = EntryDiff::new(self.old_entries(changes, &new)?, new);
        let (mut local, mut remote) = diff.split(&self.entities.name, partition.as_str());
        let mut shared = Merge::all_of(local.take_shared());
        copy_within(&mut operations, &mut shared)?;
        shared.extend(self.feed(changes)?);
        let remote_shared = Merge::all_of(remote.take_shared());
        self.check_remote(&remote, id)?;
        let (local, local_operations) = local_operations(local);
        let unknown_owner = self.unknown_owner(changes, &local, &local_operations, of_entities);
        operations.extend(local_operations);
        let mut affected = affected(&remote);
        affected.extend(
            remote_shared
                .iter()
                .flat_map(Merge::each)
                .map(AffectedKey::shared),
        );
        let put = std::mem::take(&mut remote.put);
        let (unique, plain): (_, Vec<_>) = put.into_iter().partition(|(entry, _)| entry.unique);
        remote.put = unique;
        let plain = plain.into_iter().map(|(entry, _)| entry).collect();
        let (gained, passed, seen) = unique_keys(remote);
        let made = Instant::now();
        let plan = Plan {
            id,
            partition,
            owners,
            operations,
            of_entities,
            local,
            shared,
            affected,
            source: None,
            plain,
            remote_shared,
            passed,
            gained,
            seen,
            unknown_owner,
            permission,
            made,
        };
        self.check_passed(&plan)?;
        Ok(plan)
    }

    /// The plan of a move of `source` to the entity that `change` writes. `None` if neither has remote entries.
    pub(super) fn plan_move(
        &self,
        source: &Entity,
        change: &Change,
        permission: Permission,
    ) -> Result<Option<Plan>> {
        // The move is planned as two writes, whose affected keys are put together: one that adds the target, one that removes the source.
        // The plan of the removal is only read here. The permit stays with the plan that is sent.
        let while_planned = Permission {
            valid_until: permission.valid_until,
            permit: None,
        };
        let mut plan = self.plan(std::slice::from_ref(change), permission)?;
        let gone = self.plan(&[Change::delete(source.clone())], while_planned)?;
        if plan.affected.is_empty() && gone.affected.is_empty() {
            return Ok(None);
        }
        // A value that source and target both have is not gained: its row already exists, and a reservation
        // would find the source as the owner. The row becomes a pair instead.
        let is_kept = |at: &Location| plan.gained.iter().any(|entry| entry.location == *at);
        let mut kept = self.entities.entries(source)?;
        kept.retain(|entry| entry.unique && is_kept(&entry.location));
        let is_kept = |at: &Location| kept.iter().any(|entry| entry.location == *at);
        plan.gained.retain(|entry| !is_kept(&entry.location));
        plan.seen
            .extend(gone.seen.into_iter().filter(|at| !is_kept(at)));
        let heir = change.key()?;
        plan.passed
            .extend(kept.into_iter().map(|entry| (entry, heir.clone())));
        self.check_passed(&plan)?;
        for affected in gone.affected {
            match plan
                .affected
                .iter_mut()
                .find(|known| known.is_at(&affected))
            {
                // The source has a row at the key, so the applier must not insert it.
                Some(known) => known.added = false,
                None => plan.affected.push(affected),
            }
        }
        plan.source = Some(source.clone());
        Ok(Some(plan))
    }

    /// Refuses new states with properties of reserved names, and new states that contradict the manifest.
    fn check_new_states(&self, changes: &[Change]) -> Result<()> {
        changes
            .iter()
            .filter_map(|change| change.new.as_ref())
            .try_for_each(|new| {
                Entry::check_owner(new)?;
                self.entities.maintainer.check(new)
            })
    }

    /// Refuses a new value of a unique index that is not readable: no process can know whether another entity has the
    /// value.
    fn check_ready(&self, change: &Change) -> Result<()> {
        let EntityTable {
            store,
            name,
            maintainer,
            ..
        } = self.entities;
        let unready = |entity: &Option<Entity>| match entity {
            Some(entity) => maintainer.entries_in_unready_indexes(&marked(&**store, name, entity)),
            None => Ok(Vec::new()),
        };
        let wanted = unready(&change.new)?;
        if wanted.is_empty() {
            return Ok(());
        }
        let had = unready(&change.old)?;
        let gained = wanted
            .iter()
            .find(|(e, _)| !had.iter().any(|(old, _)| old.location == e.location));
        gained.map_or(Ok(()), |(entry, state)| Err(not_ready(entry, *state, name)))
    }

    /// The changes that the feeds of the table record, in the order of the write.
    fn feed(&self, changes: &[Change]) -> Result<Option<Merge>> {
        let mut records = Vec::new();
        for change in changes {
            for (kind, entity_type) in self.entities.records(change)? {
                let (table, key) = (&self.entities.name, change.key()?);
                records.push(feed::recorded(table, key, kind, &entity_type)?);
            }
        }
        Ok(records.first().cloned().map(|first| Merge {
            put: records,
            ..Merge::new(first.location, first.index, first.shape)
        }))
    }

    /// The positions of operations that would overwrite or delete a row of any owner, or one that is not there: for
    /// indexes that are not complete, and for entities whose stored entries are not known. An insert needs no check: it
    /// fails if the row exists. `offset` is the number of operations before the entries'.
    fn unknown_owner(
        &self,
        changes: &[Change],
        local: &[Entry],
        operations: &[Operation],
        offset: usize,
    ) -> Vec<usize> {
        let blind = |operation: &Operation| !matches!(operation, Operation::Insert(_));
        let of_all_entries = |entry: &Entry| {
            let old = |change: &&Change| {
                change
                    .old
                    .as_ref()
                    .is_some_and(|old| *old.key() == entry.owner)
            };
            changes
                .iter()
                .find(old)
                .is_some_and(|change| change.all_entries)
        };
        // `ReadLocalConflicts`: the build may not have found the second entity with a value yet.
        let unknown_owner = |entry: &Entry| {
            !self.entities.maintainer.is_complete(&entry.index) || of_all_entries(entry)
        };
        let all = local.iter().zip(operations).zip(offset..);
        all.filter(|((entry, operation), _)| blind(operation) && unknown_owner(entry))
            .map(|(_, n)| n)
            .collect()
    }

    /// The entries of the old states, as far as the diff needs them. `new` are those of the new states.
    fn old_entries(&self, changes: &[Change], new: &[Entry]) -> Result<Vec<Entry>> {
        let mut all = Vec::new();
        for change in changes {
            let Some(old) = &change.old else { continue };
            let mut entries = self.entities.removable(old)?;
            if change.all_entries {
                if change.new.as_ref() != Some(old) {
                    entries.extend(self.entities.entries_of_stored_properties(old)?);
                }
                // All new entries are written, as if there were no old ones. What only the old state has is removed. And a
                // summary must not get the entity's numbers again.
                let is_written = |entry: &Entry| new.iter().any(|new| new.replaces(entry));
                entries.retain(|e| matches!(e.shape, Shape::Summary { .. }) || !is_written(e));
            }
            all.extend(entries);
        }
        Ok(all)
    }

    /// The entries of the new states. Two entities of one group cannot have the same entry.
    fn new_entries(&self, changes: &[Change]) -> Result<Vec<Entry>> {
        let (mut entries, mut derived) = (Vec::new(), Derived::default());
        for entity in changes.iter().filter_map(|change| change.new.as_ref()) {
            let of_entity = self.entities.entries(entity)?;
            derived.add(&of_entity)?;
            entries.extend(of_entity);
        }
        let mut owners: BTreeMap<&Location, &Entry> = BTreeMap::new();
        for entry in &entries {
            let Some(other) = owners.insert(&entry.location, entry) else {
                continue;
            };
            if entry.index != other.index && !both_copy(entry, other) {
                return Err(same_place(entry, other));
            }
            if !entry.shape.is_shared() {
                return Err(violation(entry, &other.owner));
            }
        }
        Ok(entries)
    }

    /// Checks the rows of values that pass from one entity to another against the store's limits.
    fn check_passed(&self, plan: &Plan) -> Result<()> {
        plan.passed.iter().try_for_each(|(entry, heir)| {
            let row = unique::pair_row(entry, heir, plan.id);
            check_operation(
                self.entities.store.profile(),
                &Operation::InsertOrReplace(row),
            )
        })
    }

    /// Checks remote entries against the store's limits before the commit; after the commit an error would be too
    /// late.
    fn check_remote(&self, remote: &EntryDiff, id: WriteId) -> Result<()> {
        remote.put.iter().try_for_each(|(entry, _)| {
            let row = if entry.unique {
                unique::row(entry, id, true)
            } else {
                entry.to_entity()
            };
            check_operation(
                self.entities.store.profile(),
                &Operation::InsertOrReplace(row),
            )
        })
    }
}

/// The operations on local entries, with the entries.
fn local_operations(diff: EntryDiff) -> (Vec<Entry>, Vec<Operation>) {
    let put = diff.put.into_iter().map(|(entry, old)| {
        let operation = match old {
            // A row at a new key belongs to another entity, so the insert must fail on it.
            None => Operation::Insert(entry.to_entity()),
            Some(_) => Operation::InsertOrReplace(entry.to_entity()),
        };
        (entry, operation)
    });
    let removed = diff.removed.into_iter().map(|entry| {
        // The group is under the ETag of the entity's old state, which has this entry. So the row needs no
        // condition of its own, unless the index is incomplete (`unknown_owner`).
        let delete = Operation::Delete(entry.location.key.clone(), IfMatch::Any);
        (entry, delete)
    });
    put.chain(removed).unzip()
}

/// Keeps the properties that copy indexes have written into an entity, whatever the caller passes.
fn keep_copies(change: &Change, copied: &[String], operations: &mut [Operation]) {
    if copied.is_empty() {
        return;
    }
    for new in operations.iter_mut().filter_map(Operation::entity_mut) {
        without_copies(new.properties_mut(), copied);
        // From the old state: the group is under its ETag, so these copies are the current ones.
        for p in change.old.iter().flat_map(|old| old.properties().iter()) {
            if copied.iter().any(|name| name == p.name()) {
                new.properties_mut()
                    .put(p.name(), p.value(), p.is_encrypted());
            }
        }
    }
}

/// Merges copies into entities of the same group: a group can write an entity only once.
fn copy_within(operations: &mut [Operation], shared: &mut Vec<Merge>) -> Result<()> {
    let mut remaining = Vec::with_capacity(shared.len());
    for merge in shared.drain(..) {
        match (
            &merge.shape,
            operations
                .iter_mut()
                .find(|operation| *operation.key() == merge.at.key),
        ) {
            (Shape::Copy { .. }, Some(operation)) => {
                if let Some(target) = operation.entity_mut() {
                    apply_copy(target, &merge)?;
                }
            }
            _ => remaining.push(merge),
        }
    }
    *shared = remaining;
    Ok(())
}

fn affected(remote: &EntryDiff) -> Vec<AffectedKey> {
    let put = remote
        .put
        .iter()
        .map(|(entry, old)| AffectedKey::of(entry, old.is_none()));
    put.chain(
        remote
            .removed
            .iter()
            .map(|entry| AffectedKey::of(entry, false)),
    )
    .collect()
}

/// The unique entries to reserve, those that pass from one entity of the write to another, and the keys of those that
/// are lost or get another payload. The entries that are put are unique ones.
///
/// Each of them is prepared before the commit: a reservation decides between two writers of a value; a pair names both entities, so that no
/// process takes the value between them; and the version of a row that is changed or removed is read while the old entity still has the
/// value, which saves the applier the reads of rule U.
fn unique_keys(remote: EntryDiff) -> (Vec<Entry>, Vec<(Entry, Key)>, Vec<Location>) {
    let (mut gained, mut passed) = (Vec::new(), Vec::new());
    let lost = remote.removed.iter().filter(|entry| entry.unique);
    let mut seen: Vec<_> = lost.map(|entry| entry.location.clone()).collect();
    for (entry, old) in remote.put {
        match old.filter(|old| old.unique) {
            Some(old) if old.owner == entry.owner => seen.push(entry.location),
            Some(old) => passed.push((old, entry.owner)),
            None => gained.push(entry),
        }
    }
    (gained, passed, seen)
}

/// Whether both entries are copies: several copy indexes may write into one entity.
const fn both_copy(a: &Entry, b: &Entry) -> bool {
    matches!(
        (&a.shape, &b.shape),
        (Shape::Copy { .. }, Shape::Copy { .. })
    )
}

/// The error of two indexes that give one key.
fn same_place(entry: &Entry, other: &Entry) -> Error {
    let (index, another, key) = (
        index_name(&entry.index),
        index_name(&other.index),
        &entry.location.key,
    );
    Error::invalid_declaration(format!(
        "the indexes '{another}' and '{index}' both have an entry {key}: start their keys with other text"
    ))
}

/// The error of a new value of a unique index that is not readable.
fn not_ready(entry: &Entry, state: IndexState, table: &TableName) -> Error {
    let Entry {
        index,
        location,
        owner,
        ..
    } = entry;
    let index = index_name(index);
    Error::index_not_ready(format!(
        "the unique index '{index}' of the table '{table}' is {state}: until it is built and readable, {owner} cannot get \
         {} in it, which another entity may have; `build` it first, or `drop_index` it if its build finds duplicates (removals, and writes that keep a \
         value, go on)",
        location.key
    ))
}

/// The error of an entry whose key another entity has.
pub(crate) fn violation(entry: &Entry, owner: &Key) -> Error {
    if !entry.unique {
        return held_by(&entry.index, &entry.location.key, owner);
    }
    let holder = Holder(owner.clone());
    let (index, key) = (
        index_name(&entry.index).to_owned(),
        entry.location.key.to_string(),
    );
    let (owner, wanted_by) = (owner.to_string(), entry.owner.to_string());
    Error::new(ErrorKind::UniqueViolation {
        index,
        entry: key,
        owner,
        wanted_by,
    })
    .with_source(holder)
}
