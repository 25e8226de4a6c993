//! Single schedules of two processes: one pauses at a request while the other continues. There is no fault, no crash
//! and no expired lease. Each schedule has shown a bug once, and shows it again if its rule is not enforced.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{
    GroupTransaction, Operation, OperationKind, Result, StoreContext, TableStore, TableStoreExt,
    Written,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::Invariant;
use super::omission::omit;
use crate::patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Overflow, Payload, Placement, ScrubMode,
    Shape, Trust,
};
use crate::patterns::journal::Entries;

type Predicate = Box<dyn Fn(&Operation) -> bool + Send + Sync>;

/// A store that holds the first write with a selected operation, or its answer, until the test releases it.
struct HoldingStore {
    context: StoreContext,
    inner: MemoryStore,
    hold: Mutex<Option<Predicate>>,
    hold_answer: Mutex<Option<Predicate>>,
    held: Notify,
    go: Notify,
}

impl std::fmt::Debug for HoldingStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl HoldingStore {
    fn new(inner: &MemoryStore) -> Arc<Self> {
        let (held, go) = (Notify::new(), Notify::new());
        let (hold, hold_answer) = (Mutex::default(), Mutex::default());
        Arc::new(Self {
            context: StoreContext::new(inner.profile()),
            inner: inner.clone(),
            hold,
            hold_answer,
            held,
            go,
        })
    }

    fn hold(&self, first: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(first));
    }

    fn hold_answer(&self, first: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        *self
            .hold_answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Box::new(first));
    }

    async fn hold_or_pass(&self, hold: &Mutex<Option<Predicate>>, operations: &[Operation]) {
        let hit = {
            let mut hold = hold.lock().unwrap_or_else(PoisonError::into_inner);
            hold.take_if(|first| operations.iter().any(first)).is_some()
        };
        if hit {
            self.held.notify_one();
            self.go.notified().await;
        }
    }
}

#[async_trait]
impl TableStore for HoldingStore {
    table_core::forward_to_store!(self => self.inner;
        profile, create_table, delete_table, list_tables, get, query);

    fn context(&self) -> &StoreContext {
        &self.context
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        let operations = [operation];
        self.hold_or_pass(&self.hold, &operations).await;
        let written = self.inner.write(table, operations[0].clone()).await;
        self.hold_or_pass(&self.hold_answer, &operations).await;
        written
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.hold_or_pass(&self.hold, group.operations()).await;
        self.inner.transact(table, group).await
    }
}

/// Two processes over one table. The requests of the slow one are held.
struct TwoProcesses {
    store: MemoryStore,
    holding_store: Arc<HoldingStore>,
    slow: IndexedEntities,
    quick: IndexedEntities,
}

fn table() -> TableName {
    TableName::new("Users").unwrap()
}

impl TwoProcesses {
    async fn new(
        indexes: impl Fn() -> Result<Vec<Index>>,
        omitted: Option<Invariant>,
    ) -> Result<Self> {
        omit(None);
        let store = MemoryStore::new();
        store.create_table(&table()).await?;
        let holding_store = HoldingStore::new(&store);
        let blobs: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        // The order of a process's requests is a part of the schedule: none of them overlap.
        let options = || IndexOptions {
            blobs: Some(blobs.clone()),
            concurrency: 1,
            ..IndexOptions::default()
                .with_clearing(crate::patterns::journal::Clearing::BeforeAnswer)
        };
        let slow =
            IndexedEntities::open(holding_store.clone(), table(), indexes()?, options()).await?;
        let quick =
            IndexedEntities::open(Arc::new(store.clone()), table(), indexes()?, options()).await?;
        omit(omitted);
        Ok(Self {
            store,
            holding_store,
            slow,
            quick,
        })
    }

