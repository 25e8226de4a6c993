//! The rules of indexes, one function per rule.

mod key_collision;

use syn::LitStr;

use super::condition;
use super::model::{Context, Index};
use crate::attr::{IndexAttr, PayloadAttr, ScopeAttr, ShapeAttr};
use crate::entity::mentions;
use crate::errors::Errors;
use crate::fields::{Field, Role, is_text};
use crate::template::{Part, Template, plain};

/// The manifest, the lookups and their types are named after an index, so names must be unique.
pub(super) fn check_names(attrs: &[IndexAttr], errors: &Errors) {
    for (n, attr) in attrs.iter().enumerate() {
        if attrs[..n].iter().any(|other| other.name == attr.name) {
            errors.push(
                &attr.name,
                format!(
                    "another index is called `{}` already; rename one",
                    attr.name
                ),
            );
        }
    }
}

/// Entries of two indexes with the same keys would overwrite each other. Field names do not matter, because a
/// value of one index may also occur in the other.
pub(super) fn check_places(built: &[Index], errors: &Errors) {
    for (n, index) in built.iter().enumerate() {
        if let Some(other) = built[..n]
            .iter()
            .find(|other| key_space(other) == key_space(index))
        {
            let message = format!(
                "the index `{}` can have entries with the same keys; start the templates with different text",
                other.name
            );
            errors.push(&index.row.text, message);
        }
    }
}

/// Returns the table of an index and the outlines of its keys. If they are equal for two indexes, entries of both can have the
/// same key.
fn key_space(index: &Index) -> (Option<String>, Option<String>, String) {
    let table = index
        .table
        .as_ref()
        .map(|table| table.value().to_ascii_lowercase());
    (
        table,
        index.partition.as_ref().map(Template::outline),
        index.row.outline(),
    )
}

/// Checks the rules of one index.
pub(super) fn check(index: &Index, cx: &Context<'_>, errors: &Errors) {
    index
        .table
        .iter()
        .for_each(|table| check_table(table, errors));
    index
        .templates()
        .for_each(|template| check_fields(template, cx, errors));
    check_shards(index, cx, errors);
    check_lists(index, cx, errors);
    check_aliases(index, cx, errors);
    check_condition(index, cx, errors);
    check_payload(index, cx, errors);
    check_unique(index, errors);
    check_shape(index, errors);
    check_summary(index, cx, errors);
    key_collision::check(index, cx, errors);
}

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#table-names>
fn check_table(table: &LitStr, errors: &Errors) {
    let name = table.value();
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric());
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    if !letters || !starts || !(3..=63).contains(&name.len()) || name.eq_ignore_ascii_case("tables")
    {
        let rule = "3 to 63 letters and digits, a letter first, and not `tables`";
        errors.push(table, format!("`{name}` cannot name a table: use {rule}"));
    }
}

