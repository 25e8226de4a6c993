use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use table_core::adapter::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, Properties, TableName, Ticks, ValueRef, entry_id};
use table_core::query::Query;
use table_core::queue::WorkQueue;
use table_core::store::{Error, Operation, OperationKind, Result, TableStore, TableStoreExt};

use super::{Acknowledge, Change, Clearing, Entries, Journal, Recovery, Timing};
use crate::clock::TokioClock;
use crate::index::{Entry, Location, Maintainer, Permission, Shape};
use crate::queue::{QueueOptions, TableQueue};

mod costs;
mod poison;
mod redefined;
mod round_trips;
mod unreadable;
mod workers;

/// `Name` is unique across partitions, in a table of its own; `City` is an entry in another partition.
#[derive(Debug)]
struct People;

impl Maintainer for People {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        if entity.key().is_system() || entity.key().partition().starts_with("city_") {
            return Ok(Vec::new());
        }
        let mut entries = Vec::new();
        if let Some(ValueRef::String(name)) = entity.get("Name") {
            entries.push(entry(entity, "Names", Key::new(name, "")?, "name", true)?);
        }
        if let Some(ValueRef::String(city)) = entity.get("City") {
            let key = Key::new(format!("city_{city}"), entity.key().row())?;
            entries.push(entry(entity, "People", key, "city", false)?);
        }
        Ok(entries)
    }
}

fn entry(entity: &Entity, table: &str, key: Key, index: &str, unique: bool) -> Result<Entry> {
    let (location, people) = (
        Location {
            table: TableName::new(table)?,
            key,
        },
        TableName::new("People")?,
    );
    let (owner, index) = (
        entity.key().clone(),
        entry_id(index, Some(&people).filter(|_| table != "People")),
    );
    Ok(Entry {
        location,
        owner,
        properties: Properties::new(),
        index,
        unique,
        shape: Shape::Row,
    })
}

struct World {
    store: Arc<dyn TableStore>,
    queue: Arc<TableQueue>,
    journal: Journal,
}

async fn world() -> Result<World> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    for table in ["People", "Names"] {
        store.create_table(&TableName::new(table)?).await?;
    }
    let queue = Arc::new(TableQueue::open(store.clone(), "Work", "journal").await?);
    let journal = Journal::new(store.clone(), TableName::new("People")?, Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    let journal = journal.with_queue(queue.clone());
    Ok(World {
        store,
        queue,
        journal,
    })
}

fn person(id: &str, name: &str, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", id)?.with("Name", name).with("City", city))
}

async fn rows(world: &World, table: &str) -> Result<BTreeMap<String, Entity>> {
    let all = world
        .store
        .query_all(&TableName::new(table)?, &Query::new())
        .await?;
    Ok(all.into_iter().map(|e| (e.key().to_string(), e)).collect())
}

async fn read(world: &World, id: &str) -> Result<Entity> {
    world
        .store
        .get_existing(world.journal.table(), &Key::new("p", id)?)
        .await
}

#[tokio::test]
async fn a_finished_write_leaves_only_its_entries() -> Result<()> {
    let world = world().await?;
    let change = Change::insert(person("1", "ken", "oslo")?);
    let done = world.journal.write(&[change], Acknowledge::Applied).await?;
    assert_eq!(done.entries, Entries::Applied);
    assert!(done.written[0].etag.is_some());
    let people: Vec<_> = rows(&world, "People").await?.into_keys().collect();
    assert_eq!(people, ["('city_oslo', '1')", "('p', '1')"]);
    assert_eq!(
        rows(&world, "Names").await?.into_keys().collect::<Vec<_>>(),
        ["('ken', '')"]
    );
    assert!(world.queue.receive(9, Duration::ZERO).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_update_replaces_the_entries_of_the_old_value() -> Result<()> {
    let world = world().await?;
    world
        .journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Applied,
        )
        .await?;
    let old = read(&world, "1").await?;
    let change = Change::replace(old, person("1", "kim", "rome")?);
    assert_eq!(
        world
            .journal
            .write(&[change], Acknowledge::Applied)
            .await?
            .entries,
        Entries::Applied
    );
    let people: Vec<_> = rows(&world, "People").await?.into_keys().collect();
    assert_eq!(people, ["('city_rome', '1')", "('p', '1')"]);
    assert_eq!(
        rows(&world, "Names").await?.into_keys().collect::<Vec<_>>(),
        ["('kim', '')"]
    );
    let old = read(&world, "1").await?;
    world
        .journal
        .write(&[Change::delete(old)], Acknowledge::Applied)
        .await?;
    assert!(rows(&world, "People").await?.is_empty() && rows(&world, "Names").await?.is_empty());
    Ok(())
}

/// An entry whose owner has another value, as a build over two entities with one value can leave it.
#[tokio::test]
async fn a_unique_value_that_its_owner_no_longer_has_is_free() -> Result<()> {
    let world = world().await?;
    world
        .journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Applied,
        )
        .await?;
    let offset = Operation::InsertOrReplace(person("1", "kim", "oslo")?);
    world.store.write(world.journal.table(), offset).await?;
    world
        .journal
        .write(
            &[Change::insert(person("2", "ken", "rome")?)],
            Acknowledge::Applied,
        )
        .await?;
    let names = rows(&world, "Names").await?;
    assert_eq!(names.keys().collect::<Vec<_>>(), ["('ken', '')"]);
    assert_eq!(Entry::owner_of(&names["('ken', '')"])?, Key::new("p", "2")?);
    Ok(())
}

