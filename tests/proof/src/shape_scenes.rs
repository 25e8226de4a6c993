//! Scenes of indexes of every shape: writers (some of them tasks of one process), writes that workers apply, and
//! processes that build, scrub, sweep or collect blobs.

use std::time::Duration;

use super::Invariant;
use super::chooser::{Bounds, Random, Systematic};
use super::explorer::Explored;
use super::journal_model::LEASE;
use super::journal_scene::Write;
use super::scheduler::Action;
use super::shape_model::Form::{Blob, Chunks, Copy, List, Rows, Spilled, Summary, Unique};
use super::shape_model::{Form, ShapeScene, Upkeep};
use super::write_scenes::FAULTS;

/// Every shape, with local and with remote entries.
const SHAPES: [(Form, bool); 11] = [
    (List, true),
    (List, false),
    (Chunks, true),
    (Chunks, false),
    (Blob, true),
    (Blob, false),
    (Spilled, true),
    (Spilled, false),
    (Summary, true),
    (Copy, true),
    (Copy, false),
];
/// The shapes of scenes with tasks of one process and with writes left to workers.
const FORMS: [(Form, bool); 8] = [
    (Rows, false),
    (Unique, false),
    (List, true),
    (Chunks, false),
    (Blob, true),
    (Spilled, false),
    (Summary, true),
    (Copy, false),
];

/// Two references: a third one makes the list long.
const SHORT_LIST: &[(&str, &str)] = &[("x", "a"), ("y", "a")];
/// Three references: the list is short without one of them.
const LONG_LIST: &[(&str, &str)] = &[("v", "a"), ("x", "a"), ("y", "a")];
/// Two entities with different values, for unique indexes.
const TWO_VALUES: &[(&str, &str)] = &[("x", "a"), ("y", "b")];

const INSERT_AND_UPDATE: &[&[Write]] = &[&[("z", Some("a"))], &[("x", Some("b"))]];
const DELETE_AND_INSERT: &[&[Write]] = &[&[("x", None)], &[("w", Some("a"))]];
const UPDATE: &[&[Write]] = &[&[("x", Some("b"))]];
const DELETE: &[&[Write]] = &[&[("x", None)]];
const INSERT: &[&[Write]] = &[&[("z", Some("a"))]];
/// Two tasks claim one value for two entities.
const TWO_CLAIMS: &[&[Write]] = &[&[("x", Some("c"))], &[("y", Some("c"))]];
const CROWD: &[&[Write]] = &[
    &[("x", Some("b")), ("y", Some("c"))],
    &[("y", Some("a")), ("z", Some("a"))],
    &[("x", None)],
    &[("w", Some("a"))],
];

/// The faults of one of several tasks, and of their process.
const TASK_FAULTS: &[Action] = &[
    Action::CrashBefore,
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

/// The entities at the start. Unique indexes need different values.
const fn start_of(
    form: Form,
    start: &'static [(&'static str, &'static str)],
) -> &'static [(&'static str, &'static str)] {
    match form {
        Unique => TWO_VALUES,
        _ => start,
    }
}

const fn writes_of(form: Form, writes: &'static [&'static [Write]]) -> &'static [&'static [Write]] {
    match form {
        Unique => TWO_CLAIMS,
        _ => writes,
    }
}

/// The write of a scene with a fault. A change between two blobs sends many requests at once and has too many orders:
/// these scenes delete.
const fn one_write(form: Form, local: bool) -> &'static [&'static [Write]] {
    match form {
        Blob | Spilled if local => DELETE,
        _ => UPDATE,
    }
}

fn name_of(name: &str, form: Form, local: bool) -> String {
    let form = match form {
        Rows => "rows",
        Unique => "unique rows",
        List => "lists",
        Chunks => "lists in chunks",
        Blob => "lists in blobs",
        Spilled => "long lists in blobs",
        Summary => "summaries",
        Copy => "copies",
    };
    format!("{name}, {}{form}", if local { "local " } else { "" })
}

#[test]
fn two_writers_of_every_shape() {
    for (form, local) in SHAPES {
        let explored = [
            (SHORT_LIST, INSERT_AND_UPDATE),
            (LONG_LIST, DELETE_AND_INSERT),
        ]
        .map(|(start, writes)| {
            ShapeScene::new(form, local, start, writes).explore(Systematic::new(switching(2)))
        });
        Explored::sum(explored).assert_no_violation(&name_of(
            "two writers of a shape",
            form,
            local,
        ));
    }
}

#[test]
fn a_writer_of_every_shape_and_a_fault() {
    for (form, local) in SHAPES {
        let explored =
            [(SHORT_LIST, INSERT), (LONG_LIST, one_write(form, local))].map(|(start, writes)| {
                ShapeScene::new(form, local, start, writes).explore(Systematic::new(FAULT))
            });
        Explored::sum(explored).assert_no_violation(&name_of(
            "a writer of a shape and a fault",
            form,
            local,
        ));
    }
}

