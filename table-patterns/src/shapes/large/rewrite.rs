//! Blobs under the key that counts now.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::Key;
use table_core::query::{Continuation, Query, UnreadableEntity};
use table_core::store::{Error, Result, TableStore as _};
use table_core::typed::TableEntity;

use super::LargeTable;

/// The rows that are listed.
const LISTED: usize = 100;

/// What a sweep over blobs has found and done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LargeRewritten {
    /// Rows looked at.
    pub rows: u64,
    /// Values in blobs.
    pub blobs: u64,
    /// Blobs written anew.
    pub rewritten: u64,
    /// The blobs by the key that they are under now.
    pub keys: BTreeMap<String, u64>,
    /// Blobs that are still in plaintext. Those are counted, and rewritten, where
    /// [`LargeOptions::accept_plaintext`](super::LargeOptions::accept_plaintext) says that they are expected.
    pub plaintext: u64,
    /// Blobs that could not be read, and are as they were: each keeps its key from being dropped.
    pub unreadable: Vec<UnreadableBlob>,
    /// Rows that could not be decrypted, whose blobs are not known: each keeps its key from being dropped.
    pub skipped: u64,
    /// The first 100 of these rows, with the reasons.
    pub unreadable_rows: Vec<UnreadableEntity>,
}

/// A blob that could not be read.
#[derive(Debug)]
pub struct UnreadableBlob {
    /// The entity.
    pub key: Key,
    /// The property.
    pub property: String,
    /// Why.
    pub error: Error,
}

impl LargeRewritten {
    pub(super) fn count(&mut self, id: String) {
        *self.keys.entry(id).or_default() += 1;
    }

    fn skip(&mut self, rows: Vec<UnreadableEntity>) {
        self.skipped += rows.len() as u64;
        self.unreadable_rows.extend(rows.into_iter().take(LISTED.saturating_sub(self.unreadable_rows.len())));
    }

    fn add(mut self, other: Self) -> Self {
        self.rows += other.rows;
        self.blobs += other.blobs;
        self.rewritten += other.rewritten;
        self.plaintext += other.plaintext;
        other.keys.into_iter().for_each(|(id, blobs)| *self.keys.entry(id).or_default() += blobs);
        self.unreadable.extend(other.unreadable);
        self
    }
}

/// A sweep over the blobs of a table: [`LargeTable::rewrite`].
pub struct LargeRewrite<T> {
    table: LargeTable<T>,
    counts: bool,
    from: Option<Continuation>,
    done: bool,
    found: LargeRewritten,
    concurrency: usize,
    page_size: Option<usize>,
}

impl<T: TableEntity> LargeTable<T> {
    /// Writes every blob anew that the codec says is under another key than the active one: after a key was
    /// replaced, and before it is dropped. So is every blob in plaintext, where the table
    /// [accepts these](super::LargeOptions::accept_plaintext). Rows of all types and schema versions are looked at.
    ///
    /// A blob is read, verified, encrypted anew under a data key of the active key, and put under a new name; then its row is
    /// merged in the version that was read, and the old blob deleted: as in every other write of the table, a reader sees
    /// the one or the other, and what a crash leaves behind is collected. It can be stopped at any time and resumed at
    /// [`cursor`](LargeRewrite::cursor), or be run again: what is done is left alone. Blobs that are
    /// written meanwhile are under the active key, if every writer has it: deploy it first.
    ///
    /// # Cost
    /// See the [module](super). Memory: two parts of 8 MiB for each row in work.
    pub fn rewrite(&self) -> LargeRewrite<T> {
        LargeRewrite {
            table: self.clone(),
            counts: false,
            from: None,
            done: false,
            found: LargeRewritten::default(),
            concurrency: self.options().concurrency.max(1),
            page_size: None,
        }
    }
}

impl<T: TableEntity> LargeRewrite<T> {
    /// Only counts the blobs under each key. One request a page of rows, and one for each blob.
    #[must_use]
    pub const fn counting(mut self) -> Self {
        self.counts = true;
        self
    }

    /// Goes on where an earlier sweep of the same table was. What it counts starts there, too.
    #[must_use]
    pub fn resumed_at(mut self, cursor: Continuation) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Works on at most so many rows at once; at least 1, and [`LargeOptions::concurrency`](super::LargeOptions::concurrency) unless
    /// told otherwise.
    #[must_use]
    pub fn with_concurrency(mut self, rows: usize) -> Self {
        self.concurrency = rows.max(1);
        self
    }

    /// Reads at most so many rows at a time; at least 1.
    #[must_use]
    pub fn with_page_size(mut self, rows: usize) -> Self {
        self.page_size = Some(rows.max(1));
        self
    }

    /// Does one page of rows; whether more follow. A row that cannot be decrypted is skipped and listed.
    ///
    /// # Errors
    /// The stores', a key service's; the codec has no keys. The page can be done again.
    pub async fn step(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let active = self.active_key()?;
        let query = Query { filter: None, select: None, top: self.page_size };
        let found = self.table.store().query_readable(self.table.name(), &query, self.from.as_ref()).await?;
        let (page, skipped) = (found.page, found.unreadable);
        let rows = page.items.into_iter().filter(|row| !row.key().is_system());
        let (table, counts, active) = (&self.table, self.counts, active.as_str());
        let work: Vec<_> = rows.map(|row| table.rewrite_row(row, active, counts)).collect();
        let work = stream::iter(work).buffer_unordered(self.concurrency);
        let found = work.try_fold(LargeRewritten::default(), |all, one| async { Ok(all.add(one)) }).await?;
        self.found = std::mem::take(&mut self.found).add(found);
        self.found.skip(skipped);
        self.done = page.continuation.is_none();
        self.from = page.continuation;
        Ok(!self.done)
    }

    /// Does the rest.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub async fn run(&mut self) -> Result<&LargeRewritten> {
        while self.step().await? {}
        Ok(&self.found)
    }

    /// Where it is: the next page, or `None` before the first and after the last. Print it, parse it back.
    pub const fn cursor(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// What it has found and done.
    pub const fn progress(&self) -> &LargeRewritten {
        &self.found
    }

    fn active_key(&self) -> Result<String> {
        let codec = &self.table.options().codec;
        codec.active_key().ok_or_else(|| {
            Error::unsupported(
                "the blob codec",
                format!("keys: '{}' has none to rewrite blobs under", codec.name()),
            )
        })
    }
}

impl<T> fmt::Debug for LargeRewrite<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LargeRewrite");
        debug.field("table", &self.table).field("found", &self.found).finish_non_exhaustive()
    }
}
