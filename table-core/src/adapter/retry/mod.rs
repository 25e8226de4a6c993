//! Repeats requests that are safe to repeat.

mod policy;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use crate::adapter::RateLimit;
use crate::adapter::around::error_name;
use crate::model::{Entity, IfMatch, Key, TableName, ValueRef};
use crate::query::{Continuation, Page, Query, ReadablePage, Select};
use crate::store::{
    Error, ErrorKind, GroupTransaction, Operation, OperationKind, Outcome, Result, ServiceProfile,
    TableStore, Written,
};
use crate::{engine, forward_to_store};

pub use crate::model::WRITE_ID_PROPERTY;
pub use policy::{AbsentInsert, RetryPolicy};

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
/// | insert, and groups with an insert but no ETag | only with write ids | it would take effect twice if its entity was deleted in between; see [`AbsentInsert`] |
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
/// | no entity, for an insert | not applied, or deleted since: [`AbsentInsert`] decides; a repetition that finds an entity reads it again |
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
    rate: Option<RateLimit>,
    #[cfg(feature = "opentelemetry")]
    telemetry: Option<crate::adapter::Telemetry>,
}

impl<S: TableStore> Retrying<S> {
    /// Retries requests to `store` by the policy.
    pub fn new(store: S, policy: RetryPolicy) -> Self {
        let rng = Mutex::new(policy.rng());
        let caller_profile = policy
            .write_ids
            .then(|| caller_profile(store.profile().clone()));
        Self {
            store,
            policy,
            rng,
            caller_profile,
            rate: None,
            #[cfg(feature = "opentelemetry")]
            telemetry: None,
        }
    }

    /// Takes a turn of `rate` for each request after the first one of an operation.
    pub(in crate::adapter) fn with_rate(mut self, rate: Option<RateLimit>) -> Self {
        self.rate = rate;
        self
    }

    /// Counts every repetition.
    #[cfg(feature = "opentelemetry")]
    pub(in crate::adapter) fn with_telemetry(
        mut self,
        telemetry: Option<crate::adapter::Telemetry>,
    ) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// Returns the policy.
    pub const fn policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// Refuses write ids if reads may be stale, because they prove nothing then.
    fn check_ids(&self) -> Result<()> {
        if self.policy.write_ids {
            self.store.profile().check_reads("write ids")
        } else {
            Ok(())
        }
    }

    fn attempts(&self, kind: OperationKind) -> Attempts<'_> {
        // A generator for each operation, so that the lock is not held during the delays.
        let rng = self
            .rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fork();
        let mut attempts = Attempts::new(&self.policy, kind.name(), rng);
        attempts.rate = self.rate.as_ref();
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
    forward_to_store!(self => self.store; context);

