//! A submitter and workers of an eventually consistent transaction, in bounded and random orders.

use std::time::Duration;

use table_core::model::Entity;
use uuid::Uuid;

use super::choose::{Bounds, Choose, Random, Systematic};
use super::explore::{Explored, Play, explore};
use super::interleavings::{FAULTS, UNREADABLE};
use super::office::{Office, key, table};
use super::stage::{Action, Stage};
use crate::eventual::{EventualTransaction, Place, TransactionId};
use crate::journal::Acknowledge::{Applied, Committed};
use crate::journal::{Acknowledge, Rule};

/// What becomes of a transaction whose handler fails until it is repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poison {
    /// The handler does not fail.
    Never,
    /// It is repaired, and the transaction is put back.
    Requeued,
    /// The rest is given up.
    Discarded,
}

/// Who submits a transaction and who works on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand {
    /// Whether the plan is larger than a message.
    pub(super) large: bool,
    pub(super) acknowledge: Acknowledge,
    /// How many submit it, all under its one id.
    pub(super) submitters: usize,
    pub(super) workers: usize,
    /// How often each worker looks for messages, a lease apart.
    pub(super) rounds: usize,
    pub(super) poison: Poison,
    pub(super) broken: Option<Rule>,
}

impl Errand {
    pub(super) const fn new(large: bool, acknowledge: Acknowledge, workers: usize) -> Self {
        Self { large, acknowledge, submitters: 1, workers, rounds: 2, poison: Poison::Never, broken: None }
    }

    pub(super) const fn submitted_by(self, submitters: usize) -> Self {
        Self { submitters, ..self }
    }

    pub(super) const fn in_rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    pub(super) const fn breaking(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    pub(super) const fn poisoned(self, poison: Poison) -> Self {
        Self { poison, ..self }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &Stage| {
            let office = Office::new(stage, *self).await?;
            let mut tasks = Vec::new();
            for _ in 0..self.submitters {
                tasks.push(office.submitter(tasks.len()).await?);
            }
            for _ in 0..self.workers {
                tasks.push(office.worker(tasks.len()).await?);
            }
            Ok(Play { tasks, verdict: office.verdict() })
        })
    }

    /// A desk entity is written, archived, a mail is sent, and another entity goes: a step that is repeated
    /// behind a later one is seen in the end.
    pub(super) fn plan(&self) -> EventualTransaction {
        let mail = vec![0; if self.large { 25_000 } else { 1 }];
        let place = |name: &str, row: &str| Place::new("office", table(name), key(row));
        EventualTransaction::with_id(TransactionId::from_uuid(Uuid::from_u128(7)))
            .upsert("office", table("Desk"), Entity::from(key("x")))
            .move_entity(place("Desk", "x"), place("Archive", "x"))
            .handle("mail", mail)
            .delete_if_exists(place("Desk", "old"))
    }
}

const ORDERS: Bounds = Bounds::all_orders().switching(2);
const FAULT: Bounds = Bounds::all_orders().switching(1).with_faults(1, FAULTS);
/// Where a plan is long, or is tried often, the faults of processes that are not interrupted.
const ALONE: Bounds = Bounds::all_orders().switching(0).with_faults(1, FAULTS);

#[test]
fn a_submitter_and_two_workers() {
    let errand = Errand::new(false, Committed, 2);
    errand.explore(Systematic::new(ORDERS)).assert_right("a transaction and two workers");
    let errand = Errand::new(false, Applied, 1);
    errand.explore(Systematic::new(ORDERS)).assert_right("a transaction that its submitter applies");
}

#[test]
fn a_submitter_and_two_workers_and_a_fault() {
    let errand = Errand::new(false, Committed, 2);
    errand.explore(Systematic::new(ALONE)).assert_right("a transaction, two workers and a fault");
}

#[test]
fn a_submitter_who_applies_a_worker_and_a_fault() {
    let errand = Errand::new(false, Applied, 1);
    errand.explore(Systematic::new(FAULT)).assert_right("a transaction of its submitter and a fault");
}

#[test]
fn a_stored_plan_and_a_fault() {
    let errand = Errand::new(true, Committed, 1);
    errand.explore(Systematic::new(ALONE)).assert_right("a stored plan, a worker and a fault");
    let errand = Errand::new(true, Applied, 1);
    errand.explore(Systematic::new(ALONE)).assert_right("a stored plan of its submitter and a fault");
}

/// A submitter who is so slow that a worker has given the plan up, and removed its pieces twice, and who then dies.
#[test]
fn a_stored_plan_that_is_given_up() {
    const DEADLY: &[Action] = &[Action::Resend(Duration::from_millis(850)), Action::CrashAfter];
    let bounds = ALONE.sparing_from(1).with_faults(2, DEADLY);
    let patient = Errand::new(true, Committed, 1).in_rounds(4);
    patient.explore(Systematic::new(bounds)).assert_right("a stored plan of a slow submitter, and a worker");
    let explored = patient.breaking(Rule::PieceCutOff).explore(Systematic::new(bounds));
    let (what, _) = explored.wrong.expect("nothing notices a piece that comes after its lease");
    eprintln!("without PieceCutOff, schedule {} ends wrong: {what}", explored.schedules);
}

#[test]
fn transactions_and_answers_that_cannot_be_read() {
    for (large, what) in [(false, "a transaction"), (true, "a stored plan")] {
        for (acknowledge, who) in [(Committed, "a worker"), (Applied, "its submitter")] {
            let errand = Errand::new(large, acknowledge, 1);
            let explored = errand.explore(Systematic::new(ALONE.with_faults(1, UNREADABLE)));
            explored.assert_right(&format!("{what}, {who} and an unreadable answer"));
        }
    }
}

#[test]
fn a_poisoned_transaction_and_a_fault() {
    for (what, poison) in [("put back", Poison::Requeued), ("discarded", Poison::Discarded)] {
        let errand = Errand::new(false, Committed, 1).poisoned(poison);
        let name = format!("a poisoned transaction that is {what}, and a fault");
        errand.explore(Systematic::new(ALONE)).assert_right(&name);
    }
}

#[test]
fn crowds_around_a_transaction_by_chance() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let errand = Errand::new(false, Committed, 2).submitted_by(2);
    errand.explore(Random::new(bounds, 1, 200)).assert_right("a crowd around a small plan, Committed");
}
