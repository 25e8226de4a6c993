use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stored keys of rows that were written during a backup. The writer records them before it commits.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Option<BTreeSet<Vec<u8>>>>);

/// Records changes until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch(Arc<Changes>);

impl Changes {
    /// Must be called between two commits: the changes of a running commit would be missed.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        *self.keys() = Some(BTreeSet::new());
        Watch(Arc::clone(self))
    }

    pub(crate) fn note(&self, key: &[u8]) {
        if let Some(keys) = &mut *self.keys()
            && !keys.contains(key)
        {
            keys.insert(key.to_vec());
        }
    }

    fn keys(&self) -> MutexGuard<'_, Option<BTreeSet<Vec<u8>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Returns the keys since the previous call.
    pub(crate) fn take(&self) -> BTreeSet<Vec<u8>> {
        self.0.keys().replace(BTreeSet::new()).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.keys() = None;
    }
}