    /// With write ids, an entity may have one property less, and a group fewer bytes.
    fn profile(&self) -> &ServiceProfile {
        self.caller_profile
            .as_ref()
            .unwrap_or_else(|| self.store.profile())
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
        self.read(OperationKind::ListTables, || {
            self.store.list_tables(prefix, from)
        })
        .await
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        let found = self
            .read(OperationKind::Get, || self.store.get(table, key, select))
            .await?;
        Ok(if self.policy.write_ids {
            found.map(strip)
        } else {
            found
        })
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let found = self
            .read(OperationKind::Query, || {
                self.store.query(table, query, from)
            })
            .await?;
        Ok(if self.policy.write_ids {
            found.map(strip)
        } else {
            found
        })
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

/// The longest JSON that a write id adds to one operation of a group.
const MAX_WRITE_ID_JSON: &str =
    r#""_WriteId@odata.type":"Edm.Guid","_WriteId":"00000000-0000-0000-0000-000000000000","#;

/// Returns the limits that remain for the caller.
fn caller_profile(mut profile: ServiceProfile) -> ServiceProfile {
    // The caller may fill entities and groups up to the limits of this profile, and the ids must still fit.
    profile.entity_bytes -= engine::property_size(WRITE_ID_PROPERTY, ValueRef::Guid(Uuid::nil()));
    profile.group_bytes -= profile.group_operations * MAX_WRITE_ID_JSON.len();
    profile.custom_properties -= 1;
    profile
}

/// Sets an id on every entity that the job writes.
///
/// # Errors
/// Fails if the remaining limits leave no space for it in an entity.
fn attach(job: &mut Job, profile: &ServiceProfile) -> Result<Uuid> {
    let id = Uuid::new_v4();
    let grouped = matches!(job, Job::Transact(_));
    for (index, operation) in job.operations_mut().iter_mut().enumerate() {
        let checked = attach_one(operation, id, profile);
        checked.map_err(|e| {
            if grouped {
                Error::in_transaction(index, e)
            } else {
                e
            }
        })?;
    }
    Ok(id)
}

fn attach_one(operation: &mut Operation, id: Uuid, profile: &ServiceProfile) -> Result<()> {
    if let Some(entity) = operation.entity_mut() {
        // An entity that was read past this adapter has the id of an earlier write. It must neither count for the
        // caller's limits nor stay.
        entity.properties_mut().remove(WRITE_ID_PROPERTY);
    }
    engine::check_operation(profile, operation)?;
    if let Some(entity) = operation.entity_mut() {
        entity.properties_mut().set(WRITE_ID_PROPERTY, id);
    }
    Ok(())
}

fn has_write_id(entity: Option<&Entity>, id: Uuid) -> bool {
    entity.and_then(|e| e.get(WRITE_ID_PROPERTY)) == Some(ValueRef::Guid(id))
}

fn strip(mut entity: Entity) -> Entity {
    entity.properties_mut().remove(WRITE_ID_PROPERTY);
    entity
}

/// The action after a failed attempt of a write that may have been applied.
enum Next {
    Answer(Vec<Written>),
    Repeat,
    GiveUp,
}

impl<S: TableStore> Retrying<S> {
    /// Repeats a read until it succeeds. This is safe because a read changes nothing.
    async fn read<T, F>(&self, kind: OperationKind, request: impl Fn() -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let mut attempts = self.attempts(kind);
        loop {
            match attempts.run(kind.is_read(), request()).await {
                Err(failure)
                    if failure.is_transient() && attempts.wait_for_attempt(&failure).await => {}
                answer => return answer,
            }
        }
    }

    /// Sends a write until its outcome is certain or no further attempt is allowed.
    async fn change(&self, table: &TableName, mut job: Job) -> Result<Vec<Written>> {
        let id = self
            .caller_profile
            .as_ref()
            .map(|profile| attach(&mut job, profile))
            .transpose()?;
        let mut attempts = self.attempts(job.kind());
        // The first ambiguous error. From then on an earlier attempt may have been applied.
        let mut first_ambiguous: Option<Error> = None;
        loop {
            let failure = match attempts.run(false, job.send(&self.store, table)).await {
                // An error after the write was applied, for example an answer without an ETag, must not lead to a
                // second effect.
                Err(failure) if failure.outcome() != Outcome::Applied => failure,
                answer => return answer,
            };
            if first_ambiguous.is_none() && failure.is_ambiguous() {
                first_ambiguous = Some(failure.clone());
            }
            let Some(first) = &first_ambiguous else {
                if failure.is_transient() && attempts.wait_for_attempt(&failure).await {
                    continue;
                }
                return Err(failure);
            };
            match self.resolve(&mut attempts, table, &job, id, &failure).await {
                Next::Answer(written) => return Ok(written),
                Next::Repeat => {}
                Next::GiveUp => return Err(in_doubt(first.clone(), failure)),
            }
        }
    }

    /// Decides how to continue with a write of which some attempt may have been applied, or may still take
    /// effect.
    async fn resolve(
        &self,
        attempts: &mut Attempts<'_>,
        table: &TableName,
        job: &Job,
        id: Option<Uuid>,
        failure: &Error,
    ) -> Next {
        match id {
            // Without an id, an entity at this key could be ours or another writer's. No entity could mean that ours was
            // deleted again.
            None if job.repeat() == Repeat::Insert => return Next::GiveUp,
            None => {}
            Some(id) => match self.read_written(attempts, table, job, id).await {
                Ok(Conclusion::Applied(written)) => return Next::Answer(written),
                Ok(Conclusion::NotSeen) => {}
                Ok(Conclusion::Undecided) | Err(_) => return Next::GiveUp,
            },
        }
        // Any other failure is an answer to this attempt, such as a failed condition. It may be the effect of an
        // earlier attempt, so it is not the answer to the caller, and repeating it would not change it.
        let may_pass = failure.is_ambiguous() || failure.is_transient();
        if may_pass && attempts.wait_for_attempt(failure).await {
            Next::Repeat
        } else {
            Next::GiveUp
        }
    }

    /// Reads the entities that the write would have written.
    async fn read_written(
        &self,
        attempts: &mut Attempts<'_>,
        table: &TableName,
        job: &Job,
        id: Uuid,
    ) -> Result<Conclusion> {
        let mut found = Vec::with_capacity(job.operations().len());
        for operation in job.operations() {
            found.push(match operation.entity() {
                Some(entity) => self.read_write_id(attempts, table, entity.key()).await?,
                None => None,
            });
        }
        Ok(conclude(job, &found, id, self.policy.absent_insert))
    }

    /// Reads the write id of a stored entity. A failed read counts as an attempt.
    async fn read_write_id(
        &self,
        attempts: &mut Attempts<'_>,
        table: &TableName,
        key: &Key,
    ) -> Result<Option<Entity>> {
        let select = Select::new([WRITE_ID_PROPERTY]);
        loop {
            match attempts
                .run(true, self.store.get(table, key, Some(&select)))
                .await
            {
                Err(failure)
                    if failure.is_transient() && attempts.wait_for_attempt(&failure).await => {}
                answer => return answer,
            }
        }
    }
}

/// Returns the error of the first ambiguous attempt. A later error, even a conflict, proves nothing about
/// that attempt: our own effect may have caused the conflict.
pub(in crate::adapter) fn in_doubt(first: Error, later: Error) -> Error {
    if later.is_ambiguous() {
        first
    } else {
        first.with_source(later)
    }
}

/// The attempts of one operation: their number, duration and delays.
#[derive(Debug)]
pub(in crate::adapter) struct Attempts<'a> {
    policy: &'a RetryPolicy,
    operation: &'static str,
    deadline: Option<Instant>,
    made: u32,
    /// Whether a request was sent.
    has_sent: bool,
    rng: fastrand::Rng,
    /// The operation has waited for the turn of its first request. Each further request takes a turn.
    rate: Option<&'a RateLimit>,
    /// Counts the repetitions, with the system that they are sent to.
    #[cfg(feature = "opentelemetry")]
    telemetry: Option<(&'a crate::adapter::Telemetry, &'static str)>,
}

impl<'a> Attempts<'a> {
    pub(in crate::adapter) fn new(
        policy: &'a RetryPolicy,
        operation: &'static str,
        rng: fastrand::Rng,
    ) -> Self {
        let deadline = policy
            .deadline
            .and_then(|time| Instant::now().checked_add(time));
        Self {
            policy,
            operation,
            deadline,
            made: 1,
            has_sent: false,
            rng,
            rate: None,
            #[cfg(feature = "opentelemetry")]
            telemetry: None,
        }
    }

