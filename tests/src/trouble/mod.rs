//! Runs a path of several requests once for each fault: at every request if the store answers immediately,
//! otherwise at requests that a seed draws.

mod blobs;

use std::cell::Cell;
use std::fmt;

use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
use table_core::adapter::{CrashPoint, Fault, FaultInjector};

pub(crate) use blobs::FaultyBlobs;

use crate::Harness;

/// A fault at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The process crashes.
    Crash(CrashPoint),
    /// The request or its answer is lost, and the process continues.
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

/// Concurrent runs of one path.
const AT_ONCE: usize = 8;
/// The seed that draws requests.
const SEED: u64 = 7;

/// One run of a path, with a fault at one request or without a fault.
pub(crate) struct Play<'a> {
    path: &'a str,
    trouble: Option<(Trouble, u64)>,
    /// The faults of the process under test.
    pub(crate) faults: FaultInjector,
    begun: Cell<u64>,
    requests: Cell<Option<u64>>,
}

impl<'a> Play<'a> {
    fn new(path: &'a str, trouble: Option<(Trouble, u64)>) -> Self {
        let (begun, requests) = (Cell::default(), Cell::default());
        Self { path, trouble, faults: FaultInjector::new(0), begun, requests }
    }

    /// Starts the path: later requests are requests of the path.
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

    /// Ends the path, after its last request or after a crash. Asserts that the fault was injected.
    pub(crate) fn end(&self) {
        assert!(
            self.trouble.is_none() || !self.faults.injected().is_empty(),
            "{self}: the fault was not injected"
        );
        self.requests.set(Some(self.faults.requests() - self.begun.get()));
    }

    /// Whether the run has no fault.
    pub(crate) const fn is_untroubled(&self) -> bool {
        self.trouble.is_none()
    }

    /// Whether the process has crashed.
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

/// Runs a path without a fault, which counts its requests. Then runs the path with each fault at every request,
/// or at as many drawn requests as the scale of the backend says.
pub(crate) async fn trouble(harness: &Harness, path: &str, play: impl AsyncFn(&Play<'_>)) {
    let first = Play::new(path, None);
    play(&first).await;
    let requests = first.requests.get().expect("the run reaches the end of the path");
    assert!(requests > 0, "{path}: the path sends no request");
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
            assert!(one.requests.get().is_some(), "{one}: the run did not reach the end of the path");
        }
    });
    plays.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}
