//! The fields of an entity, projection or group, with one meaning each.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, Ident, LitStr, Path, PathArguments, Type, Visibility};

use crate::attr::FieldAttrs;
use crate::case::Case;
use crate::errors::Errors;
use crate::rules;
use crate::template::plain;

pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) vis: Visibility,
    pub(crate) role: Role,
}

/// What a field is for.
pub(crate) enum Role {
    Key,
    Property(Property),
    Flatten,
    Rest,
    /// Not stored: the function that makes the value.
    Skip(TokenStream),
    ETag,
    Timestamp,
}

/// A field that is stored as one property.
pub(crate) struct Property {
    /// The name in the store.
    pub(crate) name: String,
    /// The type that implements `Codec`.
    pub(crate) codec: TokenStream,
    /// Which of the library's codecs that is.
    pub(crate) form: Form,
    pub(crate) encrypt: bool,
    /// The bytes over which the value leaves the row, if it may.
    pub(crate) large: Option<usize>,
    /// The function that makes the value of an absent property.
    pub(crate) default: Option<TokenStream>,
}

/// How the value of a property is stored, as far as the attributes say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As its type says.
    Plain,
    /// As JSON.
    Json,
    /// By a codec of the program.
    Own,
}

/// What the fields have in common.
pub(crate) struct FieldRules<'a> {
    pub(crate) krate: &'a Path,
    pub(crate) rename_all: Option<Case>,
    /// The fields that are in a key.
    pub(crate) keys: &'a [Ident],
    /// Property names that are taken, and by what.
    pub(crate) reserved: &'a [(&'a str, &'a str)],
    /// Which struct it is, for messages; decides which roles there are.
    pub(crate) owner: Owner,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Entity,
    /// An entity in several rows.
    Wide,
    Projection,
    Group,
}

impl Field {
    pub(crate) fn property(&self) -> Option<&Property> {
        match &self.role {
            Role::Property(property) => Some(property),
            _ => None,
        }
    }

    /// What a filter or a patch takes: `T` for an `Option<T>`.
    pub(crate) fn value_type(&self) -> &Type {
        match self.role {
            Role::Flatten => &self.ty,
            _ => inside_option(&self.ty).unwrap_or(&self.ty),
        }
    }

    /// The variable that generated code keeps the field's value in: its own, whichever macro the field and a template that
    /// names it came from. It stands at the type, where the compiler then reports what is wrong with that, once.
    pub(crate) fn local(&self) -> Ident {
        let at = self.value_type().span().resolved_at(self.ident.span());
        Ident::new(&format!("__field_{}", plain(&self.ident)), at)
    }

    /// What a key part of the field is made of: the element of a list that is stored as JSON, otherwise the value.
    pub(crate) fn part_type(&self) -> &Type {
        self.element_type().unwrap_or_else(|| self.value_type())
    }

    /// The element of a list that is stored as JSON.
    pub(crate) fn element_type(&self) -> Option<&Type> {
        let is_json = self.property().is_some_and(|property| property.form == Form::Json);
        if is_json { element(self.value_type()) } else { None }
    }

    pub(crate) fn is_key(&self) -> bool {
        matches!(self.role, Role::Key)
    }

    /// The constant of the field: `FIRST_NAME`.
    pub(crate) fn constant(&self) -> Ident {
        let name = plain(&self.ident).to_uppercase();
        syn::parse_str(&name).map_or_else(
            |_| Ident::new_raw(&name, self.ident.span()),
            |mut ident: Ident| {
                ident.set_span(self.ident.span());
                ident
            },
        )
    }
}

/// Gives every field its meaning, and reports what makes no sense.
pub(crate) fn build(
    fields: &[(&syn::Field, &Ident, FieldAttrs)],
    rules: &FieldRules<'_>,
    errors: &Errors,
) -> Vec<Field> {
    let built: Vec<Field> = fields
        .iter()
        .map(|(field, ident, attrs)| {
            rules::check_attrs(ident, attrs, rules, errors);
            let role = role(field, ident, attrs, rules);
            Field { ident: (*ident).clone(), ty: field.ty.clone(), vis: field.vis.clone(), role }
        })
        .collect();
    rules::check_fields(&built, fields, rules, errors);
    built
}

