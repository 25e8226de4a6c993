//! Scenes of builds, scrubs and drops among writers and workers.

use std::time::Duration;

use super::chooser::{Bounds, Random, Systematic};
use super::explorer::Explored;
use super::index_scene::EntryKind::{Lists, Local, Rows, Unique, UniqueLocal};
use super::index_scene::Maintenance::{Build, Drop, Nothing, Rebuild, Repair, Report};
use super::index_scene::{EntryKind, IndexScene};
use super::journal_scene::Write;
use super::scheduler::Action;

/// All faults. The pauses last to the end of a writer's cache, to the end of a lease, and longer. A slow request
/// takes effect at the end of its life.
const FAULTS: &[Action] = &[
    Action::CrashBefore,
    Action::CrashAfter,
    Action::Lose,
    Action::LoseAnswer,
    Action::Late,
    Action::Slow(Duration::from_millis(99)),
    Action::Pause(Duration::from_millis(100)),
    Action::Pause(Duration::from_millis(300)),
    Action::Pause(Duration::from_millis(850)),
    Action::StallUnanswered(Duration::from_millis(850)),
];

/// The times at which a build or a drop acts; in between it waits for writers.
const MOMENTS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(600),
    Duration::from_millis(800),
];

/// The start of a second build, while the first one writes entries.
pub(super) const SECOND_BUILD_START: Duration = Duration::from_millis(650);
/// The start of a writer after which the entries of the first, replaced build are stale.
pub(super) const WRITER_AFTER_TAKE_OVER: Duration = Duration::from_millis(1400);
/// The start of a second drop, while the first one deletes entries.
pub(super) const SECOND_DROP_START: Duration = Duration::from_millis(450);

pub(super) const ONE: &[(&str, &str)] = &[("x", "a")];
const TWO: &[(&str, &str)] = &[("x", "a"), ("y", "b")];

pub(super) const UPDATE: &[&[Write]] = &[&[("x", Some("b"))]];
const DELETE: &[&[Write]] = &[&[("x", None)]];
const INSERT: &[&[Write]] = &[&[("y", Some("b"))]];
pub(super) const REWRITE: &[&[Write]] = &[&[("x", Some("a"))]];
const TWO_UPDATES: &[&[Write]] = &[&[("x", Some("b"))], &[("x", Some("c"))]];
pub(super) const X_AND_K: &[(&str, &str)] = &[("x", "a"), ("k", "k")];
const CROSSED_GROUPS: &[&[Write]] = &[
    &[("x", Some("b")), ("y", Some("c"))],
    &[("y", Some("d")), ("x", Some("c"))],
];
const GROUP_AND_INSERT: &[&[Write]] = &[&[("x", Some("c")), ("y", Some("d"))], &[("z", Some("c"))]];
const GROUP_OF_TWO: &[&[Write]] = &[&[("x", Some("b")), ("y", Some("c"))]];

const KINDS: [EntryKind; 5] = [Rows, Unique, Lists, Local, UniqueLocal];

/// Explores a scene with writers that start at each time at which the maintenance acts.
fn at_all_moments(name: &str, scene: IndexScene, bounds: Bounds) {
    let moments = match (scene.maintenance, scene.kind) {
        (Build, Local | UniqueLocal) => &MOMENTS[..],
        (Build, _) => &MOMENTS[..4],
        _ => &MOMENTS[..3],
    };
    let explored = moments.iter().map(|writers_start| {
        scene
            .writers_start_at(*writers_start)
            .explore(Systematic::new(bounds))
    });
    Explored::sum(explored).assert_no_violation(&name_of(name, &scene));
}

fn name_of(name: &str, scene: &IndexScene) -> String {
    let kind = match scene.kind {
        Rows => "rows",
        Unique => "unique rows",
        Lists => "lists",
        Local => "local rows",
        UniqueLocal => "unique local rows",
    };
    format!("{name}, {kind}")
}

