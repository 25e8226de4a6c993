//! What the entries of an index show of properties that a store encrypts.

use std::borrow::Cow;

use table_core::model::TableName;
use table_core::store::{EncryptedNames, Error, Result, TableStore};

use super::{Index, Payload, Shape};

/// Refuses indexes that would reveal properties which the store encrypts in the entities' table: in keys, in sums, or in
/// other tables without a rule for the rows in which the property is encrypted.
///
/// Declares the names of copies to the store. The store then refuses plaintext of these names, and filters on them.
pub(crate) fn check_and_declare_copies(
    store: &dyn TableStore,
    table: &TableName,
    indexes: &[Index],
) -> Result<()> {
    let names = store.context().encrypted_names(table);
    if names.is_empty() {
        return Ok(());
    }
    for index in indexes {
        check_index(store, table, &names, index)?;
        declare_copies(store, table, &names, index);
    }
    Ok(())
}

/// The first of these properties that an index reveals in its keys, condition, sums or payload.
pub(crate) fn first_revealed<'n>(
    index: &Index,
    mut names: impl Iterator<Item = &'n str>,
) -> Option<&'n str> {
    // The properties that the Rust code of an opaque index reads are unknown: such an index counts as reading none. `Index::new` tells its
    // author to use a blind index.
    let read = index.properties_read().unwrap_or_default();
    names.find(|name| {
        let is_summarized = index
            .shape()
            .summarized()
            .any(|summarized| summarized == *name);
        is_summarized || read.iter().any(|part| part == name) || copied_name(index, name).is_some()
    })
}

fn check_index(
    store: &dyn TableStore,
    table: &TableName,
    names: &EncryptedNames,
    index: &Index,
) -> Result<()> {
    let refused = |why: String| {
        Err(Error::invalid_declaration(format!(
            "the index '{}': {why}",
            index.name()
        )))
    };
    let read = index.properties_read()?;
    if let Some(name) = names
        .in_every_row()
        .find(|name| read.iter().any(|part| part == *name))
    {
        return refused(format!(
            "its keys or its condition reveal '{name}', which the store encrypts in '{table}', and keys are plaintext: make the key \
             with a blind index, or remove the part; for entries that exist already see `docs/encryption.md`"
        ));
    }
    let is_summarized = |name: &&str| {
        index
            .shape()
            .summarized()
            .any(|summarized| summarized == *name)
    };
    if let Some(name) = names.in_every_row().find(is_summarized) {
        return refused(format!(
            "its summary reveals '{name}', which the store encrypts in '{table}': remove the sum, minimum or maximum; for summaries that \
             exist already see `docs/encryption.md`"
        ));
    }
    let target = index.table(table);
    let into = store.context().encrypted_names(target);
    // The rule for a property covers its copies in the same table under the same name only.
    let has_other_rules = target != table || matches!(index.shape(), Shape::Copy { .. });
    let mut sometimes_encrypted = names
        .in_some_rows()
        .filter_map(|name| copied_name(index, name));
    match sometimes_encrypted.find(|held| has_other_rules && !into.has_rule(held)) {
        None => Ok(()),
        Some(held) => refused(format!(
            "it copies a property that the store encrypts in some rows of '{table}' to '{held}' of '{target}', and no rule says in \
             which rows of '{target}' it is encrypted: give the store a rule for '{held}' of '{target}'"
        )),
    }
}

/// Declares the copies of properties that the store encrypts in every row.
fn declare_copies(
    store: &dyn TableStore,
    table: &TableName,
    names: &EncryptedNames,
    index: &Index,
) {
    let target = index.table(table);
    let everywhere = names
        .iter()
        .filter(|name| !names.in_some_rows().any(|some| some == *name));
    let held: Vec<_> = everywhere
        .filter_map(|name| copied_name(index, name))
        .collect();
    let held: Vec<&str> = held.iter().map(|name| &**name).collect();
    if !held.is_empty() {
        // From now on the store refuses these copies in plaintext. `Index::entries` marks them to be encrypted.
        store.context().declare_encrypted(target, &held);
    }
}

/// The name under which an index copies a property; `None` if the index does not copy it.
fn copied_name<'a>(index: &Index, name: &'a str) -> Option<Cow<'a, str>> {
    match (index.shape(), index.payload()) {
        (Shape::Copy { prefix, fields }, _) => fields
            .iter()
            .any(|field| field == name)
            .then(|| Cow::Owned(format!("{prefix}{name}"))),
        (Shape::Row, Payload::Full) => Some(Cow::Borrowed(name)),
        (Shape::Row, Payload::Fields(fields)) => fields
            .iter()
            .any(|field| field == name)
            .then_some(Cow::Borrowed(name)),
        _ => None,
    }
}
