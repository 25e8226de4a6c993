//! `#[derive(EntityResolver)]`: an enum over the types of a table.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Attribute, Data, DeriveInput, Fields, Ident, Path, Type};

use crate::attr::{Container, RESOLVER, items};
use crate::entity::fallback::from_entity;
use crate::errors::Errors;
use crate::fields::var;
use crate::template::plain;

struct Resolver<'a> {
    input: &'a DeriveInput,
    krate: Path,
    /// The variants and their types.
    variants: Vec<(&'a Ident, &'a Type)>,
    /// The variant for all other rows.
    other: Option<(&'a Ident, &'a Type)>,
}

pub(crate) fn derive(input: &DeriveInput) -> TokenStream {
    let errors = Errors::new();
    let container = Container::parse(&input.attrs, RESOLVER, &errors);
    let resolver = build(input, container.krate(), &errors);
    match (errors.check(), resolver) {
        (Ok(()), Some(resolver)) => expand(&resolver),
        (checked, _) => fallback(input, &container.krate(), checked.err()),
    }
}

fn build<'a>(input: &'a DeriveInput, krate: Path, errors: &Errors) -> Option<Resolver<'a>> {
    let Data::Enum(data) = &input.data else {
        let remedy = "for one entity derive `TableEntity`";
        errors.push(
            &input.ident,
            format!("`EntityResolver` is for enums with a variant per type; {remedy}"),
        );
        return None;
    };
    if !input.generics.params.is_empty() {
        errors.push(
            &input.generics,
            "a resolver cannot have generics: its types are identified by name",
        );
    }
    let (mut variants, mut other) = (Vec::new(), None);
    for variant in &data.variants {
        let Some(ty) = entity_type(&variant.fields) else {
            let shape = format!("a variant holds one entity: `{0}({0})`", variant.ident);
            errors.push(variant, shape);
            continue;
        };
        match is_other(&variant.attrs, errors) {
            false => variants.push((&variant.ident, ty)),
            true if other.is_none() => other = Some((&variant.ident, ty)),
            true => errors.push(
                variant,
                "another variant already takes the other rows; remove one",
            ),
        }
    }
    if data.variants.is_empty() {
        errors.push(
            &input.ident,
            "a resolver needs a variant for at least one type of entity",
        );
    }
    Some(Resolver {
        input,
        krate,
        variants,
        other,
    })
}

/// Returns the entity type of a variant: the type of its only unnamed field.
fn entity_type(fields: &Fields) -> Option<&Type> {
    match fields {
        Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
            fields.unnamed.first().map(|f| &f.ty)
        }
        _ => None,
    }
}

/// Whether the variant has `#[resolver(other)]`.
fn is_other(attrs: &[Attribute], errors: &Errors) -> bool {
    let mut other = false;
    for item in attrs
        .iter()
        .filter(|a| a.path().is_ident("resolver"))
        .flat_map(|a| items(a, errors))
    {
        match item.name().as_str() {
            "other" => other |= item.flag(errors).is_some(),
            _ => item.unknown(&["other"], errors),
        }
    }
    other
}

fn expand(resolver: &Resolver<'_>) -> TokenStream {
    let checks = checks(resolver);
    let Resolver {
        input,
        krate,
        variants,
        other,
    } = resolver;
    let (name, rust_name) = (&input.ident, plain(&input.ident));
    let types: Vec<_> = variants.iter().map(|(_, ty)| *ty).collect();
    let all: Vec<_> = types
        .iter()
        .copied()
        .chain(other.map(|(_, ty)| ty))
        .collect();
    let filter = match other {
        // A variant for other rows wants all rows; without one, the service can filter by type.
        Some(_) => quote!(::core::option::Option::None),
        None => {
            quote!(#krate::__private::filter_all([#(<#types as #krate::typed::FromEntity>::type_filter()),*]))
        }
    };
    let arms = variants.iter().map(|(ident, ty)| {
        let stored = var("__entity", ty);
        let arm = quote_spanned! {ty.span()=>
            if #krate::__private::is_a(<#ty as #krate::typed::TableEntity>::SCHEMA, &#stored) {
                return <#ty as #krate::typed::FromEntity>::from_entity(#stored).map(Self::#ident);
            }
        };
        // The arm has the span of the variant's type, so that errors are reported there. A variable needs the same
        // span to be seen in it (`fields::var`), and gives the entity back for the next arm.
        quote!(let #stored = __entity; #arm let __entity = #stored;)
    });
    let end = match other {
        Some((ident, ty)) => {
            let stored = var("__entity", ty);
            let end = quote_spanned!(ty.span()=>
                <#ty as #krate::typed::FromEntity>::from_entity(#stored).map(Self::#ident));
            quote!({ let #stored = __entity; #end })
        }
        None => quote!(#krate::__private::no_variant(
            #rust_name, &[#(<#types as #krate::typed::TableEntity>::SCHEMA),*], &__entity)),
    };
    quote! {
        #checks
        #[automatically_derived]
        #[allow(deprecated)]
        impl #krate::typed::FromEntity for #name {
            fn select() -> ::core::option::Option<#krate::query::Select> {
                #krate::__private::select_all([#(<#all as #krate::typed::FromEntity>::select()),*])
            }

            fn type_filter() -> ::core::option::Option<#krate::query::Filter> {
                #filter
            }

            fn requirements() -> #krate::typed::Requirements {
                #krate::typed::Requirements::all([#(<#all as #krate::typed::FromEntity>::requirements()),*])
            }

            fn from_entity(__entity: #krate::model::Entity) -> #krate::Result<Self> {
                #(#arms)*
                #end
            }
        }
    }
}

/// Checks that the rows of each type are distinguishable from the rows of the others.
fn checks(resolver: &Resolver<'_>) -> TokenStream {
    let Resolver {
        input,
        krate,
        variants,
        ..
    } = resolver;
    let schema =
        |ty: &Type| quote_spanned!(ty.span()=> <#ty as #krate::typed::TableEntity>::SCHEMA);
    let identified = variants.iter().map(|(ident, ty)| {
        let schema = schema(ty);
        let problem = format!(
            "{}::{ident}: its rows cannot be distinguished from others; give the entity a `type` or a `discriminator`",
            input.ident
        );
        quote_spanned!(ty.span()=> #[allow(deprecated)] const _: () = ::core::assert!(#krate::__private::has_discriminator(#schema), "{}", #problem);)
    });
    let pairs = variants
        .iter()
        .enumerate()
        .flat_map(|(i, a)| variants[i + 1..].iter().map(move |b| (a, b)));
    let distinct = pairs.map(|((ident, ty), (other, other_ty))| {
        let (a, b) = (schema(ty), schema(other_ty));
        let problem = format!(
            "{}::{other}: its rows look like the rows of `{ident}`; change its `type` or prefix",
            input.ident
        );
        quote_spanned! {other_ty.span()=>
            #[allow(deprecated)]
            const _: () = ::core::assert!(#krate::__private::is_distinct_from(#a, #b), "{}", #problem);
        }
    });
    quote!(#(#identified)* #(#distinct)*)
}

/// Returns the errors, and an implementation that never runs.
fn fallback(input: &DeriveInput, krate: &Path, error: Option<syn::Error>) -> TokenStream {
    let error = error.map(syn::Error::into_compile_error);
    let never = from_entity(input, krate);
    quote!(#error #never)
}
