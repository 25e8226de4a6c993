//! Upkeep by a program that knows nothing of the tables but their names.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::join;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, MANIFEST_PARTITION, TableName, Ticks};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Result, TableStore, TableStoreExt as _};
use tokio::time::{Instant, sleep, timeout};

use super::{Due, Part, Upkeep, UpkeepReport};
use crate::clock::TokioClock;
use crate::eventual::{Coordinator, EventualTransaction, Place, Resources};
use crate::index::{
    Index, IndexOptions, IndexState, IndexedEntities, Overflow, Placement, ScrubMode, Shape,
};
use crate::journal::{Acknowledge, Clearing, Entries, Timing};
use crate::queue::{QueueOptions, TableQueue};

mod large;
mod transactions;

const ROUND: Duration = Duration::from_secs(60);

struct World {
    store: Arc<dyn TableStore>,
    meter: RequestMeter,
    table: TableName,
}

impl World {
    /// A store that only this process writes.
    async fn alone() -> Result<Self> {
        let meter = RequestMeter::new();
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
        let table = TableName::new("People")?;
        store.create_table(&table).await?;
        Ok(Self {
            store,
            meter,
            table,
        })
    }

    /// As on a service: processes that are not seen here may write it, so that changes of states wait and builders have leases.
    async fn new() -> Result<Self> {
        let world = Self::alone().await?;
        let writers = world.store.context().local_writers();
        writers.expect("a store of this process").serve();
        Ok(world)
    }

    async fn open(&self, indexes: &[Index]) -> Result<IndexedEntities> {
        self.open_with(
            indexes,
            IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
        )
        .await
    }

    async fn open_with(&self, indexes: &[Index], options: IndexOptions) -> Result<IndexedEntities> {
        IndexedEntities::open(
            self.store.clone(),
            self.table.clone(),
            indexes.to_vec(),
            options,
        )
        .await
    }

    fn upkeep(&self) -> Upkeep {
        let upkeep = Upkeep::new(self.store.clone())
            .tables(["People"])
            .with_options(IndexOptions::local());
        upkeep.every(ROUND).keep(Duration::ZERO)
    }

    async fn put(&self, entity: Entity) -> Result<()> {
        self.store
            .write(&self.table, Operation::InsertOrReplace(entity))
            .await
            .map(drop)
    }

    async fn delete(&self, key: Key) -> Result<()> {
        self.store
            .write(&self.table, Operation::Delete(key, IfMatch::Any))
            .await
            .map(drop)
    }

    async fn rows(&self, filter: Filter) -> Result<usize> {
        Ok(self
            .store
            .query_all(&self.table, &Query::new().with_filter(filter))
            .await?
            .len())
    }
}

fn by_city() -> Index {
    Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}").unwrap()
}

fn by_email() -> Index {
    let index = Index::keyed("email", Placement::OtherPartition, "email_{Email}", "email").unwrap();
    index.unique_within_table()
}

fn opaque() -> Index {
    Index::new("opaque", Placement::OtherPartition, "1", |entity| {
        Key::new("opaque", entity.key().row()).map(Some)
    })
}

fn key(id: usize) -> Key {
    Key::new("p", format!("{id:04}")).unwrap()
}

fn person(id: usize, city: &str) -> Entity {
    Entity::from(key(id))
        .with("City", city)
        .with("Email", format!("{id}@x"))
}

async fn assert_in_step(entities: &IndexedEntities, index: &str, entries: usize) -> Result<()> {
    entities.refresh().await?;
    assert_eq!(entities.state(index), IndexState::Readable, "{index}");
    let scrub = entities.scrub(index, ScrubMode::Report).await?;
    let found = (
        scrub.entries,
        scrub.dangling,
        scrub.missing,
        scrub.taken_keys,
    );
    assert_eq!(found, (entries, 0, 0, 0), "{index}");
    Ok(())
}

