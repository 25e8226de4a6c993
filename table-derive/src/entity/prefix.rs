//! Generates `T::row_prefix()`: a step per part of the RowKey. Each step is a prefix.
//!
//! The number of the step is a const parameter of the type, and each method exists for one number. So the parts can be set
//! only in the order of the key, each once.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use super::keys::{format, operand};
use super::model::Entity;
use crate::fields::{Field, is_fixed};
use crate::template::{Part, Segment, plain};

fn name(entity: &Entity<'_>) -> Ident {
    format_ident!("{}RowPrefix", entity.input.ident)
}

/// Generates the struct: one step per const number.
pub(super) fn definition(entity: &Entity<'_>) -> TokenStream {
    let (krate, vis, of, name) = (&entity.krate, &entity.input.vis, &entity.input.ident, name(entity));
    let doc =
        format!("The start of row keys of [`{of}`], `{}`: a `RowPrefix` at each step.", entity.row.display());
    quote! {
        #[doc = #doc]
        #[derive(Debug)]
        #[must_use]
        #vis struct #name<const STEP: usize>(#krate::__private::PrefixBuilder);
    }
}

pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let (of, name, vis) = (&entity.input.ident, name(entity), &entity.input.vis);
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let mut with_step = entity.generics.clone();
    // `From` is implemented for all steps at once, by one more const parameter.
    with_step.params.push(syn::parse_quote!(const __STEP: usize));
    let (step_generics, ..) = with_step.split_for_impl();
    let display = entity.row.display();
    let start = entity.row.prefix().map(|text| quote!(.literal(#text)));
    let steps = steps(entity);
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #of #ty_generics #where_clause {
            /// Starts a prefix of the RowKey, to which parts are added.
            #vis fn row_prefix() -> #name<0> {
                #name(#krate::__private::PrefixBuilder::new(#display) #start)
            }
        }

        #(#steps)*

        #[automatically_derived]
        impl #step_generics ::core::convert::From<#name<__STEP>>
            for #krate::typed::RowPrefix<#of #ty_generics> #where_clause
        {
            fn from(__prefix: #name<__STEP>) -> Self {
                __prefix.0.finish()
            }
        }
    }
}

fn steps(entity: &Entity<'_>) -> Vec<TokenStream> {
    let last = entity.row.parts().count();
    let indexed = entity.row.segments.iter().enumerate();
    let parts = indexed.filter_map(|(index, segment)| match segment {
        Segment::Part(part) => Some((index, part)),
        Segment::Literal(_) => None,
    });
    parts.enumerate().map(|(step, (index, part))| one_step(entity, step, index, part, last)).collect()
}

/// Generates the methods that set the part at an index of the template.
fn one_step(entity: &Entity<'_>, step: usize, index: usize, part: &Part, last: usize) -> TokenStream {
    let name = name(entity);
    let is_last = index + 1 == entity.row.segments.len();
    let Some(field) = entity.field(&part.field) else { return TokenStream::new() };
    // The last part has no end marker if its length varies: a prefix "ann" also matches "anna".
    let whole = (!is_last || is_fixed(&field.ty)).then(|| whole(entity, step, index, part, field));
    let starting = (!is_fixed(&field.ty)).then(|| starting(entity, index, part, field, last));
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #name<#step> {
            #whole
            #starting
        }
    }
}

/// Generates the method that adds the part and the literal text after it.
fn whole(entity: &Entity<'_>, step: usize, index: usize, part: &Part, field: &Field) -> TokenStream {
    let (krate, vis, name, field, ty) =
        (&entity.krate, &entity.input.vis, name(entity), &field.ident, &field.ty);
    let (text, next, format) = (plain(field), step + 1, format(entity, &entity.row, index, part));
    let operand = operand(krate, ty);
    let literal = entity.row.text_after(index).map(|text| quote!(.literal(#text)));
    let doc = format!("Only rows with this `{text}`.");
    quote! {
        #[doc = #doc]
        #vis fn #field(self, #field: impl #operand) -> #name<#next> {
            let __value: #ty = #operand::into_operand(#field);
            #name(self.0.part(#text, &__value, #format) #literal)
        }
    }
}

/// Generates the method that ends the prefix within the part.
fn starting(entity: &Entity<'_>, index: usize, part: &Part, field: &Field, last: usize) -> TokenStream {
    let (krate, vis, name, ty) = (&entity.krate, &entity.input.vis, name(entity), &field.ty);
    let (text, format) = (plain(&field.ident), format(entity, &entity.row, index, part));
    let method = format_ident!("{text}_starting");
    let doc = format!("Only rows whose `{text}` starts with this text.");
    quote! {
        #[doc = #doc]
        #vis fn #method<P: #krate::__private::PrefixOf<#ty>>(self, prefix: P) -> #name<#last> {
            #name(self.0.starting(prefix.as_prefix(), #format))
        }
    }
}
