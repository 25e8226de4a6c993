//! Generates the partial update: the fields that are neither in keys nor set by the store, each optional.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Generics, Ident, Path};

use super::model::Entity;
use crate::fields::{Field, Property, Role, codec_for, is_option, var};

/// Returns the name of the patch type.
pub(super) fn name(entity: &Entity<'_>) -> Ident {
    format_ident!("{}Patch", entity.input.ident)
}

/// Generates the struct.
pub(super) fn definition(entity: &Entity<'_>) -> TokenStream {
    let (vis, of, name) = (&entity.input.vis, &entity.input.ident, name(entity));
    let (_, ty_generics, where_clause) = entity.generics.split_for_impl();
    let params = declared(&entity.generics);
    let fields = patched(entity).map(|f| {
        let (ident, ty) = (&f.ident, f.value_type());
        quote!(#ident: ::core::option::Option<#ty>)
    });
    let doc = format!("A partial update of [`{of}`], for merges: unset fields stay unchanged.");
    let indexed = if entity.indexes.is_empty() {
        ""
    } else {
        " Fields that an index contains cannot be patched."
    };
    let remark = format!(
        "A merge cannot clear an `Option`: to clear it, read the entity and replace it.{indexed}"
    );
    quote! {
        #[doc = #doc]
        #[doc = ""]
        #[doc = #remark]
        #[allow(deprecated)]
        #[must_use]
        #vis struct #name #params #where_clause {
            #(#fields,)*
            // `fn() ->`: the patch contains no entity, so it is `Send` and `Sync` whatever the entity's parameters
            // are.
            __of: ::core::marker::PhantomData<fn() -> #of #ty_generics>,
        }
    }
}

/// Generates the implementations.
pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (of, name, vis) = (&entity.input.ident, name(entity), &entity.input.vis);
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let idents: Vec<_> = patched(entity).map(|f| &f.ident).collect();
    let texts: Vec<_> = idents.iter().map(|i| crate::template::plain(i)).collect();
    let setters = patched(entity).map(|f| setter(krate, f));
    let steps = patched(entity).map(|f| step(krate, f));
    let (rust_name, patch_name) = (entity.rust_name(), name.to_string());
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #of #ty_generics #where_clause {
            /// Creates a partial update without changes.
            #vis fn patch() -> #name #ty_generics {
                ::core::default::Default::default()
            }
        }

        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #name #ty_generics #where_clause {
            #(#setters)*
        }

        #[automatically_derived]
        impl #impl_generics ::core::default::Default for #name #ty_generics #where_clause {
            fn default() -> Self {
                Self { #(#idents: ::core::option::Option::None,)* __of: ::core::marker::PhantomData }
            }
        }

        /// Shows the names of the set fields, not their values, which may be secret.
        #[automatically_derived]
        impl #impl_generics ::core::fmt::Debug for #name #ty_generics #where_clause {
            fn fmt(&self, __f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                let __set: &[(&str, bool)] = &[#((#texts, ::core::option::Option::is_some(&self.#idents))),*];
                #krate::__private::debug_patch(__f, #patch_name, __set)
            }
        }

        #[automatically_derived]
        impl #impl_generics #krate::typed::EntityPatch for #name #ty_generics #where_clause {
            type Entity = #of #ty_generics;

            fn to_properties(&self) -> #krate::Result<#krate::model::Properties> {
                #[allow(unused_mut)]
                let mut __encoder = #krate::__private::Encoder::new(#rust_name, 64);
                #(#steps)*
                ::core::result::Result::Ok(__encoder.finish())
            }
        }
    }
}

/// Returns the fields that a patch has. It excludes fields of an index, because a merge would leave the entry
/// stale, large fields, which are written with their blobs, and split fields, because a merge cannot remove
/// the parts of a longer value.
fn patched<'e>(entity: &'e Entity<'_>) -> impl Iterator<Item = &'e Field> {
    let stored = entity.fields.iter().filter(|f| match &f.role {
        Role::Property(property) => property.large.is_none() && !property.split,
        role => matches!(role, Role::Flatten(_)),
    });
    stored.filter(|field| {
        !entity
            .indexes
            .iter()
            .any(|index| index.depends_on(field, &entity.fields))
    })
}

fn setter(krate: &Path, field: &Field) -> TokenStream {
    let (vis, ident, ty) = (&field.vis, &field.ident, field.value_type());
    let doc = format!("Sets `{ident}`.");
    quote! {
        #[doc = #doc]
        #vis fn #ident(mut self, value: impl #krate::typed::Operand<#ty>) -> Self {
            self.#ident = ::core::option::Option::Some(#krate::typed::Operand::into_operand(value));
            self
        }
    }
}

fn step(krate: &Path, field: &Field) -> TokenStream {
    let (ident, ty, span) = (&field.ident, field.value_type(), field.ty.span());
    let (encoder, value) = (var("__encoder", ty), var("__value", ty));
    let mut given = quote!(::core::option::Option::as_ref(&self.#ident));
    let write = match &field.role {
        Role::Property(Property {
            name,
            codec,
            encrypt,
            ..
        }) => {
            if is_option(&field.ty) {
                // With another codec for the value alone, a type without codec would be two errors.
                given =
                    quote!(::core::option::Option::is_some(&self.#ident).then_some(&self.#ident));
            }
            let codec = codec_for(krate, codec, &field.ty);
            quote_spanned!(span=> #encoder.patch(#name, #value, #encrypt, #codec::write)?;)
        }
        role => {
            let prefix = if let Role::Flatten(prefix) = role {
                prefix.as_str()
            } else {
                ""
            };
            quote_spanned!(span=> #encoder.patch_group::<#ty>(#prefix, #value)?;)
        }
    };
    quote!({
        let (#encoder, #value) = (&mut __encoder, #given);
        #write
    })
}

/// Returns the generic parameters as a struct declares them.
fn declared(generics: &Generics) -> TokenStream {
    let mut generics = generics.clone();
    generics.where_clause = None;
    quote!(#generics)
}