fn index<'a>(report: &'a UpkeepReport, index: &Index) -> &'a super::IndexUpkeep {
    let table = report.tables.values().next().unwrap();
    assert!(table.error.is_none(), "{:?}", table.error);
    &table.indexes[index.id()]
}

/// The documented cost: the manifest, and a page of each scanned table.
#[tokio::test(start_paused = true)]
async fn an_idle_round_costs_what_is_said() -> Result<()> {
    for (indexes, a_round, opening) in [
        (vec![], 1, 0),
        (vec![by_city()], 2, 3),
        (vec![by_city(), by_email()], 3, 3),
    ] {
        let world = World::new().await?;
        if !indexes.is_empty() {
            world
                .open(&indexes)
                .await?
                .insert(person(1, "oslo"))
                .await?;
        }
        let upkeep = world.upkeep().scrub_every(None);
        let before = world.meter.total();
        let report = upkeep.run(sleep(ROUND * 9 + ROUND / 2)).await?;
        let table = &report.tables[&world.table];
        assert_eq!(table.rounds, 10);
        assert_eq!(table.has_manifest, !indexes.is_empty());
        // Its row is written again in each round but the first, and that of the process that has written is removed.
        let registered = if indexes.is_empty() { 0 } else { 9 + 1 };
        assert_eq!(
            world.meter.total() - before,
            opening + 10 * a_round + registered,
            "{indexes:?}"
        );
        assert_eq!(report.due().count(), 0, "{report:?}");
        assert_eq!(report.errors().count(), 0, "{report:?}");
    }
    Ok(())
}

