//! The limits of the services, with their sources. "Data model" is
//! <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model>,
//! "targets" is <https://learn.microsoft.com/azure/storage/tables/scalability-targets>,
//! "group transactions" is
//! <https://learn.microsoft.com/rest/api/storageservices/performing-entity-group-transactions>,
//! "queries" is <https://learn.microsoft.com/rest/api/storageservices/querying-tables-and-entities>.

/// UTF-16 code units in a key: 1 KiB of two-byte units (data model, "PartitionKey Property").
pub const KEY_UNITS: usize = 512;
/// Bytes of UTF-8 in a RowKey on Cosmos DB for Table
/// (<https://learn.microsoft.com/azure/cosmos-db/table/faq>).
pub const COSMOS_ROW_KEY_BYTES: usize = 255;
/// Properties of an entity, without PartitionKey, RowKey and Timestamp (data model).
pub const CUSTOM_PROPERTIES: usize = 252;
/// Characters in a property's name (data model, "Property Names").
pub const PROPERTY_NAME_CHARS: usize = 255;
/// UTF-16 code units in a String: 64 KiB (data model, "Property Types").
pub const STRING_UNITS: usize = 32 * 1024;
/// Bytes in a Binary: 64 KiB (data model, "Property Types").
pub const BINARY_BYTES: usize = 64 * 1024;
/// Bytes of an entity by the formula of [`entity_size`](crate::engine::entity_size) (data model).
pub const ENTITY_BYTES: usize = 1024 * 1024;
/// Bytes of an entity on Cosmos DB (<https://learn.microsoft.com/azure/cosmos-db/concepts-limits#per-item-limits>).
pub const COSMOS_ENTITY_BYTES: usize = 2 * 1024 * 1024;
/// Operations in a group transaction (group transactions).
pub const GROUP_OPERATIONS: usize = 100;
/// Bytes of a group transaction's request payload (group transactions).
pub const GROUP_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a group transaction's request on Cosmos DB
/// (<https://learn.microsoft.com/azure/cosmos-db/concepts-limits#per-request-limits>).
pub const COSMOS_GROUP_BYTES: usize = 2 * 1024 * 1024;
/// Comparisons in one `$filter` (queries, "Constructing filter strings").
pub const FILTER_COMPARISONS: usize = 15;
/// Entities of 1 KiB that one partition can take in a second (targets, "Scale targets for Table storage").
pub const PARTITION_ENTITIES_PER_SECOND: u64 = 2000;
/// Entities or tables in one answer (queries). The service returns no more for a larger `$top`.
pub const PAGE_SIZE: usize = 1000;
/// Bytes of keys and properties in one page of a local store. Assumed: the documentation of the services does not name the size at
/// which an answer ends.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// 1601-01-01T00:00:00Z, the earliest `Edm.DateTime` (data model, "Property Types"), in ticks.
pub const DATETIME_MIN_TICKS: i64 = 504_911_232_000_000_000;

/// Definitions of indexes in force in one manifest. Ours: every write evaluates all of them.
pub const INDEX_DEFINITIONS: usize = 100;
/// Entries of one entity in one index, so elements of a list in its keys. Ours: the entries of a list are written by one write.
pub const LIST_ELEMENTS: usize = 1000;
/// Index entries that one write derives. Ours: a small request must not cost much work.
pub const DERIVED_ENTRIES: usize = 10_000;
/// Bytes of the properties of index entries that one write derives: 16 MiB. Ours, as [`DERIVED_ENTRIES`].
pub const DERIVED_BYTES: usize = 16 * 1024 * 1024;
