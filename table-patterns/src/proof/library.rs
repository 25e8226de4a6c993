//! Scenes of processes that have indexes and their manifest: writers, and those who build, scrub or drop.

use std::time::Duration;

use futures_util::future::BoxFuture;

use super::choose::Choose;
use super::explore::{Explored, Play, explore};
use super::scene::Write;
use super::shelf::Shelf;
use super::stage::Stage;
use crate::journal::Rule;

/// How the entries of the index are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Rows of another table.
    Rows,
    /// The same, and no two entities have one value.
    Unique,
    /// Lists in another table.
    Lists,
    /// Rows beside the entity.
    Beside,
    /// Rows beside the entity, one for each value.
    UniqueBeside,
}

/// What is done with the index while writers go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    Nothing,
    /// It is absent, and built.
    Build,
    /// It is damaged, and scrubbed.
    Repair,
    /// It is damaged, and looked at.
    Report,
    Drop,
    /// It is dropped, and by whoever comes later dropped and built again.
    Rebuild,
}

/// What goes on in a table with an index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Library {
    pub(super) kind: Kind,
    pub(super) keeping: Keeping,
    pub(super) start: &'static [(&'static str, &'static str)],
    /// The group that each writer writes.
    pub(super) groups: &'static [&'static [Write]],
    /// When the writers begin.
    pub(super) after: Duration,
    /// How many build, scrub or drop.
    pub(super) keepers: usize,
    /// How long after the one before each of them begins.
    pub(super) every: Duration,
    pub(super) workers: usize,
    pub(super) queued: bool,
    pub(super) broken: Option<Rule>,
}

impl Library {
    pub(super) const fn new(
        kind: Kind,
        keeping: Keeping,
        start: &'static [(&'static str, &'static str)],
        groups: &'static [&'static [Write]],
    ) -> Self {
        let (after, every) = (Duration::ZERO, Duration::ZERO);
        Self {
            kind,
            keeping,
            start,
            groups,
            after,
            keepers: 1,
            every,
            workers: 0,
            queued: false,
            broken: None,
        }
    }

    pub(super) const fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    pub(super) const fn with_keepers(self, keepers: usize, every: Duration) -> Self {
        Self { keepers, every, ..self }
    }

    /// With a queue, and so many who work on its tickets.
    pub(super) const fn with_workers(self, workers: usize) -> Self {
        Self { workers, queued: true, ..self }
    }

    pub(super) const fn breaking(self, rule: Rule) -> Self {
        Self { broken: Some(rule), ..self }
    }

    pub(super) fn explore(&self, chooser: impl Choose) -> Explored {
        explore(chooser, &async |stage: &Stage| {
            let shelf = Shelf::new(stage, *self).await?;
            let mut tasks: Vec<BoxFuture<'static, ()>> = Vec::new();
            for group in self.groups {
                tasks.push(shelf.writer(tasks.len(), group).await?);
            }
            if self.keeping != Keeping::Nothing {
                for number in 0..self.keepers {
                    tasks.push(shelf.keeper(tasks.len(), number).await?);
                }
            }
            for _ in 0..self.workers {
                tasks.push(shelf.worker(tasks.len()).await?);
            }
            Ok(Play { tasks, verdict: shelf.verdict() })
        })
    }

    /// Whether the index is readable all the while.
    pub(super) fn has_it_throughout(&self) -> bool {
        !matches!(self.keeping, Keeping::Build | Keeping::Drop | Keeping::Rebuild)
    }

    /// Whether an entity is written as it is: its entry, if it was lost, is left to the next scrub.
    pub(super) fn rewrites_the_same(&self) -> bool {
        let same = |write: &Write| write.1.is_some_and(|value| self.start.contains(&(write.0, value)));
        self.groups.iter().any(|group| group.iter().any(same))
    }
}
