//! `#[derive(Property)]` and `#[derive(KeyPart)]`: unit enums as text, newtypes like their value.

mod key_part;
mod property;

pub(crate) use key_part::derive as derive_key_part;
pub(crate) use property::derive as derive_property;
use quote::ToTokens;
use syn::{Data, DeriveInput, Fields, Ident, Member, Path, Type};

use crate::attr::{Container, FieldAttrs, SIMPLE};
use crate::case::Case;
use crate::errors::Errors;
use crate::fields::name;

/// A validated enum or newtype.
struct Value<'a> {
    input: &'a DeriveInput,
    krate: Path,
    shape: Shape<'a>,
}

enum Shape<'a> {
    /// The variants and their texts.
    Enum(Vec<(&'a Ident, String)>),
    /// The only field.
    Newtype(Member, &'a Type),
}

impl<'a> Value<'a> {
    fn build(input: &'a DeriveInput, derive: &str, errors: &Errors) -> Option<Self> {
        let container = Container::parse(&input.attrs, SIMPLE, errors);
        let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
        let shape = match &input.data {
            Data::Enum(data) => Some(Shape::Enum(variants(data, rename_all, derive, errors))),
            Data::Struct(data) => newtype(&data.fields, input, derive, errors),
            Data::Union(_) => {
                errors
                    .push(&input.ident, format!("`{derive}` is for newtypes and unit enums, not for unions"));
                None
            }
        };
        check_rename(&container, shape.as_ref(), errors);
        Some(Self { input, krate: container.krate(), shape: shape? })
    }
}

fn newtype<'a>(fields: &'a Fields, input: &DeriveInput, derive: &str, errors: &Errors) -> Option<Shape<'a>> {
    let mut members = fields.members();
    let (Some(member), None, Some(field)) = (members.next(), members.next(), fields.iter().next()) else {
        errors.push(
            &input.ident,
            format!("`{derive}` needs a struct with exactly one field; {}", remedy(derive)),
        );
        return None;
    };
    Some(Shape::Newtype(member, &field.ty))
}

fn variants<'a>(
    data: &'a syn::DataEnum,
    rename_all: Option<Case>,
    derive: &str,
    errors: &Errors,
) -> Vec<(&'a Ident, String)> {
    let mut texts: Vec<(&Ident, String)> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            errors.push(
                &variant.fields,
                format!("`{derive}` needs variants without fields; {}", remedy(derive)),
            );
        }
        let attrs = FieldAttrs::parse(&variant.attrs, errors);
        let text = name(&variant.ident, attrs.rename.as_ref(), rename_all);
        if let Some((other, _)) = texts.iter().find(|(_, t)| *t == text) {
            let at = attrs.rename.map_or_else(|| variant.ident.to_token_stream(), |r| r.to_token_stream());
            errors.push(at, format!("`{other}` is stored as {text:?} already; rename one of them"));
        }
        texts.push((&variant.ident, text));
    }
    texts
}

fn check_rename(container: &Container, shape: Option<&Shape<'_>>, errors: &Errors) {
    if let (Some((rule, _)), Some(Shape::Newtype(..))) = (&container.rename_all, shape) {
        errors.push(rule, "`rename_all` renames variants; a newtype is stored as what it holds");
    }
}

/// Returns the remedy for several values.
fn remedy(derive: &str) -> &'static str {
    match derive {
        "KeyPart" => "name each value as a part of the key's template",
        _ => "derive `PropertyGroup` for a struct of several properties, or store it with `#[entity(json)]`",
    }
}
