use std::cell::Cell;
use std::sync::Arc;

use redb::{ReadableTable, StorageError, Table, TableError, WriteTransaction};
use table_core::engine::{Change, Stamp, apply_group, apply_to};
use table_core::model::{ETag, Key, PackBuffer, PropertyDictionary, TableName, Ticks};
use table_core::store::{ErrorKind, Operation, Written};
use table_core::{Result, engine};

use super::packer::Packer;
use super::queue::{Request, Writes};
use super::versions::Versions;
use crate::catalog::Catalog;
use crate::changes::Changes;
use crate::disk::Access;
use crate::error::Failure;
use crate::file::Contents;
use crate::format;
use crate::format::{CATALOG, DROPPED, META, ROWS};
use crate::options::PROFILE;
use crate::writer::reclaim;

/// The metadata that the writer keeps in memory and that a transaction changes.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    pub(super) catalog: Arc<Catalog>,
    pub(super) dropped: Vec<u64>,
    next_table: u64,
}

impl Ledger {
    /// Creates the ledger of a file. A read-only store reclaims nothing.
    pub(super) fn of(
        Contents {
            catalog,
            mut dropped,
            next_table,
            ..
        }: Contents,
        access: Access,
    ) -> Self {
        if access == Access::Read {
            dropped.clear();
        }
        Self {
            catalog: Arc::new(catalog),
            dropped,
            next_table,
        }
    }
}

/// A write transaction that decides requests in order.
pub(super) struct Batch<'t> {
    rows: Table<'t, &'static [u8], &'static [u8]>,
    catalog: Table<'t, &'static str, &'static [u8]>,
    dropped: Table<'t, u64, ()>,
    meta: Table<'t, &'static str, u64>,
    packer: Packer<'t>,
    /// Buffers for the stored key and value of a row.
    buffers: (Vec<u8>, Vec<u8>),
    changes: &'t Changes,
    ledger: Ledger,
    /// Whether there is a change to commit.
    changed: bool,
    /// Whether tables were created or deleted.
    tables_changed: bool,
}

impl<'t> Batch<'t> {
    pub(super) fn begin(
        transaction: &'t WriteTransaction,
        ledger: Ledger,
        changes: &'t Changes,
    ) -> Result<Self, TableError> {
        Ok(Self {
            rows: transaction.open_table(ROWS)?,
            catalog: transaction.open_table(CATALOG)?,
            dropped: transaction.open_table(DROPPED)?,
            meta: transaction.open_table(META)?,
            packer: Packer::new(transaction, Arc::clone(&ledger.catalog.dictionary)),
            buffers: Default::default(),
            changes,
            ledger,
            changed: false,
            tables_changed: false,
        })
    }

    /// Executes a change, or refuses it without effect. The outer error concerns the file: then nothing of
    /// the transaction can be committed.
    pub(super) fn execute(
        &mut self,
        request: Request,
        versions: &mut Versions,
    ) -> Result<Result<Vec<Written>>, StorageError> {
        match request {
            Request::Write(table, writes) => self.write(&table, writes, versions),
            Request::CreateTable(table) => self.create_table(table),
            Request::DeleteTable(table) => self.delete_table(&table),
        }
    }

    /// Returns the new ledger and whether the commit must be on disk; `None` if nothing changed.
    pub(super) fn finish(
        mut self,
        versions: &mut Versions,
    ) -> Result<Option<(Ledger, bool)>, StorageError> {
        if !self.changed {
            return Ok(None);
        }
        let reserved = versions.reserve(&mut self.meta)?;
        if let Some(dictionary) = self.packer.into_new_dictionary() {
            Arc::make_mut(&mut self.ledger.catalog).dictionary = dictionary;
        }
        Ok(Some((self.ledger, reserved || self.tables_changed)))
    }

    fn write(
        &mut self,
        table: &TableName,
        writes: Writes,
        versions: &mut Versions,
    ) -> Result<Result<Vec<Written>>, StorageError> {
        let id = match self.ledger.catalog.id(table) {
            Ok(id) => id,
            Err(missing) => return Ok(Err(missing)),
        };
        let time = Ticks::now();
        let mut stamp = || Stamp {
            version: versions.next(),
            time,
        };
        if let Some(written) = self.insert_new(id, writes.operations(), &mut stamp)? {
            return Ok(Ok(written));
        }
        let rows = TableRows::new(id, &self.rows, self.packer.dictionary());
        let decided = match writes {
            Writes::One(operation) => {
                apply_to(&rows, &PROFILE, table, operation, stamp()).map(|change| vec![change])
            }
            Writes::Group(operations) => apply_group(&rows, &PROFILE, table, operations, stamp),
        };
        // First: a decision that could not read the file is no decision, and is not an answer to the caller.
        if let Some(failure) = rows.into_failure() {
            return Err(failure);
        }
        match decided {
            Ok(changes) => self.store(&changes).map(Ok),
            Err(refused) => Ok(Err(refused)),
        }
    }

