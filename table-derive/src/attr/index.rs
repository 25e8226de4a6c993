use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, Ident, LitStr, Type};

use super::item::{Item, Value, items, set};
use super::shape::shape;
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

const KNOWN: &[&str] = &["row_key", "partition_key", "table", "payload", "shape", "unique", "where"];
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
                format!("`{}` cannot be the name of an index, because it is a setting", first.name()),
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
        rest.iter().for_each(|item| out.take(item, errors));
        Some(out)
    }

    fn take(&mut self, item: &Item, errors: &Errors) {
        match item.name().as_str() {
            "row_key" => set(&mut self.row_key, item.string(errors), item, errors),
            "partition_key" => set(&mut self.partition_key, item.string(errors), item, errors),
            "table" => set(&mut self.table, item.string(errors), item, errors),
            "payload" => set(&mut self.payload, payload(item, errors), item, errors),
            "shape" => set(&mut self.shape, shape(item, errors), item, errors),
            "unique" => set(&mut self.unique, unique(item, errors), item, errors),
            "where" => set(&mut self.condition, item.string(errors), item, errors),
            _ => item.unknown(KNOWN, errors),
        }
    }
}

fn payload(item: &Item, errors: &Errors) -> Option<(TokenStream, PayloadAttr)> {
    let found = payload_of(&item.value);
    if found.is_none() {
        errors.push(
            item,
            "write `payload = full`, `payload = reference`, or `payload = fields(a, b)` for some of them",
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
            [Item { key, value: Value::List(names) }] if key == "fields" => {
                names.iter().map(Item::word).collect::<Option<_>>().map(PayloadAttr::Fields)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name, if the type is written as a single name.
pub(super) fn name_of(ty: &Type) -> Option<Ident> {
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
