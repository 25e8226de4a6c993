//! Derive macros for typed Table storage entities. Use them through `table_core::typed`, where
//! each is documented with what it derives.

mod attr;
mod case;
mod entity;
mod errors;
mod fields;
mod rules;
mod template;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `TableEntity` and `FromEntity` for a struct, or `FromEntity` for a projection.
#[proc_macro_derive(TableEntity, attributes(entity, partition_key, row_key, encrypt, etag, timestamp))]
pub fn table_entity(input: TokenStream) -> TokenStream {
    entity::derive(&parse_macro_input!(input as DeriveInput)).into()
}