/// An upkeep that reads a table first does not prevent that the first program has readable indexes at once.
#[tokio::test(start_paused = true)]
async fn a_table_without_indexes_is_left_as_it_is() -> Result<()> {
    let world = World::new().await?;
    world.upkeep().run_once().await?;
    assert_eq!(
        world
            .rows(Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION))
            .await?,
        0
    );
    assert_eq!(
        world.open(&[by_city()]).await?.state("city"),
        IndexState::Readable
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_that_died_is_finished() -> Result<()> {
    let world = World::new().await?;
    let options = IndexOptions {
        acknowledge: Acknowledge::Committed,
        ..IndexOptions::local()
    };
    let people = world.open_with(&[by_city(), by_email()], options).await?;
    for id in 0..3 {
        assert_eq!(
            people.insert(person(id, "oslo")).await?.entries,
            Entries::Pending
        );
    }
    let report = world.upkeep().scrub_every(None).run_once().await?;
    let table = &report.tables[&world.table];
    assert_eq!(table.swept.applied, 3, "{report:?}");
    assert_eq!(table.swept.left, 0, "{report:?}");
    assert_eq!(table.sweeps, 1, "{report:?}");
    assert_eq!(world.rows(Filter::eq("OwnerPending", true)).await?, 0);
    assert_in_step(&people, "city", 3).await?;
    assert_in_step(&people, "email", 3).await
}

/// A reservation of a write that was given up is released in the table that the manifest names.
#[tokio::test(start_paused = true)]
async fn reservations_are_released_where_the_manifest_says() -> Result<()> {
    let world = World::new().await?;
    let emails = TableName::new("Emails")?;
    world.store.create_table(&emails).await?;
    let elsewhere = Index::keyed(
        "email",
        Placement::OtherTable(emails.clone()),
        "email_{Email}",
        "email",
    )?;
    let elsewhere = elsewhere.unique_within_table();
    let people = world.open(&[elsewhere]).await?;
    people.insert(person(1, "oslo")).await?;
    // A reservation of a write that never committed: another address, of an employee without it.
    let settled = world
        .store
        .query_all(
            &emails,
            &Query::new().with_filter(Filter::eq("OwnerPending", false)),
        )
        .await?;
    let mut reserved = Entity::new("email_9@x", "email")?;
    for property in settled[0].properties().iter() {
        reserved
            .properties_mut()
            .set(property.name(), property.value().to_owned());
    }
    reserved.properties_mut().set("OwnerPending", true);
    world
        .store
        .write(&emails, Operation::Insert(reserved))
        .await?;
    let report = world.upkeep().run_once().await?;
    assert_eq!(report.tables[&world.table].swept.released, 1, "{report:?}");
    assert_in_step(&people, "email", 1).await
}

/// Builds that crashed in each of the states are finished, and programs can use the index.
#[tokio::test(start_paused = true)]
async fn an_interrupted_build_is_ended() -> Result<()> {
    for died_in in [
        IndexState::DeleteOnly,
        IndexState::WriteOnly,
        IndexState::Building,
    ] {
        for index_of in [by_city(), by_email()] {
            let world = World::new().await?;
            let before = world.open(&[]).await?;
            for id in 0..20 {
                before.insert(person(id, "oslo")).await?;
            }
            let people = world.open(std::slice::from_ref(&index_of)).await?;
            die_in(&people, index_of.name(), died_in).await?;
            people.refresh().await?;
            assert_eq!(people.state(index_of.id()), died_in);
            let report = world.upkeep().run_once().await?;
            let built = index(&report, &index_of);
            assert_eq!(built.built, 1, "{died_in}: {report:?}");
            assert_eq!(built.state, IndexState::Readable, "{died_in}: {report:?}");
            assert!(built.due.is_none(), "{:?}", built.due);
            assert_in_step(&people, index_of.name(), 20).await?;
        }
    }
    Ok(())
}

/// Builds until a state is reported, or stops before.
async fn die_in(people: &IndexedEntities, index: &str, state: IndexState) -> Result<()> {
    let id = people.build(index)?;
    let mut build = Box::pin(id.run());
    loop {
        let step = timeout(Duration::from_millis(10), &mut build).await;
        assert!(step.is_err(), "the build ended before it died");
        let declared = people.declared().await?;
        if declared
            .iter()
            .any(|stored| stored.name == index && stored.state == state)
        {
            return Ok(());
        }
    }
}

/// A builder that lives, however slow its windows are, is left alone, and so is one of two upkeeps.
#[tokio::test(start_paused = true)]
async fn one_builds_and_the_others_leave_it() -> Result<()> {
    let world = World::new().await?;
    let before = world.open(&[]).await?;
    for id in 0..20 {
        before.insert(person(id, "oslo")).await?;
    }
    let people = world.open(&[by_city()]).await?;
    let upkeep = world
        .upkeep()
        .scrub_every(None)
        .every(Duration::from_millis(50));
    let program = async {
        sleep(Duration::from_millis(20)).await;
        people.build("city")?.run().await
    };
    let (built, report) = join!(program, upkeep.run(sleep(ROUND)));
    assert_eq!(built?.state, IndexState::Readable);
    assert_eq!(index(&report?, &by_city()).built, 0);

    people.drop_index("city").await?;
    die_in(&people, "city", IndexState::WriteOnly).await?;
    let (first, second) = join!(upkeep.run_once(), upkeep.run_once());
    let (first, second) = (first?, second?);
    let built = [&first, &second].map(|report| index(report, &by_city()).built);
    assert_eq!(built.iter().sum::<usize>(), 1);
    let left = if built[0] == 1 { &second } else { &first };
    assert!(
        matches!(index(left, &by_city()).due, Some(Due::BuiltElsewhere)),
        "{left:?}"
    );
    assert_eq!(left.due().count(), 1);
    assert_in_step(&people, "city", 20).await
}

/// An index whose drop has begun is dropped and not built. An index that is built again after its drop stays.
#[tokio::test(start_paused = true)]
async fn an_interrupted_removal_is_ended() -> Result<()> {
    for state in [IndexState::WriteOnly, IndexState::DeleteOnly] {
        let world = World::new().await?;
        let people = world.open(&[by_city()]).await?;
        for id in 0..20 {
            people.insert(person(id, "oslo")).await?;
        }
        let mut removal = Box::pin(people.drop_index("city"));
        while people.declared().await?[0].state != state {
            assert!(
                timeout(Duration::from_millis(10), &mut removal)
                    .await
                    .is_err()
            );
        }
        drop(removal);
        assert!(people.declared().await?[0].is_dropping());
        let report = world.upkeep().run_once().await?;
        let dropped = index(&report, &by_city());
        assert_eq!(dropped.dropped, 1, "{state}");
        assert_eq!(dropped.built, 0, "{state}");
        assert_eq!(dropped.state, IndexState::Absent, "{state}");
        assert_eq!(
            world.rows(Filter::eq("IndexName", by_city().id())).await?,
            0
        );
        assert_eq!(people.declared().await?.len(), 0);
        assert_eq!(report.due().count(), 0);
    }
    // While a program rebuilds its index repeatedly.
    let world = World::new().await?;
    let people = world.open(&[by_city()]).await?;
    people.insert(person(1, "oslo")).await?;
    let upkeep = world
        .upkeep()
        .scrub_every(None)
        .every(Duration::from_millis(30));
    let rebuilds = async {
        for _ in 0..20 {
            people.rebuild("city").await?.run().await?;
            sleep(Duration::from_millis(70)).await;
        }
        Ok::<_, table_core::Error>(())
    };
    let (rebuilt, report) = join!(rebuilds, upkeep.run(sleep(ROUND)));
    rebuilt?;
    assert_eq!(report?.errors().count(), 0);
    assert_in_step(&people, "city", 1).await
}

/// Of several processes one scrubs, and the next one not before the interval is over.
#[tokio::test(start_paused = true)]
async fn entries_are_repaired_by_one_of_several() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(&[by_city(), by_email()]).await?;
    for id in 0..10 {
        people.insert(person(id, "oslo")).await?;
    }
    world.delete(Key::new("city_oslo", "0003")?).await?;
    world.delete(key(5)).await?;
    let upkeep = world.upkeep();
    let (first, second) = join!(upkeep.run_once(), upkeep.run_once());
    let reports = [first?, second?];
    let sum = |of: &dyn Fn(&UpkeepReport) -> usize| reports.iter().map(of).sum::<usize>();
    assert_eq!(sum(&|report| index(report, &by_city()).scrubs), 1);
    assert_eq!(sum(&|report| index(report, &by_city()).scrubbed.missing), 1);
    assert_eq!(
        sum(&|report| index(report, &by_city()).scrubbed.dangling),
        1
    );
    assert_eq!(
        sum(&|report| index(report, &by_email()).scrubbed.dangling),
        1
    );
    assert_in_step(&people, "city", 9).await?;
    assert_in_step(&people, "email", 9).await?;

    world.delete(Key::new("city_oslo", "0004")?).await?;
    assert_eq!(
        index(&world.upkeep().run_once().await?, &by_city()).scrubs,
        0,
        "not yet"
    );
    let report = world
        .upkeep()
        .scrub_every(Duration::ZERO)
        .run_once()
        .await?;
    assert_eq!(index(&report, &by_city()).scrubbed.missing, 1);
    assert_in_step(&people, "city", 9).await
}

