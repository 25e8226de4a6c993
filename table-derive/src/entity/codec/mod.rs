//! Generates `FromEntity` and `TableEntity`: fields to properties and back.

mod decode;
mod encode;
mod schema;

use proc_macro2::TokenStream;
use quote::quote;

use super::discriminator::Discriminator;
use super::in_order;
use super::model::Entity;
use crate::fields::Field;

pub(crate) use decode::decode_fields;
pub(in crate::entity) use decode::missing;
pub(crate) use encode::encode_fields;
pub(crate) use schema::{group, properties};

/// Generates both implementations, and the names that decoding looks for.
pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let names = all_names(entity);
    let count = names.len();
    let from = decode::from_entity(entity);
    let to = encode::table_entity(entity);
    quote! {
        const __NAMES: &[&str; #count] = &[#(#names),*];
        #from
        #to
    }
}

/// Returns the names of the stored fields.
pub(crate) fn names(fields: &[Field]) -> Vec<&str> {
    fields
        .iter()
        .filter_map(Field::property)
        .map(|p| p.name.as_str())
        .collect()
}

/// Returns the former names of the stored fields.
pub(crate) fn aliases(fields: &[Field]) -> Vec<&str> {
    fields
        .iter()
        .filter_map(Field::property)
        .flat_map(|p| p.aliases.iter().map(String::as_str))
        .collect()
}

/// Returns the names that decoding looks for: names, then aliases.
pub(crate) fn read_names(fields: &[Field]) -> Vec<&str> {
    names(fields).into_iter().chain(aliases(fields)).collect()
}

/// Returns the names in the order in which they are written (discriminator, version, earliest reader, fields), then the aliases.
fn all_names(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let discriminator = property(entity).map(|name| quote!(#name));
    // Version and reader are here also if the type writes neither: a row that has them was written in another
    // version, and the decoder must see that.
    let version = quote!(#krate::typed::Schema::VERSION_PROPERTY);
    let reader = quote!(#krate::typed::Schema::READER_PROPERTY);
    let own = read_names(&entity.fields)
        .into_iter()
        .map(|name| quote!(#name));
    discriminator
        .into_iter()
        .chain([version, reader])
        .chain(own)
        .collect()
}

/// Returns the discriminator's property.
pub(super) fn property<'e>(entity: &'e Entity<'_>) -> Option<&'e str> {
    match &entity.discriminator {
        Discriminator::Property(name) => Some(name),
        _ => None,
    }
}
