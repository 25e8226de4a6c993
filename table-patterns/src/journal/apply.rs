//! Steps 5 to 7: make the touched keys agree with the entities as they are now, then clear the evidence.

use std::collections::BTreeMap;

use table_core::model::{ETag, IfMatch};
use table_core::store::{Operation, Result};
use tokio::time::Instant;

use super::Journal;
use super::lease::{Lease, before};
use super::row::{JournalRow, WriteId};
use super::rows::operations;
use super::rules::Rule;
use super::state::States;
use crate::index::{Entry, Location};

/// Whether a write's remote entries are in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entries {
    /// They are.
    Applied,
    /// A worker or a sweep will bring them into step: the journal row is there.
    Pending,
}

/// Unique rows whose version the writer knows from before its commit: the entity's state is newer.
pub(super) type Known = BTreeMap<Location, ETag>;

/// The right to send writes of one round.
#[derive(Clone, Copy)]
struct Permit {
    lease: Lease,
    /// Until when the states of indexes that the round was made from may be used.
    valid_until: Option<Instant>,
    one_applier: bool,
}

impl Permit {
    fn is_leased(&self) -> bool {
        self.lease.may_send() || !self.one_applier
    }

    fn may_send(&self) -> bool {
        self.is_leased() && self.valid_until.is_none_or(|until| Instant::now() <= until)
    }
}

/// How a round of writes ended.
#[derive(PartialEq, Eq)]
enum Round {
    Done,
    /// The permit ended before everything was sent.
    Expired,
    /// An answer is in doubt, or others kept changing a row.
    Doubtful,
}

impl Journal {
    /// Applies a journal row under a lease. Stops early, leaving the row, when the lease is about to
    /// end or an answer is in doubt: the evidence must outlive every request that may still take
    /// effect. What a store or adapter still holds back at the end of the lease is dropped there.
    pub(super) async fn apply(
        &self,
        row: &JournalRow,
        states: States,
        known: &Known,
        lease: Lease,
    ) -> Result<Entries> {
        let applied = self.apply_rounds(row, states, known, lease);
        let applied = if self.keeps(Rule::OneApplier) && self.keeps(Rule::CutOff) {
            before(lease.cut_off(), applied).await.unwrap_or(Ok(Entries::Pending))
        } else {
            applied.await
        };
        if let Err(error) = &applied
            && error.is_key_collision()
            && let Err(unrecorded) = self.maintainer.collided(self.store()).await
        {
            // The journal row stays: who tries it next meets the same.
            tracing::warn!(error = %unrecorded, "a collision of keys was not written down");
        }
        applied
    }

    async fn apply_rounds(
        &self,
        row: &JournalRow,
        mut states: States,
        known: &Known,
        lease: Lease,
    ) -> Result<Entries> {
        if !self.keeps(Rule::ApplyBeforeClear) {
            self.clear(row).await?;
        }
        let mut known = Some(known);
        loop {
            let valid_until = self.maintainer.prepare(self.store()).await?;
            let permit = Permit { lease, valid_until, one_applier: self.keeps(Rule::OneApplier) };
            let used = states.versions();
            let once = self.apply_once(row, &mut states, known.take(), permit);
            let round = match valid_until {
                Some(until) => before(until + self.timing.client(), once).await,
                None => Some(once.await),
            };
            let round = round.unwrap_or(Ok(Round::Doubtful))?;
            if round == Round::Doubtful || !permit.is_leased() {
                return Ok(Entries::Pending);
            }
            if !self.keeps(Rule::Recheck) {
                return self.clear(row).await;
            }
            states.read_all_again(self).await?;
            if round == Round::Done && states.versions() == used {
                return self.clear(row).await;
            }
        }
    }

    async fn apply_once(
        &self,
        row: &JournalRow,
        states: &mut States,
        known: Option<&Known>,
        permit: Permit,
    ) -> Result<Round> {
        let wanted = states.entries(self)?;
        let (shared, own): (Vec<_>, Vec<_>) = row.touched.iter().partition(|t| t.shared.is_some());
        let (unique, plain): (Vec<_>, Vec<_>) = own.into_iter().partition(|t| t.unique);
        let may_collide = self.maintainer.may_collide() && self.keeps(Rule::OwnEntries);
        for (partition, mut operations) in operations(&plain, &wanted.rows, may_collide)? {
            if row.claim.is_some() || may_collide {
                operations = self.without_others(&partition.0, operations, states).await?;
            }
            let sent = self.put_while(&partition, &mut operations, || permit.may_send()).await;
            let round = self.judge(sent)?;
            if round != Round::Done {
                return Ok(round);
            }
        }
        for touched in shared {
            let Some((index, shape)) = &touched.shared else { continue };
            let merge = states.merge(touched.location()?, index, shape, &wanted);
            let round = self.judge(self.merge(&merge, || permit.may_send()).await)?;
            if round != Round::Done {
                return Ok(round);
            }
        }
        for touched in unique {
            let at = touched.location()?;
            if !permit.may_send() {
                return Ok(Round::Expired);
            }
            let applied = self.apply_unique(&at, row.id, states, &wanted.rows, known).await;
            let round = self.judge(applied.map(|()| true))?;
            if round != Round::Done {
                return Ok(round);
            }
        }
        Ok(Round::Done)
    }

    async fn apply_unique(
        &self,
        at: &Location,
        write: WriteId,
        states: &mut States,
        wanted: &BTreeMap<Location, Entry>,
        known: Option<&Known>,
    ) -> Result<()> {
        if let Some(version) = known.and_then(|k| k.get(at))
            && self.settle_known(at, wanted.get(at), write, version.clone()).await?
        {
            return Ok(());
        }
        self.settle(at, write, states).await
    }

    /// Step 7: the journal row first, then the ticket, which its owner deletes.
    async fn clear(&self, row: &JournalRow) -> Result<Entries> {
        let Some(etag) = row.etag.clone() else { return Ok(Entries::Pending) };
        let delete = Operation::Delete(row.key.clone(), IfMatch::Exactly(etag));
        match self.store().write(self.table(), delete).await {
            Ok(_) => Ok(Entries::Applied),
            Err(e) if e.is_ambiguous() || e.is_precondition_failed() => Ok(Entries::Pending),
            Err(e) if e.is_entity_not_found() => Ok(Entries::Applied),
            Err(e) => Err(e),
        }
    }

    /// What cannot be said for certain, and what others are changing, stops the applier; the evidence
    /// stays.
    fn judge(&self, sent: Result<bool>) -> Result<Round> {
        match sent {
            Ok(true) => Ok(Round::Done),
            Ok(false) => Ok(Round::Expired),
            Err(e) if e.is_ambiguous() && !self.keeps(Rule::DoubtKeepsEvidence) => Ok(Round::Done),
            Err(e) if e.is_ambiguous() || e.is_transient() || e.is_precondition_failed() => {
                Ok(Round::Doubtful)
            }
            Err(e) => Err(e),
        }
    }
}