    /// Starts work of the slow process and waits until a request is held.
    async fn begin<T: Send + 'static>(
        &self,
        hold: impl Fn(&Operation) -> bool + Send + Sync + 'static,
        work: impl FnOnce(IndexedEntities) -> BoxFuture<'static, T>,
    ) -> JoinHandle<T> {
        self.holding_store.hold(hold);
        let slow = tokio::spawn(work(self.slow.clone()));
        self.holding_store.held.notified().await;
        slow
    }

    /// Releases the slow process and waits until the next selected request is held.
    async fn go_on(&self, hold: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        self.holding_store.hold(hold);
        self.holding_store.go.notify_one();
        self.holding_store.held.notified().await;
    }

    /// Releases the slow process and waits until the answer of the next selected request is held.
    async fn go_on_to_answer(&self, hold: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        self.holding_store.hold_answer(hold);
        self.holding_store.go.notify_one();
        self.holding_store.held.notified().await;
    }

    async fn quick_delete(&self, key: &Key) -> Result<()> {
        let old = self.quick.get_existing(key).await?;
        assert_eq!(self.quick.delete(&old).await?.entries, Entries::Applied);
        Ok(())
    }

    /// Changes a property that is in no key of an index.
    async fn quick_touch(&self, key: &Key) -> Result<()> {
        let touch = |old: Option<&Entity>| Ok(old.map(|old| old.clone().with("Age", 42)));
        assert_eq!(
            self.quick.modify(key, touch).await?.entries,
            Entries::Applied
        );
        Ok(())
    }

    /// The number of entities with an address.
    async fn holders(&self, email: &str) -> Result<usize> {
        let rows = self.store.query_all(&table(), &Query::new()).await?;
        let is = |row: &&Entity| {
            row.key().row().starts_with("e_") && row.get("Email") == Some(ValueRef::String(email))
        };
        Ok(rows.iter().filter(is).count())
    }

    /// The scrub report of an index, if the scrub finds an error.
    async fn scrubbed(&self, index: &str) -> Result<Option<String>> {
        let report = self.quick.scrub(index, ScrubMode::Report).await?;
        let wrong = report.dangling + report.missing + report.taken_keys > 0;
        Ok(wrong.then(|| format!("the index '{index}': {report:?}")))
    }
}

fn key(id: u32) -> Key {
    Key::new("d", format!("e_{id}")).unwrap()
}

fn user(id: u32) -> Entity {
    Entity::from(key(id)).with("Age", 40)
}

const EMAIL: &str = "ken@x";

fn with_email(id: u32) -> Entity {
    user(id).with("Email", EMAIL)
}

fn by_email() -> Result<Vec<Index>> {
    let index = Index::keyed("email", Placement::OtherPartition, "u_{Email}", "email")?;
    Ok(vec![
        index.unique_within_table().with_payload(Payload::Full),
    ])
}

fn inserts(id: u32) -> impl Fn(&Operation) -> bool + Send + Sync + 'static {
    move |operation| matches!(operation, Operation::Insert(_)) && *operation.key() == key(id)
}

fn on(
    kind: OperationKind,
    partition: &'static str,
) -> impl Fn(&Operation) -> bool + Send + Sync + 'static {
    move |operation| operation.kind() == kind && operation.key().partition() == partition
}

/// The violation, if there is one.
type Wrong = Result<Option<String>>;

/// The actions of the quick process while the commit of the slow one is held: the address passes to another entity.
async fn pass_address_to_another_entity(processes: &TwoProcesses) -> Result<()> {
    processes.quick_touch(&key(1)).await?;
    processes.quick_delete(&key(1)).await?;
    assert_eq!(
        processes.quick.insert(with_email(2)).await?.entries,
        Entries::Applied
    );
    processes.holding_store.go.notify_one();
    Ok(())
}

async fn find_violation(processes: &TwoProcesses) -> Wrong {
    match processes.holders(EMAIL).await? {
        holders @ 2.. => Ok(Some(format!("{holders} entities hold {EMAIL}"))),
        _ => processes.scrubbed("email").await,
    }
}

