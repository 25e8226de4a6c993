//! Where requests wait for the explorer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::store::{Error, ErrorKind, Outcome, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::footprint::Footprint;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It runs and is answered.
    Run,
    /// The process dies before it is sent.
    CrashBefore,
    /// It runs, and the process dies.
    CrashAfter,
    /// The task is dropped before it is sent; its process goes on.
    CancelBefore,
    /// It runs, and the task is dropped; its process goes on.
    CancelAfter,
    /// It runs, and the process pauses until so long after the start.
    Stall(Duration),
    /// It runs, its answer is lost, and the process pauses until so long after the start.
    StallUnanswered(Duration),
    /// It runs, and the process pauses for so long.
    Pause(Duration),
    /// It runs after so long.
    Slow(Duration),
    /// It is lost, and nobody can tell.
    Lose,
    /// It runs and its answer is lost.
    LoseAnswer,
    /// It runs, and its answer says so and cannot be read.
    BreakAnswer,
    /// Its answer is lost, and it takes effect later.
    Late,
    /// It is refused, and what is in front of the store sends it again so long after the start.
    Resend(Duration),
    /// A late request takes effect.
    Arrive,
}

impl Action {
    pub(super) const fn is_fault(self) -> bool {
        !matches!(self, Self::Run | Self::Arrive)
    }

    /// A read that is lost has no effect: one way of losing it is enough.
    pub(super) const fn can_happen_to_reads(self) -> bool {
        !matches!(
            self,
            Self::LoseAnswer
                | Self::BreakAnswer
                | Self::Late
                | Self::StallUnanswered(_)
                | Self::CrashAfter
                | Self::CancelAfter
                | Self::Resend(_)
                | Self::Slow(_)
        )
    }
}

/// A request: the `number`th of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestId {
    pub(super) task: usize,
    pub(super) number: usize,
}

/// What is done to which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) request: RequestId,
    pub(super) action: Action,
}

struct Waiting {
    footprint: Footprint,
    can_be_late: bool,
    verdict: Option<Action>,
    waker: Option<Waker>,
}

struct Late {
    request: RequestId,
    footprint: Footprint,
    effect: BoxFuture<'static, ()>,
}

#[derive(Default)]
struct Inner {
    waiting: BTreeMap<RequestId, Waiting>,
    numbers: BTreeMap<usize, usize>,
    late: Vec<Late>,
    /// The process of each task, where several share one; a task without is a process of its own.
    processes: Vec<usize>,
    /// Until when processes stand still.
    stalled: BTreeMap<usize, Instant>,
    trace: Option<Vec<String>>,
    committed: BTreeSet<String>,
    violation: Option<String>,
}

/// The place where the requests of all tasks wait.
#[derive(Clone)]
pub(super) struct Stage {
    inner: Arc<Mutex<Inner>>,
    started: Instant,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stage")
    }
}

