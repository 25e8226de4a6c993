//! Head rows of what is submitted: inserting one is the commit of a stored plan.

use table_core::store::{Error, ErrorKind, Outcome, Result};
use uuid::Uuid;

use super::coordinator::Coordinator;
use super::head::{Head, State};
use super::ledger::PlanOf;
use super::plan::TransactionId;
use crate::journal::Lease;

/// A head row that this process may have inserted for itself.
pub(super) enum Begun {
    Mine(Head, Lease),
    Others(Head),
    /// It will never be done by this submission.
    Refused(Error),
}

impl Coordinator {
    /// Inserts the head row of a stored plan, unless it was given up.
    pub(super) async fn commit(&self, head: Head, applies: bool) -> Result<Begun> {
        let plan = head.plan_of();
        let begun = if applies { self.begin(head).await } else { self.enter(head).await };
        match begun {
            Err(error) if error.is_ambiguous() => self.find_out(plan, error).await,
            begun => begun.map_err(|error| error.with_outcome(Outcome::NotApplied)),
        }
    }

    /// The answer to the commit was lost: the head row is there, or an aborted one is put in its place.
    async fn find_out(&self, plan: PlanOf, error: Error) -> Result<Begun> {
        let aborted = Head { state: State::Aborted, ..Head::new(plan, 0) };
        match self.ledger.insert(aborted).await {
            Ok(Some(_)) => Err(error.with_outcome(Outcome::NotApplied)),
            Ok(None) => match self.ledger.read(plan.id).await {
                Ok(Some(head)) => Ok(begun_by_others(head, plan)),
                _ => Err(error),
            },
            Err(_) => Err(error),
        }
    }

    async fn enter(&self, head: Head) -> Result<Begun> {
        let plan = head.plan_of();
        match self.ledger.insert(head).await? {
            Some(head) => Ok(Begun::Others(head)),
            None => self.existing(plan).await,
        }
    }

    /// Inserts the head row claimed for this process.
    pub(super) async fn begin(&self, head: Head) -> Result<Begun> {
        let lease = Lease::start(self.timing);
        let plan = head.plan_of();
        match self.ledger.insert(Head { claim: Some(Uuid::new_v4()), ..head }).await? {
            Some(head) => Ok(Begun::Mine(head, lease)),
            None => self.existing(plan).await,
        }
    }

    /// What the head row that is there says.
    async fn existing(&self, plan: PlanOf) -> Result<Begun> {
        let head = self.ledger.read(plan.id).await?.ok_or_else(|| given_up(plan.id))?;
        Ok(begun_by_others(head, plan))
    }
}

/// Whether the plan of a head that is there is done, or will be.
fn begun_by_others(head: Head, plan: PlanOf) -> Begun {
    match head.state {
        State::Aborted => Begun::Refused(given_up(plan.id)),
        _ if head.plan != plan.hash => Begun::Refused(other_plan(plan.id)),
        State::Discarded => Begun::Refused(discarded(plan.id, head.next)),
        State::Running | State::Poisoned | State::Applied => Begun::Others(head),
    }
}

fn discarded(id: TransactionId, next: usize) -> Error {
    Error::invalid_request(format!(
        "the transaction {id} was discarded before its step {next}: submit what is left of it under a new id"
    ))
}

fn given_up(id: TransactionId) -> Error {
    let kind = ErrorKind::InvalidRequest(format!(
        "the transaction {id} was given up before its commit: it took longer than a lease; submit it under a new id"
    ));
    Error::new(kind)
}

pub(super) fn other_plan(id: TransactionId) -> Error {
    Error::invalid_request(format!("another plan was submitted under the id {id}: this one is not done"))
}