#[test]
fn a_writer_of_every_shape_a_worker_and_a_fault() {
    for (form, local) in SHAPES {
        let scene = ShapeScene::new(form, local, LONG_LIST, one_write(form, local)).with_workers(1);
        let explored = scene.explore(Systematic::new(FAULT));
        explored.assert_no_violation(&name_of(
            "a writer of a shape, a worker and a fault",
            form,
            local,
        ));
    }
}

#[test]
fn many_writers_of_every_shape_at_random() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    for (seed, (form, local)) in (0..).step_by(1_000).zip(SHAPES) {
        let scene = ShapeScene::new(form, local, LONG_LIST, CROWD).with_workers(1);
        scene
            .explore(Random::new(bounds, seed, 60))
            .assert_no_violation(&name_of("many writers of a shape", form, local));
    }
}

#[test]
fn maintenance_of_every_shape_and_a_writer() {
    for (what, upkeep) in [
        ("a build", Upkeep::Build),
        ("a scrub", Upkeep::Scrub),
        ("a sweep", Upkeep::Sweep),
        ("a blob collection", Upkeep::Collect),
    ] {
        for (form, local) in SHAPES {
            if upkeep == Upkeep::Collect && !matches!(form, Blob | Spilled) {
                continue;
            }
            let moments = [
                Duration::ZERO,
                Duration::from_millis(300),
                Duration::from_millis(600),
            ];
            let moments = if upkeep == Upkeep::Build {
                &moments[..]
            } else {
                &moments[..1]
            };
            let writes = one_write(form, local);
            let scene = ShapeScene::new(form, local, LONG_LIST, writes).with(upkeep);
            let name = name_of(&format!("{what} and a writer of a shape"), form, local);
            if upkeep == Upkeep::Scrub && matches!(form, Chunks | Blob) {
                scene
                    .explore(Random::new(Bounds::all_orders(), 1, 200))
                    .assert_no_violation(&name);
                continue;
            }
            let explored = moments.iter().map(|writers_start| {
                scene
                    .writers_start_at(*writers_start)
                    .explore(Systematic::new(switching(1)))
            });
            Explored::sum(explored).assert_no_violation(&name);
        }
    }
}

/// A writer pauses between its blob and its row, while unused blobs are collected.
#[test]
fn a_blob_collection_and_a_slow_writer() {
    const SLOW: &[Action] = &[
        Action::Stall(Duration::from_millis(300)),
        Action::Stall(LEASE),
        Action::Stall(Duration::from_millis(850)),
        Action::Slow(Duration::from_millis(99)),
        Action::Resend(Duration::from_millis(850)),
    ];
    let slow = switching(1).sparing_from(1).with_faults(1, SLOW);
    for (form, local) in [
        (Blob, true),
        (Blob, false),
        (Spilled, true),
        (Spilled, false),
    ] {
        let scene = ShapeScene::new(form, local, SHORT_LIST, INSERT)
            .with(Upkeep::Collect)
            .with_long_caches();
        scene
            .explore(Systematic::new(slow))
            .assert_no_violation(&name_of("a blob collection and a slow writer", form, local));
    }
}

#[test]
fn two_tasks_of_one_process() {
    for (form, local) in FORMS {
        let scene = ShapeScene::new(
            form,
            local,
            start_of(form, LONG_LIST),
            writes_of(form, DELETE_AND_INSERT),
        );
        let scene = scene.in_processes(&[0, 0]);
        scene
            .explore(Systematic::new(switching(2)))
            .assert_no_violation(&name_of("two tasks of one process", form, local));
        let bounds = switching(0).with_faults(1, TASK_FAULTS);
        let explored = scene.explore(Systematic::new(bounds));
        explored.assert_no_violation(&name_of(
            "two tasks of one process and a fault",
            form,
            local,
        ));
    }
}

/// A worker, writers and a build or scrub in one process, and a writer in another process.
#[test]
fn many_tasks_of_two_processes_at_random() {
    let bounds = Bounds::all_orders().with_faults(2, TASK_FAULTS);
    for (seed, (form, local)) in (0..).step_by(1_000).zip(FORMS) {
        let scene = ShapeScene::new(form, local, start_of(form, LONG_LIST), CROWD);
        let together = scene.in_processes(&[0, 0, 0, 1, 0]).with_workers(1);
        let explored = together.explore(Random::new(bounds, seed, 60));
        explored.assert_no_violation(&name_of("many tasks of two processes", form, local));
        let explored = [Upkeep::Build, Upkeep::Scrub].map(|upkeep| {
            let scene = scene.in_processes(&[0, 0, 1, 1, 0]).with(upkeep);
            scene
                .writers_start_at(Duration::from_millis(300))
                .explore(Random::new(bounds, seed, 30))
        });
        Explored::sum(explored).assert_no_violation(&name_of(
            "index maintenance by one of several tasks",
            form,
            local,
        ));
    }
}