/// A key needs a stored value that is not encrypted.
fn check_fields(template: &Template, cx: &Context<'_>, errors: &Errors) {
    for part in template.parts() {
        let Some(field) = field(part, cx) else {
            continue;
        };
        let name = plain(&field.ident);
        let problem = match &field.role {
            Role::Property(property) if property.encrypt => {
                "is encrypted, and a key is plain text: index another field, or remove `#[encrypt]`"
            }
            Role::Property(property) if property.large.is_some() => {
                "is large, and its value may be in a blob: index another field, or remove `#[large]`"
            }
            Role::Property(property) if property.split => {
                "is split, and its value may be in several properties: index another field, or remove `split`"
            }
            Role::Key | Role::Property(_) => "",
            Role::Flatten(_) => "is several properties: index a field of the entity itself",
            Role::Skip(_) => "is not stored, so no entry could follow it: index a stored field",
            Role::Rest => "is several properties: add a field for the property to index",
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

/// A shard must be made of text that the RowKey starts with, because nothing else distinguishes the values of
/// a shard.
fn check_shards(index: &Index, cx: &Context<'_>, errors: &Errors) {
    if index.row.shard().is_some() {
        let problem = "a shard belongs into the `partition_key`; write the value here";
        errors.push(&index.row.text, problem);
    }
    let Some((template, shard)) = index.partition.as_ref().and_then(|t| Some((t, t.shard()?)))
    else {
        return;
    };
    let name = plain(&shard.field);
    if template
        .parts()
        .filter(|part| part.shards.is_some())
        .count()
        > 1
    {
        errors.push(
            &template.text,
            "a template can have one shard; remove the others",
        );
    }
    if field(shard, cx).is_some_and(|f| !is_text(f.part_type())) {
        errors.push(
            &template.text,
            format!("a shard is made of text, and `{name}` is not text: index a `String`"),
        );
    }
    // A lookup by the value reads one shard, in which other values are too. With the value first, its entries are one
    // range.
    if index
        .row
        .parts()
        .next()
        .is_none_or(|first| first.field != shard.field)
    {
        let remedy = format!("start its fields with `{{{name}}}`");
        errors.push(
            &index.row.text,
            format!("the row key must distinguish the values of a shard: {remedy}"),
        );
    }
}

/// A list gives a key per element. Only one list is allowed; two would give a key per pair of elements.
fn check_lists(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let mut list: Option<&Part> = None;
    // One list may occur in both templates; each element is then in both keys.
    for (template, part) in index
        .templates()
        .flat_map(|t| t.parts().map(move |part| (t, part)))
    {
        let Some(field) = field(part, cx) else {
            continue;
        };
        let name = plain(&field.ident);
        match (part.each, field.element_type().is_some()) {
            (true, false) => {
                let problem = format!(
                    "`{name}` is not a list stored as JSON: write `{{{name}}}`, or `#[entity(json)]` on a `Vec` of text or integers"
                );
                errors.push(&template.text, problem);
            }
            (false, true) => {
                errors.push(
                    &template.text,
                    format!(
                        "`{name}` is a list: write `{{{name}[]}}` for an entry for each element"
                    ),
                );
            }
            (true, true) if list.is_some_and(|list| list.field != part.field) => {
                errors.push(
                    &template.text,
                    "an index can cover one list; declare another index for the other list",
                );
            }
            (true, true) => list = Some(part),
            (false, false) => {}
        }
    }
}

/// Programs without the Rust type compute entries from the stored properties, and do not know former names.
fn check_aliases(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let renamed = |field: &&Field| {
        field
            .property()
            .is_some_and(|property| !property.aliases.is_empty())
    };
    for field in cx
        .fields
        .iter()
        .filter(renamed)
        .filter(|field| index.depends_on(field, cx.fields))
    {
        let (name, index) = (plain(&field.ident), plain(&index.name));
        let problem = format!(
            "`{name}` has an alias, and the index `{index}` depends on it: the entries of rows with the former name would be wrong; \
             rename the property by a schema `version` and `upgrade_all` instead"
        );
        errors.push(&field.ident, problem);
    }
}

/// A condition is a filter over stored properties.
fn check_condition(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let Some(text) = &index.condition else { return };
    let names = match condition::names(&text.value()) {
        Ok(names) => names,
        Err(problem) => {
            errors.push(
                text,
                format!("{problem}; write a filter such as `\"Status eq 'open'\"`"),
            );
            return;
        }
    };
    // The properties of a flattened struct and of the rest are not known here.
    let is_open = cx
        .fields
        .iter()
        .any(|f| matches!(f.role, Role::Flatten(_) | Role::Rest));
    for name in names {
        let property = cx
            .fields
            .iter()
            .filter_map(Field::property)
            .find(|property| property.name == name);
        let problem = match property {
            Some(property) if property.encrypt => {
                "is encrypted, and the existence of an entry would reveal its value: use another property"
            }
            Some(property) if property.large.is_some() => {
                "is large, and its value may be in a blob: use another property"
            }
            Some(property) if property.split => {
                "is split, and its value may be in several properties: use another property"
            }
            None if name == "Timestamp" => {
                "is set by the store after the entry is written: use another property"
            }
            None if !is_open && name != "PartitionKey" && name != "RowKey" => {
                "is not a property of the entity; use the stored names in a filter"
            }
            _ => continue,
        };
        errors.push(text, format!("`{name}` {problem}"));
    }
}

/// The entity's row alone determines the blob of a large value. An entry with the blob's name would keep it
/// after the blob is deleted.
fn check_payload(index: &Index, cx: &Context<'_>, errors: &Errors) {
    if matches!(index.payload, PayloadAttr::Full)
        && let Some(large) = cx
            .fields
            .iter()
            .find(|f| f.property().is_some_and(|p| p.large.is_some()))
    {
        let message = format!(
            "`{}` is large, and no entry can hold it, since its value may be in a blob: name the others, `payload = fields(…)`, or \
             remove `payload`",
            plain(&large.ident)
        );
        errors.push(&index.payload_at, message);
    }
    let PayloadAttr::Fields(names) = &index.payload else {
        return;
    };
    if names.is_empty() {
        errors.push(
            &index.payload_at,
            "an entry without fields is `payload = reference`",
        );
    }
    for (n, name) in names.iter().enumerate() {
        let role = cx.fields.iter().find(|f| f.ident == *name).map(|f| &f.role);
        let problem = match role {
            None => {
                let fields = cx.fields.iter().filter(|f| f.property().is_some());
                let fields: Vec<_> = fields.map(|f| format!("`{}`", plain(&f.ident))).collect();
                format!(
                    "there is no field `{name}`; an entry can hold {}",
                    fields.join(", ")
                )
            }
            Some(Role::Key) => {
                format!("`{name}` is in the entity's key, which every entry holds; remove it here")
            }
            Some(Role::Property(_)) if names[..n].contains(name) => {
                format!("`{name}` is listed twice")
            }
            Some(Role::Property(property)) if property.large.is_some() => {
                format!(
                    "`{name}` is large, and no entry can hold it, since its value may be in a blob: leave it out"
                )
            }
            Some(Role::Property(property)) if property.split => {
                format!(
                    "`{name}` is split, and its value may be in several properties: leave it out, or write `payload = full`"
                )
            }
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
            "entries without a `partition_key` are in the entity's partition, so they can be unique only within it: \
             write `unique = \"partition\"`, or give the index a `partition_key`"
        }
        _ => return,
    };
    errors.push(&index.unique_at, problem);
}

fn check_shape(index: &Index, errors: &Errors) {
    let shape = match &index.shape {
        ShapeAttr::Row => return,
        ShapeAttr::List(_) => "list",
        ShapeAttr::Blob => "blob",
        ShapeAttr::Summary(_) => "summary",
    };
    if shape == "summary" && index.unique.is_some() {
        errors.push(
            &index.unique_at,
            "a summary counts many entities, and a unique key belongs to one: remove `unique`, or the shape",
        );
    } else if index.unique.is_some() {
        let message = format!(
            "a {shape} holds many references, and a unique key belongs to one entity: remove `unique`, or the shape"
        );
        errors.push(&index.unique_at, message);
    }
    if shape == "summary" && !matches!(index.payload, PayloadAttr::Reference) {
        errors.push(
            &index.payload_at,
            "a summary holds only numbers: remove `payload`",
        );
    } else if !matches!(index.payload, PayloadAttr::Reference) {
        let message = format!(
            "a {shape} holds only references: remove `payload`, or remove the shape to store a row for each entity"
        );
        errors.push(&index.payload_at, message);
    }
}

/// A summary is written in the group of its entity. It shows its values in plain text, by the stored properties.
fn check_summary(index: &Index, cx: &Context<'_>, errors: &Errors) {
    let ShapeAttr::Summary(summary) = &index.shape else {
        return;
    };
    if index.partition.is_some() || index.table.is_some() {
        errors.push(
            &index.name,
            "a summary must be in the entity's partition, where the transaction of each write changes it: remove `partition_key` and \
             `table`",
        );
    }
    for name in summary.fields() {
        let role = cx.fields.iter().find(|f| f.ident == *name).map(|f| &f.role);
        let problem = match role {
            None => "is not a field of the type: name a number or a time",
            Some(Role::Property(property)) if property.encrypt => {
                "is encrypted, and a summary would store its values in plain text: remove it here, or remove `#[encrypt]`"
            }
            Some(Role::Property(property)) if property.large.is_some() || property.split => {
                "is text or bytes, which have no sum and no order here: name a number or a time"
            }
            Some(Role::Property(property)) if property.default.is_some() => {
                "has a default, which rows without the property do not have: make it an `Option`"
            }
            Some(Role::Property(_)) => continue,
            Some(Role::Key) => "is in the entity's key: store it as a property too",
            Some(_) => "is not one stored property; name a field that is",
        };
        errors.push(name, format!("`{}` {problem}", plain(name)));
    }
}

fn field<'a>(part: &Part, cx: &Context<'a>) -> Option<&'a Field> {
    cx.fields.iter().find(|f| f.ident == part.field)
}