    /// Counts the repetitions of requests to `system`.
    #[cfg(feature = "opentelemetry")]
    pub(in crate::adapter) fn counted(
        mut self,
        telemetry: &'a crate::adapter::Telemetry,
        system: &'static str,
    ) -> Self {
        self.telemetry = Some((telemetry, system));
        self
    }

    /// Runs a request within the remaining time and the time limit of one attempt.
    ///
    /// A write that is cut off may have been applied; a read has changed nothing.
    pub(in crate::adapter) async fn run<T>(
        &mut self,
        is_read: bool,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        if let Some(rate) = self.rate.filter(|_| self.has_sent) {
            rate.take_turn();
        }
        self.has_sent = true;
        // `checked_add`: a caller may write `Duration::MAX` for "no limit".
        let own = self
            .policy
            .attempt_timeout
            .and_then(|time| start.checked_add(time));
        let Some(end) = own.into_iter().chain(self.deadline).min() else {
            return request.await;
        };
        timeout_at(end, request)
            .await
            .unwrap_or_else(|_| Err(cut_off(is_read, end - start)))
    }

    /// Whether only the deadline bounds the attempts: the service refuses everything for at least 40 seconds after it has deleted the table
    /// (<https://learn.microsoft.com/rest/api/storageservices/delete-table>), and then accepts the request. A policy that never repeats, or
    /// without a deadline, keeps its number of attempts.
    fn waits_for_deletion(&self, failure: &Error) -> bool {
        let is_being_deleted = matches!(failure.root().kind(), ErrorKind::TableBeingDeleted { .. });
        is_being_deleted && self.policy.max_attempts > 1 && self.deadline.is_some()
    }

