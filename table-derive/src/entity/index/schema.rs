//! Generates the definitions of indexes as constants.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Ident;
use syn::spanned::Spanned as _;

use super::model::{Index, Placement};
use crate::attr::{ListAttr, PayloadAttr, ScopeAttr, ShapeAttr, SummaryAttr};
use crate::entity::{Entity, option};
use crate::fields::{Field, Form};
use crate::template::{Part, Segment, Template, Transform, plain};

/// Generates `__INDEXES`: a definition per index, then that of the feed, which has no keys of entries.
pub(super) fn definitions(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let of = entity_type(entity);
    let all = entity.indexes.iter().map(|index| definition(entity, index));
    let feed = entity.feed.then(|| feed(entity));
    quote! {
        const __ENTITY_TYPE: #krate::manifest::EntityType = #of;
        const __INDEXES: &[#krate::manifest::IndexDefinition] = &[#(#all,)* #feed];
    }
}

fn entity_type(entity: &Entity<'_>) -> TokenStream {
    let krate = &entity.krate;
    let discriminator = entity.discriminator.expand(krate);
    let (name, partition, row) = (
        &entity.type_name,
        template(entity, &entity.partition),
        template(entity, &entity.row),
    );
    quote! {
        #krate::manifest::EntityType {
            name: #krate::__private::text(#name),
            discriminator: #discriminator,
            partition_key: ::core::option::Option::Some(#partition),
            row_key: ::core::option::Option::Some(#row),
        }
    }
}

fn feed(entity: &Entity<'_>) -> TokenStream {
    let (krate, name) = (&entity.krate, &entity.type_name);
    let discriminator = entity.discriminator.expand(krate);
    quote! {
        #krate::manifest::IndexDefinition::feed(#krate::__private::text(#name), #discriminator)
    }
}

fn definition(entity: &Entity<'_>, index: &Index) -> TokenStream {
    let krate = &entity.krate;
    let (manifest, text) = (quote!(#krate::manifest), quote!(#krate::__private::text));
    let name = plain(&index.name);
    let placement = match (index.placement(), &index.table) {
        (Placement::OtherTable, Some(table)) => {
            quote!(OtherTable(#krate::model::TableName::from_static(#table)))
        }
        (Placement::OtherPartition, _) => quote!(OtherPartition),
        _ => quote!(SamePartition),
    };
    let (payload, shape) = (payload(entity, &index.payload), shape(entity, &index.shape));
    let uniqueness = match index.unique {
        None => quote!(No),
        Some(ScopeAttr::Partition) => quote!(WithinPartition),
        Some(ScopeAttr::Table) => quote!(WithinTable),
    };
    let partition = option(
        index
            .partition
            .as_ref()
            .map(|partition| template(entity, partition)),
    );
    let row = template(entity, &index.row);
    let condition = option(
        index
            .condition
            .as_ref()
            .map(|condition| quote!(#text(#condition))),
    );
    quote! {
        #manifest::IndexDefinition {
            name: #text(#name),
            entity: __ENTITY_TYPE,
            placement: #manifest::Placement::#placement,
            keys: #manifest::IndexKeys::Templates { partition_key: #partition, row_key: #row },
            condition: #condition,
            payload: #manifest::Payload::#payload,
            shape: #manifest::Shape::#shape,
            uniqueness: #manifest::Uniqueness::#uniqueness,
        }
    }
}

/// Returns the properties that an entry contains.
fn payload(entity: &Entity<'_>, payload: &PayloadAttr) -> TokenStream {
    let krate = &entity.krate;
    let (manifest, text) = (quote!(#krate::manifest), quote!(#krate::__private::text));
    match payload {
        PayloadAttr::Full => quote!(Full),
        PayloadAttr::Reference => quote!(Reference),
        PayloadAttr::Fields(names) => {
            let names = names
                .iter()
                .filter_map(|ident| entity.field(ident)?.property());
            let names = names.map(|property| {
                let name = &property.name;
                quote!(#text(#name))
            });
            // Without the properties of the schema version, which every entry holds: the definition is the same in each version of the type.
            quote! {
                Fields({
                    const __NAMES: &[#manifest::Text] = &[#(#names),*];
                    ::std::borrow::Cow::Borrowed(__NAMES)
                })
            }
        }
    }
}

/// Returns how the entries are stored.
fn shape(entity: &Entity<'_>, shape: &ShapeAttr) -> TokenStream {
    let krate = &entity.krate;
    let manifest = quote!(#krate::manifest);
    match shape {
        ShapeAttr::Row => quote!(Row),
        ShapeAttr::List(ListAttr {
            bytes,
            overflows_into_blobs,
        }) => {
            let bytes = match bytes {
                Some(bytes) => quote!(#bytes),
                None => quote!(#manifest::Shape::LIST_BYTES),
            };
            let overflow = if *overflows_into_blobs {
                quote!(Blob)
            } else {
                quote!(Entities)
            };
            quote!(List { bytes: #bytes, overflow: #manifest::Overflow::#overflow })
        }
        ShapeAttr::Blob => quote!(Blob),
        ShapeAttr::Summary(SummaryAttr {
            sums,
            minima,
            maxima,
        }) => {
            let [sums, minima, maxima] =
                [sums, minima, maxima].map(|fields| names_of(entity, fields));
            quote!(Summary { sums: #sums, minima: #minima, maxima: #maxima })
        }
    }
}

/// Returns the stored names of fields as a constant.
fn names_of(entity: &Entity<'_>, fields: &[Ident]) -> TokenStream {
    let krate = &entity.krate;
    let text = quote!(#krate::__private::text);
    let names = fields
        .iter()
        .filter_map(|ident| entity.field(ident)?.property())
        .map(|property| &property.name);
    quote! {{
        const __NAMES: &[#krate::manifest::Text] = &[#(#text(#names)),*];
        ::std::borrow::Cow::Borrowed(__NAMES)
    }}
}

fn template(entity: &Entity<'_>, template: &Template) -> TokenStream {
    let krate = &entity.krate;
    let segments = template
        .segments
        .iter()
        .filter_map(|segment| match segment {
            Segment::Literal(text) => Some(quote!(#krate::__private::literal(#text))),
            Segment::Part(part) => self::part(entity, part),
        });
    quote! {{
        // A named constant: the borrow of an array whose elements come from function calls would end with its
        // statement.
        const __SEGMENTS: &[#krate::manifest::KeySegment] = &[#(#segments),*];
        #krate::manifest::KeyTemplate::from_static(__SEGMENTS)
    }}
}

fn part(entity: &Entity<'_>, part: &Part) -> Option<TokenStream> {
    let krate = &entity.krate;
    let (manifest, text) = (quote!(#krate::manifest), quote!(#krate::__private::text));
    let field = entity.field(&part.field)?;
    let source = match field.property() {
        Some(property) => {
            let name = &property.name;
            quote!(Property(#text(#name)))
        }
        None => {
            let name = plain(&field.ident);
            quote!(KeyField(#text(#name)))
        }
    };
    let ty = field.part_type();
    let of = quote_spanned!(ty.span()=> <#ty as #krate::model::KeyPart>);
    let shard = part
        .shards
        .map(|count| quote!(#manifest::Transform::Shard(#count)));
    let transforms = part.transforms.iter().map(|transform| {
        let transform = match transform {
            Transform::Lower => quote!(Lower),
            Transform::Prefix(count) => quote!(Prefix(#count)),
            Transform::Date => quote!(Date),
            Transform::Hour => quote!(Hour),
            Transform::Descending => quote!(Descending),
        };
        quote!(#manifest::Transform::#transform)
    });
    let transforms: Vec<_> = transforms.chain(shard).collect();
    let transforms = match transforms.is_empty() {
        // A field of type `Reverse<T>` is a descending part without a transform. The macro cannot recognize it behind
        // an alias, the type can.
        true => quote!(#krate::__private::reversed(#of::REVERSED)),
        false => quote!(&[#(#transforms),*]),
    };
    let each = part.each;
    let width = option(part.width);
    let encoding = encoding(entity, field, &of, &width);
    Some(quote! {
        #krate::__private::part(#manifest::PartSource::#source, #each, #encoding, #transforms, #width)
    })
}

/// Returns the encoding of a field in keys. It is opaque if only the type or the program knows the stored
/// form.
fn encoding(
    entity: &Entity<'_>,
    field: &Field,
    of: &TokenStream,
    width: &TokenStream,
) -> TokenStream {
    let krate = &entity.krate;
    let opaque = |name: &str| {
        quote! {
            #krate::__private::key_encoding(#krate::model::KeyPartType::Custom, #name, #of::WIDTH, #width)
        }
    };
    match field.property() {
        None => {
            quote!(#krate::__private::key_encoding(#of::PART_TYPE, #of::ENCODING, #of::WIDTH, #width))
        }
        Some(_) if field.element_type().is_some() => {
            let ty = field.part_type();
            let element =
                quote_spanned!(ty.span()=> <#ty as #krate::__private::ListElement>::ELEMENT);
            quote!(#krate::__private::encoding(#of::PART_TYPE, #element, #of::ENCODING, #of::WIDTH, #width))
        }
        // The value for an absent property comes from a function.
        Some(property) if property.default.is_some() => opaque("default"),
        Some(property) if property.form != Form::Plain => opaque("codec"),
        Some(_) => {
            let ty = &field.ty;
            let stored = quote_spanned!(ty.span()=> <#ty as #krate::typed::Property>::KEY_TYPE);
            quote!(#krate::__private::encoding(#of::PART_TYPE, #stored, #of::ENCODING, #of::WIDTH, #width))
        }
    }
}
