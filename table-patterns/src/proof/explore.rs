//! Runs tasks step by step in the order that is chosen.

use std::env;
use std::fs::{self, File};
use std::future::poll_fn;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use table_core::store::Result;
use tokio::runtime::Builder;
use tokio::task::unconstrained;
use tokio::time::timeout;

use super::choose::{Bounds, Choose, Offer};
use super::ids;
use super::stage::{Action, Choice, Stage};

/// What is to be played: tasks, and what must hold after them.
pub(super) struct Play {
    pub(super) tasks: Vec<BoxFuture<'static, ()>>,
    /// Lets everything come to rest and says what is wrong.
    pub(super) verdict: BoxFuture<'static, Result<Option<String>>>,
}

/// What exploration came to.
#[derive(Debug)]
pub(super) struct Explored {
    /// Schedules played to the end.
    pub(super) schedules: usize,
    /// Which schedules they were, as the document says it.
    pub(super) orders: String,
    /// The first that ended wrong: what, and its steps.
    pub(super) wrong: Option<(String, Vec<String>)>,
}

impl Explored {
    /// Several explorations as one, up to the first that went wrong.
    pub(super) fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self { schedules: 0, orders: String::new(), wrong: None };
        for explored in all {
            sum = Self { schedules: sum.schedules + explored.schedules, ..explored };
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
    pub(super) fn assert_right(&self, scene: &str) {
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
        let mut rows = File::options().create(true).append(true).open(file).unwrap();
        rows.write_all(row.as_bytes()).unwrap();
    }

    /// The number of schedules that the document has for a scene.
    fn documented(&self, scene: &str) -> Option<usize> {
        let beginning = format!("{scene}\t{}\t", self.orders);
        let mut rows = DOCUMENT.lines().filter_map(|line| line.strip_prefix(beginning.as_str()));
        rows.next()?.parse().ok()
    }
}

/// The document with the number of schedules of every scene.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/proof-schedules.tsv");
    fs::read_to_string(path).expect("the document is in the repository")
});

/// Plays a scene in every order that the chooser goes through, until one ends wrong.
pub(super) fn explore<S>(mut chooser: impl Choose, scene: &S) -> Explored
where
    S: AsyncFn(&Stage) -> Result<Play>,
{
    let (mut schedules, orders) = (0, chooser.text());
    loop {
        let (played, wrong, _) = play_once(&mut chooser, scene, false);
        schedules += usize::from(played);
        if wrong.is_some() {
            // Once more, with its steps.
            let (_, wrong, steps) = play_once(&mut chooser, scene, true);
            let what = wrong.unwrap_or_else(|| "it went right the second time".to_owned());
            let seed = chooser.seed().map_or_else(String::new, |seed| format!(" (seed {seed})"));
            return Explored { schedules, orders, wrong: Some((what + &seed, steps)) };
        }
        if !chooser.next() {
            return Explored { schedules, orders, wrong: None };
        }
    }
}

fn play_once<S>(chooser: &mut impl Choose, scene: &S, traced: bool) -> (bool, Option<String>, Vec<String>)
where
    S: AsyncFn(&Stage) -> Result<Play>,
{
    fastrand::seed(1);
    ids::start();
    chooser.start();
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(unconstrained(async {
        let stage = Stage::new(traced);
        let play = scene(&stage).await.unwrap();
        if !Actors::new(play.tasks).perform(&stage, chooser).await {
            return (false, None, Vec::new());
        }
        let wrong = match stage.violation() {
            Some(wrong) => Some(wrong),
            None => play.verdict.await.unwrap_or_else(|error| Some(error.to_string())),
        };
        (true, wrong, stage.trace())
    }))
}

/// Whether a task has something to do, and whom to tell.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::SeqCst);
        if let Some(listener) = self.listener.lock().unwrap().take() {
            listener.wake();
        }
    }
}

struct Actor {
    task: Option<BoxFuture<'static, ()>>,
    bell: Arc<Bell>,
}

/// Longer than anybody waits.
const AGES: Duration = Duration::from_secs(86_400);
/// More steps than any schedule has.
const ENDLESS: usize = 5_000;

