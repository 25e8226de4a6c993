use std::path::Path;

use redb::{Database, ReadOnlyTable, ReadableTable};
use table_core::Result;

use crate::EmbeddedStore;
use crate::error::Failure;
use crate::file::{Contents, Directory};
use crate::format::{self, ROWS};
use crate::options::{Access, FileConfig};
use crate::shared::{Reading, Shared};
use crate::store::blocking;

/// Bytes of rows that are copied in one commit.
const CHUNK: usize = 16 << 20;
/// Bytes of memory for pages of the copy, which are written one after another.
const CACHE: usize = 32 << 20;
/// Versions that the original may give out after the backup. The copy starts beyond them: an ETag
/// read from the original then never fits another state of the copy.
const VERSION_GAP: u64 = 1 << 40;

type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;

impl EmbeddedStore {
    /// Copies the store, as it is at this moment, into a directory without one. The copy is compact,
    /// and opens as any store.
    ///
    /// Reads and writes go on; what they free meanwhile is reused only after the backup. A compaction waits for
    /// it. A future that is dropped halfway leaves it going on; cut short, it leaves a directory without a store. It takes
    /// 32 MiB of memory beside that of the store, or as much as the store if that has less.
    ///
    /// # Errors
    /// The directory has a store; the disk failed; or this store was closed or had to be reopened.
    pub async fn backup(&self, directory: impl AsRef<Path>) -> Result<()> {
        let inner = self.inner.clone();
        let alone = inner.maintenance.clone().lock_owned().await;
        let reading = inner.shared.reading().await?;
        let directory = directory.as_ref().to_owned();
        blocking(move || {
            let _alone = alone;
            Ok(copy(&reading, &inner.shared, &inner.file, &directory)?)
        })
        .await
    }
}

fn copy(reading: &Reading, shared: &Shared, file: &FileConfig, target: &Path) -> Result<(), Failure> {
    let directory = Directory::lock(target, Access::Create)?;
    if directory.file().exists() {
        return Err(Failure::BackupExists(target.to_owned()));
    }
    let mut contents = Contents::read(&reading.transaction)?;
    let dropped = std::mem::take(&mut contents.dropped);
    contents.version_mark = contents.version_mark.saturating_add(VERSION_GAP);
    let rows = reading.transaction.open_table(ROWS).map_err(Failure::read)?;
    directory.create(&config_of_copy(file), |database| {
        contents.write(database)?;
        copy_rows(&rows, &dropped, database, shared)
    })
}

fn config_of_copy(original: &FileConfig) -> FileConfig {
    FileConfig { cache_bytes: original.cache_bytes.min(CACHE), ..original.clone() }
}

fn copy_rows(rows: &Rows, dropped: &[u64], to: &Database, shared: &Shared) -> Result<(), Failure> {
    let mut rows = rows.iter().map_err(Failure::read)?.peekable();
    while rows.peek().is_some() {
        if shared.is_interrupted() {
            return Err(Failure::Interrupted);
        }
        let transaction = to.begin_write().map_err(Failure::write)?;
        let mut table = transaction.open_table(ROWS).map_err(Failure::write)?;
        let mut bytes = 0;
        while let Some(row) = rows.next_if(|_| bytes < CHUNK) {
            let (key, record) = row.map_err(Failure::read)?;
            if format::table_of(key.value()).is_some_and(|table| dropped.contains(&table)) {
                continue;
            }
            table.insert(key.value(), record.value()).map_err(Failure::write)?;
            bytes += key.value().len() + record.value().len();
        }
        drop(table);
        transaction.commit().map_err(Failure::write)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedStore;

    #[test]
    fn a_copy_takes_no_more_memory_than_it_says() {
        let cache = |bytes| {
            config_of_copy(&EmbeddedStore::builder("unused").cache_bytes(bytes).config.file).cache_bytes
        };
        assert_eq!((cache(1 << 30), cache(1 << 20)), (CACHE, 1 << 20));
    }
}
