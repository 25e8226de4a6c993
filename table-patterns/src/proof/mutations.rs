//! Each rule that could seem superfluous is left out: the suite must notice.

use std::time::Duration;

use super::choose::{Bounds, Random, Systematic};
use super::interleavings::FAULTS;
use super::keepers::{DOUBLE, FAULT, FOLLOWS, KEPT, MOVES, ONE, REPEATED, STALE, STAYS, TAKES_OVER};
use super::library::Keeping::{Build, Rebuild, Repair};
use super::library::Kind::{Beside, Rows, UniqueBeside};
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

/// One entity is moved and removed, while lost requests are sent again.
const RETRIED: Scene = Scene::new(PLAIN, &[("x", "a")], &[("x", Some("b")), ("x", None)]).under_retries();
/// A value that another entity wants is given away by a sweep.
const SWEPT: Scene =
    Scene::new(UNIQUE, &[], &[("x", Some("b")), ("y", Some("b"))]).without_queue().with_sweepers(2);

/// What was committed under another definition of the index is left.
const REDEFINED: Scene =
    Scene::new(UNIQUE, &[("x", "a")], &[("y", Some("b"))]).without_queue().redefined().with_sweepers(1);

/// A worker gives a write up, a sweep forgets that, and the writer, who was slow, commits.
const FORGOTTEN: Scene =
    Scene::new(PLAIN, &[("x", "a")], &[("x", Some("b"))]).with_workers(1).with_sweepers(1);

/// A worker gives a write up whose writer is slow to reserve, and dies.
const NAMED: Scene = Scene::new(UNIQUE, &[], &[("x", Some("b"))]).with_workers(1);

/// An entity is moved and changed.
const MOVED_AWAY: Scene = Scene::new(UNIQUE, &[("x", "a")], &[("x", Some("b"))])
    .without_queue()
    .moving(&[("x", "d")])
    .with_sweepers(1);
/// An entity is moved whose change is being applied, and another one claims its value.
const CLAIMED: Scene = Scene::new(UNIQUE, &[("x", "b")], &[("x", Some("a")), ("y", Some("a"))])
    .without_queue()
    .moving(&[("x", "d")])
    .with_sweepers(1);

/// Which scene shows that a rule is needed, and a seed not long before the first that does.
const NEEDED: [(Rule, Scene, u64); 22] = [
    (Rule::TicketFirst, MOVED, 1),
    (Rule::Recheck, MOVED, 1),
    (Rule::ApplyBeforeClear, MOVED, 1),
    (Rule::RowBeforeTicket, MOVED, 1),
    (Rule::AbortAbsent, WANTED, 3250),
    (Rule::OneApplier, MOVED, 2000),
    (Rule::CutOff, MOVED, 1),
    (Rule::FindOutInLease, MOVED, 400),
    (Rule::FindOutCutOff, MOVED, 6200),
    (Rule::DoubtKeepsEvidence, MOVED, 1),
    (Rule::RowThenEntity, WANTED, 2500),
    (Rule::PendingToItsWrite, WANTED, 5150),
    (Rule::AbortBeforeTakeOver, SHARED, 1),
    (Rule::AbortBeforeAdopting, SHARED, 190),
    (Rule::CommitInLease, SWEPT, 1),
    (Rule::CommitInLease, FORGOTTEN, 240),
    (Rule::AbortRowsStay, SWEPT, 2330),
    (Rule::KnownVersions, RETRIED, 1950),
    (Rule::ByDefinition, REDEFINED, 1),
    (Rule::MarkSource, MOVED_AWAY, 1),
    (Rule::GiveUpMoves, MOVED_AWAY, 1),
    (Rule::PairValue, CLAIMED, 1),
];

const BOUNDS: Bounds = Bounds::all_orders().with_faults(2, FAULTS);

