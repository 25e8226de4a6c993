use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use super::{CrashPoint, Fault, FaultRule, Injected};
use crate::adapter::call::Call;

/// Decides which requests of a [`Faulty`](super::Faulty) store fail, and how.
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
        Self { state: Arc::new(Mutex::new(State::new(seed))) }
    }

    /// Adds a rule after the existing rules.
    pub fn add(&self, rule: FaultRule) {
        self.lock().add_rule(rule);
    }

    /// Sets the faults of the next requests, one step per request; `None` lets a request pass. After the last
    /// step, the rules apply. A request passes if the fault of its step cannot happen to it.
    pub fn script(&self, steps: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().add_script(steps);
    }

    /// Simulates a crash at the `n`th request from now, starting at 1. `point` says whether that request
    /// takes effect; all later requests fail.
    ///
    /// To test what a crash leaves behind, crash at every request of a task in turn until
    /// [`is_crashed`](Self::is_crashed) stays false. Each time, [`heal`](Self::heal), recover and check.
    pub fn crash_at(&self, n: u64, point: CrashPoint) {
        self.lock().crash_after(n, point);
    }

    /// Whether the crash has happened.
    pub fn is_crashed(&self) -> bool {
        self.lock().is_crashed()
    }

    /// Removes rules, script and crash, as if a new process had started. Counts and log are kept.
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.lock().requests()
    }

    /// Returns the injected faults in order. Assert that there were some.
    pub fn injected(&self) -> Vec<Injected> {
        self.lock().log.clone()
    }

    pub(super) fn next(&self, call: &Call<'_>) -> (u64, Option<Fault>) {
        self.lock().next(call)
    }

    // The state is consistent after every statement, so a panic of another holder leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
