//! Generates `T::row_prefix()` and `T::partition_prefix()`: a step per part of the key. Each step is a prefix.
//!
//! The number of the step is a const parameter of the type, and each method exists for one number. So the parts can be set
//! only in the order of the key, each once.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

use super::keys::{format, operand};
use super::model::Entity;
use crate::fields::{Field, is_fixed};
use crate::template::{Part, Segment, Template, plain};

/// The key whose prefixes are built.
#[derive(Clone, Copy)]
pub(super) enum Which {
    Partition,
    Row,
}

impl Which {
    pub(super) const BOTH: [Self; 2] = [Self::Partition, Self::Row];

    /// Returns the name of the generated struct.
    fn name(self, entity: &Entity<'_>) -> Ident {
        format_ident!("{}{}", entity.input.ident, self.prefix_type())
    }

    /// Returns the name of the type to which a step is converted.
    fn prefix_type(self) -> Ident {
        match self {
            Self::Partition => format_ident!("PartitionPrefix"),
            Self::Row => format_ident!("RowPrefix"),
        }
    }

    const fn key_name(self) -> &'static str {
        match self {
            Self::Partition => "PartitionKey",
            Self::Row => "RowKey",
        }
    }

    const fn template<'e>(self, entity: &'e Entity<'_>) -> &'e Template {
        match self {
            Self::Partition => &entity.partition,
            Self::Row => &entity.row,
        }
    }
}

/// Generates the struct: one step per const number.
pub(super) fn definition(entity: &Entity<'_>, which: Which) -> TokenStream {
    let (krate, vis, of, name) = (
        &entity.krate,
        &entity.input.vis,
        &entity.input.ident,
        which.name(entity),
    );
    let (key, prefix, template) = (
        which.key_name(),
        which.prefix_type(),
        which.template(entity).display(),
    );
    let doc = format!("The start of a {key} of [`{of}`], `{template}`: a `{prefix}` at each step.");
    quote! {
        #[doc = #doc]
        #[derive(Debug)]
        #[must_use]
        #vis struct #name<const STEP: usize>(#krate::__private::PrefixBuilder);
    }
}

pub(super) fn expand(entity: &Entity<'_>, which: Which) -> TokenStream {
    let krate = &entity.krate;
    let (of, name, vis) = (&entity.input.ident, which.name(entity), &entity.input.vis);
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let mut with_step = entity.generics.clone();
    // `From` is implemented for all steps at once, by one more const parameter.
    with_step
        .params
        .push(syn::parse_quote!(const __STEP: usize));
    let (step_generics, ..) = with_step.split_for_impl();
    let (key, prefix, template) = (
        which.key_name(),
        which.prefix_type(),
        which.template(entity),
    );
    let display = template.display();
    let start = template.prefix().map(|text| quote!(.literal(#text)));
    let steps = steps(entity, which);
    let (function, finish) = match which {
        Which::Partition => (
            format_ident!("partition_prefix"),
            format_ident!("finish_partition"),
        ),
        Which::Row => (format_ident!("row_prefix"), format_ident!("finish_row")),
    };
    let doc = format!("Starts a prefix of the {key}, to which parts are added.");
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #of #ty_generics #where_clause {
            #[doc = #doc]
            #vis fn #function() -> #name<0> {
                #name(#krate::__private::PrefixBuilder::new(#key, #display) #start)
            }
        }

        #(#steps)*

        #[automatically_derived]
        impl #step_generics ::core::convert::From<#name<__STEP>>
            for #krate::typed::#prefix<#of #ty_generics> #where_clause
        {
            fn from(__prefix: #name<__STEP>) -> Self {
                __prefix.0.#finish()
            }
        }
    }
}

fn steps(entity: &Entity<'_>, which: Which) -> Vec<TokenStream> {
    let template = which.template(entity);
    let last = template.parts().count();
    let indexed = template.segments.iter().enumerate();
    let parts = indexed.filter_map(|(index, segment)| match segment {
        Segment::Part(part) => Some((index, part)),
        Segment::Literal(_) => None,
    });
    parts
        .enumerate()
        .map(|(step, (index, part))| one_step(entity, which, (step, last), index, part))
        .collect()
}

/// Generates the methods that set the part at an index of the template, in this step of `last`.
fn one_step(
    entity: &Entity<'_>,
    which: Which,
    (step, last): (usize, usize),
    index: usize,
    part: &Part,
) -> TokenStream {
    let name = which.name(entity);
    let is_last = index + 1 == which.template(entity).segments.len();
    let Some(field) = entity.field(&part.field) else {
        return TokenStream::new();
    };
    // The last part has no end marker if its length varies: a prefix "ann" also matches "anna".
    let whole =
        (!is_last || is_fixed(&field.ty)).then(|| whole(entity, which, step, (index, part), field));
    let starting =
        (!is_fixed(&field.ty)).then(|| starting(entity, which, (index, part), field, last));
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
fn whole(
    entity: &Entity<'_>,
    which: Which,
    step: usize,
    (index, part): (usize, &Part),
    field: &Field,
) -> TokenStream {
    let (krate, vis, name, field, ty) = (
        &entity.krate,
        &entity.input.vis,
        which.name(entity),
        &field.ident,
        &field.ty,
    );
    let template = which.template(entity);
    let (text, next, format) = (
        plain(field),
        step + 1,
        format(entity, template, index, part),
    );
    let operand = operand(krate, ty);
    let literal = template
        .text_after(index)
        .map(|text| quote!(.literal(#text)));
    let doc = format!("Only keys with this `{text}`.");
    quote! {
        #[doc = #doc]
        #vis fn #field(self, #field: impl #operand) -> #name<#next> {
            let __value: #ty = #operand::into_operand(#field);
            #name(self.0.part(#text, &__value, #format) #literal)
        }
    }
}

/// Generates the method that ends the prefix within the part.
fn starting(
    entity: &Entity<'_>,
    which: Which,
    (index, part): (usize, &Part),
    field: &Field,
    last: usize,
) -> TokenStream {
    let (krate, vis, name, ty) = (
        &entity.krate,
        &entity.input.vis,
        which.name(entity),
        &field.ty,
    );
    let (text, format) = (
        plain(&field.ident),
        format(entity, which.template(entity), index, part),
    );
    let method = format_ident!("{text}_starting");
    let doc = format!("Only keys whose `{text}` starts with this text.");
    quote! {
        #[doc = #doc]
        #vis fn #method<P: #krate::__private::PrefixOf<#ty>>(self, prefix: P) -> #name<#last> {
            #name(self.0.starting(prefix.as_prefix(), #format))
        }
    }
}
