use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;

use super::{BlobCodec, PlainBlobs};

/// How a [`LargeTable`](super::LargeTable) keeps its blobs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LargeOptions {
    /// The directory that holds a directory for each table; `large` unless told otherwise.
    pub root: Path,
    /// What values go through; [`PlainBlobs`] unless told otherwise.
    pub codec: Arc<dyn BlobCodec>,
    /// The longest time between the first blob of a write and its row; an hour unless told otherwise.
    pub write_deadline: Duration,
    /// Blobs that are read at once; 8 unless told otherwise.
    pub concurrency: usize,
    /// Times that a write without a version tries when others are faster; 10 unless told otherwise.
    pub attempts: u32,
    /// Where the blobs are files of this machine: the directory that the `LocalFileSystem` was opened with.
    pub local_files: Option<PathBuf>,
    /// Whether blobs of [`PlainBlobs`] are read beside those of another codec; not, unless told otherwise.
    pub accepts_plaintext: bool,
}

impl Default for LargeOptions {
    fn default() -> Self {
        Self {
            root: Path::from("large"),
            codec: Arc::new(PlainBlobs),
            write_deadline: Duration::from_secs(3600),
            concurrency: 8,
            attempts: 10,
            local_files: None,
            accepts_plaintext: false,
        }
    }
}

impl LargeOptions {
    /// Another directory.
    #[must_use]
    pub fn with_root(mut self, root: Path) -> Self {
        self.root = root;
        self
    }

    /// Another codec. Values that another one wrote cannot be read, but for plaintext
    /// ([`accept_plaintext`](Self::accept_plaintext)).
    #[must_use]
    pub fn with_codec(mut self, codec: Arc<dyn BlobCodec>) -> Self {
        self.codec = codec;
        self
    }

    /// Declares a migration to a codec that encrypts: values of [`PlainBlobs`] are read too, and
    /// [`LargeTable::rewrite`](super::LargeTable::rewrite) encrypts them. Take it out when the rewrite has found none that it could
    /// not do: until then, a client that can write to the table and to the blob store can put plaintext there.
    #[must_use]
    pub const fn accept_plaintext(mut self) -> Self {
        self.accepts_plaintext = true;
        self
    }

    /// Another deadline; the grace period of every collection must be longer.
    #[must_use]
    pub const fn with_write_deadline(mut self, deadline: Duration) -> Self {
        self.write_deadline = deadline;
        self
    }

    /// Another number of blobs that are read at once; at least 1.
    #[must_use]
    pub const fn with_concurrency(mut self, blobs: usize) -> Self {
        self.concurrency = blobs;
        self
    }

    /// Says that the blobs are files below this directory, the one given to `LocalFileSystem::new_with_prefix`:
    /// collections then remove what uploads left whose processes were killed, too.
    #[must_use]
    pub fn with_local_files(mut self, directory: impl Into<PathBuf>) -> Self {
        self.local_files = Some(directory.into());
        self
    }

    /// Another number of times that a write without a version is tried; at least 1.
    #[must_use]
    pub const fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }
}
