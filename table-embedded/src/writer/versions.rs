//! The versions that become ETags.

use redb::{StorageError, Table};

use crate::format::META_VERSION_MARK;

/// Number of versions reserved at once, so that the mark on disk changes rarely.
const BLOCK: u64 = 1 << 20;

/// Assigns the versions that become ETags: each once, across reopening and crashes.
///
/// Versions up to the mark on disk may have been assigned, so a reopened store starts above it. The mark is
/// raised at the latest in the commit that needs it.
#[derive(Debug)]
pub(super) struct Versions {
    last: u64,
    /// The mark on disk.
    mark: u64,
    /// The mark of a commit that has not ended.
    raised: u64,
}

impl Versions {
    /// Starts above the mark on disk.
    pub(super) fn after(mark: u64) -> Self {
        Self {
            last: mark,
            mark,
            raised: mark,
        }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Raises the mark if needed. Returns whether this commit must then reach the disk.
    pub(super) fn reserve(
        &mut self,
        meta: &mut Table<'_, &str, u64>,
    ) -> Result<bool, StorageError> {
        if self.last <= self.mark {
            self.raised = self.mark;
            return Ok(false);
        }
        self.raised = self.last + BLOCK;
        meta.insert(META_VERSION_MARK, self.raised)?;
        Ok(true)
    }

    /// Records that the commit of the last [`reserve`](Self::reserve) is done. A commit that fails without a reopening leaves the mark as
    /// it is on disk: otherwise later commits would not raise it, and versions would repeat after a crash.
    pub(super) const fn committed(&mut self) {
        self.mark = self.raised;
    }

    /// Skips all versions that may have been assigned before a commit with unknown outcome.
    pub(super) fn reopened(&mut self, mark: u64) {
        // `last` may be above the mark of the file that was opened again, because the failed commit may have raised it. Its versions
        // may have reached callers, so they are not assigned again.
        self.last = self.last.max(mark);
        (self.mark, self.raised) = (mark, mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::META;

    #[test]
    fn a_failed_commit_leaves_the_mark_to_the_next_one() {
        let memory = redb::backends::InMemoryBackend::new();
        let database = redb::Builder::new().create_with_backend(memory).unwrap();
        let mut versions = Versions::after(0);
        versions.next();
        let reserve = |versions: &mut Versions, commits: bool| {
            let transaction = database.begin_write().unwrap();
            let raised = versions
                .reserve(&mut transaction.open_table(META).unwrap())
                .unwrap();
            if commits {
                transaction.commit().unwrap();
                versions.committed();
            } else {
                transaction.abort().unwrap();
            }
            raised
        };
        assert!(
            reserve(&mut versions, false),
            "the first version needs a mark"
        );
        assert!(reserve(&mut versions, true), "the mark is not on disk");
        assert!(!reserve(&mut versions, true), "the mark is on disk");
    }
}
