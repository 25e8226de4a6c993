//! Single schedules in which one process stands still at one request while another goes on: no fault, no crash, no
//! lease that ends. Each ended wrong once, and does again where its rule is broken.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::{Continuation, Page, Query, Select};
use table_core::store::{
    GroupTransaction, Operation, OperationKind, Result, ServiceProfile, TableStore, TableStoreExt, Written,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::index::{Index, IndexOptions, IndexedEntities, Overflow, Payload, Placement, ScrubMode, Shape};
use crate::journal::{Entries, Rule};

type Predicate = Box<dyn Fn(&Operation) -> bool + Send + Sync>;

/// Passes requests on; holds the first write with an operation that is asked for, until it is let go.
struct Gate {
    inner: MemoryStore,
    hold: Mutex<Option<Predicate>>,
    held: Notify,
    go: Notify,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    fn new(inner: &MemoryStore) -> Arc<Self> {
        let (held, go) = (Notify::new(), Notify::new());
        Arc::new(Self { inner: inner.clone(), hold: Mutex::default(), held, go })
    }

    fn hold(&self, first: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        *self.hold.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(first));
    }

    async fn pass(&self, operations: &[Operation]) {
        let hit = {
            let mut hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner);
            hold.take_if(|first| operations.iter().any(first)).is_some()
        };
        if hit {
            self.held.notify_one();
            self.go.notified().await;
        }
    }
}

#[async_trait]
impl TableStore for Gate {
    fn profile(&self) -> &ServiceProfile {
        self.inner.profile()
    }

    async fn create_table(&self, table: &TableName) -> Result<()> {
        self.inner.create_table(table).await
    }

    async fn delete_table(&self, table: &TableName) -> Result<()> {
        self.inner.delete_table(table).await
    }

    async fn list_tables(
        &self,
        prefix: Option<&str>,
        from: Option<&Continuation>,
    ) -> Result<Page<TableName>> {
        self.inner.list_tables(prefix, from).await
    }

    async fn get(&self, table: &TableName, key: &Key, select: Option<&Select>) -> Result<Option<Entity>> {
        self.inner.get(table, key, select).await
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<Page<Entity>> {
        self.inner.query(table, query, from).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.pass(std::slice::from_ref(&operation)).await;
        self.inner.write(table, operation).await
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.pass(group.operations()).await;
        self.inner.transact(table, group).await
    }
}

/// Two processes over one table; the first is held up.
struct Two {
    store: MemoryStore,
    gate: Arc<Gate>,
    slow: IndexedEntities,
    quick: IndexedEntities,
}

fn table() -> TableName {
    TableName::new("Users").unwrap()
}

impl Two {
    async fn new(indexes: impl Fn() -> Result<Vec<Index>>, broken: Option<Rule>) -> Result<Self> {
        let store = MemoryStore::new();
        store.create_table(&table()).await?;
        let gate = Gate::new(&store);
        let blobs: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let options = || IndexOptions { blobs: Some(blobs.clone()), ..IndexOptions::default() };
        let slow = IndexedEntities::open(gate.clone(), table(), indexes()?, options()).await?;
        let quick = IndexedEntities::open(Arc::new(store.clone()), table(), indexes()?, options()).await?;
        Ok(Self { store, gate, slow: slow.breaking(broken), quick: quick.breaking(broken) })
    }

    /// Lets the slow process do something, up to the request that is held.
    async fn begin<T: Send + 'static>(
        &self,
        hold: impl Fn(&Operation) -> bool + Send + Sync + 'static,
        work: impl FnOnce(IndexedEntities) -> BoxFuture<'static, T>,
    ) -> JoinHandle<T> {
        self.gate.hold(hold);
        let slow = tokio::spawn(work(self.slow.clone()));
        self.gate.held.notified().await;
        slow
    }

    /// Lets the slow process go on, up to the next request that is held.
    async fn go_on(&self, hold: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        self.gate.hold(hold);
        self.gate.go.notify_one();
        self.gate.held.notified().await;
    }

    async fn quick_delete(&self, key: &Key) -> Result<()> {
        let old = self.quick.get_existing(key).await?;
        assert_eq!(self.quick.delete(&old).await?.entries, Entries::Applied);
        Ok(())
    }

    /// Changes what no index has for its key.
    async fn quick_touch(&self, key: &Key) -> Result<()> {
        let touch = |old: Option<&Entity>| Ok(old.map(|old| old.clone().with("Age", 42)));
        assert_eq!(self.quick.modify(key, touch).await?.entries, Entries::Applied);
        Ok(())
    }

