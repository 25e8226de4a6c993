//! Type parameters of entities.

use quote::ToTokens;
use syn::{DeriveInput, GenericParam, Generics, Type, parse_quote};

use crate::errors::Errors;
use crate::fields::Field;

/// Returns the generics with the bounds that every entity requires.
pub(crate) fn generics(input: &DeriveInput) -> Generics {
    let mut generics = input.generics.clone();
    let params: Vec<_> = generics.type_params().map(|p| p.ident.clone()).collect();
    let bounds = &mut generics.make_where_clause().predicates;
    bounds.extend(params.iter().map(|p| -> syn::WherePredicate {
        // The futures of a table hold the type across awaits and are `Send`; streams outlive the handle that made
        // them.
        parse_quote!(#p: ::core::marker::Send + ::core::marker::Sync + 'static)
    }));
    generics
}

pub(super) fn check_lifetimes(generics: &Generics, errors: &Errors) {
    for param in &generics.params {
        if let GenericParam::Lifetime(lifetime) = param {
            errors.push(
                lifetime,
                "an entity owns its data: use `String` for `&str`, and no lifetimes",
            );
        }
    }
}

/// Keys are checked where the struct is declared, so their types must be known there.
pub(super) fn check_key_generics(input: &DeriveInput, fields: &[Field], errors: &Errors) {
    for field in fields.iter().filter(|f| f.is_key()) {
        if mentions(&field.ty, &input.generics) {
            errors.push(
                &field.ty,
                "a key field cannot have a generic type: the key's template is checked here",
            );
        }
    }
}

/// Whether a type contains one of the type parameters.
pub(crate) fn mentions(ty: &Type, generics: &Generics) -> bool {
    fn any(tokens: proc_macro2::TokenStream, names: &[String]) -> bool {
        tokens.into_iter().any(|token| match token {
            proc_macro2::TokenTree::Ident(ident) => names.contains(&ident.to_string()),
            proc_macro2::TokenTree::Group(group) => any(group.stream(), names),
            _ => false,
        })
    }
    let names: Vec<String> = generics
        .type_params()
        .map(|p| p.ident.to_string())
        .collect();
    any(ty.to_token_stream(), &names)
}
