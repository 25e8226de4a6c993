//! The order of requests: all orders one after the other, or random orders from a seed.

use std::env;

use fastrand::Rng;

use super::footprint::Footprint;
use super::scheduler::{Action, Choice};

/// The bounds of an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The maximum number of faults in one schedule.
    pub(super) faults: usize,
    /// The faults that can happen.
    pub(super) kinds: &'static [Action],
    /// The first task that has faults, and the first later task that has none.
    pub(super) faulty_tasks: (usize, usize),
    /// How often the scheduler may leave a task that could continue. `None` means every order, except orders that
    /// differ only in the order of requests that do not conflict (sleep sets).
    pub(super) switches: Option<usize>,
    /// Whether a write sends requests at the same time. Otherwise one follows the other, as with a concurrency of 1.
    pub(super) overlapping: bool,
}

impl Bounds {
    pub(super) const fn all_orders() -> Self {
        Self {
            faults: 0,
            kinds: &[],
            faulty_tasks: (0, usize::MAX),
            switches: None,
            overlapping: false,
        }
    }

    pub(super) const fn with_faults(self, faults: usize, kinds: &'static [Action]) -> Self {
        Self {
            faults,
            kinds,
            ..self
        }
    }

    /// Only tasks before `end` have faults.
    pub(super) const fn sparing_from(self, end: usize) -> Self {
        Self {
            faulty_tasks: (self.faulty_tasks.0, end),
            ..self
        }
    }

    /// Only tasks from `first` on have faults.
    pub(super) const fn sparing_until(self, first: usize) -> Self {
        Self {
            faulty_tasks: (first, self.faulty_tasks.1),
            ..self
        }
    }

    pub(super) const fn is_faulty(&self, task: usize) -> bool {
        self.faulty_tasks.0 <= task && task < self.faulty_tasks.1
    }

    pub(super) const fn switching(self, switches: usize) -> Self {
        Self {
            switches: Some(switches),
            ..self
        }
    }

    /// Writes send requests at the same time. That multiplies the orders, so only scenes about the overlap do it.
    pub(super) const fn overlapping(self) -> Self {
        Self {
            overlapping: true,
            ..self
        }
    }

    /// The bounds as docs/proof-schedules.tsv writes them.
    fn text(&self) -> String {
        let orders = match self.switches {
            None => "every order".to_owned(),
            Some(most) => format!("{most} switches"),
        };
        match self.faults {
            0 => orders,
            most => format!("{orders}, {most} faults"),
        }
    }
}

/// A possible choice, with the rows that its request uses.
pub(super) type Offer = (Choice, Footprint);

/// A strategy that selects the next choice.
pub(super) trait Choose {
    fn bounds(&self) -> &Bounds;
    /// Whether a write sends requests at the same time.
    fn overlaps(&self) -> bool;
    fn start(&mut self);
    /// The selected choice. `None` abandons the schedule: an equivalent one is explored already.
    fn choose(&mut self, offers: Vec<Offer>) -> Option<Choice>;
    /// Moves to the next schedule. Returns whether there is one.
    fn next(&mut self) -> bool;
    /// The bounds as docs/proof-schedules.tsv writes them.
    fn text(&self) -> String;
    /// The seed that repeats the schedule.
    fn seed(&self) -> Option<u64>;
}

/// The part of the bounds that a schedule has used.
#[derive(Clone, Debug, Default)]
struct Used {
    faults: usize,
    switches: usize,
    last: Option<usize>,
}

impl Used {
    fn allows(&self, bounds: &Bounds, offers: &[Offer], choice: Choice) -> bool {
        let affordable = !choice.action.is_fault() || self.faults < bounds.faults;
        let free = bounds.switches.is_none_or(|most| self.switches < most);
        affordable && (free || !self.is_switch(offers, choice))
    }

    fn is_switch(&self, offers: &[Offer], choice: Choice) -> bool {
        let could_go_on = offers
            .iter()
            .any(|(c, _)| Some(c.request.task) == self.last && c.action == Action::Run);
        could_go_on && Some(choice.request.task) != self.last
    }

    fn take(&mut self, offers: &[Offer], choice: Choice) {
        self.faults += usize::from(choice.action.is_fault());
        self.switches += usize::from(self.is_switch(offers, choice));
        self.last = Some(choice.request.task);
    }
}

struct Node {
    offers: Vec<Offer>,
    at: usize,
}

/// All schedules, depth first.
pub(super) struct Systematic {
    bounds: Bounds,
    path: Vec<Node>,
    depth: usize,
    used: Used,
    /// Choices that need no exploration here: an equivalent order is explored already (the sleep set).
    asleep: Vec<Offer>,
}

