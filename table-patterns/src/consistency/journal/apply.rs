//! Steps 5 to 7: make the affected keys agree with the current entities, check the entities again, clear the
//! evidence (`docs/protocol.md`, *A write*).
//!
//! A *round* writes what the entities want in one version of each. If the entities are in the same versions after the round, every key was
//! written for a state that was still the present one, and the evidence may go. If a version is another one, the journal row of the other
//! write may already be gone, so this applier writes the keys again.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::BoxFuture;
use table_core::model::{ETag, PartitionKey, TableName};
use table_core::store::{Error, Operation, Result};
use tokio::time::Instant;

use super::entity_table::{EntityTable, States, Wanted};
use super::lease::{Lease, Timing, before};
use super::moving::Moves;
use super::remote_rows::{RemoteRows, operations};
use super::row::{JournalRow, JournalRows};
use super::unique::{By, UniqueKeys};
use crate::entity_rows::WriteId;
use crate::entry::shared::Merge;
use crate::entry::{Entry, Location, Maintainer};

/// Whether the remote entries of a write are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entries {
    /// The remote entries agree with the entities.
    Applied,
    /// The journal row is there; a worker or a sweep applies the remote entries.
    Pending,
}

/// Unique rows whose version the writer has read before its commit. The entity is newer than these rows.
pub(super) type Known = BTreeMap<Location, ETag>;

/// Until when a round may send requests.
#[derive(Clone, Copy)]
struct SendLimits {
    lease: Lease,
    /// The end of validity of the index states from which the round was planned.
    valid_until: Option<Instant>,
}

impl SendLimits {
    fn is_leased(&self) -> bool {
        self.lease.may_send()
    }

    fn may_send(&self) -> bool {
        self.is_leased() && self.valid_until.is_none_or(|until| Instant::now() <= until)
    }
}

/// The end of a round of writes. Of several ends, the greatest one is the end of the round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    Done,
    /// The time of the limits ended before everything was sent. Under new limits the round continues with the next step: the
    /// steps taken agree with the same entities under the current index states.
    Expired,
    /// A read of the round has found another version of an entity: the round starts over from that version.
    Changed,
    /// An outcome is ambiguous, or other writers keep changing a row.
    Doubtful,
}

impl Round {
    /// Maps the result of a step to the end of the round. Ambiguous outcomes and conflicts stop the applier; the
    /// evidence stays.
    fn after(sent: Result<bool>) -> Result<Self> {
        match sent {
            Ok(true) => Ok(Self::Done),
            Ok(false) => Ok(Self::Expired),
            Err(e) if e.is_ambiguous() || e.is_transient() || e.is_precondition_failed() => {
                Ok(Self::Doubtful)
            }
            Err(e) => Err(e),
        }
    }
}

/// A step of a round.
enum Step {
    /// Operations on the rows of one partition. Rows that exist are read first: another entity, or another table's index, may have them.
    Rows {
        to: (TableName, PartitionKey),
        operations: Vec<Operation>,
    },
    Shared(Merge),
    Unique(Location),
}

/// What the steps of a round depend on.
#[derive(Clone, Copy)]
struct RoundInput<'a> {
    row: &'a JournalRow,
    /// The versions of the entities from which the round was planned.
    used: &'a [Option<ETag>],
    wanted: &'a BTreeMap<Location, Entry>,
    known: Option<&'a Known>,
    limits: SendLimits,
}

/// The steps that make the affected keys agree with the wanted entries, always in the same order. The wanted entry
/// decides the kind of a step: the index may have had another definition when the write was planned. Keys that no definition in force
/// allows are left out: a client that may add rows to the table may add a journal row.
fn steps(
    row: &JournalRow,
    states: &States,
    wanted: &Wanted,
    maintainer: &dyn Maintainer,
) -> Result<Vec<Step>> {
    let (mut plain, mut shared, mut unique) = (Vec::new(), Vec::new(), Vec::new());
    let mut own = BTreeSet::new();
    for affected in &row.affected {
        let at = affected.location()?;
        let part = affected
            .shared
            .as_ref()
            .map(|(index, shape)| (index.as_str(), shape));
        if !maintainer.permits(&at, part) {
            tracing::warn!(table = %at.table, key = %at.key, "a journal row names a row that no index in force has");
            continue;
        }
        match (wanted.rows.get(&at), &affected.shared) {
            // A key that is listed twice, for example as the rows of two lists.
            (Some(_), _) if !own.insert(at.clone()) => {}
            (Some(entry), _) if entry.unique => unique.push(at),
            (None, Some((index, shape))) => {
                shared.push(Step::Shared(states.merge(at, index, shape, wanted)));
            }
            (None, None) if affected.unique => unique.push(at),
            _ => plain.push((at, affected)),
        }
    }
    // A round that expired goes on by the numbers of its steps, so the same wanted entries must give the same
    // steps in the same order.
    let plain = operations(plain, &wanted.rows).into_iter();
    let plain = plain.map(|(to, operations)| Step::Rows { to, operations });
    Ok(plain
        .chain(shared)
        .chain(unique.into_iter().map(Step::Unique))
        .collect())
}