    /// How many entities have an address.
    async fn holders(&self, email: &str) -> Result<usize> {
        let rows = self.store.query_all(&table(), &Query::new()).await?;
        let is = |row: &&Entity| {
            row.key().row().starts_with("e_") && row.get("Email") == Some(ValueRef::String(email))
        };
        Ok(rows.iter().filter(is).count())
    }

    /// The first thing that a scrub finds wrong with an index.
    async fn scrubbed(&self, index: &str) -> Result<Option<String>> {
        let report = self.quick.scrub(index, ScrubMode::Report).await?;
        let wrong = report.dangling + report.missing + report.taken > 0;
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
    Ok(vec![index.unique_within_table().with_payload(Payload::Full)])
}

fn inserts(id: u32) -> impl Fn(&Operation) -> bool + Send + Sync + 'static {
    move |operation| matches!(operation, Operation::Insert(_)) && *operation.key() == key(id)
}

fn on(kind: OperationKind, partition: &'static str) -> impl Fn(&Operation) -> bool + Send + Sync + 'static {
    move |operation| operation.kind() == kind && operation.key().partition() == partition
}

/// What is wrong in the end.
type Wrong = Result<Option<String>>;

/// What the quick one does while the slow one stands before its commit.
async fn changes_hands(two: &Two) -> Result<()> {
    two.quick_touch(&key(1)).await?;
    two.quick_delete(&key(1)).await?;
    assert_eq!(two.quick.insert(with_email(2)).await?.entries, Entries::Applied);
    two.gate.go.notify_one();
    Ok(())
}

async fn judged(two: &Two) -> Wrong {
    match two.holders(EMAIL).await? {
        holders @ 2.. => Ok(Some(format!("{holders} entities hold {EMAIL}"))),
        _ => two.scrubbed("email").await,
    }
}

/// One inserts again what is there; another changes it, deletes it, and gives its address to another entity.
async fn inserted_again(broken: Option<Rule>) -> Wrong {
    let two = Two::new(by_email, broken).await?;
    two.quick.insert(with_email(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.insert(with_email(1)).await })
    };
    let slow = two.begin(inserts(1), work).await;
    changes_hands(&two).await?;
    let told = slow.await.unwrap();
    if broken.is_none() {
        assert!(told.unwrap_err().is_unique_violation());
    }
    judged(&two).await
}

/// The same by an upsert that found nothing there.
async fn upserted(broken: Option<Rule>) -> Wrong {
    let two = Two::new(by_email, broken).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.upsert(with_email(1)).await })
    };
    let slow = two.begin(on(OperationKind::Insert, "u_ken@x"), work).await;
    two.quick.insert(with_email(1)).await?;
    two.go_on(inserts(1)).await;
    changes_hands(&two).await?;
    let told = slow.await.unwrap();
    if broken.is_none() {
        assert!(told.unwrap_err().is_unique_violation());
    }
    judged(&two).await
}

/// One inserts again what is there, and is slow to let the address go; another deletes the entity.
async fn deleted_while_released(broken: Option<Rule>) -> Wrong {
    let two = Two::new(by_email, broken).await?;
    two.quick.insert(with_email(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.insert(with_email(1)).await })
    };
    let settles = |operation: &Operation| {
        let pending = operation.entity().and_then(|row| row.get("OwnerPending"));
        operation.kind() == OperationKind::Replace && pending == Some(ValueRef::Boolean(false))
    };
    let slow = two.begin(settles, work).await;
    two.quick_delete(&key(1)).await?;
    two.gate.go.notify_one();
    assert!(slow.await.unwrap().unwrap_err().is_already_exists());
    two.quick.journal().sweep(&[table()], Duration::ZERO).await?;
    two.scrubbed("email").await
}

/// One deletes; another adds the entity again and deletes it. The states of indexes get too old meanwhile, and the first
/// one's round goes on with what it has read.
async fn away_and_back(broken: Option<Rule>) -> Wrong {
    let indexes = || {
        let city = Index::keyed("city", Placement::OtherPartition, "c_{City}", "{PartitionKey}_{RowKey}")?;
        let email = Index::keyed("email", Placement::OtherPartition, "u_{Email}", "email")?;
        let phone = Index::keyed("phone", Placement::OtherPartition, "v_{Phone}", "phone")?;
        let city = city.with_payload(Payload::Full);
        Ok(vec![city, email.unique_within_table(), phone.unique_within_table()])
    };
    let man = || with_email(1).with("City", "rome").with("Phone", "7");
    let two = Two::new(indexes, broken).await?;
    two.quick.insert(man()).await?;
    let old = two.slow.get_existing(&key(1)).await?;
    let work =
        |slow: IndexedEntities| -> BoxFuture<'static, _> { Box::pin(async move { slow.delete(&old).await }) };
    let slow = two.begin(on(OperationKind::Delete, "u_ken@x"), work).await;
    two.quick.insert(man()).await?;
    two.go_on(on(OperationKind::Replace, "u_ken@x")).await;
    // The row is settled for the entity that is back, and then the round goes on by it.
    sleep(Duration::from_secs(35)).await;
    two.go_on(on(OperationKind::InsertOrReplace, "c_rome")).await;
    two.quick_delete(&key(1)).await?;
    two.gate.go.notify_one();
    slow.await.unwrap()?;
    two.quick.journal().sweep(&[table()], Duration::ZERO).await?;
    two.scrubbed("city").await
}

