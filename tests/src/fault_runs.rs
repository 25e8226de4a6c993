//! Runs a path of several requests once for each fault: at every request if the store answers immediately,
//! otherwise at requests that a seed draws.

use std::cell::Cell;
use std::fmt;

use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
use table_core::adapter::{CrashPoint, Fault, FaultInjector};

use crate::Harness;

/// A fault at one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    /// The process crashes.
    Crash(CrashPoint),
    /// The request or its answer is lost, and the process continues.
    Loss(Fault),
}

impl InjectedFault {
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
pub(crate) struct FaultRun<'a> {
    path: &'a str,
    fault: Option<(InjectedFault, u64)>,
    /// The faults of the process under test.
    pub(crate) faults: FaultInjector,
    begun: Cell<u64>,
    requests: Cell<Option<u64>>,
}

impl<'a> FaultRun<'a> {
    fn new(path: &'a str, fault: Option<(InjectedFault, u64)>) -> Self {
        let (begun, requests) = (Cell::default(), Cell::default());
        Self {
            path,
            fault,
            faults: FaultInjector::new(0),
            begun,
            requests,
        }
    }

    /// Starts the path: later requests are requests of the path.
    pub(crate) fn begin(&self) {
        self.begun.set(self.faults.requests());
        match self.fault {
            Some((InjectedFault::Crash(point), request)) => self.faults.crash_at(request, point),
            Some((InjectedFault::Loss(fault), request)) => {
                self.faults
                    .script((1..request).map(|_| None).chain([Some(fault)]));
            }
            None => {}
        }
    }

    /// Ends the path, after its last request or after a crash. Asserts that the fault was injected, unless the run has sent
    /// fewer requests than the run without a fault: requests that run at once can be more in one run than in another.
    pub(crate) fn end(&self) {
        let requests = self.faults.requests() - self.begun.get();
        let is_reached = self.fault.is_some_and(|(_, request)| request <= requests);
        assert!(
            !is_reached || !self.faults.injected().is_empty(),
            "{self}: the fault was not injected"
        );
        self.requests.set(Some(requests));
    }

    /// Whether the run has no fault.
    pub(crate) const fn has_no_fault(&self) -> bool {
        self.fault.is_none()
    }

    /// Whether the process has crashed.
    pub(crate) fn is_dead(&self) -> bool {
        self.faults.is_crashed()
    }
}

impl fmt::Display for FaultRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Some((fault, request)) => write!(f, "{}, {fault:?} at request {request}", self.path),
            None => write!(f, "{}, without a fault", self.path),
        }
    }
}

/// Runs a path without a fault, which counts its requests. Then runs the path with each fault at every request,
/// or at as many drawn requests as the scale of the backend says. Asserts that at least three quarters of these faults were injected: the others
/// were meant for a request that their run did not send.
pub(crate) async fn run_with_faults(
    harness: &Harness,
    path: &str,
    run: impl AsyncFn(&FaultRun<'_>),
) {
    let first = FaultRun::new(path, None);
    run(&first).await;
    let requests = first
        .requests
        .get()
        .expect("the run reaches the end of the path");
    assert!(requests > 0, "{path}: the path sends no request");
    let mut rng = Rng::with_seed(SEED);
    let at = |fault| match harness.scale().faults {
        None => (1..=requests)
            .map(|request| (fault, request))
            .collect::<Vec<_>>(),
        Some(times) => (0..times).map(|_| (fault, rng.u64(1..=requests))).collect(),
    };
    let faults: Vec<_> = InjectedFault::ALL.into_iter().flat_map(at).collect();
    eprintln!("{path}: {} faults at {requests} requests", faults.len());
    let runs = stream::iter(faults).map(|fault| {
        let run = &run;
        async move {
            let one = FaultRun::new(path, Some(fault));
            run(&one).await;
            assert!(
                one.requests.get().is_some(),
                "{one}: the run did not reach the end of the path"
            );
            !one.faults.injected().is_empty()
        }
    });
    let runs: Vec<bool> = runs.buffer_unordered(AT_ONCE).collect().await;
    let injected = runs.iter().filter(|is_injected| **is_injected).count();
    assert!(
        injected * 4 >= runs.len() * 3,
        "{path}: {injected} of {} faults were injected",
        runs.len()
    );
}
