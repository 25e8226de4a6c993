//! Properties that a store encrypts by a rule, although their type does not mark them.
//!
//! A rule of a store applies to one property name of one table. Patterns derive data from an entity that the rule does not
//! cover: copies under another name or in another table, keys, messages, blobs. Patterns therefore ask the store for the
//! encrypted names ([`TableStore::encrypted_names`]), mark the properties before they derive data, and refuse derived data
//! that cannot be encrypted.

use std::borrow::Cow;

use table_core::model::{Entity, Key, Properties, TableName};
use table_core::store::{EncryptedNames, Error, Result, TableStore};

use crate::index::{Index, Payload, Placement, Shape};

/// The entity, with a mark on each property that the store encrypts.
pub(crate) fn marked<'a>(store: &dyn TableStore, table: &TableName, entity: &'a Entity) -> Cow<'a, Entity> {
    let names = store.encrypted_names(table);
    if names.find_unmarked(entity).is_none() {
        return Cow::Borrowed(entity);
    }
    let mut entity = entity.clone();
    let key = entity.key().clone();
    names.mark(&key, entity.properties_mut());
    Cow::Owned(entity)
}

/// The properties of an entity whose rows have other keys, with the marks that the store's rules give for the entity's key.
///
/// Names without a rule, which the store knows only from encrypted rows, get no mark: the store then refuses plaintext.
pub(crate) fn marked_by_rule<'a>(
    store: &dyn TableStore,
    table: &TableName,
    key: &Key,
    properties: &'a Properties,
) -> Cow<'a, Properties> {
    let mut names = store.encrypted_names(table);
    names.clear_known();
    if names.is_empty() {
        return Cow::Borrowed(properties);
    }
    let mut properties = properties.clone();
    names.mark(key, &mut properties);
    Cow::Owned(properties)
}

/// Refuses an entity with a property that the store encrypts, because `container` (for example a plan) would store it in
/// plaintext.
pub(crate) fn check_no_plaintext(
    store: &dyn TableStore,
    table: &TableName,
    entity: &Entity,
    container: &str,
) -> Result<()> {
    let names = store.encrypted_names(table);
    let Some(name) = names.find_unmarked(entity) else { return Ok(()) };
    Err(plaintext_error(name, entity.key(), container))
}

/// The error for a property that `container` would store in plaintext.
pub(crate) fn plaintext_error(name: &str, key: &Key, container: &str) -> Error {
    Error::invalid_request(format!(
        "the property '{name}' of {key} is to be encrypted, and {container} is not encrypted: move the entity, or write it in a handler"
    ))
}

/// Refuses indexes that would reveal properties which the store encrypts in the entities' table: in keys, in sums, or in
/// other tables without a rule for the rows in which the property is encrypted.
///
/// Declares the names of copies in other tables to the store. The store then refuses plaintext of these names, and
/// filters on them.
pub(crate) fn check_indexes(store: &dyn TableStore, table: &TableName, indexes: &[Index]) -> Result<()> {
    let names = store.encrypted_names(table);
    if names.is_empty() {
        return Ok(());
    }
    for index in indexes {
        check_index(store, table, &names, index)?;
        declare_copies(store, table, &names, index);
    }
    Ok(())
}

/// The first of these properties that an index reveals: that its keys, condition, sums or payload contain.
pub(crate) fn shown<'n>(index: &Index, mut names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // The properties that the Rust code of an opaque index reads are unknown.
    let read = index.properties_read().unwrap_or_default();
    names.find(|name| {
        let sums = matches!(index.shape(), Shape::Summary { sums } if sums.iter().any(|sum| sum == name));
        sums || read.iter().any(|part| part == name) || held_as(index, name).is_some()
    })
}

fn check_index(
    store: &dyn TableStore,
    table: &TableName,
    names: &EncryptedNames,
    index: &Index,
) -> Result<()> {
    let refused = |why: String| Err(Error::invalid_request(format!("the index '{}': {why}", index.name())));
    let read = index.properties_read()?;
    if let Some(name) = names.in_every_row().find(|name| read.iter().any(|part| part == *name)) {
        return refused(format!(
            "its keys or its condition reveal '{name}', which the store encrypts in '{table}', and keys are plaintext: make the key \
             with a blind index, or remove the part; for entries that exist already see `docs/encryption.md`"
        ));
    }
    if let Shape::Summary { sums } = index.shape()
        && let Some(name) = names.in_every_row().find(|name| sums.iter().any(|sum| sum == name))
    {
        return refused(format!(
            "its sums reveal '{name}', which the store encrypts in '{table}': remove the sum; for sums that exist already see \
             `docs/encryption.md`"
        ));
    }
    let target = target(index, table);
    let into = store.encrypted_names(target);
    let has_other_rules = target != table || matches!(index.shape(), Shape::Copy { .. });
    let mut sometimes_encrypted = names.in_some_rows().filter_map(|name| held_as(index, name));
    match sometimes_encrypted.find(|held| has_other_rules && !into.has_rule(held)) {
        None => Ok(()),
        Some(held) => refused(format!(
            "it copies a property that the store encrypts in some rows of '{table}' to '{held}' of '{target}', and no rule says in \
             which rows of '{target}' it is encrypted: give the store a rule for '{held}' of '{target}'"
        )),
    }
}

/// Declares the copies of properties that the store encrypts in every row.
fn declare_copies(store: &dyn TableStore, table: &TableName, names: &EncryptedNames, index: &Index) {
    let target = target(index, table);
    let everywhere = names.iter().filter(|name| !names.in_some_rows().any(|some| some == *name));
    let held: Vec<_> = everywhere.filter_map(|name| held_as(index, name)).collect();
    let held: Vec<&str> = held.iter().map(|name| &**name).collect();
    if !held.is_empty() {
        store.declare_encrypted(target, &held);
    }
}

/// The table that an index writes to.
fn target<'a>(index: &'a Index, table: &'a TableName) -> &'a TableName {
    match index.placement() {
        Placement::OtherTable(other) => other,
        Placement::SamePartition | Placement::OtherPartition => table,
    }
}

/// The name under which an index copies a property; `None` if the index does not copy it.
fn held_as<'a>(index: &Index, name: &'a str) -> Option<Cow<'a, str>> {
    match (index.shape(), index.payload()) {
        (Shape::Copy { prefix, fields }, _) => {
            fields.iter().any(|field| field == name).then(|| Cow::Owned(format!("{prefix}{name}")))
        }
        (Shape::Row, Payload::Full) => Some(Cow::Borrowed(name)),
        (Shape::Row, Payload::Fields(fields)) => {
            fields.iter().any(|field| field == name).then_some(Cow::Borrowed(name))
        }
        _ => None,
    }
}
