//! What a backup says of itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use table_core::model::{Entity, TableName};
use table_core::store::{Error, Result};

use super::directory::{BackupDirectory, EncodedRows, FILE_BYTES, FileContent, RowsSize, sha256};

/// The file that makes a backup complete. It is written last.
const COMPLETE: &str = "backup.json";
/// The file that an unfinished backup has.
const UNFINISHED: &str = "unfinished.json";
/// The format of backups that this library writes, and the latest that it reads.
const FORMAT: u32 = 1;

/// A complete backup: its tables, with the checksum of each file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Backup {
    format: u32,
    /// The identity of the backup.
    pub id: uuid::Uuid,
    /// The store, as the program that made the backup named it.
    pub source: String,
    /// The time at which the backup began, in RFC 3339.
    pub started: String,
    /// The time since which rows were changed, in RFC 3339; `None` if the backup has all rows.
    pub since: Option<String>,
    /// Whether the backup has the blobs of large entities.
    pub has_blobs: bool,
    /// Whether the store distinguishes the case of table names, which decides the name that ciphertext is bound to.
    #[serde(default)]
    pub case_sensitive: bool,
    /// Whether the tables were chosen; otherwise they are all tables of the store.
    pub is_choice: bool,
    /// The tables.
    pub tables: BTreeMap<TableName, BackupTable>,
}

/// A table in a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BackupTable {
    /// The files, in the order of the rows.
    pub chunks: Vec<Chunk>,
    /// The number of rows that belong to writes that were not finished.
    pub unfinished: u64,
    /// The other tables with index entries of this table.
    pub index_tables: BTreeSet<TableName>,
    /// The number of rows with values in blobs.
    pub with_blobs: u64,
    /// The number of rows with ciphertext that is bound to the name of the table.
    #[serde(default)]
    pub encrypted: u64,
}

/// A file of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Chunk {
    /// The name of the file, below the directory of the backup.
    pub file: String,
    /// The number of rows.
    pub rows: u64,
    /// The size of the file, in bytes.
    pub bytes: u64,
    /// The size of the rows in their form before compression, in bytes.
    pub row_bytes: u64,
    /// The SHA-256 of the file, as 64 hexadecimal digits.
    pub sha256: String,
}

impl BackupTable {
    /// The number of rows.
    pub fn rows(&self) -> u64 {
        // Not a sum that overflows: the numbers are in a file that others may have written.
        self.chunks
            .iter()
            .fold(0, |rows, chunk| rows.saturating_add(chunk.rows))
    }
}

/// The content of `backup.json`: the backup and its own checksum.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    sha256: String,
    #[serde(borrow)]
    backup: &'a RawValue,
}

impl Backup {
    pub(super) fn new(source: String, since: Option<String>, has_blobs: bool) -> Self {
        let started = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let tables = BTreeMap::new();
        let (id, case_sensitive, is_choice) = (uuid::Uuid::new_v4(), false, false);
        Self {
            format: FORMAT,
            id,
            source,
            started,
            since,
            has_blobs,
            case_sensitive,
            is_choice,
            tables,
        }
    }

    /// Reads what the backup in a directory contains. 1 request.
    ///
    /// # Errors
    /// There is no backup, or it is not complete; `backup.json` is damaged, or of a later version of this library.
    pub async fn open(directory: &BackupDirectory) -> Result<Self> {
        let Some(content) = directory.read(COMPLETE).await? else {
            return Err(match directory.read(UNFINISHED).await? {
                Some(_) => Error::corrupt(
                    "the backup is not complete: run the same backup again, which continues it",
                ),
                None => {
                    Error::corrupt(format!("the directory has no backup: it has no {COMPLETE}"))
                }
            });
        };
        let damaged = |reason: &str| Error::corrupt(format!("{COMPLETE} is damaged: {reason}"));
        let sealed: Sealed<'_> =
            serde_json::from_slice(&content).map_err(|error| damaged(&error.to_string()))?;
        let text = sealed.backup.get();
        if sha256(text.as_bytes()) != sealed.sha256 {
            return Err(damaged("its checksum differs"));
        }
        // The format number first: a later version may have other fields.
        let Format { format } =
            serde_json::from_str(text).map_err(|error| damaged(&error.to_string()))?;
        if format > FORMAT {
            return Err(Error::wrong_state(format!(
                "the backup has the format {format}, and this program reads {FORMAT}: use a later version of the program"
            )));
        }
        serde_json::from_str(text).map_err(|error| damaged(&error.to_string()))
    }

    /// Whether a directory has a complete backup. 1 request.
    pub(super) async fn is_complete(directory: &BackupDirectory) -> Result<bool> {
        Ok(directory.read(COMPLETE).await?.is_some())
    }

    /// Makes the backup complete. 2 requests.
    pub(super) async fn complete(&self, directory: &BackupDirectory) -> Result<()> {
        let text = serde_json::value::to_raw_value(self).map_err(unwritable)?;
        let sealed = Sealed {
            sha256: sha256(text.get().as_bytes()),
            backup: &text,
        };
        // The file that makes the backup complete comes first: a crash before the deletion leaves a complete
        // backup.
        directory
            .write(
                COMPLETE,
                serde_json::to_vec_pretty(&sealed).map_err(unwritable)?,
            )
            .await?;
        directory.delete(UNFINISHED).await
    }

