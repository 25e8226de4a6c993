//! The rows that a command is about.

use clap::Args;
use table_core::model::{Entity, PartitionKey, RowKey};
use table_core::query::{Filter, Query};

/// The entities that a command is about.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// A filter in the service's language, for example "Age gt 30 and City eq 'Oslo'"
    #[arg(long, value_name = "TEXT")]
    filter: Option<Filter>,
    /// Only the entities with this PartitionKey
    #[arg(long, value_name = "P", value_parser = partition_key)]
    partition: Option<String>,
    /// Only the entities whose RowKey starts with this text
    #[arg(long, value_name = "R", value_parser = row_key)]
    row_prefix: Option<String>,
    /// Also index entries and system rows, which the patterns of this library keep in tables
    #[arg(long)]
    system_rows: bool,
}

impl Selection {
    /// Returns the query of the selection.
    pub(crate) fn query(&self) -> Query {
        query(
            self.partition.as_deref(),
            self.row_prefix.as_deref(),
            self.filter.as_ref(),
        )
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

/// Parses a PartitionKey. A text that is no key of any entity is refused: a command about no entity would look like an empty partition.
pub(crate) fn partition_key(text: &str) -> Result<String, String> {
    PartitionKey::new(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

/// Parses a RowKey, or the beginning of one: a key begins with a text if, and only if, the text is a key too. See [`partition_key`].
pub(crate) fn row_key(text: &str) -> Result<String, String> {
    RowKey::new(text)
        .map(|_| text.to_owned())
        .map_err(|error| error.to_string())
}

/// Returns the query for the entities that meet every given condition.
pub(crate) fn query(
    partition: Option<&str>,
    row_prefix: Option<&str>,
    filter: Option<&Filter>,
) -> Query {
    let partition = partition.map(|key| Filter::eq(Filter::PARTITION_KEY, key));
    let row = row_prefix.map(|prefix| Filter::starts_with(Filter::ROW_KEY, prefix));
    [partition, row, filter.cloned()]
        .into_iter()
        .flatten()
        .fold(Query::new(), Query::with_filter)
}

/// Whether a row is an entity of a program: not an index entry, and no system row.
pub(crate) fn is_own(row: &Entity) -> bool {
    !(row.key().is_system() || row.is_index_entry())
}
