//! Requests that go wrong, one for each time that a path is played: every request of the path where a store
//! answers at once, some that a seed draws where it takes its time.

mod blobs;

use std::cell::Cell;
use std::fmt;

use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
use table_core::adapter::{CrashPoint, Fault, FaultInjector};

pub(crate) use blobs::FaultyBlobs;

use crate::Harness;

/// What goes wrong at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The process dies.
    Crash(CrashPoint),
    /// The request, or its answer, is lost, and the process lives on.
    Loss(Fault),
}

impl Trouble {
    const ALL: [Self; 4] = [
        Self::Crash(CrashPoint::Before),
        Self::Crash(CrashPoint::After),
        Self::Loss(Fault::LoseRequest),
        Self::Loss(Fault::LoseAnswer),
    ];
}

/// Plays of one path that are under way together.
const AT_ONCE: usize = 8;
/// Draws the requests of samples.
const SEED: u64 = 7;

/// One play of a path, in which one request goes wrong, or none.
pub(crate) struct Play<'a> {
    path: &'a str,
    trouble: Option<(Trouble, u64)>,
    /// What the process in trouble has to do with.
    pub(crate) faults: FaultInjector,
    begun: Cell<u64>,
    requests: Cell<Option<u64>>,
}

impl<'a> Play<'a> {
    fn new(path: &'a str, trouble: Option<(Trouble, u64)>) -> Self {
        let (begun, requests) = (Cell::default(), Cell::default());
        Self { path, trouble, faults: FaultInjector::new(0), begun, requests }
    }

    /// Requests from here on are those of the path.
    pub(crate) fn begin(&self) {
        self.begun.set(self.faults.requests());
        match self.trouble {
            Some((Trouble::Crash(point), request)) => self.faults.crash_at(request, point),
            Some((Trouble::Loss(fault), request)) => {
                self.faults.script((1..request).map(|_| None).chain([Some(fault)]));
            }
            None => {}
        }
    }

    /// The path is at its end, or the process is: what was to go wrong has gone wrong.
    pub(crate) fn end(&self) {
        assert!(
            self.trouble.is_none() || !self.faults.injected().is_empty(),
            "{self}: it did not come so far"
        );
        self.requests.set(Some(self.faults.requests() - self.begun.get()));
    }

    /// Whether all went well.
    pub(crate) const fn is_untroubled(&self) -> bool {
        self.trouble.is_none()
    }

    /// Whether the process has died.
    pub(crate) fn is_dead(&self) -> bool {
        self.faults.is_crashed()
    }
}

impl fmt::Display for Play<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.trouble {
            Some((trouble, request)) => write!(f, "{}, {trouble:?} at request {request}", self.path),
            None => write!(f, "{}, without trouble", self.path),
        }
    }
}

/// Plays a path without trouble, which tells how many requests it has, and then in trouble at every one of
/// them, or at so many of each kind as the backend's scale says.
pub(crate) async fn trouble(harness: &Harness, path: &str, play: impl AsyncFn(&Play<'_>)) {
    let first = Play::new(path, None);
    play(&first).await;
    let requests = first.requests.get().expect("the path is played to its end");
    assert!(requests > 0, "{path}: it sends nothing");
    let mut rng = Rng::with_seed(SEED);
    let at = |trouble| match harness.scale().troubles {
        None => (1..=requests).map(|request| (trouble, request)).collect::<Vec<_>>(),
        Some(times) => (0..times).map(|_| (trouble, rng.u64(1..=requests))).collect(),
    };
    let troubles: Vec<_> = Trouble::ALL.into_iter().flat_map(at).collect();
    eprintln!("{path}: {} troubles at {requests} requests", troubles.len());
    let plays = stream::iter(troubles).map(|trouble| {
        let play = &play;
        async move {
            let one = Play::new(path, Some(trouble));
            play(&one).await;
            assert!(one.requests.get().is_some(), "{one}: it is not played to its end");
        }
    });
    plays.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}
