use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Ident, LitStr, Type};

use super::item::{Item, Value, items, set_setting};
use crate::errors::Errors;

/// The attribute `#[index(name, …)]`, as written.
pub(crate) struct IndexAttr {
    pub(crate) name: Ident,
    pub(crate) row_key: Option<LitStr>,
    pub(crate) partition_key: Option<LitStr>,
    pub(crate) table: Option<LitStr>,
    pub(crate) payload: Option<(TokenStream, PayloadAttr)>,
    pub(crate) shape: Option<ShapeAttr>,
    pub(crate) unique: Option<(TokenStream, ScopeAttr)>,
    pub(crate) condition: Option<LitStr>,
}

#[derive(Clone)]
pub(crate) enum PayloadAttr {
    Full,
    Reference,
    Fields(Vec<Ident>),
}

#[derive(Clone)]
pub(crate) enum ShapeAttr {
    Row,
    List(ListAttr),
    Blob,
    Summary(SummaryAttr),
}

/// `summary(sum(…), min(…), max(…))`: fields.
#[derive(Clone, Default)]
pub(crate) struct SummaryAttr {
    pub(crate) sums: Vec<Ident>,
    pub(crate) minima: Vec<Ident>,
    pub(crate) maxima: Vec<Ident>,
}

impl SummaryAttr {
    /// Returns all named fields, with repetitions.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &Ident> {
        self.sums.iter().chain(&self.minima).chain(&self.maxima)
    }
}

/// `list(bytes = …, overflow = …)`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ListAttr {
    pub(crate) bytes: Option<usize>,
    pub(crate) overflows_into_blobs: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScopeAttr {
    Partition,
    Table,
}

const KNOWN: &[&str] = &[
    "row_key",
    "partition_key",
    "table",
    "payload",
    "shape",
    "unique",
    "where",
];
const NAME: &str = "an index needs a name first: `#[index(by_name, row_key = \"…\")]`";

impl IndexAttr {
    /// Parses all indexes of a type.
    pub(crate) fn parse_all(attrs: &[Attribute], errors: &Errors) -> Vec<Self> {
        let own = attrs.iter().filter(|a| a.path().is_ident("index"));
        own.filter_map(|attr| Self::parse(attr, errors)).collect()
    }

    fn parse(attr: &Attribute, errors: &Errors) -> Option<Self> {
        let before = errors.count();
        let items = items(attr, errors);
        let Some((first, rest)) = items.split_first() else {
            if errors.count() == before {
                errors.push(attr, NAME);
            }
            return None;
        };
        if !matches!(first.value, Value::None) {
            errors.push(first, NAME);
            return None;
        }
        if KNOWN.contains(&first.name().as_str()) {
            errors.push(
                first,
                format!(
                    "`{}` cannot be the name of an index, because it is a setting",
                    first.name()
                ),
            );
            return None;
        }
        let mut out = Self {
            name: first.key.clone(),
            row_key: None,
            partition_key: None,
            table: None,
            payload: None,
            shape: None,
            unique: None,
            condition: None,
        };
        rest.iter().for_each(|item| out.read_setting(item, errors));
        Some(out)
    }

    fn read_setting(&mut self, item: &Item, errors: &Errors) {
        match item.name().as_str() {
            "row_key" => set_setting(&mut self.row_key, item.string(errors), item, errors),
            "partition_key" => {
                set_setting(&mut self.partition_key, item.string(errors), item, errors);
            }
            "table" => set_setting(&mut self.table, item.string(errors), item, errors),
            "payload" => set_setting(&mut self.payload, payload(item, errors), item, errors),
            "shape" => set_setting(&mut self.shape, shape(item, errors), item, errors),
            "unique" => set_setting(&mut self.unique, unique(item, errors), item, errors),
            "where" => set_setting(&mut self.condition, item.string(errors), item, errors),
            _ => item.unknown(KNOWN, errors),
        }
    }
}

fn payload(item: &Item, errors: &Errors) -> Option<(TokenStream, PayloadAttr)> {
    let found = payload_of(&item.value);
    if found.is_none() {
        errors.push(
            item,
            "write `payload = full` for all properties, `payload = reference` for none, or `payload = fields(a, b)` for the properties of some fields",
        );
    }
    Some((item.to_token_stream(), found?))
}

