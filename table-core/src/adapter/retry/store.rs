use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fastrand::Rng;

use super::RetryPolicy;
use super::attempts::Attempts;
use super::job::Job;
use super::write_id::{profile_beside_id, strip, strip_page};
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::{
    EncryptedNames, GroupTransaction, LocalWriters, Operation, OperationKind, Result, ServiceProfile,
    TableStore, Written,
};

/// A store that tries again what failed in passing, where that is safe.
///
/// A request that was certainly **not applied** and failed in passing
/// ([`is_transient`](crate::Error::is_transient)) is repeated, whatever it is. Reads always are.
/// A write whose answer was lost (**ambiguous**) may have been applied, or may still be while it is
/// held up somewhere, so it follows these rules:
///
/// | write | repeated? | because |
/// |---|---|---|
/// | with an ETag: replace, merge, delete, and a group with one of these in it | yes | ETags are never used again: one attempt at most takes effect, early or late |
/// | upsert; replace, merge, delete of any version; groups of these | yes | the last writer wins, as asked: a write by another between two attempts is overwritten by the second, and one after them by an attempt held up that long |
/// | insert, and groups with one but no ETag | only with write ids | it would take effect twice if its entity was deleted in between; see [`AbsentInsert`](super::AbsentInsert) |
/// | create or delete a table | yes | as upsert; a table created by another in between goes too |
///
/// What a repetition answers is not what the caller asked about: the conflict it meets may be our
/// own earlier effect. So once an attempt was ambiguous, only success is reported as it is; anything
/// else is reported as the first ambiguous error, with the later one as its source, **never as a
/// plain conflict**.
///
/// # Write ids
/// [`RetryPolicy::with_write_ids`] lets the store look instead of guess. After an ambiguous attempt,
/// and after a conflict behind one, it reads what it wrote (the id only, one request an entity):
///
/// | found | conclusion |
/// |---|---|
/// | our id, on any entity of a group | applied: a group is atomic; the answer has the versions found, and none where another writer came since |
/// | the ETag of the condition | not applied, but perhaps under way: the repetition and the straggler exclude each other |
/// | no entity, for an insert | not applied, or deleted since: [`AbsentInsert`](super::AbsentInsert) decides; a repetition that meets an entity looks again |
/// | another id and ETag, or no entity where one was | ambiguous: we may have been overwritten |
/// | for an upsert or a write to any version, another id | repeated |
///
/// Writes are refused where reads lag behind them ([`ServiceProfile::reads_lag`]): what is read proves nothing there.
/// Equal content proves nothing either: two writers can store the same. A delete leaves nothing to find:
/// it is repeated, and ambiguous if the entity is gone by then.
///
/// # Cost
/// As the wrapped store where nothing fails. Attempts and the reads that resolve them are requests
/// to the wrapped store: a meter below counts them. Needs a Tokio runtime with time.
///
/// ```
/// use table_core::adapter::{Fault, FaultInjector, Faulty, RetryPolicy, Retrying};
/// use table_core::memory::MemoryStore;
/// use table_core::model::{Entity, TableName};
/// use table_core::store::{Operation, TableStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let faults = FaultInjector::new(7);
/// let faulty = Faulty::new(MemoryStore::new(), faults.clone());
/// let store = Retrying::new(faulty, RetryPolicy::default().with_write_ids());
/// let table = TableName::new("Employees")?;
/// store.create_table(&table).await?;
///
/// faults.script([Some(Fault::LoseAnswer)]);
/// let ken = Entity::new("Sales", "empid_000223")?;
/// let written = store.write(&table, Operation::Insert(ken.clone())).await?;
/// assert_eq!(faults.injected().len(), 1);
/// let read = store.get(&table, ken.key(), None).await?.unwrap();
/// assert_eq!(read.etag(), written.etag.as_ref());
/// assert!(read.properties().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Retrying<S> {
    store: S,
    policy: RetryPolicy,
    rng: Mutex<Rng>,
    beside_id: Option<ServiceProfile>,
}

impl<S: TableStore> Retrying<S> {
    /// Tries again on `store` as the policy says.
    pub fn new(store: S, policy: RetryPolicy) -> Self {
        let rng = Mutex::new(policy.rng());
        let beside_id = policy.write_ids.then(|| profile_beside_id(store.profile().clone()));
        Self { store, policy, rng, beside_id }
    }

    /// The policy.
    pub const fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    pub(super) const fn inner(&self) -> &S {
        &self.store
    }

    /// What is left to the caller beside the write id, if one is stored.
    pub(super) const fn profile_beside_id(&self) -> Option<&ServiceProfile> {
        self.beside_id.as_ref()
    }

    /// A write id proves nothing where it may be read late.
    fn check_ids(&self) -> Result<()> {
        if self.policy.write_ids { self.store.profile().check_reads("write ids") } else { Ok(()) }
    }

    pub(super) fn attempts(&self, kind: OperationKind) -> Attempts<'_> {
        let rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner).fork();
        Attempts::new(&self.policy, kind.name(), rng)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for Retrying<S> {
    /// With write ids, an entity has room for one property less, a group for fewer bytes.
    fn profile(&self) -> &ServiceProfile {
        self.beside_id.as_ref().unwrap_or_else(|| self.store.profile())
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.change(table, Job::CreateTable).await.map(drop)
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.change(table, Job::DeleteTable).await.map(drop)
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.read(OperationKind::ListTables, || self.store.list_tables(prefix, from)).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        let found = self.read(OperationKind::Get, || self.store.get(table, key, select)).await?;
        Ok(if self.policy.write_ids { found.map(strip) } else { found })
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        let page = self.read(OperationKind::Query, || self.store.query(table, query, from)).await?;
        Ok(if self.policy.write_ids { strip_page(page) } else { page })
    }

    async fn query_readable(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let found = self.read(OperationKind::Query, || self.store.query_readable(table, query, from)).await?;
        let strips = self.policy.write_ids;
        Ok(if strips { ReadablePage { page: strip_page(found.page), ..found } } else { found })
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.check_ids()?;
        let written = self.change(table, Job::Write(operation)).await?;
        Ok(written.into_iter().next().unwrap_or_default())
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.check_ids()?;
        self.change(table, Job::Transact(group)).await
    }

    fn declare_encrypted(&self, table: &TableName, names: &[&str]) {
        self.store.declare_encrypted(table, names);
    }

    fn encrypted_names(&self, table: &TableName) -> EncryptedNames {
        self.store.encrypted_names(table)
    }

    fn local_writers(&self) -> Option<Arc<LocalWriters>> {
        self.store.local_writers()
    }
}
