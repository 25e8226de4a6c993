//! `tables count`.

use clap::Args;
use futures_util::TryStreamExt as _;
use serde_json::json;
use table_core::model::INDEX_NAME;
use table_core::query::{Filter, Select};
use table_core::store::TableStoreExt as _;

use crate::failure::Result;
use crate::output::print;
use crate::pace::{LongArgs, until_stopped};
use crate::progress::Progress;
use crate::query::{Selection, table};
use crate::store::{Access, StoreName};

/// The arguments of `tables count`.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    /// The store
    store: StoreName,
    /// The table
    table: String,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    long: LongArgs,
}

impl CountArgs {
    /// Prints the number of entities. 1 request per page: the service cannot count, so the keys are read.
    pub(crate) async fn run(&self) -> Result<()> {
        let table = table(&self.table)?;
        // This property tells index entries from entities. It is read only if they are left out.
        let index_name = self.selection.hides_index_entries().then_some(INDEX_NAME);
        let keys = Select::new([Filter::PARTITION_KEY, Filter::ROW_KEY].into_iter().chain(index_name));
        let query = self.selection.query()?.with_select(keys);
        let open = self.store.open(Access::Read, self.long.pace).await?;
        let mut pages = open.store.query_pages(table.clone(), query);
        let stored = match self.selection.reads_all() {
            true => open.rows_of(std::slice::from_ref(&table)).await,
            false => None,
        };
        let mut progress = Progress::new("counted", open.meter.clone(), self.long.quiet).of_stored(stored);
        let work = async {
            let mut count = 0_u64;
            while let Some(page) = pages.try_next().await? {
                let found = page.items.iter().filter(|row| self.selection.shows(row)).count() as u64;
                count += found;
                progress.add_of(found, page.items.len() as u64);
            }
            Ok(count)
        };
        let count = until_stopped(work, "nothing was changed: run the same command again").await;
        // The stream holds the store, which is closed next.
        drop(pages);
        progress.end();
        let requests = open.meter.total();
        open.close().await?;
        let count = count?;
        // The number alone is on the last line.
        print(&match self.long.json {
            true => format!("{}\n", json!({"table": table.as_str(), "count": count, "requests": requests})),
            false => format!("{count}\n"),
        })
    }
}
