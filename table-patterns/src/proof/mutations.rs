//! Each rule that could seem superfluous is left out: the suite must notice.

use super::choose::{Bounds, Random};
use super::interleavings::FAULTS;
use super::scene::Scene;
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

/// Which scene shows that a rule is needed.
const NEEDED: [(Rule, Scene); 13] = [
    (Rule::TicketFirst, MOVED),
    (Rule::Recheck, MOVED),
    (Rule::ApplyBeforeClear, MOVED),
    (Rule::RowBeforeTicket, MOVED),
    (Rule::AbortAbsent, MOVED),
    (Rule::OneApplier, MOVED),
    (Rule::CutOff, MOVED),
    (Rule::FindOutInLease, MOVED),
    (Rule::DoubtKeepsEvidence, MOVED),
    (Rule::RowThenEntity, WANTED),
    (Rule::PendingToItsWrite, WANTED),
    (Rule::AbortBeforeTakeOver, SHARED),
    (Rule::AbortBeforeAdopting, SHARED),
];

const BOUNDS: Bounds = Bounds::all_orders().with_faults(2, FAULTS);

#[test]
fn every_rule_is_needed() {
    for (rule, scene) in NEEDED {
        let explored = scene.breaking(rule).explore(Random::new(BOUNDS, 1, 10_000));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}

#[test]
fn with_all_rules_the_same_scenes_end_right() {
    for (name, scene) in [("moved", MOVED), ("wanted", WANTED), ("shared", SHARED)] {
        scene.explore(Random::new(BOUNDS, 1, 500)).assert_right(name, 500);
    }
}
