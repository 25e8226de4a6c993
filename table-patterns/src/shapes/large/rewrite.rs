//! Encrypts blobs under the active key.

use std::collections::BTreeMap;
use std::fmt;

use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::model::{Entity, Key, PropertyRef};
use table_core::query::{Continuation, Query, UnreadableEntity};
use table_core::store::{
    Conflicts, CycleDetector, Error, ErrorKind, Result, TableStore as _, check_progress,
};
use table_core::typed::TableEntity;

use super::{BlobContext, BlobKey, writer_of};
use crate::Table;
use crate::blobs::{self, Reference, references};
use crate::large_values::{EntityWriter, LargeValues, NewBlobs, put_new_reference};

/// The number of unreadable rows that the result lists.
const LISTED: usize = 100;

/// The progress or result of [`Table::rewrite_blobs`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LargeRewritten {
    /// The number of rows read.
    pub rows: u64,
    /// The number of values in blobs.
    pub blobs: u64,
    /// The number of blobs rewritten.
    pub rewritten: u64,
    /// The number of blobs by the id of their key.
    pub keys: BTreeMap<String, u64>,
    /// The number of blobs that are still in plaintext. Plaintext blobs are counted and rewritten only with
    /// [`LargeOptions::accept_plaintext`](super::LargeOptions::accept_plaintext).
    pub plaintext: u64,
    /// The blobs that could not be read and did not change. Keep their keys.
    pub unreadable: Vec<UnreadableBlob>,
    /// The number of rows that could not be decrypted. Their blobs are unknown: keep all keys.
    pub skipped: u64,
    /// The first 100 rows that could not be decrypted, with their errors.
    pub unreadable_rows: Vec<UnreadableEntity>,
}

/// A blob that could not be read.
#[derive(Debug)]
pub struct UnreadableBlob {
    /// The entity.
    pub key: Key,
    /// The property.
    pub property: String,
    /// The error.
    pub error: Error,
}

impl LargeRewritten {
    pub(super) fn count(&mut self, id: String) {
        *self.keys.entry(id).or_default() += 1;
    }

    fn skip(&mut self, rows: Vec<UnreadableEntity>) {
        self.skipped += rows.len() as u64;
        self.unreadable_rows.extend(
            rows.into_iter()
                .take(LISTED.saturating_sub(self.unreadable_rows.len())),
        );
    }

    fn add(mut self, other: Self) -> Self {
        self.rows += other.rows;
        self.blobs += other.blobs;
        self.rewritten += other.rewritten;
        self.plaintext += other.plaintext;
        other
            .keys
            .into_iter()
            .for_each(|(id, blobs)| *self.keys.entry(id).or_default() += blobs);
        self.unreadable.extend(other.unreadable);
        self
    }
}

/// A rewrite of the blobs of a table, made by [`Table::rewrite_blobs`].
pub struct LargeRewrite<T> {
    table: Table<T>,
    /// Whether the rewrite only counts the blobs under each key.
    only_counts: bool,
    from: Option<Continuation>,
    cycles: CycleDetector,
    done: bool,
    found: LargeRewritten,
    concurrency: usize,
    page_size: Option<usize>,
}

impl<T: TableEntity> Table<T> {
    /// Rewrites every blob that is not encrypted under the active key: run it after a key was replaced and before the old key
    /// is deleted. Also encrypts plaintext blobs if the options [accept](super::LargeOptions::accept_plaintext) them. Rows of
    /// all types and schema versions are included.
    ///
    /// For each blob, the rewrite reads and verifies the blob, encrypts it with a new data key, stores it under a new name,
    /// merges the reference into the row in the version that was read, and deletes the old blob. As for any other write, a
    /// reader sees the old or the new blob, and a collection removes blobs that a crash leaves.
    ///
    /// A rewrite can be stopped at any time and resumed at [`cursor`](LargeRewrite::cursor), or repeated: finished blobs are
    /// not rewritten again. Deploy the active key to every writer before the rewrite.
    ///
    /// # Cost
    /// See the [module](super). Memory: two parts of 8 MiB for each row in work.
    pub fn rewrite_blobs(&self) -> LargeRewrite<T> {
        LargeRewrite {
            table: self.clone(),
            only_counts: false,
            from: None,
            cycles: CycleDetector::default(),
            done: false,
            found: LargeRewritten::default(),
            concurrency: self.plain().concurrency().max(1),
            page_size: None,
        }
    }
}

