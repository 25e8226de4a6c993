//! Fault injection: simulates failures of networks, services and processes, scripted and repeatable.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;

use crate::adapter::around::Call;
use crate::forward_to_store;
use crate::model::{Entity, Key, TableName};
use crate::query::{AccessPath, Continuation, Page, Position, Query, ReadablePage, Select};
use crate::store::{
    Error, ErrorKind, GroupTransaction, LocalPermit, Operation, OperationKind, Outcome, Result,
    ServiceProfile, TableStore, Written,
};

/// A fault of a request.
///
/// "Ambiguous" applies to writes: a failed read has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The request is not sent: a transport error, not applied.
    FailBefore,
    /// The request is lost after sending: a transport error, reported as ambiguous, not applied.
    LoseRequest,
    /// The request is executed and its answer is lost: a transport error, ambiguous.
    LoseAnswer,
    /// The request is executed and its answer is unreadable: a service error, applied.
    BreakAnswer,
    /// The answer is lost immediately, and the write takes effect later, just before a later request: a
    /// delayed packet. Single writes and group transactions only.
    LateEffect {
        /// How many requests later; 1 is the next request.
        requests: u64,
    },
    /// The service is busy; not applied.
    Throttle {
        /// The Retry-After time of the service.
        retry_after: Option<Duration>,
    },
    /// The table's name cannot be used yet; not applied. Requests to a table only.
    TableBeingDeleted,
    /// The request waits before it is executed.
    Delay(Duration),
    /// The request is executed immediately and its answer waits.
    DelayAnswer(Duration),
    /// The page has at most this many items, perhaps none, and a continuation token for the rest. Queries and
    /// listings only, on stores whose continuation tokens are keys: the local stores.
    ///
    /// A rule that always returns empty pages never ends a query: limit it.
    ShortPage(usize),
    /// The process crashes at this request: see [`FaultInjector::crash_at`].
    Crash(CrashPoint),
}

/// The point in its last request at which a process crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Before the request takes effect.
    Before,
    /// After the request took effect, before its answer is received.
    After,
}

impl CrashPoint {
    /// Both values, for loops.
    pub const ALL: [Self; 2] = [Self::Before, Self::After];
}

impl Fault {
    /// Whether this fault can happen to a request of this kind.
    const fn can_happen_to(self, kind: OperationKind) -> bool {
        use OperationKind as K;
        match self {
            Self::ShortPage(_) => matches!(kind, K::Query | K::ListTables),
            Self::LateEffect { .. } => {
                !kind.is_read() && !matches!(kind, K::CreateTable | K::DeleteTable)
            }
            Self::TableBeingDeleted => !matches!(kind, K::ListTables),
            _ => true,
        }
    }
}

fn not_sent() -> Error {
    ErrorKind::Transport("the connection was refused (injected)".to_owned()).into()
}

/// Returns the error of a request whose answer is lost.
fn lost(kind: OperationKind) -> Error {
    let error = Error::new(ErrorKind::Transport(
        "the answer was lost (injected)".to_owned(),
    ));
    error.with_outcome(if kind.is_read() {
        Outcome::NotApplied
    } else {
        Outcome::Ambiguous
    })
}

fn broken(kind: OperationKind) -> Error {
    let error = Error::new(ErrorKind::Service(
        "an unreadable answer (injected)".to_owned(),
    ));
    error.with_outcome(if kind.is_read() {
        Outcome::NotApplied
    } else {
        Outcome::Applied
    })
}

fn throttled(retry_after: Option<Duration>) -> Error {
    ErrorKind::Throttled { retry_after }.into()
}

fn being_deleted(table: Option<&TableName>) -> Error {
    let table = table.map(ToString::to_string).unwrap_or_default();
    ErrorKind::TableBeingDeleted { table }.into()
}

/// Not transient, because no code of a crashed process retries.
fn crashed() -> Error {
    ErrorKind::Storage("the process has crashed (injected)".to_owned()).into()
}

/// Which requests a [`Fault`] happens to, and when.
///
/// A new rule applies to every request that the fault can happen to. Narrow it with the methods.
///
/// ```
/// use table_core::adapter::{Fault, FaultRule};
/// use table_core::store::OperationKind;
/// // The answers to the second and fourth insert are lost.
/// let rule = FaultRule::new(Fault::LoseAnswer).on(OperationKind::Insert).every(2).times(2);
/// ```
#[derive(Clone, Debug)]
pub struct FaultRule {
    fault: Fault,
    kinds: Vec<OperationKind>,
    table: Option<TableName>,
    when: When,
    times: u64,
}

