//! Scenes of writers, workers and sweeps: all orders in small scenes, bounded and random orders in larger ones.

use std::time::Duration;

use super::chooser::{Bounds, Random, Systematic};
use super::explorer::Explored;
use super::journal_model::{BOTH, LEASE, LISTED, PLAIN, TWICE, UNIQUE};
use super::journal_scene::JournalScene;
use super::scheduler::Action;

/// All faults. The pauses last to the end of a lease, or longer than a worker needs to recover a write.
pub(super) const FAULTS: &[Action] = &[
    Action::CrashBefore,
    Action::CrashAfter,
    Action::Lose,
    Action::LoseAnswer,
    Action::Late,
    Action::Stall(LEASE),
    Action::Stall(Duration::from_millis(850)),
    Action::StallUnanswered(Duration::from_millis(850)),
    Action::Resend(Duration::from_millis(850)),
];

const START: &[(&str, &str)] = &[("x", "a")];

#[test]
fn two_writers_of_one_entity_in_every_order() {
    let all: [&[_]; 4] = [
        &[("x", Some("b")), ("x", Some("c"))],
        &[("x", Some("b")), ("x", None)],
        &[("x", Some("b")), ("x", Some("a"))],
        &[("x", Some("b")), ("x", Some("b"))],
    ];
    let explored = all.map(|writes| {
        JournalScene::new(PLAIN, START, writes)
            .trying(2)
            .explore(Systematic::new(Bounds::all_orders()))
    });
    Explored::sum(explored).assert_no_violation("two writers");
}

#[test]
fn two_entities_claim_one_value_in_every_order() {
    let scene = JournalScene::new(UNIQUE, START, &[("x", Some("b")), ("y", Some("b"))]);
    scene
        .explore(Systematic::new(Bounds::all_orders()))
        .assert_no_violation("two entities claim one value");
}

#[test]
fn one_entity_releases_a_value_and_another_claims_it_in_every_order() {
    let scene = JournalScene::new(UNIQUE, START, &[("x", Some("b")), ("y", Some("a"))]);
    scene
        .explore(Systematic::new(Bounds::all_orders()))
        .assert_no_violation("one entity releases a value and another claims it");
}

#[test]
fn a_writer_and_a_worker_with_any_fault_in_every_order() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS);
    let changes = JournalScene::new(PLAIN, START, &[("x", Some("b"))]).with_workers(1);
    changes
        .explore(Systematic::new(bounds))
        .assert_no_violation("a writer and a worker");
    let deletes = JournalScene::new(PLAIN, START, &[("x", None)]).with_workers(1);
    let explored = deletes.explore(Systematic::new(bounds.switching(1)));
    explored.assert_no_violation("a writer that deletes and a worker");
}

#[test]
fn a_reserving_writer_and_a_worker_with_any_fault_of_the_writer() {
    let scene = JournalScene::new(UNIQUE, START, &[("x", Some("b"))]).with_workers(1);
    let bounds = Bounds::all_orders()
        .with_faults(1, FAULTS)
        .sparing_from(1)
        .switching(0);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("a reserving writer and a worker");
}

#[test]
fn a_writer_and_a_sweep_with_any_fault_in_every_order() {
    let explored = [PLAIN, UNIQUE].map(|kinds| {
        let scene = JournalScene::new(kinds, START, &[("x", Some("b"))])
            .without_queue()
            .with_sweepers(1);
        scene.explore(Systematic::new(Bounds::all_orders().with_faults(1, FAULTS)))
    });
    Explored::sum(explored).assert_no_violation("a writer and a sweep");
}

/// The requests of a write that are sent at the same time. Two writers with two values each have too many orders for all of them.
#[test]
fn writes_whose_requests_overlap() {
    let orders = Bounds::all_orders().overlapping();
    let changed = JournalScene::new(PLAIN, START, &[("x", Some("b")), ("x", None)]).without_queue();
    changed
        .explore(Systematic::new(orders.switching(2)))
        .assert_no_violation("two writers whose entries overlap");
    let claimed =
        JournalScene::new(TWICE, &[], &[("x", Some("b")), ("y", Some("b"))]).without_queue();
    claimed
        .explore(Random::new(orders, 1, 1000))
        .assert_no_violation("two entities claim two values whose reservations overlap");
}

