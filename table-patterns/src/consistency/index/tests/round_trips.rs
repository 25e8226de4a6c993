//! What lookups and bulk inserts wait for, apart from their requests.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{Result, TableStore, TableStoreExt as _};

use super::world::{by_city, list_of, person, text};
use crate::index::{
    BulkInsert, Index, IndexOptions, IndexQuery, IndexedEntities, Placement, Shape, Trust,
};
use crate::journal::is_journal_row;

/// People in a store whose requests take 10 milliseconds of virtual time.
struct Distance {
    meter: RequestMeter,
    people: IndexedEntities,
}

impl Distance {
    async fn open(index: Index, concurrency: usize) -> Result<Self> {
        let (faults, meter) = (FaultInjector::new(1), RequestMeter::new());
        let slow = Faulty::new(MemoryStore::new(), faults.clone());
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(slow, meter.clone()));
        let table = TableName::new("People")?;
        store.create_table(&table).await?;
        let options = IndexOptions {
            concurrency,
            ..IndexOptions::default()
        };
        let people = IndexedEntities::open(store, table, vec![index], options).await?;
        faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(10))));
        Ok(Self { meter, people })
    }

    /// The requests and the round trips of work, with its result.
    async fn cost<T>(&self, work: impl Future<Output = Result<T>>) -> Result<(T, [u64; 2])> {
        self.people.flush().await;
        let (done, counts) = self.meter.measure(work).await;
        Ok((done?, [counts.total(), counts.round_trips()]))
    }
}

#[tokio::test(start_paused = true)]
async fn references_are_followed_together() -> Result<()> {
    let index = Index::new("city", Placement::OtherPartition, "1", |e| {
        text(e, "City")
            .map(|city| Key::new(format!("city_{city}"), e.key().row()))
            .transpose()
    });
    let distance = Distance::open(index, 16).await?;
    for id in 0..20 {
        distance.people.insert(person(id, "oslo")?).await?;
    }
    let oslo = IndexQuery::partition("city_oslo");
    let all = async |query: &IndexQuery| {
        let (found, cost) = distance
            .cost(distance.people.all("city", query, Trust::Entry))
            .await?;
        Ok::<_, table_core::Error>((found.len(), cost))
    };
    // The entries, then the entities: 16 at the same time.
    assert_eq!(
        all(&oslo.clone().range("00000", "00016")).await?,
        (16, [17, 2])
    );
    assert_eq!(all(&oslo).await?, (20, [21, 3]));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lists_are_followed_together() -> Result<()> {
    for placement in [Placement::SamePartition, Placement::OtherPartition] {
        let index = by_city(placement.clone(), Shape::LIST);
        let distance = Distance::open(index.clone(), 16).await?;
        for id in 0..12 {
            distance
                .people
                .insert(person(id, ["oslo", "rome", "bern"][id % 3])?)
                .await?;
        }
        let (found, cost) = distance
            .cost(distance.people.list("city", &list_of(&index, "oslo")))
            .await?;
        assert_eq!(found.len(), 4, "{placement:?}");
        assert_eq!(cost, [5, 2], "{placement:?}");
        if placement == Placement::SamePartition {
            let lists = IndexQuery::partition("p").prefix("city_");
            let (found, cost) = distance
                .cost(distance.people.all("city", &lists, Trust::Entry))
                .await?;
            assert_eq!(found.len(), 12);
            assert_eq!(cost, [13, 2]);
        }
    }
    Ok(())
}

/// The groups of all windows share the bound: the second window does not wait for the end of the first.
#[tokio::test(start_paused = true)]
async fn bulk_inserts_overlap() -> Result<()> {
    let distance = Distance::open(by_city(Placement::OtherPartition, Shape::Row), 16).await?;
    let people =
        (0..8).map(|id| Ok(Entity::new(format!("p{id}"), "1")?.with("City", format!("{id}"))));
    let options = BulkInsert::default().with_window(2);
    let inserts = distance
        .people
        .insert_all(stream::iter(people), options)
        .try_collect::<Vec<_>>();
    let (inserted, cost) = distance.cost(inserts).await?;
    assert!(inserted.iter().all(|inserted| inserted.result.is_ok()));
    // Of each group: the group, the entry, the check; the journal row behind the answer. All eight at the same time.
    assert_eq!(inserted.len(), 8);
    assert_eq!(cost, [8 * 4, 4]);
    let rows = distance
        .people
        .store()
        .query_all(distance.people.table(), &Query::new())
        .await?;
    assert!(
        !rows.iter().any(is_journal_row),
        "the stream ends when the journal rows are cleared"
    );
    Ok(())
}

/// Entities that are inserted again are found by one look at their group.
#[tokio::test(start_paused = true)]
async fn entities_that_exist_are_found_together() -> Result<()> {
    let distance = Distance::open(by_city(Placement::SamePartition, Shape::Row), 16).await?;
    let insert = async |ids: std::ops::Range<usize>| {
        let people: Vec<_> = ids.map(|id| person(id, &format!("city{id}"))).collect();
        let inserts = distance
            .people
            .insert_all(stream::iter(people), BulkInsert::default());
        let (inserted, [requests, _]) = distance.cost(inserts.try_collect::<Vec<_>>()).await?;
        Ok::<_, table_core::Error>((
            inserted.iter().filter(|one| one.result.is_ok()).count(),
            requests,
        ))
    };
    assert_eq!(insert(0..40).await?, (40, 1));
    assert_eq!(insert(0..40).await?, (0, 2));
    assert_eq!(insert(30..50).await?, (10, 3));
    Ok(())
}

/// Each entry has a partition, so each is a request: as many at the same time as the options allow.
#[tokio::test(start_paused = true)]
async fn a_drop_deletes_entries_of_several_partitions_together() -> Result<()> {
    let mut costs = Vec::new();
    for concurrency in [1, 16] {
        let distance =
            Distance::open(by_city(Placement::OtherPartition, Shape::Row), concurrency).await?;
        for id in 0..64 {
            distance
                .people
                .insert(person(id, &format!("city{id}"))?)
                .await?;
        }
        costs.push(distance.cost(distance.people.drop_index("city")).await?.1);
        let rows = distance
            .people
            .store()
            .query_all(distance.people.table(), &Query::new())
            .await?;
        assert!(!rows.iter().any(Entity::is_index_entry));
    }
    // The others are those of the changes of state.
    assert_eq!(costs, [[64 + 12, 64 + 12], [64 + 12, 4 + 12]]);
    Ok(())
}
