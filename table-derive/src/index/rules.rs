//! What indexes may not be, one function per rule.

use syn::LitStr;

use super::model::{Context, Index, Placement};
use crate::attr::{IndexAttr, PayloadAttr, ScopeAttr, ShapeAttr};
use crate::entity::{Discriminator, mentions};
use crate::errors::Errors;
use crate::fields::{Field, Role, is_fixed, is_text};
use crate::template::{Part, Segment, Template, plain};

/// Names are what the catalog, the lookups and their types are called by.
pub(super) fn check_names(attrs: &[IndexAttr], errors: &Errors) {
    for (n, attr) in attrs.iter().enumerate() {
        if attrs[..n].iter().any(|other| other.name == attr.name) {
            errors.push(&attr.name, format!("another index is called `{}` already; rename one", attr.name));
        }
    }
}

/// Entries of two indexes at the same keys would overwrite each other.
pub(super) fn check_places(built: &[Index], errors: &Errors) {
    for (n, index) in built.iter().enumerate() {
        if let Some(other) = built[..n].iter().find(|other| place(other) == place(index)) {
            let message = format!(
                "the index `{}` has its entries at the same keys; start the templates with other text",
                other.name
            );
            errors.push(&index.row.text, message);
        }
    }
}

fn place(index: &Index) -> (Option<String>, Option<String>, String) {
    let table = index.table.as_ref().map(|table| table.value().to_ascii_lowercase());
    (table, index.partition.as_ref().map(Template::display), index.row.display())
}

/// The rules of one index.
pub(super) fn check(index: &Index, cx: &Context<'_>, errors: &Errors) {
    index.table.iter().for_each(|table| check_table(table, errors));
    index.templates().for_each(|template| check_fields(template, cx, errors));
    check_shards(index, cx, errors);
    check_payload(index, cx, errors);
    check_unique(index, errors);
    check_shape(index, errors);
    check_distinct(index, cx, errors);
    check_told(index, cx, errors);
    check_apart(index, cx, errors);
}

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names>
fn check_table(table: &LitStr, errors: &Errors) {
    let name = table.value();
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric());
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !letters || !starts || !(3..=63).contains(&name.len()) || name.eq_ignore_ascii_case("tables") {
        let rule = "3 to 63 letters and digits, a letter first, and not `tables`";
        errors.push(table, format!("`{name}` cannot name a table: use {rule}"));
    }
}

/// A key needs a stored value that may be seen.
fn check_fields(template: &Template, cx: &Context<'_>, errors: &Errors) {
    for part in template.parts() {
        let Some(field) = field(part, cx) else { continue };
        let name = plain(&field.ident);
        let problem = match &field.role {
            Role::Property(property) if property.encrypt => {
                "is encrypted, and a key is plain text: index another field, or remove `#[encrypt]`"
            }
            Role::Key | Role::Property(_) => "",
            Role::Flatten => "is several properties: index a field of the entity itself",
            Role::Skip(_) => "is not stored, so no entry could follow it: index a stored field",
            Role::Rest => "is several properties: give the one to index a field of its own",
            Role::ETag | Role::Timestamp => {
                "is set by the store after the entry is written: index another field"
            }
        };
        if !problem.is_empty() {
            errors.push(&template.text, format!("`{name}` {problem}"));
        } else if !field.is_key() && mentions(&field.ty, cx.generics) {
            errors.push(
                &field.ty,
                "an indexed field cannot have a generic type: the index's template is checked here",
            );
        }
    }
}

/// A shard is of text that the row key starts with: what else would tell the values of a shard apart?
fn check_shards(index: &Index, cx: &Context<'_>, errors: &Errors) {
    if index.row.shard().is_some() {
        let problem = "a shard divides partitions: write it into the `partition_key`, and the value here";
        errors.push(&index.row.text, problem);
    }
    let Some((template, shard)) = index.partition.as_ref().and_then(|t| Some((t, t.shard()?))) else {
        return;
    };
    let name = plain(&shard.field);
    if template.parts().filter(|part| part.shards.is_some()).count() > 1 {
        errors.push(&template.text, "one shard is enough: remove the others");
    }
    if field(shard, cx).is_some_and(|f| !is_text(f.value_type())) {
        errors
            .push(&template.text, format!("a shard is made of text, and `{name}` is none: index a `String`"));
    }
    if index.row.parts().next().is_none_or(|first| first.field != shard.field) {
        let remedy = format!("start its fields with `{{{name}}}`");
        errors.push(&index.row.text, format!("the row key is to tell the values of a shard apart: {remedy}"));
    }
}

fn check_payload(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let PayloadAttr::Fields(names) = &index.payload else { return };
    if names.is_empty() {
        errors.push(&index.payload_at, "an entry without fields is `payload = reference`");
    }
    for (n, name) in names.iter().enumerate() {
        let role = cx.fields.iter().find(|f| f.ident == *name).map(|f| &f.role);
        let problem = match role {
            None => {
                let fields = cx.fields.iter().filter(|f| f.property().is_some());
                let fields: Vec<_> = fields.map(|f| format!("`{}`", plain(&f.ident))).collect();
                format!("there is no field `{name}`; an entry can hold {}", fields.join(", "))
            }
            Some(Role::Key) => {
                format!("`{name}` is in the entity's key, which every entry holds; remove it here")
            }
            Some(Role::Property(_)) if names[..n].contains(name) => format!("`{name}` is listed twice"),
            Some(Role::Property(_)) => continue,
            Some(_) => format!("`{name}` is not one stored property; name a field that is"),
        };
        errors.push(name, problem);
    }
}