fn of_type(name: &str, index: Index) -> Index {
    index.with_discriminator("EntityType", name.to_owned())
}

fn typed(id: usize, name: &str) -> Entity {
    person(id, "oslo").with("EntityType", name)
}

/// Two types in one table; of one of them an index that only a program with its code maintains.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_due_and_stops_nothing_else() -> Result<()> {
    let world = World::new().await?;
    let employees = of_type("Employee", by_city());
    let opaque = of_type("Employee", opaque());
    let by_place = Index::keyed(
        "place",
        Placement::OtherPartition,
        "place_{City}",
        "{RowKey}",
    )?;
    let customers = of_type("Customer", by_place);
    let all = [employees.clone(), opaque.clone(), customers.clone()];
    let program = world.open(&all).await?;
    for id in 0..4 {
        program.insert(typed(id, "Employee")).await?;
        program.insert(typed(10 + id, "Customer")).await?;
    }
    for entry in [("city_oslo", "0001"), ("place_oslo", "0011")] {
        world.delete(Key::new(entry.0, entry.1)?).await?;
    }
    world.delete(key(2)).await?;

    let report = world.upkeep().run_once().await?;
    let [of_employees, of_code, of_customers] = all.each_ref().map(|of| index(&report, of));
    assert!(matches!(of_code.due, Some(Due::Opaque)), "{of_code:?}");
    assert_eq!(of_code.scrubs, 0);
    assert_eq!(of_code.state, IndexState::Readable);
    assert!(
        matches!(of_employees.due, Some(Due::NotRepaired(1))),
        "{of_employees:?}"
    );
    assert_eq!(of_employees.scrubbed.dangling, 1);
    assert_eq!(of_employees.scrubbed.missing, 1);
    assert_eq!(of_customers.scrubbed.missing, 1);
    assert!(of_customers.due.is_none());
    assert_eq!(report.due().count(), 2);
    assert_eq!(report.errors().count(), 0);
    assert!(
        report.due().all(|(table, _, due)| {
            *table == world.table && !due.unwrap().to_string().is_empty()
        })
    );
    assert_in_step(&program, "place", 4).await?;
    let left = program.scrub("city", ScrubMode::Report).await?;
    assert_eq!(left.dangling, 0, "the program with the code does the rest");
    assert_eq!(left.missing, 1, "the program with the code does the rest");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn newer_formats_and_missing_blobs_are_due() -> Result<()> {
    let world = World::new().await?;
    let list = by_city().with_shape(Shape::List {
        bytes: 256,
        overflow: Overflow::Blob,
    });
    let blobs = Arc::new(object_store::memory::InMemory::new());
    let with_blobs = IndexOptions {
        blobs: Some(blobs),
        ..IndexOptions::local()
    };
    let people = world
        .open_with(&[list.clone(), by_email()], with_blobs.clone())
        .await?;
    people.insert(person(1, "oslo")).await?;
    let newer = people
        .declared()
        .await?
        .into_iter()
        .find(|stored| stored.name == "email")
        .unwrap();
    let format = Entity::from(newer.key()?).with("Format", 99);
    world
        .store
        .write(&world.table, Operation::Merge(format, IfMatch::Any))
        .await?;

    let report = world.upkeep().run_once().await?;
    assert!(
        matches!(index(&report, &list).due, Some(Due::NoBlobs)),
        "{report:?}"
    );
    assert!(
        matches!(
            index(&report, &by_email()).due,
            Some(Due::Newer { format: 99 })
        ),
        "{report:?}"
    );
    let report = world.upkeep().with_options(with_blobs).run_once().await?;
    assert!(index(&report, &list).due.is_none(), "{report:?}");
    assert_eq!(index(&report, &list).scrubs, 1);
    Ok(())
}

