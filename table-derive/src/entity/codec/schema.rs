//! Generates the compile-time description of a type.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Path;
use syn::spanned::Spanned;

use super::names;
use crate::entity::layout::Spread;
use crate::entity::model::Entity;
use crate::entity::option;
use crate::fields::{Field, Role, at, codec_for};
use crate::template::Segment;

pub(super) fn schema(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (rust_name, type_name, version) = (entity.rust_name(), &entity.type_name, entity.version);
    let discriminator = entity.discriminator.expand(krate);
    let (partition, row) = (entity.partition.display(), entity.row.display());
    let properties = properties(krate, &entity.fields);
    let indexes = if entity.has_definitions() {
        quote!(__INDEXES)
    } else {
        quote!(&[])
    };
    let spread = option(entity.spread.as_ref().map(
        |Spread { buckets, salt }| quote!(#krate::typed::Spread { buckets: #buckets, salt: #salt }),
    ));
    let is_open = row_key_is_open(entity);
    let previous = option(
        entity
            .previous
            .as_ref()
            .map(|ty| quote!(<#ty as #krate::typed::TableEntity>::SCHEMA)),
    );
    let min_reader = entity.min_reader;
    let (has_versions, wide) = (entity.has_versions, entity.wide);
    let expiry = expiry(entity);
    let keeps_rest = entity.fields.iter().any(|f| matches!(f.role, Role::Rest));
    quote! {
        #krate::typed::Schema {
            rust_name: #rust_name,
            type_name: #type_name,
            discriminator: #discriminator,
            version: #version,
            min_reader: #min_reader,
            previous: #previous,
            has_versions: #has_versions,
            partition_key: #partition,
            row_key: #row,
            row_key_is_open: #is_open,
            properties: #properties,
            indexes: #indexes,
            spread: #spread,
            keeps_rest: #keeps_rest,
            wide: #wide,
            expiry: #expiry,
        }
    }
}

/// Returns the expiry that the fields declare.
fn expiry(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let properties = || entity.fields.iter().filter_map(Field::property);
    let expires = properties()
        .find(|property| property.expires)
        .map(|property| &property.name);
    let deleted = properties().find_map(|property| Some((&property.name, property.deleted_at?)));
    if expires.is_none() && deleted.is_none() {
        return quote!(::core::option::Option::None);
    }
    let text =
        |name: Option<&String>| option(name.map(|name| quote!(#krate::__private::text(#name))));
    let keep_days = deleted.map_or(0, |(_, days)| days);
    let (expires, deleted) = (text(expires), text(deleted.map(|(name, _)| name)));
    quote! {
        ::core::option::Option::Some(#krate::manifest::Expiry {
            expires: #expires,
            deleted: #deleted,
            keep_days: #keep_days,
        })
    }
}

/// Returns an expression for whether the last part of the RowKey has no fixed width. The compiler evaluates
/// it.
fn row_key_is_open(entity: &Entity<'_>) -> TokenStream {
    let part = match entity.row.segments.last() {
        Some(Segment::Part(part)) if part.width.is_none() && part.shards.is_none() => part,
        _ => return quote!(false),
    };
    entity.field(&part.field).map_or_else(
        || quote!(false),
        |field| {
            let (ty, root) = (
                field.value_type(),
                at(field.value_type().span(), &entity.krate),
            );
            quote_spanned!(ty.span()=>
                ::core::option::Option::is_none(&<#ty as #root::model::KeyPart>::WIDTH))
        },
    )
}

/// Returns a `PropertySchema` for every field that is one property.
fn property_schemas(krate: &Path, fields: &[Field]) -> Vec<TokenStream> {
    let schema = |field: &Field| {
        let property = field.property()?;
        let (ty, codec, name, encrypted) =
            (&field.ty, &property.codec, &property.name, property.encrypt);
        let (span, aliases) = (field.ty.span(), &property.aliases);
        let codec = codec_for(krate, codec, ty);
        let optional = if property.default.is_some() {
            quote!(true)
        } else {
            quote_spanned!(span=> #codec::OPTIONAL)
        };
        let root = at(span, krate);
        let split = property.split;
        let large = option(property.large);
        Some(quote_spanned! {span=>
            #root::typed::PropertySchema {
                name: #name,
                aliases: &[#(#aliases),*],
                alias_prefix: "",
                edm_type: #codec::TYPE,
                optional: #optional,
                encrypted: #encrypted,
                large: #large,
                split: #split,
            }
        })
    };
    fields.iter().filter_map(schema).collect()
}

/// Returns the properties of a flattened field as a slice, with the prefix in their names; `None` for other fields.
pub(crate) fn group(krate: &Path, field: &Field) -> Option<TokenStream> {
    let Role::Flatten(prefix) = &field.role else {
        return None;
    };
    let ty = &field.ty;
    // The macro sees the name of the group's type and not its fields. So lengths and texts are computed by constant
    // functions, which the compiler runs on the group's own constant.
    let own = quote!(<#ty as #krate::typed::PropertyGroup>::PROPERTIES);
    if prefix.is_empty() {
        return Some(own);
    }
    // Two constants: the schema holds `&'static str`, so the joined names need a separate constant to borrow from.
    Some(quote!({
        const __TEXT: &[u8] =
            &#krate::__private::prefixed_names::<{ #krate::__private::prefixed_bytes(#prefix, #own) }>(#prefix, #own);
        const __PREFIXED: &[#krate::typed::PropertySchema] =
            &#krate::__private::prefixed::<{ #own.len() }>(#prefix, __TEXT, #own);
        __PREFIXED
    }))
}

/// Returns the properties of all fields as a slice, in the order in which they are written.
pub(crate) fn properties(krate: &Path, fields: &[Field]) -> TokenStream {
    let groups: Vec<_> = fields
        .iter()
        .filter(|f| matches!(f.role, Role::Flatten(_)))
        .map(|f| &f.ty)
        .collect();
    if groups.is_empty() {
        let own = property_schemas(krate, fields);
        return quote!(&[#(#own),*]);
    }
    let pieces = fields.iter().filter_map(|field| {
        group(krate, field).or_else(|| {
            let own = property_schemas(krate, std::slice::from_ref(field));
            (!own.is_empty()).then(|| quote!(&[#(#own),*]))
        })
    });
    // The length of the joined array: known for the fields of this type, and a sum of constants for its groups.
    let own = names(fields).len();
    quote! {
        &#krate::__private::joined::<{ #own #(+ <#groups as #krate::typed::PropertyGroup>::PROPERTIES.len())* }>(
            &[#(#pieces),*],
        )
    }
}
