//! Every rule of the protocol is needed: without it, a scene ends with a violation.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use super::chooser::{Bounds, Random, Systematic};
use super::index_model::STRAY;
use super::index_scene::EntryKind::{Local, Rows, UniqueLocal};
use super::index_scene::IndexScene;
use super::index_scene::Maintenance::{Build, Rebuild, Repair};
use super::journal_model::{PLAIN, UNIQUE};
use super::journal_scene::JournalScene;
use super::maintenance::{
    FAULT, ONE, REWRITE, REWRITE_SECOND, SAME_VALUE, SECOND_BUILD_START, SECOND_DROP_START, UPDATE,
    WRITER_AFTER_TAKE_OVER, X_AND_K,
};
use super::scheduler::Action;
use super::write_scenes::FAULTS;
use super::{Invariant, invariants};

/// One entity gets two new values.
const UPDATED_TWICE: JournalScene =
    JournalScene::new(PLAIN, &[("x", "a")], &[("x", Some("b")), ("x", Some("c"))])
        .trying(2)
        .with_workers(1);
/// One entity releases a value and claims it again; another entity claims it too.
const RELEASED_AND_CLAIMED: JournalScene = JournalScene::new(
    UNIQUE,
    &[("x", "a")],
    &[("x", Some("b")), ("x", Some("a")), ("y", Some("a"))],
)
.with_workers(1);
/// Two writers claim one value for one entity, and a third claims it for another entity.
const THREE_CLAIMS: JournalScene = JournalScene::new(
    UNIQUE,
    &[("x", "a")],
    &[("x", Some("b")), ("x", Some("b")), ("y", Some("b"))],
)
.with_workers(1);

/// One entity is changed and deleted under the retry adapter.
const RETRIED: JournalScene =
    JournalScene::new(PLAIN, &[("x", "a")], &[("x", Some("b")), ("x", None)]).under_retries();
/// A sweep releases a reservation that another entity claims.
const SWEPT: JournalScene = JournalScene::new(UNIQUE, &[], &[("x", Some("b")), ("y", Some("b"))])
    .without_queue()
    .with_sweepers(2);

/// Journal rows of another definition of the index are left.
const REDEFINED: JournalScene = JournalScene::new(UNIQUE, &[("x", "a")], &[("y", Some("b"))])
    .without_queue()
    .redefined()
    .with_sweepers(1);

/// A worker aborts a write, a sweep removes the abort row, and the slow writer commits.
const ABORT_ROW_SWEPT: JournalScene = JournalScene::new(PLAIN, &[("x", "a")], &[("x", Some("b"))])
    .with_workers(1)
    .with_sweepers(1);

/// A worker aborts a write whose slow writer reserves a value afterwards and dies.
const LATE_RESERVATION: JournalScene =
    JournalScene::new(UNIQUE, &[], &[("x", Some("b"))]).with_workers(1);

/// One process moves an entity, another changes it.
const MOVED_AND_UPDATED: JournalScene =
    JournalScene::new(UNIQUE, &[("x", "a")], &[("x", Some("b"))])
        .without_queue()
        .moving(&[("x", "d")])
        .with_sweepers(1);
/// The change of an entity is applied while another process moves it and a third claims its value.
const MOVED_AND_CLAIMED: JournalScene =
    JournalScene::new(UNIQUE, &[("x", "b")], &[("x", Some("a")), ("y", Some("a"))])
        .without_queue()
        .moving(&[("x", "d")])
        .with_sweepers(1);

