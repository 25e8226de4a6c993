//! Generates the fast decoder, which expects the properties in the order in which they are written.

use proc_macro2::{Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use super::codec::{missing, property};
use super::model::Entity;
use crate::fields::{Field, Role, codec_for, var};

/// Returns statements that return the value if the properties are in order; `None` for types with properties
/// that the macro does not know.
pub(super) fn expand(entity: &Entity<'_>) -> Option<TokenStream> {
    // The names of such properties are not known here, so neither is the next name.
    let is_split = |field: &Field| field.property().is_some_and(|property| property.split);
    if entity
        .fields
        .iter()
        .any(|f| matches!(f.role, Role::Flatten(_) | Role::Rest) || is_split(f))
    {
        return None;
    }
    let krate = &entity.krate;
    let type_name = &entity.type_name;
    let check_type = property(entity).map(|name| {
        let name = name_with_length(name);
        quote!(__in_order.is_text(#name, #type_name)?;)
    });
    let check_version = (entity.version > 1).then(|| {
        let (name, version) = (name_with_length("EntityVersion"), entity.version);
        quote!(__in_order.is_version(#name, #version)?;)
    });
    let check_reader = (entity.min_reader < entity.version).then(|| {
        let (name, reader) = (name_with_length("EntityReader"), entity.min_reader);
        quote!(__in_order.is_version(#name, #reader)?;)
    });
    let key = if entity.key_fields().is_empty() {
        quote!(_)
    } else {
        quote!(__key)
    };
    let fields = entity.fields.iter().map(|field| decode(entity, field));
    // The generated closure lets `?` end the fast decoder alone. The code after it decodes the entity by names, or returns the
    // error.
    Some(quote! {
        let __decoded = (|| {
            let mut __in_order = #krate::__private::InOrder::new(&__entity);
            #check_type
            #check_version
            #check_reader
            let #key = <Self as #krate::__private::KeyFields>::fitting_key_fields(__entity.key())?;
            let __value = Self { #(#fields),* };
            // After the last field: a property of the type that is left over was out of order, and a field was taken
            // for absent.
            __in_order.finish(__NAMES)?;
            ::core::option::Option::Some(__value)
        })();
        if let ::core::option::Option::Some(__value) = __decoded {
            return ::core::result::Result::Ok(__value);
        }
    })
}

fn decode(entity: &Entity<'_>, field: &Field) -> TokenStream {
    let krate = &entity.krate;
    let (ident, ty, span) = (&field.ident, &field.ty, field.ty.span());
    let (stored, in_order) = (var("__entity", ty), var("__in_order", ty));
    let value = match &field.role {
        Role::Key => quote!(__key.#ident),
        Role::ETag => quote_spanned!(span=> #stored.etag().cloned()),
        Role::Timestamp => quote_spanned!(span=>
            ::core::option::Option::map(#stored.timestamp(), ::core::convert::From::from)),
        Role::Skip(default) => quote!(#default()),
        Role::Property(property) => {
            let (codec, encrypt, name) = (
                &property.codec,
                property.encrypt,
                name_with_length(&property.name),
            );
            let codec = codec_for(krate, codec, ty);
            let missing = missing(property, &codec, ty);
            quote_spanned! {span=>
                #in_order.get::<#ty, #encrypt, _>(#name, #codec::TYPE, #codec::read, #missing)?
            }
        }
        // `expand` does nothing for types with such fields.
        Role::Flatten(_) | Role::Rest => TokenStream::new(),
    };
    match field.role {
        Role::ETag | Role::Timestamp => quote!(#ident: { let #stored = &__entity; #value }),
        Role::Property(_) => quote!(#ident: { let #in_order = &mut __in_order; #value }),
        _ => quote!(#ident: #value),
    }
}

/// Returns a name with its length in front, as stored.
fn name_with_length(name: &str) -> Literal {
    // The first bytes of a packed property after its tag: `table_core::model::Properties`.
    let mut bytes = (name.len() as u16).to_le_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    Literal::byte_string(&bytes)
}
