//! The files of a backup: their directory and the form of their rows.

use std::fmt;
use std::sync::Arc;

use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use sha2::{Digest, Sha256};
use table_core::model::Entity;
use table_core::store::{Error, Result};

use crate::blobs::blob_error;

/// The directory of the blobs of large entities in a backup.
pub(super) const BLOBS: &str = "blobs";

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
    fn encode(&self, rows: &[Entity]) -> Result<Vec<u8>>;

    /// Returns the rows of a file, in their order.
    ///
    /// # Errors
    /// A content that is not of the format.
    fn decode(&self, file: &[u8]) -> Result<Vec<Entity>>;
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
        Self { store, root, format: Arc::new(format) }
    }

    pub(super) fn path(&self, file: &str) -> Path {
        Path::from(format!("{}/{file}", self.root))
    }

    /// Reads a file; `None` if it does not exist. 1 request.
    pub(super) async fn read(&self, file: &str) -> Result<Option<Vec<u8>>> {
        let found = match self.store.get(&self.path(file)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(blob_error(error)),
        };
        Ok(Some(found.bytes().await.map_err(blob_error)?.into()))
    }

    /// Writes a file whole: readers see the file before or after. 1 request.
    pub(super) async fn write(&self, file: &str, content: Vec<u8>) -> Result<()> {
        let written = self.store.put(&self.path(file), PutPayload::from(content)).await;
        written.map(drop).map_err(blob_error)
    }

    /// Writes a file whole, unless it exists; returns `false` then. A store without conditional writes replaces the file: 1 request more.
    /// 1 request.
    pub(super) async fn create(&self, file: &str, content: Vec<u8>) -> Result<bool> {
        let payload = PutPayload::from(content.clone());
        match self.store.put_opts(&self.path(file), payload, PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(object_store::Error::NotImplemented { .. }) => self.write(file, content).await.map(|()| true),
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

    pub(super) async fn encode(&self, rows: Vec<Entity>) -> Result<Vec<u8>> {
        let format = Arc::clone(&self.format);
        blocking(move || format.encode(&rows)).await
    }

    pub(super) async fn decode(&self, file: Vec<u8>) -> Result<Vec<Entity>> {
        let format = Arc::clone(&self.format);
        blocking(move || format.decode(&file)).await
    }
}

impl fmt::Debug for BackupDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackupDirectory").field("root", &self.root).finish_non_exhaustive()
    }
}

/// Runs work that takes milliseconds of a processor.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::invalid_request(format!("the format of the backup failed: {error}")))?
}

/// The SHA-256 of a file, as 64 hexadecimal digits.
pub(super) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}
