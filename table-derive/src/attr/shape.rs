//! Parses `shape = …` of an index.

use super::index::{ListAttr, ShapeAttr, name_of};
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
            _ => None,
        },
        Value::List(items) => match items.as_slice() {
            [Item { key, value: Value::List(settings) }] if key == "list" => {
                Some(ShapeAttr::List(list(settings, errors)))
            }
            _ => None,
        },
        _ => None,
    };
    if shape.is_none() {
        errors.push(
            item,
            "write `shape = row`, `shape = list`, `shape = list(bytes = 65536, overflow = blob)` or `shape = blob`",
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
