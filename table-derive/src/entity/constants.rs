//! Generates a constant for every field that a filter or a selection can use.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

use super::codec::group;
use super::model::Entity;
use crate::fields::{Field, Role, at};
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
    fields.iter().filter_map(|field| constant(krate, field)).collect()
}

fn constant(krate: &Path, field: &Field) -> Option<TokenStream> {
    let (vis, ident, ty) = (&field.vis, field.constant(), &field.ty);
    let typed = quote!(#krate::typed);
    Some(match &field.role {
        Role::Property(property) if property.large.is_some() => {
            let name = &property.name;
            let doc = format!("The large property `{name}`, for streams.");
            quote! {
                #[doc = #doc]
                #vis const #ident: #typed::LargeField<Self> = #typed::LargeField::new(#name);
            }
        }
        Role::Property(property) if property.split => {
            let name = &property.name;
            let doc = format!("The split property `{name}`: it cannot be compared.");
            quote! {
                #[doc = #doc]
                #vis const #ident: #typed::SplitField<Self> = #typed::SplitField::new(#name);
            }
        }
        Role::Property(property) if property.encrypt => {
            let name = &property.name;
            let doc = format!("The encrypted property `{name}`: it cannot be compared.");
            quote! {
                #[doc = #doc]
                #vis const #ident: #typed::EncryptedField<Self> = #typed::EncryptedField::new(#name);
            }
        }
        Role::Property(property) => {
            let (name, codec) = (&property.name, &property.value_codec);
            let doc = format!("The property `{name}`.");
            let value = field.value_type();
            let typed = at(field.ty.span(), &typed);
            quote_spanned! {field.ty.span()=>
                #[doc = #doc]
                #vis const #ident: #typed::Field<Self, #value, #codec> = #typed::Field::new(#name);
            }
        }
        Role::Flatten(prefix) if !prefix.is_empty() => {
            let doc = format!("The properties of `{}`, whose names start with `{prefix}`.", field.ident);
            let properties = group(krate, field);
            quote! {
                #[doc = #doc]
                #vis const #ident: #typed::FieldGroup<Self, #ty> =
                    #typed::FieldGroup::with_prefix(#prefix, #properties);
            }
        }
        Role::Flatten(_) => {
            let doc = format!("The properties of `{}`.", field.ident);
            quote! {
                #[doc = #doc]
                #vis const #ident: #typed::FieldGroup<Self, #ty> = #typed::FieldGroup::new();
            }
        }
        Role::Timestamp => {
            let value = field.value_type();
            quote! {
                /// The time of the last write.
                #vis const #ident: #typed::Field<Self, #value> = #typed::Field::new("Timestamp");
            }
        }
        Role::Key => {
            let name = plain(&field.ident);
            let doc = format!("The field `{name}` of the key: it cannot be compared, ask for keys.");
            quote! {
                #[doc = #doc]
                #vis const #ident: #typed::KeyField<Self> = #typed::KeyField::new(#name);
            }
        }
        Role::Rest | Role::Skip(_) | Role::ETag => return None,
    })
}
