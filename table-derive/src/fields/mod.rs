//! The fields of an entity, projection or group, with their meaning.

mod rules;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{GenericArgument, Ident, LitStr, Path, PathArguments, Type, Visibility};

use crate::attr::FieldAttrs;
use crate::case::Case;
use crate::errors::Errors;
use crate::template::plain;

/// Why the discriminator's property is reserved.
pub(crate) const DISCRIMINATOR: &str = "it identifies the type";

pub(crate) struct Field {
    pub(crate) ident: Ident,
    pub(crate) ty: Type,
    pub(crate) vis: Visibility,
    pub(crate) role: Role,
}

/// The role of a field.
pub(crate) enum Role {
    Key,
    Property(Property),
    /// The text in front of the names of the properties; empty for none.
    Flatten(String),
    Rest,
    /// Not stored. Contains the function that creates the value.
    Skip(TokenStream),
    ETag,
    Timestamp,
}

/// A field that is stored as one property.
pub(crate) struct Property {
    /// The stored name.
    pub(crate) name: String,
    /// The names under which older rows have the property.
    pub(crate) aliases: Vec<String>,
    /// The type that implements `Codec`.
    pub(crate) codec: TokenStream,
    /// The type that implements `Codec` for the value without its `Option`, for filters and patches.
    pub(crate) value_codec: TokenStream,
    /// Which of the library's codecs the type is.
    pub(crate) form: Form,
    pub(crate) encrypt: bool,
    /// Values with more bytes than this move to a blob; `None` for fields that are not large.
    pub(crate) large: Option<usize>,
    /// Whether a long value is stored in several properties.
    pub(crate) split: bool,
    /// Whether the property has the time at which the entity expires.
    pub(crate) expires: bool,
    /// For the property with the time of deletion, the number of days for which a deleted entity is kept.
    pub(crate) deleted_at: Option<u32>,
    /// The function that creates the value of an absent property.
    pub(crate) default: Option<TokenStream>,
}

/// The stored form of a property, as far as the attributes show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The form of the field's type.
    Plain,
    /// As JSON.
    Json,
    /// As the text of `Display`.
    Text,
    /// The program's own codec.
    Own,
}

/// The context that all fields of a struct share.
pub(crate) struct FieldRules<'a> {
    pub(crate) krate: &'a Path,
    pub(crate) rename_all: Option<Case>,
    /// The fields that are part of a key.
    pub(crate) keys: &'a [Ident],
    /// Reserved property names, and the reasons.
    pub(crate) reserved: &'a [(&'a str, &'a str)],
    /// The number of properties that rows have besides the fields: of the type and of its schema version.
    pub(crate) type_properties: usize,
    /// The kind of struct. It is used in messages and determines the possible roles.
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

    /// Returns the type that a filter or a patch takes: `T` for an `Option<T>`.
    pub(crate) fn value_type(&self) -> &Type {
        match self.role {
            Role::Flatten(_) => &self.ty,
            _ => inside_option(&self.ty).unwrap_or(&self.ty),
        }
    }

    /// Returns the variable that holds the field's value in generated code. Its scope is the field name's, so
    /// that code from the template finds it. Its position is the type's, so that the compiler reports an
    /// error of the type there, once.
    pub(crate) fn local(&self) -> Ident {
        let at = self.value_type().span().resolved_at(self.ident.span());
        Ident::new(&format!("__field_{}", plain(&self.ident)), at)
    }

    /// Returns the type of a key part of the field: the element of a list stored as JSON, otherwise the
    /// field's type.
    pub(crate) fn part_type(&self) -> &Type {
        self.element_type().unwrap_or_else(|| self.value_type())
    }

    /// Returns the element type of a list stored as JSON.
    pub(crate) fn element_type(&self) -> Option<&Type> {
        // Only in JSON are the elements text that a program without the Rust type can read (`ListElement`).
        let is_json = self
            .property()
            .is_some_and(|property| property.form == Form::Json);
        if is_json {
            element(self.value_type())
        } else {
            None
        }
    }

    pub(crate) fn is_key(&self) -> bool {
        matches!(self.role, Role::Key)
    }

    /// Returns the name of the field's constant, for example `FIRST_NAME`.
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

/// Determines the role of every field and reports invalid combinations.
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
            Field {
                ident: (*ident).clone(),
                ty: field.ty.clone(),
                vis: field.vis.clone(),
                role,
            }
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
    if let Some(flatten) = &attrs.flatten {
        return Role::Flatten(
            flatten
                .prefix
                .as_ref()
                .map(LitStr::value)
                .unwrap_or_default(),
        );
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
        aliases: attrs.aliases.iter().map(LitStr::value).collect(),
        codec: codec(field, attrs, rules.krate),
        value_codec: value_codec(field, attrs, rules.krate),
        form: match attrs {
            FieldAttrs { with: Some(_), .. } => Form::Own,
            FieldAttrs { json: Some(_), .. } => Form::Json,
            FieldAttrs { text: Some(_), .. } => Form::Text,
            _ => Form::Plain,
        },
        encrypt: attrs.encrypt.is_some(),
        large: attrs.large.as_ref().map(|large| large.over),
        split: attrs.split.is_some(),
        expires: attrs.expires.is_some(),
        deleted_at: attrs.deleted_at.as_ref().map(|deleted| deleted.keep_days),
        default,
    })
}

