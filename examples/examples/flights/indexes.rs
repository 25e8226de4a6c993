//! Fills and completes the table with declared indexes.

use std::sync::Arc;
use std::time::Duration;

use examples::Result;
use examples::data::DataSet;
use examples::progress::spinner;
use futures_util::{StreamExt, TryStreamExt};
use table_patterns::index::{BulkInsert, IndexOptions, IndexState};
use table_patterns::prelude::*;

use crate::feed::{read_in_background, send_chunks};
use crate::import::Entities;
use crate::model::{FLIGHTS, Flight};
use crate::progress::Progress;

/// The index that is built over the loaded table.
const DELAY: &str = "delay";
/// How long a sweep keeps abort rows: longer than any writer can be paused.
const KEEP_ABORT_ROWS: Duration = Duration::from_secs(24 * 3600);
/// Number of entities that are collected before groups are formed. A larger window has more flights of one plane together, so that fewer
/// requests write the entries by plane.
const WINDOW: usize = 50_000;

/// Returns the database for loading. The index of delays stays absent until it is built.
pub(crate) fn database(store: &Arc<dyn TableStore>, options: &IndexOptions) -> Database {
    let mut options = options.clone();
    options.built_later = vec![DELAY.to_owned()];
    Database::with_options(Arc::clone(store), options)
}

/// Inserts entities with their index entries, in groups: at most `concurrency` at once.
pub(crate) async fn insert<T: TableEntity>(
    (table, concurrency): (&Table<T>, usize),
    data: &Arc<DataSet>,
    read: fn(&DataSet) -> Result<Entities<'_>>,
    progress: &Progress,
) -> Result<()> {
    let (entities, reader) =
        read_in_background(data, move |data, sender| send_chunks(sender, read(data)?));
    let options = BulkInsert::default()
        .with_concurrency(concurrency)
        .with_window(WINDOW);
    let indexed = table.entities().await?;
    let mut outcomes = Box::pin(indexed.insert_all(entities.map(Ok), options));
    let mut pending = false;
    while let Some(outcome) = outcomes.try_next().await? {
        pending |= outcome.pending;
        outcome.result?;
        progress.advance(table.name().as_str(), 1);
    }
    // Some entries were not written in time. A sweep writes them; it waits for leases, so this loop does not spin. (&[]: the table has no
    // unique index in another partition or table.)
    while pending {
        let swept = indexed.journal().sweep(&[], KEEP_ABORT_ROWS).await?;
        if let Some((_, error)) = swept.failures.into_iter().next() {
            return Err(error.into());
        }
        pending = swept.left > 0;
    }
    reader.await?
}

/// Builds the index of delays over the loaded flights, unless it exists. Other programs may write the table during the build.
pub(crate) async fn build_delays(
    store: &Arc<dyn TableStore>,
    options: &IndexOptions,
) -> Result<()> {
    let flights = database(store, options).table::<Flight>(FLIGHTS)?;
    let entities = flights.entities().await?;
    if entities.state(DELAY) == IndexState::Readable {
        return Ok(());
    }
    let bar = spinner("by delay");
    let build = entities.build(DELAY)?.on_progress(|progress| {
        bar.set_position(progress.entities as u64);
        bar.set_message(format!(
            "{} entries in {} groups",
            progress.entries, progress.groups
        ));
    });
    build.run().await?;
    bar.abandon();
    Ok(())
}
