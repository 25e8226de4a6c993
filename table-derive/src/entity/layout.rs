//! Layouts of entities, and combinations that one type cannot have.

use quote::ToTokens;
use syn::LitStr;

use super::model::Sources;
use crate::attr::{Container, IndexAttr};
use crate::errors::Errors;
use crate::template::plain;

/// Refuses combinations that no table supports: indexes, a feed or large fields of entities that are not stored as
/// one row under their own key.
pub(super) fn check(
    container: &Container,
    sources: &Sources<'_>,
    indexes: &[IndexAttr],
    errors: &Errors,
) {
    let of_field = sources
        .iter()
        .filter_map(|(_, _, attrs)| attrs.partition_key.as_ref());
    let spread = container.spread.is_some() || of_field.into_iter().any(|key| key.spread.is_some());
    if let Some(wide) = container.wide.as_ref().filter(|_| spread) {
        let problem = "`wide` cannot be combined with `spread`: the rows of a wide entity need a partition of their own; remove one of them";
        errors.push(wide, problem);
    }
    let (layout, why, table) = if container.wide.is_some() {
        (
            "wide",
            "is stored in several rows, and an entry or a blob cannot belong to one of them",
            "WideTable",
        )
    } else if spread {
        (
            "spread",
            "moves to another bucket when the number of buckets changes, and its entries and blobs would not move",
            "SpreadTable",
        )
    } else {
        return;
    };
    for index in indexes {
        let name = plain(&index.name);
        let problem = format!(
            "the index `{name}` cannot be maintained: an entity that is `{layout}` {why}, and its `{table}` writes no entries; declare the index on a separate type, or remove `{layout}`"
        );
        errors.push(&index.name, problem);
    }
    if let Some(feed) = &container.feed {
        let problem = format!(
            "`feed` cannot be combined with `{layout}`: an entity that is `{layout}` {why}, and its `{table}` writes no changes; remove one of the attributes"
        );
        errors.push(feed, problem);
    }
    for (_, _, attrs) in sources {
        let Some(large) = &attrs.large else { continue };
        let problem = format!(
            "`large` cannot be combined with `{layout}`: an entity that is `{layout}` {why}; move large fields to a separate type, or remove one of the attributes"
        );
        errors.push(large.at.to_token_stream(), problem);
    }
}

/// The buckets that partitions are spread over.
pub(crate) struct Spread {
    pub(crate) buckets: u32,
    /// The salt that is hashed with the RowKey to find the bucket; may be empty.
    pub(crate) salt: String,
}

/// Parses the buckets and the salt from the struct's or the key field's attribute.
pub(super) fn spread(
    container: &Container,
    sources: &Sources<'_>,
    errors: &Errors,
) -> Option<Spread> {
    let of_field = sources
        .iter()
        .find_map(|(_, _, attrs)| attrs.partition_key.as_ref());
    for row in sources
        .iter()
        .filter_map(|(_, _, attrs)| attrs.row_key.as_ref())
    {
        let both = [row.spread.to_token_stream(), row.salt.to_token_stream()];
        for at in both.into_iter().filter(|at| !at.is_empty()) {
            errors.push(
                at,
                "only partitions can be spread: move the setting to the partition key",
            );
        }
    }
    let buckets = one(
        "spread",
        &container.spread,
        of_field.and_then(|key| key.spread.as_ref()),
        errors,
    );
    let salt = one(
        "salt",
        &container.salt,
        of_field.and_then(|key| key.salt.as_ref()),
        errors,
    );
    if let (None, Some(salt)) = (buckets, salt) {
        errors.push(salt, "a salt needs a number of buckets; add `spread = 16`");
    }
    if let Some(salt) = salt.filter(|salt| salt.value().is_empty()) {
        errors.push(salt, "the salt is empty; remove it");
    }
    let literal = buckets?;
    match literal.base10_parse() {
        Ok(buckets @ 2..=1000) => Some(Spread {
            buckets,
            salt: salt.map(LitStr::value).unwrap_or_default(),
        }),
        _ => {
            errors.push(
                literal,
                "expected a number of buckets from 2 to 1000, such as `spread = 16`",
            );
            None
        }
    }
}

/// Returns the setting of the struct or of the key field; both together are an error.
fn one<'a, T: ToTokens>(
    name: &str,
    of_struct: &'a Option<T>,
    of_field: Option<&'a T>,
    errors: &Errors,
) -> Option<&'a T> {
    if let (Some(_), Some(literal)) = (of_struct, of_field) {
        errors.push(
            literal,
            format!("`{name}` is already set on the struct; keep one"),
        );
    }
    of_struct.as_ref().or(of_field)
}
