//! Derive macros for typed Table storage entities. Use them through `table_core::typed`, whose documentation describes every attribute.
//!
//! | derive | for | generates |
//! |---|---|---|
//! | [`TableEntity`](macro@TableEntity) | a struct | an entity with its keys, fields and patch; or a projection of one |
//! | [`EntityResolver`](macro@EntityResolver) | an enum over entities | reading a table of several types |
//! | [`PropertyGroup`](macro@PropertyGroup) | a struct | properties that entities flatten |
//! | [`Property`](macro@Property) | a newtype, a unit enum | a field's type |
//! | [`KeyPart`](macro@KeyPart) | a newtype, a unit enum | a part of a key |
//!
//! All errors of a type are reported together, each at its place, with a remedy.

mod attr;
mod case;
mod entity;
mod errors;
mod fields;
mod group;
mod resolver;
mod template;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implemented in the crate `table-derive`.
#[proc_macro_derive(
    TableEntity,
    attributes(
        entity,
        index,
        partition_key,
        row_key,
        encrypt,
        large,
        etag,
        timestamp,
        expires,
        deleted_at
    )
)]
pub fn table_entity(input: TokenStream) -> TokenStream {
    entity::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Implemented in the crate `table-derive`.
#[proc_macro_derive(EntityResolver, attributes(entity, resolver))]
pub fn entity_resolver(input: TokenStream) -> TokenStream {
    resolver::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Implemented in the crate `table-derive`.
#[proc_macro_derive(
    PropertyGroup,
    attributes(
        entity,
        partition_key,
        row_key,
        encrypt,
        large,
        etag,
        timestamp,
        expires,
        deleted_at
    )
)]
pub fn property_group(input: TokenStream) -> TokenStream {
    group::derive(&parse_macro_input!(input as DeriveInput)).into()
}

/// Implemented in the crate `table-derive`.
#[proc_macro_derive(Property, attributes(entity))]
pub fn property(input: TokenStream) -> TokenStream {
    value::derive_property(&parse_macro_input!(input as DeriveInput)).into()
}

/// Implemented in the crate `table-derive`.
#[proc_macro_derive(KeyPart, attributes(entity))]
pub fn key_part(input: TokenStream) -> TokenStream {
    value::derive_key_part(&parse_macro_input!(input as DeriveInput)).into()
}
