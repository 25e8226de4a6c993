//! Generates `TableEntity`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

use super::schema::schema;
use super::{names, property};
use crate::entity::model::Entity;
use crate::entity::{index, patch};
use crate::fields::{Field, Role, at, codec_for, is_option, var};

pub(super) fn table_entity(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (name, rust_name) = (&entity.input.ident, entity.rust_name());
    let patch = patch::name(entity);
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let schema = schema(entity);
    let partition = entity
        .key_fields_of(&entity.partition)
        .into_iter()
        .map(|f| &f.ident);
    let row = entity
        .key_fields_of(&entity.row)
        .into_iter()
        .map(|f| &f.ident);
    let steps = encode_steps(entity);
    // An estimate of the packed bytes: name, tag, length and a short value for each field. A wrong one costs one copy
    // of the buffer.
    let capacity: usize = 32
        + names(&entity.fields)
            .iter()
            .map(|n| n.len() + 20)
            .sum::<usize>();
    // The spans of the fields are in the tokens that use their types, so that an error of a type is shown at the field.
    let etag = entity
        .fields
        .iter()
        .find(|f| matches!(f.role, Role::ETag))
        .map_or_else(
            || quote!(::core::option::Option::None),
            |f| {
                let (ident, this) = (&f.ident, var("__this", &f.ty));
                let etag =
                    quote_spanned!(f.ty.span()=> ::core::option::Option::as_ref(&#this.#ident));
                quote!({ let #this = self; #etag })
            },
        );
    let set_etag = entity
        .fields
        .iter()
        .find(|f| matches!(f.role, Role::ETag))
        .map(|f| {
            let (ident, this, given) = (&f.ident, var("__this", &f.ty), var("__given", &f.ty));
            let set =
                quote_spanned!(f.ty.span()=> #this.#ident = ::core::option::Option::Some(#given););
            quote! {
                fn set_etag(&mut self, __etag: #krate::model::ETag) -> bool {
                    let (#this, #given) = (self, __etag);
                    #set
                    true
                }
            }
        });
    let is_deleted = |f: &&Field| f.property().is_some_and(|p| p.deleted_at.is_some());
    let soft_delete = entity.fields.iter().find(is_deleted).map(|f| {
        let (ident, this, given) = (&f.ident, var("__this", &f.ty), var("__given", &f.ty));
        let root = at(f.ty.span(), krate);
        let set = quote_spanned!(f.ty.span()=>
            #this.#ident = ::core::option::Option::map(#given, #root::__private::ExpiryTime::from_ticks););
        quote! {
            #[automatically_derived]
            impl #impl_generics #krate::typed::SoftDelete for #name #ty_generics #where_clause {
                fn set_deleted_at(&mut self, __at: ::core::option::Option<#krate::model::Ticks>) {
                    let (#this, #given) = (self, __at);
                    #set
                }
            }
        }
    });
    let expires = entity.fields.iter().find(|f| f.property().is_some_and(|p| p.expires)).map(|f| {
        let (ident, this, root) = (&f.ident, var("__this", &f.ty), at(f.ty.span(), krate));
        let at = if is_option(&f.ty) {
            quote_spanned!(f.ty.span()=> ::core::option::Option::map(
                ::core::option::Option::as_ref(&#this.#ident), #root::__private::ExpiryTime::to_ticks))
        } else {
            quote_spanned!(f.ty.span()=> ::core::option::Option::Some(
                #root::__private::ExpiryTime::to_ticks(&#this.#ident)))
        };
        quote! {
            #[automatically_derived]
            impl #impl_generics #krate::typed::Expires for #name #ty_generics #where_clause {
                fn expires_at(&self) -> ::core::option::Option<#krate::model::Ticks> {
                    let #this = self;
                    #at
                }
            }
        }
    });
    let index_keys = index::keys_function(entity);
    quote! {
        #soft_delete
        #expires

        #[automatically_derived]
        impl #impl_generics #krate::typed::TableEntity for #name #ty_generics #where_clause {
            type Patch = #patch #ty_generics;

            const SCHEMA: &'static #krate::typed::Schema = &#schema;

            fn entity_key(&self) -> #krate::Result<#krate::typed::EntityKey<Self>> {
                let __partition = __partition_key(#(&self.#partition),*)?;
                let __row = __row_key(#(&self.#row),*)?;
                #krate::model::Key::new(__partition, __row).map(#krate::typed::EntityKey::new)
            }

            fn to_logical(&self) -> #krate::Result<#krate::model::Entity> {
                let __key = self.entity_key()?.into_key();
                let mut __encoder = #krate::__private::Encoder::new(#rust_name, #capacity);
                {
                    let __encoder = &mut __encoder;
                    #(#steps)*
                }
                ::core::result::Result::Ok(__encoder.finish_entity(__key))
            }

            fn etag(&self) -> ::core::option::Option<&#krate::model::ETag> {
                #etag
            }

            #set_etag

            #index_keys
        }
    }
}

/// Returns statements for discriminator, version, earliest reader, fields and kept unknown properties.
fn encode_steps(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let type_name = &entity.type_name;
    let discriminator =
        property(entity).map(|name| quote!(__encoder.discriminator(#name, #type_name);));
    let version = (entity.version > 1).then(|| {
        let version = entity.version;
        quote!(__encoder.version(#version);)
    });
    let reader = (entity.min_reader < entity.version).then(|| {
        let reader = entity.min_reader;
        quote!(__encoder.min_reader(#reader);)
    });
    let rest = entity
        .fields
        .iter()
        .find(|f| matches!(f.role, Role::Rest))
        .map(|f| {
            let (ident, encoder, rest) = (&f.ident, var("__encoder", &f.ty), var("__rest", &f.ty));
            let write = quote_spanned!(f.ty.span()=>
            #encoder.rest(#rest, <Self as #krate::typed::TableEntity>::SCHEMA.properties)?;);
            quote!({ let (#encoder, #rest) = (&mut *__encoder, &self.#ident); #write })
        });
    let fields = encode_fields(krate, &entity.fields);
    // `in_order` expects this order. In another one, each read would go on to the decoder by names.
    discriminator
        .into_iter()
        .chain(version)
        .chain(reader)
        .chain(fields)
        .chain(rest)
        .collect()
}

/// Returns statements that append every stored field of `self` to `__encoder`.
pub(crate) fn encode_fields(krate: &Path, fields: &[Field]) -> Vec<TokenStream> {
    let encode = |field: &Field| {
        let (ident, ty, span) = (&field.ident, &field.ty, field.ty.span());
        let (encoder, value) = (var("__encoder", ty), var("__value", ty));
        let write = match &field.role {
            Role::Property(property) => {
                let (codec, name, encrypt) = (&property.codec, &property.name, property.encrypt);
                let codec = codec_for(krate, codec, ty);
                let method = if property.split {
                    var("split", ty)
                } else {
                    var("field", ty)
                };
                quote_spanned!(span=> #encoder.#method(#name, #value, #encrypt, #codec::write)?;)
            }
            Role::Flatten(prefix) => quote_spanned!(span=> #encoder.group(#prefix, #value)?;),
            _ => return None,
        };
        Some(quote!({ let (#encoder, #value) = (&mut *__encoder, &self.#ident); #write }))
    };
    fields.iter().filter_map(encode).collect()
}
