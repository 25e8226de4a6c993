use crate::error::{Error, Result};
use crate::limits;
use crate::model::TableName;

/// In which order a service returns the entities of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// By PartitionKey, then RowKey, by UTF-16 code unit.
    Sorted,
    /// In no order: what relies on order is refused or sorted on the client.
    Unsorted,
}

/// What a service allows and promises. The numbers are those of [`limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceProfile {
    /// The name used in errors.
    pub name: &'static str,
    /// UTF-16 code units in PartitionKey and in RowKey.
    pub key_units: usize,
    /// UTF-8 bytes in a RowKey, where the service counts them so.
    pub row_key_bytes: Option<usize>,
    /// Properties beside the system's.
    pub custom_properties: usize,
    /// Names that properties cannot have, beside `PartitionKey`, `RowKey` and `Timestamp`.
    pub reserved_properties: &'static [&'static str],
    /// Bytes of an entity by the documented formula.
    pub entity_bytes: usize,
    /// Operations in a group transaction.
    pub group_operations: usize,
    /// Bytes of a group transaction's request.
    pub group_bytes: usize,
    /// Comparisons in a filter; `None` where the service has no such limit.
    pub filter_comparisons: Option<usize>,
    /// Entities in a page.
    pub page_size: usize,
    /// The earliest DateTime, in ticks.
    pub datetime_min: i64,
    /// Whether results are sorted.
    pub order: KeyOrder,
    /// Whether `Orders` and `orders` are two tables.
    pub case_sensitive_tables: bool,
    /// Whether reads may come from a copy that lags behind the writes, such as a secondary.
    pub reads_lag: bool,
    /// Whether marked properties are encrypted on the way. A store that answers `false` refuses them.
    pub encrypts: bool,
}

impl ServiceProfile {
    /// Azure Table Storage.
    pub const AZURE_TABLES: Self = Self {
        name: "Azure Table Storage",
        key_units: limits::KEY_UNITS,
        row_key_bytes: None,
        custom_properties: limits::CUSTOM_PROPERTIES,
        reserved_properties: &[],
        entity_bytes: limits::ENTITY_BYTES,
        group_operations: limits::GROUP_OPERATIONS,
        group_bytes: limits::GROUP_BYTES,
        filter_comparisons: Some(limits::FILTER_COMPARISONS),
        page_size: limits::PAGE_SIZE,
        datetime_min: limits::DATETIME_MIN_TICKS,
        order: KeyOrder::Sorted,
        case_sensitive_tables: false,
        reads_lag: false,
        encrypts: false,
    };

    /// Azure Cosmos DB for Table.
    pub const COSMOS_TABLE: Self = Self {
        name: "Azure Cosmos DB for Table",
        row_key_bytes: Some(limits::COSMOS_ROW_KEY_BYTES),
        reserved_properties: &["id", "rid", "etag", "ResourceId"],
        entity_bytes: limits::COSMOS_ENTITY_BYTES,
        group_bytes: limits::COSMOS_GROUP_BYTES,
        order: KeyOrder::Unsorted,
        case_sensitive_tables: true,
        ..Self::AZURE_TABLES
    };

    /// The local stores: Azure Table Storage's limits, so that what works here works there.
    pub const LOCAL: Self = Self { name: "local store", ..Self::AZURE_TABLES };

    /// What tells a table from others: its name, in lower case where the service ignores case.
    ///
    /// ```
    /// use table_core::model::TableName;
    /// use table_core::store::ServiceProfile;
    /// let table = TableName::new("Orders")?;
    /// assert_eq!(ServiceProfile::AZURE_TABLES.table_identity(&table), "orders");
    /// assert_eq!(ServiceProfile::COSMOS_TABLE.table_identity(&table), "Orders");
    /// # Ok::<(), table_core::Error>(())
    /// ```
    pub fn table_identity(&self, table: &TableName) -> String {
        if self.case_sensitive_tables { table.to_string() } else { table.to_lowercase() }
    }

    /// Refuses what has to see its own writes and those of others, where reads lag behind them.
    ///
    /// # Errors
    /// Reads lag: unsupported.
    pub fn check_reads(&self, what: &str) -> Result<()> {
        if !self.reads_lag {
            return Ok(());
        }
        let what =
            format!("{what} on a copy that lags behind the writes; open a store that reads from the primary");
        Err(Error::unsupported(self.name, what))
    }

    /// The same service behind a layer that encrypts marked properties.
    #[must_use]
    pub const fn with_encryption(mut self) -> Self {
        self.encrypts = true;
        self
    }
}
