//! The progress of a load on a terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A progress bar per table, on standard error if that is a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bars: Vec<(&'static str, ProgressBar)>,
}

impl Progress {
    /// Creates bars for tables with their expected numbers of entities.
    pub(crate) fn new(tables: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
        let all = MultiProgress::new();
        let style =
            ProgressStyle::with_template("{prefix:>12} {bar:40} {human_pos:>7}/{human_len} {per_sec:>12}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = |(table, entities)| {
            let bar = ProgressBar::new(entities as u64).with_prefix(table).with_style(style.clone());
            (table, all.add(bar))
        };
        Self { bars: tables.into_iter().map(bar).collect() }
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
