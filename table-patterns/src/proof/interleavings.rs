//! Every order of the requests in small scenes, bounded and random ones in larger scenes.

use std::time::Duration;

use super::choose::{Bounds, Random, Systematic};
use super::explore::Explored;
use super::scene::Scene;
use super::stage::Action;
use super::world::{BOTH, LEASE, LISTED, PLAIN, UNIQUE};

/// Everything that can go wrong: also pauses to the end of a lease, and beyond a worker's
/// recovery, of the process or of what is in front of the store.
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
        Scene::new(PLAIN, START, writes).trying(2).explore(Systematic::new(Bounds::all_orders()))
    });
    Explored::sum(explored).assert_right("two writers");
}

#[test]
fn two_entities_that_want_one_value_in_every_order() {
    let scene = Scene::new(UNIQUE, START, &[("x", Some("b")), ("y", Some("b"))]);
    scene.explore(Systematic::new(Bounds::all_orders())).assert_right("one value for two");
}

#[test]
fn a_value_given_up_and_wanted_in_every_order() {
    let scene = Scene::new(UNIQUE, START, &[("x", Some("b")), ("y", Some("a"))]);
    scene.explore(Systematic::new(Bounds::all_orders())).assert_right("a value changes hands");
}

#[test]
fn a_writer_and_a_worker_with_any_fault_in_every_order() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS);
    let changes = Scene::new(PLAIN, START, &[("x", Some("b"))]).with_workers(1);
    changes.explore(Systematic::new(bounds)).assert_right("a writer and a worker");
    let deletes = Scene::new(PLAIN, START, &[("x", None)]).with_workers(1);
    let explored = deletes.explore(Systematic::new(bounds.switching(1)));
    explored.assert_right("a writer who deletes and a worker");
}

#[test]
fn a_reserving_writer_and_a_worker_with_any_fault_of_the_writer() {
    let scene = Scene::new(UNIQUE, START, &[("x", Some("b"))]).with_workers(1);
    let bounds = Bounds::all_orders().with_faults(1, FAULTS).sparing_from(1).switching(0);
    scene.explore(Systematic::new(bounds)).assert_right("a reserving writer and a worker");
}

#[test]
fn a_writer_and_a_sweep_with_any_fault_in_every_order() {
    let explored = [PLAIN, UNIQUE].map(|people| {
        let scene = Scene::new(people, START, &[("x", Some("b"))]).without_queue().with_sweepers(1);
        scene.explore(Systematic::new(Bounds::all_orders().with_faults(1, FAULTS)))
    });
    Explored::sum(explored).assert_right("a writer and a sweep");
}

/// Answers that say that something took effect, and cannot be read.
pub(super) const UNREADABLE: &[Action] = &[Action::BreakAnswer];

#[test]
fn answers_that_cannot_be_read() {
    let bounds = Bounds::all_orders().switching(1).with_faults(1, UNREADABLE);
    let changes = Scene::new(BOTH, START, &[("x", Some("b"))]).with_workers(1);
    changes.explore(Systematic::new(bounds)).assert_right("a writer, a worker and an unreadable answer");
    let listed = Scene::new(LISTED, START, &[("x", Some("b"))]).with_workers(1);
    listed.explore(Systematic::new(bounds)).assert_right("a writer of lists and an unreadable answer");
    let swept = Scene::new(UNIQUE, START, &[("x", None)]).without_queue().with_sweepers(1);
    swept.explore(Systematic::new(bounds)).assert_right("a writer, a sweep and an unreadable answer");
}

/// What writes of an older definition have left is found under the one that holds now.
#[test]
fn what_is_left_of_another_definition() {
    let bounds = Bounds::all_orders().switching(1);
    for (people, name) in [(UNIQUE, "unique rows that were plain"), (PLAIN, "plain rows that were unique")] {
        let writes = &[("x", Some("b")), ("y", Some("a"))];
        let scene = Scene::new(people, START, writes).without_queue().redefined().with_sweepers(1);
        scene.explore(Systematic::new(bounds)).assert_right(name);
        let faults = Bounds::all_orders().with_faults(2, FAULTS);
        scene.explore(Random::new(faults, 1, 200)).assert_right(name);
    }
}

