//! How entities are stored: what one type cannot be at once.

use quote::ToTokens as _;

use super::model::Sources;
use crate::attr::{Container, IndexAttr};
use crate::errors::Errors;
use crate::template::plain;

/// Refuses what no table keeps of one type: indexes or large fields of entities that are not one row under their key.
pub(super) fn check(container: &Container, sources: &Sources<'_>, indexes: &[IndexAttr], errors: &Errors) {
    let of_field = sources.iter().filter_map(|(_, _, attrs)| attrs.partition_key.as_ref());
    let spread = container.spread.is_some() || of_field.into_iter().any(|key| key.spread.is_some());
    if let Some(wide) = container.wide.as_ref().filter(|_| spread) {
        let problem = "`wide` cannot be combined with `spread`: the rows of a wide entity are in one partition, under a key \
                       that is its own; remove one of them";
        errors.push(wide, problem);
    }
    let (layout, why, table) = if container.wide.is_some() {
        ("wide", "takes several rows, of which an entry or a blob would belong to none alone", "WideTable")
    } else if spread {
        (
            "spread",
            "is moved to another bucket when their number changes, and its entries and blobs would not follow",
            "SpreadTable",
        )
    } else {
        return;
    };
    for index in indexes {
        let name = plain(&index.name);
        let problem = format!(
            "the index `{name}` cannot be kept: an entity that is `{layout}` {why}, and its `{table}` writes no entries; declare the \
             index on a type of its own that holds the keys, or remove `{layout}`"
        );
        errors.push(&index.name, problem);
    }
    for (_, _, attrs) in sources {
        let Some(large) = &attrs.large else { continue };
        let problem = format!(
            "`large` cannot be combined with `{layout}`: an entity that is `{layout}` {why}; keep large fields in a type of their own, \
             or remove one of them"
        );
        errors.push(large.at.to_token_stream(), problem);
    }
}
