use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Builder;

use table_core::Result;
use table_core::store::{Error, ErrorKind};
use tokio::sync::oneshot;

/// Threads that read pages of scans, as many as may be. The one that was busy last is the next to be: allocators
/// keep memory for each thread that ever had some, so a scan on changing threads holds several times what it
/// needs.
///
/// What waits for a thread waits here, in no future: one that nobody polls just now would keep the place that it
/// was given from all others.
#[derive(Debug)]
pub(crate) struct Readers {
    most: usize,
    pool: Arc<Mutex<Pool>>,
}

/// Does what blocks; what it returns gives the answer.
type Work = Box<dyn FnOnce() -> Answer + Send>;
type Answer = Box<dyn FnOnce() + Send>;

/// Work, and the way to the thread that does it.
struct Task {
    work: Work,
    again: Sender<Task>,
}

#[derive(Default)]
struct Pool {
    threads: usize,
    /// A thread ends when nobody can send to it any more.
    idle: Vec<Sender<Task>>,
    waiting: VecDeque<Work>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Readers {
    /// At most so many threads, and at least one.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), pool: Arc::default() }
    }

    /// Runs what blocks on a thread of its own, until it is done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        self.hand_over(Box::new(move || {
            // Nobody may be waiting any more.
            let result = (!answer.is_closed()).then(|| catch_unwind(AssertUnwindSafe(work)));
            Box::new(move || drop(result.map(|result| answer.send(result))))
        }))?;
        match answered.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(failed("the operation panicked")),
        }
    }

    fn hand_over(&self, work: Work) -> Result<()> {
        let mut pool = lock(&self.pool);
        let reader = match pool.idle.pop() {
            Some(reader) => reader,
            None if pool.threads < self.most => {
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
        let again = reader.clone();
        // A thread that is gone drops the work, and with it the answer.
        let _ = reader.send(Task { work, again });
        Ok(())
    }
}

fn failed(what: &str) -> Error {
    ErrorKind::Storage(what.to_owned()).into()
}

fn spawn(pool: &Arc<Mutex<Pool>>) -> std::io::Result<Sender<Task>> {
    let (sender, tasks) = channel::<Task>();
    let pool = Arc::downgrade(pool);
    let thread = Builder::new().name("table-embedded-read".to_owned());
    thread.spawn(move || tasks.into_iter().for_each(|task| work_on(&pool, task)))?;
    Ok(sender)
}

/// Does a task and what waits. The thread is given back before the answer, after which the next page may be
/// asked for at once.
fn work_on(pool: &Weak<Mutex<Pool>>, Task { work, again }: Task) {
    let mut next = Some(work);
    while let Some(work) = next {
        let answer = work();
        next = pool.upgrade().and_then(|pool| {
            let mut pool = lock(&pool);
            let waiting = pool.waiting.pop_front();
            if waiting.is_none() {
                pool.idle.push(again.clone());
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

    #[tokio::test]
    async fn one_after_another_is_one_thread() {
        let readers = Readers::new(4);
        let mut threads = HashSet::new();
        for _ in 0..100 {
            threads.insert(readers.run(|| Ok(thread::current().id())).await.unwrap());
        }
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&thread::current().id()));
    }

    #[tokio::test]
    async fn at_once_are_as_many_as_needed_and_no_more() {
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

    /// Futures that are polled once and then left alone take no place from others.
    #[tokio::test]
    async fn who_is_not_polled_keeps_nobody_waiting() {
        let readers = Readers::new(1);
        let mut left: Vec<_> = (0..3).map(|n| Box::pin(readers.run(move || Ok(n)))).collect();
        for future in &mut left {
            drop(future.as_mut().poll(&mut Context::from_waker(Waker::noop())));
        }
        assert_eq!(readers.run(|| Ok(7)).await.unwrap(), 7);
        for (n, future) in left.into_iter().enumerate() {
            assert_eq!(future.await.unwrap(), n);
        }
        assert_eq!(lock(&readers.pool).threads, 1);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_thread_goes_on() {
        let readers = Readers::new(4);
        let panicked = readers.run::<()>(|| panic!("the test makes it panic")).await;
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
        assert_eq!(readers.run(|| Ok(7)).await.unwrap(), 7);
        assert_eq!(lock(&readers.pool).idle.len(), 1);
    }
}
