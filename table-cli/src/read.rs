//! The commands that read one table after another: `tables list`, `tables get`, `tables query` and `tables count`.

use clap::Args;
use futures_util::TryStreamExt as _;
use serde_json::json;
use table_core::engine::entity_size;
use table_core::manifest::{IndexState, Manifest, StoredIndex};
use table_core::model::{INDEX_NAME, Key, TableName};
use table_core::query::{AccessPath, Filter, Query, Select};
use table_core::store::{CycleDetector, TableStore, TableStoreExt as _};

use crate::failure::{Failure, Result};
use crate::keys::KeyArgs;
use crate::output::{one_line, print, print_json, remark};
use crate::pace::{LongArgs, Pace, until_stopped};
use crate::rows::{Format, Printer};
use crate::selection::Selection;
use crate::store::{Access, OpenStore, StoreName, manifest};

/// The pages that a query may read of a whole table without `--scan`: 10,000 entities of the service.
const PAGES_WITHOUT_SCAN: usize = 10;
/// The most entities in a page of the service.
/// <https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination>
const MAX_PAGE_ENTITIES: usize = 1000;

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
        self.store
            .with_open(Access::Read, self.pace, async |open| self.list(open).await)
            .await
    }

    async fn list(&self, open: &OpenStore) -> Result<()> {
        let tables = open.store.all_tables(self.prefix.as_deref()).await?;
        if !self.long {
            return print(
                &tables
                    .iter()
                    .map(|table| format!("{table}\n"))
                    .collect::<String>(),
            );
        }
        for table in tables {
            print(&long_line(&*open.store, &table).await?)?;
        }
        Ok(())
    }
}

/// The name, the number and the size of the rows by the service's formula, and the manifest in short.
async fn long_line(store: &dyn TableStore, table: &TableName) -> Result<String> {
    // The first page only: the service cannot count, and a whole table takes a request for each 1,000 rows.
    let page = store.query(table, &Query::new(), None).await?.into_page()?;
    let more = if page.continuation.is_some() { "+" } else { "" };
    let manifest = manifest(store, table).await?;
    let bytes: usize = page
        .items
        .iter()
        .map(|row| entity_size(row.key(), row.properties()))
        .sum();
    let (rows, kib) = (page.items.len(), bytes.div_ceil(1024));
    Ok(format!(
        "{table}\t{rows}{more} rows\t{kib}{more} KiB{}\n",
        types_and_indexes(&manifest)
    ))
}

/// The list of the types, and the list of the indexes with their states, each with a tab before it; nothing for an empty list.
fn types_and_indexes(manifest: &Manifest) -> String {
    let index = |index: &StoredIndex| format!("{} ({})", one_line(&index.name), index.state);
    let indexes: Vec<_> = manifest.indexes.iter().map(index).collect();
    let types = manifest
        .types
        .iter()
        .filter_map(|stored| stored.entity.as_ref());
    let types: Vec<_> = types
        .map(|entity| one_line(&entity.name).into_owned())
        .collect();
    let mut out = String::new();
    for (name, list) in [("types", types), ("indexes", indexes)] {
        if !list.is_empty() {
            out.push_str(&format!("\t{name}: {}", list.join(", ")));
        }
    }
    out
}

/// The arguments of `tables get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    /// The PartitionKey
    partition: String,
    /// The RowKey
    row: String,
    /// How the entity is printed
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    #[command(flatten)]
    keys: KeyArgs,
}

impl GetArgs {
    /// Prints one entity. 1 request; with keys 1 more for the manifest.
    pub(crate) async fn run(&self) -> Result<()> {
        let key = Key::new(&self.partition, &self.row).map_err(Failure::misuse)?;
        let get = async |open: &mut OpenStore| self.get(open, &key).await;
        self.store
            .with_open(Access::Read, Pace::default(), get)
            .await
    }

    async fn get(&self, open: &mut OpenStore, key: &Key) -> Result<()> {
        let table = &self.table;
        self.keys.apply(open, std::slice::from_ref(table)).await?;
        let entity = open.store.get_existing(table, key).await?;
        let mut printer = Printer::new(self.format, &[])?;
        printer.page(&[entity])?;
        printer.end()
    }
}

/// The arguments of `tables query`.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    #[command(flatten)]
    selection: Selection,
    /// Only these properties, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    select: Vec<String>,
    /// At most this many entities
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Say how the query would run, and which index has its results: 1 request, for the manifest
    #[arg(long)]
    explain: bool,
    /// How entities are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Allow a query that reads more than 10 pages of a whole table
    #[arg(long)]
    scan: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    pace: Pace,
}

impl QueryArgs {
    /// Prints the entities. 1 request per page; with keys 1 more for the manifest.
    pub(crate) async fn run(&self) -> Result<()> {
        let mut query = self.selection.query();
        if !self.select.is_empty() {
            // This property tells index entries from entities, so it is read in addition to the selected
            // ones.
            let index_name = self.selection.hides_index_entries().then_some(INDEX_NAME);
            query = query.with_select(Select::new(
                self.select.iter().map(String::as_str).chain(index_name),
            ));
        }
        let work = async |open: &mut OpenStore| {
            if self.explain {
                return self.explain(open, query).await;
            }
            self.keys
                .apply(open, std::slice::from_ref(&self.table))
                .await?;
            self.print_pages(open, query).await
        };
        self.store.with_open(Access::Read, self.pace, work).await
    }

