//! Finds blobs without a row, rows without a blob, and partial files.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::future::ready;
use std::io::{self, ErrorKind as IoKind};
use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use table_core::model::{ENCRYPTION_HEADERS, Entity, Key, TableName};
use table_core::query::Select;
use table_core::store::{Error, ErrorKind, Result, TableStore};
use table_core::typed::TableEntity;
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{BlobContext, LargeOptions, values_of};
use crate::Table;
use crate::blobs::{self, blob_error, directory, has_blob};
use crate::blobs::{MaybeReference, Reference, parse_reference};
use crate::large_values::LargeValues;

/// A grace period that is longer than the age of any blob.
const CENTURY: TimeDelta = TimeDelta::days(36_500);

/// Whether a collection removes the orphans that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectMode {
    /// Counts only.
    Report,
    /// Removes orphans.
    Remove,
}

/// The result of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Collected {
    /// The number of blobs that a row refers to.
    pub used: u64,
    /// The number of blobs younger than the grace period, which are not examined.
    pub young: u64,
    /// The number of blobs that no row refers to, including clock blobs of collections that died.
    pub orphans: u64,
    /// The number of blobs with other names; they stay.
    pub foreign: u64,
    /// The number of partial files of killed processes, in the directory of
    /// [`LargeOptions::local_files`](super::LargeOptions::local_files).
    pub staged: u64,
}

/// The number of blob names that are examined together.
const PAGE: usize = 1000;

/// The blobs of an entity, each with its context.
type EntityBlobs = Vec<(Path, BlobContext)>;

impl<T: TableEntity> Table<T> {
    /// Finds blobs of the table that are older than `grace` and that no row refers to, and removes them with
    /// [`CollectMode::Remove`]. Rows of all types and schema versions count.
    ///
    /// 1 request per entity with old blobs in a page of names, several at once; 3 for the blob store's time, 1 per page of names
    /// and 1 per orphan. Several collections may run at the same time. With [local files](super::LargeOptions::with_local_files),
    /// the collection also finds partial files. An upload whose partial file is removed while it runs fails and writes no row.
    ///
    /// # Errors
    /// Errors of the stores. `grace` is not longer than the write deadline: blobs of writes in flight would be removed. The
    /// table is missing: if it was deleted, [`delete_table_if_exists`](Self::delete_table_if_exists) removes its blobs. `T` has
    /// no large fields.
    pub async fn collect_blobs(&self, grace: Duration, mode: CollectMode) -> Result<Collected> {
        let deadline = values_of(self)?.options.write_deadline;
        if grace <= deadline {
            return Err(Error::invalid_argument(format!(
                "a grace period of {grace:?} is not longer than the write deadline, {deadline:?}: blobs of writes \
                 in flight would be removed"
            )));
        }
        collect_older(self, grace, mode).await
    }
}

/// A collection without the check of `grace`, for times without writers.
pub(super) async fn collect_older<T: TableEntity>(
    table: &Table<T>,
    grace: Duration,
    mode: CollectMode,
) -> Result<Collected> {
    let values = values_of(table)?;
    let collection = Collection {
        store: &**table.store(),
        table: table.name(),
        blobs: &*values.blobs,
        options: &values.options,
        concurrency: values.concurrency,
    };
    let mut found = Collected::default();
    collection
        .run(grace, mode, &mut found, || ready(true))
        .await?;
    Ok(found)
}

/// A collection of the blobs of a table, whatever types its entities have.
pub(crate) struct Collection<'a> {
    pub(crate) store: &'a dyn TableStore,
    pub(crate) table: &'a TableName,
    pub(crate) blobs: &'a dyn ObjectStore,
    pub(crate) options: &'a LargeOptions,
    /// The number of entities that are examined at once.
    pub(crate) concurrency: usize,
}