impl Systematic {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            path: Vec::new(),
            depth: 0,
            used: Used::default(),
            asleep: Vec::new(),
        }
    }

    fn fall_asleep(&mut self, node: usize, choice: &Offer) {
        if self.bounds.switches.is_some() {
            return;
        }
        if choice.0.action.is_fault() {
            self.asleep.clear();
            return;
        }
        let node = &self.path[node];
        let explored = node.offers[..node.at]
            .iter()
            .filter(|(c, _)| !c.action.is_fault())
            .cloned();
        self.asleep.extend(explored);
        self.asleep
            .retain(|(c, f)| c.request.task != choice.0.request.task && !f.meets(&choice.1));
    }
}

impl Choose for Systematic {
    fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn overlaps(&self) -> bool {
        self.bounds.overlapping
    }

    fn start(&mut self) {
        (self.depth, self.used) = (0, Used::default());
        self.asleep.clear();
    }

    fn choose(&mut self, offers: Vec<Offer>) -> Option<Choice> {
        let asleep = |choice: &Choice| self.asleep.iter().any(|(c, _)| c == choice);
        let open = offers
            .iter()
            .filter(|(c, _)| self.used.allows(&self.bounds, &offers, *c) && !asleep(c));
        let open: Vec<_> = open.cloned().collect();
        if self.depth == self.path.len() {
            if open.is_empty() {
                return None;
            }
            self.path.push(Node {
                offers: open,
                at: 0,
            });
        } else {
            let known: Vec<_> = self.path[self.depth]
                .offers
                .iter()
                .map(|(c, _)| *c)
                .collect();
            let again: Vec<_> = open.iter().map(|(c, _)| *c).collect();
            assert_eq!(known, again, "a schedule did not repeat itself");
        }
        let node = &self.path[self.depth];
        let taken = node.offers[node.at].clone();
        self.used.take(&offers, taken.0);
        self.fall_asleep(self.depth, &taken);
        self.depth += 1;
        Some(taken.0)
    }

    fn text(&self) -> String {
        self.bounds.text()
    }

    fn seed(&self) -> Option<u64> {
        None
    }

    fn next(&mut self) -> bool {
        while let Some(node) = self.path.last_mut() {
            node.at += 1;
            if node.at < node.offers.len() {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

/// Random schedules.
pub(super) struct Random {
    bounds: Bounds,
    seed: u64,
    left: usize,
    rng: Rng,
    used: Used,
    /// Whether the last task mostly continues: the other tasks then wait for a long time.
    steady: bool,
    /// Whether a write sends requests at the same time.
    overlapping: bool,
}

impl Random {
    /// Schedules from consecutive seeds. The variable `PROOF_TIMES` multiplies their number.
    pub(super) fn new(bounds: Bounds, seed: u64, schedules: usize) -> Self {
        let times = env::var("PROOF_TIMES").map_or(1, |times| times.parse().expect("a number"));
        Self {
            bounds,
            seed,
            left: schedules * times,
            rng: Rng::with_seed(seed),
            used: Used::default(),
            steady: false,
            overlapping: true,
        }
    }

    /// The same schedules, but the last task mostly continues.
    pub(super) fn steady(self) -> Self {
        Self {
            steady: true,
            ..self
        }
    }

    /// Schedules in which the requests of a write follow each other.
    pub(super) fn one_by_one(self) -> Self {
        Self {
            overlapping: false,
            ..self
        }
    }
}

impl Choose for Random {
    fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn overlaps(&self) -> bool {
        self.overlapping
    }

    fn start(&mut self) {
        self.rng = Rng::with_seed(self.seed);
        self.used = Used::default();
    }

    fn choose(&mut self, offers: Vec<Offer>) -> Option<Choice> {
        let open = offers
            .iter()
            .map(|(c, _)| *c)
            .filter(|c| self.used.allows(&self.bounds, &offers, *c));
        let (faults, plain): (Vec<_>, Vec<_>) = open.partition(|c| c.action.is_fault());
        let strikes = self.rng.u8(..20) == 0;
        let last = self.used.last;
        let on: Vec<_> = plain
            .iter()
            .copied()
            .filter(|c| Some(c.request.task) == last)
            .collect();
        let goes_on = self.steady && !on.is_empty() && self.rng.u8(..8) > 0;
        let plain = if goes_on { on } else { plain };
        let choice = self.rng.choice(if strikes && !faults.is_empty() {
            faults
        } else {
            plain
        })?;
        self.used.take(&offers, choice);
        Some(choice)
    }

    fn text(&self) -> String {
        let steady = if self.steady { "mostly going on, " } else { "" };
        format!("by chance, {steady}{} faults", self.bounds.faults)
    }

    fn seed(&self) -> Option<u64> {
        Some(self.seed)
    }

    fn next(&mut self) -> bool {
        self.left -= 1;
        self.seed += 1;
        self.left > 0
    }
}
