//! Parses `shape = …` of an index.

use syn::Ident;

use super::index::{ListAttr, ShapeAttr, SummaryAttr, name_of};
use super::item::{Item, Value, set};
use crate::errors::Errors;

const KNOWN: &[&str] = &["bytes", "overflow"];
/// The allowed bytes of a list entity; the library has the same limits.
const MIN_BYTES: usize = 256;
const MAX_BYTES: usize = 14 * 64 * 1024;

pub(super) fn shape(item: &Item, errors: &Errors) -> Option<ShapeAttr> {
    let shape = match &item.value {
        Value::Type(ty) => match name_of(ty).map(|word| word.to_string()).as_deref() {
            Some("row") => Some(ShapeAttr::Row),
            Some("list") => Some(ShapeAttr::List(ListAttr::default())),
            Some("blob") => Some(ShapeAttr::Blob),
            Some("summary") => Some(ShapeAttr::Summary(SummaryAttr::default())),
            _ => None,
        },
        Value::List(items) => match items.as_slice() {
            [Item { key, value: Value::List(settings) }] if key == "list" => {
                Some(ShapeAttr::List(list(settings, errors)))
            }
            [Item { key, value: Value::List(settings) }] if key == "summary" => {
                Some(ShapeAttr::Summary(summary(settings, errors)))
            }
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
    let (mut bytes_of, mut overflow_of) = (None, None);
    for item in settings {
        match item.name().as_str() {
            "bytes" => set(&mut bytes_of, bytes(item, errors), item, errors),
            "overflow" => set(&mut overflow_of, overflow(item, errors), item, errors),
            _ => item.unknown(KNOWN, errors),
        }
    }
    ListAttr { bytes: bytes_of, overflows_into_blobs: overflow_of.unwrap_or(false) }
}

fn summary(settings: &[Item], errors: &Errors) -> SummaryAttr {
    let (mut sums, mut minima, mut maxima) = (None, None, None);
    for item in settings {
        match item.name().as_str() {
            "sum" => set(&mut sums, fields(item, errors), item, errors),
            "min" => set(&mut minima, fields(item, errors), item, errors),
            "max" => set(&mut maxima, fields(item, errors), item, errors),
            _ => item.unknown(&["sum", "min", "max"], errors),
        }
    }
    let [sums, minima, maxima] = [sums, minima, maxima].map(Option::unwrap_or_default);
    SummaryAttr { sums, minima, maxima }
}

fn fields(item: &Item, errors: &Errors) -> Option<Vec<Ident>> {
    let names = match &item.value {
        Value::List(names) => names.iter().map(Item::word).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let names = names.filter(|names| !names.is_empty());
    if names.is_none() {
        errors.push(item, format!("name fields: `{}(salary)`", item.name()));
    }
    names
}

fn bytes(item: &Item, errors: &Errors) -> Option<usize> {
    let number = item.integer(errors)?;
    let bytes = number.base10_parse().ok().filter(|bytes| (MIN_BYTES..=MAX_BYTES).contains(bytes));
    if bytes.is_none() {
        errors.push(&number, format!("a list entity holds {MIN_BYTES} to {MAX_BYTES} bytes of references"));
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
        errors.push(item, "write `overflow = entities`, more list entities, or `overflow = blob`");
    }
    into_blobs
}
