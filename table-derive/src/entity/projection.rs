//! `#[entity(projection_of = …)]`: some properties of an entity.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::codec::{decode_fields, names, properties, read_names};
use super::model::Projection;
use crate::fields::Field;
use crate::template::plain;

pub(super) fn expand(projection: &Projection<'_>) -> TokenStream {
    let checks = checks(projection);
    let from = from_entity(projection);
    quote! {
        #[allow(deprecated)]
        const _: () = {
            #checks
            #from
        };
    }
}

fn from_entity(projection: &Projection<'_>) -> TokenStream {
    let Projection {
        krate,
        of,
        fields,
        input,
        ..
    } = projection;
    let (name, rust_name) = (&input.ident, plain(&input.ident));
    let (impl_generics, ty_generics, where_clause) = projection.generics.split_for_impl();
    let names = read_names(fields);
    let count = names.len();
    let properties = properties(krate, fields);
    let schema = quote!(<#of as #krate::typed::TableEntity>::SCHEMA);
    let keys = fields.iter().any(Field::is_key);
    let read_keys = keys.then(
        || quote!(let __key = <#of as #krate::__private::KeyFields>::key_fields(__entity.key())?;),
    );
    let values = decode_fields(krate, fields, 0);
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::typed::FromEntity for #name #ty_generics #where_clause {
            fn select() -> ::core::option::Option<#krate::query::Select> {
                ::core::option::Option::Some(#krate::__private::select(#schema, &[#(#names),*]))
            }

            fn type_filter() -> ::core::option::Option<#krate::query::Filter> {
                <#of as #krate::typed::FromEntity>::type_filter()
            }

            fn requirements() -> #krate::typed::Requirements {
                <#of as #krate::typed::FromEntity>::requirements().projected(#properties)
            }

            fn from_entity(__entity: #krate::model::Entity) -> #krate::Result<Self> {
                const __NAMES: &[&str; #count] = &[#(#names),*];
                #krate::__private::check_projected(#rust_name, #schema, &__entity)?;
                let __slots = #krate::__private::Slots::scan(#rust_name, __NAMES, &__entity);
                #read_keys
                ::core::result::Result::Ok(Self { #(#values),* })
            }
        }
    }
}

/// Each field must be a property of the entity with the same stored type.
fn checks(projection: &Projection<'_>) -> TokenStream {
    let Projection {
        krate,
        of,
        fields,
        input,
        ..
    } = projection;
    if input.generics.type_params().next().is_some() {
        return TokenStream::new();
    }
    let checks = fields.iter().filter(|f| f.property().is_some()).map(|field| {
        let name = names(std::slice::from_ref(field)).concat();
        let properties = properties(krate, std::slice::from_ref(field));
        let at = format!("{}.{}", input.ident, field.ident);
        let missing = format!("{at}: the entity has no property `{name}`; rename the field or remove it");
        let other = format!("{at}: the entity stores `{name}` as another type");
        let optional =
            format!("{at}: the entity may lack `{name}`; make the field an `Option` or give it a `default`");
        let large = format!(
            "{at}: the entity's `{name}` is large and may be in a blob; read the whole entity, or stream the field"
        );
        let split = format!(
            "{at}: the entity's `{name}` is split and may be in several properties; read the whole entity"
        );
        let ident = plain(&field.ident);
        let key = format!(
            "{at}: `{ident}` is in a key of the entity; mark the field with `#[partition_key]` or `#[row_key]`, so that it is read from the key"
        );
        let mark = format!("{at}: the field must be `#[encrypt]` exactly if the entity's `{name}` is");
        quote_spanned! {field.ty.span()=>
            match #krate::__private::projected(<#of as #krate::typed::TableEntity>::SCHEMA, (#properties)[0], #ident) {
                #krate::__private::Projected::Fits => {}
                #krate::__private::Projected::Missing => ::core::panic!("{}", #missing),
                #krate::__private::Projected::OtherType => ::core::panic!("{}", #other),
                #krate::__private::Projected::Optional => ::core::panic!("{}", #optional),
                #krate::__private::Projected::Large => ::core::panic!("{}", #large),
                #krate::__private::Projected::Split => ::core::panic!("{}", #split),
                #krate::__private::Projected::Key => ::core::panic!("{}", #key),
                #krate::__private::Projected::OtherMark => ::core::panic!("{}", #mark),
            }
        }
    });
    quote!(#(const _: () = #checks;)*)
}
