//! The register of a process's writes to a store that no other process writes.

use std::collections::{BTreeMap, HashMap};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A register of the writes in flight and the manifest changes of one process, for a store that only this process writes
/// ([`StoreContext::local_writers`](super::StoreContext::local_writers)). The clones and adapters of a store share one register.
///
/// - A writer first takes a [permit](Self::enter). It reads the manifest if its copy is older than the table's last
///   [change](Self::last_change_of). It keeps the permit until its last request is done.
/// - A process that changes a manifest, such as the state of an index, writes the manifest row and calls
///   [`change`](Self::change). It then waits until all permits from before the change are returned: every later
///   writer knows the change.
///
/// Each permit has the number of the last change before it, so a change waits only for earlier permits. Writers
/// never wait, and an operation with a permit can take further permits without a deadlock.
#[derive(Debug, Default)]
pub struct LocalWriters {
    register: Mutex<Register>,
    /// Wakes the waiting tasks when a permit is returned or a piece of work ends.
    returned: Notify,
    served: AtomicBool,
}

/// The subject of work that follows the answers of writes.
const FOLLOW_UP: &str = "~~follow-up";

#[derive(Debug, Default)]
struct Register {
    /// The number of the last change.
    last: u64,
    /// The number of the last change of each table, by the table's identity.
    changed: HashMap<String, u64>,
    /// The number of permits in use, by the last change before them.
    permits: BTreeMap<u64, usize>,
    /// The number of tasks that work on a subject, by its name.
    working: HashMap<String, usize>,
}

impl LocalWriters {
    /// Registers the start of a write, or of a read that depends on the manifest. Dropping the permit registers the end.
    #[must_use]
    pub fn enter(self: &Arc<Self>) -> LocalPermit {
        let mut register = self.register();
        let since = register.last;
        *register.permits.entry(since).or_default() += 1;
        LocalPermit {
            writers: Arc::clone(self),
            since,
        }
    }

    /// Returns the number of the last change of any table. A manifest that is read from now on contains this change.
    pub fn last_change(&self) -> u64 {
        self.register().last
    }

    /// Returns the number of the last change of a table, given by its
    /// [identity](super::ServiceProfile::table_identity); zero if there was no change.
    pub fn last_change_of(&self, table: &str) -> u64 {
        self.register()
            .changed
            .get(table)
            .copied()
            .unwrap_or_default()
    }

    /// Registers a change of a table's manifest. The store must already contain the change.
    pub fn change(self: &Arc<Self>, table: &str) -> LocalChange {
        let mut register = self.register();
        register.last += 1;
        let number = register.last;
        register.changed.insert(table.to_owned(), number);
        LocalChange {
            writers: Arc::clone(self),
            number,
        }
    }

    /// Marks this moment. The result is [known](LocalChange::known) when every permit from before it was returned; no manifest is read
    /// again because of it.
    pub fn mark(self: &Arc<Self>) -> LocalChange {
        let mut register = self.register();
        register.last += 1;
        LocalChange {
            writers: Arc::clone(self),
            number: register.last,
        }
    }

    /// Registers that a task works on a subject, such as a build of an index, until the result is dropped.
    #[must_use]
    pub fn work_on(self: &Arc<Self>, subject: String) -> LocalWork {
        *self.register().working.entry(subject.clone()).or_default() += 1;
        LocalWork {
            writers: Arc::clone(self),
            subject,
        }
    }

    /// Registers work that follows the answer of a write, such as the removal of rows that recovery no longer needs, until the result is
    /// dropped. A store that is closed [waits](Self::until_follow_ups_end) for it.
    #[must_use]
    pub fn follow_up(self: &Arc<Self>) -> LocalWork {
        self.work_on(FOLLOW_UP.to_owned())
    }

    /// Whether no work that follows an answer is under way in this process.
    pub fn has_no_follow_ups(&self) -> bool {
        !self.register().working.contains_key(FOLLOW_UP)
    }

    /// Waits until [no work that follows an answer](Self::has_no_follow_ups) is under way. Bound the wait: the runtime of the work may not run.
    pub async fn until_follow_ups_end(&self) {
        self.until(|| self.has_no_follow_ups()).await;
    }

    /// Whether no task works on the subject.
    pub fn is_idle(&self, subject: &str) -> bool {
        !self.is_served() && !self.register().working.contains_key(subject)
    }

    /// Waits until no task works on the subject. Never returns if the store is [served](Self::serve).
    pub async fn until_idle(&self, subject: &str) {
        self.until(|| self.is_idle(subject)).await;
    }

    /// Declares that other processes write the store through this one, for example through a server. The register does not
    /// know their writes. From now on `LocalChange::known` and [`until_idle`](Self::until_idle) never return; callers must wait for
    /// the documented durations. [`until_follow_ups_end`](Self::until_follow_ups_end) still returns.
    pub fn serve(&self) {
        self.served.store(true, Ordering::SeqCst);
    }

