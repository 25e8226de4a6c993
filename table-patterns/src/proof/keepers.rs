//! A builder, a scrubber or one who drops the index among writers and workers: every order in the small,
//! bounded and random ones in the large.

use std::time::Duration;

use super::choose::{Bounds, Random, Systematic};
use super::explore::Explored;
use super::library::Keeping::{Build, Drop, Nothing, Rebuild, Repair, Report};
use super::library::Kind::{Beside, Lists, Rows, Unique, UniqueBeside};
use super::library::{Kind, Library};
use super::scene::Write;
use super::stage::Action;

/// Everything that can go wrong: also pauses to the last moment of a writer's cache, to the last of a lease
/// in which it sends, and beyond leases; and requests that take effect at the end of their lives.
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

/// When a builder or one who drops acts: between, it waits for writers.
const MOMENTS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(600),
    Duration::from_millis(800),
];

/// When a second builder begins that finds the first at its entries.
pub(super) const TAKES_OVER: Duration = Duration::from_millis(650);
/// When a writer begins after which the first builder's entries are out of date, if it was replaced.
pub(super) const STALE: Duration = Duration::from_millis(1400);
/// When another begins to drop that finds the first at the entries.
pub(super) const FOLLOWS: Duration = Duration::from_millis(450);

pub(super) const ONE: &[(&str, &str)] = &[("x", "a")];
const TWO: &[(&str, &str)] = &[("x", "a"), ("y", "b")];

pub(super) const MOVES: &[&[Write]] = &[&[("x", Some("b"))]];
const GOES: &[&[Write]] = &[&[("x", None)]];
const COMES: &[&[Write]] = &[&[("y", Some("b"))]];
pub(super) const STAYS: &[&[Write]] = &[&[("x", Some("a"))]];
const RACE: &[&[Write]] = &[&[("x", Some("b"))], &[("x", Some("c"))]];
pub(super) const KEPT: &[(&str, &str)] = &[("x", "a"), ("k", "k")];
const CROSSED: &[&[Write]] = &[&[("x", Some("b")), ("y", Some("c"))], &[("y", Some("d")), ("x", Some("c"))]];
const JOINED: &[&[Write]] = &[&[("x", Some("c")), ("y", Some("d"))], &[("z", Some("c"))]];
const PAIR: &[&[Write]] = &[&[("x", Some("b")), ("y", Some("c"))]];

const KINDS: [Kind; 5] = [Rows, Unique, Lists, Beside, UniqueBeside];

/// Explores a scene with writers that begin at each moment at which the keeper acts.
fn at_all_moments(name: &str, scene: Library, bounds: Bounds) {
    let moments = match (scene.keeping, scene.kind) {
        (Build, Beside | UniqueBeside) => &MOMENTS[..],
        (Build, _) => &MOMENTS[..4],
        _ => &MOMENTS[..3],
    };
    let explored = moments.iter().map(|after| scene.after(*after).explore(Systematic::new(bounds)));
    Explored::sum(explored).assert_right(&name_of(name, &scene));
}

fn name_of(name: &str, scene: &Library) -> String {
    let kind = match scene.kind {
        Rows => "rows",
        Unique => "unique rows",
        Lists => "lists",
        Beside => "rows beside",
        UniqueBeside => "unique rows beside",
    };
    format!("{name}, {kind}")
}

fn in_every_order(name: &str, scene: Library, bounds: Bounds) {
    scene.explore(Systematic::new(bounds)).assert_right(&name_of(name, &scene));
}

/// Every order of what is left and taken up again so often.
const fn switching(switches: usize) -> Bounds {
    Bounds::all_orders().switching(switches)
}

pub(super) const FAULT: Bounds = switching(1).with_faults(1, FAULTS);

#[test]
fn a_builder_and_a_writer() {
    let all = [("changes", MOVES), ("deletes", GOES), ("adds", COMES), ("repeats", STAYS)];
    for (what, writes) in all {
        for kind in KINDS {
            let name = format!("a builder and a writer who {what}");
            at_all_moments(&name, Library::new(kind, Build, ONE, writes), switching(2));
        }
    }
}

/// Two entities have one value, and a builder finds out, whatever happens to the second meanwhile.
pub(super) const DOUBLE: &[(&str, &str)] = &[("x", "b"), ("y", "b")];
pub(super) const REPEATED: &[&[Write]] = &[&[("y", Some("b"))]];

#[test]
fn a_builder_over_two_of_one_value() {
    let all: [(&str, &[&[Write]]); 3] =
        [("changes", &[&[("y", Some("c"))]]), ("deletes", &[&[("y", None)]]), ("repeats", REPEATED)];
    for (what, writes) in all {
        for kind in [Unique, UniqueBeside] {
            let name = format!("a builder over two of one value and a writer who {what}");
            at_all_moments(&name, Library::new(kind, Build, DOUBLE, writes), switching(2));
        }
    }
}

#[test]
fn a_builder_and_a_writer_in_every_order() {
    for kind in [Rows, Beside] {
        let scene = Library::new(kind, Build, ONE, MOVES);
        at_all_moments("a builder and a writer who changes", scene, Bounds::all_orders());
    }
}

