use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::state::State;
use super::{CrashPoint, Fault, FaultRule, Injected};
use crate::adapter::call::Call;

/// Decides which requests of a [`Faulty`](super::Faulty) store go wrong, and how.
///
/// A cheap handle: clones share the plan. The same seed, plan and order of requests give the same
/// faults. A request obeys a crash first, then the script, then the first rule that strikes.
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
    /// An injector without a plan: everything works.
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed))) }
    }

    /// Adds a rule behind those there are.
    pub fn add(&self, rule: FaultRule) {
        self.lock().add_rule(rule);
    }

    /// Says what happens to the next requests, one step each: `None` lets one pass. Rules take over
    /// at the end. A request that cannot suffer the fault of its step passes.
    pub fn script(&self, steps: impl IntoIterator<Item = Option<Fault>>) {
        self.lock().add_script(steps);
    }

    /// Lets the process die at the `n`th request from now, from 1: that one takes effect or not as
    /// `point` says, and no later one does.
    ///
    /// To test what a crash leaves behind, crash at every request of a task until it no longer
    /// reaches the last ([`is_crashed`](Self::is_crashed) stays false); each time
    /// [`heal`](Self::heal), recover and check.
    pub fn crash_at(&self, n: u64, point: CrashPoint) {
        self.lock().crash_after(n, point);
    }

    /// Whether the crash has happened.
    pub fn is_crashed(&self) -> bool {
        self.lock().is_crashed()
    }

    /// Forgets rules, script and crash, as if a new process started. Counts and log stay.
    pub fn heal(&self) {
        self.lock().heal();
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.lock().requests()
    }

    /// The faults that happened, in order: assert that there were some.
    pub fn injected(&self) -> Vec<Injected> {
        self.lock().log.clone()
    }

    pub(super) fn next(&self, call: &Call<'_>) -> (u64, Option<Fault>) {
        self.lock().next(call)
    }

    // The state is whole after every statement: a panic elsewhere leaves nothing to repair.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
