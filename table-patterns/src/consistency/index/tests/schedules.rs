//! Two processes in one order of their requests: each schedule has ended wrong once. Only the order and the times differ from calm runs; one
//! test adds an unreadable answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::index::tests::open_table;
use async_trait::async_trait;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, Ticks};
use table_core::prelude::TableEntity;
use table_core::query::Query;
use table_core::store::{
    Error, ErrorKind, GroupTransaction, Operation, Outcome, Result, StoreContext, TableStore,
    TableStoreExt as _, Written,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::world::text;
use crate::Table;
use crate::clock::TokioClock;
use crate::index::{
    Index, IndexOptions, IndexQuery, IndexState, IndexedEntities, Payload, Placement, ScrubMode,
    Trust,
};
use crate::journal::{Change, Entries};
use crate::queue::{QueueOptions, TableQueue};

/// The cache time and the longest request of the default options.
const SETTLED: Duration = Duration::from_secs(30 + 60);

type IsHeld = Box<dyn Fn(&Operation) -> bool + Send + Sync>;

/// The store as one process sees it: other processes write it too. Holds the first request that a condition names, or makes its answer
/// unreadable.
struct Gate {
    store: MemoryStore,
    held: Mutex<Option<IsHeld>>,
    held_read: Mutex<Option<Key>>,
    context: StoreContext,
    unreadable: Mutex<Option<IsHeld>>,
    arrived: Notify,
    go: Notify,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

impl Gate {
    fn around(store: &MemoryStore) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            held: Mutex::default(),
            held_read: Mutex::default(),
            context: StoreContext::new(store.profile()),
            unreadable: Mutex::default(),
            arrived: Notify::new(),
            go: Notify::new(),
        })
    }

    fn hold(&self, condition: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        *self.held.lock().unwrap() = Some(Box::new(condition));
    }

    fn hold_read(&self, key: Key) {
        *self.held_read.lock().unwrap() = Some(key);
    }

    fn lose_answer(&self, condition: impl Fn(&Operation) -> bool + Send + Sync + 'static) {
        *self.unreadable.lock().unwrap() = Some(Box::new(condition));
    }

    async fn pass(&self, operations: &[Operation]) {
        let is_held = |held: &mut IsHeld| operations.iter().any(held);
        let held = self
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(is_held);
        if held.is_some() {
            self.stop().await;
        }
    }

    async fn stop(&self) {
        self.arrived.notify_one();
        self.go.notified().await;
    }
}

#[async_trait]
impl TableStore for Gate {
    forward_to_store!(self => self.store; profile, create_table, delete_table, list_tables, query);

    fn context(&self) -> &StoreContext {
        &self.context
    }

    async fn get(
        &self,
        table: &TableName,
        key: &Key,
        select: Option<&table_core::query::Select>,
    ) -> Result<Option<Entity>> {
        let held = self
            .held_read
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(|held| held == key);
        if held.is_some() {
            self.stop().await;
        }
        self.store.get(table, key, select).await
    }

    async fn write(&self, table: &TableName, operation: Operation) -> Result<Written> {
        self.pass(std::slice::from_ref(&operation)).await;
        let is_lost = |lost: &mut IsHeld| lost(&operation);
        let lost = self
            .unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take_if(is_lost);
        let written = self.store.write(table, operation.clone()).await?;
        match lost {
            None => Ok(written),
            Some(_) => Err(Error::from(ErrorKind::Service(
                "an answer of no known form".to_owned(),
            ))
            .with_outcome(Outcome::Applied)),
        }
    }

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        self.pass(group.operations()).await;
        self.store.transact(table, group).await
    }
}

fn people() -> TableName {
    TableName::new("People").unwrap()
}

async fn store() -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store.create_table(&people()).await?;
    Ok(store)
}

fn city() -> Index {
    Index::keyed(
        "city",
        Placement::OtherPartition,
        "c_{City}",
        "{PartitionKey}_{RowKey}",
    )
    .unwrap()
}

fn person(row: &str, city: &str) -> Entity {
    Entity::new("d", row).unwrap().with("City", city)
}

async fn open(gate: &Arc<Gate>, indexes: Vec<Index>) -> Result<IndexedEntities> {
    IndexedEntities::open(gate.clone(), people(), indexes, IndexOptions::default()).await
}

async fn open_for_upkeep(store: &MemoryStore) -> Result<IndexedEntities> {
    IndexedEntities::open_for_upkeep(Gate::around(store), people(), IndexOptions::default()).await
}

