//! `tables get` and `tables query`.

use clap::Args;
use table_core::model::{Entity, Key, TableName};
use table_core::query::{AccessPath, Filter, Query, Select};
use table_core::store::{CycleDetector, TableStore, TableStoreExt as _};

use crate::failure::{Failure, Result};
use crate::keys::KeyArgs;
use crate::output::{print, remark};
use crate::pace::Pace;
use crate::rows::{Format, Printer};
use crate::store::{Access, OpenStore, StoreName};

/// The pages that a query may read of a whole table without `--scan`: 10,000 entities of the service.
const FREE_PAGES: usize = 10;
/// The most entities in a page of the service.
/// <https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination>
const PAGE: usize = 1000;

/// The arguments of `tables get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The store
    store: StoreName,
    /// The table
    table: String,
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
        let table = table(&self.table)?;
        let key = Key::new(&self.partition, &self.row).map_err(Failure::misuse)?;
        let mut open = self.store.open(Access::Read, Pace::default()).await?;
        self.keys.apply(&mut open, std::slice::from_ref(&table)).await?;
        let entity = open.store.get_existing(&table, &key).await?;
        let mut printer = Printer::new(self.format, &[])?;
        printer.page(&[entity])?;
        printer.end()?;
        open.close().await
    }
}

/// The entities that a command is about.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// A filter in the service's language, for example "Age gt 30 and City eq 'Oslo'"
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Only the entities with this PartitionKey
    #[arg(long, value_name = "P")]
    partition: Option<String>,
    /// Only the entities whose RowKey starts with this text
    #[arg(long, value_name = "R")]
    row_prefix: Option<String>,
    /// Also index entries and system rows, which the patterns of this library keep in tables
    #[arg(long)]
    system_rows: bool,
}

impl Selection {
    /// Returns the query of the selection.
    pub(crate) fn query(&self) -> Result<Query> {
        let given = self.filter.as_deref().map(str::parse::<Filter>).transpose().map_err(Failure::misuse)?;
        let partition = self.partition.as_ref().map(|key| Filter::eq(Filter::PARTITION_KEY, key.as_str()));
        let row = self.row_prefix.as_ref().map(|prefix| Filter::starts_with(Filter::ROW_KEY, prefix));
        let filters = [partition, row, given].into_iter().flatten();
        Ok(filters.fold(Query::new(), Query::with_filter))
    }

    /// Whether a row of the answer is shown.
    pub(crate) fn shows(&self, entity: &Entity) -> bool {
        self.system_rows || is_own(entity)
    }

    /// Whether every row of the table is read.
    pub(crate) const fn reads_all(&self) -> bool {
        self.filter.is_none() && self.partition.is_none() && self.row_prefix.is_none()
    }

    /// Whether index entries are left out.
    pub(crate) const fn hides_index_entries(&self) -> bool {
        !self.system_rows
    }
}

/// Whether a row is an entity of a program: not an index entry, and no system row.
pub(crate) fn is_own(row: &Entity) -> bool {
    !(row.key().is_system() || row.is_index_entry())
}

/// The arguments of `tables query`.
#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    /// The store
    store: StoreName,
    /// The table
    table: String,
    #[command(flatten)]
    selection: Selection,
    /// Only these properties, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    select: Vec<String>,
    /// At most this many entities
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Say how the query would run, without a request
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
        let table = table(&self.table)?;
        let mut query = self.selection.query()?;
        if !self.select.is_empty() {
            // This property tells index entries from entities, so it is read in addition to the selected
            // ones.
            let index_name = self.selection.hides_index_entries().then_some(table_core::model::INDEX_NAME);
            query = query.with_select(Select::new(self.select.iter().map(String::as_str).chain(index_name)));
        }
        let mut open = self.store.open(Access::Read, self.pace).await?;
        // `--explain` sends no request, and keys need the manifest.
        if !self.explain {
            self.keys.apply(&mut open, std::slice::from_ref(&table)).await?;
        }
        match self.explain {
            true => print(&explain(&query, &open))?,
            false => self.print_pages(&open, &table, query).await?,
        }
        open.close().await
    }

    async fn print_pages(&self, open: &OpenStore, table: &TableName, mut query: Query) -> Result<()> {
        // From this path on, a query is not bounded by one partition, and its cost grows with the table.
        let is_limited = !self.scan && query.access_path() >= AccessPath::PartitionRange;
        let mut printer = Printer::new(self.format, &self.select)?;
        let (mut held, mut left, mut shown, mut from) =
            (Vec::new(), self.top.unwrap_or(usize::MAX), 0_usize, None);
        let (mut pages, mut cycles) = (0, CycleDetector::default());
        while left > 0 {
            if is_limited && pages == FREE_PAGES {
                return Err(too_long(&query));
            }
            // Rows that are left out count for the service, so a page may have fewer entities than asked for,
            // and the loop goes on.
            query.top = self.top.map(|_| left.min(PAGE));
            let page = open.store.query(table, &query, from.as_ref()).await?;
            // A service that returned the same token again would make this loop endless.
            if let Some(next) = &page.continuation {
                cycles.add(next, page.items.len())?;
            }
            let mut rows: Vec<_> = page.items.into_iter().filter(|row| self.selection.shows(row)).collect();
            rows.truncate(left);
            left -= rows.len();
            shown += rows.len();
            pages += 1;
            // Pages of a query that may be refused are held back: a refusal prints nothing, so that no reader takes a part for the whole.
            match is_limited {
                true => held.push(rows),
                false => printer.page(&rows)?,
            }
            from = page.continuation;
            if from.is_none() {
                break;
            }
        }
        held.iter().try_for_each(|rows| printer.page(rows))?;
        printer.end()?;
        if self.format == Format::Table {
            remark(&format!("{shown} entities, {} requests", open.meter.total()));
        }
        Ok(())
    }
}

fn too_long(query: &Query) -> Failure {
    Failure::misuse(format!(
        "this is a {} of more than {FREE_PAGES} pages, and nothing was printed: give --partition, or a filter on PartitionKey, or allow it with \
         --scan (--explain says more)",
        query.access_path()
    ))
}

fn explain(query: &Query, open: &OpenStore) -> String {
    let requests = match query.access_path() {
        AccessPath::Point => "1 request",
        AccessPath::RowRange | AccessPath::PartitionScan => {
            "1 request for each 1000 entities of the range, or more"
        }
        AccessPath::PartitionRange | AccessPath::TableScan => {
            "1 request for each 1000 entities of the range, or more; --partition makes it a partition scan"
        }
    };
    format!("{}\n{requests}\n", query.explain(open.store.profile()))
}

/// Parses the name of a table.
pub(crate) fn table(name: &str) -> Result<TableName> {
    TableName::new(name).map_err(Failure::misuse)
}