#[test]
fn two_workers_after_a_crash() {
    let scene = Scene::new(PLAIN, START, &[("x", Some("b"))]).with_workers(2);
    let crashes = &[Action::CrashBefore, Action::CrashAfter];
    let bounds = Bounds::all_orders().with_faults(1, crashes).sparing_from(1).switching(1);
    scene.explore(Systematic::new(bounds)).assert_right("two workers after a crash");
}

#[test]
fn two_writers_and_a_fault_with_one_switch() {
    let scene = Scene::new(PLAIN, START, &[("x", Some("b")), ("x", Some("c"))]);
    let bounds = Bounds::all_orders().switching(1).with_faults(1, FAULTS);
    scene.explore(Systematic::new(bounds)).assert_right("two writers and a fault");
}

#[test]
fn two_entities_that_want_one_value_and_a_fault_with_one_switch() {
    let scene = Scene::new(UNIQUE, START, &[("x", Some("b")), ("y", Some("b"))]);
    let bounds = Bounds::all_orders().switching(1).with_faults(1, FAULTS);
    scene.explore(Systematic::new(bounds)).assert_right("one value for two, and a fault");
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
        Scene::new(LISTED, START, writes).without_queue().explore(Systematic::new(Bounds::all_orders()))
    });
    Explored::sum(explored).assert_right("two writers and lists");
}

#[test]
fn writers_of_lists_with_any_fault_and_a_worker() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS).switching(1);
    let scene = Scene::new(LISTED, START, &[("x", Some("b"))]).with_workers(1);
    scene.explore(Systematic::new(bounds)).assert_right("a writer of lists and a worker");
    let scene = Scene::new(LISTED, START, &[("x", Some("b")), ("y", Some("b"))]);
    scene.explore(Systematic::new(bounds.switching(0))).assert_right("two in one list, and a fault");
}

#[test]
fn crowds_in_lists_by_chance() {
    const CROWD: &[super::scene::Write] =
        &[("x", Some("b")), ("x", Some("a")), ("y", Some("b")), ("y", None)];
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let crowd = Scene::new(LISTED, &[("x", "a"), ("y", "c")], CROWD).trying(3).with_workers(2);
    crowd.explore(Random::new(bounds, 1000, 300)).assert_right("a crowd in lists");
    let swept = crowd.without_queue().with_sweepers(1);
    swept.explore(Random::new(bounds, 5000, 300)).assert_right("a crowd in lists and sweepers");
}

#[test]
fn crowds_by_chance() {
    const CROWD: &[super::scene::Write] =
        &[("x", Some("b")), ("x", Some("a")), ("y", Some("b")), ("y", None)];
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let crowd = Scene::new(BOTH, &[("x", "a"), ("y", "c")], CROWD).trying(3).with_workers(2);
    crowd.explore(Random::new(bounds, 1000, 300)).assert_right("a crowd");
    let swept = crowd.with_sweepers(1);
    swept.explore(Random::new(bounds, 5000, 300)).assert_right("a crowd and a sweeper");
    swept.without_queue().explore(Random::new(bounds, 9000, 300)).assert_right("a crowd and sweepers");
}

/// Two who write one entity, or want one value, while lost requests are sent again.
#[test]
fn writers_under_retries_with_any_fault() {
    let bounds = Bounds::all_orders().switching(0).with_faults(1, FAULTS);
    let all: [&[_]; 2] = [&[("x", Some("b")), ("x", None)], &[("x", Some("b")), ("y", Some("b"))]];
    let explored = all.map(|writes| {
        let scene = Scene::new(BOTH, START, writes).without_queue().under_retries();
        scene.explore(Systematic::new(bounds))
    });
    Explored::sum(explored).assert_right("two writers under retries, and a fault");
}

#[test]
fn crowds_under_retries_by_chance() {
    const CROWD: &[super::scene::Write] =
        &[("x", Some("b")), ("x", Some("a")), ("y", Some("b")), ("y", None)];
    let bounds = Bounds::all_orders().with_faults(4, FAULTS);
    for (people, what) in [(BOTH, "a crowd under retries"), (LISTED, "a crowd in lists under retries")] {
        let crowd = Scene::new(people, &[("x", "a"), ("y", "c")], CROWD).trying(2).with_workers(1);
        crowd.under_retries().explore(Random::new(bounds, 1000, 200)).assert_right(what);
    }
}
