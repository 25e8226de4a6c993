//! The state that must hold after recovery.

use std::collections::BTreeMap;

use table_core::model::{Entity, SYSTEM_PREFIX, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{Result, TableStoreExt};
use table_patterns::index::{Entry, Location};

use crate::process::Process;

/// Asserts that every index has exactly the entries of its entities, all settled, and that no trace of a write
/// is left.
pub(crate) async fn assert_in_step(
    process: &Process,
    without: Option<&str>,
    case: &str,
) -> Result<()> {
    let mut wanted = wanted(process, without).await?;
    for (at, row) in entries(process).await? {
        let entry = wanted
            .remove(&at)
            .unwrap_or_else(|| panic!("{case}: {row:?} should not be there"));
        for property in entry.to_entity().properties() {
            assert_eq!(
                row.get(property.name()),
                Some(property.value()),
                "{case}: {}",
                property.name()
            );
        }
        assert_ne!(
            row.get("OwnerPending"),
            Some(ValueRef::Boolean(true)),
            "{case}: {row:?} is reserved"
        );
    }
    assert!(
        wanted.is_empty(),
        "{case}: no entry {:?}",
        wanted.keys().next()
    );
    let journal = Filter::starts_with(Filter::ROW_KEY, &format!("{SYSTEM_PREFIX}j_"));
    let rows = process
        .store
        .query_all(process.people.table(), &Query::new().with_filter(journal))
        .await?;
    assert!(rows.is_empty(), "{case}: {:?} is left", rows[0]);
    Ok(())
}

async fn wanted(process: &Process, without: Option<&str>) -> Result<BTreeMap<Location, Entry>> {
    let mut wanted = BTreeMap::new();
    for entity in process.entities().await? {
        for index in process.indexes.iter().filter(|i| Some(i.name()) != without) {
            for entry in index.entries(process.people.table(), &entity)? {
                wanted.insert(entry.location.clone(), entry);
            }
        }
    }
    Ok(wanted)
}

async fn entries(process: &Process) -> Result<Vec<(Location, Entity)>> {
    let mut all = Vec::new();
    for table in process.tables() {
        for row in process.store.query_all(&table, &Query::new()).await? {
            if Entry::index_of(&row).is_some() {
                all.push((
                    Location {
                        table: table.clone(),
                        key: row.key().clone(),
                    },
                    row,
                ));
            }
        }
    }
    Ok(all)
}
