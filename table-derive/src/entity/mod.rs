//! `#[derive(TableEntity)]`: parses attributes, validates the model, generates code.

mod checks;
mod codec;
mod constants;
mod discriminator;
pub(crate) mod fallback;
mod generics;
mod in_order;
mod index;
mod keys;
mod layout;
mod model;
mod patch;
mod prefix;
mod projection;
mod templates;

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::DeriveInput;

use crate::errors::Errors;

pub(crate) use checks::template as check_template;
pub(crate) use codec::{decode_fields, encode_fields, properties, read_names};
pub(crate) use constants::constants;
pub(crate) use discriminator::Discriminator;
pub(crate) use generics::mentions;
pub(crate) use keys::{
    arguments, format as part_format, key_part, operand, transformed, writer as key_writer,
};
use model::Input;
pub(crate) use model::{Entity, SYSTEM, Sources, sources};
pub(crate) use templates::parsed;

/// Expands the derive: the implementations, or all errors and code that prevents follow-up errors.
pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let errors = Errors::new();
    let model = Input::build(input, &errors);
    match (errors.check(), model) {
        (Ok(()), Some(Input::Entity(entity))) => expand(&entity),
        (Ok(()), Some(Input::Projection(projection))) => projection::expand(&projection),
        (checked, _) => fallback::expand(input, checked.err()),
    }
}

/// Returns the expression of an optional value.
fn option(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}

fn expand(entity: &Entity<'_>) -> TokenStream {
    let patch = patch::definition(entity);
    let prefixes = prefix::Which::BOTH.map(|which| prefix::definition(entity, which));
    let lookups = index::definition(entity);
    let inner = [
        checks::expand(entity),
        keys::expand(entity),
        codec::expand(entity),
        constants::expand(entity),
        patch::expand(entity),
        prefix::expand(entity, prefix::Which::Partition),
        prefix::expand(entity, prefix::Which::Row),
        index::expand(entity),
    ];
    quote! {
        // The types are outside of the constant, so that the program can name them. The rest is inside, where its
        // helpers cannot meet names of the program.
        #patch
        #(#prefixes)*
        #lookups
        #[allow(deprecated)]
        const _: () = {
            #(#inner)*
        };
    }
}