impl Collection<'_> {
    /// Examines all blobs that are older than `grace`. `next` is awaited before each page of names: `false` stops the collection.
    /// Returns whether the collection has examined all pages and was not stopped.
    pub(crate) async fn run<N: Future<Output = bool>>(
        &self,
        grace: Duration,
        mode: CollectMode,
        found: &mut Collected,
        mut next: impl FnMut() -> N,
    ) -> Result<bool> {
        let directory = directory(&self.options.root, self.table)?;
        // The age of a blob is measured by the clock of the blob store, which has also given the blob its time.
        let now = blobs::store_time(self.blobs, &directory).await?;
        let grace = TimeDelta::from_std(grace).unwrap_or(CENTURY).min(CENTURY);
        let names = self.blobs.list(Some(&directory)).try_chunks(PAGE);
        let mut names = names.map_err(|error| blob_error(error.1));
        if let Some(files) = &self.options.local_files {
            let partial = PartialFiles {
                directory: files.join(directory.as_ref()),
                before: now - grace,
                mode,
            };
            found.staged += partial.collect().await?;
        }
        loop {
            if !next().await {
                return Ok(false);
            }
            let Some(page) = names.try_next().await? else {
                return Ok(true);
            };
            let (old, young): (Vec<_>, Vec<_>) = page
                .into_iter()
                .partition(|blob| now.signed_duration_since(blob.last_modified) >= grace);
            found.young += young.len() as u64;
            found.add(self.examine_page(&directory, old, mode).await?);
        }
    }

    /// Examines old blobs: the blobs of an entity together, several entities at once.
    async fn examine_page(
        &self,
        directory: &Path,
        blobs: Vec<ObjectMeta>,
        mode: CollectMode,
    ) -> Result<Collected> {
        let (mut found, mut entities) = (Collected::default(), HashMap::<Key, EntityBlobs>::new());
        for ObjectMeta { location, .. } in blobs {
            match BlobContext::parse(&self.options.root, self.table, &location) {
                Some(context) => {
                    entities
                        .entry(context.key.clone())
                        .or_default()
                        .push((location, context));
                }
                None if blobs::is_clock(directory, &location) => {
                    found.orphans += 1;
                    self.remove_orphan(&location, mode).await?;
                }
                None => found.foreign += 1,
            }
        }
        let examined = entities
            .into_iter()
            .map(|(key, blobs)| self.examine(key, blobs, mode));
        let examined = stream::iter(examined).buffer_unordered(self.concurrency);
        let add = |mut found: Collected, more| async move {
            found.add(more);
            Ok(found)
        };
        examined.try_fold(found, add).await
    }

    /// Examines the blobs of an entity by its row. 1 request, and 1 for each orphan that is removed.
    async fn examine(&self, key: Key, blobs: EntityBlobs, mode: CollectMode) -> Result<Collected> {
        // The headers show whether the row has ciphertext, in which references are not visible.
        let named = blobs.iter().map(|(_, context)| &*context.property);
        let properties: BTreeSet<_> = named.chain(ENCRYPTION_HEADERS).collect();
        // The row is read after its blobs were listed as old. A write that could still refer to one of them has passed its deadline by
        // now, so a blob without a reference never gets one.
        let row = self
            .store
            .get(self.table, &key, Some(&Select::new(properties)))
            .await?;
        let mut found = Collected::default();
        for (blob, context) in &blobs {
            if row.as_ref().is_some_and(|row| uses(row, context)) {
                found.used += 1;
            } else {
                found.orphans += 1;
                self.remove_orphan(blob, mode).await?;
            }
        }
        Ok(found)
    }

    async fn remove_orphan(&self, blob: &Path, mode: CollectMode) -> Result<()> {
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

/// Whether the row refers to the blob, or may refer to it: an unreadable value may be a reference of a later format, and a
/// value in ciphertext may be any reference.
fn uses(row: &Entity, context: &BlobContext) -> bool {
    if row.is_ciphertext() && row.get(&context.property).is_some() {
        return true;
    }
    match row.get(&context.property).and_then(parse_reference) {
        Some(MaybeReference::Blob(reference)) => reference.id == context.id,
        Some(MaybeReference::Unreadable) => true,
        None => false,
    }
}

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct LargeScrub {
    /// The number of rows read.
    pub rows: u64,
    /// The number of values in blobs.
    pub references: u64,
    /// The values whose blob is missing or has another size.
    pub missing: Vec<MissingBlob>,
}

/// A value whose blob is missing or has another size.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MissingBlob {
    /// The entity.
    pub key: Key,
    /// The property.
    pub property: &'static str,
    /// The expected name of the blob.
    pub name: String,
}

