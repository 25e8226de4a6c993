//! The scheduler: every request waits here until the explorer decides what happens to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::model::Entity;
use table_core::store::{Error, ErrorKind, Outcome, Result};
use tokio::time::{Instant, sleep, sleep_until};

use super::footprint::Footprint;
use super::history::{Effect, History};

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The request runs and is answered.
    Run,
    /// The process dies before the request is sent.
    CrashBefore,
    /// The request runs, and the process dies.
    CrashAfter,
    /// The task is dropped before the request is sent; its process continues.
    CancelBefore,
    /// The request runs, and the task is dropped; its process continues.
    CancelAfter,
    /// The request runs, and the process pauses until this time after the start of the schedule.
    Stall(Duration),
    /// The request runs, its answer is lost, and the process pauses until this time after the start of the schedule.
    StallUnanswered(Duration),
    /// The request runs, and the process pauses for this time.
    Pause(Duration),
    /// The request runs after this time.
    Slow(Duration),
    /// The request is lost without an answer.
    Lose,
    /// The request runs, and its answer is lost.
    LoseAnswer,
    /// The request runs, and its answer says *applied* but cannot be read.
    BreakAnswer,
    /// The answer is lost, and the request takes effect later.
    Late,
    /// The request is refused; an adapter in front of the store sends it again at this time after the start of the
    /// schedule.
    Resend(Duration),
    /// A late request takes effect.
    Arrive,
}

impl Action {
    pub(super) const fn is_fault(self) -> bool {
        !matches!(self, Self::Run | Self::Arrive)
    }

    /// Reads have no effect: one kind of loss is enough for them.
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

/// The `number`th request of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestId {
    pub(super) task: usize,
    pub(super) number: usize,
}

/// The action for a request.
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
    /// The process of each task. A task without an entry is a process of its own.
    processes: Vec<usize>,
    /// The end of each process's pause.
    stalled: BTreeMap<usize, Instant>,
    trace: Option<Vec<String>>,
    committed: BTreeSet<String>,
    violation: Option<String>,
    /// The effects of writes, in scenes with a feed.
    history: Option<History>,
}

/// The requests of all tasks of a schedule, and the trace of the schedule.
#[derive(Clone)]
pub(super) struct Scheduler {
    inner: Arc<Mutex<Inner>>,
    started: Instant,
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scheduler")
    }
}

