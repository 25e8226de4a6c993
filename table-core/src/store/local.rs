//! What a process knows of its own use of a store that no other process writes.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// What the handles of one process tell each other about a store that only this process writes
/// ([`TableStore::local_writers`](super::TableStore::local_writers)): that what writes rest on has changed, and which writes that
/// began before are still under way. One for each store, which its clones and adapters share.
///
/// Who changes what others rest on, as the state of an index, writes it, calls [`change`](Self::change), and waits until the
/// [permits](Self::enter) that were taken before are gone. Who writes takes a permit first, reads what it rests on if that is older than
/// the last [change](Self::changed), and keeps the permit until its last request is done. Permits are counted by the changes before
/// them: nobody waits for a permit that is taken later, so that writers never wait, and a permit within a permit waits for nobody.
#[derive(Debug, Default)]
pub struct LocalWriters {
    held: Mutex<Held>,
    left: Notify,
    served: AtomicBool,
}

#[derive(Debug, Default)]
struct Held {
    /// The number of the last change.
    last: u64,
    /// The last change of each table, by the table's identity.
    changed: HashMap<String, u64>,
    /// How many permits there are, by the last change before they were taken.
    permits: BTreeMap<u64, usize>,
    /// How many work on something that one at a time is to work on.
    working: HashMap<String, usize>,
}

impl LocalWriters {
    /// Says that a write, or a read that rests on the same, begins.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> LocalPermit {
        let mut held = self.held();
        let since = held.last;
        *held.permits.entry(since).or_default() += 1;
        LocalPermit { writers: Arc::clone(self), since }
    }

    /// The number of the last change of any table: what is asked for now knows it.
    pub fn last(&self) -> u64 {
        self.held().last
    }

    /// The number of the last change of a table, by its [identity](super::ServiceProfile::table_identity); zero if there was none.
    pub fn changed(&self, table: &str) -> u64 {
        self.held().changed.get(table).copied().unwrap_or_default()
    }

    /// Says that what writes of a table rest on has changed, as the store has it.
    pub fn change(self: &Arc<Self>, table: &str) -> LocalChange {
        let mut held = self.held();
        held.last += 1;
        let number = held.last;
        held.changed.insert(table.to_owned(), number);
        LocalChange { writers: Arc::clone(self), number }
    }

    /// Says that someone works on what this text names, until the answer is dropped.
    #[must_use]
    pub fn work_on(self: &Arc<Self>, what: String) -> LocalWork {
        *self.held().working.entry(what.clone()).or_default() += 1;
        LocalWork { writers: Arc::clone(self), what }
    }

    /// Whether nobody works on it.
    pub fn is_idle(&self, what: &str) -> bool {
        !self.is_served() && !self.held().working.contains_key(what)
    }

    /// Waits until nobody works on it: for ever, if the store is [served](Self::serve).
    pub async fn until_idle(&self, what: &str) {
        self.until(|| self.is_idle(what)).await;
    }

    /// Says that other processes are about to write the store through this one, which then cannot tell any more who writes: from now
    /// on no wait here ends, and who waits goes by durations.
    pub fn serve(&self) {
        self.served.store(true, Ordering::SeqCst);
    }

    /// Whether other processes may write the store through this one.
    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::SeqCst)
    }

    async fn until(&self, done: impl Fn() -> bool + Send) {
        loop {
            let mut left = pin!(self.left.notified());
            // Before it is looked: what leaves in between is told.
            left.as_mut().enable();
            if done() {
                return;
            }
            left.await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write, or a read, that is under way until this is dropped.
#[derive(Debug)]
pub struct LocalPermit {
    writers: Arc<LocalWriters>,
    since: u64,
}

impl Drop for LocalPermit {
    fn drop(&mut self) {
        let mut held = self.writers.held();
        let Some(count) = held.permits.get_mut(&self.since) else { return };
        *count -= 1;
        if *count == 0 {
            held.permits.remove(&self.since);
            let waited_for = held.last > self.since;
            drop(held);
            if waited_for {
                self.writers.left.notify_waiters();
            }
        }
    }
}

/// A change of what writes rest on.
#[derive(Debug)]
pub struct LocalChange {
    writers: Arc<LocalWriters>,
    number: u64,
}

impl LocalChange {
    /// Whether everything is done that began before the change.
    pub fn is_known(&self) -> bool {
        let first = self.writers.held().permits.keys().next().copied();
        !self.writers.is_served() && first.is_none_or(|since| since >= self.number)
    }

    /// Waits until everything is done that began before the change: for ever, if the store is [served](LocalWriters::serve), and
    /// as long as somebody keeps a future that is not polled, so bound it.
    pub async fn known(&self) {
        self.writers.until(|| self.is_known()).await;
    }
}

/// Work that one at a time is to do, until this is dropped.
#[derive(Debug)]
pub struct LocalWork {
    writers: Arc<LocalWriters>,
    what: String,
}

impl Drop for LocalWork {
    fn drop(&mut self) {
        let mut held = self.writers.held();
        let Some(count) = held.working.get_mut(&self.what) else { return };
        *count -= 1;
        if *count == 0 {
            held.working.remove(&self.what);
            drop(held);
            self.writers.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    /// Permits that were taken before a change are waited for; those after it, also within one from before, are not.
    #[tokio::test(start_paused = true)]
    async fn a_change_waits_for_what_began_before_it() {
        let writers = Arc::new(LocalWriters::default());
        let (before, also) = (writers.enter(), writers.enter());
        let change = writers.change("people");
        let (after, other) = (writers.enter(), writers.changed("orders"));
        assert_eq!((writers.changed("people"), other, writers.last()), (1, 0, 1));
        assert!(change.known().now_or_never().is_none());
        drop(also);
        assert!(!change.is_known(), "one is left");
        let leave = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(before);
        };
        let (known, ()) = tokio::join!(timeout(Duration::from_millis(6), change.known()), leave);
        known.expect("what left is told at once");
        let next = writers.change("people");
        assert!(change.is_known() && !next.is_known(), "the later permit counts for the next change");
        drop(after);
        assert!(next.known().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn work_ends_for_all_who_wait() {
        let writers = Arc::new(LocalWriters::default());
        let work = writers.work_on("index".to_owned());
        assert!(writers.is_idle("another") && !writers.is_idle("index"));
        let leave = async { drop(work) };
        tokio::join!(writers.until_idle("index"), writers.until_idle("index"), leave);
    }

    /// Through a server others write, of whom nothing is known here.
    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_served_is_never_known_to_be_quiet() {
        let writers = Arc::new(LocalWriters::default());
        let change = writers.change("people");
        assert!(change.is_known() && writers.is_idle("index"));
        writers.serve();
        assert!(timeout(Duration::from_secs(600), change.known()).await.is_err());
        assert!(timeout(Duration::from_secs(600), writers.until_idle("index")).await.is_err());
    }
}
