//! Checks that only the compiler can do, because the macro sees tokens: widths of key parts, names of
//! flattened properties, the previous version.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use super::codec::{aliases, group};
use super::generics::mentions;
use super::keys::written_type;
use super::model::{ENTRIES, Entity, SYSTEM};
use super::templates::separator;
use crate::fields::{Field, Role, codec_for};
use crate::template::{Part, Segment, Template, plain};

pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let partition = template(entity, &entity.partition, "partition key");
    let row = template(entity, &entity.row, "row key");
    let indexes = super::index::checks(entity);
    let flattened = flattened(entity);
    let previous = previous(entity);
    let (large, split, times) = (large(entity), split(entity), times(entity));
    quote!(#(#partition)* #(#row)* #(#indexes)* #flattened #previous #(#large)* #(#split)* #(#times)*)
}

/// Only text and bytes can move to a blob, and values up to `over` must fit a property.
fn large(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let check = |field: &Field| {
        let property = field.property()?;
        let (over, ty, codec) = (property.large?, &field.ty, &property.codec);
        let problem = format!(
            "{}.{}: a large field is text or bytes (`String`, `Vec<u8>`, or an `Option` of one), and keeps at most \
             32768 or 65536 bytes in the row",
            entity.rust_name(),
            field.ident
        );
        let codec = codec_for(krate, codec, ty);
        Some(quote_spanned!(ty.span()=> const _: () = ::core::assert!(
            #krate::__private::can_be_large(#codec::TYPE, #over), "{}", #problem);))
    };
    // A constant outside of the implementation cannot name its type parameters; such a field is not checked here.
    entity.fields.iter().filter(|f| !mentions(&f.ty, &entity.input.generics)).filter_map(check).collect()
}

/// Only text and bytes have parts, and no flattened property may have the name of a part.
fn split(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let groups: Vec<_> = entity.fields.iter().filter_map(|field| group(krate, field)).collect();
    let check = |field: &Field| {
        let property = field.property().filter(|property| property.split)?;
        let (ty, codec, name) = (&field.ty, &property.codec, &property.name);
        let at = format!("{}.{}", entity.rust_name(), field.ident);
        let problem = format!(
            "{at}: a split field is text, bytes, or stored as JSON or text, which can be cut into parts"
        );
        let taken = format!("{at}: a flattened field has the name of a part of `{name}`; rename one");
        let codec = codec_for(krate, codec, ty);
        Some(quote_spanned! {ty.span()=>
            const _: () = ::core::assert!(#krate::__private::can_be_split(#codec::TYPE), "{}", #problem);
            const _: () = ::core::assert!(
                #krate::__private::are_parts_free(#name, &[#(#groups),*]), "{}", #taken);
        })
    };
    entity.fields.iter().filter(|f| !mentions(&f.ty, &entity.input.generics)).filter_map(check).collect()
}

/// The fields of an expiry are stored as times.
fn times(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let check = |field: &Field| {
        let property = field.property().filter(|p| p.expires || p.deleted_at.is_some())?;
        let (ty, codec) = (&field.ty, &property.codec);
        let attribute = if property.expires { "expires" } else { "deleted_at" };
        let problem = format!(
            "{}.{}: `#[{attribute}]` is for a time: `DateTime<Utc>`, `Ticks`, or an `Option` of one",
            entity.rust_name(),
            field.ident
        );
        let codec = codec_for(krate, codec, ty);
        Some(quote_spanned!(ty.span()=> const _: () = ::core::assert!(
            #krate::__private::is_time(#codec::TYPE), "{}", #problem);))
    };
    entity.fields.iter().filter(|f| !mentions(&f.ty, &entity.input.generics)).filter_map(check).collect()
}

/// Returns the checks of the parts of a key template: their widths, and that a reader can find their ends. `which` is the name
/// of the key for messages.
pub(crate) fn template(entity: &Entity<'_>, template: &Template, which: &str) -> Vec<TokenStream> {
    let check = |(i, segment): (usize, &Segment)| {
        let Segment::Part(part) = segment else { return None };
        // A shard is a number whose width follows from the number of shards.
        if part.shards.is_some() {
            return None;
        }
        let ty = entity.fields.iter().find(|f| f.ident == part.field)?.part_type();
        let message = |problem: String| format!("{which} \"{}\": {problem}", template.display());
        let padded = padded(entity, part, ty, &message);
        let ended = ended(entity, template, i, part, ty, &message);
        Some(quote!(#padded #ended))
    };
    template.segments.iter().enumerate().filter_map(check).collect()
}

/// Only unsigned integers take a width.
fn padded(
    entity: &Entity<'_>,
    part: &Part,
    ty: &Type,
    message: &impl Fn(String) -> String,
) -> Option<TokenStream> {
    let krate = &entity.krate;
    let width = part.width?;
    let name = plain(&part.field);
    let problem =
        message(format!("only unsigned integers take a width; write `{{{name}}}` without `:0{width}`"));
    let written = written_type(krate, part, ty);
    Some(quote_spanned!(ty.span()=>
        const _: () = ::core::assert!(<#written as #krate::model::KeyPart>::PADS, "{}", #problem);))
}

/// A part without a fixed width must be followed by a separator that a reader can find.
fn ended(
    entity: &Entity<'_>,
    template: &Template,
    index: usize,
    part: &Part,
    ty: &Type,
    message: &impl Fn(String) -> String,
) -> Option<TokenStream> {
    let krate = &entity.krate;
    if part.width.is_some() {
        return None;
    }
    let name = plain(&part.field);
    let problem = match (template.segments.get(index + 1)?, separator(template, index)) {
        (Segment::Part(next), _) => {
            let next = plain(&next.field);
            format!(
                "`{name}` has no fixed width, so the start of `{next}` cannot be found; put a separator such as `_` between them"
            )
        }
        // Text escapes a character as `~` and two of these digits. A reader ends the part at the first separator,
        // which could be in the middle of an escape.
        (_, Some(c @ ('0'..='9' | 'A'..='F' | '~'))) => {
            format!(
                "`{name}` is text, in which {c:?} can be part of an escape; separate it by another character such as `_`"
            )
        }
        // An escape has two digits, and other characters need more.
        (_, Some(c)) if !c.is_ascii() => {
            format!("`{name}` is text and cannot be separated by {c:?}; use an ASCII character such as `_`")
        }
        _ => return None,
    };
    let problem = message(problem);
    // Whether the part has a fixed width is a question of its type, so the compiler answers it: the assertion fails
    // the build only if it has none.
    let written = written_type(krate, part, ty);
    Some(quote_spanned!(ty.span()=>
        const _: () = ::core::assert!(
            ::core::option::Option::is_some(&<#written as #krate::model::KeyPart>::WIDTH),
            "{}",
            #problem);))
}

/// Only the compiler knows the names of flattened properties.
fn flattened(entity: &Entity<'_>) -> Option<TokenStream> {
    let krate = &entity.krate;
    let groups: Vec<_> =
        entity.fields.iter().filter(|f| matches!(f.role, Role::Flatten(_))).map(|f| &f.ty).collect();
    let first = groups.first()?;
    let name = entity.rust_name();
    // The first schema version is not stored, nor an earliest reader that is the version itself.
    let unwritten = usize::from(entity.version == 1) + usize::from(entity.min_reader == entity.version);
    let twice =
        format!("{name}: two fields are stored as the same property, one of them flattened; rename one");
    let many = format!(
        "{name}: an entity has at most 252 properties, flattened ones included: store a group together with \
         `#[entity(json)]`, or make it a wide entity, `#[entity(wide)]`"
    );
    // `__NAMES` has all names that a row may have. The limit is for the names that this version writes.
    let unread = unwritten + aliases(&entity.fields).len();
    let pieces = entity.fields.iter().filter_map(|field| group(krate, field));
    let most = if entity.wide { usize::MAX } else { 252 };
    // The names of type and version are in `__NAMES`. The macro sees other reserved names in fields, and not in groups.
    let entries = ENTRIES.iter().filter(|_| !entity.indexes.is_empty());
    let reserved = SYSTEM.iter().chain(entries).map(|(name, _)| *name);
    let taken = format!(
        "{name}: a flattened field is stored under a reserved name (the key, the timestamp, or a property of index entries); rename it, \
         or change the prefix"
    );
    Some(quote_spanned! {first.span()=>
        const _: () = {
            const __GROUPS: &[&[#krate::typed::PropertySchema]] =
                &[#(#pieces),*];
            ::core::assert!(#krate::__private::avoids(&[#(#reserved),*], __GROUPS), "{}", #taken);
            ::core::assert!(#krate::__private::distinct(__NAMES, __GROUPS), "{}", #twice);
            ::core::assert!(__NAMES.len() - #unread #(+ <#groups as #krate::typed::PropertyGroup>::PROPERTIES.len())* <= #most, "{}", #many);
        };
    })
}

/// The previous version must describe the same rows.
fn previous(entity: &Entity<'_>) -> Option<TokenStream> {
    let (krate, previous) = (&entity.krate, entity.previous.as_ref()?);
    // A constant outside of the implementation cannot name its type parameters.
    if entity.input.generics.type_params().next().is_some() {
        return None;
    }
    let name = &entity.input.ident;
    let older = format!("{name}: the previous version must have a lower `version` than {}", entity.version);
    let same = format!("{name}: the previous version must have the same `type` and `discriminator`");
    Some(quote_spanned! {previous.span()=>
        const _: () = {
            const __OLD: &#krate::typed::Schema = <#previous as #krate::typed::TableEntity>::SCHEMA;
            const __NEW: &#krate::typed::Schema = <#name as #krate::typed::TableEntity>::SCHEMA;
            ::core::assert!(__OLD.version < __NEW.version, "{}", #older);
            ::core::assert!(#krate::__private::same_type(__OLD, __NEW), "{}", #same);
        };
    })
}
