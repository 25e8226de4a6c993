//! What uploads to local files left whose processes were killed: `object_store` writes a file beside the blob,
//! `{blob}#{number}`, and renames it in the end. It neither lists nor removes such files
//! (<https://docs.rs/object_store/latest/object_store/local/struct.LocalFileSystem.html>).
//!
//! Removing one that is still written does no harm: the upload cannot rename it, fails, and no row refers to it.

use std::fs;
use std::io::{self, ErrorKind as IoKind};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use table_core::store::{Error, ErrorKind, Result};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::CollectMode;

/// Directories between that of a table and a blob: PartitionKey, RowKey, property.
const DEPTH: usize = 3;

/// The files of uploads in the directory of a table.
#[derive(Clone, Debug)]
pub(super) struct Uploads {
    pub(super) of: PathBuf,
    /// Younger ones are not looked at, by the clock of the file system.
    pub(super) before: DateTime<Utc>,
    pub(super) mode: CollectMode,
}

impl Uploads {
    /// How many were left; they are removed if the mode says so.
    pub(super) async fn collect(self) -> Result<u64> {
        let directory = self.of.display().to_string();
        let done = spawn_blocking(move || self.walk(&self.of, DEPTH)).await;
        let failed =
            |error: String| Error::from(ErrorKind::Storage(format!("files in {directory}: {error}")));
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }

    fn walk(&self, directory: &Path, depth: usize) -> io::Result<u64> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == IoKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut found = 0;
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if depth > 0 && kind.is_dir() {
                found += self.walk(&entry.path(), depth - 1)?;
            } else if depth == 0 && kind.is_file() && entry.file_name().to_str().is_some_and(is_upload) {
                found += u64::from(self.judge(&entry.path())?);
            }
        }
        Ok(found)
    }

    /// Whether a file was left. One that is gone meanwhile was not.
    fn judge(&self, file: &Path) -> io::Result<bool> {
        let judged = fs::metadata(file).and_then(|found| found.modified()).and_then(|modified| {
            let left = DateTime::<Utc>::from(modified) <= self.before;
            if left && self.mode == CollectMode::Remove {
                fs::remove_file(file)?;
            }
            Ok(left)
        });
        match judged {
            Err(error) if error.kind() == IoKind::NotFound => Ok(false),
            judged => judged,
        }
    }
}

/// Whether a file of this name is an upload of a blob that this library named.
fn is_upload(name: &str) -> bool {
    let parts = name.split_once('#');
    parts.is_some_and(|(blob, number)| Uuid::try_parse(blob).is_ok() && number.parse::<u64>().is_ok())
}
