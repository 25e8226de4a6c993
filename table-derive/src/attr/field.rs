use std::fmt::Display;
use std::str::FromStr;

use syn::{Attribute, Ident, LitInt, LitStr, Meta, Path, Type};

use super::item::{Item, Value, items, set_setting};
use crate::errors::Errors;

/// The attributes of a field, as written.
#[derive(Default)]
pub(crate) struct FieldAttrs {
    pub(crate) partition_key: Option<KeyAttr>,
    pub(crate) row_key: Option<KeyAttr>,
    pub(crate) encrypt: Option<Path>,
    pub(crate) large: Option<LargeAttr>,
    pub(crate) etag: Option<Path>,
    pub(crate) timestamp: Option<Path>,
    pub(crate) expires: Option<Path>,
    pub(crate) deleted_at: Option<DeletedAtAttr>,
    pub(crate) rename: Option<LitStr>,
    pub(crate) default: Option<DefaultAttr>,
    pub(crate) skip: Option<Ident>,
    pub(crate) flatten: Option<FlattenAttr>,
    pub(crate) json: Option<Ident>,
    pub(crate) text: Option<Ident>,
    pub(crate) aliases: Vec<LitStr>,
    pub(crate) rest: Option<Ident>,
    pub(crate) split: Option<Ident>,
    pub(crate) with: Option<Type>,
}

/// `#[partition_key]` or `#[row_key(format = "…")]`.
pub(crate) struct KeyAttr {
    /// Where errors of the attribute are reported; also in the types below.
    pub(crate) at: Path,
    pub(crate) format: Option<LitStr>,
    /// The number of buckets that partitions are spread over.
    pub(crate) spread: Option<LitInt>,
    /// The salt that is hashed with the RowKey to find the bucket.
    pub(crate) salt: Option<LitStr>,
}

/// `#[large]` or `#[large(over = 4096)]`.
pub(crate) struct LargeAttr {
    pub(crate) at: Path,
    /// Values with more bytes than this are moved to a blob.
    pub(crate) over: usize,
}

/// `#[deleted_at]` or `#[deleted_at(keep_days = 30)]`.
pub(crate) struct DeletedAtAttr {
    pub(crate) at: Path,
    /// The number of days for which a deleted entity is kept.
    pub(crate) keep_days: u32,
}

/// `flatten` or `flatten(prefix = "Home")`.
pub(crate) struct FlattenAttr {
    pub(crate) at: Ident,
    /// The text in front of the names of the properties.
    pub(crate) prefix: Option<LitStr>,
}

/// `default` or `default = path`.
pub(crate) struct DefaultAttr {
    pub(crate) at: Ident,
    pub(crate) path: Option<Path>,
}

const ENTITY_SETTINGS: &[&str] = &[
    "rename", "alias", "default", "skip", "flatten", "json", "text", "rest", "split", "with",
];

impl FieldAttrs {
    pub(crate) fn parse(attrs: &[Attribute], errors: &Errors) -> Self {
        let mut out = Self::default();
        for attr in attrs {
            let path = attr.path();
            match path.get_ident().map(ToString::to_string).as_deref() {
                Some("partition_key") => {
                    set_attribute(&mut out.partition_key, key(attr, errors), attr, errors);
                }
                Some("row_key") => set_attribute(&mut out.row_key, key(attr, errors), attr, errors),
                Some("encrypt") => {
                    set_attribute(&mut out.encrypt, bare(attr, errors), attr, errors);
                }
                Some("large") => set_attribute(&mut out.large, large(attr, errors), attr, errors),
                Some("etag") => set_attribute(&mut out.etag, bare(attr, errors), attr, errors),
                Some("timestamp") => {
                    set_attribute(&mut out.timestamp, bare(attr, errors), attr, errors);
                }
                Some("expires") => {
                    set_attribute(&mut out.expires, bare(attr, errors), attr, errors);
                }
                Some("deleted_at") => {
                    set_attribute(&mut out.deleted_at, deleted_at(attr, errors), attr, errors);
                }
                Some("entity") => items(attr, errors)
                    .iter()
                    .for_each(|i| out.read_setting(i, errors)),
                _ => {}
            }
        }
        out
    }