impl Step {
    /// The rows that the step writes.
    fn rows(&self) -> Vec<Location> {
        match self {
            Self::Rows {
                to: (table, _),
                operations,
            } => {
                let at = |o: &Operation| Location {
                    table: table.clone(),
                    key: o.key().clone(),
                };
                operations.iter().map(at).collect()
            }
            Self::Shared(merge) => vec![merge.at.clone()],
            Self::Unique(at) => vec![at.clone()],
        }
    }
}

/// The steps of a round that are taken, by their numbers.
#[derive(Default)]
struct StepsTaken {
    wanted: Option<Wanted>,
    taken: BTreeSet<usize>,
    collisions: Vec<Error>,
}

impl StepsTaken {
    /// The steps taken towards these entries; none if other entries were wanted before.
    fn towards(&mut self, wanted: &Wanted) -> &BTreeSet<usize> {
        if self.wanted.as_ref() != Some(wanted) {
            *self = Self {
                wanted: Some(wanted.clone()),
                ..Self::default()
            };
        }
        &self.taken
    }

    /// The end of an applied write.
    fn applied(self, row: &JournalRow) -> AppliedRow {
        AppliedRow {
            row: row.clone(),
            collisions: self.collisions,
        }
    }
}

/// A journal row that is applied and can be [cleared](JournalRows::clear).
#[derive(Debug)]
pub(super) struct AppliedRow {
    pub(super) row: JournalRow,
    /// The key collisions of entries that were left out, because their rows belong to others. The journal row does not wait for these rows:
    /// they may stay for ever. A scrub reports the entries, and adds them when their rows are gone.
    pub(super) collisions: Vec<Error>,
}

/// The end of a step.
struct StepEnd {
    /// Whether all of the step was sent.
    all_sent: bool,
    /// The errors of the entries that were left out.
    collisions: Vec<Error>,
}

impl From<bool> for StepEnd {
    fn from(all_sent: bool) -> Self {
        Self {
            all_sent,
            collisions: Vec::new(),
        }
    }
}

/// The end of the steps that one lane has taken.
struct LaneEnd {
    taken: Vec<usize>,
    /// The errors of the entries that the steps have left out.
    collisions: Vec<Error>,
    /// The entities as the lane has read them last.
    states: States,
    round: Result<Round>,
}

/// Applies journal rows: makes the affected keys agree with the entities.
#[derive(Clone, Copy, Debug)]
pub(super) struct Applier<'a> {
    pub(super) entities: &'a EntityTable,
    pub(super) rows: JournalRows<'a>,
    pub(super) unique: UniqueKeys<'a>,
    pub(super) remote: RemoteRows<'a>,
    pub(super) moves: Moves<'a>,
    pub(super) timing: Timing,
}