#[tokio::test]
async fn a_unique_value_has_one_owner() -> Result<()> {
    let world = world().await?;
    world
        .journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Applied,
        )
        .await?;
    let error = world
        .journal
        .write(
            &[Change::insert(person("2", "ken", "rome")?)],
            Acknowledge::Applied,
        )
        .await;
    let error = error.unwrap_err();
    assert!(error.is_unique_violation(), "{error}");
    assert_eq!(error.owner(), Some("('p', '1')"));
    assert_eq!(rows(&world, "People").await?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_stale_write_leaves_no_reservation() -> Result<()> {
    let world = world().await?;
    world
        .journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Applied,
        )
        .await?;
    let old = read(&world, "1").await?;
    let first = Change::replace(old.clone(), person("1", "ken", "rome")?);
    world.journal.write(&[first], Acknowledge::Applied).await?;
    let second = Change::replace(old, person("1", "kim", "rome")?);
    let error = world
        .journal
        .write(&[second], Acknowledge::Applied)
        .await
        .unwrap_err();
    assert!(error.is_precondition_failed(), "{error}");
    assert_eq!(
        rows(&world, "Names").await?.into_keys().collect::<Vec<_>>(),
        ["('ken', '')"]
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_worker_applies_a_committed_write() -> Result<()> {
    let world = world().await?;
    let done = world
        .journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    assert_eq!(done.entries, Entries::Pending);
    assert_eq!(
        rows(&world, "People").await?.len(),
        2,
        "the entity and its journal row"
    );
    let report = world
        .journal
        .sweep(&[TableName::new("Names")?], Duration::from_secs(86_400))
        .await?;
    assert_eq!(report.applied, 1);
    assert_eq!(report.left, 0);
    let people: Vec<_> = rows(&world, "People").await?.into_keys().collect();
    assert_eq!(people, ["('city_oslo', '1')", "('p', '1')"]);
    Ok(())
}

/// A row that cannot be read, and a reservation that cannot be released, do not stop the sweep.
#[tokio::test(start_paused = true)]
async fn a_sweep_continues_after_a_damaged_row() -> Result<()> {
    let world = world().await?;
    world
        .journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    let (names, people) = (TableName::new("Names")?, world.journal.table().clone());
    let bad_reservation = Entity::new("kay", "")?
        .with(Entry::INDEX, "name@people")
        .with("OwnerPending", true);
    world
        .store
        .write(&names, Operation::Insert(bad_reservation))
        .await?;
    let bad_journal_row = Entity::new("p", "~~j_00000000000000000000000000000000")?;
    world
        .store
        .write(&people, Operation::Insert(bad_journal_row))
        .await?;
    // A reservation without a write, after the damaged row.
    let write = uuid::Uuid::new_v4();
    let owned = entry(
        &person("2", "kim", "rome")?,
        "Names",
        Key::new("kim", "")?,
        "name",
        true,
    )?;
    let pending = owned
        .to_entity()
        .with("OwnerWrite", write)
        .with("OwnerPending", true);
    world
        .store
        .write(&names, Operation::Insert(pending))
        .await?;

    let report = world
        .journal
        .sweep(&[names], Duration::from_secs(86_400))
        .await?;
    assert_eq!(report.applied, 1, "{report:?}");
    assert_eq!(report.released, 1, "{report:?}");
    assert_eq!((report.left, report.failed), (0, 2), "{report:?}");
    assert_eq!(
        rows(&world, "Names").await?.into_keys().collect::<Vec<_>>(),
        ["('kay', '')", "('ken', '')"]
    );
    Ok(())
}

/// An adapter that sends an entry again after the lease would write it after its journal row is gone.
#[tokio::test(start_paused = true)]
async fn no_request_of_a_write_is_sent_after_its_lease() -> Result<()> {
    let world = world().await?;
    let faults = FaultInjector::new(1);
    // The first group is the commit, the second writes the entry.
    let delay = Fault::Delay(Duration::from_secs(3600));
    faults.add(FaultRule::new(delay).on(OperationKind::Transact).nth(2));
    let slow = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let slow = Journal::new(slow, world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    let person = person("1", "ken", "oslo")?;
    let committed = slow
        .write(&[Change::insert(person)], Acknowledge::Applied)
        .await?;
    assert_eq!(committed.entries, Entries::Pending);
    assert_eq!(faults.injected().len(), 1);
    // Another process finishes the write and changes the entity.
    assert_eq!(
        world
            .journal
            .sweep(&[TableName::new("Names")?], Duration::ZERO)
            .await?
            .applied,
        1
    );
    world
        .journal
        .write(
            &[Change::delete(read(&world, "1").await?)],
            Acknowledge::Applied,
        )
        .await?;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    assert!(rows(&world, "People").await?.is_empty());
    Ok(())
}

/// A sweep with a short lease does not take over the write of a process with a long lease.
#[tokio::test(start_paused = true)]
async fn a_journal_row_is_watched_for_the_lease_that_it_names() -> Result<()> {
    let world = world().await?;
    let faults = FaultInjector::new(1);
    let delay = Fault::Delay(Duration::from_secs(100));
    faults.add(FaultRule::new(delay).on(OperationKind::Transact).nth(2));
    let slow = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let slow = Journal::new(slow, world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    let timing = Timing::new(
        Duration::from_secs(1),
        Duration::from_millis(250),
        Duration::ZERO,
    )?;
    let quick = world.journal.clone().with_timing(timing);
    let change = [Change::insert(person("1", "ken", "oslo")?)];
    let others = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        quick
            .sweep(&[TableName::new("Names")?], Duration::ZERO)
            .await?;
        quick
            .write(
                &[Change::delete(read(&world, "1").await?)],
                Acknowledge::Applied,
            )
            .await
    };
    let (written, gone) = tokio::join!(slow.write(&change, Acknowledge::Applied), others);
    assert_eq!(written?.entries, Entries::Applied);
    assert_eq!(gone?.entries, Entries::Applied);
    assert!(
        rows(&world, "People").await?.is_empty(),
        "an entry outlived its evidence"
    );
    Ok(())
}

/// A queue in a store of its own, with the default number of receives.
async fn separate_queue() -> Result<Arc<TableQueue>> {
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let options = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    Ok(Arc::new(
        TableQueue::open_with(Arc::new(MemoryStore::new()), "Work", "journal", options).await?,
    ))
}

/// A ticket is not poisoned, however long the store is unavailable.
#[tokio::test(start_paused = true)]
async fn an_outage_poisons_no_ticket() -> Result<()> {
    let world = world().await?;
    let (queue, faults) = (separate_queue().await?, FaultInjector::new(1));
    let store = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let journal = Journal::new(store, world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    let journal = journal.with_queue(queue.clone());
    journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    let worker = Recovery::new(&*queue, vec![&journal]);
    let mut received = 0;
    for fault in [
        Fault::FailBefore,
        Fault::LoseAnswer,
        Fault::Throttle { retry_after: None },
    ] {
        faults.heal();
        faults.add(FaultRule::new(fault));
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(901)).await;
            received += worker.run_once(8).await?;
        }
    }
    assert_eq!(received, 30);
    assert!(worker.poison(8).await?.is_empty());
    faults.heal();
    tokio::time::sleep(Duration::from_secs(901)).await;
    worker.run_once(8).await?;
    let people: Vec<_> = rows(&world, "People").await?.into_keys().collect();
    assert_eq!(people, ["('city_oslo', '1')", "('p', '1')"]);
    assert_eq!(worker.run_once(8).await?, 0);
    Ok(())
}

/// A worker outlasts an outage of its queue.
#[tokio::test(start_paused = true)]
async fn a_worker_runs_until_it_is_stopped() -> Result<()> {
    let world = world().await?;
    let (faults, clock) = (
        FaultInjector::new(1),
        Arc::new(TokioClock::starting_at(Ticks::now())),
    );
    let faulty = Arc::new(Faulty::new(MemoryStore::new(), faults.clone()));
    let options = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    let queue = Arc::new(TableQueue::open_with(faulty, "Work", "journal", options).await?);
    let journal = world.journal.clone().with_queue(queue.clone());
    journal
        .write(
            &[Change::insert(person("1", "ken", "oslo")?)],
            Acknowledge::Committed,
        )
        .await?;
    faults.add(
        FaultRule::new(Fault::FailBefore)
            .on(OperationKind::Query)
            .times(20),
    );
    let worker = Recovery::new(&*queue, vec![&journal]);
    worker
        .run(
            4,
            Duration::from_secs(1),
            tokio::time::sleep(Duration::from_secs(3600)),
        )
        .await?;
    assert_eq!(faults.injected().len(), 20);
    let people: Vec<_> = rows(&world, "People").await?.into_keys().collect();
    assert_eq!(people, ["('city_oslo', '1')", "('p', '1')"]);
    assert_eq!(worker.run_once(8).await?, 0);
    Ok(())
}

/// 70 entities whose keys and names together exceed a message and a property.
fn crowd() -> Result<Vec<Change>> {
    let long = "愛".repeat(500);
    let people = (0..70).map(|n| person(&format!("{long}{n}"), &format!("{long}{n}"), "oslo"));
    people.map(|person| person.map(Change::insert)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_keys_of_a_group_may_exceed_a_ticket() -> Result<()> {
    let world = world().await?;
    let done = world.journal.write(&crowd()?, Acknowledge::Applied).await?;
    assert_eq!(done.entries, Entries::Applied);
    assert_eq!(rows(&world, "People").await?.len(), 140);
    assert_eq!(rows(&world, "Names").await?.len(), 70);
    assert!(world.queue.receive(9, Duration::ZERO).await?.is_empty());
    Ok(())
}

/// If such a group dies before its commit, the sweep releases its reservations.
#[tokio::test(start_paused = true)]
async fn a_ticket_without_keys_is_recovered() -> Result<()> {
    let world = world().await?;
    let (queue, faults) = (separate_queue().await?, FaultInjector::new(1));
    let dying = Arc::new(Faulty::new(world.store.clone(), faults.clone()));
    let dying = Journal::new(dying, world.journal.table().clone(), Arc::new(People))
        .with_clearing(Clearing::BeforeAnswer);
    faults.crash_at(71, CrashPoint::Before);
    dying
        .with_queue(queue.clone())
        .write(&crowd()?, Acknowledge::Applied)
        .await
        .unwrap_err();
    assert_eq!(rows(&world, "Names").await?.len(), 70);
    let worker = Recovery::new(&*queue, vec![&world.journal]);
    for expected in [1, 1, 0] {
        tokio::time::sleep(Duration::from_secs(901)).await;
        assert_eq!(worker.run_once(8).await?, expected);
    }
    let released = world
        .journal
        .sweep(&[TableName::new("Names")?], Duration::ZERO)
        .await?
        .released;
    assert_eq!(released, 70);
    assert!(rows(&world, "Names").await?.is_empty());
    Ok(())
}

/// Entries as of states that expire one second after they were read.
#[derive(Debug, Default)]
struct Expiring(std::sync::Mutex<Option<tokio::time::Instant>>);

#[async_trait]
impl Maintainer for Expiring {
    fn entries(&self, entity: &Entity) -> Result<Vec<Entry>> {
        match *self.0.lock().unwrap() {
            Some(until) if tokio::time::Instant::now() <= until => People.entries(entity),
            _ => Err(Error::application("the states have expired")),
        }
    }

    async fn prepare(&self) -> Result<Permission> {
        let until = tokio::time::Instant::now() + Duration::from_secs(1);
        *self.0.lock().unwrap() = Some(until);
        Ok(Permission {
            valid_until: Some(until),
            permit: None,
        })
    }
}

/// A release derives the entries of the owner. A sweep of many reservations takes longer than the states are valid.
#[tokio::test(start_paused = true)]
async fn a_sweep_releases_under_valid_states() -> Result<()> {
    let (world, faults) = (world().await?, FaultInjector::new(1));
    let names = TableName::new("Names")?;
    for (id, name) in [("1", "kim"), ("2", "ken"), ("3", "kay"), ("4", "kai")] {
        world
            .store
            .write(
                world.journal.table(),
                Operation::Insert(person(id, "max", "oslo")?),
            )
            .await?;
        let owned = entry(
            &person(id, name, "oslo")?,
            "Names",
            Key::new(name, "")?,
            "name",
            true,
        )?;
        let write = uuid::Uuid::new_v4();
        let pending = owned
            .to_entity()
            .with("OwnerWrite", write)
            .with("OwnerPending", true);
        world
            .store
            .write(&names, Operation::Insert(pending))
            .await?;
    }
    faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(200))).on(OperationKind::Get));
    let slow = Arc::new(Faulty::new(world.store.clone(), faults));
    let journal = Journal::new(
        slow,
        world.journal.table().clone(),
        Arc::new(Expiring::default()),
    );
    let report = journal.sweep(&[names], Duration::from_secs(86_400)).await?;
    assert_eq!((report.released, report.left), (4, 0), "{report:?}");
    assert!(rows(&world, "Names").await?.is_empty());
    Ok(())
}

/// A server asks by this for the rights that a row needs.
#[test]
fn journal_rows_are_control_rows() -> Result<()> {
    let key = super::WriteId::from_uuid(uuid::Uuid::from_u128(1)).key("p")?;
    assert_eq!(key.row_kind(), table_core::model::RowKind::Control);
    Ok(())
}
