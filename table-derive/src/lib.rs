//! Derive macros for typed Table storage entities. Use them through `table_core::typed`, where
//! each is documented with what it derives.

mod attr;
mod case;
mod entity;
mod errors;
mod fields;
mod group;
mod index;
mod resolver;
mod rules;
mod template;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Derives `TableEntity` and `FromEntity` for a struct, with `IndexedEntity` where it has `#[index(…)]`, or
/// `FromEntity` for a projection.
#[proc_macro_derive(
    TableEntity,
    attributes(entity, index, partition_key, row_key, encrypt, large, etag, timestamp)
)]
pub fn table_entity(input: TokenStream) -> TokenStream {
    entity::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `FromEntity` for an enum over the types of a table.
#[proc_macro_derive(EntityResolver, attributes(entity, resolver))]
pub fn entity_resolver(input: TokenStream) -> TokenStream {
    resolver::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `PropertyGroup` for a struct that entities flatten.
#[proc_macro_derive(
    PropertyGroup,
    attributes(entity, partition_key, row_key, encrypt, large, etag, timestamp)
)]
pub fn property_group(input: TokenStream) -> TokenStream {
    group::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `Property` for a newtype or a unit enum.
#[proc_macro_derive(Property, attributes(entity))]
pub fn property(input: TokenStream) -> TokenStream {
    value::derive_property(&parse_macro_input!(input as DeriveInput)).into()
}

/// Derives `KeyPart` for a newtype or a unit enum.
#[proc_macro_derive(KeyPart, attributes(entity))]
pub fn key_part(input: TokenStream) -> TokenStream {
    value::derive_key_part(&parse_macro_input!(input as DeriveInput)).into()
}