    /// Waits until the next attempt is due. Returns `false` if no attempt or no time is left, or if the service asks for a longer delay than
    /// the policy waits for.
    pub(in crate::adapter) async fn wait_for_attempt(&mut self, failure: &Error) -> bool {
        if self.made >= self.policy.max_attempts && !self.waits_for_deletion(failure) {
            return false;
        }
        let retry_after = retry_after(failure);
        if retry_after > self.policy.max_retry_after {
            return false;
        }
        // The service knows its own load: its `Retry-After` is a lower bound of the delay, also where the policy's
        // longest delay is shorter.
        let delay = self
            .policy
            .delay(self.made, self.rng.f64())
            .max(retry_after);
        let late = |deadline: Instant| {
            Instant::now()
                .checked_add(delay)
                .is_none_or(|due| due >= deadline)
        };
        if self.deadline.is_some_and(late) {
            return false;
        }
        tracing::debug!(
            operation = self.operation,
            attempt = self.made,
            error = error_name(failure),
            outcome = ?failure.outcome(),
            ?delay,
            "trying again"
        );
        self.made += 1;
        tracing::Span::current().record("table.attempts", self.made);
        #[cfg(feature = "opentelemetry")]
        if let Some((telemetry, system)) = self.telemetry {
            telemetry.retried(system, self.operation);
        }
        sleep(delay).await;
        true
    }
}

fn cut_off(is_read: bool, after: Duration) -> Error {
    let outcome = if is_read {
        Outcome::NotApplied
    } else {
        Outcome::Ambiguous
    };
    Error::new(ErrorKind::Timeout { after }).with_outcome(outcome)
}

fn retry_after(failure: &Error) -> Duration {
    match failure.root().kind() {
        ErrorKind::Throttled { retry_after } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    }
}

/// A write that is kept so that it can be sent again.
#[derive(Clone, Debug)]
enum Job {
    CreateTable,
    DeleteTable,
    Write(Operation),
    Transact(GroupTransaction),
}

/// The effect of repeating a request that may have been applied, or may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeat {
    /// The request contains a condition on an ETag. ETags are never reused, and a group is atomic, so at most
    /// one attempt takes effect, whatever else the group contains.
    AtMostOnce,
    /// An insert takes effect twice if its entity is deleted in between.
    Insert,
    /// The last writer wins, as the caller requested: the repetition has the same effect later.
    LastWins,
}

impl Job {
    const fn kind(&self) -> OperationKind {
        match self {
            Self::CreateTable => OperationKind::CreateTable,
            Self::DeleteTable => OperationKind::DeleteTable,
            Self::Write(operation) => operation.kind(),
            Self::Transact(_) => OperationKind::Transact,
        }
    }

    fn operations(&self) -> &[Operation] {
        match self {
            Self::CreateTable | Self::DeleteTable => &[],
            Self::Write(operation) => std::slice::from_ref(operation),
            Self::Transact(group) => group.operations(),
        }
    }

