//! Scenes of an index and its manifest: writers, and processes that build, scrub or drop the index.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::Invariant;
use super::chooser::Choose;
use super::explorer::{Explored, Schedule, explore};
use super::index_model::IndexModel;
use super::journal_scene::Write;
use super::scheduler::Scheduler;

/// The kinds of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// Rows in another table.
    Rows,
    /// Rows in another table, with unique values.
    Unique,
    /// Lists in another table.
    Lists,
    /// Local rows: in the partition of the entity.
    Local,
    /// Local rows with values that are unique in the partition.
    UniqueLocal,
}

/// The maintenance of the index while writers continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Maintenance {
    Nothing,
    /// The index is absent and is built.
    Build,
    /// The index is damaged; a scrub repairs it.
    Repair,
    /// The index is damaged; a scrub reports the damage.
    Report,
    Drop,
    /// The index is dropped; later maintainers drop it and build it again.
    Rebuild,
}

/// Writers, maintainers and workers of a table with an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexScene {
    pub(super) kind: EntryKind,
    pub(super) maintenance: Maintenance,
    pub(super) start: &'static [(&'static str, &'static str)],
    /// The group of each writer.
    pub(super) groups: &'static [&'static [Write]],
    /// The start of the writers.
    pub(super) writers_start: Duration,
    /// The number of tasks that build, scrub or drop.
    pub(super) maintainers: usize,
    /// The time between the starts of two maintainers.
    pub(super) interval: Duration,
    pub(super) workers: usize,
    pub(super) queued: bool,
    pub(super) omitted: Option<Invariant>,
}

impl IndexScene {
    pub(super) const fn new(
        kind: EntryKind,
        maintenance: Maintenance,
        start: &'static [(&'static str, &'static str)],
        groups: &'static [&'static [Write]],
    ) -> Self {
        let (writers_start, interval) = (Duration::ZERO, Duration::ZERO);
        Self {
            kind,
            maintenance,
            start,
            groups,
            writers_start,
            maintainers: 1,
            interval,
            workers: 0,
            queued: false,
            omitted: None,
        }
    }

    pub(super) const fn writers_start_at(self, writers_start: Duration) -> Self {
        Self {
            writers_start,
            ..self
        }
    }

    pub(super) const fn with_maintainers(self, maintainers: usize, interval: Duration) -> Self {
        Self {
            maintainers,
            interval,
            ..self
        }
    }

    /// Adds a queue, and this number of workers.
    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self {
            workers,
            queued: true,
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
        explore(chooser, self.omitted, &async |scheduler: &Scheduler| {
            let model = IndexModel::new(scheduler, *self).await?;
            let mut tasks: Vec<BoxFuture<'static, ()>> = Vec::new();
            for group in self.groups {
                tasks.push(model.writer(tasks.len(), group).await?);
            }
            if self.maintenance != Maintenance::Nothing {
                for number in 0..self.maintainers {
                    tasks.push(model.maintainer(tasks.len(), number).await?);
                }
            }
            for _ in 0..self.workers {
                tasks.push(model.worker(tasks.len()).await?);
            }
            Ok(Schedule {
                tasks,
                verdict: model.verdict(),
            })
        })
    }

    /// Whether the index is readable during the whole schedule.
    pub(super) fn has_it_throughout(&self) -> bool {
        !matches!(
            self.maintenance,
            Maintenance::Build | Maintenance::Drop | Maintenance::Rebuild
        )
    }

    /// Whether a writer rewrites an entity with its value. A missing entry of that entity stays missing until the
    /// next scrub.
    pub(super) fn rewrites_the_same(&self) -> bool {
        let same = |write: &Write| {
            write
                .1
                .is_some_and(|value| self.start.contains(&(write.0, value)))
        };
        self.groups.iter().any(|group| group.iter().any(same))
    }
}