impl<T: TableEntity> LargeRewrite<T> {
    /// Only counts the blobs under each key. 1 request per page of rows and 1 per blob.
    #[must_use]
    pub const fn counting(mut self) -> Self {
        self.only_counts = true;
        self
    }

    /// Starts where an earlier rewrite of the same table stopped. The counts start at zero.
    #[must_use]
    pub fn resumed_at(mut self, cursor: Continuation) -> Self {
        self.from = Some(cursor);
        self
    }

    /// Sets how many rows are rewritten at once; at least 1, by default the
    /// [concurrency](Table::with_concurrency) of the table.
    #[must_use]
    pub fn with_concurrency(mut self, rows: usize) -> Self {
        self.concurrency = rows.max(1);
        self
    }

    /// Sets the maximal number of rows in a page; at least 1.
    #[must_use]
    pub fn with_page_size(mut self, rows: usize) -> Self {
        self.page_size = Some(rows.max(1));
        self
    }

    /// Rewrites one page of rows. Returns whether more pages follow. A row that cannot be decrypted is skipped and listed.
    ///
    /// # Errors
    /// Errors of the stores or a key service; a codec without keys. The page can be repeated.
    pub async fn step(&mut self) -> Result<bool> {
        if self.done {
            return Ok(false);
        }
        let rewrite = self.of_rows().await?;
        let query = Query {
            top: self.page_size,
            ..Query::new().with_unreadable()
        };
        let found = self
            .table
            .store()
            .query(self.table.name(), &query, self.from.as_ref())
            .await?;
        let (page, skipped) = (found.page, found.unreadable);
        let read = page.items.len() + skipped.len();
        // The detector does not know the token at which a rewrite was resumed.
        check_progress(self.from.as_ref(), page.continuation.as_ref(), read)?;
        let rows = page.items.into_iter().filter(|row| !row.key().is_system());
        let work: Vec<_> = rows.map(|row| rewrite.run(row)).collect();
        let work = stream::iter(work).buffer_unordered(self.concurrency);
        let found = work
            .try_fold(LargeRewritten::default(), |all, one| async {
                Ok(all.add(one))
            })
            .await?;
        self.found = std::mem::take(&mut self.found).add(found);
        self.found.skip(skipped);
        // Not before the work: a page that failed is read again.
        if let Some(next) = &page.continuation {
            self.cycles.add(next, read)?;
        }
        self.done = page.continuation.is_none();
        self.from = page.continuation;
        Ok(!self.done)
    }

    /// Rewrites all remaining pages.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub async fn run(&mut self) -> Result<&LargeRewritten> {
        while self.step().await? {}
        Ok(&self.found)
    }

    /// The continuation token of the next page; `None` before the first page and after the last. It can be stored as text.
    pub const fn cursor(&self) -> Option<&Continuation> {
        self.from.as_ref()
    }

    /// The progress so far.
    pub const fn progress(&self) -> &LargeRewritten {
        &self.found
    }

    /// The rewrite of single rows, with the active key and the indexes that the table has now.
    async fn of_rows(&self) -> Result<RowRewrite> {
        let writer = writer_of(&self.table)?;
        let codec = &writer.values().options.codec;
        let active = codec.active_key().ok_or_else(|| {
            Error::unsupported(
                "the blob codec",
                format!("a rewrite: the codec '{}' has no keys", codec.name()),
            )
        })?;
        let writer = if self.only_counts {
            writer.clone()
        } else {
            self.table.large_writer(writer).await?
        };
        Ok(RowRewrite {
            writer,
            active,
            only_counts: self.only_counts,
        })
    }
}

impl<T> fmt::Debug for LargeRewrite<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LargeRewrite");
        debug
            .field("table", &self.table)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

/// How many bytes of a blob are read to find its key: enough for most blobs, then enough for every blob.
const KEY_PREFIXES: [u64; 2] = [1024, 256 * 1024];

/// Rewrites the blobs of single rows.
struct RowRewrite {
    writer: EntityWriter,
    /// The id of the active key.
    active: String,
    only_counts: bool,
}

