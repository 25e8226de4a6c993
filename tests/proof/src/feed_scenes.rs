//! Scenes of a change feed: writers of one partition, moves, trims, builds and drops.

use std::time::Duration;

use super::Invariant;
use super::chooser::{Bounds, Random, Systematic};
use super::explorer::Explored;
use super::feed_model::{FeedScene, FeedUpkeep};
use super::index_scene::EntryKind::{Rows, Unique};
use super::journal_model::LEASE;
use super::journal_scene::Write;
use super::scheduler::Action;
use super::write_scenes::{FAULTS, UNREADABLE};

const X: &[(&str, &str)] = &[("x", "a")];
/// Each writer has an entity of its own, and the second writes twice.
const OWN_ENTITIES: &[&[Write]] = &[&[("x", Some("b"))], &[("y", Some("c")), ("y", None)]];
const ONE_ENTITY: &[&[Write]] = &[&[("x", Some("b"))], &[("x", None), ("x", Some("c"))]];
/// The first writer writes twice: by then its process knows the counter.
const TWICE_AND_ONCE: &[&[Write]] = &[&[("x", Some("b")), ("x", Some("c"))], &[("y", Some("d"))]];
/// Two writers change one entity, and the second one another.
const TWO_OF_ONE: &[&[Write]] = &[
    &[("x", Some("b"))],
    &[("y", Some("c"))],
    &[("x", Some("d"))],
];
/// The second writer is in another process than the first one and the move.
const AROUND_A_MOVE: FeedScene =
    FeedScene::new(Some(Unique), X, &[&[("y", Some("c"))], &[("x", None)]])
        .moving(MOVE)
        .in_processes(&[0, 1, 0]);
const CROWD: &[&[Write]] = &[
    &[("x", Some("b")), ("y", Some("c"))],
    &[("y", Some("a")), ("z", Some("e"))],
    &[("x", None), ("x", Some("f"))],
    &[("w", Some("g"))],
];
const MOVE: &[(&str, &str)] = &[("x", "d")];

/// The faults of one of several tasks, and of their process.
const TASK_FAULTS: &[Action] = &[
    Action::CrashAfter,
    Action::CancelBefore,
    Action::CancelAfter,
    Action::LoseAnswer,
    Action::Late,
    Action::Stall(LEASE),
    Action::Stall(Duration::from_millis(850)),
];

const fn switching(switches: usize) -> Bounds {
    Bounds::all_orders().switching(switches)
}

/// One fault, and no switch.
const FAULT: Bounds = switching(0).with_faults(1, FAULTS);

#[test]
fn two_writers_of_a_feed() {
    for (remote, what) in [(None, ""), (Some(Rows), " with remote entries")] {
        let explored = [OWN_ENTITIES, ONE_ENTITY].map(|writers| {
            FeedScene::new(remote, X, writers).explore(Systematic::new(switching(2)))
        });
        Explored::sum(explored).assert_no_violation(&format!("two writers of a feed{what}"));
    }
}

#[test]
fn two_writers_of_a_feed_a_worker_and_a_fault() {
    let scene = FeedScene::new(Some(Rows), X, TWICE_AND_ONCE).with_workers(1);
    scene
        .explore(Systematic::new(FAULT))
        .assert_no_violation("two writers of a feed, a worker and a fault");
    let unreadable = switching(1).with_faults(1, UNREADABLE);
    let scene = FeedScene::new(Some(Rows), X, ONE_ENTITY);
    scene
        .explore(Systematic::new(unreadable))
        .assert_no_violation("two writers of a feed and an unreadable answer");
    let local = FeedScene::new(None, X, OWN_ENTITIES);
    local
        .explore(Systematic::new(switching(1).with_faults(1, FAULTS)))
        .assert_no_violation("two writers of a feed without a journal, and a fault");
}

#[test]
fn many_writers_of_a_feed_at_random() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    for (remote, seed) in [(Rows, 1_000), (Unique, 5_000)] {
        let scene = FeedScene::new(Some(remote), X, CROWD).with_workers(2);
        scene
            .explore(Random::new(bounds, seed, 150))
            .assert_no_violation(&format!("many writers of a feed, {remote:?}"));
    }
}

/// The tasks of a process share its counters.
#[test]
fn tasks_of_one_process_and_a_feed() {
    let scene = FeedScene::new(None, X, TWO_OF_ONE).in_processes(&[0, 0, 1]);
    scene
        .explore(Systematic::new(switching(2)))
        .assert_no_violation("three tasks of two processes and a feed");
    let scene = FeedScene::new(Some(Rows), X, CROWD)
        .in_processes(&[0, 0, 0, 1, 1])
        .with_workers(1);
    let faults = Bounds::all_orders().with_faults(2, TASK_FAULTS);
    scene
        .explore(Random::new(faults, 1, 150))
        .assert_no_violation("many tasks of two processes and a feed");
}

