//! Indexes of every shape among writers, several of them tasks of one process, writes that are handed over to workers, and those
//! who build, scrub, sweep or collect: bounded orders in the small, chance in the large.

use std::time::Duration;

use super::choose::{Bounds, Random, Systematic};
use super::explore::Explored;
use super::interleavings::FAULTS;
use super::scene::Write;
use super::shapes::Form::{Blob, Chunks, Copy, List, Rows, Spilled, Summary, Unique};
use super::shapes::{Form, Shapes, Upkeep};
use super::stage::Action;
use super::world::LEASE;
use crate::journal::Rule;

/// Every shape, beside its entities and elsewhere.
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
/// Where tasks of one process and handed-over writes meet.
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

/// Two references: a third makes the list long.
const SHORT: &[(&str, &str)] = &[("x", "a"), ("y", "a")];
/// Three references: without one the list is short again.
const LONG: &[(&str, &str)] = &[("v", "a"), ("x", "a"), ("y", "a")];
/// One of three, of which no two may have one value.
const APART: &[(&str, &str)] = &[("x", "a"), ("y", "b")];

const COMES_AND_GOES: &[&[Write]] = &[&[("z", Some("a"))], &[("x", Some("b"))]];
const GOES_AND_COMES: &[&[Write]] = &[&[("x", None)], &[("w", Some("a"))]];
const MOVES: &[&[Write]] = &[&[("x", Some("b"))]];
const GOES: &[&[Write]] = &[&[("x", None)]];
const COMES: &[&[Write]] = &[&[("z", Some("a"))]];
/// What two tasks want, of one entity and of one value.
const WANTED: &[&[Write]] = &[&[("x", Some("c"))], &[("y", Some("c"))]];
const CROWD: &[&[Write]] = &[
    &[("x", Some("b")), ("y", Some("c"))],
    &[("y", Some("a")), ("z", Some("a"))],
    &[("x", None)],
    &[("w", Some("a"))],
];

/// What happens to one of several tasks, and to their process.
const OF_TASKS: &[Action] = &[
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

/// What a process suffers that nobody interrupts.
const FAULT: Bounds = switching(0).with_faults(1, FAULTS);

/// The start of a scene: no two entities have one value where that is unique.
const fn start_of(
    form: Form,
    start: &'static [(&'static str, &'static str)],
) -> &'static [(&'static str, &'static str)] {
    match form {
        Unique => APART,
        _ => start,
    }
}

const fn writes_of(form: Form, writes: &'static [&'static [Write]]) -> &'static [&'static [Write]] {
    match form {
        Unique => WANTED,
        _ => writes,
    }
}

/// What one writer writes where a fault happens: a move between two blobs sends so much at once that its orders are many.
const fn one_write(form: Form, here: bool) -> &'static [&'static [Write]] {
    match form {
        Blob | Spilled if here => GOES,
        _ => MOVES,
    }
}

fn name_of(name: &str, form: Form, here: bool) -> String {
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
    format!("{name}, {form}{}", if here { " beside" } else { "" })
}

#[test]
fn two_writers_of_every_shape() {
    for (form, here) in SHAPES {
        let explored = [(SHORT, COMES_AND_GOES), (LONG, GOES_AND_COMES)].map(|(start, writes)| {
            Shapes::new(form, here, start, writes).explore(Systematic::new(switching(2)))
        });
        Explored::sum(explored).assert_right(&name_of("two writers of a shape", form, here));
    }
}

#[test]
fn a_writer_of_every_shape_and_a_fault() {
    for (form, here) in SHAPES {
        let explored = [(SHORT, COMES), (LONG, one_write(form, here))]
            .map(|(start, writes)| Shapes::new(form, here, start, writes).explore(Systematic::new(FAULT)));
        Explored::sum(explored).assert_right(&name_of("a writer of a shape and a fault", form, here));
    }
}

#[test]
fn a_writer_of_every_shape_a_worker_and_a_fault() {
    for (form, here) in SHAPES {
        let scene = Shapes::new(form, here, LONG, one_write(form, here)).with_workers(1);
        let explored = scene.explore(Systematic::new(FAULT));
        explored.assert_right(&name_of("a writer of a shape, a worker and a fault", form, here));
    }
}

