use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use table_core::model::Key;
use table_core::store::{Error, ErrorKind, Outcome};

use crate::file::is_disk_full;

/// What went wrong in this store, beside the semantics.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(
        "the store in '{}' is open already, in another process or in this one; close it there, \
         or use another directory", .0.display()
    )]
    InUse(PathBuf),
    #[error("'{}' is not a directory; a store needs a directory of its own", .0.display())]
    NotDirectory(PathBuf),
    #[error("the path of the store's directory is empty; name a directory")]
    NoPath,
    #[error(
        "'{}' is a symbolic link to nothing: its target may be on a volume that is not mounted; mount it, or remove the link",
        .0.display()
    )]
    Dangling(PathBuf),
    #[error("'{}' is neither a file nor missing; it was left as it is", .0.display())]
    NotFile(PathBuf),
    #[error("there is no store in '{}', and none may be made there", .0.display())]
    Missing(PathBuf),
    #[error("'{}' exists already; a backup needs a directory without a store", .0.display())]
    BackupExists(PathBuf),
    #[error(
        "'{}' is not the file of a table store; it was left as it is: use another directory", .0.display()
    )]
    Foreign(PathBuf),
    #[error(
        "'{}' is in format {found}, and this version of the program reads format {known}; it was left \
         as it is: use the version that wrote it, or a later one", .path.display()
    )]
    OtherFormat { path: PathBuf, found: u64, known: u64 },
    #[error("'{}' is damaged: {what}; it was left as it is: restore a backup", .path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("the row {} is damaged: it is not as it was written; restore a backup", KeyOrUnknown(.0))]
    DamagedRow(Option<Key>),
    #[error("{doing} '{}' failed", .path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("the store is closed; open it again")]
    Closed,
    #[error("the writer ended without an answer")]
    Lost,
    #[error("a write to the file failed; the file is opened anew{1}")]
    Write(#[source] Arc<redb::Error>, Lost),
    #[error("a write to the file failed; reading goes on, and the file is opened anew for writing{1}")]
    Disk(#[source] Arc<io::Error>, Lost),
    #[error("the engine of the file panicked; the file is opened anew{0}")]
    Panicked(Lost),
    #[error(
        "nothing can be written since a write to the file failed ({reason}); the file is opened anew later"
    )]
    Refused { reason: String, disk_full: bool },
    #[error("the file is not open after a failure; opening it is tried again")]
    NotOpen,
    #[error("reading the file failed")]
    Read(#[source] redb::Error),
    #[error("a page of the file is damaged, or the disk cannot read it; restore a backup")]
    DamagedPage,
    #[error(
        "'{}' may differ from what is on the disk, since a sync of it failed; open it for writing once", .0.display()
    )]
    Unsynced(PathBuf),
    #[error("compacting may take {needed} bytes of the disk, and {free} are free; nothing was done")]
    NoRoom { needed: u64, free: u64 },
    #[error("the rows of the file are not in their order: a page of it is damaged; restore a backup")]
    DamagedOrder,
    #[error("the backup was interrupted, because the store was closed or had to be reopened; start it again")]
    Interrupted,
    #[error("a failed write made the store unusable, and reopening it failed, which is tried again: {0}")]
    Reopen(String),
}

impl Failure {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn read(error: impl Into<redb::Error>) -> Self {
        Self::Read(error.into())
    }

    pub(crate) fn write(error: impl Into<redb::Error>) -> Self {
        Self::Write(Arc::new(error.into()), Lost::default())
    }

    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Refused { disk_full, .. } => *disk_full,
            Self::NoRoom { .. } => true,
            Self::Io { source, .. } => is_disk_full(source),
            Self::Disk(source, _) => is_disk_full(source),
            Self::Write(source, _) => matches!(&**source, redb::Error::Io(source) if is_disk_full(source)),
            _ => false,
        }
    }

    /// The error of an operation that may have reached the disk.
    pub(crate) fn ambiguous(self) -> Error {
        Error::from(self).with_outcome(Outcome::Ambiguous)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        if matches!(failure, Failure::NoPath) {
            return Self::invalid_request(failure.to_string());
        }
        let text = failure.to_string();
        let kind =
            if failure.is_disk_full() { ErrorKind::StorageFull(text) } else { ErrorKind::Storage(text) };
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

/// How many writes that were acknowledged with relaxed durability go with a failed one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost(pub(crate) usize);

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            writes => write!(
                f,
                "; {writes} earlier writes, acknowledged with relaxed durability and not yet on disk, may be lost"
            ),
        }
    }
}

/// A damaged row's key may be damaged too.
struct KeyOrUnknown<'a>(&'a Option<Key>);

impl fmt::Display for KeyOrUnknown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => key.fmt(f),
            None => f.write_str("of an unreadable key"),
        }
    }
}
