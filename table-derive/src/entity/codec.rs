//! `FromEntity` and `TableEntity`: fields to properties and back.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

use super::discriminator::Discriminator;
use super::in_order;
use super::model::Entity;
use super::spread::Spread;
use crate::fields::{Field, Role};
use crate::template::Segment;

pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let names = all_names(entity);
    let count = names.len();
    let from = from_entity(entity);
    let to = table_entity(entity);
    quote! {
        const __NAMES: &[&str; #count] = &[#(#names),*];
        #from
        #to
    }
}

/// The names of the stored fields.
pub(crate) fn names(fields: &[Field]) -> Vec<&str> {
    fields.iter().filter_map(Field::property).map(|p| p.name.as_str()).collect()
}

/// The names in the order they are written: discriminator, version, fields.
fn all_names(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let discriminator = property(entity).map(|name| quote!(#name));
    let version = quote!(#krate::typed::Schema::VERSION_PROPERTY);
    let own = names(&entity.fields).into_iter().map(|name| quote!(#name));
    discriminator.into_iter().chain([version]).chain(own).collect()
}

/// The discriminator's property.
pub(super) fn property<'e>(entity: &'e Entity<'_>) -> Option<&'e str> {
    match &entity.discriminator {
        Discriminator::Property(name) => Some(name),
        _ => None,
    }
}

fn from_entity(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (name, rust_name) = (&entity.input.ident, entity.rust_name());
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let check_type = property(entity).map(|_| {
        let type_name = &entity.type_name;
        quote!(__slots.check_type(0, #type_name)?;)
    });
    let version_place = usize::from(check_type.is_some());
    let check_version = check_version(entity, version_place);
    let keys = !entity.key_fields().is_empty();
    let read_keys = if keys {
        quote!(let __key = <Self as #krate::__private::KeyFields>::key_fields(__entity.key())?;)
    } else {
        quote!(<Self as #krate::__private::KeyFields>::key_fields(__entity.key())?;)
    };
    let fields = decode_fields(krate, &entity.fields, version_place + 1);
    let in_order = in_order::expand(entity);
    let indexes = (!entity.indexes.is_empty()).then(|| {
        quote! {
            fn indexes() -> ::std::vec::Vec<&'static #krate::typed::IndexSchema> {
                #krate::__private::indexes(<Self as #krate::typed::TableEntity>::SCHEMA)
            }
        }
    });
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

            fn encrypted() -> ::std::vec::Vec<&'static str> {
                #krate::__private::encrypted(<Self as #krate::typed::TableEntity>::SCHEMA.properties)
            }

            fn spread() -> ::core::option::Option<#krate::typed::Spread> {
                <Self as #krate::typed::TableEntity>::SCHEMA.spread
            }

            fn large() -> ::std::vec::Vec<&'static str> {
                #krate::__private::large(<Self as #krate::typed::TableEntity>::SCHEMA.properties)
            }

            #indexes

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

fn check_version(entity: &Entity<'_>, place: usize) -> TokenStream {
    let (krate, version) = (&entity.krate, entity.version);
    let Some(previous) = &entity.previous else {
        return quote!(__slots.check_version(#place, #version)?;);
    };
    let set = entity.fields.iter().filter_map(|f| {
        let (ident, span) = (&f.ident, f.ty.span());
        match f.role {
            Role::ETag => Some(quote_spanned!(span=> __new.#ident = __etag;)),
            Role::Timestamp => Some(quote_spanned!(span=>
                __new.#ident = ::core::option::Option::map(__timestamp, ::core::convert::From::from);)),
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

/// `field: expression` for every field, from `__slots` (whose names start at `first`), `__entity`
/// and `__key`.
pub(crate) fn decode_fields(krate: &Path, fields: &[Field], first: usize) -> Vec<TokenStream> {
    let mut place = first;
    let groups: Vec<_> = fields.iter().filter(|f| matches!(f.role, Role::Flatten)).map(|f| &f.ty).collect();
    let groups = quote!(&[#(<#groups as #krate::typed::PropertyGroup>::PROPERTIES),*]);
    let decode = |field: &Field| {
        let (ident, ty, span) = (&field.ident, &field.ty, field.ty.span());
        let value = match &field.role {
            Role::Key => quote!(__key.#ident),
            Role::ETag => quote_spanned!(span=> __entity.etag().cloned()),
            Role::Timestamp => quote_spanned!(span=>
                ::core::option::Option::map(__entity.timestamp(), ::core::convert::From::from)),
            Role::Skip(default) => quote!(#default()),
            Role::Rest => quote_spanned!(span=> __slots.rest(#groups)),
            Role::Flatten => quote_spanned!(span=>
                <#ty as #krate::typed::PropertyGroup>::read(&__entity, __slots.owner())?),
            Role::Property(property) => {
                let (codec, encrypt, i) =
                    (&property.codec, property.encrypt, Literal::usize_unsuffixed(place));
                place += 1;
                let codec = quote_spanned!(span=> <#codec as #krate::typed::Codec<#ty>>);
                match &property.default {
                    None => quote_spanned! {span=>
                        __slots.get::<#ty, #encrypt>(#i, #codec::TYPE, #codec::read, #codec::missing)?
                    },
                    Some(default) => {
                        quote_spanned!(span=> __slots.get_or::<#ty, #encrypt>(#i, #codec::read, #default)?)
                    }
                }
            }
        };
        quote!(#ident: #value)
    };
    fields.iter().map(decode).collect()
}

/// Statements that append every stored field of `self` to `__encoder`.
pub(crate) fn encode_fields(krate: &Path, fields: &[Field]) -> Vec<TokenStream> {
    let encode = |field: &Field| {
        let (ident, ty, span) = (&field.ident, &field.ty, field.ty.span());
        Some(match &field.role {
            Role::Property(property) => {
                let (codec, name, encrypt) = (&property.codec, &property.name, property.encrypt);
                quote_spanned! {span=>
                    __encoder.field(
                        #name,
                        &self.#ident,
                        #encrypt,
                        <#codec as #krate::typed::Codec<#ty>>::write,
                    )?;
                }
            }
            Role::Flatten => quote_spanned!(span=> __encoder.group(&self.#ident)?;),
            _ => return None,
        })
    };
    fields.iter().filter_map(encode).collect()
}

/// A `PropertySchema` for every field that is one property.
fn property_schemas(krate: &Path, fields: &[Field]) -> Vec<TokenStream> {
    let schema = |field: &Field| {
        let property = field.property()?;
        let (ty, codec, name, encrypted) = (&field.ty, &property.codec, &property.name, property.encrypt);
        let span = field.ty.span();
        let codec = quote_spanned!(span=> <#codec as #krate::typed::Codec<#ty>>);
        let optional =
            if property.default.is_some() { quote!(true) } else { quote_spanned!(span=> #codec::OPTIONAL) };
        let large = match property.large {
            None => quote!(::core::option::Option::None),
            Some(over) => quote!(::core::option::Option::Some(#over)),
        };
        Some(quote_spanned! {span=>
            #krate::typed::PropertySchema {
                name: #name, edm_type: #codec::TYPE, optional: #optional, encrypted: #encrypted, large: #large
            }
        })
    };
    fields.iter().filter_map(schema).collect()
}

fn table_entity(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (name, rust_name) = (&entity.input.ident, entity.rust_name());
    let patch = super::patch::name(entity);
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let schema = schema(entity);
    let partition = entity.key_fields_of(&entity.partition).into_iter().map(|f| &f.ident);
    let row = entity.key_fields_of(&entity.row).into_iter().map(|f| &f.ident);
    let steps = encode_steps(entity);
    let capacity: usize = 32 + names(&entity.fields).iter().map(|n| n.len() + 20).sum::<usize>();
    let etag = entity.fields.iter().find(|f| matches!(f.role, Role::ETag)).map_or_else(
        || quote!(::core::option::Option::None),
        |f| {
            let ident = &f.ident;
            quote_spanned!(f.ty.span()=> ::core::option::Option::as_ref(&self.#ident))
        },
    );
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::typed::TableEntity for #name #ty_generics #where_clause {
            type Patch = #patch #ty_generics;

            const SCHEMA: &'static #krate::typed::Schema = &#schema;

            fn entity_key(&self) -> #krate::Result<#krate::typed::EntityKey<Self>> {
                let __partition = __partition_key(#(&self.#partition),*)?;
                let __row = __row_key(#(&self.#row),*)?;
                #krate::model::Key::new(__partition, __row).map(#krate::typed::EntityKey::new)
            }

            fn to_entity(&self) -> #krate::Result<#krate::model::Entity> {
                let __key = self.entity_key()?.into_key();
                let mut __encoder = #krate::__private::Encoder::new(#rust_name, #capacity);
                #(#steps)*
                ::core::result::Result::Ok(__encoder.finish_entity(__key))
            }

            fn etag(&self) -> ::core::option::Option<&#krate::model::ETag> {
                #etag
            }
        }
    }
}

/// Discriminator, version, fields, and what was kept.
fn encode_steps(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let type_name = &entity.type_name;
    let discriminator = property(entity).map(|name| quote!(__encoder.discriminator(#name, #type_name);));
    let version = (entity.version > 1).then(|| {
        let version = entity.version;
        quote!(__encoder.version(#version);)
    });
    let rest = entity.fields.iter().find(|f| matches!(f.role, Role::Rest)).map(|f| {
        let ident = &f.ident;
        quote_spanned!(f.ty.span()=>
            __encoder.rest(&self.#ident, <Self as #krate::typed::TableEntity>::SCHEMA.properties)?;)
    });
    discriminator.into_iter().chain(version).chain(encode_fields(krate, &entity.fields)).chain(rest).collect()
}

fn schema(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (rust_name, type_name, version) = (entity.rust_name(), &entity.type_name, entity.version);
    let discriminator = match &entity.discriminator {
        Discriminator::None => quote!(None),
        Discriminator::Property(name) => quote!(Property(#name)),
        Discriminator::RowPrefix(text) => quote!(RowPrefix(#text)),
        Discriminator::PartitionPrefix(text) => quote!(PartitionPrefix(#text)),
    };
    let (partition, row) = (entity.partition.display(), entity.row.display());
    let properties = properties(krate, &entity.fields);
    let indexes = crate::index::schemas(entity);
    let spread = match &entity.spread {
        None => quote!(::core::option::Option::None),
        Some(Spread { buckets, salt }) => quote! {
            ::core::option::Option::Some(#krate::typed::Spread { buckets: #buckets, salt: #salt })
        },
    };
    let is_open = row_key_is_open(entity);
    let keeps_rest = entity.fields.iter().any(|f| matches!(f.role, Role::Rest));
    quote! {
        #krate::typed::Schema {
            rust_name: #rust_name,
            type_name: #type_name,
            discriminator: #krate::typed::Discriminator::#discriminator,
            version: #version,
            partition_key: #partition,
            row_key: #row,
            row_key_is_open: #is_open,
            properties: #properties,
            indexes: &[#(#indexes),*],
            spread: #spread,
            keeps_rest: #keeps_rest,
        }
    }
}

/// Whether the last part of the row key has no width: the compiler knows.
fn row_key_is_open(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let part = match entity.row.segments.last() {
        Some(Segment::Part(part)) if part.width.is_none() && part.shards.is_none() => part,
        _ => return quote!(false),
    };
    let field = entity.fields.iter().find(|field| field.ident == part.field);
    field.map_or_else(
        || quote!(false),
        |field| {
            let ty = field.value_type();
            quote!(::core::option::Option::is_none(&<#ty as #krate::model::KeyPart>::WIDTH))
        },
    )
}

/// The properties of all fields, in the order they are written, as a slice.
pub(crate) fn properties(krate: &Path, fields: &[Field]) -> TokenStream {
    let groups: Vec<_> = fields.iter().filter(|f| matches!(f.role, Role::Flatten)).map(|f| &f.ty).collect();
    if groups.is_empty() {
        let own = property_schemas(krate, fields);
        return quote!(&[#(#own),*]);
    }
    let pieces = fields.iter().filter_map(|field| {
        let ty = &field.ty;
        match field.role {
            Role::Flatten => Some(quote!(<#ty as #krate::typed::PropertyGroup>::PROPERTIES)),
            _ => {
                let own = property_schemas(krate, std::slice::from_ref(field));
                (!own.is_empty()).then(|| quote!(&[#(#own),*]))
            }
        }
    });
    let own = names(fields).len();
    quote! {
        &#krate::__private::joined::<{ #own #(+ <#groups as #krate::typed::PropertyGroup>::PROPERTIES.len())* }>(
            &[#(#pieces),*],
        )
    }
}
