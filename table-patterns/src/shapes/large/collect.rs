use std::collections::{BTreeSet, HashMap};
use std::future::ready;
use std::time::Duration;

use chrono::TimeDelta;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use table_core::model::{ENCRYPTION_HEADERS, Entity, Key, TableName};
use table_core::query::Select;
use table_core::store::{Error, ErrorKind, Result, TableStore};
use table_core::typed::TableEntity;

use super::place::directory;
use super::reference::{Told, told};
use super::staging::Uploads;
use super::{BlobContext, LargeOptions, LargeTable};
use crate::blobs::{self, blob_error};
use crate::index::IndexedEntities;

/// Older than any blob.
const CENTURY: TimeDelta = TimeDelta::days(36_500);

/// Whether a collection removes what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectMode {
    /// Counts only.
    Report,
    /// Removes orphans.
    Remove,
}

/// What a collection found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collected {
    /// Blobs that a row refers to.
    pub used: u64,
    /// Blobs younger than the grace period, not looked at.
    pub young: u64,
    /// Blobs that no row refers to, and what a collection that died left of telling the blob store's time.
    pub orphans: u64,
    /// Blobs that this library did not name; they stay.
    pub foreign: u64,
    /// Files that an upload left whose process was killed; looked for where
    /// [`LargeOptions::local_files`](super::LargeOptions::local_files) says where.
    pub staged: u64,
}

/// Names that are looked at together.
const PAGE: usize = 1000;

/// The blobs of an entity, each with what its name says.
type OfEntity = Vec<(Path, BlobContext)>;

impl<T: TableEntity> LargeTable<T> {
    /// Finds blobs that are older than `grace` and that no row refers to, and removes them if asked. It goes
    /// by what the rows say, of whatever type or schema version they are: blobs of the table's other types are looked
    /// after too.
    ///
    /// One request for each entity with old blobs (of each page of names that its blobs are in), so many at once as the
    /// options say ([`LargeOptions::concurrency`](super::LargeOptions)); three for the blob store's time, one per page of
    /// names and one per orphan. Run it as often as orphans may pile up; several at once do no harm. Where blobs are
    /// local files ([`with_local_files`](super::LargeOptions::with_local_files)), it looks for what killed uploads left,
    /// too: one that is at work after all fails by that, and writes no row.
    ///
    /// # Errors
    /// The stores'. `grace` is not longer than the write deadline: it would take blobs of writes in flight. The table is
    /// missing: if it was dropped, [`delete_table`](Self::delete_table) removes its blobs.
    pub async fn collect(&self, grace: Duration, mode: CollectMode) -> Result<Collected> {
        let deadline = self.options().write_deadline;
        if grace <= deadline {
            return Err(Error::invalid_request(format!(
                "a grace period of {grace:?} is not longer than the write deadline, {deadline:?}: blobs of writes \
                 in flight would be removed"
            )));
        }
        self.collect_older(grace, mode).await
    }

    /// The same without a check: for times when nobody writes.
    pub(super) async fn collect_older(&self, grace: Duration, mode: CollectMode) -> Result<Collected> {
        let (table, blobs) = (self.name(), &**self.blobs());
        let collection = Collection { store: &**self.store(), table, blobs, options: self.options() };
        let mut found = Collected::default();
        collection.run(grace, mode, &mut found, || ready(true)).await?;
        Ok(found)
    }

    /// Drops the table, if it is there, and then removes all of its blobs, of whatever type and age; how many. Also for a
    /// table that was dropped otherwise. **Nobody may write to it, or make it again, until this has returned**; if it
    /// fails, run it again.
    ///
    /// One request, one per page of names and one per blob, so many at once as the options say.
    ///
    /// # Errors
    /// The stores'. An index has its entries in another table, where they would stay: drop it first.
    pub async fn delete_table(&self) -> Result<u64> {
        if let Some(other) = self.entities().and_then(IndexedEntities::other_table) {
            let name = self.name();
            return Err(Error::invalid_request(format!(
                "entries of '{name}' are in the table '{other}', and would stay there: drop their index first (`drop_index` of the \
                 table's `entities`)"
            )));
        }
        match self.store().delete_table(self.name()).await {
            Err(error) if error.is_table_not_found() && !error.is_ambiguous() => {}
            Err(error) if matches!(error.kind(), ErrorKind::TableBeingDeleted { .. }) => {}
            done => done?,
        }
        let directory = directory(&self.options().root, self.name())?;
        let names = self.blobs().list(Some(&directory)).map_err(blob_error);
        let ours = names.try_filter(|blob| {
            let is_clock = blobs::is_clock(&directory, &blob.location);
            let known = BlobContext::parse(&self.options().root, self.name(), &blob.location);
            ready(is_clock || known.is_some())
        });
        let deletes = ours.map_ok(|blob| async move { blobs::delete(&**self.blobs(), &blob.location).await });
        let deletes = deletes.try_buffer_unordered(self.options().concurrency.max(1));
        deletes.try_fold(0, |count, ()| ready(Ok(count + 1))).await
    }
}

