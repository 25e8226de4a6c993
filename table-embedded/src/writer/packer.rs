//! The stored values of rows, with numbers in place of property names.

use std::sync::Arc;

use redb::{StorageError, TableError, WriteTransaction};
use table_core::engine::Stamp;
use table_core::model::{Properties, PropertyDictionary};

use crate::format;
use crate::format::DICTIONARY;

/// Builds the stored values of rows. New dictionary entries get their numbers in the same transaction.
pub(super) struct Packer<'t> {
    transaction: &'t WriteTransaction,
    dictionary: Arc<PropertyDictionary>,
    /// For each dictionary number, the number that followed it last. Rows are alike, so this predicts the
    /// next number.
    next: Vec<u16>,
    grown: bool,
}

impl<'t> Packer<'t> {
    pub(super) const fn new(
        transaction: &'t WriteTransaction,
        dictionary: Arc<PropertyDictionary>,
    ) -> Self {
        Self {
            transaction,
            dictionary,
            next: Vec::new(),
            grown: false,
        }
    }

    pub(super) fn dictionary(&self) -> &PropertyDictionary {
        &self.dictionary
    }

    /// Returns the dictionary if it has new entries.
    pub(super) fn into_new_dictionary(self) -> Option<Arc<PropertyDictionary>> {
        self.grown.then_some(self.dictionary)
    }

    /// Appends the stored value of a row.
    pub(super) fn push_row(
        &mut self,
        out: &mut Vec<u8>,
        key: &[u8],
        stamp: Stamp,
        properties: &Properties,
    ) -> Result<(), StorageError> {
        stamp.push_bytes(out);
        let mut last = 0;
        let mut packed = properties.as_packed();
        // Numbers make the row shorter, so one allocation is enough.
        out.reserve(packed.len());
        while !packed.is_empty() {
            // No entry has the number 0, so without a prediction `pack_as` refuses and the entry is looked up.
            let likely = self
                .next
                .get(usize::from(last))
                .copied()
                .unwrap_or_default();
            if self.dictionary.pack_as(likely, &mut packed, out) {
                last = likely;
                continue;
            }
            let number = |entry: &[u8]| {
                let number = self.number(last, entry)?;
                last = number.unwrap_or(last);
                Ok::<_, StorageError>(number)
            };
            if !PropertyDictionary::pack_next(&mut packed, out, number)? {
                break;
            }
        }
        format::seal_row(out, key);
        Ok(())
    }

    /// Returns the number of a dictionary entry that follows the entry `last`.
    fn number(&mut self, last: u16, entry: &[u8]) -> Result<Option<u16>, StorageError> {
        let last = usize::from(last);
        let number = match self.dictionary.number(entry) {
            None => self.add(entry)?,
            known => known,
        };
        if let Some(number) = number {
            self.next.resize(self.next.len().max(last + 1), 0);
            self.next[last] = number;
        }
        Ok(number)
    }

    #[cold]
    fn add(&mut self, entry: &[u8]) -> Result<Option<u16>, StorageError> {
        // Readers share this dictionary, so a change copies it.
        let number = (!self.dictionary.is_full())
            .then(|| Arc::make_mut(&mut self.dictionary).add(entry))
            .flatten();
        let Some(number) = number else {
            return Ok(None);
        };
        let mut table = self.transaction.open_table(DICTIONARY).map_err(storage)?;
        table.insert(u64::from(number), entry)?;
        self.grown = true;
        Ok(Some(number))
    }
}

/// The table exists and is open only once, so the error comes from the file.
fn storage(error: TableError) -> StorageError {
    match error {
        TableError::Storage(error) => error,
        other => StorageError::Corrupted(other.to_string()),
    }
}