/// The slow process inserts an entity that exists. The quick one changes it, deletes it, and gives its address to
/// another entity.
async fn insert_of_an_existing_entity(omitted: Option<Invariant>) -> Wrong {
    let processes = TwoProcesses::new(by_email, omitted).await?;
    processes.quick.insert(with_email(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.insert(with_email(1)).await })
    };
    let slow = processes.begin(inserts(1), work).await;
    pass_address_to_another_entity(&processes).await?;
    let answer = slow.await.unwrap();
    if omitted.is_none() {
        assert!(answer.unwrap_err().is_unique_violation());
    }
    find_violation(&processes).await
}

/// The same with an upsert that has found no entity.
async fn upsert_after_a_read_without_entity(omitted: Option<Invariant>) -> Wrong {
    let processes = TwoProcesses::new(by_email, omitted).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.upsert(with_email(1)).await })
    };
    let slow = processes
        .begin(on(OperationKind::Insert, "u_ken@x"), work)
        .await;
    processes.quick.insert(with_email(1)).await?;
    processes.go_on(inserts(1)).await;
    pass_address_to_another_entity(&processes).await?;
    let answer = slow.await.unwrap();
    if omitted.is_none() {
        assert!(answer.unwrap_err().is_unique_violation());
    }
    find_violation(&processes).await
}

/// The slow process inserts an entity that exists, and its release of the address is held. The quick one deletes the
/// entity.
async fn delete_during_a_release(omitted: Option<Invariant>) -> Wrong {
    let processes = TwoProcesses::new(by_email, omitted).await?;
    processes.quick.insert(with_email(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.insert(with_email(1)).await })
    };
    let settles = |operation: &Operation| {
        let pending = operation.entity().and_then(|row| row.get("OwnerPending"));
        operation.kind() == OperationKind::Replace && pending == Some(ValueRef::Boolean(false))
    };
    let slow = processes.begin(settles, work).await;
    processes.quick_delete(&key(1)).await?;
    processes.holding_store.go.notify_one();
    assert!(slow.await.unwrap().unwrap_err().is_already_exists());
    processes
        .quick
        .journal()
        .sweep(&[table()], Duration::ZERO)
        .await?;
    processes.scrubbed("email").await
}

/// The slow process deletes an entity. The quick one inserts it again and deletes it. The index states expire, and
/// the slow process continues its round with the versions that it has read.
async fn delete_of_an_entity_that_returns(omitted: Option<Invariant>) -> Wrong {
    let indexes = || {
        let city = Index::keyed(
            "city",
            Placement::OtherPartition,
            "c_{City}",
            "{PartitionKey}_{RowKey}",
        )?;
        let email = Index::keyed("email", Placement::OtherPartition, "u_{Email}", "email")?;
        let phone = Index::keyed("phone", Placement::OtherPartition, "v_{Phone}", "phone")?;
        let city = city.with_payload(Payload::Full);
        Ok(vec![
            city,
            email.unique_within_table(),
            phone.unique_within_table(),
        ])
    };
    let person = || with_email(1).with("City", "rome").with("Phone", "7");
    let processes = TwoProcesses::new(indexes, omitted).await?;
    processes.quick.insert(person()).await?;
    let old = processes.slow.get_existing(&key(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.delete(&old).await })
    };
    let slow = processes
        .begin(on(OperationKind::Delete, "u_ken@x"), work)
        .await;
    processes.quick.insert(person()).await?;
    processes.go_on(on(OperationKind::Replace, "u_ken@x")).await;
    // The unique row is settled for the entity that exists again; the round continues with that.
    sleep(Duration::from_secs(35)).await;
    processes
        .go_on_to_answer(on(OperationKind::Replace, "u_ken@x"))
        .await;
    processes.quick_delete(&key(1)).await?;
    processes.holding_store.go.notify_one();
    slow.await.unwrap()?;
    processes
        .quick
        .journal()
        .sweep(&[table()], Duration::ZERO)
        .await?;
    processes.scrubbed("city").await
}

