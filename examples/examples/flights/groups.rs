use std::collections::BTreeMap;

use table_core::model::TableName;
use table_core::store::{GroupTransaction, Operation, ServiceProfile};

use crate::Result;
use crate::import::Stored;

/// A group transaction and the table it writes.
pub(crate) type Group = (TableName, GroupTransaction);

/// Gathers entities into group transactions, one partition each, as large as the service allows.
///
/// Holds one open group per partition, so it needs memory for the partitions, not for the entities.
#[derive(Debug)]
pub(crate) struct Groups<I> {
    entities: I,
    profile: ServiceProfile,
    open: BTreeMap<(&'static str, String), GroupTransaction>,
}

impl<I: Iterator<Item = Result<Stored>>> Groups<I> {
    pub(crate) fn new(entities: I, profile: ServiceProfile) -> Self {
        Self { entities, profile, open: BTreeMap::new() }
    }

    /// Adds an entity to its partition's group; the group before, if that is full.
    fn add(&mut self, (table, entity): Stored) -> Result<Option<Group>> {
        let partition = entity.key().partition_key();
        let new = || GroupTransaction::new(partition.clone(), &self.profile);
        let group = self.open.entry((table, partition.to_string())).or_insert_with(new);
        let insert = Operation::Insert(entity);
        let full = if group.fits(&insert) { None } else { Some(std::mem::replace(group, new())) };
        group.push(insert)?;
        full.map(|group| Ok((TableName::new(table)?, group))).transpose()
    }
}

impl<I: Iterator<Item = Result<Stored>>> Iterator for Groups<I> {
    type Item = Result<Group>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(entity) = self.entities.next() {
            match entity.and_then(|entity| self.add(entity)) {
                Ok(None) => {}
                other => return other.transpose(),
            }
        }
        let ((table, _), group) = self.open.pop_first()?;
        Some(TableName::new(table).map(|table| (table, group)).map_err(Into::into))
    }
}
