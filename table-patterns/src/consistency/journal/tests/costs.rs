//! The exact number of requests of writes, lookups, recovery and builds.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, Ticks, ValueRef};
use table_core::store::{Operation, OperationKind, Result, TableStore};

use crate::clock::TokioClock;
use crate::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, ScrubMode, Trust,
};
use crate::journal::{Acknowledge, Clearing, Committed, Entries, Recovery};
use crate::queue::{QueueOptions, TableQueue};

struct Office {
    meter: RequestMeter,
    store: Arc<dyn TableStore>,
    queue: Arc<TableQueue>,
}

fn text(entity: &Entity, name: &str) -> Option<String> {
    match entity.get(name) {
        Some(ValueRef::String(text)) => Some(text.to_owned()),
        _ => None,
    }
}

/// An index of references by city, in another table.
fn city() -> Result<Index> {
    let table = TableName::new("Cities")?;
    Ok(Index::new("city", Placement::OtherTable(table), "1", |e| {
        text(e, "City")
            .map(|city| Key::new(city, e.key().row()))
            .transpose()
    }))
}

/// A unique index by name, with full payloads.
fn name() -> Result<Index> {
    let table = TableName::new("Names")?;
    let index = Index::new("name", Placement::OtherTable(table), "1", |e| {
        text(e, "Name").map(|name| Key::new(name, "")).transpose()
    });
    Ok(index.unique_within_table().with_payload(Payload::Full))
}

fn person(id: &str, name: Option<&str>, city: Option<&str>) -> Result<Entity> {
    let mut person = Entity::new("p", id)?;
    for (property, value) in [("Name", name), ("City", city)] {
        if let Some(value) = value {
            person.properties_mut().set(property, value);
        }
    }
    Ok(person)
}

impl Office {
    async fn open() -> Result<Self> {
        let meter = RequestMeter::new();
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
        for table in ["People", "Cities", "Names"] {
            store.create_table(&TableName::new(table)?).await?;
        }
        let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
        let options = QueueOptions {
            clock,
            ..QueueOptions::default()
        };
        let queue =
            Arc::new(TableQueue::open_with(store.clone(), "Work", "journal", options).await?);
        Ok(Self {
            meter,
            store,
            queue,
        })
    }

    async fn people(&self, queued: bool, acknowledge: Acknowledge) -> Result<IndexedEntities> {
        let queue = queued.then(|| self.queue.clone() as _);
        let options = IndexOptions {
            queue,
            acknowledge,
            clearing: Clearing::BeforeAnswer,
            ..IndexOptions::default()
        };
        let indexes = vec![city()?, name()?];
        IndexedEntities::open(
            self.store.clone(),
            TableName::new("People")?,
            indexes,
            options,
        )
        .await
    }

    /// The cost of a write that returns after its remote entries are applied.
    async fn cost(&self, write: impl Future<Output = Result<Committed>>) -> Result<u64> {
        let (committed, cost) = self.meter.measure(write).await;
        assert_eq!(committed?.entries, Entries::Applied);
        Ok(cost.total())
    }
}

/// With a known old state and without contention: 3 + 1 per remote partition, 5 + 1 per remote partition with a queue, 1 more per entry
/// changed or removed, and 2 more per unique value added or removed.
#[tokio::test(start_paused = true)]
async fn a_write_costs_what_is_documented() -> Result<()> {
    for queued in [false, true] {
        let tickets = if queued { 2 } else { 0 };
        let office = Office::open().await?;
        let people = office.people(queued, Acknowledge::Applied).await?;
        let read = async |id: &str| people.get_existing(&Key::new("p", id)?).await;

        let plain = person("1", None, Some("oslo"))?;
        assert_eq!(
            office.cost(people.insert(plain)).await?,
            3 + 1 + tickets,
            "an entry more"
        );
        let old = read("1").await?;
        let moved = people.replace(&old, person("1", None, Some("rome"))?);
        assert_eq!(
            office.cost(moved).await?,
            3 + 3 + tickets,
            "an entry moves, and the old one is read"
        );
        let old = read("1").await?;
        let same = people.replace(&old, old.entity().clone().with("Age", 3));
        assert_eq!(office.cost(same).await?, 1, "no entry changes");
        let old = read("1").await?;
        let gone = people.delete(&old);
        assert_eq!(
            office.cost(gone).await?,
            3 + 2 + tickets,
            "an entry less, which is read"
        );

        let named = people.insert(person("2", Some("ken"), None)?);
        assert_eq!(
            office.cost(named).await?,
            3 + 2 + tickets,
            "a unique value more"
        );
        let old = read("2").await?;
        let renamed = people.replace(&old, person("2", Some("kim"), None)?);
        assert_eq!(
            office.cost(renamed).await?,
            3 + 2 + 2 + tickets,
            "one more, one less"
        );
        let old = read("2").await?;
        let unnamed = people.replace(&old, person("2", None, None)?);
        assert_eq!(office.cost(unnamed).await?, 3 + 2 + tickets, "one less");

        let both = people.insert(person("3", Some("kay"), Some("oslo"))?);
        assert_eq!(office.cost(both).await?, 3 + 2 + 1 + tickets);
        let upsert = people.upsert(person("3", Some("kay"), Some("bonn"))?);
        // The unique row has a full payload: read the row before the commit, write the row.
        assert_eq!(
            office.cost(upsert).await?,
            1 + 3 + 3 + 2 + tickets,
            "read before"
        );
    }
    Ok(())
}