impl Stage {
    pub(super) fn new(traced: bool) -> Self {
        let inner = Inner { trace: traced.then(Vec::new), ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(inner)), started: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Says of which process each task is.
    pub(super) fn share(&self, processes: Vec<usize>) {
        self.lock().processes = processes;
    }

    pub(super) fn process_of(&self, task: usize) -> usize {
        self.lock().processes.get(task).copied().unwrap_or(task)
    }

    /// Requests that wait, in the order of tasks, and late ones.
    pub(super) fn waiting(&self) -> Vec<(RequestId, Footprint, bool)> {
        let inner = self.lock();
        // A process may do something else before it looks at what was decided.
        let open = inner.waiting.iter().filter(|(_, waiting)| waiting.verdict.is_none());
        open.map(|(id, w)| (*id, w.footprint.clone(), w.can_be_late)).collect()
    }

    pub(super) fn late(&self) -> Vec<(RequestId, Footprint)> {
        self.lock().late.iter().map(|late| (late.request, late.footprint.clone())).collect()
    }

    /// Tells a waiting request what happens to it.
    pub(super) fn decide(&self, choice: Choice) {
        let mut inner = self.lock();
        let waiting = inner.waiting.get_mut(&choice.request).unwrap();
        waiting.verdict = Some(choice.action);
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }

    pub(super) async fn arrive(&self, request: RequestId) {
        let late = {
            let mut inner = self.lock();
            let at = inner.late.iter().position(|late| late.request == request).unwrap();
            inner.late.remove(at)
        };
        self.note(|| format!("{request:?} takes effect late"));
        late.effect.await;
    }

    pub(super) fn note(&self, line: impl FnOnce() -> String) {
        let at = self.started.elapsed();
        if let Some(trace) = &mut self.lock().trace {
            trace.push(format!("{at:>9.1?} {}", line()));
        }
    }

    pub(super) fn trace(&self) -> Vec<String> {
        self.lock().trace.clone().unwrap_or_default()
    }

    /// Remembers that the write with this mark was committed.
    pub(super) fn committed(&self, mark: &str) {
        self.lock().committed.insert(mark.to_owned());
    }

    pub(super) fn is_committed(&self, mark: &str) -> bool {
        self.lock().committed.contains(mark)
    }

    /// What was found wrong while the schedule ran.
    pub(super) fn accuse(&self, what: String) {
        self.lock().violation.get_or_insert(what);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    /// Runs a request of a task when its turn comes.
    pub(super) async fn request<T: Send + 'static>(
        &self,
        task: usize,
        footprint: Footprint,
        reads: bool,
        label: impl Fn() -> String,
        run: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let (id, action) = loop {
            let id = self.enter(task, footprint.clone(), !reads);
            let action = Turn { stage: self.clone(), id }.await;
            self.note(|| format!("task {task} {action:?}: {}", label()));
            let Action::Resend(at) = action else { break (id, action) };
            sleep_until(self.started + at).await;
        };
        let answer = match action {
            Action::Lose => Err(lost(reads)),
            Action::Late => {
                let effect = Box::pin(async { drop(run.await) });
                self.lock().late.push(Late { request: id, footprint, effect });
                Err(lost(reads))
            }
            Action::LoseAnswer => run.await.and(Err(lost(reads))),
            Action::BreakAnswer => run.await.and(Err(broken())),
            Action::Stall(until) => self.stall(task, run.await, until).await,
            Action::StallUnanswered(until) => {
                let _unseen = run.await;
                self.stall(task, Err(lost(reads)), until).await
            }
            Action::Pause(length) => self.stall(task, run.await, self.started.elapsed() + length).await,
            Action::Slow(length) => {
                sleep(length).await;
                run.await
            }
            Action::CrashAfter | Action::CancelAfter => {
                let _unseen = run.await;
                std::future::pending().await
            }
            Action::Run | Action::CrashBefore | Action::CancelBefore | Action::Arrive | Action::Resend(_) => {
                run.await
            }
        };
        self.note(|| format!("    {}", answer.as_ref().err().map_or("ok".to_owned(), ToString::to_string)));
        answer
    }

    /// The whole process stands still: none of its clocks ends anything before.
    async fn stall<T>(&self, task: usize, answer: Result<T>, until: Duration) -> Result<T> {
        let process = self.process_of(task);
        self.lock().stalled.insert(process, self.started + until);
        sleep_until(self.started + until).await;
        answer
    }

    /// Whether a task's process stands still.
    pub(super) fn is_stalled(&self, task: usize) -> bool {
        let process = self.process_of(task);
        self.lock().stalled.get(&process).is_some_and(|until| Instant::now() < *until)
    }

    fn enter(&self, task: usize, footprint: Footprint, can_be_late: bool) -> RequestId {
        let mut inner = self.lock();
        let number = inner.numbers.entry(task).or_default();
        *number += 1;
        let id = RequestId { task, number: *number };
        inner.waiting.insert(id, Waiting { footprint, can_be_late, verdict: None, waker: None });
        id
    }
}

/// The error of a request whose answer never comes.
fn lost(reads: bool) -> Error {
    let error = Error::from(ErrorKind::Transport("lost on purpose".to_owned()));
    error.with_outcome(if reads { Outcome::NotApplied } else { Outcome::Ambiguous })
}

/// The error of an answer that says that the request took effect, and nothing else.
fn broken() -> Error {
    Error::from(ErrorKind::Service("broken on purpose".to_owned())).with_outcome(Outcome::Applied)
}

/// Waits for a request's turn.
struct Turn {
    stage: Stage,
    id: RequestId,
}

impl Future for Turn {
    type Output = Action;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Action> {
        let mut inner = self.stage.lock();
        let waiting = inner.waiting.get_mut(&self.id).unwrap();
        if let Some(action) = waiting.verdict {
            return Poll::Ready(action);
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.stage.lock().waiting.remove(&self.id);
    }
}