fn in_every_order(name: &str, scene: IndexScene, bounds: Bounds) {
    scene
        .explore(Systematic::new(bounds))
        .assert_no_violation(&name_of(name, &scene));
}

/// All orders with at most this number of switches.
const fn switching(switches: usize) -> Bounds {
    Bounds::all_orders().switching(switches)
}

pub(super) const FAULT: Bounds = switching(1).with_faults(1, FAULTS);

#[test]
fn a_build_and_a_writer() {
    let all = [
        ("updates", UPDATE),
        ("deletes", DELETE),
        ("inserts", INSERT),
        ("rewrites", REWRITE),
    ];
    for (what, writes) in all {
        for kind in KINDS {
            let name = format!("a build and a writer that {what}");
            at_all_moments(
                &name,
                IndexScene::new(kind, Build, ONE, writes),
                switching(2),
            );
        }
    }
}

/// Two entities have one value. The build must report that, whatever happens to the second entity during the build.
pub(super) const SAME_VALUE: &[(&str, &str)] = &[("x", "b"), ("y", "b")];
pub(super) const REWRITE_SECOND: &[&[Write]] = &[&[("y", Some("b"))]];

#[test]
fn a_build_over_two_entities_of_one_value() {
    let all: [(&str, &[&[Write]]); 3] = [
        ("updates", &[&[("y", Some("c"))]]),
        ("deletes", &[&[("y", None)]]),
        ("rewrites", REWRITE_SECOND),
    ];
    for (what, writes) in all {
        for kind in [Unique, UniqueLocal] {
            let name = format!("a build over two entities of one value and a writer that {what}");
            at_all_moments(
                &name,
                IndexScene::new(kind, Build, SAME_VALUE, writes),
                switching(2),
            );
        }
    }
}

#[test]
fn a_build_and_a_writer_in_every_order() {
    for kind in [Rows, Local] {
        let scene = IndexScene::new(kind, Build, ONE, UPDATE);
        at_all_moments(
            "a build and a writer that updates",
            scene,
            Bounds::all_orders(),
        );
    }
}

#[test]
fn a_build_and_two_writers() {
    for kind in KINDS {
        at_all_moments(
            "a build and two writers",
            IndexScene::new(kind, Build, ONE, TWO_UPDATES),
            switching(1),
        );
    }
}

#[test]
fn a_build_a_writer_and_a_fault() {
    let name = "a build, a writer and a fault";
    let scene = IndexScene::new(Rows, Build, ONE, UPDATE);
    at_all_moments(name, scene, FAULT.switching(0));
    in_every_order(name, scene.writers_start_at(MOMENTS[3]), FAULT);
    at_all_moments(
        name,
        IndexScene::new(Local, Build, ONE, UPDATE),
        FAULT.switching(0),
    );
}

/// The second build starts while the first one writes entries. It takes over if the first one dies or pauses.
#[test]
fn two_builds_and_a_fault() {
    let scene = IndexScene::new(Rows, Build, ONE, UPDATE)
        .with_maintainers(2, SECOND_BUILD_START)
        .writers_start_at(WRITER_AFTER_TAKE_OVER);
    in_every_order(
        "two builds, a writer and a fault",
        scene,
        FAULT.switching(0),
    );
}

#[test]
fn a_drop_a_rebuild_and_a_fault() {
    let scene =
        IndexScene::new(Rows, Rebuild, X_AND_K, UPDATE).with_maintainers(2, SECOND_DROP_START);
    in_every_order(
        "a drop, a rebuild, a writer and a fault",
        scene,
        FAULT.switching(0).sparing_from(2),
    );
}

#[test]
fn a_build_and_a_group() {
    for kind in KINDS {
        at_all_moments(
            "a build and a group",
            IndexScene::new(kind, Build, TWO, GROUP_OF_TWO),
            switching(1),
        );
    }
}