    fn operations_mut(&mut self) -> &mut [Operation] {
        match self {
            Self::CreateTable | Self::DeleteTable => &mut [],
            Self::Write(operation) => std::slice::from_mut(operation),
            Self::Transact(group) => group.operations_mut(),
        }
    }

    fn repeat(&self) -> Repeat {
        // The first rule that fits decides: one ETag makes a whole group safe, whatever inserts it has.
        let any = |test: fn(&Operation) -> bool| self.operations().iter().any(test);
        if any(|operation| matches!(operation.if_match(), Some(IfMatch::Exactly(_)))) {
            Repeat::AtMostOnce
        } else if any(|operation| matches!(operation, Operation::Insert(_))) {
            Repeat::Insert
        } else {
            Repeat::LastWins
        }
    }

    /// Sends a copy. Returns a result per operation.
    async fn send(&self, store: &impl TableStore, table: &TableName) -> Result<Vec<Written>> {
        match self {
            Self::CreateTable => store.create_table(table).await.map(|()| Vec::new()),
            Self::DeleteTable => store.delete_table(table).await.map(|()| Vec::new()),
            Self::Write(operation) => store.write(table, operation.clone()).await.map(|w| vec![w]),
            Self::Transact(group) => store.transact(table, group.clone()).await,
        }
    }
}

/// The conclusion from stored entities about a write whose answer was lost.
#[derive(Clone, Debug, PartialEq)]
enum Conclusion {
    /// Applied: an entity has the write's id.
    Applied(Vec<Written>),
    /// Not found, and repeating the write is allowed.
    NotSeen,
    /// The write may have been applied, and its entity overwritten or deleted since.
    Undecided,
}

/// Evaluates the entities found under a write's keys. For deletes nothing is read.
///
/// Only the id is proof, because two writers can store equal content.
fn conclude(job: &Job, found: &[Option<Entity>], id: Uuid, absent: AbsentInsert) -> Conclusion {
    let each = || job.operations().iter().zip(found);
    // One id is enough, because a group is atomic: if one of its writes took effect, all did, also its deletes.
    if each().any(|(_, entity)| has_write_id(entity.as_ref(), id)) {
        return Conclusion::Applied(
            each()
                .map(|(op, entity)| answer(op, entity.as_ref(), id))
                .collect(),
        );
    }
    // Before `NotSeen`: an entity that has changed since may have been changed by our own write and then by another
    // one.
    if each().any(|(operation, entity)| cannot_succeed(operation, entity.as_ref())) {
        return Conclusion::Undecided;
    }
    match (job.repeat(), absent) {
        (Repeat::Insert, AbsentInsert::Report) => Conclusion::Undecided,
        _ => Conclusion::NotSeen,
    }
}

/// Returns the lost answer. If another writer has written since, the ETag of our write is unknown.
fn answer(operation: &Operation, entity: Option<&Entity>, id: Uuid) -> Written {
    match (operation, entity) {
        (Operation::Delete(..), _) => Written::deleted(),
        (_, Some(entity)) if has_write_id(Some(entity), id) => Written {
            etag: entity.etag().cloned(),
            ..Written::default()
        },
        _ => Written::default(),
    }
}

/// Whether a repetition would fail with a conflict that our own earlier effect may have caused.
fn cannot_succeed(operation: &Operation, entity: Option<&Entity>) -> bool {
    match operation {
        Operation::Insert(_) => entity.is_some(),
        Operation::Replace(_, IfMatch::Any) | Operation::Merge(_, IfMatch::Any) => entity.is_none(),
        Operation::Replace(_, IfMatch::Exactly(etag))
        | Operation::Merge(_, IfMatch::Exactly(etag)) => {
            entity.and_then(Entity::etag) != Some(etag)
        }
        Operation::InsertOrReplace(_) | Operation::InsertOrMerge(_) | Operation::Delete(..) => {
            false
        }
    }
}
