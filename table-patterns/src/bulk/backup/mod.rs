//! Backups of tables as files in a directory of an object store.

mod contents;
mod create;
mod directory;
mod restore;
#[cfg(test)]
mod tests;

pub use contents::{Backup, BackupTable, Chunk};
pub use create::{BackupJob, BackupReport, PreparedBackup};
pub use directory::{BackupDirectory, EncodedRows, RowFormat, RowsSize};
pub use restore::{PreparedRestore, RestoreJob, RestoreReport};
