use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;

use redb::{Database, ReadOnlyTable, Table};
use table_core::Result;

use crate::EmbeddedStore;
use crate::changes::Watch;
use crate::disk::Access;
use crate::error::Failure;
use crate::file::{Contents, Directory};
use crate::format::{self, ROWS};
use crate::guard::guarded;
use crate::options::FileConfig;
use crate::shared::{Generation, Shared};
use crate::store::blocking;

/// Maximum bytes of rows that one step of a backup copies, in one commit and from one snapshot of the
/// original.
const STEP_BYTES: usize = if cfg!(test) { 64 << 10 } else { 16 << 20 };
/// Bytes of memory for pages of the copy. The copy writes its pages in sequence.
const CACHE_BYTES: usize = 32 << 20;
/// How many versions the original may assign after the backup. The copy assigns versions above them, so an
/// ETag of the original never matches a different state in the copy.
const VERSION_GAP: u64 = 1 << 40;

type Rows = ReadOnlyTable<&'static [u8], &'static [u8]>;
type CopiedRows<'t> = Table<'t, &'static [u8], &'static [u8]>;

impl EmbeddedStore {
    /// Copies the store into a directory that has no store. The copy has the store's state at the end of the
    /// backup. It is compact and opens like any other store.
    ///
    /// Reads and writes continue. The backup copies 16 MiB per step, each from a new snapshot, and in each
    /// step also copies the rows that changed since the previous step in the part already copied. The
    /// original file therefore grows only by the writes of one step, and memory holds the keys of those
    /// writes. A compaction waits for a backup. Dropping the future does not stop the backup; a crash leaves
    /// a directory without a store. The backup needs 32 MiB of memory in addition to the store's, or as much
    /// as the store's cache if that is smaller.
    ///
    /// # Errors
    /// Fails if the directory has a store; if the disk failed or is full
    /// ([`StorageFull`](table_core::store::ErrorKind::StorageFull)); if a row or a page of the original is
    /// damaged; or if this store was closed or had to be reopened.
    pub async fn backup(&self, directory: impl AsRef<Path>) -> Result<()> {
        let inner = self.inner.clone();
        let guard = inner.maintenance.clone().lock_owned().await;
        let watch = inner.queue.watch().await?;
        let directory = directory.as_ref().to_owned();
        blocking(move || {
            let _guard = guard;
            let copied = guarded(|| copy(&inner.shared, watch, &inner.file, &directory));
            Ok(copied.unwrap_or(Err(Failure::DamagedPage))?)
        })
        .await
    }
}

fn copy(shared: &Shared, watch: Watch, file: &FileConfig, target: &Path) -> Result<(), Failure> {
    let directory = Directory::lock(target, Access::Create)?;
    if directory.file().exists() {
        return Err(Failure::BackupExists(target.to_owned()));
    }
    let mut copy = Copy {
        generation: shared.generation()?,
        shared,
        watch,
        copied_up_to: Vec::new(),
        tables: BTreeSet::new(),
    };
    directory.create(&config_of_copy(file), |database| {
        loop {
            if let Some(contents) = copy.next_step(database)? {
                return contents.write(database);
            }
        }
    })
}

fn config_of_copy(original: &FileConfig) -> FileConfig {
    FileConfig {
        cache_bytes: original.cache_bytes.min(CACHE_BYTES),
        ..original.clone()
    }
}

/// An unfinished copy. Up to the last copied key, it has the rows of one snapshot of the original: that of the
/// last step.
struct Copy<'s> {
    shared: &'s Shared,
    generation: Generation,
    watch: Watch,
    copied_up_to: Vec<u8>,
    /// The tables that have rows in the copy.
    tables: BTreeSet<u64>,
}

impl Copy<'_> {
    /// Applies the changes since the previous step and copies the next chunk. After the last chunk it returns the metadata of the copy.
    fn next_step(&mut self, to: &Database) -> Result<Option<Contents>, Failure> {
        let (reading, changed) = self
            .watch
            .take_changes(|| self.shared.snapshot_of(self.generation));
        let reading = reading?;
        let mut contents = Contents::read(&reading.transaction)?;
        let rows = &reading.rows;
        let transaction = to.begin_write().map_err(Failure::write)?;
        let mut table = transaction.open_table(ROWS).map_err(Failure::write)?;
        for key in changed.range::<[u8], _>((
            Bound::Unbounded,
            Bound::Included(&*self.copied_up_to.clone()),
        )) {
            self.copy_again(key, rows, &mut table)?;
        }
        let ended = self.copy_more(rows, &contents.dropped, &mut table)?;
        drop(table);
        transaction.commit().map_err(Failure::write)?;
        if !ended {
            return Ok(None);
        }
        // Tables that were dropped during the backup: the copy has some of their rows, so it must remove them like the original. Tables that
        // were dropped before have no rows in the copy.
        let known: BTreeSet<_> = contents.catalog.iter().map(|(id, _)| id).collect();
        contents.dropped = self.tables.difference(&known).copied().collect();
        contents.version_mark = contents.version_mark.saturating_add(VERSION_GAP);
        Ok(Some(contents))
    }

    fn copy_again(
        &mut self,
        key: &[u8],
        rows: &Rows,
        to: &mut CopiedRows<'_>,
    ) -> Result<(), Failure> {
        match rows.get(key).map_err(Failure::read)? {
            Some(row) => self.put(key, row.value(), to),
            None => to.remove(key).map(drop).map_err(Failure::write),
        }
    }

    /// Copies a chunk. Returns whether it was the last.
    fn copy_more(
        &mut self,
        rows: &Rows,
        dropped: &[u64],
        to: &mut CopiedRows<'_>,
    ) -> Result<bool, Failure> {
        let from = self.copied_up_to.clone();
        let mut bytes = 0;
        for row in rows
            .range::<&[u8]>((Bound::Excluded(&*from), Bound::Unbounded))
            .map_err(Failure::read)?
        {
            let (key, row) = row.map_err(Failure::read)?;
            let (key, row) = (key.value(), row.value());
            if key <= self.copied_up_to.as_slice() {
                return Err(Failure::DamagedOrder);
            }
            self.copied_up_to.clear();
            self.copied_up_to.extend_from_slice(key);
            if format::table_of(key).is_some_and(|table| dropped.contains(&table)) {
                continue;
            }
            self.put(key, row, to)?;
            bytes += key.len() + row.len();
            if bytes >= STEP_BYTES {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn put(&mut self, key: &[u8], row: &[u8], to: &mut CopiedRows<'_>) -> Result<(), Failure> {
        format::open_row(key, row)?;
        self.tables.extend(format::table_of(key));
        to.insert(key, row).map(drop).map_err(Failure::write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EmbeddedStore;

    #[test]
    fn a_backup_uses_no_more_memory_than_documented() {
        let cache = |bytes| {
            config_of_copy(
                &EmbeddedStore::builder("unused")
                    .cache_bytes(bytes)
                    .config
                    .file,
            )
            .cache_bytes
        };
        assert_eq!(cache(1 << 30), CACHE_BYTES);
        assert_eq!(cache(1 << 20), 1 << 20);
    }
}
