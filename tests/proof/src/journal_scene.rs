//! Scenes of the journal: the tasks and the options of an exploration.

use super::Invariant;
use super::chooser::Choose;
use super::explorer::{Explored, Schedule, explore};
use super::journal_model::{EntryKinds, JournalModel};

/// An entity and its new value; `None` deletes the entity.
pub(super) type Write = (&'static str, Option<&'static str>);

/// Writers, movers, workers and sweepers over the same entities, each in a process of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalScene {
    pub(super) kinds: EntryKinds,
    pub(super) start: &'static [(&'static str, &'static str)],
    pub(super) writes: &'static [Write],
    /// The number of attempts of each writer.
    pub(super) attempts: usize,
    /// The number of workers. Each receives tickets twice, as soon as they are sent.
    pub(super) workers: usize,
    pub(super) sweepers: usize,
    pub(super) queued: bool,
    /// Whether the retry adapter sends lost requests again and recognizes its own writes by write ids.
    pub(super) retried: bool,
    /// Whether the entities were written under another definition of the index, whose journal rows are left.
    pub(super) redefined: bool,
    pub(super) omitted: Option<Invariant>,
    /// The moves: source and target.
    pub(super) moves: &'static [(&'static str, &'static str)],
    /// Whether a move replaces an entity at its target.
    pub(super) replaces: bool,
    /// Whether writes are cleared after their answers.
    pub(super) cleared_later: bool,
}

impl JournalScene {
    pub(super) const fn new(
        kinds: EntryKinds,
        start: &'static [(&'static str, &'static str)],
        writes: &'static [Write],
    ) -> Self {
        Self {
            kinds,
            start,
            writes,
            attempts: 1,
            workers: 0,
            sweepers: 0,
            queued: true,
            retried: false,
            redefined: false,
            omitted: None,
            moves: &[],
            replaces: false,
            cleared_later: false,
        }
    }

    pub(super) const fn trying(self, attempts: usize) -> Self {
        Self { attempts, ..self }
    }

    pub(super) const fn moving(self, moves: &'static [(&'static str, &'static str)]) -> Self {
        Self { moves, ..self }
    }

    pub(super) const fn replacing(self) -> Self {
        Self {
            replaces: true,
            ..self
        }
    }

    pub(super) const fn cleared_later(self) -> Self {
        Self {
            cleared_later: true,
            ..self
        }
    }

    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self { workers, ..self }
    }

    pub(super) const fn with_sweepers(self, sweepers: usize) -> Self {
        Self { sweepers, ..self }
    }

    pub(super) const fn without_queue(self) -> Self {
        Self {
            queued: false,
            ..self
        }
    }

    pub(super) const fn under_retries(self) -> Self {
        Self {
            retried: true,
            ..self
        }
    }

    pub(super) const fn redefined(self) -> Self {
        Self {
            redefined: true,
            ..self
        }
    }

    pub(super) const fn without_invariant(self, invariant: Invariant) -> Self {
        Self {
            omitted: Some(invariant),
            ..self
        }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(
            chooser,
            self.omitted,
            &async |scheduler: &super::scheduler::Scheduler| {
                let model = match self.redefined {
                    true => JournalModel::redefined(scheduler, self.kinds, self.start).await?,
                    false => JournalModel::new(scheduler, self.kinds, self.start).await?,
                };
                let mut model = model;
                if !self.moves.is_empty() && !self.replaces {
                    model = model.with_lineage(self.start);
                }
                if !self.queued {
                    model = model.without_queue();
                }
                if self.cleared_later {
                    model = model.clearing_later();
                }
                if self.retried {
                    model = model.under_retries();
                }
                let numbered = self.writes.iter().enumerate();
                let mut tasks: Vec<_> = numbered
                    .map(|(n, (id, value))| model.writer(n, id, *value, self.attempts))
                    .collect();
                for (from, to) in self.moves {
                    tasks.push(model.mover(tasks.len(), from, to, self.replaces));
                }
                for _ in 0..self.workers {
                    tasks.push(model.worker(tasks.len(), 2));
                }
                for _ in 0..self.sweepers {
                    tasks.push(model.sweeper(tasks.len(), 2));
                }
                Ok(Schedule {
                    tasks,
                    verdict: model.verdict(),
                })
            },
        )
    }
}
