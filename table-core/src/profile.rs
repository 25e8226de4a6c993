use crate::error::{Error, Result};
use crate::limits;
use crate::model::TableName;

/// The order in which a service returns the entities of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOrder {
    /// By PartitionKey, then RowKey, by UTF-16 code unit.
    Sorted,
    /// In no documented order. Operations that need an order are refused, or sort on the client.
    Unsorted,
}

/// What a service can do: its limits, the order of its results, and whether it encrypts. The numbers come from
/// [`limits`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceProfile {
    /// The name used in errors.
    pub name: &'static str,
    /// The value of `db.system.name` in traces and metrics. OpenTelemetry defines the name of Azure Cosmos DB; it has none for the others.
    pub system: &'static str,
    /// Maximum number of UTF-16 code units in a PartitionKey or RowKey.
    pub key_units: usize,
    /// Maximum number of UTF-8 bytes in a RowKey, if the service has such a limit.
    pub row_key_bytes: Option<usize>,
    /// Maximum number of properties, without PartitionKey, RowKey and Timestamp.
    pub custom_properties: usize,
    /// Names that properties cannot have, in addition to `PartitionKey`, `RowKey` and `Timestamp`.
    pub reserved_properties: &'static [&'static str],
    /// Maximum number of bytes of an entity by the documented formula.
    pub entity_bytes: usize,
    /// Maximum number of operations in a group transaction.
    pub group_operations: usize,
    /// Maximum number of bytes of a group transaction's request.
    pub group_bytes: usize,
    /// Maximum number of comparisons in a filter; `None` if the service has no such limit.
    pub filter_comparisons: Option<usize>,
    /// Maximum number of entities in a page.
    pub page_size: usize,
    /// The earliest DateTime, in ticks.
    pub datetime_min: i64,
    /// The order of the results of a query.
    pub order: KeyOrder,
    /// Whether `Orders` and `orders` are different tables.
    pub case_sensitive_tables: bool,
    /// Whether a read may miss earlier writes, because it goes to a copy such as the secondary endpoint.
    pub has_stale_reads: bool,
    /// Whether the store encrypts marked properties. A store with `false` refuses marked properties.
    pub encrypts: bool,
}

impl ServiceProfile {
    /// Azure Table Storage.
    pub const AZURE_TABLES: Self = Self {
        name: "Azure Table Storage",
        system: "azure.table_storage",
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
        has_stale_reads: false,
        encrypts: false,
    };

    /// Azure Cosmos DB for Table.
    pub const COSMOS_TABLE: Self = Self {
        name: "Azure Cosmos DB for Table",
        system: "azure.cosmosdb",
        row_key_bytes: Some(limits::COSMOS_ROW_KEY_BYTES),
        reserved_properties: &["id", "rid", "etag", "ResourceId"],
        entity_bytes: limits::COSMOS_ENTITY_BYTES,
        group_bytes: limits::COSMOS_GROUP_BYTES,
        order: KeyOrder::Unsorted,
        case_sensitive_tables: true,
        ..Self::AZURE_TABLES
    };

    /// The local stores. They have the limits of Azure Table Storage, so that a program that works with a local store
    /// works with the service.
    pub const LOCAL: Self = Self {
        name: "local store",
        system: "table_store",
        ..Self::AZURE_TABLES
    };

    /// A local store behind a server that maintains indexes for its clients. The server enforces the limits of Azure Table Storage for
    /// the requests of its clients. The store takes larger groups, which contain the index entries of up to 100 entities too: 100
    /// operations per entity, and 16 times the bytes.
    pub const SERVED: Self = Self {
        group_operations: 100 * limits::GROUP_OPERATIONS,
        group_bytes: 16 * limits::GROUP_BYTES,
        ..Self::LOCAL
    };

    /// Returns the text that identifies a table: its name, in lower case if the service ignores case.
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
        if self.case_sensitive_tables {
            table.to_string()
        } else {
            table.to_lowercase()
        }
    }

    /// Whether two names are the same table.
    pub fn is_same_table(&self, one: &TableName, other: &TableName) -> bool {
        if self.case_sensitive_tables {
            one == other
        } else {
            one.as_str().eq_ignore_ascii_case(other.as_str())
        }
    }

    /// Refuses an operation that needs reads to return all earlier writes. `operation` is its name for the error.
    ///
    /// # Errors
    /// Fails if reads may be stale ([`has_stale_reads`](Self::has_stale_reads)).
    pub fn check_reads(&self, operation: &str) -> Result<()> {
        if !self.has_stale_reads {
            return Ok(());
        }
        let feature = format!(
            "{operation}, because reads may be stale; open a store that reads from the primary endpoint"
        );
        Err(Error::unsupported(self.name, feature))
    }

    /// Sets [`encrypts`](Self::encrypts), for a store that encrypts marked properties in front of the service.
    #[must_use]
    pub const fn with_encryption(mut self) -> Self {
        self.encrypts = true;
        self
    }
}
