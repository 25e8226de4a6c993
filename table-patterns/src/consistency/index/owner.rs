//! Tables of entries: each serves the entities of one table.

use std::collections::BTreeSet;

use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::store::{Error, Operation, Result, TableStore};

use super::definition::{Index, Placement};
use super::shape::Shape;

const ROW: &str = "owner";
const OWNER: &str = "EntriesOf";

/// Makes `table` the owner of the tables with its remote entries. 1 request for each; 1 more the first time.
///
/// # Errors
/// A table has the entries of another table, or does not exist.
pub(super) async fn claim_tables(store: &dyn TableStore, table: &TableName, indexes: &[Index]) -> Result<()> {
    let elsewhere: BTreeSet<_> = indexes.iter().filter_map(|index| entries_in(index, table)).collect();
    for entries in elsewhere {
        claim(store, table, entries).await?;
    }
    Ok(())
}

/// The other table in which an index keeps rows; `None` for copies, which go into the entities of a table.
fn entries_in<'a>(index: &'a Index, table: &TableName) -> Option<&'a TableName> {
    match (index.placement(), index.shape()) {
        (_, Shape::Copy { .. }) => None,
        (Placement::OtherTable(other), _) => Some(other).filter(|other| *other != table),
        _ => None,
    }
}

async fn claim(store: &dyn TableStore, table: &TableName, entries: &TableName) -> Result<()> {
    let key = Key::new(MANIFEST_PARTITION, ROW)?;
    let mut row = store.get(entries, &key, None).await?;
    if row.is_none() {
        let owner = Entity::from(key.clone()).with(OWNER, table.as_str());
        match store.write(entries, Operation::Insert(owner)).await {
            Err(e) if e.is_already_exists() => row = store.get(entries, &key, None).await?,
            other => return other.map(drop),
        }
    }
    match row.as_ref().and_then(|row| row.get(OWNER)) {
        Some(ValueRef::String(owner)) if is_same(store, owner, table) => Ok(()),
        owner => {
            let owner = owner.map_or_else(|| "another".to_owned(), |owner| format!("{owner:?}"));
            Err(Error::invalid_request(format!(
                "the table '{entries}' has the index entries of the table {owner}, not of '{table}': a scrub or sweep of one table would \
                 delete the entries of the other; choose a separate table for the entries of '{table}'"
            )))
        }
    }
}

fn is_same(store: &dyn TableStore, owner: &str, table: &TableName) -> bool {
    match store.profile().case_sensitive_tables {
        true => owner == table.as_str(),
        false => owner.eq_ignore_ascii_case(table.as_str()),
    }
}
