//! What is played.

use super::choose::Choose;
use super::explore::{Explored, Play, explore};
use super::world::{People, World};
use crate::journal::Rule;

/// An entity, and the value it is given; `None` deletes it.
pub(super) type Write = (&'static str, Option<&'static str>);

/// Writers, workers and sweepers over the same entities, each a process of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) people: People,
    pub(super) start: &'static [(&'static str, &'static str)],
    pub(super) writes: &'static [Write],
    /// How often each writer tries.
    pub(super) attempts: usize,
    /// Workers receive tickets as soon as they are sent, twice.
    pub(super) workers: usize,
    pub(super) sweepers: usize,
    pub(super) queued: bool,
    /// Whether lost requests are sent again, and written entities carry ids by which they are found.
    pub(super) retried: bool,
    /// Whether what is there was first written under another definition of the index, whose journal rows are left.
    pub(super) redefined: bool,
    pub(super) broken: Option<Rule>,
    /// Which entities are moved, and where to.
    pub(super) moves: &'static [(&'static str, &'static str)],
    /// Whether a move replaces what is at its target.
    pub(super) replaces: bool,
}

impl Scene {
    pub(super) const fn new(
        people: People,
        start: &'static [(&'static str, &'static str)],
        writes: &'static [Write],
    ) -> Self {
        Self {
            people,
            start,
            writes,
            attempts: 1,
            workers: 0,
            sweepers: 0,
            queued: true,
            retried: false,
            redefined: false,
            broken: None,
            moves: &[],
            replaces: false,
        }
    }

    pub(super) const fn trying(self, attempts: usize) -> Self {
        Self { attempts, ..self }
    }

    pub(super) const fn moving(self, moves: &'static [(&'static str, &'static str)]) -> Self {
        Self { moves, ..self }
    }

    pub(super) const fn replacing(self) -> Self {
        Self { replaces: true, ..self }
    }

    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    pub(super) const fn with_sweepers(self, sweepers: usize) -> Self {
        Self { sweepers, ..self }
    }

    pub(super) const fn without_queue(self) -> Self {
        Self { queued: false, ..self }
    }

    pub(super) const fn under_retries(self) -> Self {
        Self { retried: true, ..self }
    }

    pub(super) const fn redefined(self) -> Self {
        Self { redefined: true, ..self }
    }

    pub(super) const fn breaking(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &super::stage::Stage| {
            let world = match self.redefined {
                true => World::redefined(stage, self.people, self.start).await?,
                false => World::new(stage, self.people, self.start).await?,
            };
            let mut world = world.breaking(self.broken);
            if !self.moves.is_empty() && !self.replaces {
                world = world.with_lineage(self.start);
            }
            if !self.queued {
                world = world.without_queue();
            }
            if self.retried {
                world = world.under_retries();
            }
            let numbered = self.writes.iter().enumerate();
            let mut tasks: Vec<_> =
                numbered.map(|(n, (id, value))| world.writer(n, id, *value, self.attempts)).collect();
            for (from, to) in self.moves {
                tasks.push(world.mover(tasks.len(), from, to, self.replaces));
            }
            for _ in 0..self.workers {
                tasks.push(world.worker(tasks.len(), 2));
            }
            for _ in 0..self.sweepers {
                tasks.push(world.sweeper(tasks.len(), 2));
            }
            Ok(Play { tasks, verdict: world.verdict() })
        })
    }
}
