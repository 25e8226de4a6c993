use std::collections::{BTreeMap, BTreeSet};

use table_core::model::{Key, TableName};
use table_core::query::UnreadableEntity;
use table_core::store::Error;

use super::SweptEntity;

/// Maximum number of skipped entities that are listed.
const LISTED: usize = 100;

/// The counts of a sweep.
#[derive(Clone, Debug, Default, serde::Serialize)]
#[non_exhaustive]
pub struct SweepProgress {
    /// Number of entities read.
    pub read: u64,
    /// Number of entities written.
    pub changed: u64,
    /// Number of encrypted entities by the id of their current key-encryption key. Only rotations count them,
    /// and only verified entities: a key is still needed if it has a count here or if entities were skipped.
    pub keys: BTreeMap<String, u64>,
    /// Number of entities that could not be processed and are unchanged.
    pub skipped: u64,
    /// The first 100 skipped entities, with the reasons.
    pub unreadable: Vec<UnreadableEntity>,
    /// Other tables that hold index entries of this table, according to its manifest. Entries hold properties
    /// of the entities, so **these tables need the same sweep**.
    pub index_tables: BTreeSet<TableName>,
}

impl SweepProgress {
    pub(super) fn add(&mut self, found: Result<SweptEntity, (Key, Error)>) {
        match found {
            Ok(SweptEntity { changed, key_id }) => {
                self.changed += u64::from(changed);
                if let Some(id) = key_id {
                    *self.keys.entry(id).or_default() += 1;
                }
            }
            Err((key, error)) => {
                self.skipped += 1;
                if self.unreadable.len() < LISTED {
                    self.unreadable.push(UnreadableEntity { key, error });
                }
            }
        }
    }
}
