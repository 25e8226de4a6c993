use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Builder;

use table_core::Result;
use table_core::store::{Error, ErrorKind};
use tokio::sync::oneshot;

/// A pool with a maximum number of threads, which read pages of scans. The most recently used idle thread is
/// used first: allocators keep memory per thread, so scans on many threads would hold several times the
/// memory they need.
///
/// Work waits in the pool's queue and not in a future, because a future that is not polled would keep its
/// permit from all others.
#[derive(Debug)]
pub(crate) struct Readers {
    max_threads: usize,
    pool: Arc<Mutex<Pool>>,
}

/// Blocking work. The returned closure sends the answer.
type Work = Box<dyn FnOnce() -> Answer + Send>;
type Answer = Box<dyn FnOnce() + Send>;

/// Work, and the channel to the thread that executes it, which the thread returns to the pool.
struct Task {
    work: Work,
    thread: Sender<Task>,
}

#[derive(Default)]
struct Pool {
    threads: usize,
    /// A thread ends when all senders to it are dropped.
    idle: Vec<Sender<Task>>,
    waiting: VecDeque<Work>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// The answer of work that was started.
#[derive(Debug)]
pub(crate) struct Answered<T>(oneshot::Receiver<std::thread::Result<Result<T>>>);

impl<T> Answered<T> {
    pub(crate) async fn wait(self) -> Result<T> {
        match self.0.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(failed("the operation panicked")),
        }
    }
}

impl Readers {
    /// Creates a pool with at most `max_threads` threads, and at least one.
    pub(crate) fn new(max_threads: usize) -> Self {
        Self {
            max_threads: max_threads.max(1),
            pool: Arc::default(),
        }
    }

    /// Starts blocking work on a thread of the pool. Work whose answer was dropped before a thread was free is not done.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<Answered<T>> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Box::new(move || {
            // The caller may have dropped its future.
            let result = (!answer.is_closed()).then(|| catch_unwind(AssertUnwindSafe(work)));
            Box::new(move || drop(result.map(|result| answer.send(result))))
        }))?;
        Ok(Answered(answered))
    }

    fn hand_over(&self, work: Work) -> Result<()> {
        let mut pool = lock(&self.pool);
        let reader = match pool.idle.pop() {
            Some(reader) => reader,
            None if pool.threads < self.max_threads => {
                let reader = spawn(&self.pool);
                let reader = reader.map_err(|e| failed("no thread to read with").with_source(e))?;
                pool.threads += 1;
                reader
            }
            None => {
                pool.waiting.push_back(work);
                return Ok(());
            }
        };
        let thread = reader.clone();
        // If the thread is gone, the work is dropped, and so is its answer.
        let _ = reader.send(Task { work, thread });
        Ok(())
    }
}

fn failed(reason: &str) -> Error {
    ErrorKind::Storage(reason.to_owned()).into()
}

fn spawn(pool: &Arc<Mutex<Pool>>) -> std::io::Result<Sender<Task>> {
    let (sender, tasks) = channel::<Task>();
    let pool = Arc::downgrade(pool);
    let thread = Builder::new().name("table-embedded-read".to_owned());
    thread.spawn(move || tasks.into_iter().for_each(|task| work_on(&pool, task)))?;
    Ok(sender)
}

/// Runs a task and then waiting tasks. The thread returns to the pool before the answer is sent, because the
/// caller may ask for the next page immediately.
fn work_on(pool: &Weak<Mutex<Pool>>, Task { work, thread }: Task) {
    let mut next = Some(work);
    while let Some(work) = next {
        let answer = work();
        next = pool.upgrade().and_then(|pool| {
            let mut pool = lock(&pool);
            let waiting = pool.waiting.pop_front();
            if waiting.is_none() {
                pool.idle.push(thread.clone());
            }
            waiting
        });
        answer();
    }
}

fn lock(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::task::{Context, Waker};
    use std::thread;

    use super::*;

    impl Readers {
        async fn run<T: Send + 'static>(
            &self,
            work: impl FnOnce() -> Result<T> + Send + 'static,
        ) -> Result<T> {
            self.start(work)?.wait().await
        }
    }

    #[tokio::test]
    async fn sequential_reads_use_one_thread() {
        let readers = Readers::new(4);
        let mut threads = HashSet::new();
        for _ in 0..100 {
            threads.insert(readers.run(|| Ok(thread::current().id())).await.unwrap());
        }
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&thread::current().id()));
    }

    #[tokio::test]
    async fn concurrent_reads_use_at_most_the_maximum_of_threads() {
        let readers = Readers::new(4);
        for _ in 0..3 {
            let all_here = Arc::new(Barrier::new(4));
            let run = || {
                let all_here = Arc::clone(&all_here);
                readers.run(move || {
                    all_here.wait();
                    Ok(())
                })
            };
            let (a, b, c, d) = tokio::join!(run(), run(), run(), run());
            assert!([a, b, c, d].iter().all(Result::is_ok));
            assert_eq!(lock(&readers.pool).idle.len(), 4);
        }
    }

    /// Futures that are polled once and then not again do not block others.
    #[tokio::test]
    async fn a_future_that_is_not_polled_blocks_no_other() {
        let readers = Readers::new(1);
        let mut left: Vec<_> = (0..3)
            .map(|n| Box::pin(readers.run(move || Ok(n))))
            .collect();
        for future in &mut left {
            drop(
                future
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop())),
            );
        }
        assert_eq!(readers.run(|| Ok(7)).await.unwrap(), 7);
        for (n, future) in left.into_iter().enumerate() {
            assert_eq!(future.await.unwrap(), n);
        }
        assert_eq!(lock(&readers.pool).threads, 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_thread_survives() {
        let readers = Readers::new(4);
        let panicked = readers
            .run::<()>(|| panic!("the test makes it panic"))
            .await;
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
        assert_eq!(readers.run(|| Ok(7)).await.unwrap(), 7);
        assert_eq!(lock(&readers.pool).idle.len(), 1);
    }
}
