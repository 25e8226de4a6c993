//! Generates `T::by_name(…)`: lookups in an index, with a step per part of the RowKey.
//!
//! The number of the step is a const parameter of the type, and each method exists for one number: parts are set in the order
//! of the key. A range or a prefix of text leads to the step `done`, which has no methods.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned as _;

use super::expand::partition_writer;
use super::model::Index;
use crate::case::Case;
use crate::entity::{Entity, arguments, key_part, operand, part_format, transformed};
use crate::fields::{Field, is_fixed, var};
use crate::template::{Part, Segment, Template, Transform, plain};

fn name(entity: &Entity<'_>, index: &Index) -> Ident {
    format_ident!("{}By{}", entity.input.ident, Case::Pascal.apply(&plain(&index.name)))
}

/// Generates the structs.
pub(crate) fn definition(entity: &Entity<'_>) -> TokenStream {
    let one = |index: &Index| {
        let (krate, vis, of, name) =
            (&entity.krate, &entity.input.vis, &entity.input.ident, name(entity, index));
        let doc = format!(
            "Entries of the index `{}` of [`{of}`], `{}`: to look up at each step.",
            plain(&index.name),
            index.row.display()
        );
        quote! {
            #[doc = #doc]
            #[derive(Clone, Debug)]
            #[must_use]
            #vis struct #name<const STEP: usize>(#krate::__private::EntriesBuilder);
        }
    };
    entity.indexes.iter().map(one).collect()
}

pub(super) fn expand(entity: &Entity<'_>, n: usize, index: &Index) -> TokenStream {
    let start = start(entity, n, index);
    let steps = index.row.parts().enumerate().map(|(step, part)| one_step(entity, index, step, part));
    let ends = (0..=done(index)).map(|step| entries_of(entity, index, step));
    quote!(#start #(#steps)* #(#ends)*)
}

/// Returns the step of a complete key.
fn whole(index: &Index) -> usize {
    index.row.parts().count()
}

/// Returns the step after a range or a prefix of text. No further part can follow.
fn done(index: &Index) -> usize {
    whole(index) + 1
}

/// Generates `T::by_name(…)`, which takes the parts of the PartitionKey.
fn start(entity: &Entity<'_>, n: usize, index: &Index) -> TokenStream {
    let krate = &entity.krate;
    let (of, name, vis) = (&entity.input.ident, name(entity, index), &entity.input.vis);
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let template = index.partition.as_ref().unwrap_or(&entity.partition);
    let fields = entity.key_fields_of(template);
    let (params, values) = arguments(krate, &fields);
    let locals = fields.iter().map(|f| f.local());
    let writer = partition_writer(n, index);
    let (index_name, display) = (plain(&index.name), index.row.display());
    let literal = index.row.prefix().map(|text| quote!(.literal(#text)));
    // The value of a shard is known, and the RowKey starts with it.
    let known = index.partition.as_ref().and_then(Template::shard);
    let first = known.map(|part| first(entity, index, &part.field));
    // The shard is computed from the value, so the caller has given the value already: its step is done.
    let step = usize::from(known.is_some());
    let is_whole = (whole(index) == step).then(|| quote!(.whole()));
    let function = format_ident!("by_{}", index_name);
    let doc = format!("Entries of the index `{index_name}`: parts of `{display}` can follow.");
    let shards = known.map(|_| shards(entity, index, template));
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #of #ty_generics #where_clause {
            #[doc = #doc]
            #vis fn #function(#params) -> #name<#step> {
                #values
                let __partition = #writer(#(&#locals),*);
                #name(
                    #krate::__private::EntriesBuilder::new(#index_name, __partition, #display)
                        #literal #first #is_whole,
                )
            }

            #shards
        }
    }
}