/// One inserts again what is there, and its place in a list is there; another deletes the entity.
async fn listed_already(shape: Shape, broken: Option<Rule>) -> Wrong {
    let indexes = || {
        let index = Index::keyed("team", Placement::SamePartition, "", "team_{Team}")?;
        Ok(vec![index.with_shape(shape.clone())])
    };
    let two = Two::new(indexes, broken).await?;
    let member = |id| user(id).with("Team", "red");
    for id in 1..=120 {
        two.quick.insert(member(id)).await?;
    }
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        let again = member(1);
        Box::pin(async move { slow.insert(again).await })
    };
    let slow = two.begin(inserts(1), work).await;
    two.quick_delete(&key(1)).await?;
    two.gate.go.notify_one();
    slow.await.unwrap()?;
    two.scrubbed("team").await
}

/// One inserts again what is there, and its copy is there; another deletes the entity.
async fn copied_already(broken: Option<Rule>) -> Wrong {
    let indexes = || {
        let boss = Index::new("boss", Placement::SamePartition, "1", |e: &Entity| match e.key().row() {
            "e_1" => Key::new("d", "z_boss").map(Some),
            _ => Ok(None),
        });
        let fields = vec!["Age".into()].into();
        Ok(vec![boss.with_shape(Shape::Copy { prefix: "Of".into(), fields })])
    };
    let two = Two::new(indexes, broken).await?;
    two.quick.insert(Entity::new("d", "z_boss")?.with("Name", "boss")).await?;
    two.quick.insert(user(1)).await?;
    let work = |slow: IndexedEntities| -> BoxFuture<'static, _> {
        Box::pin(async move { slow.insert(user(1)).await })
    };
    let slow = two.begin(inserts(1), work).await;
    two.quick_delete(&key(1)).await?;
    two.gate.go.notify_one();
    slow.await.unwrap()?;
    let boss = two.quick.get_existing(&Key::new("d", "z_boss")?).await?;
    Ok(boss.entity().get("OfAge").is_none().then(|| "the copy is missing".to_owned()))
}

/// Chunks of few references.
fn chunked() -> Shape {
    Shape::List { bytes: 256, overflow: Overflow::Entities }
}

async fn play(schedule: &str, broken: Option<Rule>) -> Wrong {
    match schedule {
        "inserted again" => inserted_again(broken).await,
        "upserted" => upserted(broken).await,
        "deleted while released" => deleted_while_released(broken).await,
        "away and back" => away_and_back(broken).await,
        "listed already" => listed_already(Shape::LIST, broken).await,
        "listed already in a blob" => listed_already(Shape::Blob, broken).await,
        "listed already in a chunk" => listed_already(chunked(), broken).await,
        _ => copied_already(broken).await,
    }
}

/// The schedules, and the rule by which each ends right.
const SCHEDULES: [(&str, Rule); 8] = [
    ("inserted again", Rule::AbortBeforeSettling),
    ("upserted", Rule::AbortBeforeSettling),
    ("deleted while released", Rule::AbortBeforeSettling),
    ("away and back", Rule::OneVersion),
    ("listed already", Rule::ConditionOnUnchanged),
    ("listed already in a blob", Rule::ConditionOnUnchanged),
    ("listed already in a chunk", Rule::ConditionOnUnchanged),
    ("copied already", Rule::ConditionOnUnchanged),
];

#[tokio::test(start_paused = true)]
async fn schedules_that_ended_wrong_once_end_right() {
    for (schedule, _) in SCHEDULES {
        let wrong = play(schedule, None).await.unwrap();
        assert_eq!(wrong, None, "{schedule}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_rule_each_of_these_schedules_ends_wrong() {
    for (schedule, rule) in SCHEDULES {
        let wrong = play(schedule, Some(rule)).await.unwrap();
        let wrong = wrong.unwrap_or_else(|| panic!("{schedule}: nothing notices that {rule:?} is broken"));
        eprintln!("{schedule}: without {rule:?}, {wrong}");
    }
}
