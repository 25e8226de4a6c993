//! Scenes of moves: an entity with a unique value is moved among writers, other claims of the value, workers, sweeps
//! and crashes.

use super::chooser::{Bounds, Random, Systematic};
use super::explorer::Explored;
use super::journal_model::{BOTH, FULL, PLAIN, UNIQUE};
use super::journal_scene::{JournalScene, Write};
use super::write_scenes::{FAULTS, UNREADABLE};

const START: &[(&str, &str)] = &[("x", "a")];
const MOVE: &[(&str, &str)] = &[("x", "d")];

/// A mover and one writer, without a queue.
const fn with_writer(writes: &'static [Write]) -> JournalScene {
    JournalScene::new(UNIQUE, START, writes)
        .without_queue()
        .moving(MOVE)
}

fn in_every_order(name: &str, scenes: &[JournalScene]) {
    let explored = scenes
        .iter()
        .map(|scene| scene.explore(Systematic::new(Bounds::all_orders())));
    Explored::sum(explored).assert_no_violation(name);
}

#[test]
fn a_move_and_a_claim_of_its_value_in_every_order() {
    in_every_order(
        "a move and a claim of its value",
        &[with_writer(&[("y", Some("a"))])],
    );
}

#[test]
fn a_move_and_a_writer_of_its_source_in_every_order() {
    let scenes: [&[Write]; 3] = [&[("x", Some("b"))], &[("x", Some("a"))], &[("x", None)]];
    in_every_order(
        "a move and a writer of its source",
        &scenes.map(with_writer),
    );
}

#[test]
fn a_move_and_a_writer_of_its_target_in_every_order() {
    let scenes: [&[Write]; 3] = [&[("d", Some("b"))], &[("d", Some("a"))], &[("d", None)]];
    in_every_order(
        "a move and a writer of its target",
        &scenes.map(with_writer),
    );
}

#[test]
fn two_moves_with_two_switches() {
    let bounds = Bounds::all_orders().switching(2);
    let moves: [&[_]; 3] = [
        &[("x", "d"), ("x", "y")],
        &[("x", "d"), ("d", "x")],
        &[("x", "d"), ("x", "d")],
    ];
    let explored = moves.map(|moves| {
        let scene = JournalScene::new(UNIQUE, START, &[])
            .without_queue()
            .moving(moves);
        scene.explore(Systematic::new(bounds))
    });
    Explored::sum(explored).assert_no_violation("two moves");
}

#[test]
fn a_move_that_replaces_with_two_switches() {
    let bounds = Bounds::all_orders().switching(2);
    let writes: [&[Write]; 3] = [&[("y", Some("b"))], &[("d", None)], &[("d", Some("c"))]];
    let explored = writes.map(|writes| {
        let scene = JournalScene::new(UNIQUE, &[("x", "a"), ("d", "b")], writes)
            .without_queue()
            .moving(MOVE);
        scene.replacing().explore(Systematic::new(bounds))
    });
    let moved = JournalScene::new(UNIQUE, &[("x", "a"), ("d", "b")], &[]).without_queue();
    let away = moved
        .moving(&[("x", "d"), ("d", "y")])
        .replacing()
        .explore(Systematic::new(bounds));
    Explored::sum(explored.into_iter().chain([away])).assert_no_violation("a move that replaces");
}

#[test]
fn a_move_and_a_worker_with_any_fault_of_the_mover() {
    let bounds = Bounds::all_orders()
        .with_faults(1, FAULTS)
        .sparing_from(1)
        .switching(0);
    let explored = [UNIQUE, PLAIN].map(|people| {
        let scene = JournalScene::new(people, START, &[])
            .moving(MOVE)
            .with_workers(1);
        scene.explore(Systematic::new(bounds))
    });
    Explored::sum(explored).assert_no_violation("a move and a worker");
}

#[test]
fn a_move_and_a_sweep_with_any_fault() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS).switching(1);
    let scene = JournalScene::new(UNIQUE, START, &[])
        .without_queue()
        .moving(MOVE)
        .with_sweepers(1);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("a move and a sweep");
    let unreadable = Bounds::all_orders().with_faults(1, UNREADABLE).switching(1);
    scene
        .explore(Systematic::new(unreadable))
        .assert_no_violation("a move, a sweep and an unreadable answer");
}

#[test]
fn a_move_and_a_claim_of_its_value_and_a_fault_with_one_switch() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS).switching(1);
    let scene = JournalScene::new(UNIQUE, START, &[("y", Some("a"))]).moving(MOVE);
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation("a move, a claim of its value and a fault");
}

#[test]
fn a_move_a_writer_of_its_source_and_a_fault() {
    let bounds = Bounds::all_orders().with_faults(1, FAULTS).switching(0);
    let writes: [&[Write]; 2] = [&[("x", Some("b"))], &[("x", None)]];
    let explored = writes.map(|writes| {
        JournalScene::new(UNIQUE, START, writes)
            .moving(MOVE)
            .explore(Systematic::new(bounds))
    });
    Explored::sum(explored).assert_no_violation("a move, a writer of its source and a fault");
}

#[test]
fn many_processes_around_a_move_at_random() {
    const CROWD: &[Write] = &[("x", Some("b")), ("y", Some("a")), ("d", None)];
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    for (people, name) in [
        (BOTH, "many processes around a move"),
        (FULL, "many processes around a move, full payload"),
    ] {
        let crowd = JournalScene::new(people, START, CROWD)
            .trying(2)
            .moving(&[("x", "d"), ("d", "x")]);
        crowd
            .with_workers(1)
            .explore(Random::new(bounds, 1000, 300))
            .assert_no_violation(name);
        let swept = crowd.without_queue().with_sweepers(1);
        swept
            .explore(Random::new(bounds, 5000, 300))
            .assert_no_violation(&format!("{name}, swept"));
    }
}