    /// Whether other processes may write the store through this one.
    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::SeqCst)
    }

    async fn until(&self, is_done: impl Fn() -> bool + Send) {
        loop {
            let mut returned = pin!(self.returned.notified());
            // Enabled before the check, so that a notification between check and await is not lost.
            returned.as_mut().enable();
            if is_done() {
                return;
            }
            returned.await;
        }
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write or read in flight. Dropping it registers the end.
#[derive(Debug)]
pub struct LocalPermit {
    writers: Arc<LocalWriters>,
    since: u64,
}

impl Drop for LocalPermit {
    fn drop(&mut self) {
        let mut register = self.writers.register();
        let Some(count) = register.permits.get_mut(&self.since) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            register.permits.remove(&self.since);
            // Only a change after this permit waits for it. Most permits see no change, and their return wakes no
            // task.
            let may_be_awaited = register.last > self.since;
            drop(register);
            if may_be_awaited {
                self.writers.returned.notify_waiters();
            }
        }
    }
}

/// A change of a manifest, or a [mark](LocalWriters::mark). Writes from before the change may not know it.
#[derive(Debug)]
pub struct LocalChange {
    writers: Arc<LocalWriters>,
    number: u64,
}

impl LocalChange {
    /// Whether all writers know the change, because every permit from before the change was returned.
    pub fn is_known(&self) -> bool {
        // The map is sorted: if the oldest permit knows the change, all do.
        let first = self.writers.register().permits.keys().next().copied();
        !self.writers.is_served() && first.is_none_or(|since| since >= self.number)
    }

    /// Waits until all writers know the change. Bound the wait: a task that does not poll its write keeps its permit, and
    /// for a [served](LocalWriters::serve) store the wait never returns.
    pub async fn known(&self) {
        self.writers.until(|| self.is_known()).await;
    }
}

/// The work of a task on a subject. Dropping it registers the end.
#[derive(Debug)]
pub struct LocalWork {
    writers: Arc<LocalWriters>,
    subject: String,
}

impl Drop for LocalWork {
    fn drop(&mut self) {
        let mut register = self.writers.register();
        let Some(count) = register.working.get_mut(&self.subject) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            register.working.remove(&self.subject);
            drop(register);
            self.writers.returned.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    /// A change waits for the permits from before it, and not for later permits.
    #[tokio::test(start_paused = true)]
    async fn a_change_waits_for_earlier_permits() {
        let writers = Arc::new(LocalWriters::default());
        let (before, also) = (writers.enter(), writers.enter());
        let change = writers.change("people");
        let after = writers.enter();
        assert_eq!(writers.last_change_of("people"), 1);
        assert_eq!(writers.last_change_of("orders"), 0);
        assert_eq!(writers.last_change(), 1);
        assert!(change.known().now_or_never().is_none());
        drop(also);
        assert!(!change.is_known(), "one earlier permit is left");
        let leave = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            drop(before);
        };
        let (known, ()) = tokio::join!(timeout(Duration::from_millis(6), change.known()), leave);
        known.expect("the return of the last earlier permit wakes the wait");
        let next = writers.change("people");
        assert!(change.is_known());
        assert!(
            !next.is_known(),
            "the next change waits for the later permit"
        );
        drop(after);
        assert!(next.known().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_mark_waits_for_earlier_permits_and_changes_no_table() {
        let writers = Arc::new(LocalWriters::default());
        let before = writers.enter();
        let mark = writers.mark();
        let after = writers.enter();
        assert_eq!(writers.last_change_of("people"), 0);
        assert!(!mark.is_known());
        drop(before);
        assert!(mark.known().now_or_never().is_some());
        drop(after);
        let served = writers.mark();
        writers.serve();
        assert!(!served.is_known(), "other processes may write");
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_work_wakes_all_waiting_tasks() {
        let writers = Arc::new(LocalWriters::default());
        let work = writers.work_on("index".to_owned());
        assert!(writers.is_idle("another"));
        assert!(!writers.is_idle("index"));
        let leave = async { drop(work) };
        tokio::join!(
            writers.until_idle("index"),
            writers.until_idle("index"),
            leave
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_follows_answers_ends_before_a_served_store_closes() {
        let writers = Arc::new(LocalWriters::default());
        writers.serve();
        assert!(writers.has_no_follow_ups());
        let (first, second) = (writers.follow_up(), writers.follow_up());
        drop(first);
        assert!(writers.until_follow_ups_end().now_or_never().is_none());
        let end = async { drop(second) };
        tokio::join!(writers.until_follow_ups_end(), end);
    }

    /// The register does not know the writes of a server's clients.
    #[tokio::test(start_paused = true)]
    async fn waits_for_a_served_store_never_return() {
        let writers = Arc::new(LocalWriters::default());
        let change = writers.change("people");
        assert!(change.is_known());
        assert!(writers.is_idle("index"));
        writers.serve();
        assert!(
            timeout(Duration::from_secs(600), change.known())
                .await
                .is_err()
        );
        assert!(
            timeout(Duration::from_secs(600), writers.until_idle("index"))
                .await
                .is_err()
        );
    }
}