#[test]
fn writes_whose_requests_overlap_with_any_fault() {
    let bounds = Bounds::all_orders().overlapping().with_faults(1, FAULTS);
    for (kinds, what) in [
        (PLAIN, "entries"),
        (TWICE, "reservations"),
        (BOTH, "requests of both kinds"),
    ] {
        let inserts = JournalScene::new(kinds, &[], &[("x", Some("b"))]).with_workers(1);
        // Values are inserted: a change has four requests at the same time, and 24 orders of them.
        let explored = inserts.explore(Systematic::new(bounds.switching(0)));
        explored.assert_no_violation(&format!(
            "a writer with overlapping {what}, a worker and a fault"
        ));
        let both =
            JournalScene::new(kinds, START, &[("x", Some("b")), ("y", Some("b"))]).without_queue();
        let explored =
            both.with_sweepers(1)
                .explore(Random::new(bounds.with_faults(3, FAULTS), 1, 300));
        explored.assert_no_violation(&format!(
            "two writers with overlapping {what}, a sweep and faults"
        ));
    }
}

/// The journal row and the ticket are cleared after the answer.
#[test]
fn writes_that_are_cleared_later() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS);
    let changes = JournalScene::new(PLAIN, START, &[("x", Some("b"))])
        .with_workers(1)
        .cleared_later();
    changes
        .explore(Systematic::new(bounds.switching(1)))
        .assert_no_violation("a writer that clears later, a worker and a fault");
    const CROWD: &[super::journal_scene::Write] = &[
        ("x", Some("b")),
        ("x", Some("a")),
        ("y", Some("b")),
        ("y", None),
    ];
    let crowd = JournalScene::new(BOTH, &[("x", "a"), ("y", "c")], CROWD)
        .trying(3)
        .with_workers(2);
    crowd
        .cleared_later()
        .explore(Random::new(bounds.with_faults(3, FAULTS), 1000, 300))
        .assert_no_violation("many processes that clear later");
}

/// Answers that say *applied* and cannot be read.
pub(super) const UNREADABLE: &[Action] = &[Action::BreakAnswer];

#[test]
fn writers_with_unreadable_answers() {
    let bounds = Bounds::all_orders().switching(1).with_faults(1, UNREADABLE);
    let changes = JournalScene::new(BOTH, START, &[("x", Some("b"))]).with_workers(1);
    changes
        .explore(Systematic::new(bounds))
        .assert_no_violation("a writer, a worker and an unreadable answer");
    let listed = JournalScene::new(LISTED, START, &[("x", Some("b"))]).with_workers(1);
    listed
        .explore(Systematic::new(bounds))
        .assert_no_violation("a writer of lists and an unreadable answer");
    let swept = JournalScene::new(UNIQUE, START, &[("x", None)])
        .without_queue()
        .with_sweepers(1);
    swept
        .explore(Systematic::new(bounds))
        .assert_no_violation("a writer, a sweep and an unreadable answer");
}

/// Journal rows of an older definition of the index are applied under the current definition.
#[test]
fn journal_rows_of_another_definition() {
    let bounds = Bounds::all_orders().switching(1);
    for (kinds, name) in [
        (UNIQUE, "a definition that became unique"),
        (PLAIN, "a definition that is no longer unique"),
    ] {
        let writes = &[("x", Some("b")), ("y", Some("a"))];
        let scene = JournalScene::new(kinds, START, writes)
            .without_queue()
            .redefined()
            .with_sweepers(1);
        scene
            .explore(Systematic::new(bounds))
            .assert_no_violation(name);
        let faults = Bounds::all_orders().with_faults(2, FAULTS);
        scene
            .explore(Random::new(faults, 1, 200))
            .assert_no_violation(name);
    }
}

#[test]
fn two_workers_after_a_crash() {
    let scene = JournalScene::new(PLAIN, START, &[("x", Some("b"))]).with_workers(2);
    let crashes = &[Action::CrashBefore, Action::CrashAfter];
    let bounds = Bounds::all_orders()
        .with_faults(1, crashes)
        .sparing_from(1)
        .switching(1);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("two workers after a crash");
}

#[test]
fn two_writers_and_a_fault_with_one_switch() {
    let scene = JournalScene::new(PLAIN, START, &[("x", Some("b")), ("x", Some("c"))]);
    let bounds = Bounds::all_orders().switching(1).with_faults(1, FAULTS);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("two writers and a fault");
}