impl Applier<'_> {
    /// Applies a journal row under a lease. `None` if the write is pending. Stops before the lease ends, or after an ambiguous outcome, and leaves
    /// the journal row: the evidence must outlive every request that may still take effect. A request that an adapter
    /// holds back is dropped at the end of the lease.
    pub(super) async fn apply(
        &self,
        row: &JournalRow,
        states: States,
        known: &Known,
        lease: Lease,
    ) -> Result<Option<AppliedRow>> {
        let applied = self.apply_rounds(row, states, known, lease);
        self.within(lease, applied).await.unwrap_or(Ok(None))
    }

    /// Drops the work of an applier at the end of its lease.
    async fn within<T>(&self, lease: Lease, work: impl Future<Output = T>) -> Option<T> {
        before(lease.cut_off(), work).await
    }

    async fn apply_rounds(
        &self,
        row: &JournalRow,
        mut states: States,
        known: &Known,
        lease: Lease,
    ) -> Result<Option<AppliedRow>> {
        // After a lost answer the versions are unknown. Two unknown versions would look equal after the
        // round, and the entity may be gone by now (`KnownVersions`).
        if !states.are_known() {
            states.read_all_again(self.entities).await?;
        }
        // Before the entries: the pairs of a move are settled for the heir only after the source is gone.
        let Some(row) = self.moves.remove_source(row, &mut states, lease).await? else {
            return Ok(None);
        };
        let row = row.as_ref();
        let mut known = Some(known);
        let (mut used, mut taken_steps) = (states.versions(), StepsTaken::default());
        loop {
            // The permission is held until the round ends.
            let permission = self.entities.prepare().await?;
            let valid_until = permission.valid_until;
            let limits = SendLimits { lease, valid_until };
            let wanted = states.entries(self.entities)?;
            let input = RoundInput {
                row,
                used: &used,
                wanted: &wanted.rows,
                known,
                limits,
            };
            let once = self.apply_once(input, &wanted, &mut states, &mut taken_steps);
            let round = match valid_until {
                // A request that was sent in time may still run for the client's part of its life. A change
                // of an index state waits for that, too (`Waits::until_states_known`).
                Some(until) => before(until + self.timing.client(), once).await,
                None => Some(once.await),
            };
            // A dropped request may still take effect, so the journal row has to stay (`DoubtKeepsEvidence`).
            let round = round.unwrap_or(Ok(Round::Doubtful))?;
            if round == Round::Doubtful || !limits.is_leased() {
                return Ok(None);
            }
            if round == Round::Expired {
                // Index states have expired, not the lease: continue under new ones.
                continue;
            }
            // Step 6 (`Recheck`): another writer may have changed an entity during the round. If it has
            // deleted its own journal row since, only this applier can repair what the round has written for
            // the older version.
            if round == Round::Done {
                states.read_all_again(self.entities).await?;
                if states.versions() == used {
                    return Ok(Some(taken_steps.applied(row)));
                }
            }
            // The round has changed the unique rows, so their versions from before the commit are used up.
            (known, used, taken_steps) = (None, states.versions(), StepsTaken::default());
        }
    }

    /// Runs a round, or the remaining steps of a round that [expired](Round::Expired).
    async fn apply_once(
        &self,
        input: RoundInput<'_>,
        wanted: &Wanted,
        states: &mut States,
        taken_steps: &mut StepsTaken,
    ) -> Result<Round> {
        let steps = steps(input.row, states, wanted, &*self.entities.maintainer)?;
        let taken = taken_steps.towards(wanted);
        let left = steps
            .into_iter()
            .enumerate()
            .filter(|(number, _)| !taken.contains(number));
        let left = lanes(left.map(|(number, step)| (number, step.rows(), step)));
        let work = left.into_iter().map(|lane| {
            let states = states.clone();
            Box::pin(self.take_lane(lane, input, states)) as BoxFuture<'_, LaneEnd>
        });
        let mut round = Round::Done;
        // Work on one row keeps its order, and rows are independent of each other: so lanes may overlap (`docs/protocol.md`, *What may overlap*).
        // All lanes end before the round does: a request of this round must not arrive in the next one.
        for end in self.entities.all_of(work.collect()).await {
            taken_steps.taken.extend(end.taken);
            taken_steps.collisions.extend(end.collisions);
            let lane = end.round?;
            // The states of one lane are enough: the next round writes every key again, and ends with a read
            // of all entities.
            if lane == Round::Changed && round < lane {
                *states = end.states;
            }
            round = round.max(lane);
        }
        Ok(round)
    }

    /// Takes the steps of one lane, one after the other.
    async fn take_lane(
        &self,
        lane: Vec<(usize, Step)>,
        input: RoundInput<'_>,
        mut states: States,
    ) -> LaneEnd {
        let (mut taken, mut collisions) = (Vec::with_capacity(lane.len()), Vec::new());
        for (number, step) in lane {
            let (sent, left_out) = match self.take_step(step, input, &mut states).await {
                Ok(end) => (Ok(end.all_sent), end.collisions),
                Err(error) => (Err(error), Vec::new()),
            };
            let mut round = Round::after(sent);
            // Compare after every step, not only at the end. An entity that was deleted and inserted during the round
            // may be absent again at its end; only the reads in between show that.
            if let Ok(end) = &mut round
                && *end != Round::Doubtful
                && states.versions() != input.used
            {
                *end = Round::Changed;
            }
            if !matches!(round, Ok(Round::Done)) {
                return LaneEnd {
                    taken,
                    collisions,
                    states,
                    round,
                };
            }
            taken.push(number);
            collisions.extend(left_out);
        }
        LaneEnd {
            taken,
            collisions,
            states,
            round: Ok(Round::Done),
        }
    }

    /// Takes one step. Leaves out the entries whose rows belong to others.
    async fn take_step(
        &self,
        step: Step,
        input: RoundInput<'_>,
        states: &mut States,
    ) -> Result<StepEnd> {
        let RoundInput {
            row,
            wanted,
            known,
            limits,
            ..
        } = input;
        match step {
            Step::Rows { to, mut operations } => {
                // `OwnEntries`: a step reads the owner of a row before it changes or deletes the row. A newer definition of the
                // index may have made a key unique since the write was planned. Then rule U decides about the row, and not this step.
                let left_out = self
                    .remote
                    .on_own_rows(&to.0, &mut operations, states)
                    .await?;
                for at in left_out.unique {
                    if !limits.may_send() {
                        return Ok(false.into());
                    }
                    self.unique.settle(&at, By::Applier(row.id), states).await?;
                }
                let mut collisions = left_out.collisions;
                loop {
                    let put = self
                        .remote
                        .put_rows(&to, &mut operations, states, || limits.may_send());
                    match put.await {
                        Err(error) if error.is_key_collision() => collisions.push(error),
                        sent => {
                            let all_sent = sent?;
                            return Ok(StepEnd {
                                all_sent,
                                collisions,
                            });
                        }
                    }
                }
            }
            // Read and written under its ETag (`SharedInVersion`): other writers change the same row.
            Step::Shared(merge) => {
                match self
                    .remote
                    .merge(&merge, states, || limits.may_send())
                    .await
                {
                    Err(error) if error.is_key_collision() => Ok(StepEnd {
                        all_sent: true,
                        collisions: vec![error],
                    }),
                    sent => sent.map(StepEnd::from),
                }
            }
            Step::Unique(_) if !limits.may_send() => Ok(false.into()),
            Step::Unique(at) => {
                self.apply_unique(&at, row.id, states, wanted, known)
                    .await?;
                Ok(true.into())
            }
        }
    }

    async fn apply_unique(
        &self,
        at: &Location,
        write: WriteId,
        states: &mut States,
        wanted: &BTreeMap<Location, Entry>,
        known: Option<&Known>,
    ) -> Result<()> {
        // The writer has read this row before its commit, so its entities are newer than the row: the order
        // of rule U is kept without another read.
        if let Some(version) = known.and_then(|k| k.get(at))
            && self
                .unique
                .settle_known(at, wanted.get(at), write, version.clone())
                .await?
        {
            return Ok(());
        }
        self.unique.settle(at, By::Applier(write), states).await
    }

    /// Step 7 within the lease: deletes the journal row. The owner of the ticket deletes the ticket afterwards: a ticket without a
    /// journal row does no harm, a journal row without a ticket would wait for a sweep.
    pub(super) async fn clear(&self, row: &JournalRow, lease: Lease) -> Result<Entries> {
        self.within(lease, self.rows.clear(row))
            .await
            .unwrap_or(Ok(Entries::Pending))
    }
}

