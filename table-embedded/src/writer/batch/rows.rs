use std::cell::Cell;

use redb::{ReadableTable, StorageError, Table};
use table_core::Result;
use table_core::engine;
use table_core::model::{Key, PackBuffer, PropertyDictionary};

use crate::error::Failure;
use crate::format;

/// The rows of one table in a transaction, as the engine reads and writes them.
pub(super) struct TableRows<'a, 't> {
    id: u64,
    rows: &'a Table<'t, &'static [u8], &'static [u8]>,
    dictionary: &'a PropertyDictionary,
    failure: Cell<Option<StorageError>>,
}

impl<'a, 't> TableRows<'a, 't> {
    pub(super) const fn new(
        id: u64,
        rows: &'a Table<'t, &'static [u8], &'static [u8]>,
        dictionary: &'a PropertyDictionary,
    ) -> Self {
        Self { id, rows, dictionary, failure: Cell::new(None) }
    }

    /// Returns the error of reading the file, if there was one.
    pub(super) fn into_failure(self) -> Option<StorageError> {
        self.failure.into_inner()
    }
}

impl engine::Rows for TableRows<'_, '_> {
    fn key(&self, key: &Key) -> Vec<u8> {
        format::row_key(self.id, key)
    }

    fn look<R>(&self, key: &[u8], look: impl FnOnce(Option<&[u8]>) -> Result<R>) -> Result<R> {
        match self.rows.get(key) {
            Ok(None) => look(None),
            Ok(Some(row)) => {
                let mut record = PackBuffer::default();
                format::unpack_row(self.dictionary, key, row.value(), &mut record)?;
                look(Some(record.as_bytes()))
            }
            Err(failure) => {
                self.failure.set(Some(failure));
                Err(Failure::Lost.into())
            }
        }
    }
}
