//! Layouts of entities, and combinations that one type cannot have.

use quote::ToTokens as _;

use super::model::Sources;
use crate::attr::{Container, IndexAttr};
use crate::errors::Errors;
use crate::template::plain;

/// Refuses combinations that no table supports: indexes or large fields of entities that are not stored as
/// one row under their own key.
pub(super) fn check(container: &Container, sources: &Sources<'_>, indexes: &[IndexAttr], errors: &Errors) {
    let of_field = sources.iter().filter_map(|(_, _, attrs)| attrs.partition_key.as_ref());
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
    for (_, _, attrs) in sources {
        let Some(large) = &attrs.large else { continue };
        let problem = format!(
            "`large` cannot be combined with `{layout}`: an entity that is `{layout}` {why}; move large fields to a separate type, or remove one of the attributes"
        );
        errors.push(large.at.to_token_stream(), problem);
    }
}