/// The scene that shows the need of a rule, and a seed shortly before the first failing schedule.
const NEEDED: [(Invariant, JournalScene, u64); 22] = [
    (Invariant::TicketFirst, UPDATED_TWICE, 1),
    (Invariant::Recheck, UPDATED_TWICE, 1),
    (Invariant::ApplyBeforeClear, UPDATED_TWICE, 1),
    (Invariant::RowBeforeTicket, UPDATED_TWICE, 1),
    (Invariant::AbortAbsent, RELEASED_AND_CLAIMED, 3250),
    (Invariant::OneApplier, UPDATED_TWICE, 2000),
    (Invariant::CutOff, UPDATED_TWICE, 1),
    (Invariant::FindOutInLease, UPDATED_TWICE, 400),
    (Invariant::FindOutCutOff, UPDATED_TWICE, 6200),
    (Invariant::DoubtKeepsEvidence, UPDATED_TWICE, 1),
    (Invariant::RowThenEntity, RELEASED_AND_CLAIMED, 2500),
    (Invariant::PendingToItsWrite, RELEASED_AND_CLAIMED, 5150),
    (Invariant::AbortBeforeTakeOver, THREE_CLAIMS, 1),
    (Invariant::AbortBeforeAdopting, THREE_CLAIMS, 190),
    (Invariant::CommitInLease, SWEPT, 1),
    (Invariant::CommitInLease, ABORT_ROW_SWEPT, 240),
    (Invariant::AbortRowsStay, SWEPT, 2330),
    (Invariant::KnownVersions, RETRIED, 1950),
    (Invariant::ByDefinition, REDEFINED, 1),
    (Invariant::MarkSource, MOVED_AND_UPDATED, 1),
    (Invariant::GiveUpMoves, MOVED_AND_UPDATED, 1),
    (Invariant::PairValue, MOVED_AND_CLAIMED, 1),
];

const BOUNDS: Bounds = Bounds::all_orders().with_faults(2, FAULTS);

/// docs/proof.md says for every rule what happens without it.
#[test]
fn the_document_lists_every_rule() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proof.md");
    let document = fs::read_to_string(path).expect("the document is in the repository");
    let (_, rules) = document
        .split_once("\n## Rules\n")
        .expect("a section about the rules");
    let listed = rules
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let listed: BTreeSet<_> = listed.map(|(name, _)| name).collect();
    assert_eq!(listed, invariants::NAMES.into_iter().collect());
}

#[test]
fn every_rule_is_needed() {
    for (invariant, scene, seed) in NEEDED {
        let explored = scene
            .without_invariant(invariant)
            .explore(Random::new(BOUNDS, seed, 10_000).one_by_one());
        explored.assert_violation_without(invariant);
    }
}

/// A write of an entity while the build writes entries.
const WRITTEN_DURING_BUILD: IndexScene =
    IndexScene::new(Rows, Build, ONE, UPDATE).writers_start_at(Duration::from_millis(600));
/// A writer sets the value whose dangling entry the scrub removes.
const ENTRY_BECOMES_VALID: IndexScene =
    IndexScene::new(Rows, Repair, ONE, &[&[("x", Some(STRAY))]]);
/// A process pauses until another one replaces it; then it dies.
const REPLACED: Bounds = Bounds::all_orders()
    .switching(0)
    .sparing_from(2)
    .with_faults(
        2,
        &[
            Action::Pause(Duration::from_millis(850)),
            Action::Pause(Duration::from_millis(1300)),
            Action::CrashAfter,
        ],
    );

/// The same for the first maintainer only. It pauses longer, because a drop that finds the index delete-only waits for the lease of a builder.
const FIRST_REPLACED: Bounds = REPLACED.sparing_until(1).with_faults(
    2,
    &[
        Action::Pause(Duration::from_millis(1050)),
        Action::CrashAfter,
    ],
);
const VALID_BOUNDS: Bounds = FAULT.switching(0);

