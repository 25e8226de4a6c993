//! Properties that a store encrypts by a rule, although their type does not mark them.
//!
//! A rule of a store applies to one property name of one table. Patterns derive data from an entity that the rule does not
//! cover: copies under another name or in another table, keys, messages, blobs. Patterns therefore ask the store for the
//! encrypted names ([`StoreContext::encrypted_names`](table_core::store::StoreContext::encrypted_names)), mark the properties before they derive data, and refuse derived data
//! that cannot be encrypted.

use std::borrow::Cow;

use table_core::model::{Entity, Key, Properties, TableName};
use table_core::store::{Error, Result, TableStore};

/// The entity, with a mark on each property that the store encrypts.
pub(crate) fn marked<'a>(
    store: &dyn TableStore,
    table: &TableName,
    entity: &'a Entity,
) -> Cow<'a, Entity> {
    let names = store.context().encrypted_names(table);
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
    let mut names = store.context().encrypted_names(table);
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
    let names = store.context().encrypted_names(table);
    let Some(name) = names.find_unmarked(entity) else {
        return Ok(());
    };
    Err(plaintext_error(name, entity.key(), container))
}

/// The error for a property that `container` would store in plaintext.
pub(crate) fn plaintext_error(name: &str, key: &Key, container: &str) -> Error {
    Error::misuse(format!(
        "the property '{name}' of {key} is to be encrypted, and {container} is not encrypted: move the entity, or write it in a handler"
    ))
}
