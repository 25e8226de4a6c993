//! What a program waits for: the round trips of a write until its answer, beside its requests. Every request takes 10
//! milliseconds of virtual time, so that the time of a write says how many requests came one after the other.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, Ticks, ValueRef};
use table_core::query::Query;
use table_core::store::{Result, TableStore, TableStoreExt as _};
use tokio::time::Instant;

use crate::clock::TokioClock;
use crate::index::{Index, IndexOptions, IndexedEntities, Placement};
use crate::journal::{Acknowledge, Clearing, Committed, is_journal_row};
use crate::queue::{QueueOptions, TableQueue};

/// The time of a request.
const REQUEST: Duration = Duration::from_millis(10);

/// The remote indexes of a table: the numbers of plain and of unique ones.
#[derive(Clone, Copy, Debug)]
struct Indexes {
    plain: usize,
    unique: usize,
}

/// The cost of a write until its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    requests: u64,
    round_trips: u64,
}

const fn cost(requests: u64, round_trips: u64) -> Cost {
    Cost {
        requests,
        round_trips,
    }
}

/// A table with remote indexes, in a store whose requests take their time.
struct Distance {
    meter: RequestMeter,
    people: IndexedEntities,
}

impl Distance {
    async fn open(indexes: Indexes, options: IndexOptions, queued: bool) -> Result<Self> {
        let faults = FaultInjector::new(1);
        let meter = RequestMeter::new();
        let slow = Faulty::new(MemoryStore::new(), faults.clone());
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(slow, meter.clone()));
        for table in ["People", "Others"] {
            store.create_table(&TableName::new(table)?).await?;
        }
        let clock = Arc::new(TokioClock::starting_at(Ticks::now()));
        let work = QueueOptions {
            clock,
            ..QueueOptions::default()
        };
        let work = TableQueue::open_with(store.clone(), "Work", "journal", work).await?;
        let queue = queued.then(|| Arc::new(work) as _);
        let options = IndexOptions { queue, ..options };
        let indexes = indexes.all()?;
        let people =
            IndexedEntities::open(store, TableName::new("People")?, indexes, options).await?;
        faults.add(FaultRule::new(Fault::Delay(REQUEST)));
        Ok(Self { meter, people })
    }

    /// The cost of a write until its answer.
    async fn cost(&self, write: impl Future<Output = Result<Committed>>) -> Result<Cost> {
        let sent = Instant::now();
        let (written, counts) = self.meter.measure(write).await;
        written?;
        // The meter tells what the clock shows.
        assert_eq!(
            sent.elapsed(),
            REQUEST * u32::try_from(counts.round_trips()).unwrap()
        );
        Ok(Cost {
            requests: counts.total(),
            round_trips: counts.round_trips(),
        })
    }

    /// The costs of an insert, of an update of all keys and a delete that read the entity first, and of the same two
    /// where the old value is known.
    async fn costs(&self) -> Result<[Cost; 5]> {
        let key = Key::new("p", "1")?;
        let insert = self.cost(self.people.insert(person("a")?)).await?;
        let update = self.cost(self.people.upsert(person("b")?)).await?;
        let delete = self.cost(self.people.modify(&key, |_| Ok(None))).await?;
        self.people.insert(person("a")?).await?;
        let old = self.people.get_existing(&key).await?;
        let known_update = self.cost(self.people.replace(&old, person("b")?)).await?;
        let old = self.people.get_existing(&key).await?;
        let known_delete = self.cost(self.people.delete(&old)).await?;
        Ok([insert, update, delete, known_update, known_delete])
    }
}

impl Indexes {
    fn all(self) -> Result<Vec<Index>> {
        let index = |name: String, is_unique: bool| {
            let keys = name.clone();
            let index = Index::new(
                name,
                Placement::OtherTable(TableName::new("Others")?),
                "1",
                move |e| {
                    let row = if is_unique { "" } else { e.key().row() };
                    match e.get("Value") {
                        Some(ValueRef::String(value)) => {
                            Key::new(format!("{keys} {value}"), row).map(Some)
                        }
                        _ => Ok(None),
                    }
                },
            );
            Ok(if is_unique {
                index.unique_within_table()
            } else {
                index
            })
        };
        let plain = (0..self.plain).map(|n| index(format!("plain{n}"), false));
        plain
            .chain((0..self.unique).map(|n| index(format!("unique{n}"), true)))
            .collect()
    }
}

fn person(value: &str) -> Result<Entity> {
    Ok(Entity::new("p", "1")?.with("Value", value))
}

async fn costs(indexes: Indexes, queued: bool) -> Result<[Cost; 5]> {
    let options = IndexOptions {
        clearing: Clearing::BeforeAnswer,
        ..IndexOptions::default()
    };
    Distance::open(indexes, options, queued)
        .await?
        .costs()
        .await
}