#[test]
fn every_rule_is_needed() {
    for (rule, scene, seed) in NEEDED {
        let explored = scene.breaking(rule).explore(Random::new(BOUNDS, seed, 10_000));
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

/// The same of the first keeper alone, which pauses or dies.
const OVERTAKEN: Bounds = SUPERSEDED
    .sparing_until(1)
    .with_faults(2, &[Action::Pause(Duration::from_millis(850)), Action::CrashAfter]);
const REVIVING: Bounds = FAULT.switching(0);

/// Which scene with an index shows that a rule is needed, and within which bounds.
const NEEDED_BY_INDEXES: [(Rule, Library, Bounds); 10] = [
    (
        Rule::FreshStates,
        Library::new(Rows, Build, ONE, MOVES).after(Duration::from_millis(200)).with_workers(0),
        FAULT,
    ),
    (Rule::WaitForWriters, Library::new(Rows, Build, ONE, MOVES), FAULT),
    (Rule::OneBuilder, WRITTEN.with_keepers(2, TAKES_OVER).after(STALE), SUPERSEDED),
    (Rule::ReadWindowAgain, Library { groups: STAYS, ..WRITTEN }, FAULT),
    (Rule::SettleDrafts, Library { kind: Beside, ..WRITTEN }, FAULT),
    (Rule::LookBeside, Library { kind: UniqueBeside, start: DOUBLE, groups: REPEATED, ..WRITTEN }, FAULT),
    (Rule::DanglingLast, WRITTEN, FAULT),
    (Rule::ScrubInVersion, REVIVED, REVIVING),
    (Rule::AddByJournal, Library::new(Rows, Repair, ONE, MOVES), FAULT),
    (Rule::DropInVersion, Library::new(Rows, Rebuild, KEPT, MOVES).with_keepers(2, FOLLOWS), OVERTAKEN),
];

#[test]
fn every_rule_of_indexes_is_needed() {
    for (rule, scene, bounds) in NEEDED_BY_INDEXES {
        let explored = scene.breaking(rule).explore(Systematic::new(bounds));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}

/// Who is slow to reserve finds the ticket gone, and dies.
#[test]
fn what_is_reserved_is_named_by_a_ticket() {
    const DEADLY: &[Action] = &[Action::Stall(Duration::from_millis(850)), Action::CrashAfter];
    let bounds = Bounds::all_orders().switching(0).sparing_from(1).with_faults(2, DEADLY);
    NAMED.explore(Systematic::new(bounds)).assert_right("a slow writer who reserves, and a worker");
    let explored = NAMED.breaking(Rule::ReserveInLease).explore(Systematic::new(bounds));
    let (what, _) = explored.wrong.expect("nothing notices a reservation that no ticket names");
    eprintln!("without ReserveInLease, schedule {} ends wrong: {what}", explored.schedules);
}

#[test]
fn with_all_rules_a_builder_who_is_replaced_ends_right() {
    let replaced = WRITTEN.with_keepers(2, TAKES_OVER).after(STALE);
    replaced.explore(Systematic::new(SUPERSEDED)).assert_right("a builder who is replaced and goes on");
}

#[test]
fn with_all_rules_what_was_revived_and_what_was_built_again_stay() {
    REVIVED.explore(Systematic::new(REVIVING)).assert_right("an entry that was revived");
    let dropped = Library::new(Rows, Rebuild, KEPT, MOVES).with_keepers(2, FOLLOWS);
    dropped.explore(Systematic::new(OVERTAKEN)).assert_right("one who drops is replaced and goes on");
}

#[test]
fn with_all_rules_the_same_scenes_end_right() {
    for (name, scene) in [
        ("one entity, moved twice", MOVED),
        ("a value given up and wanted back", WANTED),
        ("a value that three writers want", SHARED),
        ("one entity, moved and removed under retries", RETRIED),
        ("one value for two, and a sweep", SWEPT),
        ("a write that is given up and forgotten", FORGOTTEN),
        ("a write that is given up before it reserves", NAMED),
        ("an entity that is moved and changed", MOVED_AWAY),
        ("an entity that is moved while another claims its value", CLAIMED),
    ] {
        scene.explore(Random::new(BOUNDS, 1, 300)).assert_right(name);
    }
}