impl Scheduler {
    pub(super) fn new(traced: bool) -> Self {
        let inner = Inner {
            trace: traced.then(Vec::new),
            ..Inner::default()
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            started: Instant::now(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    /// Sets the process of each task.
    pub(super) fn share(&self, processes: Vec<usize>) {
        self.lock().processes = processes;
    }

    pub(super) fn process_of(&self, task: usize) -> usize {
        self.lock().processes.get(task).copied().unwrap_or(task)
    }

    /// The waiting requests in the order of tasks. The flag says whether the request can be late: it writes.
    pub(super) fn waiting(&self) -> Vec<(RequestId, Footprint, bool)> {
        let inner = self.lock();
        // Another task of the process may run before this one sees its decision.
        let open = inner
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.verdict.is_none());
        open.map(|(id, w)| (*id, w.footprint.clone(), w.can_be_late))
            .collect()
    }

    pub(super) fn late(&self) -> Vec<(RequestId, Footprint)> {
        self.lock()
            .late
            .iter()
            .map(|late| (late.request, late.footprint.clone()))
            .collect()
    }

    /// Decides what happens to a waiting request.
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
            let at = inner
                .late
                .iter()
                .position(|late| late.request == request)
                .unwrap();
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

    /// Remembers that the write with this mark is committed.
    pub(super) fn committed(&self, mark: &str) {
        self.lock().committed.insert(mark.to_owned());
    }

    pub(super) fn is_committed(&self, mark: &str) -> bool {
        self.lock().committed.contains(mark)
    }

    /// Remembers the effects of writes from now on.
    pub(super) fn keep_history(&self) {
        self.lock().history.get_or_insert_default();
    }

    pub(super) fn keeps_history(&self) -> bool {
        self.lock().history.is_some()
    }

    /// Remembers the effects of a write that has led to these rows.
    pub(super) fn observe(&self, rows: &[Entity]) {
        if let Some(history) = &mut self.lock().history {
            history.observe(rows);
        }
    }

    /// The effects of all writes in a partition, in their order.
    pub(super) fn effects_in(&self, partition: &str) -> Vec<Effect> {
        let inner = self.lock();
        let history = inner.history.as_ref();
        history.map_or_else(Vec::new, |history| history.of(partition))
    }

    /// Remembers the first violation that was found while the schedule runs.
    pub(super) fn report_violation(&self, what: String) {
        self.lock().violation.get_or_insert(what);
    }

    pub(super) fn violation(&self) -> Option<String> {
        self.lock().violation.clone()
    }

    /// Waits for the decision about a request of a task, then runs the request accordingly.
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
            let action = Turn {
                scheduler: self.clone(),
                id,
            }
            .await;
            self.note(|| format!("task {task} {action:?}: {}", label()));
            let Action::Resend(at) = action else {
                break (id, action);
            };
            sleep_until(self.started + at).await;
        };
        let answer = match action {
            Action::Lose => Err(lost(reads)),
            Action::Late => {
                let effect = Box::pin(async { drop(run.await) });
                self.lock().late.push(Late {
                    request: id,
                    footprint,
                    effect,
                });
                Err(lost(reads))
            }
            Action::LoseAnswer => run.await.and(Err(lost(reads))),
            Action::BreakAnswer => run.await.and(Err(broken())),
            Action::Stall(until) => self.stall(task, run.await, until).await,
            Action::StallUnanswered(until) => {
                let _unseen = run.await;
                self.stall(task, Err(lost(reads)), until).await
            }
            Action::Pause(length) => {
                self.stall(task, run.await, self.started.elapsed() + length)
                    .await
            }
            Action::Slow(length) => {
                sleep(length).await;
                run.await
            }
            Action::CrashAfter | Action::CancelAfter => {
                let _unseen = run.await;
                std::future::pending().await
            }
            Action::Run
            | Action::CrashBefore
            | Action::CancelBefore
            | Action::Arrive
            | Action::Resend(_) => run.await,
        };
        self.note(|| {
            format!(
                "    {}",
                answer
                    .as_ref()
                    .err()
                    .map_or("ok".to_owned(), ToString::to_string)
            )
        });
        answer
    }

    /// Pauses the whole process: none of its timers fires before the end.
    async fn stall<T>(&self, task: usize, answer: Result<T>, until: Duration) -> Result<T> {
        let process = self.process_of(task);
        self.lock().stalled.insert(process, self.started + until);
        sleep_until(self.started + until).await;
        answer
    }

    /// Whether a task's process is paused.
    pub(super) fn is_stalled(&self, task: usize) -> bool {
        let process = self.process_of(task);
        self.lock()
            .stalled
            .get(&process)
            .is_some_and(|until| Instant::now() < *until)
    }

    fn enter(&self, task: usize, footprint: Footprint, can_be_late: bool) -> RequestId {
        let mut inner = self.lock();
        let number = inner.numbers.entry(task).or_default();
        *number += 1;
        let id = RequestId {
            task,
            number: *number,
        };
        inner.waiting.insert(
            id,
            Waiting {
                footprint,
                can_be_late,
                verdict: None,
                waker: None,
            },
        );
        id
    }
}

/// The error of a request without an answer.
fn lost(reads: bool) -> Error {
    let error = Error::from(ErrorKind::Transport("lost on purpose".to_owned()));
    error.with_outcome(if reads {
        Outcome::NotApplied
    } else {
        Outcome::Ambiguous
    })
}

/// The error of an answer that says *applied* and cannot be read.
fn broken() -> Error {
    Error::from(ErrorKind::Service("broken on purpose".to_owned())).with_outcome(Outcome::Applied)
}

/// Waits for the decision about a request.
struct Turn {
    scheduler: Scheduler,
    id: RequestId,
}

impl Future for Turn {
    type Output = Action;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Action> {
        let mut inner = self.scheduler.lock();
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
        self.scheduler.lock().waiting.remove(&self.id);
    }
}
