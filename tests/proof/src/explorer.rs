//! The explorer: runs the tasks of a scene request by request, in the order that a chooser selects.

use std::env;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join};
use table_core::store::Result;
use tokio::runtime::Builder;
use tokio::task::unconstrained;
use tokio::time::timeout;

use super::Invariant;
use super::chooser::{Bounds, Choose, Offer};
use super::ids;
use super::omission::omit;
use super::scheduler::{Action, Choice, Scheduler};

/// The tasks of one schedule, and the check after them.
pub(super) struct Schedule {
    pub(super) tasks: Vec<BoxFuture<'static, ()>>,
    /// Runs workers and the sweep, then checks the final state. Returns the violation, if there is one.
    pub(super) verdict: BoxFuture<'static, Result<Option<String>>>,
}

/// The result of an exploration.
#[derive(Debug)]
pub(super) struct Explored {
    /// The number of schedules that ran to their end.
    pub(super) schedules: usize,
    /// The bounds as docs/proof-schedules.tsv writes them.
    pub(super) orders: String,
    /// The first violation, and the steps of its schedule.
    pub(super) wrong: Option<(String, Vec<String>)>,
}

impl Explored {
    /// The sum of several explorations, up to the first violation.
    pub(super) fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self {
            schedules: 0,
            orders: String::new(),
            wrong: None,
        };
        for explored in all {
            sum = Self {
                schedules: sum.schedules + explored.schedules,
                ..explored
            };
            if sum.wrong.is_some() {
                break;
            }
        }
        sum
    }

    /// Asserts that no schedule ended wrong, and that there are at least as many schedules as
    /// `docs/proof-schedules.tsv` says. If `PROOF_ROWS` names a file, the row for that document is appended to the
    /// file instead of the comparison.
    #[track_caller]
    pub(super) fn assert_no_violation(&self, scene: &str) {
        if let Some((what, steps)) = &self.wrong {
            panic!("{scene}: {what}, after\n{}", steps.join("\n"));
        }
        let row = format!("{scene}\t{}\t{}\n", self.orders, self.schedules);
        let Some(file) = env::var_os("PROOF_ROWS") else {
            let least = self.documented(scene);
            assert!(
                least.is_some_and(|least| self.schedules >= least),
                "docs/proof-schedules.tsv has {least:?} for this scene, and the exploration had\n{row}"
            );
            return;
        };
        let mut rows = File::options()
            .create(true)
            .append(true)
            .open(file)
            .unwrap();
        rows.write_all(row.as_bytes()).unwrap();
    }

    /// Asserts that a schedule ended with a violation because a rule of the protocol was not enforced.
    #[track_caller]
    pub(super) fn assert_violation_without(&self, invariant: Invariant) {
        let (violation, _) = self
            .wrong
            .as_ref()
            .unwrap_or_else(|| panic!("no schedule needs the rule {invariant:?}"));
        eprintln!(
            "without {invariant:?}, schedule {} ends with a violation: {violation}",
            self.schedules
        );
    }

    /// The number of schedules that the document has for a scene.
    fn documented(&self, scene: &str) -> Option<usize> {
        let beginning = format!("{scene}\t{}\t", self.orders);
        let mut rows = DOCUMENT
            .lines()
            .filter_map(|line| line.strip_prefix(beginning.as_str()));
        rows.next()?.parse().ok()
    }
}

/// The document with the number of schedules of every scene.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/proof-schedules.tsv"
    );
    fs::read_to_string(path).expect("the document is in the repository")
});

/// Runs a scene in every order that the chooser selects, until a schedule ends with a violation. The processes leave out the rule `omitted`
/// from the start of a schedule to its verdict.
pub(super) fn explore<S>(
    mut chooser: impl Choose,
    omitted: Option<Invariant>,
    scene: &S,
) -> Explored
where
    S: AsyncFn(&Scheduler) -> Result<Schedule>,
{
    let (mut schedules, orders) = (0, chooser.text());
    loop {
        let (completed, wrong, _) = run_once(&mut chooser, omitted, scene, false);
        schedules += usize::from(completed);
        if wrong.is_some() {
            // Run the schedule again with a trace of its steps.
            let (_, wrong, steps) = run_once(&mut chooser, omitted, scene, true);
            let what = wrong.unwrap_or_else(|| "it went right the second time".to_owned());
            let seed = chooser
                .seed()
                .map_or_else(String::new, |seed| format!(" (seed {seed})"));
            return Explored {
                schedules,
                orders,
                wrong: Some((what + &seed, steps)),
            };
        }
        if !chooser.next() {
            return Explored {
                schedules,
                orders,
                wrong: None,
            };
        }
    }
}

fn run_once<S>(
    chooser: &mut impl Choose,
    omitted: Option<Invariant>,
    scene: &S,
    traced: bool,
) -> (bool, Option<String>, Vec<String>)
where
    S: AsyncFn(&Scheduler) -> Result<Schedule>,
{
    fastrand::seed(1);
    omit(None);
    ids::start_schedule(chooser.overlaps());
    chooser.start();
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(unconstrained(async {
        let scheduler = Scheduler::new(traced);
        let schedule = scene(&scheduler).await.unwrap();
        omit(omitted);
        if !RunningTasks::new(schedule.tasks)
            .run_schedule(&scheduler, chooser)
            .await
        {
            return (false, None, Vec::new());
        }
        let wrong = match scheduler.violation() {
            Some(wrong) => Some(wrong),
            None => schedule
                .verdict
                .await
                .unwrap_or_else(|error| Some(error.to_string())),
        };
        (true, wrong, scheduler.trace())
    }))
}

