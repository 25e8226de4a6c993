//! The service's JSON. Entities are parsed from bytes directly into packed properties and written from them,
//! without a tree of values in between.
//!
//! Types are never guessed. When writing, every type that JSON would lose is annotated: Int64, Guid,
//! DateTime, Binary, and every Double (to many readers `1.0` and `1` are the same number). When reading, an
//! annotation counts before or after its value.
//!
//! The format:
//! <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>.

mod byte_scan;
mod decode;
mod encode;
mod json;
mod value;

pub use decode::{decode_entities, decode_entity, decode_table_names};
pub use encode::{EntityEncoder, encode_entity};

#[cfg(test)]
mod tests;