    fn read_setting(&mut self, item: &Item, errors: &Errors) {
        match item.name().as_str() {
            "rename" => set_setting(&mut self.rename, item.string(errors), item, errors),
            "default" => set_setting(&mut self.default, default(item, errors), item, errors),
            "skip" => set_setting(&mut self.skip, item.flag(errors), item, errors),
            "alias" => self.aliases.extend(item.string(errors)),
            "flatten" => set_setting(&mut self.flatten, flatten(item, errors), item, errors),
            "text" => set_setting(&mut self.text, item.flag(errors), item, errors),
            "json" => set_setting(&mut self.json, item.flag(errors), item, errors),
            "rest" => set_setting(&mut self.rest, item.flag(errors), item, errors),
            "split" => set_setting(&mut self.split, item.flag(errors), item, errors),
            "with" => set_setting(&mut self.with, item.ty(errors), item, errors),
            _ => item.unknown(ENTITY_SETTINGS, errors),
        }
    }
}

fn default(item: &Item, errors: &Errors) -> Option<DefaultAttr> {
    let path = match item.value {
        Value::None => None,
        _ => Some(item.path(errors)?),
    };
    Some(DefaultAttr {
        at: item.key.clone(),
        path,
    })
}

/// Parses `flatten` or `flatten(…)`; `None` if it is neither, which is reported.
fn flatten(item: &Item, errors: &Errors) -> Option<FlattenAttr> {
    let settings = match &item.value {
        Value::None => &[][..],
        Value::List(settings) => settings,
        _ => {
            errors.push(item, "write `flatten` or `flatten(prefix = \"Home\")`");
            return None;
        }
    };
    let mut prefix = None;
    for setting in settings {
        match setting.name().as_str() {
            "prefix" => set_setting(&mut prefix, setting.string(errors), setting, errors),
            _ => setting.unknown(&["prefix"], errors),
        }
    }
    Some(FlattenAttr {
        at: item.key.clone(),
        prefix,
    })
}

/// Parses an attribute without a value, such as `#[etag]`.
fn bare(attr: &Attribute, errors: &Errors) -> Option<Path> {
    if matches!(attr.meta, Meta::Path(_)) {
        return Some(attr.path().clone());
    }
    errors.push(attr, "this attribute takes no value");
    None
}

/// Parses `#[partition_key]` or `#[row_key]`, with its settings.
fn key(attr: &Attribute, errors: &Errors) -> Option<KeyAttr> {
    let (mut format, mut spread, mut salt) = (None, None, None);
    for item in items(attr, errors) {
        match item.name().as_str() {
            "format" => set_setting(&mut format, item.string(errors), &item, errors),
            "spread" => set_setting(&mut spread, item.integer(errors), &item, errors),
            "salt" => set_setting(&mut salt, item.string(errors), &item, errors),
            _ => item.unknown(&["format", "spread", "salt"], errors),
        }
    }
    Some(KeyAttr {
        at: attr.path().clone(),
        format,
        spread,
        salt,
    })
}

/// Default of `over` for a large field, in bytes.
const LARGE_OVER: usize = 32_768;

/// Parses `#[large]`, with its setting.
fn large(attr: &Attribute, errors: &Errors) -> Option<LargeAttr> {
    let over = only_number(
        attr,
        "over",
        LARGE_OVER,
        "a number of bytes, such as `over = 4096`",
        errors,
    )?;
    Some(LargeAttr {
        at: attr.path().clone(),
        over,
    })
}

/// Default of `keep_days` for a field with the time of deletion.
const KEEP_DAYS: u32 = 30;

/// Parses `#[deleted_at]`, with its setting.
fn deleted_at(attr: &Attribute, errors: &Errors) -> Option<DeletedAtAttr> {
    let keep_days = only_number(
        attr,
        "keep_days",
        KEEP_DAYS,
        "a number of days, such as `keep_days = 30`",
        errors,
    )?;
    Some(DeletedAtAttr {
        at: attr.path().clone(),
        keep_days,
    })
}

/// Parses the only setting of an attribute, which is a number. `expected` describes the number in the error for a number that does not fit `N`.
fn only_number<N: FromStr<Err: Display>>(
    attr: &Attribute,
    name: &str,
    default: N,
    expected: &str,
    errors: &Errors,
) -> Option<N> {
    let mut given = None;
    for item in items(attr, errors) {
        match item.name() == name {
            true => set_setting(&mut given, item.integer(errors), &item, errors),
            false => item.unknown(&[name], errors),
        }
    }
    let Some(literal) = given else {
        return Some(default);
    };
    literal
        .base10_parse()
        .map_err(|_| errors.push(&literal, format!("expected {expected}")))
        .ok()
}

/// Sets the value of an attribute; reports an error if the field has the attribute twice.
fn set_attribute<T>(slot: &mut Option<T>, value: Option<T>, attr: &Attribute, errors: &Errors) {
    if slot.is_some() {
        errors.push(attr, "this attribute is given twice; keep one");
        return;
    }
    *slot = value;
}