struct Actors(Vec<Actor>);

impl Actors {
    fn new(tasks: Vec<BoxFuture<'static, ()>>) -> Self {
        let actor = |task| {
            let bell = Arc::new(Bell::default());
            bell.rung.store(true, Ordering::SeqCst);
            Actor { task: Some(task), bell }
        };
        Self(tasks.into_iter().map(actor).collect())
    }

    /// Whether the schedule was played to its end.
    async fn perform(mut self, stage: &Stage, chooser: &mut impl Choose) -> bool {
        for step in 0.. {
            if step > ENDLESS {
                stage.accuse("it does not come to an end".to_owned());
                break;
            }
            self.go_on(stage);
            if stage.waiting().is_empty() {
                // Time passes: what was on its way arrives before.
                for (late, _) in stage.late() {
                    stage.arrive(late).await;
                }
                if self.0.iter().all(|a| a.task.is_none()) {
                    return true;
                }
                if timeout(AGES, self.wait(stage)).await.is_err() {
                    stage.accuse("nobody goes on".to_owned());
                    break;
                }
                continue;
            }
            let Some(choice) = chooser.choose(offers(stage, chooser.bounds())) else { return false };
            self.apply(stage, choice).await;
        }
        true
    }

    async fn apply(&mut self, stage: &Stage, choice: Choice) {
        match choice.action {
            Action::Arrive => stage.arrive(choice.request).await,
            Action::CrashBefore => self.die(stage, choice.request.task),
            Action::CrashAfter => {
                stage.decide(choice);
                self.go_on(stage);
                self.die(stage, choice.request.task);
            }
            Action::CancelBefore | Action::CancelAfter => {
                if choice.action == Action::CancelAfter {
                    stage.decide(choice);
                    self.go_on(stage);
                }
                stage.note(|| format!("task {} is dropped", choice.request.task));
                self.0[choice.request.task].task = None;
            }
            _ => stage.decide(choice),
        }
    }

    /// Ends all tasks of a task's process.
    fn die(&mut self, stage: &Stage, task: usize) {
        stage.note(|| format!("the process of task {task} dies"));
        let process = stage.process_of(task);
        for (other, actor) in self.0.iter_mut().enumerate() {
            if stage.process_of(other) == process {
                actor.task = None;
            }
        }
    }

    /// Lets every task that can go on run to its next request.
    fn go_on(&mut self, stage: &Stage) {
        for (task, actor) in self.0.iter_mut().enumerate() {
            ids::acts(task);
            while !stage.is_stalled(task) && actor.bell.rung.swap(false, Ordering::SeqCst) {
                let Some(task) = &mut actor.task else { break };
                let waker = Waker::from(actor.bell.clone());
                if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                    actor.task = None;
                }
            }
        }
        ids::acts(usize::MAX);
    }

    /// Waits until a pause of a task is over.
    async fn wait(&mut self, stage: &Stage) {
        poll_fn(|context| {
            for actor in self.0.iter().filter(|a| a.task.is_some()) {
                *actor.bell.listener.lock().unwrap() = Some(context.waker().clone());
            }
            let can_go_on = |(task, a): (usize, &Actor)| {
                a.task.is_some() && a.bell.rung.load(Ordering::SeqCst) && !stage.is_stalled(task)
            };
            if self.0.iter().enumerate().any(can_go_on) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Everything that can happen next: the fault-free first.
fn offers(stage: &Stage, bounds: &Bounds) -> Vec<Offer> {
    let waiting = stage.waiting();
    let runs =
        waiting.iter().map(|(request, f, _)| (Choice { request: *request, action: Action::Run }, f.clone()));
    let late = stage.late().into_iter();
    let arrivals = late.map(|(request, f)| (Choice { request, action: Action::Arrive }, f));
    let mut offers: Vec<_> = runs.chain(arrivals).collect();
    for (request, footprint, writes) in waiting.iter().filter(|(id, ..)| bounds.is_faulty(id.task)) {
        for action in bounds.kinds.iter().filter(|action| *writes || action.can_happen_to_reads()) {
            offers.push((Choice { request: *request, action: *action }, footprint.clone()));
        }
    }
    offers
}
