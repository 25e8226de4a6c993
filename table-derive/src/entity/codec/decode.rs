//! Generates `FromEntity`.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Path, Type};

use super::{group, in_order, properties, property};
use crate::entity::model::Entity;
use crate::fields::{Field, Property, Role, codec_for, var};

pub(super) fn from_entity(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (name, rust_name) = (&entity.input.ident, entity.rust_name());
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let check_type = property(entity).map(|_| {
        let type_name = &entity.type_name;
        quote!(__slots.check_type(0, #type_name)?;)
    });
    let version_place = usize::from(check_type.is_some());
    let check_version = check_version(entity, version_place);
    // A type without key fields (literal keys) still checks its keys, and binds no variable, which would be unused.
    let keys = !entity.key_fields().is_empty();
    let read_keys = if keys {
        quote!(let __key = <Self as #krate::__private::KeyFields>::key_fields(__entity.key())?;)
    } else {
        quote!(<Self as #krate::__private::KeyFields>::key_fields(__entity.key())?;)
    };
    let fields = decode_fields(krate, &entity.fields, version_place + 2);
    let in_order = in_order::expand(entity);
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::typed::FromEntity for #name #ty_generics #where_clause {
            fn select() -> ::core::option::Option<#krate::query::Select> {
                ::core::option::Option::None
            }

            fn type_filter() -> ::core::option::Option<#krate::query::Filter> {
                let __schema = <Self as #krate::typed::TableEntity>::SCHEMA;
                __schema.discriminator.filter(__schema.type_name)
            }

            fn requirements() -> #krate::typed::Requirements {
                #krate::typed::Requirements::of(<Self as #krate::typed::TableEntity>::SCHEMA)
            }

            fn from_entity(__entity: #krate::model::Entity) -> #krate::Result<Self> {
                #in_order
                let __slots = #krate::__private::Slots::scan(#rust_name, __NAMES, &__entity);
                #check_type
                #check_version
                #read_keys
                ::core::result::Result::Ok(Self { #(#fields),* })
            }
        }
    }
}

/// Returns the statements that check the stored schema version. A row of an older version is read as the previous type and
/// converted; the ETag and the Timestamp of the row are then set in the new value.
fn check_version(entity: &Entity<'_>, place: usize) -> TokenStream {
    let (krate, version) = (&entity.krate, entity.version);
    let Some(previous) = &entity.previous else {
        return quote!(__slots.check_version(#place, #version)?;);
    };
    let set = entity.fields.iter().filter_map(|f| {
        let (ident, span) = (&f.ident, f.ty.span());
        let (new, given) = (var("__new", &f.ty), var("__given", &f.ty));
        match f.role {
            Role::ETag => {
                let set = quote_spanned!(span=> #new.#ident = #given;);
                Some(quote!({ let (#new, #given) = (&mut *__new, __etag); #set }))
            }
            Role::Timestamp => {
                let set = quote_spanned!(span=>
                    #new.#ident = ::core::option::Option::map(#given, ::core::convert::From::from););
                Some(quote!({ let (#new, #given) = (&mut *__new, __timestamp); #set }))
            }
            _ => None,
        }
    });
    quote! {
        if __slots.is_older(#place, #version)? {
            return #krate::__private::upgrade::<#previous, Self>(
                __entity,
                |__new, __etag, __timestamp| { #(#set)* },
            );
        }
    }
}

/// Returns `field: expression` for every field. Expressions read from `__slots`, `__entity` and `__key`.
///
/// `first` is the index in `__NAMES` of the first field: 0 for a projection or a group, 2 or 3 for an entity, after its discriminator, version
/// and reader.
pub(crate) fn decode_fields(krate: &Path, fields: &[Field], first: usize) -> Vec<TokenStream> {
    // The places in `__NAMES` (see `all_names`): the names of all properties in the order of the fields, then all
    // aliases in the same order. Both counters must go up exactly as that list does.
    let mut place = first;
    let mut alias_place = first + super::names(fields).len();
    // The names of the parts of a split value are not among the names that decoding looks for.
    let split = |field: &&Field| field.property().is_some_and(|property| property.split);
    let split = fields
        .iter()
        .filter(split)
        .map(|field| properties(krate, std::slice::from_ref(field)));
    let groups = fields
        .iter()
        .filter_map(|field| group(krate, field))
        .chain(split);
    let groups = quote!(&[#(#groups),*]);
    let decode = |field: &Field| {
        let (ident, ty, span) = (&field.ident, &field.ty, field.ty.span());
        let (entity, slots) = (var("__entity", ty), var("__slots", ty));
        let value = match &field.role {
            Role::Key => quote!(__key.#ident),
            Role::ETag => quote_spanned!(span=> #entity.etag().cloned()),
            Role::Timestamp => quote_spanned!(span=>
                ::core::option::Option::map(#entity.timestamp(), ::core::convert::From::from)),
            Role::Skip(default) => quote!(#default()),
            Role::Rest => quote_spanned!(span=> #slots.rest(#groups)),
            Role::Flatten(prefix) => quote_spanned!(span=> #slots.group::<#ty>(#prefix)?),
            Role::Property(property) => {
                let (encrypt, own_place) = (property.encrypt, Literal::usize_unsuffixed(place));
                place += 1;
                let aliases: Vec<_> = (alias_place..alias_place + property.aliases.len())
                    .map(Literal::usize_unsuffixed)
                    .collect();
                alias_place += aliases.len();
                let codec = codec_for(krate, &property.codec, ty);
                let missing = missing(property, &codec, ty);
                // The current name is first: a row that was updated by a merge may have both, and the former name has
                // the older value.
                let places = quote!(&[#own_place #(, #aliases)*]);
                let rest = quote_spanned!(span=> #codec::TYPE, #codec::read, #missing);
                match &property.default {
                    _ if property.split => {
                        quote_spanned!(span=> #slots.get_split::<#ty, #encrypt>(#places, #rest)?)
                    }
                    _ if !aliases.is_empty() => {
                        quote_spanned!(span=> #slots.get_renamed::<#ty, #encrypt>(#places, #rest)?)
                    }
                    None => quote_spanned!(span=> #slots.get::<#ty, #encrypt>(#own_place, #rest)?),
                    Some(default) => quote_spanned! {span=>
                        #slots.get_or::<#ty, #encrypt>(#own_place, #codec::read, #default)?
                    },
                }
            }
        };
        match field.role {
            Role::Key | Role::Skip(_) => quote!(#ident: #value),
            Role::ETag | Role::Timestamp => quote!(#ident: { let #entity = &__entity; #value }),
            _ => quote!(#ident: { let (#entity, #slots) = (&__entity, &__slots); #value }),
        }
    };
    fields.iter().map(decode).collect()
}

/// Returns the function that creates the value of an absent property.
pub(in crate::entity) fn missing(
    property: &Property,
    codec: &TokenStream,
    ty: &Type,
) -> TokenStream {
    match &property.default {
        None => quote_spanned!(ty.span()=> #codec::missing),
        Some(default) => quote_spanned!(ty.span()=> || ::core::option::Option::Some(#default())),
    }
}
