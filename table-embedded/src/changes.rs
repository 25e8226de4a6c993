use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The stored keys of rows that were written during a backup. The writer notes them while it prepares a commit; they count from the moment
/// in which readers see the commit, often milliseconds later.
#[derive(Debug, Default)]
pub(crate) struct Changes(Mutex<Option<Keys>>);

#[derive(Debug, Default)]
struct Keys {
    /// Of commits that readers see.
    published: BTreeSet<Vec<u8>>,
    /// Of the commit in progress. The keys of a commit that failed stay until the next one: a row that did not change is copied once more.
    noted: BTreeSet<Vec<u8>>,
}

/// Records changes until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch(Arc<Changes>);

impl Changes {
    /// Must be called between two commits: the changes of a running commit would be missed.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        *self.keys() = Some(Keys::default());
        Watch(Arc::clone(self))
    }

    pub(crate) fn note(&self, key: &[u8]) {
        if let Some(keys) = &mut *self.keys()
            && !keys.noted.contains(key)
        {
            keys.noted.insert(key.to_vec());
        }
    }

    /// Lets readers see a commit by `publish`, and its keys count. A backup sees both or neither: it would lose the keys of a commit that its
    /// snapshot does not have.
    pub(crate) fn publish_with(&self, publish: impl FnOnce()) {
        let mut keys = self.keys();
        if let Some(keys) = &mut *keys {
            let mut noted = std::mem::take(&mut keys.noted);
            keys.published.append(&mut noted);
        }
        publish();
    }

    fn keys(&self) -> MutexGuard<'_, Option<Keys>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Returns a snapshot, and the keys whose rows may differ from those of the previous call's snapshot.
    pub(crate) fn take_changes<S>(&self, snapshot: impl FnOnce() -> S) -> (S, BTreeSet<Vec<u8>>) {
        let mut keys = self.0.keys();
        let snapshot = snapshot();
        let changed = keys
            .as_mut()
            .map(|keys| std::mem::take(&mut keys.published));
        (snapshot, changed.unwrap_or_default())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.keys() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_a_commit_count_when_readers_see_it() {
        let changes = Arc::new(Changes::default());
        let mut state = 0;
        let watch = changes.watch();
        changes.note(b"a");
        assert_eq!(
            watch.take_changes(|| state),
            (0, BTreeSet::new()),
            "the snapshot does not have the commit"
        );
        changes.publish_with(|| state = 1);
        assert_eq!(
            watch.take_changes(|| state),
            (1, BTreeSet::from([b"a".to_vec()]))
        );
        assert_eq!(watch.take_changes(|| state), (1, BTreeSet::new()));
        // A commit that failed leaves its keys to the next one.
        changes.note(b"b");
        changes.note(b"c");
        changes.publish_with(|| state = 2);
        assert_eq!(
            watch.take_changes(|| state),
            (2, BTreeSet::from([b"b".to_vec(), b"c".to_vec()]))
        );
    }
}
