//! `#[derive(Property)]` and `#[derive(KeyPart)]`: unit enums as text or integers, newtypes like their value.

mod key_part;
mod property;

pub(crate) use key_part::derive as derive_key_part;
use proc_macro2::TokenStream;
pub(crate) use property::derive as derive_property;
use quote::{ToTokens, format_ident, quote};
use syn::{Data, DeriveInput, Expr, Fields, Ident, LitStr, Member, Path, Type};

use crate::attr::{Container, VALUE, VariantAttrs};
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
    /// An enum that is stored as text.
    Text(Vec<Variant<'a>>),
    /// An enum that is stored as the number of the variant.
    Integer(Vec<Variant<'a>>),
    /// The only field.
    Newtype(Member, &'a Type),
}

/// A variant of an enum.
struct Variant<'a> {
    ident: &'a Ident,
    text: String,
    /// Former texts.
    aliases: Vec<String>,
    /// The number.
    number: Option<&'a Expr>,
    /// What the variant for all other values keeps of a value; `None` for the usual variants.
    other: Option<Other>,
}

/// The variant for all other values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Other {
    /// A unit variant.
    Nothing,
    /// A variant with the text or number.
    Value,
}

/// A derive of this module.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueDerive {
    Property,
    KeyPart,
}

impl ValueDerive {
    /// Returns the name, as in `#[derive(…)]`.
    const fn name(self) -> &'static str {
        match self {
            Self::Property => "Property",
            Self::KeyPart => "KeyPart",
        }
    }
}

/// Returns the code of a valid type, or its errors.
fn derived(
    input: &DeriveInput,
    derive: ValueDerive,
    expand: impl FnOnce(&Value<'_>) -> TokenStream,
) -> TokenStream {
    let errors = Errors::new();
    let value = Value::build(input, derive, &errors);
    match (errors.check(), value) {
        (Ok(()), Some(value)) => expand(&value),
        (checked, _) => checked
            .err()
            .map(syn::Error::into_compile_error)
            .unwrap_or_default(),
    }
}

impl<'a> Value<'a> {
    fn build(input: &'a DeriveInput, derive: ValueDerive, errors: &Errors) -> Option<Self> {
        let container = Container::parse(&input.attrs, VALUE, errors);
        let rename_all = container.rename_all.as_ref().map(|(_, case)| *case);
        let shape = match &input.data {
            Data::Enum(data) => {
                let variants = variants(data, rename_all, derive, errors);
                check_other(&variants, derive, &container, errors);
                Some(match &container.integer {
                    None => Shape::Text(variants),
                    Some(_) => {
                        check_numbers(data, &variants, errors);
                        Shape::Integer(variants)
                    }
                })
            }
            Data::Struct(data) => newtype(&data.fields, input, derive, errors),
            Data::Union(_) => {
                errors.push(
                    &input.ident,
                    format!(
                        "`{}` is for newtypes and unit enums, not for unions",
                        derive.name()
                    ),
                );
                None
            }
        };
        check_container(&container, shape.as_ref(), errors);
        Some(Self {
            input,
            krate: container.krate(),
            shape: shape?,
        })
    }
}

/// Returns the only field of a struct.
fn newtype<'a>(
    fields: &'a Fields,
    input: &DeriveInput,
    derive: ValueDerive,
    errors: &Errors,
) -> Option<Shape<'a>> {
    let mut members = fields.members();
    let (Some(member), None, Some(field)) = (members.next(), members.next(), fields.iter().next())
    else {
        errors.push(
            &input.ident,
            format!(
                "`{}` needs a struct with exactly one field; {}",
                derive.name(),
                remedy(derive)
            ),
        );
        return None;
    };
    Some(Shape::Newtype(member, &field.ty))
}

/// Returns the variants of an enum with their texts and numbers, and reports invalid ones.
fn variants<'a>(
    data: &'a syn::DataEnum,
    rename_all: Option<Case>,
    derive: ValueDerive,
    errors: &Errors,
) -> Vec<Variant<'a>> {
    let mut texts = Vec::new();
    let mut variants = Vec::new();
    for variant in &data.variants {
        let attrs = VariantAttrs::parse(&variant.attrs, errors);
        let other = other_of(variant, &attrs, derive, errors);
        let text = name(&variant.ident, attrs.rename.as_ref(), rename_all);
        for at in attrs
            .aliases
            .iter()
            .filter(|_| derive == ValueDerive::KeyPart)
        {
            let problem = "a part of a key has no former text: the key of the row would differ from the key of its value; move the rows instead";
            errors.push(at, problem);
        }
        if other.is_none() {
            check_texts(variant, &attrs, &text, &mut texts, errors);
        } else {
            for at in attrs.rename.iter().chain(&attrs.aliases) {
                errors.push(
                    at,
                    "the variant for all other values has no text of its own; remove the name",
                );
            }
        }
        let aliases = attrs.aliases.iter().map(LitStr::value).collect();
        let number = variant.discriminant.as_ref().map(|(_, number)| number);
        variants.push(Variant {
            ident: &variant.ident,
            text,
            aliases,
            number,
            other,
        });
    }
    variants
}