/// The index scene that shows the need of a rule, and its bounds.
const NEEDED_BY_INDEXES: [(Invariant, IndexScene, Bounds); 10] = [
    (
        Invariant::FreshStates,
        IndexScene::new(Rows, Build, ONE, UPDATE)
            .writers_start_at(Duration::from_millis(200))
            .with_workers(0),
        FAULT,
    ),
    (
        Invariant::WaitForWriters,
        IndexScene::new(Rows, Build, ONE, UPDATE),
        FAULT,
    ),
    (
        Invariant::OneBuilder,
        WRITTEN_DURING_BUILD
            .with_maintainers(2, SECOND_BUILD_START)
            .writers_start_at(WRITER_AFTER_TAKE_OVER),
        REPLACED,
    ),
    (
        Invariant::ReadWindowAgain,
        IndexScene {
            groups: REWRITE,
            ..WRITTEN_DURING_BUILD
        },
        FAULT,
    ),
    (
        Invariant::DrainInFlightWrites,
        IndexScene {
            kind: Local,
            ..WRITTEN_DURING_BUILD
        },
        FAULT,
    ),
    (
        Invariant::ReadLocalConflicts,
        IndexScene {
            kind: UniqueLocal,
            start: SAME_VALUE,
            groups: REWRITE_SECOND,
            ..WRITTEN_DURING_BUILD
        },
        FAULT,
    ),
    (Invariant::DanglingLast, WRITTEN_DURING_BUILD, FAULT),
    (Invariant::ScrubInVersion, ENTRY_BECOMES_VALID, VALID_BOUNDS),
    (
        Invariant::AddByJournal,
        IndexScene::new(Rows, Repair, ONE, UPDATE),
        FAULT,
    ),
    (
        Invariant::DropInVersion,
        IndexScene::new(Rows, Rebuild, X_AND_K, UPDATE).with_maintainers(2, SECOND_DROP_START),
        FIRST_REPLACED,
    ),
];

#[test]
fn every_rule_of_indexes_is_needed() {
    for (invariant, scene, bounds) in NEEDED_BY_INDEXES {
        let explored = scene
            .without_invariant(invariant)
            .explore(Systematic::new(bounds));
        explored.assert_violation_without(invariant);
    }
}

/// A writer reserves so slowly that its ticket is gone, and dies.
#[test]
fn every_reservation_has_a_ticket() {
    const DEADLY: &[Action] = &[
        Action::Stall(Duration::from_millis(850)),
        Action::CrashAfter,
    ];
    let bounds = Bounds::all_orders()
        .switching(0)
        .sparing_from(1)
        .with_faults(2, DEADLY);
    LATE_RESERVATION
        .explore(Systematic::new(bounds))
        .assert_no_violation("a slow writer with a reservation, and a worker");
    let explored = LATE_RESERVATION
        .without_invariant(Invariant::ReserveInLease)
        .explore(Systematic::new(bounds));
    explored.assert_violation_without(Invariant::ReserveInLease);
}

#[test]
fn a_replaced_build_ends_without_violation() {
    let replaced = WRITTEN_DURING_BUILD
        .with_maintainers(2, SECOND_BUILD_START)
        .writers_start_at(WRITER_AFTER_TAKE_OVER);
    replaced
        .explore(Systematic::new(REPLACED))
        .assert_no_violation("a build that another process replaces continues");
}

#[test]
fn valid_and_rebuilt_entries_stay() {
    ENTRY_BECOMES_VALID
        .explore(Systematic::new(VALID_BOUNDS))
        .assert_no_violation("a dangling entry that becomes valid");
    let dropped =
        IndexScene::new(Rows, Rebuild, X_AND_K, UPDATE).with_maintainers(2, SECOND_DROP_START);
    dropped
        .explore(Systematic::new(FIRST_REPLACED))
        .assert_no_violation("a drop that another process replaces continues");
}

#[test]
fn the_same_scenes_with_all_rules_have_no_violation() {
    for (name, scene) in [
        ("one entity, moved twice", UPDATED_TWICE),
        ("a value released and claimed again", RELEASED_AND_CLAIMED),
        ("a value that three writers claim", THREE_CLAIMS),
        ("one entity, moved and removed under retries", RETRIED),
        ("two entities claim one value, and a sweep", SWEPT),
        ("an aborted write whose abort row is swept", ABORT_ROW_SWEPT),
        (
            "a write that is aborted before its reservation",
            LATE_RESERVATION,
        ),
        ("an entity that is moved and changed", MOVED_AND_UPDATED),
        (
            "an entity that is moved while another claims its value",
            MOVED_AND_CLAIMED,
        ),
    ] {
        scene
            .explore(Random::new(BOUNDS, 1, 300))
            .assert_no_violation(name);
    }
}