fn check_unique(index: &Index, errors: &Errors) {
    let problem = match (index.unique, &index.partition) {
        (Some(ScopeAttr::Partition), Some(_)) => {
            "entries with a `partition_key` of their own leave the entity's partition, so they cannot be unique \
             within it: remove `partition_key`, or write `unique = \"table\"`"
        }
        (Some(ScopeAttr::Table), None) => {
            "entries without a `partition_key` are kept by the entity's, so they can only be unique within it: \
             write `unique = \"partition\"`, or give the index a `partition_key`"
        }
        _ => return,
    };
    errors.push(&index.unique_at, problem);
}

fn check_shape(index: &Index, errors: &Errors) {
    let shape = match index.shape {
        ShapeAttr::Row => return,
        ShapeAttr::List(_) => "list",
        ShapeAttr::Blob => "blob",
    };
    if index.unique.is_some() {
        let message = format!("a {shape} holds many references, a unique key has one: remove one of the two");
        errors.push(&index.unique_at, message);
    }
    if !matches!(index.payload, PayloadAttr::Reference) {
        let message =
            format!("a {shape} holds references alone: remove `payload`, or the shape for a row each");
        errors.push(&index.payload_at, message);
    }
}

/// Two entities must not have one row between them: the later would replace the earlier.
fn check_distinct(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let missing = missing(index, cx);
    if index.shape != ShapeAttr::Row {
        if missing.is_empty() && cx.row.is_some() {
            let problem = "the key has the whole key of the entity, so each list would hold one reference: leave \
                           a part out, or remove `shape`";
            errors.push(&index.row.text, problem);
        }
    } else if index.unique.is_none() && !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|part| format!("`{}`", plain(&part.field))).collect();
        let whole: Vec<_> =
            missing.iter().map(|part| Template::display_of(&Segment::Part((*part).clone()))).collect();
        let remedy = format!("{}_{}", index.row.display(), whole.join("_"));
        let message = format!(
            "two entities that differ in {} would have the same entry: write `row_key = \"{remedy}\"`, or declare \
             the index `unique = \"…\"` or `shape = list`",
            names.join(", ")
        );
        errors.push(&index.row.text, message);
    }
}

/// The parts of the entity's key that the entry's key does not tell.
fn missing<'a>(index: &Index, cx: &Context<'a>) -> Vec<&'a Part> {
    let own = if index.partition.is_none() { cx.partition } else { None };
    let told = |part: &&Part| {
        let parts = index.parts().chain(own.into_iter().flat_map(Template::parts));
        parts.into_iter().any(|p| p.field == part.field && p.shards.is_none())
    };
    let mut missing: Vec<&Part> = Vec::new();
    for part in cx.partition.into_iter().chain(cx.row).flat_map(Template::parts).filter(|p| !told(p)) {
        if !missing.iter().any(|m| m.field == part.field) {
            missing.push(part);
        }
    }
    missing
}

/// In the table of the entities, something must tell entries from them.
fn check_told(index: &Index, cx: &Context<'_>, errors: &Errors) {
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
        Some(Discriminator::None) => "nothing tells its entries from entities in the same table".to_owned(),
        Some(Discriminator::RowPrefix(prefix)) if starts(Some(&index.row), prefix) => {
            format!("its row keys may start with {prefix:?}, which tells entities")
        }
        Some(Discriminator::PartitionPrefix(prefix)) if starts(index.partition.as_ref(), prefix) => {
            format!("its partition keys may start with {prefix:?}, which tells entities")
        }
        Some(_) => return,
    };
    let remedy = "name the type by `#[entity(type = \"…\")]`, or put entries elsewhere by `table = \"…\"`";
    errors.push(&index.name, format!("the index `{}`: {problem}; {remedy}", plain(&index.name)));
}

/// No entry may be where an entity can be. What only the values tell is checked when they are written.
fn check_apart(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let (Some(partition), Some(row)) = (cx.partition, cx.row) else { return };
    let same_partition = index.partition.as_ref().is_none_or(|own| meets(own, partition, cx));
    if index.placement() == Placement::OtherTable || !same_partition {
        return;
    }
    let problem = if index.row.display() == row.display() {
        "is that of the entity itself"
    } else if meets(&index.row, row, cx) {
        "may be that of an entity, whose row key can be any text"
    } else {
        return;
    };
    let remedy =
        "start the row key of the entity, or of the index, with text of its own, as in `\"email_{email}\"`";
    errors.push(&index.row.text, format!("the key of an entry {problem}: {remedy}"));
}

/// Whether every key of the first template may be one of the second.
fn meets(own: &Template, other: &Template, cx: &Context<'_>) -> bool {
    let any_text = matches!(&*other.segments, [Segment::Part(part)] if is_any_text(part, cx));
    any_text || own.display() == other.display()
}

fn is_any_text(part: &Part, cx: &Context<'_>) -> bool {
    part.shards.is_none() && field(part, cx).is_some_and(|f| is_text(&f.ty) && !is_fixed(&f.ty))
}

fn field<'a>(part: &Part, cx: &Context<'a>) -> Option<&'a Field> {
    cx.fields.iter().find(|f| f.ident == part.field)
}