fn role(field: &syn::Field, ident: &Ident, attrs: &FieldAttrs, rules: &FieldRules<'_>) -> Role {
    if rules.keys.contains(ident) {
        return Role::Key;
    }
    if attrs.etag.is_some() {
        return Role::ETag;
    }
    if attrs.timestamp.is_some() {
        return Role::Timestamp;
    }
    if attrs.flatten.is_some() {
        return Role::Flatten;
    }
    if attrs.rest.is_some() {
        return Role::Rest;
    }
    let default = attrs.default.as_ref().map(|d| match &d.path {
        Some(path) => quote!(#path),
        None => quote_spanned!(d.at.span()=> ::core::default::Default::default),
    });
    if attrs.skip.is_some() {
        let span = field.ty.span();
        return Role::Skip(
            default.unwrap_or_else(|| quote_spanned!(span=> ::core::default::Default::default)),
        );
    }
    Role::Property(Property {
        name: name(ident, attrs.rename.as_ref(), rules.rename_all),
        codec: codec(field, attrs, rules.krate),
        form: match (&attrs.with, &attrs.json) {
            (Some(_), _) => Form::Own,
            (None, Some(_)) => Form::Json,
            (None, None) => Form::Plain,
        },
        encrypt: attrs.encrypt.is_some(),
        large: attrs.large.as_ref().map(|large| large.over),
        default,
    })
}

/// The stored name of a field or variant.
pub(crate) fn name(ident: &Ident, rename: Option<&LitStr>, rename_all: Option<Case>) -> String {
    match (rename, rename_all) {
        (Some(text), _) => text.value(),
        (None, Some(case)) => case.apply(&plain(ident)),
        (None, None) => plain(ident),
    }
}

/// Spanned at the type, where a missing implementation is reported.
fn codec(field: &syn::Field, attrs: &FieldAttrs, krate: &Path) -> TokenStream {
    let span = field.ty.span();
    let root = at(span, krate);
    match &attrs.with {
        Some(with) => with.to_token_stream(),
        None if attrs.json.is_some() => quote_spanned!(span=> #root::typed::Json),
        None => quote_spanned!(span=> #root::typed::Plain),
    }
}

/// `<codec as Codec<type>>`, spanned at the type as a whole: the compiler reports a missing implementation once
/// for each place that needs it.
pub(crate) fn codec_for(krate: &Path, codec: &TokenStream, ty: &Type) -> TokenStream {
    let span = ty.span();
    let root = at(span, krate);
    quote_spanned!(span=> <#codec as #root::typed::Codec<#ty>>)
}

/// A variable that is used within tokens that stand at a type. It is declared at the type, too: one that a macro was given
/// brings another meaning of names with it.
pub(crate) fn var(name: &str, ty: &Type) -> Ident {
    Ident::new(name, ty.span())
}

/// A path with another span; `$crate` in it keeps its own, which says which crate it is.
pub(crate) fn at(span: Span, path: &impl ToTokens) -> TokenStream {
    let moved = path.to_token_stream().into_iter().map(|mut token| {
        if !matches!(&token, TokenTree::Ident(ident) if *ident == "$crate") {
            token.set_span(span);
        }
        token
    });
    moved.collect()
}

/// Whether a type is written as an `Option`.
pub(crate) fn is_option(ty: &Type) -> bool {
    last_segment(ty).is_some_and(|s| s == "Option")
}

/// The `T` of a type that is written as `Option<T>`.
fn inside_option(ty: &Type) -> Option<&Type> {
    let path = match ty {
        Type::Path(path) => path,
        // As a macro hands on what it was given as a type.
        Type::Group(group) => return inside_option(&group.elem),
        Type::Paren(paren) => return inside_option(&paren.elem),
        _ => return None,
    };
    let last = path.path.segments.last().filter(|s| s.ident == "Option")?;
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    match args.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// The element of a type that is written as a list or a set.
fn element(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    if !["Vec", "BTreeSet", "HashSet"].iter().any(|list| last.ident == list) {
        return None;
    }
    let PathArguments::AngleBracketed(args) = &last.arguments else { return None };
    match args.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// Whether a type is written as owned text.
pub(crate) fn is_text(ty: &Type) -> bool {
    let text = ty.to_token_stream().to_string();
    last_segment(ty).is_some_and(|s| s == "String") || text.ends_with("str >")
}

/// Whether a type is written as one whose keys have a fixed width, so that it has no text prefix.
pub(crate) fn is_fixed(ty: &Type) -> bool {
    const FIXED: [&str; 14] = [
        "u8",
        "u16",
        "u32",
        "u64",
        "i8",
        "i16",
        "i32",
        "i64",
        "bool",
        "Uuid",
        "DateTime",
        "NaiveDateTime",
        "NaiveDate",
        "Ticks",
    ];
    last_segment(ty).is_some_and(|s| FIXED.contains(&s.as_str()) || s == "Reverse")
}

fn last_segment(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => path.path.segments.last().map(|s| s.ident.to_string()),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}
