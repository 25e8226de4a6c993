//! Generates keys: fields to text and back, and the functions that create typed keys.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens as _, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, Path, Type};

use super::model::Entity;
use super::option;
use super::templates::separator;
use crate::fields::{Field, at};
use crate::template::{Part, Segment, Template, Transform, plain};

pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let partition = writer(
        entity,
        &entity.partition,
        "PartitionKey",
        &format_ident!("__partition_key"),
    );
    let row = writer(entity, &entity.row, "RowKey", &format_ident!("__row_key"));
    let reader = reader(entity);
    let functions = functions(entity);
    quote!(#partition #row #reader #functions)
}

/// Generates for example `fn __row_key(id: &u32) -> Result<String>`.
pub(crate) fn writer(
    entity: &Entity<'_>,
    template: &Template,
    which: &str,
    function: &Ident,
) -> TokenStream {
    let krate = &entity.krate;
    let params = entity.key_fields_of(template).into_iter().map(|f| {
        let (local, ty) = (f.local(), f.part_type());
        quote!(#local: &#ty)
    });
    let display = template.display();
    // Before the steps. Without these statements, a wrong type would be reported a second time, at the derive.
    let needed = entity
        .key_fields_of(template)
        .into_iter()
        .map(|f| key_part(krate, f.part_type()));
    let steps = template
        .segments
        .iter()
        .enumerate()
        .map(|(i, segment)| match segment {
            Segment::Literal(text) => quote!(.literal(#text)),
            Segment::Part(
                part @ Part {
                    shards: Some(count),
                    ..
                },
            ) => {
                let value = transformed(krate, part, local(entity, part).to_token_stream());
                quote!(.shard(#count, #value)?)
            }
            Segment::Part(part) => {
                let (name, format) = (plain(&part.field), format(entity, template, i, part));
                let value = transformed(krate, part, local(entity, part).to_token_stream());
                quote!(.part(#name, #value, #format)?)
            }
        });
    quote! {
        #[allow(clippy::too_many_arguments)]
        fn #function(#(#params),*) -> #krate::Result<::std::string::String> {
            #(#needed)*
            ::core::result::Result::Ok(
                #krate::model::KeyBuilder::new(#which, #display) #(#steps)* .finish(),
            )
        }
    }
}

/// Requires that a type is a key part, with the same tokens wherever it is used, so that the compiler reports
/// a wrong type once, at the type.
pub(crate) fn key_part(krate: &Path, ty: &Type) -> TokenStream {
    let root = at(ty.span(), krate);
    quote_spanned! {ty.span()=>
        let _: ::core::option::Option<usize> = <#ty as #root::model::KeyPart>::WIDTH;
    }
}

/// Converts a reference to the value into a reference to the value that the part writes.
pub(crate) fn transformed(krate: &Path, part: &Part, value: TokenStream) -> TokenStream {
    part.transforms
        .iter()
        .fold(value, |value, transform| match transform {
            Transform::Lower => quote!(&#krate::__private::lower(#value)),
            Transform::Prefix(count) => quote!(&#krate::__private::prefix(#value, #count)),
            Transform::Date => quote!(&#krate::__private::date(#value)),
            Transform::Hour => quote!(&#krate::__private::hour(#value)),
            Transform::Descending => {
                // `Reverse` owns its value, and the function has a reference. The values that can be reversed are numbers
                // and times, which are cheap to clone.
                quote!(&#krate::model::Reverse(::core::clone::Clone::clone(#value)))
            }
        })
}

/// Returns the type of the value that a part writes.
pub(crate) fn written_type(krate: &Path, part: &Part, ty: &Type) -> TokenStream {
    part.transforms
        .iter()
        .fold(quote!(#ty), |ty, transform| match transform {
            Transform::Lower | Transform::Prefix(_) => quote!(::std::string::String),
            Transform::Date => quote!(#krate::__private::Day),
            Transform::Hour => quote!(#krate::model::Hour),
            Transform::Descending => quote!(#krate::model::Reverse<#ty>),
        })
}

/// Returns the variable of a part's field.
fn local(entity: &Entity<'_>, part: &Part) -> Option<Ident> {
    entity.field(&part.field).map(Field::local)
}

/// Returns `PartFormat { … }` of the part at an index.
pub(crate) fn format(
    entity: &Entity<'_>,
    template: &Template,
    index: usize,
    part: &Part,
) -> TokenStream {
    let krate = &entity.krate;
    let width = option(part.width);
    let separator = option(separator(template, index));
    quote!(#krate::model::PartFormat { width: #width, separator: #separator })
}

/// Generates the struct of the key's fields, and the code that parses it.
fn reader(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let name = &entity.input.ident;
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let fields = entity.key_fields();
    let declared = fields.iter().map(|f| {
        let (ident, ty) = (&f.ident, &f.ty);
        quote!(pub #ident: #ty)
    });
    let idents = fields.iter().map(|f| &f.ident);
    // Two names for each field: its own in the struct, and a variable that cannot meet a name of the program.
    let locals = fields.iter().map(|f| f.local());
    let mut seen = Vec::new();
    let partition = reads(
        entity,
        &entity.partition,
        &format_ident!("partition"),
        &mut seen,
    );
    let row = reads(entity, &entity.row, &format_ident!("row"), &mut seen);
    quote! {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        pub struct __KeyFields { #(#declared),* }

        #[automatically_derived]
        impl #impl_generics #krate::__private::KeyFields for #name #ty_generics #where_clause {
            type Fields = __KeyFields;

            fn parse_key(__key: &#krate::model::Key, __described: bool) -> #krate::Result<__KeyFields> {
                #partition
                #row
                ::core::result::Result::Ok(__KeyFields { #(#idents: #locals),* })
            }
        }
    }
}

/// Returns statements that parse one key into the fields' variables.
fn reads<'e>(
    entity: &'e Entity<'_>,
    template: &'e Template,
    which: &Ident,
    seen: &mut Vec<&'e Ident>,
) -> TokenStream {
    let krate = &entity.krate;
    let (rust_name, display) = (entity.rust_name(), template.display());
    let mut steps = Vec::new();
    for (i, segment) in template.segments.iter().enumerate() {
        steps.push(match segment {
            Segment::Literal(text) => quote!(__parser.literal(#text)?;),
            Segment::Part(part) => read(entity, template, i, part, seen),
        });
    }
    quote! {
        let mut __parser = #krate::model::KeyParser::#which(#rust_name, #display, __key).describing(__described);
        #(#steps)*
        __parser.finish()?;
    }
}

/// Returns the statement that parses one part. `seen` are the fields that were parsed before.
fn read<'e>(
    entity: &Entity<'_>,
    template: &Template,
    index: usize,
    part: &'e Part,
    seen: &mut Vec<&'e Ident>,
) -> TokenStream {
    let (name, format) = (plain(&part.field), format(entity, template, index, part));
    let Some(field) = entity.field(&part.field) else {
        return TokenStream::new();
    };
    let (local, ty) = (field.local(), &field.ty);
    // A field may be in both keys. A stored key then has its value twice, and a key in which the two values differ
    // was not written by this type.
    if seen.contains(&&part.field) {
        return quote!(__parser.repeated_part::<#ty>(#name, #format, &#local)?;);
    }
    seen.push(&part.field);
    let needed = key_part(&entity.krate, ty);
    quote!(#needed let #local = __parser.part::<#ty>(#name, #format)?;)
}

/// Generates `T::key(…)` and `T::partition(…)`.
fn functions(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let name = &entity.input.ident;
    let vis = &entity.input.vis;
    let (impl_generics, ty_generics, where_clause) = entity.generics.split_for_impl();
    let all = entity.key_fields();
    let partition = entity.key_fields_of(&entity.partition);
    let row = names(&entity.key_fields_of(&entity.row));
    let (all_params, all_values) = arguments(krate, &all);
    let (partition_params, partition_values) = arguments(krate, &partition);
    let partition = names(&partition);
    let key_doc = format!(
        "The key of a [`{name}`]: `{}` in `{}`.",
        entity.row.display(),
        entity.partition.display()
    );
    let partition_doc = format!(
        "The partition `{}` of [`{name}`]s.",
        entity.partition.display()
    );
    quote! {
        #[automatically_derived]
        #[allow(dead_code)]
        impl #impl_generics #name #ty_generics #where_clause {
            #[doc = #key_doc]
            ///
            /// # Errors
            /// Fails if a part does not fit its width, or if a key is too long.
            #vis fn key(#all_params) -> #krate::Result<#krate::typed::EntityKey<Self>> {
                #all_values
                let __partition = __partition_key(#(&#partition),*)?;
                let __row = __row_key(#(&#row),*)?;
                #krate::model::Key::new(__partition, __row).map(#krate::typed::EntityKey::new)
            }

            #[doc = #partition_doc]
            ///
            /// # Errors
            /// Fails if a part does not fit its width, or if the key is too long.
            #vis fn partition(#partition_params) -> #krate::Result<#krate::typed::PartitionOf<Self>> {
                #partition_values
                let __partition = __partition_key(#(&#partition),*)?;
                #krate::model::PartitionKey::new(__partition).map(#krate::typed::PartitionOf::new)
            }
        }
    }
}

fn names(fields: &[&Field]) -> Vec<Ident> {
    fields.iter().map(|f| f.local()).collect()
}

/// Returns parameters that accept the fields' values, and statements that convert them to the fields'
/// variables.
pub(crate) fn arguments(krate: &Path, fields: &[&Field]) -> (TokenStream, TokenStream) {
    let params = fields.iter().map(|f| {
        let (ident, ty) = (&f.ident, f.part_type());
        let operand = operand(krate, ty);
        quote!(#ident: impl #operand)
    });
    let values = fields.iter().map(|f| {
        let (ident, local, ty) = (&f.ident, f.local(), f.part_type());
        let operand = operand(krate, ty);
        quote!(let #local: #ty = #operand::into_operand(#ident);)
    });
    (quote!(#(#params),*), quote!(#(#values)*))
}

/// `Operand<T>`.
pub(crate) fn operand(krate: &Path, ty: &Type) -> TokenStream {
    let span: Span = ty.span();
    quote_spanned!(span=> #krate::typed::Operand::<#ty>)
}