#[test]
fn a_builder_and_two_writers() {
    for kind in KINDS {
        at_all_moments("a builder and two writers", Library::new(kind, Build, ONE, RACE), switching(1));
    }
}

#[test]
fn a_builder_a_writer_and_a_fault() {
    let name = "a builder, a writer and a fault";
    let scene = Library::new(Rows, Build, ONE, MOVES);
    at_all_moments(name, scene, FAULT.switching(0));
    in_every_order(name, scene.after(MOMENTS[3]), FAULT);
    at_all_moments(name, Library::new(Beside, Build, ONE, MOVES), FAULT.switching(0));
}

/// The second begins while the first is at its entries, and takes over from it where it has died or pauses.
#[test]
fn two_builders_and_a_fault() {
    let scene = Library::new(Rows, Build, ONE, MOVES).with_keepers(2, TAKES_OVER).after(STALE);
    in_every_order("two builders, a writer and a fault", scene, FAULT.switching(0));
}

#[test]
fn a_drop_a_rebuild_and_a_fault() {
    let scene = Library::new(Rows, Rebuild, KEPT, MOVES).with_keepers(2, FOLLOWS);
    in_every_order("a drop, a rebuild, a writer and a fault", scene, FAULT.switching(0).sparing_from(2));
}

#[test]
fn a_builder_and_a_group() {
    for kind in KINDS {
        at_all_moments("a builder and a group", Library::new(kind, Build, TWO, PAIR), switching(1));
    }
}

#[test]
fn a_scrubber_and_a_writer_in_every_order() {
    for (what, writes) in [("changes", MOVES), ("deletes", GOES)] {
        let name = format!("a scrubber and a writer who {what}");
        in_every_order(&name, Library::new(Rows, Repair, ONE, writes), Bounds::all_orders());
    }
}

#[test]
fn a_scrubber_and_a_writer() {
    for (who, keeping) in [("a scrubber", Repair), ("a report", Report)] {
        for (what, writes) in [("changes", MOVES), ("deletes", GOES), ("repeats", STAYS)] {
            for kind in KINDS {
                let name = format!("{who} and a writer who {what}");
                in_every_order(&name, Library::new(kind, keeping, ONE, writes), switching(2));
            }
        }
    }
}

#[test]
fn a_scrubber_and_two_writers() {
    for kind in KINDS {
        in_every_order("a scrubber and two writers", Library::new(kind, Repair, ONE, RACE), switching(1));
    }
}

#[test]
fn a_scrubber_a_writer_and_a_fault() {
    in_every_order("a scrubber, a writer and a fault", Library::new(Rows, Repair, ONE, MOVES), FAULT);
    let name = "a scrubber, a writer and a fault";
    in_every_order(name, Library::new(Lists, Repair, ONE, MOVES), FAULT.switching(0));
}

#[test]
fn a_drop_and_a_writer() {
    for (what, writes) in [("changes", MOVES), ("deletes", GOES), ("adds", COMES)] {
        for kind in KINDS {
            let name = format!("a drop and a writer who {what}");
            at_all_moments(&name, Library::new(kind, Drop, KEPT, writes), switching(2));
        }
    }
}

#[test]
fn a_drop_a_writer_and_a_fault() {
    let name = "a drop, a writer and a fault";
    at_all_moments(name, Library::new(Rows, Drop, ONE, MOVES), FAULT.switching(0));
}

#[test]
fn two_groups() {
    for kind in KINDS {
        in_every_order("two groups", Library::new(kind, Nothing, TWO, CROSSED), switching(2));
    }
}

#[test]
fn a_group_a_writer_and_a_fault() {
    let name = "a group, a writer and a fault";
    in_every_order(name, Library::new(Unique, Nothing, TWO, JOINED), FAULT.switching(0));
}

const CROWD: &[&[Write]] =
    &[&[("x", Some("b")), ("y", Some("d"))], &[("y", Some("c")), ("z", Some("d"))], &[("x", None)]];

fn by_chance(name: &str, scene: Library, seed: u64, schedules: usize) {
    let bounds = Bounds::all_orders().with_faults(3, FAULTS);
    let explored = MOMENTS.iter().zip(0..).map(|(after, n)| {
        scene.after(*after).explore(Random::new(bounds, seed + n * 1000, schedules / MOMENTS.len()))
    });
    Explored::sum(explored).assert_right(&name_of(name, &scene));
}

#[test]
fn crowds_by_chance() {
    for (seed, kind) in (0..).step_by(10_000).zip(KINDS) {
        for (who, keeping) in [
            ("builders", Build),
            ("a scrubber", Repair),
            ("a report", Report),
            ("a drop", Drop),
            ("groups", Nothing),
        ] {
            let keepers = if keeping == Build { 2 } else { 1 };
            let scene =
                Library::new(kind, keeping, TWO, CROWD).with_keepers(keepers, Duration::from_millis(50));
            by_chance(&format!("{who} in a crowd"), scene, seed, 25);
            by_chance(&format!("{who} in a crowd with a worker"), scene.with_workers(1), seed, 25);
        }
    }
}