#[test]
fn crowds_of_every_shape_by_chance() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    for (seed, (form, here)) in (0..).step_by(1_000).zip(SHAPES) {
        let scene = Shapes::new(form, here, LONG, CROWD).with_workers(1);
        scene.explore(Random::new(bounds, seed, 60)).assert_right(&name_of("a crowd of a shape", form, here));
    }
}

#[test]
fn upkeep_of_every_shape_and_a_writer() {
    for (what, upkeep) in [
        ("a builder", Upkeep::Build),
        ("a scrubber", Upkeep::Scrub),
        ("a sweeper", Upkeep::Sweep),
        ("a collector", Upkeep::Collect),
    ] {
        for (form, here) in SHAPES {
            if upkeep == Upkeep::Collect && !matches!(form, Blob | Spilled) {
                continue;
            }
            let moments = [Duration::ZERO, Duration::from_millis(300), Duration::from_millis(600)];
            let moments = if upkeep == Upkeep::Build { &moments[..] } else { &moments[..1] };
            let writes = one_write(form, here);
            let scene = Shapes::new(form, here, LONG, writes).with(upkeep);
            let name = name_of(&format!("{what} and a writer of a shape"), form, here);
            if upkeep == Upkeep::Scrub && matches!(form, Chunks | Blob) {
                scene.explore(Random::new(Bounds::all_orders(), 1, 200)).assert_right(&name);
                continue;
            }
            let explored =
                moments.iter().map(|after| scene.after(*after).explore(Systematic::new(switching(1))));
            Explored::sum(explored).assert_right(&name);
        }
    }
}

/// A writer that is slow between its blob and its row, and one who collects.
#[test]
fn a_collector_and_a_slow_writer() {
    const SLOW: &[Action] = &[
        Action::Stall(Duration::from_millis(300)),
        Action::Stall(LEASE),
        Action::Stall(Duration::from_millis(850)),
        Action::Slow(Duration::from_millis(99)),
        Action::Resend(Duration::from_millis(850)),
    ];
    let slow = switching(1).sparing_from(1).with_faults(1, SLOW);
    for (form, here) in [(Blob, true), (Blob, false), (Spilled, true), (Spilled, false)] {
        let scene = Shapes::new(form, here, SHORT, COMES).with(Upkeep::Collect).with_long_caches();
        scene.explore(Systematic::new(slow)).assert_right(&name_of(
            "a collector and a slow writer",
            form,
            here,
        ));
    }
}

#[test]
fn two_tasks_of_one_process() {
    for (form, here) in FORMS {
        let scene = Shapes::new(form, here, start_of(form, LONG), writes_of(form, GOES_AND_COMES));
        let scene = scene.in_processes(&[0, 0]);
        scene.explore(Systematic::new(switching(2))).assert_right(&name_of(
            "two tasks of one process",
            form,
            here,
        ));
        let bounds = switching(0).with_faults(1, OF_TASKS);
        let explored = scene.explore(Systematic::new(bounds));
        explored.assert_right(&name_of("two tasks of one process and a fault", form, here));
    }
}

/// A worker, writers and a builder or scrubber in one process, and a writer in another.
#[test]
fn many_tasks_of_two_processes_by_chance() {
    let bounds = Bounds::all_orders().with_faults(2, OF_TASKS);
    for (seed, (form, here)) in (0..).step_by(1_000).zip(FORMS) {
        let scene = Shapes::new(form, here, start_of(form, LONG), CROWD);
        let together = scene.in_processes(&[0, 0, 0, 1, 0]).with_workers(1);
        let explored = together.explore(Random::new(bounds, seed, 60));
        explored.assert_right(&name_of("many tasks of two processes", form, here));
        let explored = [Upkeep::Build, Upkeep::Scrub].map(|upkeep| {
            let scene = scene.in_processes(&[0, 0, 1, 1, 0]).with(upkeep);
            scene.after(Duration::from_millis(300)).explore(Random::new(bounds, seed, 30))
        });
        Explored::sum(explored).assert_right(&name_of("upkeep by a task among others", form, here));
    }
}