/// Generates the first part of the RowKey, and the text after it.
fn first(entity: &Entity<'_>, index: &Index, field: &Ident) -> TokenStream {
    let at = place(&index.row, 0);
    let Some(Segment::Part(part)) = index.row.segments.get(at) else { return TokenStream::new() };
    let (text, format) = (plain(field), part_format(entity, &index.row, at, part));
    let literal = text_after(&index.row, at);
    let local = local_of(entity, field);
    let value = transformed(&entity.krate, part, quote!(&#local));
    quote!(.part(#text, #value, #format) #literal)
}

/// Returns the variable of a field.
fn local_of(entity: &Entity<'_>, field: &Ident) -> Option<Ident> {
    entity.fields.iter().find(|f| f.ident == *field).map(Field::local)
}

/// Returns the literal text after a segment.
fn text_after(template: &Template, at: usize) -> Option<TokenStream> {
    match template.segments.get(at + 1) {
        Some(Segment::Literal(text)) => Some(quote!(.literal(#text))),
        _ => None,
    }
}

/// Generates `T::name_shards(…)`: the partitions of all shards.
fn shards(entity: &Entity<'_>, index: &Index, template: &Template) -> TokenStream {
    let (krate, vis) = (&entity.krate, &entity.input.vis);
    let Some(Part { field: sharded, shards: Some(count), .. }) = template.shard() else {
        return TokenStream::new();
    };
    let mut fields = entity.key_fields_of(template);
    // All shards are listed, so the value that would choose one is not asked for.
    fields.retain(|f| f.ident != *sharded);
    let (params, values) = arguments(krate, &fields);
    let (index_name, display) = (plain(&index.name), template.display());
    let steps = template.segments.iter().enumerate().map(|(at, segment)| match segment {
        Segment::Literal(text) => quote!(.literal(#text)),
        Segment::Part(Part { shards: Some(count), .. }) => quote!(.shard_at(#count, __shard)?),
        Segment::Part(part) => {
            let (local, name, format) =
                (local_of(entity, &part.field), plain(&part.field), part_format(entity, template, at, part));
            let value = transformed(krate, part, quote!(&#local));
            quote!(.part(#name, #value, #format)?)
        }
    });
    let function = format_ident!("{}_shards", index_name);
    let doc = format!(
        "The partitions of all shards of the index `{index_name}`, `{display}`, in order: to be read merged."
    );
    quote! {
        #[doc = #doc]
        ///
        /// # Errors
        /// Fails if a part does not fit its width.
        #vis fn #function(#params) -> #krate::Result<::std::vec::Vec<::std::string::String>> {
            #values
            let mut __partitions = ::std::vec::Vec::new();
            for __shard in 0..#count {
                let __key = #krate::model::KeyBuilder::new("PartitionKey", #display) #(#steps)*;
                __partitions.push(__key.finish());
            }
            ::core::result::Result::Ok(__partitions)
        }
    }
}

/// Generates the methods that set one part.
fn one_step(entity: &Entity<'_>, index: &Index, step: usize, part: &Part) -> TokenStream {
    let name = name(entity, index);
    let Some(field) = entity.fields.iter().find(|f| f.ident == part.field) else { return TokenStream::new() };
    let at = place(&index.row, step);
    let is_last = at + 1 == index.row.segments.len();
    let value = value(entity, index, step, at, part, field);
    // A range of times is not a range of days, and a range of texts is not a range of their first characters.
    let (has_range, has_starts) = match part.transforms.as_slice() {
        [] => {
            let fixed = part.width.is_some() || is_fixed(field.part_type());
            (fixed || is_last, !fixed)
        }
        [Transform::Descending] => (true, false),
        [Transform::Lower] => (false, true),
        _ => (false, false),
    };
    let starting = has_starts.then(|| starting(entity, index, at, part, field));
    let range = has_range.then(|| range(entity, index, at, part, field));
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #name<#step> {
            #value
            #range
            #starting
        }
    }
}

/// Returns the position of a step's part in the template.
fn place(template: &Template, step: usize) -> usize {
    let parts = template.segments.iter().enumerate().filter(|(_, s)| matches!(s, Segment::Part(_)));
    parts.map(|(at, _)| at).nth(step).unwrap_or_default()
}

fn value(
    entity: &Entity<'_>,
    index: &Index,
    step: usize,
    at: usize,
    part: &Part,
    field: &Field,
) -> TokenStream {
    let (krate, vis, name, ident) = (&entity.krate, &entity.input.vis, name(entity, index), &field.ident);
    let (text, next, format) = (plain(ident), step + 1, part_format(entity, &index.row, at, part));
    let (ty, operand) = (field.part_type(), operand(krate, field.part_type()));
    let literal = text_after(&index.row, at);
    let is_whole = (next == whole(index)).then(|| quote!(.whole()));
    let needed = key_part(krate, ty);
    let (entries, given) = (var("__entries", ty), var("__value", ty));
    let written = transformed(krate, part, quote!(#given));
    let key = quote_spanned!(ty.span()=> #entries.part(#text, #written, #format));
    let (method, doc) = match part.transforms.as_slice() {
        [] | [Transform::Descending] if part.each => {
            (ident.clone(), format!("Only entries with this element of `{text}`."))
        }
        [] | [Transform::Descending] => (ident.clone(), format!("Only entries with this `{text}`.")),
        transforms => match transforms.iter().rev().find(|t| !matches!(t, Transform::Lower)) {
            Some(Transform::Prefix(count)) => (
                format_ident!("{text}_prefix"),
                format!("Only entries whose `{text}` has the same first {count} characters as this text."),
            ),
            Some(Transform::Date) => {
                (ident.clone(), format!("Only entries whose `{text}` is on the UTC day of this time."))
            }
            Some(Transform::Hour) => {
                (ident.clone(), format!("Only entries whose `{text}` is in the UTC hour of this time."))
            }
            _ => (ident.clone(), format!("Only entries with this `{text}`, in upper or lower case.")),
        },
    };
    quote! {
        #[doc = #doc]
        #vis fn #method(self, #ident: impl #operand) -> #name<#next> {
            #needed
            let __value: #ty = #operand::into_operand(#ident);
            let (#entries, #given) = (self.0, &__value);
            #name(#key #literal #is_whole)
        }
    }
}

fn range(entity: &Entity<'_>, index: &Index, at: usize, part: &Part, field: &Field) -> TokenStream {
    let (krate, vis, name) = (&entity.krate, &entity.input.vis, name(entity, index));
    let (text, done, format) = (plain(&field.ident), done(index), part_format(entity, &index.row, at, part));
    let (ty, ends) = (field.part_type(), at + 1 == index.row.segments.len());
    let method = format_ident!("{text}_in");
    let turned = (!part.transforms.is_empty())
        .then(|| quote!(let __bounds = #krate::__private::descending(__bounds);));
    let doc = format!("Only entries whose `{text}` is in the range.");
    quote! {
        #[doc = #doc]
        #vis fn #method(self, range: impl #krate::typed::PartRange<#ty>) -> #name<#done> {
            let __bounds = #krate::typed::PartRange::<#ty>::into_bounds(range);
            #turned
            #name(self.0.range(#text, __bounds, #format, #ends))
        }
    }
}

fn starting(entity: &Entity<'_>, index: &Index, at: usize, part: &Part, field: &Field) -> TokenStream {
    let (krate, vis, name) = (&entity.krate, &entity.input.vis, name(entity, index));
    let (text, done, format) = (plain(&field.ident), done(index), part_format(entity, &index.row, at, part));
    let ty = field.part_type();
    let prefix = match part.transforms.is_empty() {
        true => quote!(prefix.as_prefix()),
        false => quote!(&#krate::manifest::lowercase(prefix.as_prefix())),
    };
    let method = format_ident!("{text}_starting");
    let doc = format!("Only entries whose `{text}` starts with this text.");
    quote! {
        #[doc = #doc]
        #vis fn #method<P: #krate::__private::PrefixOf<#ty>>(self, prefix: P) -> #name<#done> {
            #name(self.0.starting(#prefix, #format))
        }
    }
}

/// Generates the entries of a step. The complete key of a unique index has at most one entry.
fn entries_of(entity: &Entity<'_>, index: &Index, step: usize) -> TokenStream {
    let krate = &entity.krate;
    let (of, name) = (&entity.input.ident, name(entity, index));
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    // Only here can a lookup promise one entry: with fewer parts, or a range, a unique index has many.
    let is_one = index.unique.is_some() && step == whole(index);
    let kind = if is_one { quote!(OneEntry) } else { quote!(ManyEntries) };
    quote! {
        #[automatically_derived]
        impl #impl_generics #krate::typed::EntriesOf<#of #ty_generics> for #name<#step> #where_clause {
            type Kind = #krate::typed::#kind;

            fn into_entries(self) -> #krate::Result<#krate::typed::IndexEntries<#of #ty_generics>> {
                self.0.finish()
            }
        }
    }
}
