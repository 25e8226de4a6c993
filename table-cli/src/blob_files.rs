//! Blobs of large entities, and backups, in directories of this machine.

use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use clap::Args;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::failure::{Failure, Result};

/// The blobs of large entities.
#[derive(Debug, Args)]
pub(crate) struct BlobArgs {
    /// The directory of the blobs of large entities: the root in `LargeOptions`, with a directory for each table
    #[arg(long, value_name = "DIR")]
    pub(crate) blobs: Option<PathBuf>,
    /// Rows alone, without the blobs of large entities: take the blobs by another tool, such as AzCopy
    #[arg(long, conflicts_with = "blobs")]
    pub(crate) rows_only: bool,
}

/// Opens a directory. `creates` creates it if it is missing.
pub(crate) fn blobs_in(directory: &FilePath, creates: bool) -> Result<Arc<dyn ObjectStore>> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::misuse(format!("the directory {} cannot be opened: {error}", directory.display()))
    };
    if creates {
        std::fs::create_dir_all(directory).map_err(|error| failed(&error))?;
    }
    let files = LocalFileSystem::new_with_prefix(directory).map_err(|error| failed(&error))?;
    Ok(Arc::new(files.with_fsync(true)))
}

/// The root of blobs: a directory of [`BlobArgs`] is the root itself.
pub(crate) fn root() -> Path {
    Path::default()
}
