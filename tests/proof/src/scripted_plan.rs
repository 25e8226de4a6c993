//! Scenes of eventually consistent transactions: a plan of four steps, its submitters and its workers.

use std::time::Duration;

use table_core::model::Entity;
use uuid::Uuid;

use super::Invariant;
use super::chooser::{Bounds, Choose, Random, Systematic};
use super::explorer::{Explored, Schedule, explore};
use super::scheduler::{Action, Scheduler};
use super::transactions_model::{TransactionsModel, key, table};
use super::write_scenes::{FAULTS, UNREADABLE};
use crate::patterns::eventual::{EventualTransaction, Place, TransactionId};
use crate::patterns::journal::Acknowledge;
use crate::patterns::journal::Acknowledge::{Applied, Committed};

/// The treatment of a transaction whose handler fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Poison {
    /// The handler does not fail.
    Never,
    /// The handler is repaired, and the transaction is requeued.
    Requeued,
    /// The transaction is discarded.
    Discarded,
}

/// The submitters and workers of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScriptedPlan {
    /// Whether the plan is larger than a message.
    pub(super) large: bool,
    pub(super) acknowledge: Acknowledge,
    /// The number of submitters, all under one id.
    pub(super) submitters: usize,
    pub(super) workers: usize,
    /// The number of times that each worker receives messages, a lease apart.
    pub(super) rounds: usize,
    pub(super) poison: Poison,
    pub(super) omitted: Option<Invariant>,
}

impl ScriptedPlan {
    pub(super) const fn new(large: bool, acknowledge: Acknowledge, workers: usize) -> Self {
        Self {
            large,
            acknowledge,
            submitters: 1,
            workers,
            rounds: 2,
            poison: Poison::Never,
            omitted: None,
        }
    }

    pub(super) const fn submitted_by(self, submitters: usize) -> Self {
        Self { submitters, ..self }
    }

    pub(super) const fn in_rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    pub(super) const fn without_invariant(self, invariant: Invariant) -> Self {
        Self {
            omitted: Some(invariant),
            ..self
        }
    }

    pub(super) const fn poisoned(self, poison: Poison) -> Self {
        Self { poison, ..self }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(chooser, self.omitted, &async |scheduler: &Scheduler| {
            let model = TransactionsModel::new(scheduler, *self).await?;
            let mut tasks = Vec::new();
            for _ in 0..self.submitters {
                tasks.push(model.submitter(tasks.len()).await?);
            }
            for _ in 0..self.workers {
                tasks.push(model.worker(tasks.len()).await?);
            }
            Ok(Schedule {
                tasks,
                verdict: model.verdict(),
            })
        })
    }

    /// Writes an entity, moves it, sends a mail, and deletes another entity. The final rows show whether a step was
    /// repeated after a later one.
    pub(super) fn transaction(&self) -> EventualTransaction {
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
/// One fault and no switch, for long plans and for plans with many attempts.
const ALONE: Bounds = Bounds::all_orders().switching(0).with_faults(1, FAULTS);

#[test]
fn a_submitter_and_two_workers() {
    let plan = ScriptedPlan::new(false, Committed, 2);
    plan.explore(Systematic::new(ORDERS))
        .assert_no_violation("a transaction and two workers");
    let plan = ScriptedPlan::new(false, Applied, 1);
    plan.explore(Systematic::new(ORDERS))
        .assert_no_violation("a transaction that its submitter applies");
}

#[test]
fn a_submitter_and_two_workers_and_a_fault() {
    let plan = ScriptedPlan::new(false, Committed, 2);
    plan.explore(Systematic::new(ALONE))
        .assert_no_violation("a transaction, two workers and a fault");
}

#[test]
fn a_submitter_that_applies_a_worker_and_a_fault() {
    let plan = ScriptedPlan::new(false, Applied, 1);
    plan.explore(Systematic::new(FAULT))
        .assert_no_violation("a transaction of its submitter and a fault");
}

#[test]
fn a_stored_plan_and_a_fault() {
    let plan = ScriptedPlan::new(true, Committed, 1);
    plan.explore(Systematic::new(ALONE))
        .assert_no_violation("a stored plan, a worker and a fault");
    let plan = ScriptedPlan::new(true, Applied, 1);
    plan.explore(Systematic::new(ALONE))
        .assert_no_violation("a stored plan of its submitter and a fault");
}

/// A submitter stores its plan so slowly that a worker has aborted the transaction and removed the pieces twice; then
/// the submitter dies.
#[test]
fn a_stored_plan_that_is_aborted() {
    const DEADLY: &[Action] = &[
        Action::Resend(Duration::from_millis(850)),
        Action::CrashAfter,
    ];
    let bounds = ALONE.sparing_from(1).with_faults(2, DEADLY);
    let slow = ScriptedPlan::new(true, Committed, 1).in_rounds(4);
    slow.explore(Systematic::new(bounds))
        .assert_no_violation("a stored plan of a slow submitter, and a worker");
    let explored = slow
        .without_invariant(Invariant::PieceCutOff)
        .explore(Systematic::new(bounds));
    explored.assert_violation_without(Invariant::PieceCutOff);
}

#[test]
fn transactions_with_unreadable_answers() {
    for (large, what) in [(false, "a transaction"), (true, "a stored plan")] {
        for (acknowledge, who) in [(Committed, "a worker"), (Applied, "its submitter")] {
            let plan = ScriptedPlan::new(large, acknowledge, 1);
            let explored = plan.explore(Systematic::new(ALONE.with_faults(1, UNREADABLE)));
            explored.assert_no_violation(&format!("{what}, {who} and an unreadable answer"));
        }
    }
}

#[test]
fn a_poisoned_transaction_and_a_fault() {
    for (what, poison) in [
        ("put back", Poison::Requeued),
        ("discarded", Poison::Discarded),
    ] {
        let plan = ScriptedPlan::new(false, Committed, 1).poisoned(poison);
        let name = format!("a poisoned transaction that is {what}, and a fault");
        plan.explore(Systematic::new(ALONE))
            .assert_no_violation(&name);
    }
}

#[test]
fn two_submitters_and_two_workers_at_random() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let plan = ScriptedPlan::new(false, Committed, 2).submitted_by(2);
    plan.explore(Random::new(bounds, 1, 200))
        .assert_no_violation("two submitters and two workers of a small plan");
}
