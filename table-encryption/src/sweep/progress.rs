use std::collections::{BTreeMap, BTreeSet};

use table_core::model::{Key, TableName};
use table_core::query::UnreadableEntity;
use table_core::store::Error;

use super::SweptEntity;

/// The skipped entities that are listed.
const LISTED: usize = 100;

/// What a sweep has found and done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SweepProgress {
    /// Entities read.
    pub seen: u64,
    /// Entities written.
    pub changed: u64,
    /// The encrypted entities by the id of the key-encryption key that they are under now. Rotations count them, those that are
    /// verified alone: a key under which something is, or something was skipped, is still needed.
    pub keys: BTreeMap<String, u64>,
    /// Entities that could not be done, and are as they were.
    pub skipped: u64,
    /// The first 100 of them, with the reasons.
    pub unreadable: Vec<UnreadableEntity>,
    /// Other tables that hold index entries of this one, as its manifest names them. Entries hold properties of the
    /// entities: **these tables need the same sweep**.
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