/// The report names them; once they are gone, the next attempt builds.
#[tokio::test(start_paused = true)]
async fn duplicates_are_due_until_they_are_gone() -> Result<()> {
    let world = World::new().await?;
    let before = world.open(&[]).await?;
    for id in 0..4 {
        before
            .insert(person(id, "oslo").with("Email", format!("{}@x", id % 3)))
            .await?;
    }
    let people = world.open(&[by_email()]).await?;
    die_in(&people, "email", IndexState::Building).await?;
    let told = Arc::new(Mutex::new(Vec::new()));
    let upkeep = world.upkeep().scrub_every(None).on_round({
        let told = told.clone();
        move |report| {
            let due = report.due().next().and_then(|(_, _, due)| due.cloned());
            told.lock()
                .unwrap()
                .push(matches!(due, Some(Due::Duplicates(found)) if found.len() == 1));
        }
    });
    let program = async {
        sleep(ROUND * 10).await;
        world.delete(key(3)).await
    };
    let (report, deleted) = join!(upkeep.run(sleep(ROUND * 40)), program);
    deleted?;
    let report = report?;
    let built = index(&report, &by_email());
    assert_eq!(built.built, 1);
    assert_eq!(built.state, IndexState::Readable);
    assert!(built.due.is_none());
    let told = told.lock().unwrap().clone();
    assert!(told[0], "{told:?}");
    assert!(told[1], "{told:?}");
    assert_eq!(told.last(), Some(&false), "{told:?}");
    assert_in_step(&people, "email", 3).await
}

