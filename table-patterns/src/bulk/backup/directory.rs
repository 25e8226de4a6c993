//! The files of a backup: their directory and the form of their rows.

use std::fmt;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{GetResult, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use sha2::{Digest, Sha256};
use table_core::model::Entity;
use table_core::store::{Error, Result};

use crate::blobs::blob_error;

/// The directory of the blobs of large entities in a backup.
pub(super) const BLOBS: &str = "blobs";

/// The most bytes of a file of a backup that are read. The library writes less: a file of rows has the rows of two pages, and `backup.json`
/// some hundred bytes for each file.
pub(super) const FILE_BYTES: u64 = 256 * 1024 * 1024;
/// The most rows, and bytes of rows in their form before compression, that a file of rows may have. The library writes about a tenth.
const MOST: RowsSize = RowsSize {
    rows: 100_000,
    bytes: 128 * 1024 * 1024,
};

/// The size of the rows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsSize {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of the rows in their form before compression.
    pub bytes: u64,
}

impl RowsSize {
    /// Why no file of the library has this size; `None` if it may have. Others can write the files of a backup, and a compressed file
    /// of some kilobytes can name gigabytes.
    pub(super) fn excess(self) -> Option<String> {
        let Self { rows, bytes } = MOST;
        (self.rows > rows || self.bytes > bytes).then(|| {
            format!(
                "names {} rows of {} bytes, and a file has at most {rows} rows of {bytes} bytes",
                self.rows, self.bytes
            )
        })
    }
}

/// A file of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRows {
    /// The content of the file.
    pub content: Vec<u8>,
    /// The bytes of the rows in their form before compression.
    pub bytes: u64,
}

/// The form of the rows in the files of a backup.
///
/// [`encode`](Self::encode) and [`decode`](Self::decode) run on a thread for blocking work.
pub trait RowFormat: Send + Sync + 'static {
    /// The end of the names of files, such as `jsonl.zst`.
    fn extension(&self) -> &'static str;

    /// Returns the content of a file with these rows. ETags and timestamps are left out.
    ///
    /// # Errors
    /// A row that the format cannot hold.
    fn encode(&self, rows: &[Entity]) -> Result<EncodedRows>;

    /// Returns the rows of a file, in their order. `size` is what the backup says of the file.
    ///
    /// # Errors
    /// A content that is not of the format, or has more rows or bytes than `size`: the rest is then neither decompressed nor kept.
    fn decode(&self, file: &[u8], size: RowsSize) -> Result<Vec<Entity>>;
}

/// The place of a backup: a directory in an object store, and the format of its files.
#[derive(Clone)]
pub struct BackupDirectory {
    pub(super) store: Arc<dyn ObjectStore>,
    root: Path,
    pub(super) format: Arc<dyn RowFormat>,
}

impl BackupDirectory {
    /// Names a directory. Sends no request.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, format: impl RowFormat) -> Self {
        Self {
            store,
            root,
            format: Arc::new(format),
        }
    }

    pub(super) fn path(&self, file: &str) -> Path {
        Path::from(format!("{}/{file}", self.root))
    }

    /// Reads a file that says what the backup contains; `None` if it does not exist. 1 request.
    ///
    /// # Errors
    /// The file is larger than any such file. It is not read then.
    pub(super) async fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let Some(found) = self.get(file).await? else {
            return Ok(None);
        };
        let size = found.meta.size;
        if size > FILE_BYTES {
            return Err(Error::corrupt(format!(
                "the file {file} of the backup has {size} bytes, and no such file has more than {FILE_BYTES}"
            )));
        }
        content(found).await.map(Some)
    }

    /// Reads a file of this size. 1 request. A file of another size is not read.
    pub(super) async fn read_sized(&self, file: &str, bytes: u64) -> Result<FileContent> {
        let Some(found) = self.get(file).await? else {
            return Ok(FileContent::Missing);
        };
        let size = found.meta.size;
        if size != bytes {
            return Ok(FileContent::OtherSize(size));
        }
        content(found).await.map(FileContent::Whole)
    }

    async fn get(&self, file: &str) -> Result<Option<GetResult>> {
        match self.store.get(&self.path(file)).await {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(blob_error(error)),
        }
    }

    /// Writes a file whole: readers see the file before or after. 1 request.
    pub(super) async fn write(&self, file: &str, content: Vec<u8>) -> Result<()> {
        let written = self
            .store
            .put(&self.path(file), PutPayload::from(content))
            .await;
        written.map(drop).map_err(blob_error)
    }

    /// Writes a file whole, unless it exists; returns `false` then. A store without conditional writes replaces the file: 1 request more.
    /// 1 request.
    pub(super) async fn create(&self, file: &str, content: Vec<u8>) -> Result<bool> {
        let payload = PutPayload::from(content.clone());
        match self
            .store
            .put_opts(&self.path(file), payload, PutMode::Create.into())
            .await
        {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(object_store::Error::NotImplemented { .. }) => {
                self.write(file, content).await.map(|()| true)
            }
            Err(error) => Err(blob_error(error)),
        }
    }

    /// Deletes a file, if it exists. 1 request.
    pub(super) async fn delete(&self, file: &str) -> Result<()> {
        match self.store.delete(&self.path(file)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(blob_error(error)),
        }
    }

    pub(super) async fn encode(&self, rows: Vec<Entity>) -> Result<EncodedRows> {
        let format = Arc::clone(&self.format);
        blocking(move || format.encode(&rows)).await
    }

    pub(super) async fn decode(&self, file: Vec<u8>, size: RowsSize) -> Result<Vec<Entity>> {
        let format = Arc::clone(&self.format);
        blocking(move || format.decode(&file, size)).await
    }
}

impl fmt::Debug for BackupDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupDirectory")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

/// A file of rows, as it was found.
pub(super) enum FileContent {
    Missing,
    Whole(Vec<u8>),
    /// The file has this size instead.
    OtherSize(u64),
}

async fn content(found: GetResult) -> Result<Vec<u8>> {
    Ok(found.bytes().await.map_err(blob_error)?.into())
}

/// Runs work that takes milliseconds of a processor.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::corrupt(format!("the format of the backup failed: {error}")))?
}

/// The SHA-256 of a file, as 64 hexadecimal digits.
pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