/// A collection of the blobs of a table, whatever types its entities have.
pub(crate) struct Collection<'a> {
    pub(crate) store: &'a dyn TableStore,
    pub(crate) table: &'a TableName,
    pub(crate) blobs: &'a dyn ObjectStore,
    pub(crate) options: &'a LargeOptions,
}

impl Collection<'_> {
    /// Judges all blobs that are older than `grace`. `next` is awaited before each page of names: `false` ends the collection.
    /// Whether the collection has ended by itself.
    pub(crate) async fn run<N: Future<Output = bool>>(
        &self,
        grace: Duration,
        mode: CollectMode,
        found: &mut Collected,
        mut next: impl FnMut() -> N,
    ) -> Result<bool> {
        let directory = directory(&self.options.root, self.table)?;
        let now = blobs::store_time(self.blobs, &directory).await?;
        let grace = TimeDelta::from_std(grace).unwrap_or(CENTURY).min(CENTURY);
        let names = self.blobs.list(Some(&directory)).try_chunks(PAGE);
        let mut names = names.map_err(|error| blob_error(error.1));
        if let Some(files) = &self.options.local_files {
            let uploads = Uploads { of: files.join(directory.as_ref()), before: now - grace, mode };
            found.staged += uploads.collect().await?;
        }
        loop {
            if !next().await {
                return Ok(false);
            }
            let Some(page) = names.try_next().await? else { return Ok(true) };
            let (old, young): (Vec<_>, Vec<_>) =
                page.into_iter().partition(|blob| now.signed_duration_since(blob.last_modified) >= grace);
            found.young += young.len() as u64;
            found.add(self.judge_page(&directory, old, mode).await?);
        }
    }

    /// Judges old blobs, those of an entity together and of several entities at once.
    async fn judge_page(
        &self,
        directory: &Path,
        blobs: Vec<ObjectMeta>,
        mode: CollectMode,
    ) -> Result<Collected> {
        let (mut found, mut entities) = (Collected::default(), HashMap::<Key, OfEntity>::new());
        for ObjectMeta { location, .. } in blobs {
            match BlobContext::parse(&self.options.root, self.table, &location) {
                Some(context) => {
                    entities.entry(context.key.clone()).or_default().push((location, context));
                }
                None if blobs::is_clock(directory, &location) => {
                    found.orphans += 1;
                    self.take(&location, mode).await?;
                }
                None => found.foreign += 1,
            }
        }
        let judged = entities.into_iter().map(|(key, blobs)| self.judge(key, blobs, mode));
        let judged = stream::iter(judged).buffer_unordered(self.options.concurrency.max(1));
        let add = |mut found: Collected, more| async move {
            found.add(more);
            Ok(found)
        };
        judged.try_fold(found, add).await
    }

    /// Judges the blobs of an entity by its row. One request.
    async fn judge(&self, key: Key, blobs: OfEntity, mode: CollectMode) -> Result<Collected> {
        let named = blobs.iter().map(|(_, context)| &*context.property);
        let properties: BTreeSet<_> = named.chain(ENCRYPTION_HEADERS).collect();
        let row = self.store.get(self.table, &key, Some(&Select::new(properties))).await?;
        let mut found = Collected::default();
        for (blob, context) in &blobs {
            if row.as_ref().is_some_and(|row| uses(row, context)) {
                found.used += 1;
            } else {
                found.orphans += 1;
                self.take(blob, mode).await?;
            }
        }
        Ok(found)
    }

    async fn take(&self, blob: &Path, mode: CollectMode) -> Result<()> {
        match mode {
            CollectMode::Report => Ok(()),
            CollectMode::Remove => blobs::delete(self.blobs, blob).await,
        }
    }
}

impl Collected {
    pub(crate) const fn add(&mut self, other: Self) {
        self.used += other.used;
        self.young += other.young;
        self.orphans += other.orphans;
        self.foreign += other.foreign;
        self.staged += other.staged;
    }
}

/// Whether the row refers to the blob. What cannot be read may be a reference of a version to come; what is in ciphertext, of
/// another type of the table that is encrypted, may be any.
fn uses(row: &Entity, context: &BlobContext) -> bool {
    if row.is_ciphertext() && row.get(&context.property).is_some() {
        return true;
    }
    match row.get(&context.property).and_then(told) {
        Some(Told::Blob(reference)) => reference.id == context.id,
        Some(Told::Unreadable) => true,
        None => false,
    }
}
