//! Generates a constant for every field that a filter or a selection can use.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

use super::codec::group;
use super::model::Entity;
use crate::fields::{Field, Property, Role, at};
use crate::template::plain;

pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let name = &entity.input.ident;
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let constants = constants(&entity.krate, &entity.fields);
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #name #ty_generics #where_clause {
            #(#constants)*
        }
    }
}

/// For example `pub const AGE: Field<Self, u32> = Field::new("Age");`.
pub(crate) fn constants(krate: &Path, fields: &[Field]) -> Vec<TokenStream> {
    fields
        .iter()
        .filter_map(|field| constant(krate, field))
        .collect()
}

fn constant(krate: &Path, field: &Field) -> Option<TokenStream> {
    let typed = quote!(#krate::typed);
    Some(match &field.role {
        Role::Property(property) => property_constant(&typed, field, property),
        Role::Flatten(prefix) => group_constant(krate, field, prefix),
        Role::Timestamp => {
            let (vis, ident, value) = (&field.vis, field.constant(), field.value_type());
            quote! {
                /// The time of the last write.
                #vis const #ident: #typed::Field<Self, #value> = #typed::Field::new("Timestamp");
            }
        }
        Role::Key => {
            let name = plain(&field.ident);
            let doc =
                format!("The field `{name}` of the key: it cannot be compared, ask for keys.");
            incomparable(&typed, field, &quote!(KeyField), &name, &doc)
        }
        Role::Rest | Role::Skip(_) | Role::ETag => return None,
    })
}

fn property_constant(typed: &TokenStream, field: &Field, property: &Property) -> TokenStream {
    let name = &property.name;
    if property.large.is_some() {
        let doc = format!("The large property `{name}`, for streams.");
        return incomparable(typed, field, &quote!(LargeField), name, &doc);
    }
    if property.split {
        let doc = format!("The split property `{name}`: it cannot be compared.");
        return incomparable(typed, field, &quote!(SplitField), name, &doc);
    }
    if property.encrypt {
        let doc = format!("The encrypted property `{name}`: it cannot be compared.");
        return incomparable(typed, field, &quote!(EncryptedField), name, &doc);
    }
    let (vis, ident, value, codec) = (
        &field.vis,
        field.constant(),
        field.value_type(),
        &property.value_codec,
    );
    let doc = format!("The property `{name}`.");
    let typed = at(field.ty.span(), typed);
    quote_spanned! {field.ty.span()=>
        #[doc = #doc]
        #vis const #ident: #typed::Field<Self, #value, #codec> = #typed::Field::new(#name);
    }
}

/// Generates the constant of a field that filters cannot compare.
fn incomparable(
    typed: &TokenStream,
    field: &Field,
    field_type: &TokenStream,
    name: &str,
    doc: &str,
) -> TokenStream {
    let (vis, ident) = (&field.vis, field.constant());
    quote! {
        #[doc = #doc]
        #vis const #ident: #typed::#field_type<Self> = #typed::#field_type::new(#name);
    }
}

fn group_constant(krate: &Path, field: &Field, prefix: &str) -> TokenStream {
    let (vis, ident, ty) = (&field.vis, field.constant(), &field.ty);
    let group_type = quote!(#krate::typed::FieldGroup);
    if prefix.is_empty() {
        let doc = format!("The properties of `{}`.", field.ident);
        return quote! {
            #[doc = #doc]
            #vis const #ident: #group_type<Self, #ty> = #group_type::new();
        };
    }
    let doc = format!(
        "The properties of `{}`, whose names start with `{prefix}`.",
        field.ident
    );
    let properties = group(krate, field);
    quote! {
        #[doc = #doc]
        #vis const #ident: #group_type<Self, #ty> = #group_type::with_prefix(#prefix, #properties);
    }
}