    /// Executes a batch that consists of inserts of new rows with one search per row; the engine needs two.
    /// Leaves any other batch to the engine, with the rows unchanged.
    fn insert_new(
        &mut self,
        id: u64,
        operations: &[Operation],
        stamp: &mut impl FnMut() -> Stamp,
    ) -> Result<Option<Vec<Written>>, StorageError> {
        if !operations
            .iter()
            .all(|operation| matches!(operation, Operation::Insert(_)))
        {
            return Ok(None);
        }
        let (key, row) = &mut self.buffers;
        let mut written = Vec::with_capacity(operations.len());
        for entity in operations.iter().filter_map(Operation::entity) {
            key.clear();
            row.clear();
            let stamp = stamp();
            format::push_row_key(key, id, entity.key());
            self.packer.push_row(row, key, stamp, entity.properties())?;
            // Before the change is certain: a key too many costs a backup one more row, a missing key would lose a change.
            self.changes.note(key);
            let old = self
                .rows
                .insert(key.as_slice(), row.as_slice())?
                .map(|old| old.value().to_vec());
            // The key exists after all: undo, and leave the decision to the engine, which has the error of the service. The versions
            // that were used stay used; an ETag need not be the next number, only a new one.
            if let Some(old) = old {
                self.rows.insert(key.as_slice(), old.as_slice())?;
                self.remove_all(id, &operations[..written.len()])?;
                return Ok(None);
            }
            written.push(Written::version(ETag::from_version(stamp.version)));
        }
        self.changed = true;
        Ok(Some(written))
    }

    fn remove_all(&mut self, id: u64, operations: &[Operation]) -> Result<(), StorageError> {
        for operation in operations {
            self.rows
                .remove(format::row_key(id, operation.key()).as_slice())?;
        }
        Ok(())
    }

    fn store(&mut self, changes: &[(Vec<u8>, Change)]) -> Result<Vec<Written>, StorageError> {
        self.changed = true;
        let (_, row) = &mut self.buffers;
        for (key, change) in changes {
            self.changes.note(key);
            match change {
                Change::Put(record) => {
                    row.clear();
                    self.packer
                        .push_row(row, key, record.stamp, &record.properties)?;
                    self.rows.insert(key.as_slice(), row.as_slice())?
                }
                Change::Remove => self.rows.remove(key.as_slice())?,
            };
        }
        Ok(changes.iter().map(|(_, change)| change.written()).collect())
    }
}

impl Batch<'_> {
    fn create_table(&mut self, table: TableName) -> Result<Result<Vec<Written>>, StorageError> {
        if self.ledger.catalog.contains(&table) {
            return Ok(Err(ErrorKind::TableAlreadyExists {
                table: table.to_string(),
            }
            .into()));
        }
        let id = self.ledger.next_table;
        self.ledger.next_table += 1;
        self.meta
            .insert(format::META_NEXT_TABLE, self.ledger.next_table)?;
        let row = format::catalog_row(id, &table);
        self.catalog
            .insert(table.to_lowercase().as_str(), row.as_slice())?;
        Arc::make_mut(&mut self.ledger.catalog).insert(id, table);
        (self.changed, self.tables_changed) = (true, true);
        Ok(Ok(Vec::new()))
    }

    fn delete_table(&mut self, table: &TableName) -> Result<Result<Vec<Written>>, StorageError> {
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
        for _ in 0..reclaim::MAX_ROWS {
            let Some(row) = rows.next() else {
                return Ok(true);
            };
            let (key, value) = row?;
            bytes += key.value().len() + value.value().len();
            if bytes >= reclaim::MAX_BYTES {
                break;
            }
        }
        Ok(false)
    }
}

/// The rows of one table in a transaction, as the engine reads and writes them.
struct TableRows<'a, 't> {
    id: u64,
    rows: &'a Table<'t, &'static [u8], &'static [u8]>,
    dictionary: &'a PropertyDictionary,
    failure: Cell<Option<StorageError>>,
}

impl<'a, 't> TableRows<'a, 't> {
    const fn new(
        id: u64,
        rows: &'a Table<'t, &'static [u8], &'static [u8]>,
        dictionary: &'a PropertyDictionary,
    ) -> Self {
        Self {
            id,
            rows,
            dictionary,
            failure: Cell::new(None),
        }
    }

    /// Returns the error of reading the file, if there was one.
    fn into_failure(self) -> Option<StorageError> {
        self.failure.into_inner()
    }
}

impl engine::Rows for TableRows<'_, '_> {
    fn key(&self, key: &Key) -> Vec<u8> {
        format::row_key(self.id, key)
    }

    fn with_row<R>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<&[u8]>) -> Result<R>,
    ) -> Result<R> {
        match self.rows.get(key) {
            Ok(None) => decide(None),
            Ok(Some(row)) => {
                let mut record = PackBuffer::default();
                format::unpack_row(self.dictionary, key, row.value(), &mut record)?;
                decide(Some(record.as_bytes()))
            }
            Err(failure) => {
                self.failure.set(Some(failure));
                // Ends the engine's decision. No caller gets this error, because the writer asks for the failure first.
                Err(Failure::NoAnswer.into())
            }
        }
    }
}