/// The rows that indexes have left in the table.
async fn entries(store: &MemoryStore) -> Result<usize> {
    let rows = store.query_all(&people(), &Query::new()).await?;
    Ok(rows
        .iter()
        .filter(|row| crate::entry::Entry::index_of(row).is_some())
        .count())
}

async fn in_rome(people: &IndexedEntities) -> Result<Vec<Entity>> {
    people
        .all("city", &IndexQuery::partition("c_rome"), Trust::Entity)
        .await
}

/// A program inserts by states that it reads between the steps of two processes which drop the index, 10 seconds apart.
#[tokio::test(start_paused = true)]
async fn two_droppers_leave_no_entries() -> Result<()> {
    for read_at in (5..300).step_by(10).map(Duration::from_secs) {
        let store = store().await?;
        let writer = open(&Gate::around(&store), vec![city()]).await?;
        writer.insert(person("1", "rome")).await?;
        let (one, two) = (
            open_for_upkeep(&store).await?,
            open_for_upkeep(&store).await?,
        );
        let first = tokio::spawn(async move { one.drop_index("city").await });
        let second = tokio::spawn(async move {
            sleep(Duration::from_secs(10)).await;
            two.drop_index("city").await
        });
        sleep(read_at).await;
        writer.insert(person("2", "oslo")).await?;
        sleep(Duration::from_secs(29)).await;
        // By the states that the write before has read.
        writer.insert(person("3", "rome")).await?;
        first.await.unwrap()?;
        // The index may be gone when the second process looks for it.
        drop(second.await.unwrap());
        writer.flush().await;
        assert_eq!(writer.declared().await?.len(), 0, "{read_at:?}");
        assert_eq!(
            entries(&store).await?,
            0,
            "the states were read after {read_at:?}"
        );
    }
    Ok(())
}