#[test]
fn a_scrub_and_a_writer_in_every_order() {
    for (what, writes) in [("updates", UPDATE), ("deletes", DELETE)] {
        let name = format!("a scrub and a writer that {what}");
        in_every_order(
            &name,
            IndexScene::new(Rows, Repair, ONE, writes),
            Bounds::all_orders(),
        );
    }
}

#[test]
fn a_scrub_and_a_writer() {
    for (who, maintenance) in [("a scrub", Repair), ("a reporting scrub", Report)] {
        for (what, writes) in [
            ("updates", UPDATE),
            ("deletes", DELETE),
            ("rewrites", REWRITE),
        ] {
            for kind in KINDS {
                let name = format!("{who} and a writer that {what}");
                in_every_order(
                    &name,
                    IndexScene::new(kind, maintenance, ONE, writes),
                    switching(2),
                );
            }
        }
    }
}

#[test]
fn a_scrub_and_two_writers() {
    for kind in KINDS {
        in_every_order(
            "a scrub and two writers",
            IndexScene::new(kind, Repair, ONE, TWO_UPDATES),
            switching(1),
        );
    }
}

#[test]
fn a_scrub_a_writer_and_a_fault() {
    in_every_order(
        "a scrub, a writer and a fault",
        IndexScene::new(Rows, Repair, ONE, UPDATE),
        FAULT,
    );
    let name = "a scrub, a writer and a fault";
    in_every_order(
        name,
        IndexScene::new(Lists, Repair, ONE, UPDATE),
        FAULT.switching(0),
    );
}

#[test]
fn a_drop_and_a_writer() {
    for (what, writes) in [
        ("updates", UPDATE),
        ("deletes", DELETE),
        ("inserts", INSERT),
    ] {
        for kind in KINDS {
            let name = format!("a drop and a writer that {what}");
            at_all_moments(
                &name,
                IndexScene::new(kind, Drop, X_AND_K, writes),
                switching(2),
            );
        }
    }
}

#[test]
fn a_drop_a_writer_and_a_fault() {
    let name = "a drop, a writer and a fault";
    at_all_moments(
        name,
        IndexScene::new(Rows, Drop, ONE, UPDATE),
        FAULT.switching(0),
    );
}

#[test]
fn two_groups() {
    for kind in KINDS {
        in_every_order(
            "two groups",
            IndexScene::new(kind, Nothing, TWO, CROSSED_GROUPS),
            switching(2),
        );
    }
}

#[test]
fn a_group_a_writer_and_a_fault() {
    let name = "a group, a writer and a fault";
    in_every_order(
        name,
        IndexScene::new(Unique, Nothing, TWO, GROUP_AND_INSERT),
        FAULT.switching(0),
    );
}

const CROWD: &[&[Write]] = &[
    &[("x", Some("b")), ("y", Some("d"))],
    &[("y", Some("c")), ("z", Some("d"))],
    &[("x", None)],
];

fn at_random(name: &str, scene: IndexScene, seed: u64, schedules: usize) {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let explored = MOMENTS.iter().zip(0..).map(|(writers_start, n)| {
        scene.writers_start_at(*writers_start).explore(Random::new(
            bounds,
            seed + n * 1000,
            schedules / MOMENTS.len(),
        ))
    });
    Explored::sum(explored).assert_no_violation(&name_of(name, &scene));
}

#[test]
fn many_processes_at_random() {
    for (seed, kind) in (0..).step_by(10_000).zip(KINDS) {
        for (who, maintenance) in [
            ("builds", Build),
            ("a scrub", Repair),
            ("a reporting scrub", Report),
            ("a drop", Drop),
            ("groups", Nothing),
        ] {
            let maintainers = if maintenance == Build { 2 } else { 1 };
            let scene = IndexScene::new(kind, maintenance, TWO, CROWD)
                .with_maintainers(maintainers, Duration::from_millis(50));
            at_random(&format!("{who} among many processes"), scene, seed, 25);
            at_random(
                &format!("{who} among many processes with a worker"),
                scene.with_workers(1),
                seed,
                25,
            );
        }
    }
}
