//! Opens, fills and completes the tables with declared indexes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use indicatif::{ProgressBar, ProgressStyle};
use table_core::store::TableStore;
use table_core::typed::IndexedEntity;
use table_patterns::index::{BulkInsert, Index, IndexOptions, IndexState, IndexedTable};
use table_patterns::journal::Timing;

use crate::Result;
use crate::data::DataSet;
use crate::feed::{feed, hand_over};
use crate::import::Entities;
use crate::model::{FLIGHTS, Flight, flights_of_carrier};
use crate::progress::Progress;

/// The index that is built over the loaded table.
const DELAY: &str = "delay";
/// How long a sweep keeps the abort rows of writes that were given up.
const KEEP_ABORTS: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of groups in flight.
const IN_FLIGHT: usize = 16;
/// Number of entities from which groups are formed. With more entities, each group has fewer planes.
const WINDOW: usize = 50_000;

/// Opens a table for writing.
///
/// A change of an index state waits for the durations of the programs that write, or, in a store of this process, for the writes in
/// progress. The lease is longer than the time that a group and its entries take.
pub(crate) async fn open<T: IndexedEntity>(
    store: &Arc<dyn TableStore>,
    table: &str,
    more: Vec<Index>,
) -> Result<IndexedTable<T>> {
    let mut options = IndexOptions::local();
    let [client, server, cache] = [5000, 500, 2000].map(Duration::from_millis);
    options.timing = Timing::new(Duration::from_secs(30), client, server)?;
    options.cache = cache;
    options.built_later = vec![DELAY.to_owned()];
    Ok(IndexedTable::open_with(Arc::clone(store), table, more, options).await?)
}

/// Opens a table for reading.
pub(crate) async fn open_to_read<T: IndexedEntity>(
    store: &Arc<dyn TableStore>,
    table: &str,
    more: Vec<Index>,
) -> Result<IndexedTable<T>> {
    let options = IndexOptions::default();
    Ok(IndexedTable::open_to_read(Arc::clone(store), table, more, options).await?)
}

/// Adds entities with their entries. A sweep completes entries that were not applied in time.
pub(crate) async fn insert<T: IndexedEntity>(
    table: &IndexedTable<T>,
    data: &Arc<DataSet>,
    read: fn(&DataSet) -> Result<Entities<'_>>,
    progress: &Progress,
) -> Result<()> {
    let (entities, reader) = feed(data, move |data, sender| hand_over(sender, read(data)?));
    let options = BulkInsert::default().with_concurrency(IN_FLIGHT).with_window(WINDOW);
    let mut outcomes = Box::pin(table.entities().insert_all(entities.map(Ok), options));
    let mut pending = false;
    while let Some(outcome) = outcomes.try_next().await? {
        pending |= outcome.pending;
        outcome.result?;
        progress.advance(table.table().name().as_str(), 1);
    }
    while pending {
        pending = table.entities().journal().sweep(&[], KEEP_ABORTS).await?.left > 0;
    }
    reader.await?
}

/// Builds the index of delays over the loaded flights, unless it exists. Programs could write the table during the build.
pub(crate) async fn build_delays(store: &Arc<dyn TableStore>) -> Result<()> {
    let flights = open::<Flight>(store, FLIGHTS, vec![flights_of_carrier()?]).await?;
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