/// A program that has read *readable* just before the drop finds what other programs insert.
#[tokio::test(start_paused = true)]
async fn a_second_dropper_waits_for_the_readers_of_the_state_before() -> Result<()> {
    let store = store().await?;
    let reader = open(&Gate::around(&store), vec![city()]).await?;
    reader.insert(person("1", "rome")).await?;
    let (one, two) = (
        open_for_upkeep(&store).await?,
        open_for_upkeep(&store).await?,
    );
    reader.refresh().await?;
    let (first, started) = (
        tokio::spawn(async move { one.drop_index("city").await }),
        Instant::now(),
    );
    sleep(Duration::from_secs(2)).await;
    let _second = tokio::spawn(async move { two.drop_index("city").await });
    sleep(Duration::from_secs(1)).await;
    let writer = open(&Gate::around(&store), vec![]).await?;
    writer.insert(person("2", "rome")).await?;
    assert_eq!(
        reader.state("city"),
        IndexState::Readable,
        "as the reader knows it"
    );
    assert_eq!(in_rome(&reader).await?.len(), 2);
    first.await.unwrap()?;
    // One wait for each state, as without the second process.
    assert!(
        started.elapsed() < SETTLED * 2 + Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    Ok(())
}

/// A drop that finds the index delete-only does not know whether a builder is at work: it waits for its lease.
#[tokio::test(start_paused = true)]
async fn a_drop_that_was_interrupted_waits_for_a_builder() -> Result<()> {
    let store = store().await?;
    let writer = open(&Gate::around(&store), vec![city()]).await?;
    writer.insert(person("1", "rome")).await?;
    let one = open_for_upkeep(&store).await?;
    let first = tokio::spawn(async move { one.drop_index("city").await });
    sleep(SETTLED + Duration::from_secs(1)).await;
    first.abort();
    let other = open_for_upkeep(&store).await?;
    assert_eq!(other.state("city"), IndexState::DeleteOnly);
    let started = Instant::now();
    other.drop_index("city").await?;
    assert!(
        started.elapsed() >= Duration::from_secs(300),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(entries(&store).await?, 0);
    Ok(())
}

/// The registration of a process is renewed by its next write. The outcome of the renewal is not that of the write.
#[tokio::test(start_paused = true)]
async fn an_unreadable_renewal_of_the_registration_is_no_outcome_of_the_write() -> Result<()> {
    let store = store().await?;
    let gate = Gate::around(&store);
    let writer =
        IndexedEntities::open(gate.clone(), people(), vec![city()], IndexOptions::local()).await?;
    sleep(Duration::from_secs(60)).await;
    gate.lose_answer(|operation| operation.key().row().starts_with("process~"));
    writer.insert(person("1", "rome")).await?;
    assert!(
        gate.unreadable.lock().unwrap().is_none(),
        "the registration was renewed"
    );
    assert!(
        store
            .get(&people(), &Key::new("d", "1")?, None)
            .await?
            .is_some()
    );
    Ok(())
}

/// Each request of a write fails once: of the registration, the manifest, the ticket, the mark, the reservations, the commit and the entries.
/// A write that is said to be *applied* is there, and one that is said to be *not applied* is not.
#[tokio::test(start_paused = true)]
async fn no_failed_request_gives_a_write_a_wrong_outcome() -> Result<()> {
    let email = || Index::keyed("email", Placement::OtherPartition, "u_{Email}", "of").unwrap();
    let indexes = || vec![city(), email().unique_within_table()];
    let with = |row: &str, mail: &str| person(row, "rome").with("Email", mail);
    let (mut applied, mut refused) = (0, 0);
    for write in ["insert", "modify", "move within", "move", "group"] {
        for fault in [Fault::LoseRequest, Fault::LoseAnswer, Fault::BreakAnswer] {
            for nth in 1..=14 {
                let (store, faults) = (store().await?, FaultInjector::new(1));
                store
                    .context()
                    .local_writers()
                    .expect("one process")
                    .serve();
                let faulty = Arc::new(Faulty::new(store.clone(), faults.clone()));
                let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
                let options = QueueOptions {
                    clock,
                    ..QueueOptions::default()
                };
                let queue =
                    TableQueue::open_with(faulty.clone(), "Work", "tickets", options).await?;
                let options = IndexOptions {
                    queue: Some(Arc::new(queue)),
                    ..IndexOptions::local()
                };
                let all = IndexedEntities::open(faulty, people(), indexes(), options).await?;
                all.insert(with("1", "ken")).await?;
                all.flush().await;
                // The states and the registration of the process expire.
                sleep(Duration::from_secs(60)).await;
                faults.add(FaultRule::new(fault).nth(nth));
                let (from, near, far) = (
                    Key::new("d", "1")?,
                    Key::new("d", "2")?,
                    Key::new("e", "1")?,
                );
                let set = |e: Option<&Entity>| Ok(e.map(|e| e.clone().with("Email", "new")));
                let (written, target) = match write {
                    "insert" => (all.insert(with("2", "new")).await.map(drop), near),
                    "modify" => (all.modify(&from, set).await.map(drop), from),
                    "move within" => (all.move_to(&from, &all, &near).await, near),
                    "move" => (all.move_to(&from, &all, &far).await, far),
                    _ => {
                        let group = [
                            Change::insert(with("2", "new")),
                            Change::insert(with("3", "newer")),
                        ];
                        (all.write(&group).await.map(drop), near)
                    }
                };
                all.flush().await;
                let there = store.get(&people(), &target, None).await?;
                let is_there =
                    there.is_some_and(|e| write != "modify" || text(&e, "Email") == Some("new"));
                let outcome = written
                    .as_ref()
                    .map_or_else(Error::outcome, |()| Outcome::Applied);
                let why = format!("{write}, {fault:?} at request {nth}: {written:?}");
                match outcome {
                    Outcome::Applied => {
                        assert!(is_there && written.is_ok(), "{why}");
                        applied += 1;
                    }
                    Outcome::NotApplied => {
                        assert!(!is_there, "{why}");
                        refused += 1;
                    }
                    Outcome::Ambiguous => {}
                }
            }
        }
    }
    assert!(
        applied > 50 && refused > 20,
        "{applied} writes were applied, {refused} were not"
    );
    Ok(())
}

/// Builds and scrubs of a table with an entity whose move has not ended.
#[tokio::test(start_paused = true)]
async fn a_build_ends_the_move_of_a_process_that_died() -> Result<()> {
    let zip = || Index::keyed("zip", Placement::OtherPartition, "z_{Zip}", "of").unwrap();
    let full = || city().with_payload(Payload::Full);
    let unique = || {
        Index::keyed("name", Placement::OtherPartition, "n_{Name}", "of")
            .unwrap()
            .unique_within_table()
    };
    let local =
        || Index::keyed("near", Placement::SamePartition, "", "near_{Zip}_{RowKey}").unwrap();
    // The mover dies before its commit, or before it deletes the source.
    for is_committed in [false, true] {
        for new in [zip(), unique(), local()] {
            let store = store().await?;
            let gate = Gate::around(&store);
            let mover =
                IndexedEntities::open(gate.clone(), people(), vec![full()], IndexOptions::local())
                    .await?;
            mover
                .insert(person("1", "rome").with("Zip", "7").with("Name", "ken"))
                .await?;
            let (from, to) = (Key::new("d", "1")?, Key::new("e", "1")?);
            let held = if is_committed {
                from.clone()
            } else {
                to.clone()
            };
            let deletes = is_committed;
            gate.hold(move |operation| {
                *operation.key() == held
                    && matches!(operation, Operation::Delete(..)) == deletes
                    && !matches!(operation, Operation::Merge(..))
                    && (deletes || matches!(operation, Operation::Insert(_)))
            });
            let moving = {
                let mover = mover.clone();
                tokio::spawn(async move { mover.move_to(&from, &mover, &to).await })
            };
            gate.arrived.notified().await;
            moving.abort();
            let name = new.name().to_owned();
            let indexes = vec![full(), new];
            let other = IndexedEntities::open(
                Gate::around(&store),
                people(),
                indexes,
                IndexOptions::local(),
            )
            .await?;
            let report = other.scrub("city", ScrubMode::Report).await?;
            // The entry of the target is pending if the move is committed.
            let found = (report.missing, report.dangling, report.taken_keys);
            assert_eq!(
                found,
                (usize::from(is_committed), 0, 0),
                "{name} {is_committed}"
            );
            let built = other.build(&name)?.run().await?;
            assert_eq!(built.state, IndexState::Readable, "{name}");
            let there = other.get(&Key::new("e", "1")?).await?;
            assert_eq!(there.is_some(), is_committed);
            assert_eq!(
                other.get(&Key::new("d", "1")?).await?.is_some(),
                !is_committed
            );
            for index in ["city", &name] {
                let report = other.scrub(index, ScrubMode::Report).await?;
                let found = (
                    report.entries,
                    report.missing,
                    report.dangling,
                    report.taken_keys,
                );
                assert_eq!(found, (1, 0, 0, 0), "{index} {is_committed}");
            }
        }
    }
    Ok(())
}

/// A scrub repairs the missing entry of an entity under a move.
#[tokio::test(start_paused = true)]
async fn a_scrub_repairs_the_entries_of_an_entity_under_a_move() -> Result<()> {
    let store = store().await?;
    let gate = Gate::around(&store);
    let mover =
        IndexedEntities::open(gate.clone(), people(), vec![city()], IndexOptions::local()).await?;
    mover.insert(person("1", "rome")).await?;
    let (from, to) = (Key::new("d", "1")?, Key::new("e", "1")?);
    let held = to.clone();
    gate.hold(move |operation| *operation.key() == held);
    let moving = {
        let mover = mover.clone();
        tokio::spawn(async move { mover.move_to(&from, &mover, &to).await })
    };
    gate.arrived.notified().await;
    moving.abort();
    let entry = Key::new("c_rome", "d_1")?;
    store
        .write(
            &people(),
            Operation::Delete(entry, table_core::model::IfMatch::Any),
        )
        .await?;
    let other = open(&Gate::around(&store), vec![city()]).await?;
    assert_eq!(other.scrub("city", ScrubMode::Report).await?.missing, 1);
    assert_eq!(other.scrub("city", ScrubMode::Repair).await?.missing, 1);
    assert_eq!(other.scrub("city", ScrubMode::Report).await?.missing, 0);
    assert_eq!(in_rome(&other).await?.len(), 1);
    Ok(())
}

/// Two programs declare two generations of an index whose entries could have the same rows.
#[tokio::test(start_paused = true)]
async fn one_of_two_colliding_generations_is_refused() -> Result<()> {
    let store = store().await?;
    store
        .write(&people(), Operation::Insert(person("1", "rome")))
        .await?;
    let (gate, options) = (Gate::around(&store), IndexOptions::local);
    let one = IndexedEntities::open(gate.clone(), people(), vec![city()], options()).await?;
    let full = city().with_payload(Payload::Full);
    let two = IndexedEntities::open(Gate::around(&store), people(), vec![full], options()).await?;
    gate.hold(|operation| operation.key().row().starts_with("index~"));
    let late = {
        let one = one.clone();
        tokio::spawn(async move { one.build("city")?.run().await })
    };
    gate.arrived.notified().await;
    assert_eq!(two.build("city")?.run().await?.state, IndexState::Readable);
    gate.go.notify_one();
    let refused = late.await.unwrap().unwrap_err();
    assert!(
        refused.to_string().contains("could have the same rows"),
        "{refused}"
    );
    assert_eq!(two.declared().await?.len(), 1);
    assert_eq!(in_rome(&two).await?.len(), 1);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = table_core, type = "Man", rename_all = "PascalCase", row_key = "e_{id}")]
#[index(
    email,
    partition_key = "u_{email}",
    row_key = "email",
    unique = "table"
)]
struct Man {
    #[partition_key]
    dept: String,
    id: u32,
    email: String,
}