#[derive(Clone, Copy, Debug)]
enum When {
    Every(u64),
    Nth(u64),
    Chance(f64),
}

impl FaultRule {
    /// Creates a rule for this fault.
    pub const fn new(fault: Fault) -> Self {
        Self {
            fault,
            kinds: Vec::new(),
            table: None,
            when: When::Every(1),
            times: u64::MAX,
        }
    }

    /// Applies only to this kind of request. Call it repeatedly for several kinds.
    #[must_use]
    pub fn on(mut self, kind: OperationKind) -> Self {
        self.kinds.push(kind);
        self
    }

    /// Applies only to requests to this table, compared without case.
    #[must_use]
    pub fn in_table(mut self, table: TableName) -> Self {
        self.table = Some(table);
        self
    }

    /// Applies only to the `n`th matching request, starting at 1.
    #[must_use]
    pub const fn nth(mut self, n: u64) -> Self {
        self.when = When::Nth(n);
        self
    }

    /// Applies only to every `k`th matching request: 1 is each, 0 is none.
    #[must_use]
    pub const fn every(mut self, k: u64) -> Self {
        self.when = When::Every(k);
        self
    }

    /// Applies to each matching request with this probability, from 0 to 1, by the injector's seed.
    #[must_use]
    pub const fn with_probability(mut self, probability: f64) -> Self {
        self.when = When::Chance(probability);
        self
    }

    /// Applies at most this many times.
    #[must_use]
    pub const fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, call: &Call<'_>) -> bool {
        let is_table = |table: &TableName| {
            call.table
                .is_some_and(|called| called.as_str().eq_ignore_ascii_case(table.as_str()))
        };
        self.fault.can_happen_to(call.kind)
            && (self.kinds.is_empty() || self.kinds.contains(&call.kind))
            && self.table.as_ref().is_none_or(is_table)
    }
}

/// A rule with the counts of its matches and faults.
#[derive(Debug)]
struct ActiveRule {
    rule: FaultRule,
    /// The number of requests that match the rule.
    matched: u64,
    /// The number of requests to which the rule has applied its fault.
    applied: u64,
}

impl ActiveRule {
    /// Returns the fault if the rule applies to this request.
    fn apply(&mut self, call: &Call<'_>, rng: &mut Rng) -> Option<Fault> {
        if self.applied == self.rule.times || !self.rule.matches(call) {
            return None;
        }
        self.matched += 1;
        let applies = match self.rule.when {
            When::Every(k) => k > 0 && self.matched.is_multiple_of(k),
            When::Nth(n) => self.matched == n,
            When::Chance(probability) => rng.f64() < probability,
        };
        self.applied += u64::from(applies);
        applies.then_some(self.rule.fault)
    }
}

/// Decides which requests of a [`Faulty`] store fail, and how.
///
/// Cloning is cheap; clones share the plan. The same seed, plan and order of requests give the same faults.
/// For each request, a crash takes precedence, then the script, then the first matching rule.
///
/// ```
/// use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, OperationKind, TableStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let faults = FaultInjector::new(7);
/// faults.add(FaultRule::new(Fault::LoseAnswer).on(OperationKind::Insert).nth(1));
/// let store = Faulty::new(MemoryStore::new(), faults.clone());
/// let table = TableName::new("Employees")?;
/// store.create_table(&table).await?;
///
/// let ken = Entity::new("Sales", "empid_000223")?;
/// let error = store.write(&table, Operation::Insert(ken.clone())).await.unwrap_err();
/// assert!(error.is_ambiguous());
/// assert!(store.get(&table, ken.key(), None).await?.is_some());
/// assert_eq!(faults.injected().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct FaultInjector {
    state: Arc<Mutex<State>>,
}

