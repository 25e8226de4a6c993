//! The tables of a family: which there are, and making them.

use std::sync::Arc;
use std::time::Duration;

use table_core::store::{Error, ErrorKind, Result, TableStoreExt};
use table_core::typed::FromEntity;
use tokio::sync::OnceCell;

use super::family::Shared;
use super::{Reuse, Slice, TimeSlices};

/// Generations that are tried before giving up.
pub(super) const GENERATIONS: u32 = 100;
/// The first pause while a name cannot be used; it doubles with each.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Slices that a handle remembers: more come only from clocks and data that are wrong.
const KNOWN: usize = 10_000;

impl<T: FromEntity> TimeSlices<T> {
    /// The tables of the family in the order of time. One request a page of 1000 tables.
    ///
    /// # Errors
    /// The store's.
    pub async fn slices(&self) -> Result<Vec<Slice>> {
        self.list("").await
    }

    pub(super) async fn list(&self, name: &str) -> Result<Vec<Slice>> {
        let Shared { store, family, slicing, .. } = &*self.shared;
        let tables = store.all_tables(Some(&format!("{family}{name}"))).await?;
        let mut slices: Vec<_> =
            tables.iter().filter_map(|table| Slice::of_table(family, &**slicing, table)).collect();
        slices.sort_by_key(|slice| (slice.from, slice.generation));
        Ok(slices)
    }

    /// The tables of a slice, in the order of generations.
    pub(super) async fn of_name(&self, name: &str) -> Result<Vec<Slice>> {
        let mut slices = self.list(name).await?;
        slices.retain(|slice| slice.name == name);
        Ok(slices)
    }

    /// The slice's table, made at most once however many ask.
    pub(super) async fn made(&self, name: &str) -> Result<Slice> {
        let cell = self.remembered(name);
        cell.get_or_try_init(|| self.make(name)).await.cloned()
    }

    fn remembered(&self, name: &str) -> Arc<OnceCell<Slice>> {
        let mut known = self.shared.known();
        if known.len() >= KNOWN && !known.contains_key(name) {
            known.clear();
        }
        Arc::clone(known.entry(name.to_owned()).or_default())
    }

    async fn make(&self, name: &str) -> Result<Slice> {
        let latest = self.of_name(name).await?.pop();
        match (self.shared.reuse, latest) {
            (Reuse::Wait(at_most), latest) => {
                self.make_in_time(name, latest.map_or(0, |slice| slice.generation), at_most).await
            }
            (Reuse::Generation, Some(latest)) => Ok(latest),
            (Reuse::Generation, None) => self.make_generation(name).await,
        }
    }

    /// Asks for a table even if it was listed: it may be being deleted.
    async fn make_in_time(&self, name: &str, generation: u32, at_most: Duration) -> Result<Slice> {
        let table = self.shared.table(name, generation)?;
        let (started, mut pause) = (tokio::time::Instant::now(), FIRST_PAUSE);
        loop {
            match self.shared.store.create_table_if_missing(&table).await {
                Err(error) if is_being_deleted(&error) && started.elapsed() + pause <= at_most => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                made => return made.and_then(|_| self.shared.slice(&table)),
            }
        }
    }

    async fn make_generation(&self, name: &str) -> Result<Slice> {
        let mut generation = 0;
        loop {
            let table = self.shared.table(name, generation)?;
            match self.shared.store.create_table_if_missing(&table).await {
                Err(error) if is_being_deleted(&error) && generation < GENERATIONS => generation += 1,
                made => return made.and_then(|_| self.shared.slice(&table)),
            }
        }
    }

    pub(super) fn forget(&self, name: &str) {
        self.shared.known().remove(name);
    }
}

fn is_being_deleted(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TableBeingDeleted { .. })
}

/// Whether the table was dropped.
pub(super) fn is_gone(error: &Error) -> bool {
    error.is_table_not_found() || is_being_deleted(error)
}
