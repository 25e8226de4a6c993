//! Every entry needs its own row, different from other entries and from entities.

use super::field;
use crate::attr::ShapeAttr;
use crate::entity::Discriminator;
use crate::entity::index::model::{Context, Index, Placement};
use crate::errors::Errors;
use crate::fields::{is_fixed, is_text};
use crate::template::{Part, Segment, Template, plain};

pub(super) fn check(index: &Index, cx: &Context<'_>, errors: &Errors) {
    check_distinct(index, cx, errors);
    check_distinguishable(index, cx, errors);
    check_entity_keys(index, cx, errors);
}

/// Two entities must not share an entry: the second would replace the first.
fn check_distinct(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let missing = missing(index, cx);
    if !matches!(index.shape, ShapeAttr::Row) {
        if missing.is_empty() && cx.row.is_some() {
            let problem = "the key has the whole key of the entity, so each list would hold one reference: leave \
                           a part out, or remove `shape`";
            errors.push(&index.row.text, problem);
        }
    } else if index.unique.is_none() && !missing.is_empty() {
        let names: Vec<_> = missing
            .iter()
            .map(|part| format!("`{}`", plain(&part.field)))
            .collect();
        let whole: Vec<_> = missing
            .iter()
            .map(|part| Template::display_of(&Segment::Part((*part).clone())))
            .collect();
        let remedy = format!("{}_{}", index.row.display(), whole.join("_"));
        let message = format!(
            "two entities that differ in {} would have the same entry: write `row_key = \"{remedy}\"`, or declare \
             the index `unique = \"…\"` or `shape = list`",
            names.join(", ")
        );
        errors.push(&index.row.text, message);
    }
}

/// Returns the parts of the entity's key that the entry's key does not contain.
fn missing<'a>(index: &Index, cx: &Context<'a>) -> Vec<&'a Part> {
    // An entry in the entity's partition has its PartitionKey, and with it the fields of that key.
    let own = if index.partition.is_none() {
        cx.partition
    } else {
        None
    };
    let is_contained = |part: &&Part| {
        let parts = index
            .parts()
            .chain(own.into_iter().flat_map(Template::parts));
        parts
            .into_iter()
            .any(|p| p.field == part.field && p.identifies_value())
    };
    let mut missing: Vec<&Part> = Vec::new();
    for part in cx
        .partition
        .into_iter()
        .chain(cx.row)
        .flat_map(Template::parts)
        .filter(|p| !is_contained(p))
    {
        if !missing.iter().any(|m| m.field == part.field) {
            missing.push(part);
        }
    }
    missing
}

/// In the table of the entities, entries must be distinguishable from entities.
fn check_distinguishable(index: &Index, cx: &Context<'_>, errors: &Errors) {
    if index.placement() == Placement::OtherTable {
        return;
    }
    let starts = |template: Option<&Template>, prefix: &str| {
        template
            .and_then(Template::prefix)
            .is_none_or(|own| own.starts_with(prefix) || prefix.starts_with(own))
    };
    let problem = match cx.discriminator {
        None | Some(Discriminator::Property(_)) => return,
        Some(Discriminator::None) => {
            "its entries cannot be distinguished from entities in the same table".to_owned()
        }
        Some(Discriminator::RowPrefix(prefix)) if starts(Some(&index.row), prefix) => {
            format!("its RowKeys may start with {prefix:?}, which identifies entities")
        }
        Some(Discriminator::PartitionPrefix(prefix))
            if starts(index.partition.as_ref(), prefix) =>
        {
            format!("its PartitionKeys may start with {prefix:?}, which identifies entities")
        }
        Some(_) => return,
    };
    let remedy = "name the type with `#[entity(type = \"…\")]`, or use another table for entries with `table = \"…\"`";
    errors.push(
        &index.name,
        format!("the index `{}`: {problem}; {remedy}", plain(&index.name)),
    );
}

/// An entry must not have the key of an entity. Cases that depend on values are checked when entries are
/// written.
fn check_entity_keys(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let (Some(partition), Some(row)) = (cx.partition, cx.row) else {
        return;
    };
    let same_partition = index
        .partition
        .as_ref()
        .is_none_or(|own| may_equal(own, partition, cx));
    if index.placement() == Placement::OtherTable || !same_partition {
        return;
    }
    let problem = if index.row.display() == row.display() {
        "is the key of the entity itself"
    } else if may_equal(&index.row, row, cx) {
        "may be the key of an entity, because its row key can be any text"
    } else {
        return;
    };
    let remedy = "start the row key of the entity or of the index with distinct text, as in `\"email_{email}\"`";
    errors.push(
        &index.row.text,
        format!("the key of an entry {problem}: {remedy}"),
    );
}

/// Whether every key of the first template may be a key of the second.
fn may_equal(own: &Template, other: &Template, cx: &Context<'_>) -> bool {
    // A template of one text field without literals accepts every key. All other pairs are compared when entries are
    // written.
    let any_text = matches!(&*other.segments, [Segment::Part(part)] if is_any_text(part, cx));
    any_text || own.display() == other.display()
}

fn is_any_text(part: &Part, cx: &Context<'_>) -> bool {
    part.shards.is_none()
        && part.prefix().is_none()
        && field(part, cx).is_some_and(|f| is_text(&f.ty) && !is_fixed(&f.ty))
}
