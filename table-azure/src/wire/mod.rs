//! The service's JSON: entities read straight from bytes into packed properties, and written back,
//! without a tree of values in between.
//!
//! Types are never guessed: everything JSON would lose is annotated when written (Int64, Guid,
//! DateTime, Binary, and every Double, since `1.0` and `1` are one number to many readers). When
//! read, an annotation is honoured wherever it stands, before its value or after.
//!
//! The format: <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>.

mod decode;
mod encode;
mod json;
mod page;
mod shape;
mod value;
mod words;

pub use decode::decode_entity;
pub use encode::{EntityEncoder, encode_entity};
pub use page::{decode_entities, decode_table_names};

#[cfg(test)]
mod tests;
