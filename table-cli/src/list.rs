//! `tables list`.

use clap::Args;
use table_core::engine::entity_size;
use table_core::manifest::Manifest;
use table_core::model::TableName;
use table_core::query::Query;
use table_core::store::{ManifestCache, TableStore, TableStoreExt as _};

use crate::failure::Result;
use crate::output::print;
use crate::pace::Pace;
use crate::store::{Access, StoreName};

/// The arguments of `tables list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// The store
    store: StoreName,
    /// Only the tables whose names start with this text
    #[arg(long, value_name = "P")]
    prefix: Option<String>,
    /// Also the number and the size of the rows, the indexes and the entity types; 2 requests for each table. Of a table with more than one
    /// page, the first page alone, with a + after the numbers
    #[arg(long)]
    long: bool,
    #[command(flatten)]
    pace: Pace,
}

impl ListArgs {
    /// Prints the tables, one on a line.
    pub(crate) async fn run(&self) -> Result<()> {
        let open = self.store.open(Access::Read, self.pace).await?;
        let tables = open.store.all_tables(self.prefix.as_deref()).await?;
        if self.long {
            for table in tables {
                print(&long_line(&*open.store, &table).await?)?;
            }
        } else {
            print(&tables.iter().map(|table| format!("{table}\n")).collect::<String>())?;
        }
        open.close().await
    }
}

/// The name, the number and the size of the rows by the service's formula, and the manifest in short.
async fn long_line(store: &dyn TableStore, table: &TableName) -> Result<String> {
    // The first page only: the service cannot count, and a whole table takes a request for each 1,000 rows.
    let page = store.query(table, &Query::new(), None).await?;
    let more = if page.continuation.is_some() { "+" } else { "" };
    let manifest = ManifestCache::for_store(store).get(store, table).await?;
    let bytes: usize = page.items.iter().map(|row| entity_size(row.key(), row.properties())).sum();
    let (rows, kib) = (page.items.len(), bytes.div_ceil(1024));
    Ok(format!("{table}\t{rows}{more} rows\t{kib}{more} KiB{}\n", in_short(&manifest)))
}

/// The names of the types and indexes, each with a tab before it; empty if there are none.
fn in_short(manifest: &Manifest) -> String {
    let index = |index: &table_core::manifest::StoredIndex| format!("{} ({})", index.name, index.state);
    let indexes: Vec<_> = manifest.indexes.iter().map(index).collect();
    let types = manifest.types.iter().filter_map(|stored| stored.entity.as_ref());
    let types: Vec<_> = types.map(|entity| entity.name.to_string()).collect();
    let mut out = String::new();
    for (name, list) in [("types", types), ("indexes", indexes)] {
        if !list.is_empty() {
            out.push_str(&format!("\t{name}: {}", list.join(", ")));
        }
    }
    out
}