/// Returns what a variant keeps of other values; `None` for a usual variant. Reports fields that the variant cannot have.
fn other_of(
    variant: &syn::Variant,
    attrs: &VariantAttrs,
    derive: ValueDerive,
    errors: &Errors,
) -> Option<Other> {
    match (&attrs.other, &variant.fields) {
        (None, Fields::Unit) => None,
        (None, fields) => {
            let (name, remedy) = (derive.name(), remedy(derive));
            errors.push(
                fields,
                format!("`{name}` needs variants without fields; {remedy}"),
            );
            None
        }
        (Some(_), Fields::Unit) => Some(Other::Nothing),
        (Some(_), Fields::Unnamed(fields)) if fields.unnamed.len() == 1 => Some(Other::Value),
        (Some(at), _) => {
            errors.push(
                at,
                "a variant for all other values keeps the value or nothing: `Other(String)` or `Other`",
            );
            Some(Other::Value)
        }
    }
}

/// Reports texts of a variant that an earlier variant has, and adds them to `texts`.
fn check_texts<'a>(
    variant: &'a syn::Variant,
    attrs: &VariantAttrs,
    text: &str,
    texts: &mut Vec<(&'a Ident, String)>,
    errors: &Errors,
) {
    let own_at = attrs
        .rename
        .as_ref()
        .map_or_else(|| variant.ident.to_token_stream(), |r| r.to_token_stream());
    let own = std::iter::once((own_at, text.to_owned()));
    let former = attrs
        .aliases
        .iter()
        .map(|alias| (alias.to_token_stream(), alias.value()));
    for (at, text) in own.chain(former) {
        if let Some((taken_by, _)) = texts.iter().find(|(_, t)| *t == text) {
            errors.push(
                at,
                format!("`{taken_by}` is stored as {text:?} already; rename one of them"),
            );
        }
        texts.push((&variant.ident, text));
    }
}