/// Returns the stored name of a field or variant.
pub(crate) fn name(ident: &Ident, rename: Option<&LitStr>, rename_all: Option<Case>) -> String {
    match (rename, rename_all) {
        (Some(text), _) => text.value(),
        (None, Some(case)) => case.apply(&plain(ident)),
        (None, None) => plain(ident),
    }
}

/// Returns the codec's path with the span of the type: the compiler reports a missing implementation there.
fn codec(field: &syn::Field, attrs: &FieldAttrs, krate: &Path) -> TokenStream {
    let span = field.ty.span();
    let root = at(span, krate);
    match &attrs.with {
        Some(with) => with.to_token_stream(),
        None if attrs.json.is_some() => quote_spanned!(span=> #root::typed::Json),
        None if attrs.text.is_some() && is_option(&field.ty) => {
            quote_spanned!(span=> #root::typed::Optional<#root::typed::AsText>)
        }
        None if attrs.text.is_some() => quote_spanned!(span=> #root::typed::AsText),
        None => quote_spanned!(span=> #root::typed::Plain),
    }
}

/// Returns the codec of the value without its `Option`.
fn value_codec(field: &syn::Field, attrs: &FieldAttrs, krate: &Path) -> TokenStream {
    let root = at(field.ty.span(), krate);
    match &attrs.with {
        Some(with) if is_option(&field.ty) => inside(with, &["Optional"])
            .map_or_else(|| with.to_token_stream(), ToTokens::to_token_stream),
        None if attrs.text.is_some() => quote_spanned!(field.ty.span()=> #root::typed::AsText),
        _ => codec(field, attrs, krate),
    }
}

/// Returns `<codec as Codec<type>>` with the span of the whole type. The compiler reports a missing
/// implementation once for each place that needs it.
pub(crate) fn codec_for(krate: &Path, codec: &TokenStream, ty: &Type) -> TokenStream {
    let span = ty.span();
    let root = at(span, krate);
    quote_spanned!(span=> <#codec as #root::typed::Codec<#ty>>)
}

/// Returns a variable for use in tokens that have the span of a type. Its declaration needs that span too,
/// because a type that came from a macro has that macro's hygiene.
pub(crate) fn var(name: &str, ty: &Type) -> Ident {
    Ident::new(name, ty.span())
}

/// Returns a path with another span. `$crate` in it keeps its own span, which determines the crate.
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

/// Returns the `T` of a type that is written as `Option<T>`.
fn inside_option(ty: &Type) -> Option<&Type> {
    inside(ty, &["Option"])
}

/// Returns the element type of a type that is written as a list or a set.
fn element(ty: &Type) -> Option<&Type> {
    inside(ty, &["Vec", "BTreeSet", "HashSet"])
}

/// Returns the `T` of a type that is written as `Name<T>`, with one of these names.
fn inside<'t>(ty: &'t Type, names: &[&str]) -> Option<&'t Type> {
    let path = match ty {
        Type::Path(path) => path,
        // The form in which a macro passes on a type that it received.
        Type::Group(group) => return inside(&group.elem, names),
        Type::Paren(paren) => return inside(&paren.elem, names),
        _ => return None,
    };
    let last = path
        .path
        .segments
        .last()
        .filter(|s| names.iter().any(|name| s.ident == name))?;
    let PathArguments::AngleBracketed(args) = &last.arguments else {
        return None;
    };
    match args.args.first()? {
        GenericArgument::Type(inner) => Some(inner),
        _ => None,
    }
}

/// Whether a type is written as owned text.
pub(crate) fn is_text(ty: &Type) -> bool {
    // `Box<str>`, `Arc<str>`, `Cow<'static, str>`. A macro sees the tokens of a type and not its meaning: an alias of
    // `String` is not recognized, and only lacks the methods for prefixes.
    let text = ty.to_token_stream().to_string();
    last_segment(ty).is_some_and(|s| s == "String") || text.ends_with("str >")
}

/// Whether a type is written as a type with fixed-width keys, which have no text prefix.
pub(crate) fn is_fixed(ty: &Type) -> bool {
    const FIXED: [&str; 16] = [
        "u8",
        "u16",
        "u32",
        "u64",
        "i8",
        "i16",
        "i32",
        "i64",
        "f64",
        "bool",
        "Uuid",
        "DateTime",
        "NaiveDateTime",
        "NaiveDate",
        "Ticks",
        "Hour",
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