#[test]
fn two_entities_claim_one_value_and_a_fault_with_one_switch() {
    let scene = JournalScene::new(UNIQUE, START, &[("x", Some("b")), ("y", Some("b"))]);
    let bounds = Bounds::all_orders().switching(1).with_faults(1, FAULTS);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("two entities claim one value, and a fault");
}

#[test]
fn two_writers_and_lists_in_every_order() {
    let all: [&[_]; 4] = [
        &[("x", Some("b")), ("x", Some("c"))],
        &[("x", Some("b")), ("x", None)],
        &[("x", Some("b")), ("y", Some("b"))],
        &[("x", None), ("y", Some("a"))],
    ];
    let explored = all.map(|writes| {
        JournalScene::new(LISTED, START, writes)
            .without_queue()
            .explore(Systematic::new(Bounds::all_orders()))
    });
    Explored::sum(explored).assert_no_violation("two writers and lists");
}

#[test]
fn writers_of_lists_with_any_fault_and_a_worker() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS).switching(1);
    let scene = JournalScene::new(LISTED, START, &[("x", Some("b"))]).with_workers(1);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("a writer of lists and a worker");
    let scene = JournalScene::new(LISTED, START, &[("x", Some("b")), ("y", Some("b"))]);
    scene
        .explore(Systematic::new(bounds.switching(0)))
        .assert_no_violation("two writers of one list, and a fault");
}

#[test]
fn many_writers_of_lists_at_random() {
    const CROWD: &[super::journal_scene::Write] = &[
        ("x", Some("b")),
        ("x", Some("a")),
        ("y", Some("b")),
        ("y", None),
    ];
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let crowd = JournalScene::new(LISTED, &[("x", "a"), ("y", "c")], CROWD)
        .trying(3)
        .with_workers(2);
    crowd
        .explore(Random::new(bounds, 1000, 300))
        .assert_no_violation("many processes in lists");
    let swept = crowd.without_queue().with_sweepers(1);
    swept
        .explore(Random::new(bounds, 5000, 300))
        .assert_no_violation("many processes in lists and sweeps");
}

#[test]
fn many_processes_at_random() {
    const CROWD: &[super::journal_scene::Write] = &[
        ("x", Some("b")),
        ("x", Some("a")),
        ("y", Some("b")),
        ("y", None),
    ];
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let crowd = JournalScene::new(BOTH, &[("x", "a"), ("y", "c")], CROWD)
        .trying(3)
        .with_workers(2);
    crowd
        .explore(Random::new(bounds, 1000, 300))
        .assert_no_violation("many processes");
    let swept = crowd.with_sweepers(1);
    swept
        .explore(Random::new(bounds, 5000, 300))
        .assert_no_violation("many processes and a sweep");
    swept
        .without_queue()
        .explore(Random::new(bounds, 9000, 300))
        .assert_no_violation("many processes and sweeps");
}

/// Two writers of one entity, or of one value, under the retry adapter.
#[test]
fn writers_under_retries_with_any_fault() {
    let bounds = Bounds::all_orders().switching(0).with_faults(1, FAULTS);
    let all: [&[_]; 2] = [
        &[("x", Some("b")), ("x", None)],
        &[("x", Some("b")), ("y", Some("b"))],
    ];
    let explored = all.map(|writes| {
        let scene = JournalScene::new(BOTH, START, writes)
            .without_queue()
            .under_retries();
        scene.explore(Systematic::new(bounds))
    });
    Explored::sum(explored).assert_no_violation("two writers under retries, and a fault");
}

#[test]
fn many_processes_under_retries_at_random() {
    const CROWD: &[super::journal_scene::Write] = &[
        ("x", Some("b")),
        ("x", Some("a")),
        ("y", Some("b")),
        ("y", None),
    ];
    let bounds = Bounds::all_orders().with_faults(4, FAULTS);
    for (kinds, what) in [
        (BOTH, "many processes under retries"),
        (LISTED, "many processes in lists under retries"),
    ] {
        let crowd = JournalScene::new(kinds, &[("x", "a"), ("y", "c")], CROWD)
            .trying(2)
            .with_workers(1);
        crowd
            .under_retries()
            .explore(Random::new(bounds, 1000, 200))
            .assert_no_violation(what);
    }
}
