//! Each rule that could seem superfluous is left out: the suite must notice.

use std::time::Duration;

use super::choose::{Bounds, Random, Systematic};
use super::interleavings::FAULTS;
use super::keepers::{FAULT, FOLLOWS, KEPT, MOVES, ONE, STALE, STAYS, TAKES_OVER};
use super::library::Keeping::{Build, Rebuild, Repair};
use super::library::Kind::{Beside, Rows};
use super::library::Library;
use super::scene::Scene;
use super::shelf::STRAY;
use super::stage::Action;
use super::world::{PLAIN, UNIQUE};
use crate::journal::Rule;

/// One entity, moved twice.
const MOVED: Scene =
    Scene::new(PLAIN, &[("x", "a")], &[("x", Some("b")), ("x", Some("c"))]).trying(2).with_workers(1);
/// One entity gives a value up and wants it back, another wants it too.
const WANTED: Scene =
    Scene::new(UNIQUE, &[("x", "a")], &[("x", Some("b")), ("x", Some("a")), ("y", Some("a"))])
        .with_workers(1);
/// Two writers want one value for one entity, and another entity wants it too.
const SHARED: Scene =
    Scene::new(UNIQUE, &[("x", "a")], &[("x", Some("b")), ("x", Some("b")), ("y", Some("b"))])
        .with_workers(1);

/// Which scene shows that a rule is needed.
const NEEDED: [(Rule, Scene); 13] = [
    (Rule::TicketFirst, MOVED),
    (Rule::Recheck, MOVED),
    (Rule::ApplyBeforeClear, MOVED),
    (Rule::RowBeforeTicket, MOVED),
    (Rule::AbortAbsent, MOVED),
    (Rule::OneApplier, MOVED),
    (Rule::CutOff, MOVED),
    (Rule::FindOutInLease, MOVED),
    (Rule::DoubtKeepsEvidence, MOVED),
    (Rule::RowThenEntity, WANTED),
    (Rule::PendingToItsWrite, WANTED),
    (Rule::AbortBeforeTakeOver, SHARED),
    (Rule::AbortBeforeAdopting, SHARED),
];

const BOUNDS: Bounds = Bounds::all_orders().with_faults(2, FAULTS);

#[test]
fn every_rule_is_needed() {
    for (rule, scene) in NEEDED {
        let explored = scene.breaking(rule).explore(Random::new(BOUNDS, 1, 10_000));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}

/// Built from the start, written when the builder is at its entries.
const WRITTEN: Library = Library::new(Rows, Build, ONE, MOVES).after(Duration::from_millis(600));
/// The value whose entry is one too many is taken.
const REVIVED: Library = Library::new(Rows, Repair, ONE, &[&[("x", Some(STRAY))]]);
/// A process is so slow that it is replaced, and then dies.
const SUPERSEDED: Bounds = Bounds::all_orders().switching(0).sparing_from(2).with_faults(
    2,
    &[
        Action::Pause(Duration::from_millis(850)),
        Action::Pause(Duration::from_millis(1300)),
        Action::CrashAfter,
    ],
);

/// Which scene with an index shows that a rule is needed, and within which bounds.
const NEEDED_BY_INDEXES: [(Rule, Library, Bounds); 8] = [
    (
        Rule::FreshStates,
        Library::new(Rows, Build, ONE, MOVES).after(Duration::from_millis(200)).with_workers(0),
        FAULT,
    ),
    (Rule::WaitForWriters, Library::new(Rows, Build, ONE, MOVES), FAULT),
    (Rule::ReadWindowAgain, Library { groups: STAYS, ..WRITTEN }, FAULT),
    (Rule::SettleDrafts, Library { kind: Beside, ..WRITTEN }, FAULT),
    (Rule::DanglingLast, WRITTEN, FAULT),
    (Rule::ScrubInVersion, REVIVED, FAULT),
    (Rule::AddByJournal, Library::new(Rows, Repair, ONE, MOVES), FAULT),
    (Rule::DropInVersion, Library::new(Rows, Rebuild, KEPT, MOVES).with_keepers(2, FOLLOWS), SUPERSEDED),
];

#[test]
fn every_rule_of_indexes_is_needed() {
    for (rule, scene, bounds) in NEEDED_BY_INDEXES {
        let explored = scene.breaking(rule).explore(Systematic::new(bounds));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}

#[test]
fn with_all_rules_a_builder_who_is_replaced_ends_right() {
    let replaced = WRITTEN.with_keepers(2, TAKES_OVER).after(STALE);
    replaced.explore(Systematic::new(SUPERSEDED)).assert_right("a builder who is replaced and goes on");
}

#[test]
fn with_all_rules_what_was_revived_and_what_was_built_again_stay() {
    REVIVED.explore(Systematic::new(FAULT)).assert_right("an entry that was revived");
    let dropped = Library::new(Rows, Rebuild, KEPT, MOVES).with_keepers(2, FOLLOWS);
    dropped.explore(Systematic::new(SUPERSEDED)).assert_right("one who drops is replaced and goes on");
}

#[test]
fn with_all_rules_the_same_scenes_end_right() {
    for (name, scene) in [
        ("one entity, moved twice", MOVED),
        ("a value given up and wanted back", WANTED),
        ("a value that three writers want", SHARED),
    ] {
        scene.explore(Random::new(BOUNDS, 1, 500)).assert_right(name);
    }
}
