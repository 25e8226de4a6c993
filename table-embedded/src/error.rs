use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use table_core::model::Key;
use table_core::store::{Error, ErrorKind, Outcome};

use crate::disk::is_disk_full;

/// Failures of this store that the service does not have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "the store in '{}' is already open in this or another process; close it there, \
         or use another directory", .0.display()
    )]
    InUse(PathBuf),
    #[error("'{}' is not a directory; name a directory for the store", .0.display())]
    NotDirectory(PathBuf),
    #[error("the path of the store's directory is empty; name a directory")]
    NoPath,
    #[error(
        "'{}' is a symbolic link without a target; mount the volume of the target, or remove the link",
        .0.display()
    )]
    Dangling(PathBuf),
    #[error("'{}' exists and is not a file; it was not changed", .0.display())]
    NotFile(PathBuf),
    #[error("'{}' has no store, and the options do not allow to create one", .0.display())]
    Missing(PathBuf),
    #[error("'{}' already exists; a backup needs a directory without a store", .0.display())]
    BackupExists(PathBuf),
    #[error(
        "'{}' is not the file of a table store; it was not changed: use another directory", .0.display()
    )]
    Foreign(PathBuf),
    #[error(
        "'{}' is in format {found}, and this version of the program reads format {known}; it was left \
         as it is: use the version that wrote it, or a later one", .path.display()
    )]
    OtherFormat {
        path: PathBuf,
        found: u64,
        known: u64,
    },
    #[error("'{}' is damaged: {reason}; it was not changed: restore a backup", .path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("the row {} is damaged: its checksum does not match; restore a backup", KeyOrUnknown(.0))]
    DamagedRow(Option<Key>),
    #[error("{doing} '{}' failed", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the store is closed; open it again")]
    Closed,
    #[error("the writer ended without an answer")]
    NoAnswer,
    #[error("a write to the file failed; the store reopens the file{1}")]
    Write(#[source] Arc<redb::Error>, LostWrites),
    #[error(
        "a write to the file failed; reads continue, and the store reopens the file for writing{1}"
    )]
    Disk(#[source] Arc<io::Error>, LostWrites),
    #[error("the storage engine panicked; the store reopens the file{0}")]
    Panicked(LostWrites),
    #[error(
        "the store accepts no writes since a write to the file failed ({reason}); it will reopen the file"
    )]
    Refused { reason: String, disk_full: bool },
    #[error("the file is not open after a failure; the store will try to reopen it")]
    NotOpen,
    #[error("reading the file failed")]
    Read(#[source] redb::Error),
    #[error("a page of the file is damaged or unreadable; restore a backup")]
    DamagedPage,
    #[error(
        "the cached '{}' may differ from the disk, because a sync failed; open the store for writing once", .0.display()
    )]
    Unsynced(PathBuf),
    #[error(
        "compaction may need {needed} bytes of disk space, and {free} are free; nothing was changed"
    )]
    NoRoom { needed: u64, free: u64 },
    #[error("the rows of the file are out of order: a page is damaged; restore a backup")]
    DamagedOrder,
    #[error("the store was closed or reopened during the backup; start the backup again")]
    Interrupted,
    #[error("a write failed and reopening the file failed; the store will try again: {0}")]
    Reopen(String),
}

impl Failure {
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    pub(crate) fn read(error: impl Into<redb::Error>) -> Self {
        Self::Read(error.into())
    }

    pub(crate) fn write(error: impl Into<redb::Error>) -> Self {
        Self::Write(Arc::new(error.into()), LostWrites::default())
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Refused { disk_full, .. } => *disk_full,
            Self::NoRoom { .. } => true,
            Self::Io { source, .. } => is_disk_full(source),
            Self::Disk(source, _) => is_disk_full(source),
            Self::Write(source, _) => {
                matches!(&**source, redb::Error::Io(source) if is_disk_full(source))
            }
            _ => false,
        }
    }

    /// Returns the error of an operation that may have reached the disk.
    pub(crate) fn ambiguous(self) -> Error {
        Error::from(self).with_outcome(Outcome::Ambiguous)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        if matches!(failure, Failure::NoPath) {
            return Self::invalid_argument(failure.to_string());
        }
        let text = failure.to_string();
        let kind = if failure.is_disk_full() {
            ErrorKind::StorageFull(text)
        } else {
            ErrorKind::Storage(text)
        };
        let error = Self::new(kind);
        match failure {
            Failure::Io { source, .. } => error.with_source(source),
            Failure::Write(source, _) => error.with_source(source),
            Failure::Disk(source, _) => error.with_source(source),
            Failure::Read(source) => error.with_source(source),
            _ => error,
        }
    }
}

/// The number of writes that were acknowledged with relaxed durability and may be lost with a failed write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LostWrites(pub(crate) usize);

impl fmt::Display for LostWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            writes => write!(
                f,
                "; {writes} earlier writes that were acknowledged with relaxed durability may be lost"
            ),
        }
    }
}

/// A row's key; `None` if the key is damaged too.
struct KeyOrUnknown<'a>(&'a Option<Key>);

impl fmt::Display for KeyOrUnknown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => key.fmt(f),
            None => f.write_str("with an unreadable key"),
        }
    }
}
