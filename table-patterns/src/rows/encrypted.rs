//! Properties that a store encrypts although nothing marks them.
//!
//! A store encrypts by rule what is written to one table under one name. What a pattern derives from an entity goes
//! elsewhere: under another name, into another table, a key, a message, a blob. So patterns ask the store for the names
//! ([`TableStore::encrypted_names`]), mark the properties before they derive anything, and refuse what cannot be encrypted.

use std::borrow::Cow;

use table_core::model::{Entity, Key, Properties, TableName};
use table_core::store::{EncryptedNames, Error, Result, TableStore};

use crate::index::{Index, Payload, Placement, Shape};

/// The entity with the marks that its store would give it.
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

/// The properties of an entity that is stored under other keys than its own, with the marks that rules give it by its
/// own key. Plaintext of what was only met encrypted stays, for the store to refuse.
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

/// Refuses an entity with a property that is to be encrypted, where `what` (a plan, for example) would hold it as plain text.
pub(crate) fn check_no_plaintext(
    store: &dyn TableStore,
    table: &TableName,
    entity: &Entity,
    what: &str,
) -> Result<()> {
    let names = store.encrypted_names(table);
    let Some(name) = names.find_unmarked(entity) else { return Ok(()) };
    Err(plaintext_error(name, entity.key(), what))
}

/// The error of a property that `what` would hold as plain text.
pub(crate) fn plaintext_error(name: &str, key: &Key, what: &str) -> Error {
    Error::invalid_request(format!(
        "the property '{name}' of {key} is to be encrypted, and {what} is not: move the entity, or write it in a handler"
    ))
}

/// Refuses indexes that would show what the store encrypts in the table of the entities: in keys, in sums, or in other tables
/// where no rule says in which rows the property is encrypted. The names of copies in other tables are declared to the store, so that it
/// refuses planted plaintext there, and filters on it.
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

/// The first of these properties that an index reads or copies.
pub(crate) fn shown<'n>(index: &Index, mut names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // What only Rust code reads is not known.
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
            "its keys or its condition show '{name}', which the store encrypts in '{table}', and a key is plain text: make the key by a blind \
             index, or leave the part out; `docs/encryption.md` says what becomes of entries that are there already"
        ));
    }
    if let Shape::Summary { sums } = index.shape()
        && let Some(name) = names.in_every_row().find(|name| sums.iter().any(|sum| sum == name))
    {
        return refused(format!(
            "it sums '{name}', which the store encrypts in '{table}', and a sum would show it: leave it out; sums that are \
             there already: see `docs/encryption.md`"
        ));
    }
    let target = target(index, table);
    let into = store.encrypted_names(target);
    let elsewhere = target != table || matches!(index.shape(), Shape::Copy { .. });
    let mut uneven = names.in_some_rows().filter_map(|name| held_as(index, name));
    match uneven.find(|held| elsewhere && !into.has_rule(held)) {
        None => Ok(()),
        Some(held) => refused(format!(
            "it copies what the store encrypts in some rows of '{table}' as '{held}' into '{target}', where no rule says in \
             which rows that is encrypted: give the store a rule for '{held}' of '{target}'"
        )),
    }
}

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

/// The name under which an index copies a property, if it does.
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
