//! The tables with declared indexes: how they are opened, filled and completed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use table_core::model::Entity;
use table_core::store::{ServiceProfile, TableStore};
use table_core::typed::IndexedEntity;
use table_patterns::index::{BulkInsert, IndexOptions, IndexState, IndexedTable};
use table_patterns::journal::Timing;

use crate::Result;
use crate::model::{FLIGHTS, Flight};
use crate::progress::Progress;

/// The index that is built over the loaded table.
const DELAY: &str = "delay";
/// Groups being written.
const IN_FLIGHT: usize = 64;
/// Entities whose groups are formed together: the more, the fewer planes in each.
const WINDOW: usize = 100_000;

/// Opens a table to write: a lease outlives the writing of a group.
pub(crate) async fn open<T: IndexedEntity>(
    store: &Arc<dyn TableStore>,
    table: &str,
) -> Result<IndexedTable<T>> {
    let local = store.profile().name == ServiceProfile::LOCAL.name;
    let request = Duration::from_millis(if local { 100 } else { 5000 });
    let mut options = IndexOptions::local();
    options.timing = Timing::new(Duration::from_secs(120), request)?;
    options.built_later = vec![DELAY.to_owned()];
    Ok(IndexedTable::open(Arc::clone(store), table, options).await?)
}

/// Opens a table to read: nobody changes its indexes meanwhile.
pub(crate) async fn open_to_read<T: IndexedEntity>(
    store: &Arc<dyn TableStore>,
    table: &str,
) -> Result<IndexedTable<T>> {
    let mut options = IndexOptions::default();
    options.cache = Duration::from_secs(3600);
    options.built_later = vec![DELAY.to_owned()];
    Ok(IndexedTable::open(Arc::clone(store), table, options).await?)
}

/// Adds entities with their entries.
pub(crate) async fn insert<T: IndexedEntity>(
    table: &IndexedTable<T>,
    entities: Vec<Entity>,
    progress: &Progress,
) -> Result<()> {
    let options = BulkInsert::default().with_parallelism(IN_FLIGHT).with_window(WINDOW);
    let inserts = stream::iter(entities.into_iter().map(Ok));
    let mut outcomes = Box::pin(table.entities().insert_all(inserts, options));
    while let Some(outcome) = outcomes.try_next().await? {
        outcome.result?;
        progress.advance(table.table().name().as_str(), 1);
    }
    Ok(())
}

/// Builds the index of delays over the loaded flights, unless it is there. Writers could go on.
pub(crate) async fn build_delays(store: &Arc<dyn TableStore>) -> Result<()> {
    let flights = open::<Flight>(store, FLIGHTS).await?;
    if flights.entities().state(DELAY) == IndexState::Readable {
        return Ok(());
    }
    let style = ProgressStyle::with_template("{prefix:>12} {spinner} {human_pos} flights, {msg}")?;
    let bar = ProgressBar::no_length().with_prefix("by delay").with_style(style);
    let build = flights.entities().build(DELAY)?.on_progress(|progress| {
        bar.set_position(progress.entities as u64);
        bar.set_message(format!("{} entries in {} groups", progress.entries, progress.groups));
    });
    build.run().await?;
    bar.abandon();
    Ok(())
}
