use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use table_core::Result;
use table_core::store::{Error, ErrorKind};
use tokio::sync::oneshot;

/// Threads that read pages of scans. The one that was busy last is the next to be: allocators keep memory for
/// each thread that ever had some, so a scan on changing threads holds several times what it needs.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    idle: Arc<Mutex<Idle>>,
}

type Work = Box<dyn FnOnce() + Send>;
/// A thread ends when nobody can send to it any more.
type Idle = Vec<Sender<Work>>;

impl Readers {
    /// Runs what blocks on a thread of its own, until it is done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let reader = lock(&self.idle).pop();
        let reader =
            reader.map_or_else(spawn, Ok).map_err(|e| failed("no thread to read with").with_source(e))?;
        let (answer, answered) = oneshot::channel();
        let (idle, again) = (Arc::clone(&self.idle), reader.clone());
        let work = move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            // Before the answer, after which the next page may be asked for at once.
            lock(&idle).push(again);
            // Nobody may be waiting any more.
            let _ = answer.send(result);
        };
        // A thread that is gone drops the work, and with it the answer.
        let _ = reader.send(Box::new(work));
        match answered.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(failed("the operation panicked")),
        }
    }
}

fn failed(what: &str) -> Error {
    ErrorKind::Storage(what.to_owned()).into()
}

fn spawn() -> std::io::Result<Sender<Work>> {
    let (sender, works) = channel::<Work>();
    let thread = Builder::new().name("table-embedded-read".to_owned());
    thread.spawn(move || works.into_iter().for_each(|work| work()))?;
    Ok(sender)
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn one_after_another_is_one_thread() {
        let readers = Readers::default();
        let mut threads = HashSet::new();
        for _ in 0..100 {
            threads.insert(readers.run(|| Ok(thread::current().id())).await.unwrap());
        }
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&thread::current().id()));
    }

    #[tokio::test]
    async fn at_once_are_as_many_as_needed_and_no_more() {
        let readers = Readers::default();
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
            assert_eq!(lock(&readers.idle).len(), 4);
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_thread_goes_on() {
        let readers = Readers::default();
        let panicked = readers.run::<()>(|| panic!("the test makes it panic")).await;
        assert!(panicked.unwrap_err().to_string().contains("panicked"));
        assert_eq!(readers.run(|| Ok(7)).await.unwrap(), 7);
        assert_eq!(lock(&readers.idle).len(), 1);
    }
}