impl RowRewrite {
    /// Rewrites the blobs of a row; after a conflict, starts again with the stored row. Does nothing if the row was deleted.
    async fn run(&self, mut row: Entity) -> Result<LargeRewritten> {
        let mut conflicts = Conflicts::new(self.values().attempts);
        loop {
            match self.attempt(&row).await {
                Err(error) => conflicts.wait(error).await?,
                done => return done,
            }
            match self.values().row(row.key()).await? {
                None => return Ok(LargeRewritten::default()),
                Some(now) => row = now,
            }
        }
    }

    /// One attempt to rewrite the blobs of a row that was read.
    async fn attempt(&self, row: &Entity) -> Result<LargeRewritten> {
        let mut found = LargeRewritten {
            rows: 1,
            ..LargeRewritten::default()
        };
        let (mut patch, mut new) = (Entity::from(row.key().clone()), NewBlobs::none());
        for (property, reference) in references(row) {
            found.blobs += 1;
            let rewritten = self.rewrite_blob(row, &property, &reference, &mut patch, &mut new);
            match rewritten.await {
                Ok(BlobState::Kept(id)) => found.count(id),
                Ok(BlobState::KeptInPlaintext) => found.plaintext += 1,
                Ok(BlobState::Rewritten) => {
                    found.rewritten += 1;
                    found.count(self.active.clone());
                }
                Err(error) if is_unreadable(&error) => {
                    let (key, property) = (row.key().clone(), property.name().to_owned());
                    found.unreadable.push(UnreadableBlob {
                        key,
                        property,
                        error,
                    });
                }
                Err(error) => {
                    self.values().withdraw(&new).await;
                    return Err(error);
                }
            }
        }
        if found.rewritten > 0 {
            self.writer.merge_references(&new, row, patch).await?;
        }
        Ok(found)
    }

    /// Rewrites a blob if it is not encrypted under the active key.
    async fn rewrite_blob(
        &self,
        row: &Entity,
        property: &PropertyRef<'_>,
        reference: &Reference,
        patch: &mut Entity,
        new: &mut NewBlobs,
    ) -> Result<BlobState> {
        if self.values().is_accepted_plaintext(reference) {
            if self.only_counts {
                return Ok(BlobState::KeptInPlaintext);
            }
        } else {
            let key = self.key_of(row, property, reference).await?;
            if self.only_counts || key.active {
                return Ok(BlobState::Kept(key.id));
            }
        }
        let content = self
            .values()
            .content(row, property.name(), reference)
            .await?;
        // Another writer has replaced the blob. As a conflict, the row is read again.
        let content = content.ok_or_else(|| self.changed(row))?;
        let context = self.values().context(row.key(), property.name());
        let reference = self.values().put(&context, content).await?;
        new.push(context);
        put_new_reference(patch, property, &reference);
        Ok(BlobState::Rewritten)
    }

    /// The key that a blob names.
    async fn key_of(
        &self,
        row: &Entity,
        property: &PropertyRef<'_>,
        reference: &Reference,
    ) -> Result<BlobKey> {
        let (values, name) = (self.values(), property.name());
        let codec = &values.options.codec;
        let blob = BlobContext::new(&values.table, row.key(), name, reference.id);
        let path = blob.path(&values.options.root)?;
        for bytes in KEY_PREFIXES
            .into_iter()
            .filter(|_| reference.codec == codec.name())
        {
            let Some(start) = blobs::start(&*values.blobs, &path, bytes).await? else {
                values.check_row_changed(row, name, &path).await?;
                return Err(self.changed(row));
            };
            if let Some(key) = codec.key_of(&start) {
                return Ok(key);
            }
            // The whole blob was read: more bytes would not help.
            if (start.len() as u64) < bytes {
                break;
            }
        }
        Err(Error::corrupt(format!(
            "the blob {path} of the codec '{}' names no key of the codec '{}'",
            reference.codec,
            codec.name()
        )))
    }

    const fn values(&self) -> &LargeValues {
        self.writer.values()
    }

    /// The error for a row that another writer has changed.
    fn changed(&self, row: &Entity) -> Error {
        Error::precondition_failed(&self.values().table, row.key())
    }
}

/// The state of a blob after a rewrite.
enum BlobState {
    /// Unchanged, under the key with this id.
    Kept(String),
    /// Unchanged, in plaintext.
    KeptInPlaintext,
    /// Encrypted under the active key.
    Rewritten,
}

/// Whether the error concerns only this blob, so that other blobs can be rewritten.
fn is_unreadable(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Storage(_) | ErrorKind::Encryption(_) | ErrorKind::Decode(_)
    )
}