/// Divides numbered work into lanes that may run at the same time. Work on the same row is in the same lane, in the order of its numbers:
/// two requests to one row that overtake each other would leave the content of the earlier step.
pub(super) fn lanes<T>(
    work: impl IntoIterator<Item = (usize, Vec<Location>, T)>,
) -> Vec<Vec<(usize, T)>> {
    let mut lanes: Vec<Vec<(usize, T)>> = Vec::new();
    let mut lane_of: BTreeMap<Location, usize> = BTreeMap::new();
    for (number, rows, work) in work {
        let mut found = rows
            .iter()
            .filter_map(|row| lane_of.get(row).copied())
            .collect::<BTreeSet<_>>()
            .into_iter();
        let lane = found.next().unwrap_or(lanes.len());
        if lane == lanes.len() {
            lanes.push(Vec::new());
        }
        // The work needs rows of several lanes, so from now on these are one lane.
        for other in found {
            let moved = std::mem::take(&mut lanes[other]);
            lanes[lane].extend(moved);
            lane_of
                .values_mut()
                .filter(|of| **of == other)
                .for_each(|of| *of = lane);
        }
        lanes[lane].push((number, work));
        lane_of.extend(rows.into_iter().map(|row| (row, lane)));
    }
    // Only now: `lane_of` refers to lanes by position, so an emptied lane had to keep its place.
    lanes.retain(|lane| !lane.is_empty());
    for lane in &mut lanes {
        // A lane that has absorbed others has their work at its end.
        lane.sort_by_key(|(number, _)| *number);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use table_core::model::{Key, TableName};
    use table_core::store::Result;

    use super::*;

    fn row(name: &str) -> Result<Location> {
        Ok(Location {
            table: TableName::new("Cities")?,
            key: Key::new(name, "")?,
        })
    }

    #[test]
    fn work_on_one_row_keeps_its_order() -> Result<()> {
        let all = [
            vec!["a"],
            vec!["b"],
            vec!["c", "d"],
            vec!["a", "b"],
            vec!["d"],
            vec![],
        ];
        let all: Vec<Vec<_>> = all
            .into_iter()
            .map(|rows| rows.into_iter().map(row).collect())
            .collect::<Result<_>>()?;
        let numbered = all
            .into_iter()
            .enumerate()
            .map(|(number, rows)| (number, rows, ()));
        let numbers: Vec<Vec<_>> = lanes(numbered)
            .into_iter()
            .map(|lane| lane.into_iter().map(|(number, ())| number).collect())
            .collect();
        assert_eq!(numbers, [vec![0, 1, 3], vec![2, 4], vec![5]]);
        Ok(())
    }
}
