//! Schedules by chance of processes that insert, insert again, change and remove two entities over two values of a
//! unique index, without faults; after every effect no two entities may have one value.

use fastrand::Rng;

use super::choose::{Bounds, Random};
use super::explore::{Explored, Play, explore};
use super::stage::Stage;
use super::world::{Deed, FULL, UNIQUE, World};
use crate::journal::Rule;

/// How many schedules are tried.
const SCHEDULES: u64 = 20_000;
const PROCESSES: usize = 3;

/// The deeds of each process, by a seed. The first entity is there more often, and so is the first value: what all want
/// is what goes wrong.
fn deeds(seed: u64) -> Vec<Vec<Deed>> {
    let mut rng = Rng::with_seed(seed);
    let one = |rng: &mut Rng| {
        let id = if rng.u8(..3) > 0 { "x" } else { "y" };
        let value = if rng.u8(..3) > 0 { "a" } else { "b" };
        match rng.u8(..8) {
            0..=2 => Deed::Insert(id, value),
            3 | 4 => Deed::Touch(id),
            5 | 6 => Deed::Delete(id),
            _ => Deed::Give(id, value),
        }
    };
    (0..PROCESSES).map(|_| (0..rng.usize(1..=3)).map(|_| one(&mut rng)).collect()).collect()
}

/// The schedule of a seed: of every four, three in which who went last mostly goes on.
fn play(seed: u64, broken: Option<Rule>) -> Explored {
    let random = Random::new(Bounds::all_orders(), seed, 1);
    let random = if seed.is_multiple_of(4) { random } else { random.steady() };
    explore(random, &async |stage: &Stage| {
        let people = if seed.is_multiple_of(2) { UNIQUE } else { FULL };
        let start: &[_] = if seed.is_multiple_of(3) { &[] } else { &[("x", "a")] };
        let world = World::new(stage, people, start).await?.without_queue().breaking(broken);
        let hands = deeds(seed).into_iter().enumerate();
        let tasks = hands.map(|(task, deeds)| world.hand(task, deeds)).collect();
        Ok(Play { tasks, verdict: world.verdict() })
    })
}

/// In two halves, which run at once.
fn half(seeds: std::ops::RangeInclusive<u64>, name: &str) {
    let explored = Explored::sum(seeds.map(|seed| play(seed, None)));
    let explored = Explored { orders: "by chance, 0 faults".to_owned(), ..explored };
    explored.assert_right(&format!("inserts again, touches and deletes over two values, {name}"));
}

#[test]
fn what_processes_insert_again_touch_and_delete_by_chance() {
    half(1..=SCHEDULES / 2, "the first half");
}

#[test]
fn what_more_processes_insert_again_touch_and_delete_by_chance() {
    half(SCHEDULES / 2 + 1..=SCHEDULES, "the second half");
}

#[test]
fn what_is_tried_by_chance_notices_what_is_settled_for_others() {
    for rule in [Rule::AbortBeforeSettling, Rule::AbortBeforeAdopting, Rule::PendingToItsWrite] {
        let explored = Explored::sum((1..=SCHEDULES).map(|seed| play(seed, Some(rule))));
        let (what, _) = explored.wrong.unwrap_or_else(|| panic!("nothing notices that {rule:?} is broken"));
        eprintln!("without {rule:?}, schedule {} ends wrong: {what}", explored.schedules);
    }
}
