use std::sync::Arc;

use redb::{StorageError, TableError, WriteTransaction};
use table_core::engine::Stamp;
use table_core::model::{Heads, Properties};

use crate::format::{self, HEADS};

/// Builds the stored values of rows. New dictionary entries get their numbers in the same transaction.
pub(super) struct Packer<'t> {
    transaction: &'t WriteTransaction,
    heads: Arc<Heads>,
    /// For each dictionary number, the number that followed it last. Rows are alike, so this predicts the
    /// next number.
    next: Vec<u16>,
    grown: bool,
}

impl<'t> Packer<'t> {
    pub(super) const fn new(transaction: &'t WriteTransaction, heads: Arc<Heads>) -> Self {
        Self { transaction, heads, next: Vec::new(), grown: false }
    }

    pub(super) fn heads(&self) -> &Heads {
        &self.heads
    }

    /// Returns the dictionary if it has new entries.
    pub(super) fn into_new_heads(self) -> Option<Arc<Heads>> {
        self.grown.then_some(self.heads)
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
        Heads::pack(properties, out, |head| {
            let number = self.number(last, head)?;
            last = number.unwrap_or(last);
            Ok::<_, StorageError>(number)
        })?;
        format::seal_row(out, key);
        Ok(())
    }

    /// Returns the number of a dictionary entry that follows the entry `last`.
    fn number(&mut self, last: u16, head: &[u8]) -> Result<Option<u16>, StorageError> {
        let last = usize::from(last);
        if let Some(guess) = self.next.get(last).copied().filter(|guess| self.heads.is(*guess, head)) {
            return Ok(Some(guess));
        }
        let number = match self.heads.number(head) {
            None => self.add(head)?,
            known => known,
        };
        if let Some(number) = number {
            self.next.resize(self.next.len().max(last + 1), 0);
            self.next[last] = number;
        }
        Ok(number)
    }

    #[cold]
    fn add(&mut self, head: &[u8]) -> Result<Option<u16>, StorageError> {
        // Readers share this dictionary, so a change copies it.
        let number = (!self.heads.is_full()).then(|| Arc::make_mut(&mut self.heads).add(head)).flatten();
        let Some(number) = number else { return Ok(None) };
        let mut table = self.transaction.open_table(HEADS).map_err(storage)?;
        table.insert(u64::from(number), head)?;
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