/// One variant can stand for all other values. A key part must keep the value.
fn check_other(
    variants: &[Variant<'_>],
    derive: ValueDerive,
    container: &Container,
    errors: &Errors,
) {
    for variant in variants.iter().filter(|v| v.other.is_some()).skip(1) {
        errors.push(
            variant.ident,
            "another variant is `other` already; an enum has one",
        );
    }
    let kept = if container.integer.is_some() {
        "i32"
    } else {
        "String"
    };
    for variant in variants
        .iter()
        .filter(|v| derive == ValueDerive::KeyPart && v.other == Some(Other::Nothing))
    {
        let problem = format!(
            "a part of a key must keep its value: write `{}({kept})`",
            variant.ident
        );
        errors.push(variant.ident, problem);
    }
}

/// The number of a variant must not change when a variant is added, so each is written out.
fn check_numbers(data: &syn::DataEnum, variants: &[Variant<'_>], errors: &Errors) {
    for (variant, source) in variants
        .iter()
        .zip(&data.variants)
        .filter(|(v, _)| v.other.is_none())
    {
        if variant.number.is_none() {
            let problem = format!(
                "give each variant its number, `{} = 1`: stored numbers must not change",
                variant.ident
            );
            errors.push(variant.ident, problem);
        }
        // Parsed a second time for its tokens; the first time has reported the errors.
        let attrs = VariantAttrs::parse(&source.attrs, &Errors::ignored());
        for at in attrs.rename.iter().chain(&attrs.aliases) {
            errors.push(
                at,
                "the variant is stored as its number and has no text; remove the name",
            );
        }
    }
}

fn check_container(container: &Container, shape: Option<&Shape<'_>>, errors: &Errors) {
    if let (Some((rule, _)), Some(Shape::Newtype(..))) = (&container.rename_all, shape) {
        errors.push(
            rule,
            "`rename_all` renames variants; a newtype is stored as its value",
        );
    }
    if let (Some(at), Some(Shape::Newtype(..))) = (&container.integer, shape) {
        errors.push(
            at,
            "`integer` numbers the variants of an enum; a newtype is stored as its value",
        );
    }
    if let (Some((rule, _)), Some(_)) = (&container.rename_all, &container.integer) {
        errors.push(
            rule,
            "`rename_all` renames texts, and `integer` stores numbers; remove one of them",
        );
    }
}

/// Returns the remedy for several values.
fn remedy(derive: ValueDerive) -> &'static str {
    match derive {
        ValueDerive::KeyPart => "name each value as a part of the key's template",
        ValueDerive::Property => {
            "derive `PropertyGroup` for a struct of several properties, or store it with `#[entity(json)]`"
        }
    }
}

impl Variant<'_> {
    /// Returns the pattern for a borrowed value; the variant for all other values binds its value as `__other`.
    fn pattern(&self) -> TokenStream {
        let ident = self.ident;
        match self.other {
            Some(Other::Value) => quote!(Self::#ident(__other)),
            _ => quote!(Self::#ident),
        }
    }
}

/// Returns the arms of a `match` on a borrowed value that give its text as `&str`, and the arms of a `match` on a text, which give the
/// value as a `Result`. `refused` is the error for a text that no variant has.
fn text_arms(
    value: &Value<'_>,
    variants: &[Variant<'_>],
    refused: &TokenStream,
) -> (TokenStream, TokenStream) {
    let krate = &value.krate;
    let written = variants.iter().map(|variant| {
        let (pattern, text) = (variant.pattern(), &variant.text);
        match variant.other {
            None => quote!(#pattern => #text,),
            Some(Other::Value) => quote!(#pattern => ::core::convert::AsRef::<str>::as_ref(__other),),
            Some(Other::Nothing) => {
                let name = format!("{}::{}", value.input.ident, variant.ident);
                quote!(#pattern => return ::core::result::Result::Err(#krate::__private::lost_value(#name)),)
            }
        }
    });
    let read = variants
        .iter()
        .filter(|v| v.other.is_none())
        .map(|variant| {
            let (ident, text, aliases) = (variant.ident, &variant.text, &variant.aliases);
            quote!(#text #(| #aliases)* => ::core::result::Result::Ok(Self::#ident),)
        });
    let others = variants.iter().find(|v| v.other.is_some()).map_or_else(
        || quote!(__other => ::core::result::Result::Err(#refused),),
        |variant| {
            let ident = variant.ident;
            match variant.other {
                Some(Other::Value) => quote! {
                    __other => ::core::result::Result::Ok(Self::#ident(::core::convert::From::from(__other))),
                },
                _ => quote!(_ => ::core::result::Result::Ok(Self::#ident),),
            }
        },
    );
    (quote!(#(#written)*), quote!(#(#read)* #others))
}

/// Returns an expression for the number of `self` as `i32`, and an expression that converts the number `__number` to a `Result` of the value.
fn numbers(value: &Value<'_>, variants: &[Variant<'_>]) -> (TokenStream, TokenStream) {
    let krate = &value.krate;
    let numbered: Vec<_> = variants.iter().filter(|v| v.other.is_none()).collect();
    let constants: Vec<_> = (0..numbered.len())
        .map(|n| format_ident!("__NUMBER_{n}"))
        .collect();
    let values: Vec<_> = numbered.iter().filter_map(|v| v.number).collect();
    // A `match` needs constants as patterns: the number of a variant may be any constant expression.
    let declared = quote!(#(const #constants: i32 = #values;)*);
    let mut known = constants.iter();
    let written: Vec<_> = variants
        .iter()
        .map(|variant| {
            let pattern = variant.pattern();
            match variant.other {
                None => {
                    let constant = known.next();
                    quote!(#pattern => #constant,)
                }
                Some(Other::Value) => quote!(#pattern => ::core::convert::Into::into(*__other),),
                Some(Other::Nothing) => {
                    let name = format!("{}::{}", value.input.ident, variant.ident);
                    quote!(#pattern => return ::core::result::Result::Err(#krate::__private::lost_value(#name)),)
                }
            }
        })
        .collect();
    let idents = numbered.iter().map(|v| v.ident);
    let others = variants.iter().find(|v| v.other.is_some()).map_or_else(
        || quote! {
            __other => ::core::result::Result::Err(#krate::__private::no_number(&[#(#constants),*], __other)),
        },
        |variant| {
            let ident = variant.ident;
            match variant.other {
                Some(Other::Value) => quote! {
                    __other => ::core::result::Result::Ok(Self::#ident(::core::convert::From::from(__other))),
                },
                _ => quote!(_ => ::core::result::Result::Ok(Self::#ident),),
            }
        },
    );
    let write = quote!({ #declared match self { #(#written)* } });
    let read = quote!({ #declared match __number { #(#constants => ::core::result::Result::Ok(Self::#idents),)* #others } });
    (write, read)
}