/// In a store that only this process writes, every other builder is dead, so nothing waits for its lease.
#[tokio::test(start_paused = true)]
async fn a_local_store_has_no_wait_for_a_dead_builder() -> Result<()> {
    for state in [IndexState::DeleteOnly, IndexState::Building] {
        let world = World::alone().await?;
        let before = world.open(&[]).await?;
        for id in 0..4 {
            before
                .insert(person(id, "oslo").with("Email", format!("{}@x", id % 3)))
                .await?;
        }
        let people = world.open(&[by_email()]).await?;
        if state == IndexState::Building {
            let failed = people.build("email")?.run().await.unwrap_err();
            assert!(failed.to_string().contains("same value"), "{failed}");
        } else {
            let writers = world
                .store
                .context()
                .local_writers()
                .expect("a local store");
            let _held = writers.enter();
            die_in(&people, "email", state).await?;
        }
        let started = Instant::now();
        let report = world.upkeep().run_once().await?;
        let due = &index(&report, &by_email()).due;
        assert!(
            matches!(due, Some(Due::Duplicates(found)) if found.len() == 1),
            "{due:?}"
        );
        world.delete(key(3)).await?;
        let report = world.upkeep().run_once().await?;
        assert_eq!(index(&report, &by_email()).built, 1);
        // The clock of the test moves by waits alone.
        assert_eq!(started.elapsed(), Duration::ZERO, "{state}");
        assert_in_step(&people, "email", 3).await?;
    }
    Ok(())
}

/// A builder of this process is not replaced, also before its index is *building*.
#[tokio::test(start_paused = true)]
async fn a_local_store_leaves_a_live_builder() -> Result<()> {
    let world = World::alone().await?;
    let before = world.open(&[]).await?;
    before.insert(person(1, "oslo")).await?;
    let people = world.open(&[by_city()]).await?;
    // A state change waits for this write.
    let writers = world
        .store
        .context()
        .local_writers()
        .expect("a local store");
    let write = writers.enter();
    let end_write = async {
        sleep(Duration::from_millis(10)).await;
        drop(write);
    };
    let build = people.build("city")?.run();
    let upkeep = world.upkeep();
    let (built, report, ()) = join!(build, upkeep.run_once(), end_write);
    assert_eq!(built?.state, IndexState::Readable);
    assert_eq!(index(&report?, &by_city()).built, 0);
    assert_in_step(&people, "city", 1).await
}

