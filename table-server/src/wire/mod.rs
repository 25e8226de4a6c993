//! The JSON of entities and tables.
//!
//! <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>

mod metadata;
mod read;
mod value;
mod write;

pub(crate) use metadata::{Metadata, check_content_type};
pub(crate) use read::{Fields, needs_value, read_fields, read_table_name};
pub(crate) use write::{Links, entities_page, entity_document, table_document, tables_page};
