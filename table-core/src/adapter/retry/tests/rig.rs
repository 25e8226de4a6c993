use std::sync::Mutex;

use super::super::Job;
use crate::adapter::around::{Answer, Around, Call, impl_around};
use crate::adapter::{Fault, FaultInjector, Faulty, Metered, RequestMeter, RetryPolicy, Retrying};
use crate::memory::MemoryStore;
use crate::model::{ETag, Entity, Key, PartitionKey, TableName};
use crate::store::{
    GroupTransaction, Operation, OperationKind, Result, ServiceProfile, TableStore, Written,
};

pub(super) fn table() -> TableName {
    TableName::new("Employees").unwrap()
}

pub(super) fn key(row: &str) -> Key {
    Key::new("Sales", row).unwrap()
}

pub(super) fn entity(row: &str, by: &str) -> Entity {
    Entity::from(key(row)).with("By", by)
}

pub(super) fn group(operations: impl IntoIterator<Item = Operation>) -> GroupTransaction {
    let mut group =
        GroupTransaction::new(PartitionKey::new("Sales").unwrap(), &ServiceProfile::LOCAL);
    operations
        .into_iter()
        .for_each(|operation| group.push(operation).unwrap());
    group
}

/// Executes operations of another writer just before the `at`th request.
#[derive(Debug)]
pub(super) struct Intruded<S> {
    store: S,
    data: MemoryStore,
    plan: Mutex<(u64, Vec<Operation>)>,
}

impl<S: TableStore> Around for Intruded<S> {
    async fn around<T: Answer + Send>(
        &self,
        _call: Call<'_>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let due = {
            let mut plan = self.plan.lock().unwrap();
            plan.0 = plan.0.wrapping_sub(1);
            if plan.0 == 0 {
                std::mem::take(&mut plan.1)
            } else {
                Vec::new()
            }
        };
        for operation in due {
            let _may_fail = self.data.write(&table(), operation).await;
        }
        request.await
    }
}

impl_around!(Intruded);

type Below = Faulty<Metered<MemoryStore>>;

/// The stack: retries, other writer, faults, meter, and data with an entity `old`.
pub(super) struct Rig {
    pub(super) store: Retrying<Intruded<std::sync::Arc<Below>>>,
    pub(super) below: std::sync::Arc<Below>,
    pub(super) data: MemoryStore,
    pub(super) meter: RequestMeter,
    pub(super) old: ETag,
}

impl Rig {
    pub(super) async fn new(policy: RetryPolicy) -> Self {
        let (data, meter) = (MemoryStore::new(), RequestMeter::new());
        data.create_table(&table()).await.unwrap();
        let old = data
            .write(&table(), Operation::Insert(entity("old", "before")))
            .await
            .unwrap();
        let metered = Metered::new(data.clone(), meter.clone());
        let below = std::sync::Arc::new(Faulty::new(metered, FaultInjector::new(0)));
        let intruded = Intruded {
            store: below.clone(),
            data: data.clone(),
            plan: Mutex::new((0, Vec::new())),
        };
        let store = Retrying::new(intruded, policy.with_seed(1));
        Self {
            store,
            below,
            data,
            meter,
            old: old.etag.unwrap(),
        }
    }

    pub(super) fn script(&self, faults: &[Fault]) {
        self.below.faults().script(faults.iter().copied().map(Some));
    }

    pub(super) fn intrude(&self, at: u64, operations: Vec<Operation>) {
        *self.store.store.plan.lock().unwrap() = (at, operations);
    }

    pub(super) async fn send(&self, job: &Job) -> Result<Vec<Written>> {
        job.send(&self.store, &table()).await
    }

    /// Returns how often requests of this kind took effect, including late effects.
    pub(super) async fn applied(&self, kind: OperationKind) -> u64 {
        self.below.settle().await;
        let count = self.meter.snapshot().sum(|request| request.kind == kind);
        count.requests - count.failed
    }

    pub(super) async fn read(&self, row: &str) -> Option<Entity> {
        self.data.get(&table(), &key(row), None).await.unwrap()
    }
}