    /// Reads the state of an interrupted backup. 1 request.
    pub(super) async fn unfinished(directory: &BackupDirectory) -> Result<Option<Self>> {
        read_json(directory, UNFINISHED).await
    }

    /// Saves that the backup has begun: its tables have no files yet. Returns `false` if another process has begun one. 1 request, 1 more
    /// if the file exists.
    pub(super) async fn begin(&self, directory: &BackupDirectory) -> Result<bool> {
        let content = serde_json::to_vec_pretty(self).map_err(unwritable)?;
        if directory.create(UNFINISHED, content).await? {
            return Ok(true);
        }
        // An object store repeats a request whose answer was lost: the file may be of this very call.
        Ok(Self::unfinished(directory)
            .await?
            .is_some_and(|begun| begun.id == self.id))
    }
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Chunk {
    pub(super) fn new(file: String, rows: usize, encoded: &EncodedRows) -> Self {
        let EncodedRows { content, bytes } = encoded;
        let (rows, row_bytes) = (rows as u64, *bytes);
        Self {
            file,
            rows,
            bytes: content.len() as u64,
            row_bytes,
            sha256: sha256(content),
        }
    }

    /// Reads the rows. 1 request.
    pub(super) async fn read(&self, directory: &BackupDirectory) -> Result<Vec<Entity>, ReadFault> {
        let file = &self.file;
        let fault = |text: String| Err(ReadFault::File(text));
        let size = RowsSize {
            rows: self.rows,
            bytes: self.row_bytes,
        };
        if let Some(excess) = size.excess() {
            return fault(format!("the file {file} of the backup {excess}"));
        }
        if self.bytes > FILE_BYTES {
            return fault(format!(
                "the file {file} of the backup has {} bytes, and no file has more than {FILE_BYTES}",
                self.bytes
            ));
        }
        // The size before the content: two numbers of bytes say more than a checksum that differs.
        let content = match directory
            .read_sized(file, self.bytes)
            .await
            .map_err(ReadFault::Store)?
        {
            FileContent::Whole(content) => content,
            FileContent::Missing => {
                return fault(format!("the file {file} of the backup is missing"));
            }
            FileContent::OtherSize(bytes) => {
                return fault(format!(
                    "the file {file} of the backup has {bytes} bytes, and {} were written",
                    self.bytes
                ));
            }
        };
        if sha256(&content) != self.sha256 {
            return fault(format!(
                "the file {file} of the backup is damaged: its checksum differs"
            ));
        }
        match directory.decode(content, size).await {
            Ok(rows) if rows.len() as u64 == self.rows => Ok(rows),
            Ok(rows) => fault(format!(
                "the file {file} of the backup has {} rows, and {} were written",
                rows.len(),
                self.rows
            )),
            Err(error) => fault(format!(
                "the file {file} of the backup cannot be read: {error}"
            )),
        }
    }
}

/// Why the rows of a file cannot be read.
#[derive(Debug)]
pub(super) enum ReadFault {
    /// The object store has an error.
    Store(Error),
    /// The file is missing or damaged: the text says which, and how.
    File(String),
}

impl From<ReadFault> for Error {
    fn from(fault: ReadFault) -> Self {
        match fault {
            ReadFault::Store(error) => error,
            ReadFault::File(text) => Self::corrupt(text),
        }
    }
}

/// The state of a table in an unfinished backup.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct TableProgress {
    pub(super) table: BackupTable,
    /// The continuation token of the next file.
    pub(super) next: Option<String>,
    pub(super) is_finished: bool,
}

impl TableProgress {
    fn file(table: &TableName) -> String {
        format!("{table}/{UNFINISHED}")
    }

    /// Reads the saved position of a table. 1 request.
    pub(super) async fn load(directory: &BackupDirectory, table: &TableName) -> Result<Self> {
        Ok(read_json(directory, &Self::file(table))
            .await?
            .unwrap_or_default())
    }

    /// Saves the position of a table. 1 request.
    pub(super) async fn save(&self, directory: &BackupDirectory, table: &TableName) -> Result<()> {
        write_json(directory, &Self::file(table), self).await
    }

    /// Deletes the saved position of a table. 1 request.
    pub(super) async fn clear(directory: &BackupDirectory, table: &TableName) -> Result<()> {
        directory.delete(&Self::file(table)).await
    }
}

async fn read_json<T: for<'a> Deserialize<'a>>(
    directory: &BackupDirectory,
    file: &str,
) -> Result<Option<T>> {
    let Some(content) = directory.read(file).await? else {
        return Ok(None);
    };
    let read = serde_json::from_slice(&content);
    read.map(Some).map_err(|error| {
        Error::corrupt(format!(
            "the file {file} of the unfinished backup is damaged: {error}; delete the directory"
        ))
    })
}

async fn write_json(directory: &BackupDirectory, file: &str, value: &impl Serialize) -> Result<()> {
    directory
        .write(file, serde_json::to_vec_pretty(value).map_err(unwritable)?)
        .await
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unwritable(error: serde_json::Error) -> Error {
    Error::invalid_argument(format!(
        "the state of the backup cannot be written: {error}"
    ))
}