/// An insert; an update of all keys and a delete with the read before; the same two where the old value is known.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_cleared_first_waits_for_these_round_trips() -> Result<()> {
    let indexes = |plain, unique| costs(Indexes { plain, unique }, false);
    assert_eq!(
        indexes(0, 0).await?,
        [cost(1, 1), cost(2, 2), cost(2, 2), cost(1, 1), cost(1, 1)]
    );
    assert_eq!(
        indexes(1, 0).await?,
        [cost(4, 4), cost(7, 6), cost(6, 6), cost(6, 5), cost(5, 5)]
    );
    assert_eq!(
        indexes(3, 0).await?,
        [
            cost(6, 4),
            cost(13, 6),
            cost(10, 6),
            cost(12, 5),
            cost(9, 5)
        ]
    );
    assert_eq!(
        indexes(0, 1).await?,
        [cost(5, 5), cost(8, 6), cost(6, 6), cost(7, 5), cost(5, 5)]
    );
    assert_eq!(
        indexes(2, 2).await?,
        [
            cost(9, 5),
            cost(18, 7),
            cost(12, 7),
            cost(17, 6),
            cost(11, 6)
        ]
    );
    Ok(())
}

/// With a queue, the ticket comes before everything else, and is deleted last.
#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_cleared_first_takes_two_round_trips_more() -> Result<()> {
    let indexes = |plain, unique| costs(Indexes { plain, unique }, true);
    assert_eq!(
        indexes(1, 0).await?,
        [cost(6, 6), cost(9, 8), cost(8, 8), cost(8, 7), cost(7, 7)]
    );
    assert_eq!(
        indexes(2, 2).await?,
        [
            cost(11, 7),
            cost(20, 9),
            cost(14, 9),
            cost(19, 8),
            cost(13, 8)
        ]
    );
    Ok(())
}

/// What follows the answer is cleared in the background: the wait is shorter, and the requests are the same.
#[tokio::test(start_paused = true)]
async fn a_write_waits_for_these_round_trips() -> Result<()> {
    let later = IndexOptions::default;
    let waits = async |plain, unique, queued| {
        let distance = Distance::open(Indexes { plain, unique }, later(), queued).await?;
        let costs = distance.costs().await?;
        Ok::<_, table_core::Error>(costs.map(|cost| cost.round_trips))
    };
    assert_eq!(waits(0, 0, false).await?, [1, 2, 2, 1, 1]);
    assert_eq!(waits(1, 0, false).await?, [3, 5, 5, 4, 4]);
    assert_eq!(waits(3, 0, false).await?, [3, 5, 5, 4, 4]);
    assert_eq!(waits(0, 1, false).await?, [4, 5, 5, 4, 4]);
    assert_eq!(waits(2, 2, false).await?, [4, 6, 6, 5, 5]);
    assert_eq!(waits(2, 2, true).await?, [5, 7, 7, 6, 6]);

    let distance = Distance::open(
        Indexes {
            plain: 2,
            unique: 2,
        },
        later(),
        true,
    )
    .await?;
    let (cost, counts) = distance
        .meter
        .measure(async {
            let cost = distance.cost(distance.people.insert(person("a")?)).await;
            distance.people.flush().await;
            cost
        })
        .await;
    assert_eq!(cost?.round_trips, 5);
    // As many as before the answer.
    assert_eq!(counts.total(), 11);
    let rows = distance
        .people
        .store()
        .query_all(distance.people.table(), &Query::new())
        .await?;
    assert!(!rows.iter().any(is_journal_row));

    let committed = IndexOptions {
        acknowledge: Acknowledge::Committed,
        ..later()
    };
    for (plain, unique, queued, round_trips) in [
        (3, 0, false, 1),
        (2, 2, false, 2),
        (3, 0, true, 2),
        (2, 2, true, 3),
    ] {
        let distance = Distance::open(Indexes { plain, unique }, committed.clone(), queued).await?;
        let cost = distance.cost(distance.people.insert(person("a")?)).await?;
        assert_eq!(cost.round_trips, round_trips);
    }
    Ok(())
}

/// A write that is left to workers before its answer.
#[tokio::test(start_paused = true)]
async fn a_committed_write_waits_for_these_round_trips() -> Result<()> {
    let committed = || IndexOptions {
        acknowledge: Acknowledge::Committed,
        clearing: Clearing::BeforeAnswer,
        ..IndexOptions::default()
    };
    let insert = async |plain, unique, queued| {
        let distance = Distance::open(Indexes { plain, unique }, committed(), queued).await?;
        distance.cost(distance.people.insert(person("a")?)).await
    };
    assert_eq!(insert(3, 0, false).await?, cost(1, 1));
    assert_eq!(insert(2, 2, false).await?, cost(3, 2));
    assert_eq!(insert(3, 0, true).await?, cost(5, 5));
    assert_eq!(insert(2, 2, true).await?, cost(7, 6));
    Ok(())
}