fn man(id: u32, email: &str) -> Man {
    Man {
        dept: "d".to_owned(),
        id,
        email: email.to_owned(),
    }
}

async fn men(gate: &Arc<Gate>) -> Result<Table<Man>> {
    open_table(gate.clone(), "People", IndexOptions::default()).await
}

/// Another writer changes or passes on a unique value while the entity is moved: the move starts again.
#[tokio::test(start_paused = true)]
async fn a_move_starts_again_after_a_unique_value_has_changed() -> Result<()> {
    for (to, taken) in [("d", false), ("d", true), ("e", false), ("e", true)] {
        let store = store().await?;
        let gate = Gate::around(&store);
        let (mover, other) = (men(&gate).await?, men(&Gate::around(&store)).await?);
        other.insert(&man(1, "ken")).await?;
        other.flush().await;
        gate.hold_read(Key::new("u_ken", "email")?);
        let moving = {
            let mover = mover.clone();
            tokio::spawn(async move {
                mover
                    .move_to(Man::key("d", 1)?, &mover, Man::key(to, 2)?)
                    .await
            })
        };
        gate.arrived.notified().await;
        let rename = |man: &mut Man| {
            man.email = "new".to_owned();
            Ok(())
        };
        other.update(Man::key("d", 1)?, rename).await?;
        if taken {
            other.insert(&man(3, "ken")).await?;
        }
        other.flush().await;
        gate.go.notify_one();
        moving.await.unwrap()?;
        let moved = other.get_existing(Man::key(to, 2)?).await?;
        assert_eq!(moved.email, "new", "to {to}, taken: {taken}");
        assert!(other.get(Man::key("d", 1)?).await?.is_none());
        let report = other
            .entities()
            .await?
            .scrub("email", ScrubMode::Report)
            .await?;
        assert_eq!(
            (report.missing, report.dangling, report.taken_keys),
            (0, 0, 0)
        );
    }
    Ok(())
}

