//! The code that is generated in addition to errors, so that uses of the type cause no follow-up errors.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Fields};

use super::generics::generics;
use crate::attr::{Container, ENTITY};
use crate::errors::Errors;

/// Returns the errors, and implementations that never run.
pub(super) fn expand(input: &DeriveInput, error: Option<syn::Error>) -> TokenStream {
    let errors = Errors::new();
    let container = Container::parse(&input.attrs, ENTITY, &errors);
    // Reported already.
    let _ = errors.check();
    let error = error.map(syn::Error::into_compile_error);
    let named = matches!(&input.data, Data::Struct(s) if matches!(s.fields, Fields::Named(_)));
    // For these inputs the implementations below would be errors themselves.
    if !named || input.generics.lifetimes().next().is_some() {
        return quote!(#error);
    }
    let krate = container.krate();
    let from = from_entity(input, &krate);
    let table = container
        .projection_of
        .is_none()
        .then(|| table_entity(input, &krate));
    quote!(#error #from #table)
}

/// Returns an implementation of `FromEntity` that never runs.
pub(crate) fn from_entity(input: &DeriveInput, krate: &syn::Path) -> TokenStream {
    let name = &input.ident;
    let generics = generics(input);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::typed::FromEntity for #name #ty_generics #where_clause {
            fn select() -> ::core::option::Option<#krate::query::Select> {
                ::core::unreachable!()
            }
            fn type_filter() -> ::core::option::Option<#krate::query::Filter> {
                ::core::unreachable!()
            }
            fn from_entity(_: #krate::model::Entity) -> #krate::Result<Self> {
                ::core::unreachable!()
            }
        }
    }
}

fn table_entity(input: &DeriveInput, krate: &syn::Path) -> TokenStream {
    let (name, vis) = (&input.ident, &input.vis);
    let patch = format_ident!("{name}Patch");
    let generics = generics(input);
    let (impl_generics, ty_generics, where_clause) = generics.split_for_impl();
    let mut params = generics.clone();
    params.where_clause = None;
    quote! {
        #[doc(hidden)]
        #[allow(dead_code)]
        #vis struct #patch #params (::core::marker::PhantomData<fn() -> #name #ty_generics>) #where_clause;

        #[automatically_derived]
        impl #impl_generics #krate::typed::EntityPatch for #patch #ty_generics #where_clause {
            type Entity = #name #ty_generics;
            fn to_properties(&self) -> #krate::Result<#krate::model::Properties> {
                ::core::unreachable!()
            }
        }

        #[automatically_derived]
        impl #impl_generics #krate::typed::TableEntity for #name #ty_generics #where_clause {
            type Patch = #patch #ty_generics;
            const SCHEMA: &'static #krate::typed::Schema = &#krate::typed::Schema {
                rust_name: "",
                type_name: "",
                discriminator: #krate::typed::Discriminator::None,
                version: 1,
                min_reader: 1,
                previous: ::core::option::Option::None,
                has_versions: false,
                partition_key: "",
                row_key: "",
                row_key_is_open: false,
                properties: &[],
                indexes: &[],
                spread: ::core::option::Option::None,
                keeps_rest: false,
                expiry: ::core::option::Option::None,
                wide: false,
            };
            fn entity_key(&self) -> #krate::Result<#krate::typed::EntityKey<Self>> {
                ::core::unreachable!()
            }
            fn to_logical(&self) -> #krate::Result<#krate::model::Entity> {
                ::core::unreachable!()
            }
            fn etag(&self) -> ::core::option::Option<&#krate::model::ETag> {
                ::core::unreachable!()
            }
        }
    }
}