    async fn explain(&self, open: &OpenStore, mut query: Query) -> Result<()> {
        query.top = self.top;
        let requests = match query.access_path() {
            AccessPath::Point => "1 request",
            AccessPath::RowRange | AccessPath::PartitionScan => {
                "1 request for each 1000 entities of the range, or more"
            }
            AccessPath::PartitionRange | AccessPath::TableScan => {
                "1 request for each 1000 entities of the range, or more; --partition makes it a partition scan"
            }
        };
        let mut explanation = query.explain(open.store.profile());
        if self.selection.hides_index_entries() {
            match manifest(&*open.store, &self.table).await {
                Ok(manifest) => {
                    let in_force = manifest.indexes.iter().filter(|index| {
                        index.state == IndexState::Readable && index.unconfirmed.is_none()
                    });
                    let definitions = in_force.filter_map(|index| index.definition.as_ref());
                    explanation = explanation.with_indexes(&query, definitions, None);
                }
                Err(error) => remark(&format!(
                    "no index is considered, because the manifest cannot be read: {error}"
                )),
            }
        }
        print(&format!("{explanation}\n{requests}\n"))
    }

    async fn print_pages(&self, open: &OpenStore, mut query: Query) -> Result<()> {
        // From this path on, a query is not bounded by one partition, and its cost grows with the table.
        let is_limited = !self.scan && query.access_path() >= AccessPath::PartitionRange;
        let mut printer = Printer::new(self.format, &self.select)?;
        let (mut unprinted, mut left, mut shown, mut from) =
            (Vec::new(), self.top.unwrap_or(usize::MAX), 0_usize, None);
        let (mut pages, mut cycles) = (0, CycleDetector::default());
        while left > 0 {
            if is_limited && pages == PAGES_WITHOUT_SCAN {
                return Err(too_long(&query));
            }
            // Rows that are left out count for the service, so a page may have fewer entities than asked for,
            // and the loop goes on.
            query.top = self.top.map(|_| left.min(MAX_PAGE_ENTITIES));
            let page = open
                .store
                .query(&self.table, &query, from.as_ref())
                .await?
                .into_page()?;
            // A service that returned the same token again would make this loop endless.
            if let Some(next) = &page.continuation {
                cycles.add(next, page.items.len())?;
            }
            let mut rows: Vec<_> = page
                .items
                .into_iter()
                .filter(|row| self.selection.shows(row))
                .collect();
            rows.truncate(left);
            left -= rows.len();
            shown += rows.len();
            pages += 1;
            // Pages of a query that may be refused are held back: a refusal prints nothing, so that no reader takes a part for the whole.
            match is_limited {
                true => unprinted.push(rows),
                false => printer.page(&rows)?,
            }
            from = page.continuation;
            if from.is_none() {
                break;
            }
        }
        unprinted.iter().try_for_each(|rows| printer.page(rows))?;
        printer.end()?;
        if self.format == Format::Table {
            remark(&format!(
                "{shown} entities, {} requests",
                open.meter.total()
            ));
        }
        Ok(())
    }
}

fn too_long(query: &Query) -> Failure {
    Failure::misuse(format!(
        "this is a {} of more than {PAGES_WITHOUT_SCAN} pages, and nothing was printed: give --partition, or a filter on PartitionKey, or allow it with \
         --scan (--explain says more)",
        query.access_path()
    ))
}

/// The arguments of `tables count`.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    /// The store
    store: StoreName,
    /// The table
    table: TableName,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    long: LongArgs,
}

impl CountArgs {
    /// Prints the number of entities. 1 request per page: the service cannot count, so the keys are read.
    pub(crate) async fn run(&self) -> Result<()> {
        let table = &self.table;
        // This property tells index entries from entities. It is read only if they are left out.
        let index_name = self.selection.hides_index_entries().then_some(INDEX_NAME);
        let keys = Select::new(
            [Filter::PARTITION_KEY, Filter::ROW_KEY]
                .into_iter()
                .chain(index_name),
        );
        let query = self.selection.query().with_select(keys);
        let work = async |open: &mut OpenStore| {
            let count = self.count(open, query);
            let count =
                until_stopped(count, "nothing was changed: run the same command again").await?;
            Ok((count, open.meter.total()))
        };
        let (count, requests) = self
            .store
            .with_open(Access::Read, self.long.pace, work)
            .await?;
        // The number alone is on the last line.
        match self.long.json {
            true => print_json(&json!({"table": table, "count": count, "requests": requests})),
            false => print(&format!("{count}\n")),
        }
    }

    async fn count(&self, open: &OpenStore, query: Query) -> Result<u64> {
        let table = &self.table;
        let mut pages = open.store.query_pages(table.clone(), query);
        let tables = self
            .selection
            .reads_all()
            .then_some(std::slice::from_ref(table));
        let mut progress = open.progress_of(tables, "counted", self.long.quiet).await;
        let mut count = 0_u64;
        while let Some(page) = pages.try_next().await? {
            let found = page
                .items
                .iter()
                .filter(|row| self.selection.shows(row))
                .count() as u64;
            count += found;
            progress.add_with_read(found, page.items.len() as u64);
        }
        progress.end();
        Ok(count)
    }
}