/// 8 + 1 per remote partition, 10 + 1 per remote partition with a queue, 1 more per entry, 3 more per unique value; 4 without remote entries.
#[tokio::test(start_paused = true)]
async fn a_move_costs_what_is_documented() -> Result<()> {
    for queued in [false, true] {
        let tickets = if queued { 2 } else { 0 };
        let office = Office::open().await?;
        let people = office.people(queued, Acknowledge::Applied).await?;
        let away = async |id: &str| {
            let (from, to) = (Key::new("p", id)?, Key::new("q", id)?);
            let (moved, cost) = office
                .meter
                .measure(people.move_to(&from, &people, &to))
                .await;
            moved?;
            assert!(people.get(&from).await?.is_none() && people.get(&to).await?.is_some());
            Ok::<_, table_core::Error>(cost.total())
        };
        people.insert(person("1", None, None)?).await?;
        assert_eq!(
            away("1").await?,
            2 + 4,
            "no entries: two reads to find out, and two writes"
        );
        people.insert(person("2", None, Some("oslo"))?).await?;
        assert_eq!(away("2").await?, 8 + 2 + tickets, "an entry, which is read");
        people.insert(person("3", Some("ken"), None)?).await?;
        assert_eq!(away("3").await?, 8 + 3 + tickets, "a unique value");
        people
            .insert(person("4", Some("kim"), Some("rome"))?)
            .await?;
        assert_eq!(away("4").await?, 8 + 2 + 3 + tickets, "both");
        // Within the partition the row is a pair too: two reads and a write.
        people.insert(person("5", Some("kay"), None)?).await?;
        let (from, to) = (Key::new("p", "5")?, Key::new("p", "6")?);
        let (moved, cost) = office
            .meter
            .measure(people.move_to(&from, &people, &to))
            .await;
        moved?;
        assert_eq!(cost.total(), 2 + 4 + 3 + tickets, "within the partition");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lookup_costs_what_is_documented() -> Result<()> {
    let office = Office::open().await?;
    let people = office.people(false, Acknowledge::Applied).await?;
    for id in ["1", "2", "3"] {
        people
            .insert(person(id, Some(&format!("ken {id}")), Some("oslo"))?)
            .await?;
    }
    let find = |index, key, trust| {
        let (meter, people) = (office.meter.clone(), people.clone());
        async move {
            let (found, cost) = meter.measure(people.find(index, &key, trust)).await;
            assert!(found?.is_some());
            Ok::<_, table_core::Error>(cost.total())
        }
    };
    assert_eq!(find("name", Key::new("ken 1", "")?, Trust::Entry).await?, 1);
    assert_eq!(
        find("name", Key::new("ken 1", "")?, Trust::Entity).await?,
        2
    );
    assert_eq!(find("city", Key::new("oslo", "1")?, Trust::Entry).await?, 2);
    let (all, cost) = office
        .meter
        .measure(people.all("city", &IndexQuery::partition("oslo"), Trust::Entry))
        .await;
    assert_eq!(all?.len(), 3);
    assert_eq!(cost.total(), 1 + 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn recovery_costs_what_is_documented() -> Result<()> {
    let office = Office::open().await?;
    let people = office.people(true, Acknowledge::Committed).await?;
    let (committed, cost) = office
        .meter
        .measure(people.insert(person("1", None, Some("oslo"))?))
        .await;
    assert_eq!(committed?.entries, Entries::Pending);
    assert_eq!(cost.total(), 3 + 2, "ticket, group, row, renewal");
    let worker = Recovery::new(&*office.queue, vec![people.journal()]);
    let (worked, cost) = office.meter.measure(worker.run_once(8)).await;
    assert_eq!(worked?, 1, "tickets");
    assert_eq!(
        cost.total(),
        2 + 1 + 4 + 1 + 1,
        "receive, read, finish, entry, delete"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_sweep_costs_what_is_documented() -> Result<()> {
    let office = Office::open().await?;
    let people = office.people(false, Acknowledge::Committed).await?;
    people.insert(person("1", None, Some("oslo"))?).await?;
    people.insert(person("2", None, Some("rome"))?).await?;
    let names = [TableName::new("Names")?];
    let (swept, cost) = office
        .meter
        .measure(people.journal().sweep(&names, Duration::ZERO))
        .await;
    assert_eq!(swept?.applied, 2);
    // No lease is waited for in a store of one process, so the states of the indexes stay fresh.
    assert_eq!(cost.total(), 2 + 2 * (4 + 1), "two scans, the writes");
    Ok(())
}

/// At most one group per 100 entries of a partition.
#[tokio::test(start_paused = true)]
async fn a_build_writes_groups() -> Result<()> {
    let office = Office::open().await?;
    let table = TableName::new("People")?;
    for n in 0..350 {
        let city = if n < 250 { "oslo" } else { "rome" };
        office
            .store
            .write(
                &table,
                Operation::Insert(person(&format!("{n:03}"), None, Some(city))?),
            )
            .await?;
    }
    let people = office.people(false, Acknowledge::Applied).await?;
    let (built, cost) = office.meter.measure(people.build("city")?.run()).await;
    let built = built?;
    assert_eq!(built.entities, 350);
    assert_eq!(built.entries, 350);
    assert_eq!(built.groups, 3 + 1);
    assert_eq!(
        cost.of_kind(OperationKind::Transact),
        1 + 1 + 3 + 1,
        "the consent, the declaration, and the groups of entries"
    );
    let report = people.scrub("city", ScrubMode::Report).await?;
    assert_eq!(report.entries, 350);
    assert_eq!(report.dangling, 0);
    assert_eq!(report.missing, 0);
    Ok(())
}