/// The waker of a task. Remembers that the task is ready, and wakes the explorer.
#[derive(Default)]
struct TaskWaker {
    woken: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener.lock().unwrap().take() {
            listener.wake();
        }
    }
}

struct RunningTask {
    task: Option<BoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
}

impl RunningTask {
    /// Adds the work that the task has left to the background: the task ends with it, and dies with it.
    fn add_background(&mut self) {
        for work in ids::take_background() {
            self.task = Some(match self.task.take() {
                Some(task) => Box::pin(join(task, work).map(drop)),
                None => work,
            });
            self.waker.woken.store(true, Ordering::SeqCst);
        }
    }
}

/// Longer than any wait of a task.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
/// More steps than any schedule has.
const MAX_STEPS: usize = 5_000;

struct RunningTasks(Vec<RunningTask>);

impl RunningTasks {
    fn new(tasks: Vec<BoxFuture<'static, ()>>) -> Self {
        let running = |task| {
            let waker = Arc::new(TaskWaker::default());
            waker.woken.store(true, Ordering::SeqCst);
            RunningTask {
                task: Some(task),
                waker,
            }
        };
        Self(tasks.into_iter().map(running).collect())
    }

    /// Runs one schedule. Returns whether the schedule ran to its end.
    async fn run_schedule(mut self, scheduler: &Scheduler, chooser: &mut impl Choose) -> bool {
        for step in 0.. {
            if step > MAX_STEPS {
                scheduler.report_violation("the schedule does not end".to_owned());
                break;
            }
            self.run_ready_tasks(scheduler);
            if scheduler.waiting().is_empty() {
                // All tasks wait for time to pass: late requests take effect before that.
                for (late, _) in scheduler.late() {
                    scheduler.arrive(late).await;
                }
                if self.0.iter().all(|a| a.task.is_none()) {
                    return true;
                }
                if timeout(LONGEST_WAIT, self.wait(scheduler)).await.is_err() {
                    scheduler.report_violation("all tasks wait forever".to_owned());
                    break;
                }
                continue;
            }
            let Some(choice) = chooser.choose(offers(scheduler, chooser.bounds())) else {
                return false;
            };
            self.apply(scheduler, choice).await;
        }
        true
    }

    async fn apply(&mut self, scheduler: &Scheduler, choice: Choice) {
        match choice.action {
            Action::Arrive => scheduler.arrive(choice.request).await,
            Action::CrashBefore => self.kill_process(scheduler, choice.request.task),
            Action::CrashAfter => {
                scheduler.decide(choice);
                self.run_ready_tasks(scheduler);
                self.kill_process(scheduler, choice.request.task);
            }
            Action::CancelBefore | Action::CancelAfter => {
                if choice.action == Action::CancelAfter {
                    scheduler.decide(choice);
                    self.run_ready_tasks(scheduler);
                }
                scheduler.note(|| format!("task {} is dropped", choice.request.task));
                self.0[choice.request.task].task = None;
            }
            _ => scheduler.decide(choice),
        }
    }

    /// Ends all tasks of a task's process.
    fn kill_process(&mut self, scheduler: &Scheduler, task: usize) {
        scheduler.note(|| format!("the process of task {task} dies"));
        let process = scheduler.process_of(task);
        for (other, running) in self.0.iter_mut().enumerate() {
            if scheduler.process_of(other) == process {
                running.task = None;
            }
        }
    }

    /// Polls every ready task until it waits for its next request.
    fn run_ready_tasks(&mut self, scheduler: &Scheduler) {
        for (task, running) in self.0.iter_mut().enumerate() {
            ids::set_current_task(task);
            while !scheduler.is_stalled(task) && running.waker.woken.swap(false, Ordering::SeqCst) {
                let Some(task) = &mut running.task else { break };
                let waker = Waker::from(running.waker.clone());
                if task
                    .as_mut()
                    .poll(&mut Context::from_waker(&waker))
                    .is_ready()
                {
                    running.task = None;
                }
                running.add_background();
            }
        }
        ids::set_current_task(usize::MAX);
    }

    /// Waits until the timer of a task fires.
    async fn wait(&mut self, scheduler: &Scheduler) {
        poll_fn(|context| {
            for running in self.0.iter().filter(|a| a.task.is_some()) {
                *running.waker.listener.lock().unwrap() = Some(context.waker().clone());
            }
            let can_go_on = |(task, a): (usize, &RunningTask)| {
                a.task.is_some()
                    && a.waker.woken.load(Ordering::SeqCst)
                    && !scheduler.is_stalled(task)
            };
            if self.0.iter().enumerate().any(can_go_on) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

/// All possible next choices, those without a fault first.
fn offers(scheduler: &Scheduler, bounds: &Bounds) -> Vec<Offer> {
    let waiting = scheduler.waiting();
    let runs = waiting.iter().map(|(request, f, _)| {
        (
            Choice {
                request: *request,
                action: Action::Run,
            },
            f.clone(),
        )
    });
    let late = scheduler.late().into_iter();
    let arrivals = late.map(|(request, f)| {
        (
            Choice {
                request,
                action: Action::Arrive,
            },
            f,
        )
    });
    let mut offers: Vec<_> = runs.chain(arrivals).collect();
    for (request, footprint, writes) in waiting.iter().filter(|(id, ..)| bounds.is_faulty(id.task))
    {
        for action in bounds
            .kinds
            .iter()
            .filter(|action| *writes || action.can_happen_to_reads())
        {
            offers.push((
                Choice {
                    request: *request,
                    action: *action,
                },
                footprint.clone(),
            ));
        }
    }
    offers
}