fn payload_of(value: &Value) -> Option<PayloadAttr> {
    match value {
        Value::Type(ty) => match name_of(ty)?.to_string().as_str() {
            "full" => Some(PayloadAttr::Full),
            "reference" => Some(PayloadAttr::Reference),
            _ => None,
        },
        Value::List(items) => match items.as_slice() {
            [
                Item {
                    key,
                    value: Value::List(names),
                },
            ] if key == "fields" => names
                .iter()
                .map(Item::word)
                .collect::<Option<_>>()
                .map(PayloadAttr::Fields),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name, if the type is written as a single name.
fn name_of(ty: &Type) -> Option<Ident> {
    match ty {
        Type::Path(path) => path.path.get_ident().cloned(),
        _ => None,
    }
}

fn unique(item: &Item, errors: &Errors) -> Option<(TokenStream, ScopeAttr)> {
    let text = match &item.value {
        Value::Lit(syn::Lit::Str(text)) => text.value(),
        _ => String::new(),
    };
    let scope = match text.as_str() {
        "partition" => Some(ScopeAttr::Partition),
        "table" => Some(ScopeAttr::Table),
        _ => None,
    };
    if scope.is_none() {
        errors.push(
            item,
            "set the scope of uniqueness: `unique = \"partition\"` (the entity's partition) or `unique = \"table\"`",
        );
    }
    Some((item.to_token_stream(), scope?))
}

const SHAPE_OPTIONS: &[&str] = &["bytes", "overflow"];
/// The bounds of the bytes of a list entity. The library has the same limits; the maximum is 14 properties of 64 KiB.
const MIN_BYTES: usize = 256;
const MAX_BYTES: usize = 14 * 64 * 1024;

/// Parses `shape = …`.
fn shape(item: &Item, errors: &Errors) -> Option<ShapeAttr> {
    let shape = match &item.value {
        Value::Type(ty) => match name_of(ty).map(|word| word.to_string()).as_deref() {
            Some("row") => Some(ShapeAttr::Row),
            Some("list") => Some(ShapeAttr::List(ListAttr::default())),
            Some("blob") => Some(ShapeAttr::Blob),
            Some("summary") => Some(ShapeAttr::Summary(SummaryAttr::default())),
            _ => None,
        },
        Value::List(items) => match items.as_slice() {
            [
                Item {
                    key,
                    value: Value::List(settings),
                },
            ] if key == "list" => Some(ShapeAttr::List(list(settings, errors))),
            [
                Item {
                    key,
                    value: Value::List(settings),
                },
            ] if key == "summary" => Some(ShapeAttr::Summary(summary(settings, errors))),
            _ => None,
        },
        _ => None,
    };
    if shape.is_none() {
        errors.push(
            item,
            "write `shape = row`, `shape = list`, `shape = list(bytes = 65536, overflow = blob)`, `shape = blob`, `shape = summary` or \
             `shape = summary(sum(a), min(b), max(c))`",
        );
    }
    shape
}

fn list(settings: &[Item], errors: &Errors) -> ListAttr {
    let (mut bytes, mut overflows_into_blobs) = (None, None);
    for item in settings {
        match item.name().as_str() {
            "bytes" => set_setting(&mut bytes, list_bytes(item, errors), item, errors),
            "overflow" => set_setting(
                &mut overflows_into_blobs,
                overflow(item, errors),
                item,
                errors,
            ),
            _ => item.unknown(SHAPE_OPTIONS, errors),
        }
    }
    ListAttr {
        bytes,
        overflows_into_blobs: overflows_into_blobs.unwrap_or(false),
    }
}

fn summary(settings: &[Item], errors: &Errors) -> SummaryAttr {
    let (mut sums, mut minima, mut maxima) = (None, None, None);
    for item in settings {
        match item.name().as_str() {
            "sum" => set_setting(&mut sums, fields(item, errors), item, errors),
            "min" => set_setting(&mut minima, fields(item, errors), item, errors),
            "max" => set_setting(&mut maxima, fields(item, errors), item, errors),
            _ => item.unknown(&["sum", "min", "max"], errors),
        }
    }
    let [sums, minima, maxima] = [sums, minima, maxima].map(Option::unwrap_or_default);
    SummaryAttr {
        sums,
        minima,
        maxima,
    }
}

fn fields(item: &Item, errors: &Errors) -> Option<Vec<Ident>> {
    let names = match &item.value {
        Value::List(names) => names.iter().map(Item::word).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let names = names.filter(|names| !names.is_empty());
    if names.is_none() {
        errors.push(
            item,
            format!("name the fields in parentheses: `{}(salary)`", item.name()),
        );
    }
    names
}

/// Returns the maximum number of bytes of a list entity.
fn list_bytes(item: &Item, errors: &Errors) -> Option<usize> {
    let number = item.integer(errors)?;
    let bytes = number
        .base10_parse()
        .ok()
        .filter(|bytes| (MIN_BYTES..=MAX_BYTES).contains(bytes));
    if bytes.is_none() {
        errors.push(
            &number,
            format!("a list entity holds {MIN_BYTES} to {MAX_BYTES} bytes of references"),
        );
    }
    bytes
}

/// Returns whether the overflow goes into blobs.
fn overflow(item: &Item, errors: &Errors) -> Option<bool> {
    let word = match &item.value {
        Value::Type(ty) => name_of(ty).map(|word| word.to_string()),
        _ => None,
    };
    let into_blobs = match word.as_deref() {
        Some("entities") => Some(false),
        Some("blob") => Some(true),
        _ => None,
    };
    if into_blobs.is_none() {
        errors.push(item, "write `overflow = entities` to store further references in more list entities, or `overflow = blob` to store them in a blob");
    }
    into_blobs
}