/// The slow process inserts an entity whose reference is in the list already. The quick one deletes the entity.
async fn insert_into_a_list_that_has_the_reference(
    shape: Shape,
    omitted: Option<Invariant>,
) -> Wrong {
    let indexes = || {
        let index = Index::keyed("team", Placement::SamePartition, "", "team_{Team}")?;
        Ok(vec![index.with_shape(shape.clone())])
    };
    let processes = TwoProcesses::new(indexes, omitted).await?;
    let member = |id| user(id).with("Team", "red");
    for id in 1..=120 {
        processes.quick.insert(member(id)).await?;
    }
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        let again = member(1);
        Box::pin(async move { slow.insert(again).await })
    };
    let slow = processes.begin(inserts(1), work).await;
    processes.quick_delete(&key(1)).await?;
    processes.holding_store.go.notify_one();
    slow.await.unwrap()?;
    processes.scrubbed("team").await
}

/// The slow process inserts an entity whose copy exists already. The quick one deletes the entity.
async fn insert_with_an_existing_copy(omitted: Option<Invariant>) -> Wrong {
    let indexes = || {
        let boss = Index::new("boss", Placement::SamePartition, "1", |e: &Entity| match e
            .key()
            .row()
        {
            "e_1" => Key::new("d", "z_boss").map(Some),
            _ => Ok(None),
        });
        let fields = vec!["Age".into()].into();
        Ok(vec![boss.with_shape(Shape::Copy {
            prefix: "Of".into(),
            fields,
        })])
    };
    let processes = TwoProcesses::new(indexes, omitted).await?;
    processes
        .quick
        .insert(Entity::new("d", "z_boss")?.with("Name", "boss"))
        .await?;
    processes.quick.insert(user(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.insert(user(1)).await })
    };
    let slow = processes.begin(inserts(1), work).await;
    processes.quick_delete(&key(1)).await?;
    processes.holding_store.go.notify_one();
    slow.await.unwrap()?;
    let boss = processes
        .quick
        .get_existing(&Key::new("d", "z_boss")?)
        .await?;
    Ok(boss
        .entity()
        .get("OfAge")
        .is_none()
        .then(|| "the copy is missing".to_owned()))
}

fn city() -> Result<Index> {
    Index::keyed(
        "city",
        Placement::OtherPartition,
        "c_{City}",
        "{PartitionKey}_{RowKey}",
    )
}

/// Two processes drop an index, the second one while the first one waits for the readers of the state before. Another program inserts, and a
/// program that still knows the index as readable looks up.
async fn two_drops(omitted: Option<Invariant>) -> Wrong {
    let processes = TwoProcesses::new(|| Ok(vec![city()?]), omitted).await?;
    let reader = &processes.slow;
    reader.insert(user(1).with("City", "rome")).await?;
    let open_for_upkeep = || {
        IndexedEntities::open_for_upkeep(
            HoldingStore::new(&processes.store),
            table(),
            IndexOptions::default(),
        )
    };
    let (first, second) = (open_for_upkeep().await?, open_for_upkeep().await?);
    reader.refresh().await?;
    let _first = tokio::spawn(async move { first.drop_index("city").await });
    sleep(Duration::from_secs(1)).await;
    let _second = tokio::spawn(async move { second.drop_index("city").await });
    sleep(Duration::from_secs(1)).await;
    let store = HoldingStore::new(&processes.store);
    let other = IndexedEntities::open(store, table(), Vec::new(), IndexOptions::default()).await?;
    other.insert(user(2).with("City", "rome")).await?;
    let found = reader
        .all("city", &IndexQuery::partition("c_rome"), Trust::Entity)
        .await?
        .len();
    Ok((found < 2).then(|| format!("a lookup by a readable index finds {found} of 2 entities")))
}