#[test]
fn two_writers_and_a_trim_of_a_feed() {
    let scene = FeedScene::new(None, X, TWICE_AND_ONCE).with(FeedUpkeep::Trim);
    scene
        .succeeding()
        .explore(Systematic::new(switching(2)))
        .assert_no_violation("two writers and a trim of a feed");
    scene
        .explore(Systematic::new(FAULT))
        .assert_no_violation("two writers, a trim of a feed and a fault");
}

#[test]
fn a_move_of_a_recorded_entity() {
    let scene = FeedScene::new(Some(Unique), X, &[]).moving(MOVE);
    scene
        .with_workers(1)
        .explore(Systematic::new(FAULT))
        .assert_no_violation("a move of a recorded entity, a worker and a fault");
    let all: [&[&[Write]]; 4] = [
        &[&[("x", Some("b"))]],
        &[&[("x", None)]],
        &[&[("d", Some("b"))]],
        &[&[("y", Some("a"))]],
    ];
    let explored = all.map(|writers| {
        let scene = FeedScene::new(Some(Unique), X, writers).moving(MOVE);
        scene.explore(Systematic::new(switching(1)))
    });
    Explored::sum(explored).assert_no_violation("a move of a recorded entity, and a writer");
    AROUND_A_MOVE
        .explore(Systematic::new(switching(2)))
        .assert_no_violation("a move, and a writer in its process and in another");
    let scene = FeedScene::new(Some(Unique), X, CROWD).moving(&[("x", "d"), ("d", "y")]);
    let faults = Bounds::all_orders().with_faults(3, FAULTS);
    scene
        .with_workers(1)
        .explore(Random::new(faults, 1, 150))
        .assert_no_violation("many processes around a move of a recorded entity");
}

#[test]
fn a_build_of_a_feed_and_a_writer() {
    let moments = [0, 100, 250, 400, 600].map(Duration::from_millis);
    let scene = FeedScene::new(Some(Rows), X, TWICE_AND_ONCE).with(FeedUpkeep::Build);
    let explored = moments.map(|moment| {
        let scene = scene.writers_start_at(moment);
        scene.explore(Systematic::new(switching(1)))
    });
    Explored::sum(explored).assert_no_violation("a build of a feed and writers");
    let scene = FeedScene::new(None, X, TWICE_AND_ONCE).with(FeedUpkeep::Build);
    let explored = moments.map(|moment| {
        let scene = scene.writers_start_at(moment);
        scene.explore(Systematic::new(FAULT))
    });
    Explored::sum(explored).assert_no_violation("a build of a feed, writers and a fault");
}

#[test]
fn a_drop_of_a_feed_and_a_writer() {
    let moments = [0, 250, 400].map(Duration::from_millis);
    let scene = FeedScene::new(Some(Rows), X, TWICE_AND_ONCE).with(FeedUpkeep::Drop);
    let explored = moments.map(|moment| {
        let scene = scene.writers_start_at(moment);
        scene.explore(Systematic::new(switching(1)))
    });
    Explored::sum(explored).assert_no_violation("a drop of a feed and writers");
    let scene = FeedScene::new(None, X, TWICE_AND_ONCE).with(FeedUpkeep::Drop);
    let explored = moments.map(|moment| {
        let scene = scene.writers_start_at(moment);
        scene.explore(Systematic::new(FAULT))
    });
    Explored::sum(explored).assert_no_violation("a drop of a feed, writers and a fault");
}

/// The process that drops a feed dies or pauses.
const INTERRUPTED: Bounds = switching(0).with_faults(
    1,
    &[
        Action::CrashAfter,
        Action::Pause(Duration::from_millis(850)),
        Action::Pause(Duration::from_secs(5)),
    ],
);

/// Another process builds the feed while it is dropped, or after the drop has died.
#[test]
fn a_drop_and_a_build_of_a_feed() {
    let moments = [100, 300, 500, 2_000].map(Duration::from_millis);
    let explored = moments.map(|after| {
        let scene = FeedScene::new(None, X, &[]).with(FeedUpkeep::Rebuild(after));
        scene.explore(Systematic::new(INTERRUPTED))
    });
    Explored::sum(explored).assert_no_violation("a drop and a build of a feed");
    let explored = moments.map(|after| {
        let scene = FeedScene::new(None, X, TWICE_AND_ONCE).with(FeedUpkeep::Rebuild(after));
        let scene = scene.writers_start_at(after + Duration::from_millis(800));
        scene.explore(Systematic::new(INTERRUPTED.sparing_until(2)))
    });
    Explored::sum(explored).assert_no_violation("a drop and a build of a feed, and writers");
}

#[test]
fn every_rule_of_a_feed_is_needed() {
    let trimmed = FeedScene::new(None, X, TWICE_AND_ONCE).with(FeedUpkeep::Trim);
    let needed = [
        (Invariant::CounterInVersion, trimmed, switching(1)),
        (Invariant::CounterTaken, trimmed.succeeding(), switching(1)),
        (Invariant::CounterReadAgain, AROUND_A_MOVE, switching(2)),
    ];
    for (invariant, scene, bounds) in needed {
        let explored = scene
            .without_invariant(invariant)
            .explore(Systematic::new(bounds));
        explored.assert_violation_without(invariant);
    }
}
