use proc_macro2::TokenStream;
use quote::ToTokens as _;
use syn::{Attribute, Ident, Lit, LitInt, LitStr, Path, Type, parse_quote};

use super::item::{Item, Value, items, set_setting};
use crate::case::Case;
use crate::errors::Errors;

/// The attribute `#[entity(…)]` of a type.
#[derive(Default)]
pub(crate) struct Container {
    krate: Option<Path>,
    pub(crate) type_name: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) min_reader: Option<LitInt>,
    pub(crate) previous: Option<Type>,
    pub(crate) spread: Option<LitInt>,
    pub(crate) salt: Option<LitStr>,
    pub(crate) rename_all: Option<(LitStr, Case)>,
    pub(crate) partition_key: Option<LitStr>,
    pub(crate) row_key: Option<LitStr>,
    /// The setting as written, for errors, and its meaning.
    pub(crate) discriminator: Option<(TokenStream, DiscriminatorAttr)>,
    pub(crate) projection_of: Option<Type>,
    pub(crate) wide: Option<Ident>,
    pub(crate) feed: Option<Ident>,
    pub(crate) integer: Option<Ident>,
}

/// How rows of the type are distinguished from others, as written.
pub(crate) enum DiscriminatorAttr {
    None,
    Property(LitStr),
    RowPrefix,
    PartitionPrefix,
}

/// The settings of an entity.
pub(crate) const ENTITY: &[&str] = &[
    "type",
    "version",
    "min_reader",
    "previous",
    "spread",
    "salt",
    "rename_all",
    "partition_key",
    "row_key",
    "discriminator",
    "projection_of",
    "wide",
    "feed",
    "crate",
];
/// The settings of a group of properties.
pub(crate) const SIMPLE: &[&str] = &["rename_all", "crate"];
/// The settings of an enum or a newtype.
pub(crate) const VALUE: &[&str] = &["rename_all", "integer", "crate"];

/// The settings of a resolver.
pub(crate) const RESOLVER: &[&str] = &["crate"];

impl Container {
    /// Parses `#[entity(…)]`. `known` are the settings that the derive has.
    pub(crate) fn parse(attrs: &[Attribute], known: &[&str], errors: &Errors) -> Self {
        let mut out = Self::default();
        for attr in attrs.iter().filter(|a| a.path().is_ident("entity")) {
            for item in items(attr, errors) {
                if known.contains(&item.name().as_str()) {
                    out.read_setting(&item, errors);
                } else {
                    item.unknown(known, errors);
                }
            }
        }
        out
    }

    /// Returns the path of the crate that the generated code calls.
    pub(crate) fn krate(&self) -> Path {
        self.krate
            .clone()
            .unwrap_or_else(|| parse_quote!(::table_core))
    }

    /// Sets the value of one setting, whose name is known.
    fn read_setting(&mut self, item: &Item, errors: &Errors) {
        match item.name().as_str() {
            "type" => set_setting(&mut self.type_name, item.string(errors), item, errors),
            "version" => set_setting(&mut self.version, item.integer(errors), item, errors),
            "min_reader" => set_setting(&mut self.min_reader, item.integer(errors), item, errors),
            "spread" => set_setting(&mut self.spread, item.integer(errors), item, errors),
            "salt" => set_setting(&mut self.salt, item.string(errors), item, errors),
            "previous" => set_setting(&mut self.previous, item.ty(errors), item, errors),
            "rename_all" => set_setting(&mut self.rename_all, case(item, errors), item, errors),
            "partition_key" => {
                set_setting(&mut self.partition_key, item.string(errors), item, errors);
            }
            "row_key" => set_setting(&mut self.row_key, item.string(errors), item, errors),
            "discriminator" => {
                set_setting(
                    &mut self.discriminator,
                    discriminator(item, errors),
                    item,
                    errors,
                );
            }
            "projection_of" => set_setting(&mut self.projection_of, item.ty(errors), item, errors),
            "integer" => set_setting(&mut self.integer, item.flag(errors), item, errors),
            "wide" => set_setting(&mut self.wide, item.flag(errors), item, errors),
            "feed" => set_setting(&mut self.feed, item.flag(errors), item, errors),
            // `crate`, the last of the known names.
            _ => set_setting(&mut self.krate, item.path(errors), item, errors),
        }
    }
}

fn case(item: &Item, errors: &Errors) -> Option<(LitStr, Case)> {
    let text = item.string(errors)?;
    let case = Case::parse(&text.value());
    if case.is_none() {
        errors.push(
            &text,
            format!("unknown naming rule; use one of {}", Case::names()),
        );
    }
    Some((text, case?))
}

fn discriminator(item: &Item, errors: &Errors) -> Option<(TokenStream, DiscriminatorAttr)> {
    const HELP: &str = "write `discriminator = \"Kind\"` for a property, `discriminator(row_prefix)` or \
                        `discriminator(partition_prefix)` for the literal start of a key, or \
                        `discriminator(none)`";
    let word = |item: &Item| match (item.name().as_str(), &item.value) {
        ("none", Value::None) => Some(DiscriminatorAttr::None),
        ("row_prefix", Value::None) => Some(DiscriminatorAttr::RowPrefix),
        ("partition_prefix", Value::None) => Some(DiscriminatorAttr::PartitionPrefix),
        _ => None,
    };
    let found = match &item.value {
        Value::Lit(Lit::Str(name)) => Some(DiscriminatorAttr::Property(name.clone())),
        Value::Type(ty) if **ty == parse_quote!(none) => Some(DiscriminatorAttr::None),
        Value::List(items) if items.len() == 1 => word(&items[0]),
        _ => None,
    };
    if found.is_none() {
        errors.push(item, HELP);
    }
    Some((item.to_token_stream(), found?))
}

/// The attribute `#[entity(…)]` of a variant, as written.
#[derive(Default)]
pub(crate) struct VariantAttrs {
    pub(crate) rename: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
    /// The variant for all values that no other variant has.
    pub(crate) other: Option<Ident>,
}

const KNOWN: &[&str] = &["rename", "alias", "other"];

impl VariantAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &Errors) -> Self {
        let mut out = Self::default();
        for attr in attrs.iter().filter(|a| a.path().is_ident("entity")) {
            items(attr, errors)
                .iter()
                .for_each(|item| out.read_setting(item, errors));
        }
        out
    }

    fn read_setting(&mut self, item: &Item, errors: &Errors) {
        match item.name().as_str() {
            "rename" => set_setting(&mut self.rename, item.string(errors), item, errors),
            "alias" => self.aliases.extend(item.string(errors)),
            "other" => set_setting(&mut self.other, item.flag(errors), item, errors),
            _ => item.unknown(KNOWN, errors),
        }
    }
}