/// A group that passes a value on, from an old state of its owner, is a conflict. With a damaged index the error asks for a scrub.
#[tokio::test(start_paused = true)]
async fn a_group_that_passes_a_value_on_fails_by_its_old_state() -> Result<()> {
    let email =
        Index::keyed("email", Placement::OtherPartition, "u_{Email}", "of")?.unique_within_table();
    let with = |row: &str, email: &str| person(row, "rome").with("Email", email);
    for is_damaged in [false, true] {
        let store = store().await?;
        let all = open(&Gate::around(&store), vec![email.clone()]).await?;
        all.insert(with("1", "ken")).await?;
        let stale = all.get_existing(&Key::new("d", "1")?).await?;
        all.flush().await;
        if is_damaged {
            let entry = Key::new("u_ken", "of")?;
            store
                .write(
                    &people(),
                    Operation::Delete(entry, table_core::model::IfMatch::Any),
                )
                .await?;
        } else {
            all.replace(&stale, with("1", "new")).await?;
            all.flush().await;
        }
        let changes = [
            Change::replace(stale.entity().clone(), with("1", "other")),
            Change::insert(with("2", "ken")),
        ];
        let error = all.write(&changes).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert_eq!(error.is_precondition_failed(), !is_damaged, "{error}");
        assert_eq!(error.to_string().contains("scrub"), is_damaged, "{error}");
        let again = all.get_existing(&Key::new("d", "1")?).await?;
        if !is_damaged {
            let changes = [
                Change::replace(again.entity().clone(), with("1", "ken")),
                Change::insert(with("2", "new")),
            ];
            assert_eq!(all.write(&changes).await?.entries, Entries::Applied);
        }
    }
    Ok(())
}
