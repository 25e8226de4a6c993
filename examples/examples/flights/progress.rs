//! The progress of a load on a terminal.

use examples::progress;
use indicatif::{MultiProgress, ProgressBar};

/// A progress bar per table, on standard error if that is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: Vec<(&'static str, ProgressBar)>,
}

impl Progress {
    /// Creates bars for tables with their expected numbers of entities.
    pub(crate) fn new(tables: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
        let all = MultiProgress::new();
        let bar = |(table, entities)| (table, all.add(progress::bar(table, entities)));
        Self {
            bars: tables.into_iter().map(bar).collect(),
        }
    }

    /// Counts entities that were written to a table.
    pub(crate) fn advance(&self, table: &str, entities: usize) {
        let bar = self.bars.iter().find(|(name, _)| *name == table);
        if let Some((_, bar)) = bar {
            bar.inc(entities as u64);
        }
    }

    /// Leaves the bars visible. Returns the number of counted entities.
    pub(crate) fn finish(&self) -> u64 {
        self.bars.iter().for_each(|(_, bar)| bar.abandon());
        self.bars.iter().map(|(_, bar)| bar.position()).sum()
    }
}