#[test]
fn writes_left_to_workers_and_a_fault() {
    for (form, local) in FORMS {
        let scene = ShapeScene::new(form, local, start_of(form, LONG_LIST), DELETE)
            .left_to_workers()
            .with_workers(1);
        let name = name_of("a write left to workers and a fault", form, local);
        // Random schedules: the requests that a worker sends at once have many orders.
        scene
            .explore(Random::new(FAULT, 1, 150))
            .assert_no_violation(&name);
    }
}

#[test]
fn writes_left_to_workers_at_random() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    for (seed, (form, local)) in (0..).step_by(1_000).zip(FORMS) {
        let scene = ShapeScene::new(form, local, start_of(form, LONG_LIST), CROWD)
            .left_to_workers()
            .with_workers(2);
        scene
            .explore(Random::new(bounds, seed, 60))
            .assert_no_violation(&name_of("writes left to workers", form, local));
        let scene = scene.in_processes(&[0, 0, 1, 1, 0, 1]);
        let bounds = bounds.with_faults(2, TASK_FAULTS);
        let explored = scene.explore(Random::new(bounds, seed, 40));
        explored.assert_no_violation(&name_of("writes left to workers of tasks", form, local));
    }
}

/// The violation that a scene shows without a rule.
fn shows(invariant: Invariant, scene: ShapeScene, bounds: Bounds) -> Option<String> {
    scene
        .without_invariant(invariant)
        .explore(Systematic::new(bounds))
        .wrong
        .map(|(what, _)| what)
}

#[test]
fn every_rule_of_shapes_is_needed() {
    let two = |form, local| ShapeScene::new(form, local, LONG_LIST, DELETE_AND_INSERT);
    let one = |form, local| ShapeScene::new(form, local, LONG_LIST, UPDATE);
    let collected = |form, local| {
        ShapeScene::new(form, local, SHORT_LIST, INSERT)
            .with(Upkeep::Collect)
            .with_long_caches()
    };
    const SLOW: &[Action] = &[Action::Stall(Duration::from_millis(850))];
    let slow = switching(1).sparing_from(1).with_faults(1, SLOW);
    let needed = [
        (Invariant::SharedInVersion, two(List, true), switching(2)),
        (Invariant::SharedInVersion, two(Chunks, true), switching(2)),
        (Invariant::SharedInVersion, two(Chunks, false), switching(2)),
        (Invariant::SharedInVersion, two(Blob, true), switching(2)),
        (
            Invariant::SharedInVersion,
            two(Spilled, false),
            switching(2),
        ),
        (Invariant::SharedInVersion, two(Summary, true), switching(2)),
        (Invariant::DoubtKeepsBlobs, one(Blob, true), FAULT),
        (Invariant::DoubtKeepsBlobs, one(Blob, false), FAULT),
        (Invariant::RowBeforeBlob, one(Blob, true), FAULT),
        (Invariant::BlobInLease, collected(Blob, true), slow),
        (
            Invariant::TicketFirst,
            one(Rows, false).left_to_workers().with_workers(1),
            FAULT,
        ),
        (
            Invariant::TicketFirst,
            one(Chunks, false).left_to_workers().with_workers(1),
            FAULT,
        ),
        (
            Invariant::ApplyBeforeClear,
            one(Copy, false).with_workers(1),
            FAULT,
        ),
    ];
    for (invariant, scene, bounds) in needed {
        let what = shows(invariant, scene, bounds);
        let what = what
            .unwrap_or_else(|| panic!("nothing notices that {invariant:?} is broken in {scene:?}"));
        eprintln!(
            "without {invariant:?}, {} ends wrong: {what}",
            name_of("a scene", scene.form, scene.local)
        );
    }
}

/// The same with tasks that share a process: the process dies, or continues after one task was dropped.
#[test]
fn every_rule_is_needed_by_tasks() {
    let bounds = Bounds::all_orders().with_faults(2, TASK_FAULTS);
    let needed = [
        Invariant::TicketFirst,
        Invariant::RowBeforeTicket,
        Invariant::ApplyBeforeClear,
    ];
    for (form, invariant) in [Rows, Unique]
        .into_iter()
        .flat_map(|form| needed.map(|invariant| (form, invariant)))
    {
        let scene = ShapeScene::new(form, false, start_of(form, LONG_LIST), CROWD);
        let scene = scene
            .in_processes(&[0, 0, 1, 1, 0])
            .with_workers(1)
            .without_invariant(invariant);
        let explored = scene.explore(Random::new(bounds, 1, 600));
        explored.assert_violation_without(invariant);
    }
}