#[test]
fn handed_over_writes_and_a_fault() {
    for (form, here) in FORMS {
        let scene = Shapes::new(form, here, start_of(form, LONG), GOES).handed_over().with_workers(1);
        let name = name_of("a handed-over write and a fault", form, here);
        // By chance: what a worker sends at once has many orders.
        scene.explore(Random::new(FAULT, 1, 150)).assert_right(&name);
    }
}

#[test]
fn handed_over_writes_by_chance() {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    for (seed, (form, here)) in (0..).step_by(1_000).zip(FORMS) {
        let scene = Shapes::new(form, here, start_of(form, LONG), CROWD).handed_over().with_workers(2);
        scene.explore(Random::new(bounds, seed, 60)).assert_right(&name_of("handed-over writes", form, here));
        let scene = scene.in_processes(&[0, 0, 1, 1, 0, 1]);
        let bounds = bounds.with_faults(2, OF_TASKS);
        let explored = scene.explore(Random::new(bounds, seed, 40));
        explored.assert_right(&name_of("handed-over writes of tasks", form, here));
    }
}

/// A rule that is broken, the scene that shows it, and how it is explored.
fn shows(rule: Rule, scene: Shapes, bounds: Bounds) -> Option<String> {
    scene.breaking(rule).explore(Systematic::new(bounds)).wrong.map(|(what, _)| what)
}

#[test]
fn every_rule_of_shapes_is_needed() {
    let two = |form, here| Shapes::new(form, here, LONG, GOES_AND_COMES);
    let one = |form, here| Shapes::new(form, here, LONG, MOVES);
    let collected =
        |form, here| Shapes::new(form, here, SHORT, COMES).with(Upkeep::Collect).with_long_caches();
    const SLOW: &[Action] = &[Action::Stall(Duration::from_millis(850))];
    let slow = switching(1).sparing_from(1).with_faults(1, SLOW);
    let needed = [
        (Rule::SharedInVersion, two(List, true), switching(2)),
        (Rule::SharedInVersion, two(Chunks, true), switching(2)),
        (Rule::SharedInVersion, two(Chunks, false), switching(2)),
        (Rule::SharedInVersion, two(Blob, true), switching(2)),
        (Rule::SharedInVersion, two(Spilled, false), switching(2)),
        (Rule::SharedInVersion, two(Summary, true), switching(2)),
        (Rule::DoubtKeepsBlobs, one(Blob, true), FAULT),
        (Rule::DoubtKeepsBlobs, one(Blob, false), FAULT),
        (Rule::RowBeforeBlob, one(Blob, true), FAULT),
        (Rule::BlobInLease, collected(Blob, true), slow),
        (Rule::TicketFirst, one(Rows, false).handed_over().with_workers(1), FAULT),
        (Rule::TicketFirst, one(Chunks, false).handed_over().with_workers(1), FAULT),
        (Rule::ApplyBeforeClear, one(Copy, false).with_workers(1), FAULT),
    ];
    for (rule, scene, bounds) in needed {
        let what = shows(rule, scene, bounds);
        let what = what.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken in {scene:?}"));
        eprintln!("without {rule:?}, {} ends wrong: {what}", name_of("a scene", scene.form, scene.here));
    }
}

/// The same of tasks that share a process: which dies, or goes on when one of them is dropped.
#[test]
fn every_rule_is_needed_by_tasks() {
    let bounds = Bounds::all_orders().with_faults(2, OF_TASKS);
    let needed = [Rule::TicketFirst, Rule::RowBeforeTicket, Rule::ApplyBeforeClear];
    for (form, rule) in [Rows, Unique].into_iter().flat_map(|form| needed.map(|rule| (form, rule))) {
        let scene = Shapes::new(form, false, start_of(form, LONG), CROWD);
        let scene = scene.in_processes(&[0, 0, 1, 1, 0]).with_workers(1).breaking(rule);
        let explored = scene.explore(Random::new(bounds, 1, 600));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}