#[tokio::test(start_paused = true)]
async fn tickets_are_worked_on_as_they_come() -> Result<()> {
    let world = World::new().await?;
    let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
    let of_queue = QueueOptions {
        clock,
        ..QueueOptions::default()
    };
    let queue = TableQueue::open_with(world.store.clone(), "Work", "tickets", of_queue).await?;
    let mut options = IndexOptions::local();
    options.queue = Some(Arc::new(queue));
    options.acknowledge = Acknowledge::Committed;
    let people = world.open_with(&[by_city()], options.clone()).await?;
    let upkeep = world
        .upkeep()
        .with_options(options.clone())
        .every(ROUND * 60);
    let program = async {
        sleep(ROUND).await;
        for id in 0..5 {
            people.insert(person(id, "oslo")).await?;
        }
        sleep(ROUND).await;
        assert_in_step(&people, "city", 5).await
    };
    let (report, done) = join!(upkeep.run(sleep(ROUND * 3)), program);
    done?;
    let report = report?;
    assert_eq!(report.tickets, 5);
    assert_eq!(report.tables[&world.table].rounds, 1);

    people.insert(person(7, "oslo")).await?;
    sleep(ROUND).await;
    let report = world.upkeep().with_options(options).run_once().await?;
    assert_eq!(report.tickets, 1);
    assert!(report.queue_error.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_table_that_fails_stops_no_other() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(&[by_city()]).await?;
    people.insert(person(1, "oslo")).await?;
    world.delete(Key::new("city_oslo", "0001")?).await?;
    let missing = TableName::new("Missing")?;
    let upkeep = world.upkeep().tables(["Missing"]);
    let report = upkeep.run_once().await?;
    assert!(
        report.tables[&missing]
            .error
            .as_ref()
            .unwrap()
            .is_table_not_found()
    );
    assert_eq!(report.errors().count(), 1);
    assert_eq!(report.tables[&missing].rounds, 1);
    assert_eq!(
        report.tables[&world.table].indexes[by_city().id()]
            .scrubbed
            .missing,
        1
    );

    // The table exists later, and is deleted and created again.
    let program = async {
        sleep(ROUND / 2).await;
        for _ in 0..2 {
            world.store.create_table(&missing).await?;
            IndexedEntities::open(
                world.store.clone(),
                missing.clone(),
                vec![by_city()],
                IndexOptions::local(),
            )
            .await?;
            sleep(ROUND * 2).await;
            world.store.delete_table(&missing).await?;
        }
        world.store.create_table(&missing).await
    };
    let (report, done) = join!(upkeep.run(sleep(ROUND * 6)), program);
    done?;
    let report = report?;
    assert_eq!(report.errors().count(), 0, "{report:?}");
    assert!(
        !report.tables[&missing].has_manifest && report.tables[&missing].sweeps >= 3,
        "{report:?}"
    );
    Ok(())
}

/// Work in progress is dropped after the longest life of a request. The next round finishes dropped work.
#[tokio::test(start_paused = true)]
async fn a_stop_is_bounded() -> Result<()> {
    let world = World::new().await?;
    let before = world.open(&[]).await?;
    for id in 0..20 {
        before.insert(person(id, "oslo")).await?;
    }
    let people = world.open(&[by_city()]).await?;
    die_in(&people, "city", IndexState::WriteOnly).await?;
    let lasts = Duration::from_millis(500);
    for stops in [Duration::ZERO, lasts, lasts * 2, lasts * 3] {
        let began = Instant::now();
        world.upkeep().run(sleep(stops)).await?;
        let late = began.elapsed() - stops;
        assert!(
            late <= IndexOptions::local().timing.request() + Duration::from_millis(10),
            "{late:?}"
        );
    }
    let report = world.upkeep().run_once().await?;
    assert_eq!(
        index(&report, &by_city()).state,
        IndexState::Readable,
        "{report:?}"
    );
    assert_in_step(&people, "city", 20).await
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() -> Result<()> {
    let store = MemoryStore::new();
    let errors = [
        Upkeep::new(store.clone()).run_once().await,
        Upkeep::new(store.clone())
            .tables(["no name"])
            .run_once()
            .await,
        Upkeep::new(store.clone())
            .tables(["People"])
            .transaction_tables(["1"])
            .run(sleep(ROUND))
            .await,
        Upkeep::new(store)
            .tables(["People"])
            .with_options(IndexOptions {
                cache: Duration::ZERO,
                ..IndexOptions::local()
            })
            .run_once()
            .await,
    ];
    assert!(errors.iter().all(Result::is_err), "{errors:?}");
    Ok(())
}

/// In the time of the system, by which stores write timestamps.
#[tokio::test]
async fn finished_transactions_are_forgotten() -> Result<()> {
    let world = World::new().await?;
    world.put(person(1, "oslo")).await?;
    let queue = Arc::new(TableQueue::open(world.store.clone(), "Work", "transactions").await?);
    let resources = Resources::new().with_store("here", world.store.clone());
    let coordinator =
        Coordinator::open(world.store.clone(), "Transactions", queue, resources).await?;
    let to = Place::new("here", world.table.clone(), key(2));
    let transaction =
        EventualTransaction::new().move_entity(Place::new("here", world.table.clone(), key(1)), to);
    coordinator
        .submit(&transaction, Acknowledge::Committed)
        .await?;
    let mut options = IndexOptions::local();
    let millis = Duration::from_millis;
    options.timing = Timing::new(millis(40), millis(10), Duration::ZERO)?;
    let upkeep = Upkeep::new(world.store.clone()).transaction_tables(["Transactions", "Missing"]);
    let upkeep = upkeep.with_options(options).keep(Duration::ZERO);
    let transactions = TableName::new("Transactions")?;
    for (finished, removed) in [(false, 0), (true, 1)] {
        if finished {
            coordinator.run_once(1).await?;
        }
        sleep(millis(100)).await;
        let report = upkeep.run_once().await?;
        let heads = &report.transactions[&transactions];
        assert_eq!(heads.sweeps, 1, "{report:?}");
        assert_eq!(heads.removed, removed, "{report:?}");
        assert_eq!(report.errors().count(), 1, "the one that is missing");
    }
    Ok(())
}

/// Rows that others planted neither keep a round from ending nor count as healthy.
#[tokio::test(start_paused = true)]
async fn planted_rows_are_due_and_no_round_waits_for_them() -> Result<()> {
    let planted = |row: &str, lease: i64| -> Result<Entity> {
        let row = Entity::new("p", row)?
            .with("JournalKind", "write")
            .with("JournalLease", lease);
        Ok(row
            .with("JournalRows0", b"[]".as_slice())
            .with("JournalTouched0", b"[]".as_slice()))
    };
    let id = "~~j_0123456789abcdef0123456789abcdef";
    let process = Entity::new(
        MANIFEST_PARTITION,
        "process~0123456789abcdef0123456789abcdef",
    )?;
    let process = ["Cache", "Request", "Lease", "Heartbeat"]
        .into_iter()
        .fold(process, |row, name| row.with(name, i64::MAX));
    let rows = [
        (planted(id, i64::MAX)?, 1),
        (planted(id, 3_600_001)?, 1),
        (planted(id, -1)?, 1),
        (planted("~~j_zz", 1000)?, 1),
        (Entity::new("p", id)?.with("JournalKind", "x"), 1),
        (person(7, "rome").with("EntityMoveTo", "q"), 1),
        (process, 0),
    ];
    for (row, expected) in rows {
        let world = World::new().await?;
        world
            .open(&[by_city()])
            .await?
            .insert(person(1, "oslo"))
            .await?;
        let key = row.key().clone();
        world.put(row).await?;
        let start = Instant::now();
        let report = world.upkeep().run_once().await?;
        assert!(start.elapsed() < ROUND, "{key}: {:?}", start.elapsed());
        let due = report
            .due()
            .filter(|(_, part, _)| matches!(part, Part::Write(_)));
        let due: Vec<_> = due
            .map(|(_, part, due)| (part.to_string(), due.cloned()))
            .collect();
        assert_eq!(due.len(), expected, "{key}: {due:?}");
        if let Some((part, reason)) = due.first() {
            assert!(part.contains(&key.to_string()), "{part}");
            assert!(matches!(reason, Some(Due::Damaged(_))), "{reason:?}");
        }
        // A state change does not wait for a planted process either.
        let dropped = world.open(&[by_city()]).await?.drop_index("city").await;
        assert!(dropped.is_ok() || expected == 1, "{key}: {dropped:?}");
        assert!(start.elapsed() < ROUND * 10, "{key}: {:?}", start.elapsed());
    }
    Ok(())
}
