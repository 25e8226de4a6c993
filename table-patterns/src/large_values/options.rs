//! The options of large values.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;

use super::{BlobCodec, PlainBlobs};

/// Where and how a [`Table`](crate::Table) stores its blobs.
///
/// ```
/// use std::time::Duration;
/// use table_patterns::large::LargeOptions;
/// let options = LargeOptions::default().with_write_deadline(Duration::from_secs(60));
/// assert_eq!(options.root.as_ref(), "large");
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LargeOptions {
    /// The directory with a subdirectory per table; `large` by default.
    pub root: Path,
    /// The codec of the blobs' content; [`PlainBlobs`] by default.
    pub codec: Arc<dyn BlobCodec>,
    /// The longest time between the first blob of a write and its row; an hour by default.
    pub write_deadline: Duration,
    /// The directory of the `LocalFileSystem`, if the blobs are local files.
    pub local_files: Option<PathBuf>,
    /// Whether blobs of [`PlainBlobs`] can be read although the codec is another one; `false` by default.
    pub accepts_plaintext: bool,
}

impl Default for LargeOptions {
    fn default() -> Self {
        Self {
            root: Path::from("large"),
            codec: Arc::new(PlainBlobs),
            write_deadline: Duration::from_secs(3600),
            local_files: None,
            accepts_plaintext: false,
        }
    }
}

impl LargeOptions {
    /// Sets the directory of all tables.
    #[must_use]
    pub fn with_root(mut self, root: Path) -> Self {
        self.root = root;
        self
    }

    /// Sets the codec. Blobs of other codecs cannot be read, except plaintext blobs with
    /// [`accept_plaintext`](Self::accept_plaintext).
    #[must_use]
    pub fn with_codec(mut self, codec: Arc<dyn BlobCodec>) -> Self {
        self.codec = codec;
        self
    }

    /// Allows blobs in plaintext during a migration to a codec that encrypts: they can be read, and
    /// [`Table::rewrite_blobs`](crate::Table::rewrite_blobs) encrypts them.
    ///
    /// Remove the option when the rewrite has encrypted all blobs. Until then, a client that can write to the table and the
    /// blob store can store plaintext that readers accept.
    #[must_use]
    pub const fn accept_plaintext(mut self) -> Self {
        self.accepts_plaintext = true;
        self
    }

    /// Sets the longest time between the first blob of a write and its row. The grace period of every collection must be
    /// longer.
    #[must_use]
    pub const fn with_write_deadline(mut self, deadline: Duration) -> Self {
        self.write_deadline = deadline;
        self
    }

    /// Declares that the blobs are local files in the directory that `LocalFileSystem::new_with_prefix` has. Collections then
    /// also remove partial files of killed processes.
    #[must_use]
    pub fn with_local_files(mut self, directory: impl Into<PathBuf>) -> Self {
        self.local_files = Some(directory.into());
        self
    }
}