impl FaultInjector {
    /// Creates an injector without a plan: no request fails.
    pub fn new(seed: u64) -> Self {
        let state = State {
            rng: Rng::with_seed(seed),
            requests: 0,
            script: VecDeque::new(),
            rules: Vec::new(),
            crash: None,
            log: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds a rule after the existing rules.
    pub fn add(&self, rule: FaultRule) {
        self.lock().rules.push(ActiveRule {
            rule,
            matched: 0,
            applied: 0,
        });
    }

    /// Sets the faults of the next requests, one step per request; `None` lets a request pass. After the last
    /// step, the rules apply. A request passes if the fault of its step cannot happen to it.
    pub fn script(&self, steps: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().script.extend(steps);
    }

    /// Simulates a crash at the `n`th request from now, starting at 1. `point` says whether that request
    /// takes effect; all later requests fail.
    ///
    /// To test what a crash leaves behind, crash at every request of a task in turn until
    /// [`is_crashed`](Self::is_crashed) stays false. Each time, [`heal`](Self::heal), recover and check.
    pub fn crash_at(&self, n: u64, point: CrashPoint) {
        let mut state = self.lock();
        state.crash = Some((state.requests + n, point));
    }

    /// Whether the crash has happened.
    pub fn is_crashed(&self) -> bool {
        let state = self.lock();
        state.crash.is_some_and(|(at, _)| state.requests >= at)
    }

    /// Removes rules, script and crash, as if a new process had started. Counts and log are kept.
    pub fn heal(&self) {
        let mut state = self.lock();
        state.rules.clear();
        state.script.clear();
        state.crash = None;
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Returns the injected faults in order. Assert that there were some.
    pub fn injected(&self) -> Vec<Injected> {
        self.lock().log.clone()
    }

    fn next(&self, call: &Call<'_>) -> (u64, Option<Fault>) {
        self.lock().next(call)
    }

    // The state is consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
struct State {
    rng: Rng,
    requests: u64,
    script: VecDeque<Option<Fault>>,
    rules: Vec<ActiveRule>,
    crash: Option<(u64, CrashPoint)>,
    log: Vec<Injected>,
}

impl State {
    /// Counts the request and decides its fault.
    fn next(&mut self, call: &Call<'_>) -> (u64, Option<Fault>) {
        self.requests += 1;
        let fault = self.decide(call);
        if let Some(fault) = fault {
            let (kind, table) = (call.kind, call.table.cloned());
            self.log.push(Injected {
                request: self.requests,
                kind,
                table,
                fault,
            });
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
        self.rules
            .iter_mut()
            .fold(None, |first, rule| first.or(rule.apply(call, rng)))
    }
}

/// A delayed write.
#[derive(Debug)]
enum LateWrite {
    One(TableName, Operation),
    Group(TableName, GroupTransaction),
}

/// A write, the number of the request that it precedes, and the permit that marks it as in progress.
type Due = (u64, LateWrite, Option<LocalPermit>);

/// Writes that have not taken effect yet.
#[derive(Debug, Default)]
struct LateWrites(Mutex<Vec<Due>>);

impl LateWrites {
    fn push(&self, due: u64, write: LateWrite, permit: Option<LocalPermit>) {
        self.lock().push((due, write, permit));
    }

    /// Executes the writes that are due before `request`. Their results are dropped.
    async fn arrive(&self, request: u64, store: &impl TableStore) {
        // The lock ends before the writes: a store may take any time for them.
        let due: Vec<_> = self
            .lock()
            .extract_if(.., |(due, ..)| *due <= request)
            .collect();
        for (_, write, _permit) in due {
            let _unseen = match write {
                LateWrite::One(table, operation) => store.write(&table, operation).await.map(drop),
                LateWrite::Group(table, group) => store.transact(&table, group).await.map(drop),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Due>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the first `len` entities of a page. The continuation token starts at the next entity.
fn cut_entities(
    page: &mut Page<Entity>,
    len: usize,
    profile: &ServiceProfile,
    table: &TableName,
    query: &Query,
) {
    let Some(next) = page.items.get(len).map(Entity::key) else {
        return;
    };
    let position = Position {
        first: next.partition().to_owned(),
        second: Some(next.row().to_owned()),
    };
    page.continuation = Some(Continuation::new(profile, table, query, position));
    page.items.truncate(len);
}

/// Keeps the first `len` names of a page. The continuation token starts at the next name.
fn cut_tables(
    page: &mut Page<TableName>,
    len: usize,
    profile: &ServiceProfile,
    prefix: Option<&str>,
) {
    let Some(next) = page.items.get(len) else {
        return;
    };
    let first = profile.table_identity(next);
    page.continuation = Some(Continuation::of_tables(
        prefix,
        Position {
            first,
            second: None,
        },
    ));
    page.items.truncate(len);
}

/// A store whose requests fail as its [`FaultInjector`] decides.
#[derive(Debug)]
pub struct Faulty<S> {
    store: S,
    faults: FaultInjector,
    late: LateWrites,
}

impl<S: TableStore> Faulty<S> {
    /// Injects faults into the requests to `store`.
    pub fn new(store: S, faults: FaultInjector) -> Self {
        Self {
            store,
            faults,
            late: LateWrites::default(),
        }
    }

    /// Returns the injector.
    pub const fn faults(&self) -> &FaultInjector {
        &self.faults
    }

    /// Returns the wrapped store, for access without faults.
    pub const fn inner(&self) -> &S {
        &self.store
    }

    /// Executes all writes that [`Fault::LateEffect`] has delayed.
    pub async fn settle(&self) {
        self.late.arrive(u64::MAX, &self.store).await;
    }

    async fn next(&self, call: &Call<'_>) -> (u64, Option<Fault>) {
        let (request, fault) = self.faults.next(call);
        self.late.arrive(request, &self.store).await;
        (request, fault)
    }

    async fn run<T>(
        &self,
        call: Call<'_>,
        fault: Option<Fault>,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match fault {
            None | Some(Fault::ShortPage(_)) => request.await,
            Some(Fault::FailBefore) => Err(not_sent()),
            // The write of a late effect is already queued.
            Some(Fault::LoseRequest | Fault::LateEffect { .. }) => Err(lost(call.kind)),
            Some(Fault::LoseAnswer) => {
                // The store executes the request; only the caller does not see the answer.
                let _unseen = request.await;
                Err(lost(call.kind))
            }
            Some(Fault::BreakAnswer) => {
                request.await?;
                Err(broken(call.kind))
            }
            Some(Fault::Throttle { retry_after }) => Err(throttled(retry_after)),
            Some(Fault::TableBeingDeleted) => Err(being_deleted(call.table)),
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                request.await
            }
            Some(Fault::DelayAnswer(time)) => {
                let answer = request.await;
                tokio::time::sleep(time).await;
                answer
            }
            Some(Fault::Crash(CrashPoint::Before)) => Err(crashed()),
            Some(Fault::Crash(CrashPoint::After)) => {
                let _unseen = request.await;
                Err(crashed().with_outcome(lost(call.kind).outcome()))
            }
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for Faulty<S> {
    forward_to_store!(self => self.store; profile, context);

    async fn create_table(&self, table: &TableName) -> Result<()> {
        let call = Call::new(OperationKind::CreateTable, table);
        let (_, fault) = self.next(&call).await;
        self.run(call, fault, self.store.create_table(table)).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        let call = Call::new(OperationKind::DeleteTable, table);
        let (_, fault) = self.next(&call).await;
        self.run(call, fault, self.store.delete_table(table)).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        let call = Call::list_tables();
        let (_, fault) = self.next(&call).await;
        let mut page = self
            .run(call, fault, self.store.list_tables(prefix, from))
            .await?;
        if let Some(Fault::ShortPage(len)) = fault {
            cut_tables(&mut page, len, self.profile(), prefix);
        }
        Ok(page)
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let call = Call::new(OperationKind::Get, table).at(AccessPath::Point);
        let (_, fault) = self.next(&call).await;
        self.run(call, fault, self.store.get(table, key, select))
            .await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let call = Call::new(OperationKind::Query, table).at(query.access_path());
        let (_, fault) = self.next(&call).await;
        let mut found = self
            .run(call, fault, self.store.query(table, query, from))
            .await?;
        if let Some(Fault::ShortPage(len)) = fault {
            cut_entities(&mut found.page, len, self.profile(), table, query);
        }
        Ok(found)
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let call = Call::new(operation.kind(), table);
        let (request, fault) = self.next(&call).await;
        if let Some(Fault::LateEffect { requests }) = fault {
            // With a permit, as a write in flight has one: a change of the manifest must wait for the late write too.
            let late = LateWrite::One(table.clone(), operation.clone());
            self.late
                .push(request + requests, late, self.store.context().enter());
        }
        self.run(call, fault, self.store.write(table, operation))
            .await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        let call = Call::new(OperationKind::Transact, table);
        let (request, fault) = self.next(&call).await;
        if let Some(Fault::LateEffect { requests }) = fault {
            let late = LateWrite::Group(table.clone(), group.clone());
            self.late
                .push(request + requests, late, self.store.context().enter());
        }
        self.run(call, fault, self.store.transact(table, group))
            .await
    }
}
