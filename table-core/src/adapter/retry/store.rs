use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use fastrand::Rng;

use super::RetryPolicy;
use super::attempts::Attempts;
use super::job::Job;
use super::write_id::{caller_profile, strip, strip_page};
use crate::forward_to_store;
use crate::model::{Entity, Key, TableName};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::{GroupTransaction, Operation, OperationKind, Result, ServiceProfile, TableStore, Written};

/// A store that repeats requests with transient errors if that is safe.
///
/// A request that was certainly **not applied** and has a transient error
/// ([`is_transient`](crate::Error::is_transient)) is always repeated. So is every read. A write whose answer
/// was lost (**ambiguous**) may have been applied, or may still be on its way, so these rules apply:
///
/// | write | repeated? | reason |
/// |---|---|---|
/// | with an ETag: replace, merge, delete, and a group with one of these | yes | ETags are never reused: at most one attempt takes effect, early or late |
/// | upsert; replace, merge, delete of any version; groups of these | yes | the last writer wins, as requested: the second attempt overwrites a write of another writer between two attempts, and a delayed attempt overwrites one after them |
/// | insert, and groups with an insert but no ETag | only with write ids | it would take effect twice if its entity was deleted in between; see [`AbsentInsert`](super::AbsentInsert) |
/// | create or delete a table | yes | like an upsert; a table that another client created in between is deleted too |
///
/// The error of a repetition says nothing certain about the caller's write: a conflict may be the effect of
/// an earlier attempt. So after an ambiguous attempt, only success is reported unchanged. Everything else is
/// reported as the first ambiguous error, with the later error as its source, **never as a plain conflict**.
///
/// # Write ids
/// With [`RetryPolicy::with_write_ids`] the store reads instead of guessing. After an ambiguous attempt, and
/// after a conflict that follows one, it reads the ids of the entities that it wrote (1 request per entity):
///
/// | found | conclusion |
/// |---|---|
/// | our id, on any entity of a group | applied, because a group is atomic; the result has the ETags found, and none for an entity that another writer has written since |
/// | the ETag of the condition | not applied, but perhaps still on its way: at most one of the repetition and the delayed attempt takes effect |
/// | no entity, for an insert | not applied, or deleted since: [`AbsentInsert`](super::AbsentInsert) decides; a repetition that finds an entity reads it again |
/// | another id and ETag, or no entity where one existed | ambiguous: our write may have been overwritten |
/// | for an upsert or a write to any version, another id | repeated |
///
/// Writes are refused on stores whose reads may be stale ([`ServiceProfile::has_stale_reads`]), because a stale
/// read proves nothing. Equal content is no proof either, because two writers can store the same. A delete
/// leaves nothing to find: it is repeated, and is ambiguous if the entity does not exist then.
///
/// # Cost
/// Without failures, the cost of the wrapped store. Attempts and the reads that resolve them are requests to
/// the wrapped store, and a meter below counts them. Needs a Tokio runtime with a time driver.
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
    caller_profile: Option<ServiceProfile>,
    #[cfg(feature = "opentelemetry")]
    telemetry: Option<crate::adapter::Telemetry>,
}

impl<S: TableStore> Retrying<S> {
    /// Retries requests to `store` by the policy.
    pub fn new(store: S, policy: RetryPolicy) -> Self {
        let rng = Mutex::new(policy.rng());
        let caller_profile = policy.write_ids.then(|| caller_profile(store.profile().clone()));
        Self {
            store,
            policy,
            rng,
            caller_profile,
            #[cfg(feature = "opentelemetry")]
            telemetry: None,
        }
    }

    /// Counts every repetition.
    #[cfg(feature = "opentelemetry")]
    pub(in crate::adapter) fn with_telemetry(mut self, telemetry: Option<crate::adapter::Telemetry>) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Returns the policy.
    pub const fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    pub(super) const fn inner(&self) -> &S {
        &self.store
    }

    /// Returns the limits that remain for the caller, if a write id is stored.
    pub(super) const fn caller_profile(&self) -> Option<&ServiceProfile> {
        self.caller_profile.as_ref()
    }

    /// Refuses write ids if reads may be stale, because they prove nothing then.
    fn check_ids(&self) -> Result<()> {
        if self.policy.write_ids { self.store.profile().check_reads("write ids") } else { Ok(()) }
    }

    pub(super) fn attempts(&self, kind: OperationKind) -> Attempts<'_> {
        // A generator for each operation, so that the lock is not held during the delays.
        let rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner).fork();
        let attempts = Attempts::new(&self.policy, kind.name(), rng);
        #[cfg(feature = "opentelemetry")]
        let attempts = match &self.telemetry {
            Some(telemetry) => attempts.counted(telemetry, self.store.profile().system),
            None => attempts,
        };
        attempts
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<S: TableStore> TableStore for Retrying<S> {
    forward_to_store!(self => self.store;
        declare_encrypted, encrypted_names, local_writers, manifests, now);

    /// With write ids, an entity may have one property less, and a group fewer bytes.
    fn profile(&self) -> &ServiceProfile {
        self.caller_profile.as_ref().unwrap_or_else(|| self.store.profile())
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
}
