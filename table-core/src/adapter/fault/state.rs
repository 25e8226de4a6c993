use std::collections::VecDeque;

use fastrand::Rng;

use super::rule::ActiveRule;
use super::{CrashPoint, Fault, FaultRule};
use crate::adapter::call::Call;
use crate::model::TableName;
use crate::store::OperationKind;

/// A fault that was injected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// The number of the request, starting at 1.
    pub request: u64,
    /// The kind of the request.
    pub kind: OperationKind,
    /// The table; `None` for a listing.
    pub table: Option<TableName>,
    /// The fault.
    pub fault: Fault,
}

#[derive(Debug)]
pub(super) struct State {
    rng: Rng,
    requests: u64,
    script: VecDeque<Option<Fault>>,
    rules: Vec<ActiveRule>,
    crash: Option<(u64, CrashPoint)>,
    pub(super) log: Vec<Injected>,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            requests: 0,
            script: VecDeque::new(),
            rules: Vec::new(),
            crash: None,
            log: Vec::new(),
        }
    }

    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) fn add_rule(&mut self, rule: FaultRule) {
        self.rules.push(ActiveRule::new(rule));
    }

    pub(super) fn add_script(&mut self, script: impl IntoIterator<Item = Option<Fault>>) {
        self.script.extend(script);
    }

    pub(super) const fn crash_after(&mut self, more: u64, point: CrashPoint) {
        self.crash = Some((self.requests + more, point));
    }

    pub(super) fn is_crashed(&self) -> bool {
        self.crash.is_some_and(|(at, _)| self.requests >= at)
    }

    /// Removes rules, script and crash; keeps the counts and the log.
    pub(super) fn heal(&mut self) {
        self.rules.clear();
        self.script.clear();
        self.crash = None;
    }

    /// Counts the request and decides its fault.
    pub(super) fn next(&mut self, call: &Call<'_>) -> (u64, Option<Fault>) {
        self.requests += 1;
        let fault = self.decide(call);
        if let Some(fault) = fault {
            let (kind, table) = (call.kind, call.table.cloned());
            self.log.push(Injected { request: self.requests, kind, table, fault });
        }
        (self.requests, fault)
    }

    fn decide(&mut self, call: &Call<'_>) -> Option<Fault> {
        match self.crash {
            Some((at, point)) if self.requests == at => return Some(Fault::Crash(point)),
            Some((at, _)) if self.requests > at => return Some(Fault::Crash(CrashPoint::Before)),
            _ => {}
        }
        if let Some(step) = self.script.pop_front() {
            return step.filter(|fault| fault.can_happen_to(call.kind));
        }
        // Every rule sees every request, so that their counts do not depend on their order.
        let rng = &mut self.rng;
        self.rules.iter_mut().fold(None, |first, rule| first.or(rule.strike(call, rng)))
    }
}