impl<T: TableEntity> Table<T> {
    /// Checks that every large value of the entities of type `T` has its blob, by name and size. Run a scrub for each type of
    /// a table. 1 request per page of rows and 1 per large value. A value that is written during the scrub may be reported
    /// although its blob exists: repeat the scrub.
    ///
    /// # Errors
    /// Errors of the stores; `T` has no large fields.
    pub async fn scrub_blobs(&self) -> Result<LargeScrub> {
        let values = values_of(self)?;
        let mut found = LargeScrub::default();
        let mut rows = self.query().project::<Entity>().stream();
        while let Some(row) = rows.try_next().await? {
            found.rows += 1;
            scrub_row(values, &row, &mut found).await?;
        }
        Ok(found)
    }
}

async fn scrub_row(values: &LargeValues, row: &Entity, found: &mut LargeScrub) -> Result<()> {
    for property in values.large() {
        let stored = row.get(property.name);
        let reference = stored.map(|value| Reference::read(row.key(), property, value));
        let Some(reference) = reference.transpose()?.flatten() else {
            continue;
        };
        found.references += 1;
        let context = BlobContext::new(&values.table, row.key(), property.name, reference.id);
        let path = context.path(&values.options.root)?;
        if !has_blob(&values.blobs, &path, reference.stored.size).await? {
            let (key, property, name) = (row.key().clone(), property.name, path.to_string());
            found.missing.push(MissingBlob {
                key,
                property,
                name,
            });
        }
    }
    Ok(())
}

/// The number of directory levels between a table's directory and a blob: PartitionKey, RowKey, property.
const DEPTH: usize = 3;

/// The partial files of killed uploads in the directory of a table.
///
/// `object_store` writes a local blob to a file `{blob}#{number}` next to the blob and renames it at the end. It neither
/// lists nor removes such files:
/// <https://docs.rs/object_store/latest/object_store/local/struct.LocalFileSystem.html>. Removing the file of a running
/// upload is harmless: the upload cannot rename the file, fails, and no row refers to it.
#[derive(Clone, Debug)]
struct PartialFiles {
    directory: PathBuf,
    /// Younger files, by the file system's clock, are ignored.
    before: DateTime<Utc>,
    mode: CollectMode,
}

impl PartialFiles {
    /// The number of partial files. Removes them with [`CollectMode::Remove`].
    async fn collect(self) -> Result<u64> {
        let directory = self.directory.display().to_string();
        let done = spawn_blocking(move || self.walk(&self.directory, DEPTH)).await;
        let failed = |error: String| {
            Error::from(ErrorKind::Storage(format!(
                "the files in {directory} cannot be read or removed: {error}"
            )))
        };
        done.map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))
    }

    fn walk(&self, directory: &FilePath, depth: usize) -> io::Result<u64> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut found = 0;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            // Deeper directories, and files at other levels, are not of this library.
            if depth > 0 && kind.is_dir() {
                found += self.walk(&entry.path(), depth - 1)?;
            } else if depth == 0
                && kind.is_file()
                && entry.file_name().to_str().is_some_and(is_upload)
            {
                found += u64::from(self.collect_file(&entry.path())?);
            }
        }
        Ok(found)
    }

    /// Returns whether a file is older than the bound; removes such a file with [`CollectMode::Remove`]. A file that has disappeared is not
    /// older.
    fn collect_file(&self, file: &FilePath) -> io::Result<bool> {
        let collected = fs::metadata(file)
            .and_then(|found| found.modified())
            .and_then(|modified| {
                let is_old = DateTime::<Utc>::from(modified) <= self.before;
                if is_old && self.mode == CollectMode::Remove {
                    fs::remove_file(file)?;
                }
                Ok(is_old)
            });
        match collected {
            Err(error) if error.kind() == IoKind::NotFound => Ok(false),
            collected => collected,
        }
    }
}

/// Whether the file name is that of an upload of one of our blobs.
fn is_upload(name: &str) -> bool {
    let parts = name.split_once('#');
    parts.is_some_and(|(blob, number)| {
        Uuid::try_parse(blob).is_ok() && number.parse::<u64>().is_ok()
    })
}