/// Two programs build two generations of an index whose entries could have the same rows. The first declares its generation after the
/// second has built its own.
async fn two_generations(omitted: Option<Invariant>) -> Wrong {
    let processes = TwoProcesses::new(|| Ok(Vec::new()), omitted).await?;
    processes.quick.insert(user(1).with("City", "rome")).await?;
    let open = async |index: Index| {
        let store = HoldingStore::new(&processes.store);
        let opened =
            IndexedEntities::open(store.clone(), table(), vec![index], IndexOptions::local())
                .await?;
        Ok::<_, table_core::store::Error>((store, opened))
    };
    let ((held, slow), (_, quick)) = (
        open(city()?).await?,
        open(city()?.with_payload(Payload::Full)).await?,
    );
    held.hold(|operation| operation.key().row().starts_with("index~"));
    let late = {
        let slow = slow.clone();
        tokio::spawn(async move { slow.build("city")?.run().await })
    };
    held.held.notified().await;
    quick.build("city")?.run().await?;
    held.go.notify_one();
    let refused = late.await.unwrap().is_err();
    if omitted.is_none() {
        assert!(refused);
    }
    for index in quick.declared().await? {
        let report = quick.scrub(&index.id(), ScrubMode::Report).await?;
        if report.missing + report.taken_keys > 0 {
            return Ok(Some(format!("the index '{}': {report:?}", index.id())));
        }
    }
    Ok(None)
}

/// A list in chunks of few references.
fn chunked() -> Shape {
    Shape::List {
        bytes: 256,
        overflow: Overflow::Entities,
    }
}

async fn play(schedule: &str, omitted: Option<Invariant>) -> Wrong {
    match schedule {
        "insert of an existing entity" => insert_of_an_existing_entity(omitted).await,
        "upsert_after_a_read_without_entity" => upsert_after_a_read_without_entity(omitted).await,
        "delete during a release" => delete_during_a_release(omitted).await,
        "delete of an entity that returns" => delete_of_an_entity_that_returns(omitted).await,
        "insert into a list that has the reference" => {
            insert_into_a_list_that_has_the_reference(Shape::LIST, omitted).await
        }
        "insert into a blob that has the reference" => {
            insert_into_a_list_that_has_the_reference(Shape::Blob, omitted).await
        }
        "insert into a chunk that has the reference" => {
            insert_into_a_list_that_has_the_reference(chunked(), omitted).await
        }
        "two drops" => two_drops(omitted).await,
        "two generations" => two_generations(omitted).await,
        _ => insert_with_an_existing_copy(omitted).await,
    }
}

/// The schedules, and the rule that each one needs.
const SCHEDULES: [(&str, Invariant); 10] = [
    (
        "insert of an existing entity",
        Invariant::AbortBeforeSettling,
    ),
    (
        "upsert_after_a_read_without_entity",
        Invariant::AbortBeforeSettling,
    ),
    ("delete during a release", Invariant::AbortBeforeSettling),
    ("delete of an entity that returns", Invariant::OneVersion),
    (
        "insert into a list that has the reference",
        Invariant::ConditionOnUnchanged,
    ),
    (
        "insert into a blob that has the reference",
        Invariant::ConditionOnUnchanged,
    ),
    (
        "insert into a chunk that has the reference",
        Invariant::ConditionOnUnchanged,
    ),
    ("copied already", Invariant::ConditionOnUnchanged),
    ("two drops", Invariant::WaitForFound),
    ("two generations", Invariant::DeclareInVersion),
];

#[tokio::test(start_paused = true)]
async fn schedules_of_fixed_bugs_have_no_violation() {
    for (schedule, _) in SCHEDULES {
        let wrong = play(schedule, None).await.unwrap();
        assert_eq!(wrong, None, "{schedule}");
    }
}

#[tokio::test(start_paused = true)]
async fn every_rule_of_these_schedules_is_needed() {
    for (schedule, invariant) in SCHEDULES {
        let wrong = play(schedule, Some(invariant)).await.unwrap();
        let wrong = wrong
            .unwrap_or_else(|| panic!("{schedule}: nothing notices that {invariant:?} is broken"));
        eprintln!("{schedule}: without {invariant:?}, {wrong}");
    }
}
