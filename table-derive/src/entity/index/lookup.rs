//! Generates `T::by_name(…)`: lookups in an index, with a step per part of the RowKey.
//!
//! The number of the step is a const parameter of the type, and each method exists for one number: parts are set in the order
//! of the key. A range or a prefix of text leads to the step `done`, which has no methods that set parts.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Ident, Path, Visibility};

use super::expand::partition_writer;
use super::model::Index;
use crate::case::Case;
use crate::entity::{Entity, arguments, key_part, operand, part_format, transformed};
use crate::fields::{Field, is_fixed, var};
use crate::template::{Part, Segment, Template, Transform, plain};

fn name(entity: &Entity<'_>, index: &Index) -> Ident {
    format_ident!(
        "{}By{}",
        entity.input.ident,
        Case::Pascal.apply(&plain(&index.name))
    )
}

/// Generates the structs.
pub(crate) fn definition(entity: &Entity<'_>) -> TokenStream {
    let one = |index: &Index| {
        let (krate, vis, of, name) = (
            &entity.krate,
            &entity.input.vis,
            &entity.input.ident,
            name(entity, index),
        );
        let doc = format!(
            "A lookup in the index `{}` of [`{of}`]. Its methods set the parts of `{}` in their order; it can be read with any number of parts set.",
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
    let steps = index.row.parts().enumerate();
    let steps = steps.filter_map(|(n, part)| Some(Step::new(entity, index, n, part)?.expand()));
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
    let shard = index.partition.as_ref().and_then(Template::shard);
    let first = shard.map(|part| sharded_part(entity, index, &part.field));
    // The shard is computed from the value, so the caller has given the value already: its step is done.
    let step = usize::from(shard.is_some());
    let is_whole = (whole(index) == step).then(|| quote!(.whole()));
    let function = format_ident!("by_{}", index_name);
    let doc = format!("Entries of the index `{index_name}`: parts of `{display}` can follow.");
    let shards = shard.map(|_| shards(entity, index, template));
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

/// Generates the first part of the RowKey, and the text after it, in an index with shards. The part is the field `sharded`, whose value also
/// chooses the shard, so the caller of the generated function has given the value.
fn sharded_part(entity: &Entity<'_>, index: &Index, sharded: &Ident) -> TokenStream {
    let at = place(&index.row, 0);
    let Some(Segment::Part(part)) = index.row.segments.get(at) else {
        return TokenStream::new();
    };
    let (text, format) = (plain(sharded), part_format(entity, &index.row, at, part));
    let literal = literal_after(&index.row, at);
    let local = local_of(entity, sharded);
    let value = transformed(&entity.krate, part, quote!(&#local));
    quote!(.part(#text, #value, #format) #literal)
}

/// Returns the variable of a field.
fn local_of(entity: &Entity<'_>, field: &Ident) -> Option<Ident> {
    entity.field(field).map(Field::local)
}

/// Returns the call that writes the literal text after a segment.
fn literal_after(template: &Template, at: usize) -> Option<TokenStream> {
    template.text_after(at).map(|text| quote!(.literal(#text)))
}

/// Generates `T::name_shards(…)`: the partitions of all shards.
fn shards(entity: &Entity<'_>, index: &Index, template: &Template) -> TokenStream {
    let (krate, vis) = (&entity.krate, &entity.input.vis);
    let Some(Part {
        field: sharded,
        shards: Some(count),
        ..
    }) = template.shard()
    else {
        return TokenStream::new();
    };
    let mut fields = entity.key_fields_of(template);
    // All shards are listed, so the value that would choose one is not asked for.
    fields.retain(|f| f.ident != *sharded);
    let (params, values) = arguments(krate, &fields);
    let (index_name, display) = (plain(&index.name), template.display());
    let steps = template
        .segments
        .iter()
        .enumerate()
        .map(|(at, segment)| match segment {
            Segment::Literal(text) => quote!(.literal(#text)),
            Segment::Part(Part {
                shards: Some(count),
                ..
            }) => quote!(.shard_at(#count, __shard)?),
            Segment::Part(part) => {
                let (local, name, format) = (
                    local_of(entity, &part.field),
                    plain(&part.field),
                    part_format(entity, template, at, part),
                );
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

/// Returns the position of a step's part in the template.
fn place(template: &Template, step: usize) -> usize {
    let parts = template
        .segments
        .iter()
        .enumerate()
        .filter(|(_, s)| matches!(s, Segment::Part(_)));
    parts.map(|(at, _)| at).nth(step).unwrap_or_default()
}

/// Returns the last transform that leaves out a part of the value.
fn coarsest(part: &Part) -> Option<&Transform> {
    let mut transforms = part.transforms.iter().rev();
    transforms.find(|t| !matches!(t, Transform::Lower))
}

/// Returns the name of the method that sets a part.
fn method(part: &Part) -> Ident {
    match coarsest(part) {
        Some(Transform::Prefix(_)) => format_ident!("{}_prefix", plain(&part.field)),
        _ => part.field.clone(),
    }
}

/// A step of a lookup: it sets one part of the RowKey.
struct Step<'a> {
    krate: &'a Path,
    vis: &'a Visibility,
    index: &'a Index,
    /// The name of the lookup's struct.
    name: Ident,
    /// The number of parts that are set before this step.
    number: usize,
    /// The position of the part in the template.
    at: usize,
    part: &'a Part,
    field: &'a Field,
    /// The name of the field.
    text: String,
    format: TokenStream,
}

impl<'a> Step<'a> {
    fn new(
        entity: &'a Entity<'_>,
        index: &'a Index,
        number: usize,
        part: &'a Part,
    ) -> Option<Self> {
        let (field, at) = (entity.field(&part.field)?, place(&index.row, number));
        Some(Self {
            krate: &entity.krate,
            vis: &entity.input.vis,
            index,
            name: name(entity, index),
            number,
            at,
            part,
            field,
            text: plain(&field.ident),
            format: part_format(entity, &index.row, at, part),
        })
    }

    /// Whether the RowKey ends with the part.
    fn is_last(&self) -> bool {
        self.at + 1 == self.index.row.segments.len()
    }

    /// Generates the methods that set the part.
    fn expand(&self) -> TokenStream {
        let Self {
            name,
            number,
            part,
            field,
            ..
        } = self;
        // A range of times is not a range of days, and a range of texts is not a range of their first characters.
        let (has_range, has_starts) = match part.transforms.as_slice() {
            [] => {
                let fixed = part.width.is_some() || is_fixed(field.part_type());
                (fixed || self.is_last(), !fixed)
            }
            [Transform::Descending] => (true, false),
            [Transform::Lower] => (false, true),
            _ => (false, false),
        };
        let value = self.value();
        let range = has_range.then(|| self.range());
        let starting = has_starts.then(|| self.starting());
        quote! {
            #[automatically_derived]
            #[allow(dead_code)]
            impl #name<#number> {
                #value
                #range
                #starting
            }
        }
    }

    /// Generates the method that sets a value.
    fn value(&self) -> TokenStream {
        let Self {
            krate,
            vis,
            index,
            name,
            number,
            at,
            part,
            field,
            text,
            format,
        } = self;
        let (ident, ty, next) = (&field.ident, field.part_type(), number + 1);
        let operand = operand(krate, ty);
        let literal = literal_after(&index.row, *at);
        let is_whole = (next == whole(index)).then(|| quote!(.whole()));
        let needed = key_part(krate, ty);
        let (entries, given) = (var("__entries", ty), var("__value", ty));
        let written = transformed(krate, part, quote!(#given));
        let key = quote_spanned!(ty.span()=> #entries.part(#text, #written, #format));
        let method = method(part);
        let doc = match (part.transforms.as_slice(), coarsest(part)) {
            ([] | [Transform::Descending], _) if part.each => {
                format!("Only entries with this element of `{text}`.")
            }
            ([] | [Transform::Descending], _) => format!("Only entries with this `{text}`."),
            (_, Some(Transform::Prefix(count))) => format!(
                "Only entries whose `{text}` has the same first {count} characters as this text."
            ),
            (_, Some(Transform::Date)) => {
                format!("Only entries whose `{text}` is on the UTC day of this time.")
            }
            (_, Some(Transform::Hour)) => {
                format!("Only entries whose `{text}` is in the UTC hour of this time.")
            }
            _ => format!("Only entries with this `{text}`, in upper or lower case."),
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

    /// Generates the method that restricts the part to a range.
    fn range(&self) -> TokenStream {
        let Self {
            krate,
            vis,
            index,
            name,
            part,
            field,
            text,
            format,
            ..
        } = self;
        let (ty, done, is_last) = (field.part_type(), done(index), self.is_last());
        let method = format_ident!("{text}_in");
        let reversed = (!part.transforms.is_empty())
            .then(|| quote!(let __bounds = #krate::__private::descending(__bounds);));
        let doc = format!("Only entries whose `{text}` is in the range.");
        quote! {
            #[doc = #doc]
            #vis fn #method(self, range: impl #krate::typed::PartRange<#ty>) -> #name<#done> {
                let __bounds = #krate::typed::PartRange::<#ty>::into_bounds(range);
                #reversed
                #name(self.0.range(#text, __bounds, #format, #is_last))
            }
        }
    }

    /// Generates the method that takes the start of a text.
    fn starting(&self) -> TokenStream {
        let Self {
            krate,
            vis,
            index,
            name,
            part,
            field,
            text,
            format,
            ..
        } = self;
        let (ty, done) = (field.part_type(), done(index));
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
}

/// Generates the kind of a lookup that lacks parts of the key of a unique index: the lookup itself. Where one entity is needed, the compiler
/// requires a trait that no type has, and whose message names the parts.
fn unfinished(entity: &Entity<'_>, index: &Index, step: usize) -> TokenStream {
    let (krate, name) = (&entity.krate, name(entity, index));
    let missing = format_ident!("{name}Lacks{step}");
    let parts = index.row.parts().skip(step);
    let calls: Vec<_> = parts
        .map(|part| format!("`.{}(…)`", plain(&method(part))))
        .collect();
    let message = format!(
        "the lookup `by_{}` does not give the whole key of its index: add {}",
        plain(&index.name),
        calls.join(" and ")
    );
    let note = "with fewer parts it can find several entities: read them with `all`, `first`, `page` or `stream`";
    quote! {
        #[diagnostic::on_unimplemented(message = #message, note = #note)]
        pub trait #missing {}

        #[automatically_derived]
        impl<__T: #missing> #krate::typed::FindsOne<__T> for #name<#step> {}
    }
}

/// Generates the entries of a step. The complete key of a unique index has at most one entry.
fn entries_of(entity: &Entity<'_>, index: &Index, step: usize) -> TokenStream {
    let krate = &entity.krate;
    let (of, name) = (&entity.input.ident, name(entity, index));
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    // Only here can a lookup promise one entry: with fewer parts, or a range, a unique index has many.
    let unfinished =
        (index.unique.is_some() && step < whole(index)).then(|| unfinished(entity, index, step));
    let kind = if unfinished.is_some() {
        quote!(Self)
    } else if index.unique.is_some() && step == whole(index) {
        quote!(#krate::typed::OneEntry)
    } else {
        quote!(#krate::typed::ManyEntries)
    };
    quote! {
        #unfinished

        #[automatically_derived]
        impl #impl_generics #krate::typed::EntriesOf<#of #ty_generics> for #name<#step> #where_clause {
            type Kind = #kind;

            fn into_entries(self) -> #krate::Result<#krate::typed::IndexEntries<#of #ty_generics>> {
                self.0.finish()
            }
        }
    }
}
