//! Generates the code for indexes: schemas, keys of entries, lookups.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned as _;

use super::lookup;
use super::model::Index;
use super::schema;
use crate::attr::{ShapeAttr, SummaryAttr};
use crate::entity::{Entity, check_template, key_writer};
use crate::fields::{Field, codec_for, is_option};
use crate::template::plain;

/// Generates the function `index_keys` of `TableEntity`; nothing for a type without indexes.
pub(crate) fn keys_function(entity: &Entity<'_>) -> TokenStream {
    if entity.indexes.is_empty() {
        return TokenStream::new();
    }
    let krate = &entity.krate;
    let numbered = entity.indexes.iter().enumerate();
    let arms = numbered.map(|(n, index)| match_arm(entity, n, index));
    quote! {
        fn index_keys(&self, __index: usize)
            -> #krate::Result<::std::vec::Vec<#krate::model::Key>>
        {
            let mut __keys = ::std::vec::Vec::new();
            match __index {
                #(#arms)*
                _ => {}
            }
            ::core::result::Result::Ok(__keys)
        }
    }
}

/// Generates the functions that write keys, and the lookups.
pub(crate) fn expand(entity: &Entity<'_>) -> TokenStream {
    if !entity.has_definitions() {
        return TokenStream::new();
    }
    let numbered = || entity.indexes.iter().enumerate();
    let writers = numbered().map(|(n, index)| writers(entity, n, index));
    let definitions = schema::definitions(entity);
    let lookups = numbered().map(|(n, index)| lookup::expand(entity, n, index));
    quote! {
        #definitions

        #(#writers)*

        #(#lookups)*
    }
}

/// Generates the compile-time checks of the templates.
pub(crate) fn checks(entity: &Entity<'_>) -> Vec<TokenStream> {
    let of = |index: &Index| {
        let name = plain(&index.name);
        let which = |key: &str| format!("{key} of the index `{name}`");
        let partition = index
            .partition
            .iter()
            .flat_map(|t| check_template(entity, t, &which("partition key")));
        let row = check_template(entity, &index.row, &which("row key"));
        partition
            .chain(row)
            .chain(summary_checks(entity, index))
            .collect::<Vec<_>>()
    };
    entity.indexes.iter().flat_map(of).collect()
}

/// Sums are exact, so only integers are added up. Only the compiler knows the stored types.
fn summary_checks(entity: &Entity<'_>, index: &Index) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let ShapeAttr::Summary(SummaryAttr {
        sums,
        minima,
        maxima,
    }) = &index.shape
    else {
        return Vec::new();
    };
    let name = plain(&index.name);
    let check = |ident: &Ident, rule: &str, problem: &str| {
        let field = entity.field(ident)?;
        let codec = codec_for(krate, &field.property()?.codec, &field.ty);
        let rule = format_ident!("{rule}");
        let problem = format!(
            "the index `{name}`: {}.{ident} {problem}",
            entity.rust_name()
        );
        Some(quote_spanned! {field.ty.span()=>
            const _: () = ::core::assert!(#krate::__private::#rule(#codec::TYPE), "{}", #problem);
        })
    };
    let sum = "is not stored as an integer, so its sum would not be exact: store an integer, such as an amount in the smallest unit";
    let order = "is not stored as a number or a time, so it has no minimum and maximum";
    let summed = sums
        .iter()
        .filter_map(|ident| check(ident, "can_be_summed", sum));
    let ordered = minima
        .iter()
        .chain(maxima)
        .filter_map(|ident| check(ident, "has_extremes", order));
    summed.chain(ordered).collect()
}

/// Generates the functions that write the two keys of an entry.
fn writers(entity: &Entity<'_>, n: usize, index: &Index) -> TokenStream {
    let partition = index
        .partition
        .as_ref()
        .map(|t| key_writer(entity, t, "PartitionKey", &partition_writer(n, index)));
    let row = key_writer(entity, &index.row, "RowKey", &row_writer(n));
    quote!(#partition #row)
}

/// Returns the function that writes the PartitionKey. Without a template it is the entity's own.
pub(super) fn partition_writer(n: usize, index: &Index) -> Ident {
    match index.partition {
        Some(_) => format_ident!("__index_{n}_partition"),
        None => format_ident!("__partition_key"),
    }
}

fn row_writer(n: usize) -> Ident {
    format_ident!("__index_{n}_row")
}

/// Generates the arm of `index_keys` that computes the keys of the entries in one index.
fn match_arm(entity: &Entity<'_>, n: usize, index: &Index) -> TokenStream {
    let krate = &entity.krate;
    let own_partition = index.partition.as_ref().unwrap_or(&entity.partition);
    let partition = entity.key_fields_of(own_partition);
    let row = entity.key_fields_of(&index.row);
    // A field may be in both keys. Its variable is declared once.
    let mut all: Vec<&Field> = Vec::new();
    for field in partition.iter().chain(&row) {
        if !all.iter().any(|f| f.ident == field.ident) {
            all.push(field);
        }
    }
    let values = all.into_iter().map(|field| {
        let (ident, local) = (&field.ident, field.local());
        if is_option(&field.ty) {
            // An absent value has no place in a key: the entity has no entry in this index.
            quote! {
                let ::core::option::Option::Some(#local) = ::core::option::Option::as_ref(&self.#ident) else {
                    return ::core::result::Result::Ok(__keys);
                };
            }
        } else {
            quote!(let #local = &self.#ident;)
        }
    });
    let (partition_writer, row_writer) = (partition_writer(n, index), row_writer(n));
    let (partition, row) = (
        partition.iter().map(|f| f.local()),
        row.iter().map(|f| f.local()),
    );
    let n = Literal::usize_unsuffixed(n);
    let push = quote! {
        let __partition = #partition_writer(#(#partition),*)?;
        let __row = #row_writer(#(#row),*)?;
        #krate::__private::push_entry_key::<Self>(&mut __keys, __index, __partition, __row)?;
    };
    let list = index.parts().find(|part| part.each);
    let list = list
        .and_then(|part| entity.field(&part.field))
        .map(Field::local);
    let push = match list {
        // The loop variable takes the name of the list, so that the code for one key is the same with and without a
        // list.
        Some(list) => quote!(for #list in #list { #push }),
        None => push,
    };
    quote! {
        #n => {
            #(#values)*
            #push
        }
    }
}
