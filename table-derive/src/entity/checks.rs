//! Checks that only the compiler can do, because the macro sees tokens: widths of key parts, names of
//! flattened properties, the previous version.

use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use super::codec::group;
use super::discriminator::type_properties;
use super::generics::mentions;
use super::keys::written_type;
use super::model::{ENTRIES, Entity, SYSTEM};
use super::templates::separator;
use crate::fields::{Field, Property, Role, codec_for};
use crate::template::{Part, Segment, Template, plain};

pub(super) fn expand(entity: &Entity<'_>) -> TokenStream {
    let partition = template(entity, &entity.partition, "partition key");
    let row = template(entity, &entity.row, "row key");
    let indexes = super::index::checks(entity);
    let names = names(entity);
    let previous = previous(entity);
    let stored_types = stored_types(entity);
    quote!(#(#partition)* #(#row)* #(#indexes)* #names #previous #(#stored_types)*)
}

/// Returns the checks of the stored types of properties. Only the compiler knows these types.
fn stored_types(entity: &Entity<'_>) -> Vec<TokenStream> {
    let mut checks = Vec::new();
    for field in &entity.fields {
        // A constant outside of the implementation cannot name its type parameters; such a field is not checked here.
        let Some(property) = field
            .property()
            .filter(|_| !mentions(&field.ty, &entity.input.generics))
        else {
            continue;
        };
        let mut check = |rule: &str, more: TokenStream, problem: &str| {
            checks.push(stored_type(entity, field, property, rule, &more, problem));
        };
        if let Some(over) = property.large {
            let problem = "a large field is text or bytes (`String`, `Vec<u8>`, or an `Option` of one), and keeps at most 32768 or \
                           65536 bytes in the row";
            check("can_be_large", quote!(, #over), problem);
        }
        if property.split {
            let problem = "a split field is text, bytes, or stored as JSON or text, which can be cut into parts";
            check("can_be_split", TokenStream::new(), problem);
        }
    }
    checks
}

/// Returns the check that the stored type of a property fits a rule: a function of `table_core` that takes the type and the arguments
/// `more`.
fn stored_type(
    entity: &Entity<'_>,
    field: &Field,
    property: &Property,
    rule: &str,
    more: &TokenStream,
    problem: &str,
) -> TokenStream {
    let (krate, ty) = (&entity.krate, &field.ty);
    let (rule, codec) = (
        format_ident!("{rule}"),
        codec_for(krate, &property.codec, ty),
    );
    let problem = format!("{}.{}: {problem}", entity.rust_name(), field.ident);
    quote_spanned!(ty.span()=> const _: () = ::core::assert!(
        #krate::__private::#rule(#codec::TYPE #more), "{}", #problem);)
}

/// Returns the checks of the parts of a key template: their widths, and that a reader can find their ends. `which` is the name
/// of the key for messages.
pub(crate) fn template(entity: &Entity<'_>, template: &Template, which: &str) -> Vec<TokenStream> {
    let check = |(i, segment): (usize, &Segment)| {
        let Segment::Part(part) = segment else {
            return None;
        };
        // A shard is a number whose width follows from the number of shards.
        if part.shards.is_some() {
            return None;
        }
        let ty = entity.field(&part.field)?.part_type();
        let message = |problem: String| format!("{which} \"{}\": {problem}", template.display());
        let padded = padded(entity, part, ty, &message);
        let ended = ended(entity, template, i, part, ty, &message);
        Some(quote!(#padded #ended))
    };
    template
        .segments
        .iter()
        .enumerate()
        .filter_map(check)
        .collect()
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
    let problem = message(format!(
        "only unsigned integers take a width; write `{{{name}}}` without `:0{width}`"
    ));
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
    let problem = match (
        template.segments.get(index + 1)?,
        separator(template, index),
    ) {
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
            format!(
                "`{name}` is text and cannot be separated by {c:?}; use an ASCII character such as `_`"
            )
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

/// Returns the checks of names that belong to several fields. Only the compiler knows the names of flattened properties.
fn names(entity: &Entity<'_>) -> Option<TokenStream> {
    let krate = &entity.krate;
    let (flattened, parts) = (flattened(entity), parts(entity));
    if flattened.is_none() && parts.is_empty() {
        return None;
    }
    let groups = entity.fields.iter().filter_map(|field| group(krate, field));
    let lengths = entity
        .fields
        .iter()
        .filter(|f| matches!(f.role, Role::Flatten(_)))
        .map(|f| &f.ty);
    Some(quote! {
        const __FLATTENED: &[#krate::typed::PropertySchema] = &#krate::__private::joined::<{
            0 #(+ <#lengths as #krate::typed::PropertyGroup>::PROPERTIES.len())*
        }>(&[#(#groups),*]);
        #flattened
        #(#parts)*
    })
}

/// No other property has the name of a part of a split value.
fn parts(entity: &Entity<'_>) -> Vec<TokenStream> {
    let krate = &entity.krate;
    let split = entity
        .fields
        .iter()
        .filter_map(|f| Some((f, f.property().filter(|p| p.split)?)));
    let wholes = split.flat_map(|(field, p)| {
        [&p.name]
            .into_iter()
            .chain(&p.aliases)
            .map(move |whole| (field, whole))
    });
    let check = |(field, whole): (&Field, &String)| {
        let taken = format!(
            "{}.{}: another field, an alias or the discriminator has the name of a part of `{whole}`, such as `{whole}_Parts` or \
             `{whole}_Part1`; rename it",
            entity.rust_name(),
            field.ident
        );
        quote_spanned!(field.ident.span()=>
            const _: () = ::core::assert!(
                #krate::__private::are_parts_free(#whole, __NAMES, __FLATTENED), "{}", #taken);)
    };
    wholes.map(check).collect()
}

/// The names of flattened properties are distinct and free, and the row has room for them.
fn flattened(entity: &Entity<'_>) -> Option<TokenStream> {
    let krate = &entity.krate;
    let first = entity
        .fields
        .iter()
        .find(|f| matches!(f.role, Role::Flatten(_)))?;
    let name = entity.rust_name();
    let twice = format!(
        "{name}: two fields are stored as the same property, one of them flattened; rename one"
    );
    let many = format!(
        "{name}: an entity has at most 252 properties, flattened ones included: store a group together with \
         `#[entity(json)]`, or make it a wide entity, `#[entity(wide)]`"
    );
    let own_properties = type_properties(&entity.discriminator, entity.version, entity.min_reader)
        + super::codec::names(&entity.fields).len();
    let max_properties = if entity.wide { usize::MAX } else { 252 };
    // The names of type and version are in `__NAMES`. The macro sees other reserved names in fields, and not in groups.
    let entries = ENTRIES.iter().filter(|_| entity.has_definitions());
    let reserved = SYSTEM.iter().chain(entries).map(|(name, _)| *name);
    let taken = format!(
        "{name}: a flattened field is stored under a reserved name (the key, the timestamp, or a property of index entries); rename it, \
         or change the prefix"
    );
    Some(quote_spanned! {first.ty.span()=>
        const _: () = {
            ::core::assert!(#krate::__private::avoids(&[#(#reserved),*], __FLATTENED), "{}", #taken);
            ::core::assert!(#krate::__private::are_distinct(__NAMES, __FLATTENED), "{}", #twice);
            // The sum is a constant, because clippy would warn in the caller's code where it is `1 + … <= …`.
            const PROPERTIES: usize = #own_properties + __FLATTENED.len();
            ::core::assert!(PROPERTIES <= #max_properties, "{}", #many);
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
    let older = format!(
        "{name}: the previous version must have a lower `version` than {}",
        entity.version
    );
    let same =
        format!("{name}: the previous version must have the same `type` and `discriminator`");
    Some(quote_spanned! {previous.span()=>
        const _: () = {
            const __OLD: &#krate::typed::Schema = <#previous as #krate::typed::TableEntity>::SCHEMA;
            const __NEW: &#krate::typed::Schema = <#name as #krate::typed::TableEntity>::SCHEMA;
            ::core::assert!(__OLD.version < __NEW.version, "{}", #older);
            ::core::assert!(#krate::__private::same_type(__OLD, __NEW), "{}", #same);
        };
    })
}
