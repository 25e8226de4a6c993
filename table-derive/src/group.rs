//! `#[derive(PropertyGroup)]`: several properties as a struct.

use proc_macro2::TokenStream;
use quote::quote;
use syn::DeriveInput;

use crate::attr::{Container, SIMPLE};
use crate::entity::{
    SYSTEM, constants, decode_fields, encode_fields, properties, read_names, sources,
};
use crate::errors::Errors;
use crate::fields::{self, Field, FieldRules, Owner};

pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let errors = Errors::new();
    let container = Container::parse(&input.attrs, SIMPLE, &errors);
    let krate = container.krate();
    let fields = sources(input, "PropertyGroup", &errors).map(|sources| {
        let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
        let rules = FieldRules {
            krate: &krate,
            rename_all,
            keys: &[],
            reserved: &SYSTEM,
            type_properties: 0,
            owner: Owner::Group,
        };
        fields::build(&sources, &rules, &errors)
    });
    match (errors.check(), fields) {
        (Ok(()), Some(fields)) => expand(input, &krate, &fields),
        (checked, _) => fallback(input, &krate, checked.err()),
    }
}

fn expand(input: &DeriveInput, krate: &syn::Path, fields: &[Field]) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let names = read_names(fields);
    let count = names.len();
    let properties = properties(krate, fields);
    let constants = constants(krate, fields);
    let encode = encode_fields(krate, fields);
    let decode = decode_fields(krate, fields, 0);
    quote! {
        #[allow(deprecated)]
        const _: () = {
            #[automatically_derived]
            #[allow(dead_code)]
            impl #impl_generics #name #ty_generics #where_clause {
                #(#constants)*
            }

            #[automatically_derived]
            impl #impl_generics #krate::typed::PropertyGroup for #name #ty_generics #where_clause {
                const PROPERTIES: &'static [#krate::typed::PropertySchema] = #properties;

                fn write(&self, __encoder: &mut #krate::__private::Encoder) -> #krate::Result<()> {
                    #(#encode)*
                    ::core::result::Result::Ok(())
                }

                fn read(
                    __entity: &#krate::model::Entity,
                    __owner: &'static str,
                    __prefix: &str,
                ) -> #krate::Result<Self> {
                    const __NAMES: &[&str; #count] = &[#(#names),*];
                    let __slots = #krate::__private::Slots::scan_prefixed(__owner, __NAMES, __entity, __prefix);
                    ::core::result::Result::Ok(Self { #(#decode),* })
                }
            }
        };
    }
}

/// Returns the errors, and an implementation that never runs.
fn fallback(input: &DeriveInput, krate: &syn::Path, error: Option<syn::Error>) -> TokenStream {
    let error = error.map(syn::Error::into_compile_error);
    let name = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    quote! {
        #error
        #[automatically_derived]
        impl #impl_generics #krate::typed::PropertyGroup for #name #ty_generics #where_clause {
            const PROPERTIES: &'static [#krate::typed::PropertySchema] = &[];
            fn write(&self, _: &mut #krate::__private::Encoder) -> #krate::Result<()> {
                ::core::unreachable!()
            }
            fn read(_: &#krate::model::Entity, _: &'static str, _: &str) -> #krate::Result<Self> {
                ::core::unreachable!()
            }
        }
    }
}
