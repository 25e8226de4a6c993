use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use table_core::model::Key;
use table_core::store::{Error, ErrorKind, Outcome};

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
    Io { doing: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the store is closed; open it again")]
    Closed,
    #[error("the writer ended without an answer")]
    Lost,
    #[error("a write to the file failed; the store is being reopened{1}")]
    Write(#[source] Arc<redb::Error>, Lost),
    #[error("the engine of the file panicked; the store is being reopened{0}")]
    Panicked(Lost),
    #[error("the file is not open after a failed write; reopening is tried again")]
    NotOpen,
    #[error("reading the file failed")]
    Read(#[source] redb::Error),
    #[error("a page of the file is damaged: it has impossible contents; restore a backup")]
    DamagedPage,
    #[error("the backup was interrupted, because the store was closed or had to be reopened; start it again")]
    Interrupted,
    #[error("a failed write made the store unusable, and reopening it failed, which is tried again: {0}")]
    Reopen(String),
}

impl Failure {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }

    pub(crate) fn read(error: impl Into<redb::Error>) -> Self {
        Self::Read(error.into())
    }

    pub(crate) fn write(error: impl Into<redb::Error>) -> Self {
        Self::Write(Arc::new(error.into()), Lost::default())
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
        let error = Self::new(ErrorKind::Storage(failure.to_string()));
        match failure {
            Failure::Io { source, .. } => error.with_source(source),
            Failure::Write(source, _) => error.with_source(source),
            Failure::Read(source) => error.with_source(source),
            _ => error,
        }
    }
}

/// Whether the disk failed: the engine then refuses all that comes later.
pub(crate) fn is_of_the_disk(error: &Error) -> bool {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<redb::Error>());
    matches!(source, Some(redb::Error::Io(_) | redb::Error::PreviousIo))
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
