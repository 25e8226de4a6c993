use std::sync::Arc;

use redb::StorageError;
use table_core::Result;
use table_core::model::TableName;
use table_core::store::{ErrorKind, Written};

use super::Batch;
use crate::format;
use crate::writer::reclaim;

impl Batch<'_> {
    pub(super) fn create_table(&mut self, table: TableName) -> Result<Result<Vec<Written>>, StorageError> {
        if self.ledger.catalog.contains(&table) {
            return Ok(Err(ErrorKind::TableAlreadyExists { table: table.to_string() }.into()));
        }
        let id = self.ledger.next_table;
        self.ledger.next_table += 1;
        self.meta.insert(format::META_NEXT_TABLE, self.ledger.next_table)?;
        let row = format::catalog_row(id, &table);
        self.catalog.insert(table.to_lowercase().as_str(), row.as_slice())?;
        Arc::make_mut(&mut self.ledger.catalog).insert(id, table);
        (self.changed, self.tables_changed) = (true, true);
        Ok(Ok(Vec::new()))
    }

    pub(super) fn delete_table(&mut self, table: &TableName) -> Result<Result<Vec<Written>>, StorageError> {
        let id = match self.ledger.catalog.id(table) {
            Ok(id) => id,
            Err(missing) => return Ok(Err(missing)),
        };
        self.catalog.remove(table.to_lowercase().as_str())?;
        self.dropped.insert(id, ())?;
        Arc::make_mut(&mut self.ledger.catalog).remove(table);
        self.ledger.dropped.push(id);
        (self.changed, self.tables_changed) = (true, true);
        Ok(Ok(Vec::new()))
    }

    /// Removes some rows of a dropped table. After the last row, also removes the table's id from the list of
    /// dropped tables.
    pub(in crate::writer) fn reclaim(&mut self, id: u64) -> Result<(), StorageError> {
        self.changed = true;
        if self.remove_rows(id)? {
            self.dropped.remove(id)?;
            self.ledger.dropped.retain(|dropped| *dropped != id);
        }
        Ok(())
    }

    /// Removes a limited number of rows and bytes. Returns whether all rows are removed.
    fn remove_rows(&mut self, id: u64) -> Result<bool, StorageError> {
        let (from, to) = (format::prefixed(id, &[]), format::prefixed(id + 1, &[]));
        let range = from.as_slice()..to.as_slice();
        let mut rows = self.rows.extract_from_if::<&[u8], _>(range, |_, _| true)?;
        let mut bytes = 0;
        for _ in 0..reclaim::ROWS {
            let Some(row) = rows.next() else { return Ok(true) };
            let (key, value) = row?;
            bytes += key.value().len() + value.value().len();
            if bytes >= reclaim::BYTES {
                break;
            }
        }
        Ok(false)
    }
}
