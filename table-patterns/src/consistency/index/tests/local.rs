//! Changes of state in a store that only this process writes: they wait for the requests under way, not for
//! durations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::{Error, Operation, OperationKind, Result, TableStore, TableStoreExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::index::{
    Entry, Index, IndexOptions, IndexQuery, IndexState, IndexedEntities, Placement, Trust, Waiting,
    WaitingFor,
};

/// The delay of a held request: longer than any other step of a test.
const PAUSE: Duration = Duration::from_secs(5);
/// More requests than any write under any index sends.
const STEPS: u64 = 9;

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn index(placement: &Placement) -> Index {
    Index::keyed("city", placement.clone(), "city_{City}", "city_{RowKey}").unwrap()
}

fn placements() -> [(Placement, Index); 2] {
    let beside =
        Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}").unwrap();
    [
        (Placement::SamePartition, beside),
        (Placement::OtherPartition, index(&Placement::OtherPartition)),
    ]
}

fn person(id: u32, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", id.to_string())?.with("City", city))
}

/// A table of five people without indexes.
async fn five() -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store.create_table(&people()).await?;
    for id in 0..5 {
        store
            .write(&people(), Operation::Insert(person(id, "oslo")?))
            .await?;
    }
    Ok(store)
}

async fn open(store: impl TableStore, index: &Index) -> Result<IndexedEntities> {
    IndexedEntities::open(
        Arc::new(store),
        people(),
        vec![index.clone()],
        IndexOptions::default(),
    )
    .await
}

/// A handle whose nth request from now on is delayed.
async fn paused_at(
    store: &MemoryStore,
    index: &Index,
    nth: u64,
) -> Result<(IndexedEntities, FaultInjector)> {
    let faults = FaultInjector::new(1);
    let opened = open(Faulty::new(store.clone(), faults.clone()), index).await?;
    faults.add(FaultRule::new(Fault::Delay(PAUSE)).nth(nth));
    Ok((opened, faults))
}

/// The existing entries, and the entries that the entities should have.
async fn entries(
    store: &MemoryStore,
    index: &Index,
) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let (mut found, mut wanted) = (BTreeSet::new(), BTreeSet::new());
    for row in store.query_all(&people(), &Query::new()).await? {
        if Entry::index_of(&row) == Some(index.id()) {
            found.insert(row.key().to_string());
        } else if !row.key().is_system() {
            wanted.extend(
                index
                    .entries(&people(), &row)?
                    .iter()
                    .map(|entry| entry.location.key.to_string()),
            );
        }
    }
    Ok((found, wanted))
}

/// An insert, a change and a removal, one after another.
async fn writes(people: &IndexedEntities) -> Result<()> {
    people.insert(person(7, "rome")?).await?;
    people.upsert(person(1, "rome")?).await?;
    let old = people.get_existing(&Key::new("p", "2")?).await?;
    people.delete(&old).await?;
    Ok(())
}

/// A build in memory takes no time, whatever durations the options have.
#[tokio::test(start_paused = true)]
async fn a_change_of_state_does_not_wait_without_writers() -> Result<()> {
    for (_, index) in placements() {
        let store = five().await?;
        let (people, other) = (
            open(store.clone(), &index).await?,
            open(store.clone(), &index).await?,
        );
        let begun = Instant::now();
        let built = people.build("city")?.run().await?;
        assert_eq!(built.state, IndexState::Readable);
        assert_eq!(built.entries, 5);
        let (found, wanted) = entries(&store, &index).await?;
        assert_eq!(found.len(), 5);
        assert_eq!(found, wanted);
        other.insert(person(9, "rome")?).await?;
        assert_eq!(
            other.state("city"),
            IndexState::Readable,
            "another handle was told"
        );
        people.drop_index("city").await?;
        assert!(entries(&store, &index).await?.0.is_empty());
        other.insert(person(10, "rome")?).await?;
        assert!(
            entries(&store, &index).await?.0.is_empty(),
            "an entry of an index that is gone"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
    }
    Ok(())
}

/// A build waits for a writer that is held at any of its requests.
#[tokio::test(start_paused = true)]
async fn a_build_waits_for_writers_at_every_step() -> Result<()> {
    for (_, index) in placements() {
        let mut held_up = 0;
        for nth in 1..=3 * STEPS {
            let store = five().await?;
            let (writer, faults) = paused_at(&store, &index, nth).await?;
            let builder = open(store.clone(), &index).await?;
            let build = async {
                sleep(Duration::from_millis(1)).await;
                builder.build("city")?.run().await
            };
            let (built, written) = tokio::join!(build, writes(&writer));
            assert_eq!(built?.state, IndexState::Readable);
            written?;
            held_up += faults.injected().len();
            let (found, wanted) = entries(&store, &index).await?;
            assert_eq!(found, wanted, "held at request {nth}");
            assert_eq!(wanted.len(), 5, "held at request {nth}");
        }
        assert!(held_up >= 5, "{held_up} requests were held up");
    }
    Ok(())
}

/// A dropped index leaves no entry of a write that was under way.
#[tokio::test(start_paused = true)]
async fn a_drop_waits_for_writers_at_every_step() -> Result<()> {
    for (_, index) in placements() {
        let mut held_up = 0;
        for nth in 1..=3 * STEPS {
            let store = five().await?;
            let operator = open(store.clone(), &index).await?;
            operator.build("city")?.run().await?;
            let (writer, faults) = paused_at(&store, &index, nth).await?;
            let remove = async {
                sleep(Duration::from_millis(1)).await;
                operator.drop_index("city").await
            };
            let (removed, written) = tokio::join!(remove, writes(&writer));
            removed?;
            written?;
            held_up += faults.injected().len();
            let (found, _) = entries(&store, &index).await?;
            assert!(found.is_empty(), "held up in request {nth}: {found:?}");
        }
        assert!(held_up >= 5, "{held_up} requests were held up");
    }
    Ok(())
}

/// A change of state does not wait for a write whose future was dropped; a sweep finishes the write.
#[tokio::test(start_paused = true)]
async fn a_change_of_state_does_not_wait_for_a_dropped_write() -> Result<()> {
    for (_, index) in placements() {
        for nth in 1..=STEPS {
            let store = five().await?;
            let (writer, _) = paused_at(&store, &index, nth).await?;
            let builder = open(store.clone(), &index).await?;
            let dropped = timeout(Duration::from_secs(1), writer.upsert(person(1, "rome")?));
            let build = async {
                sleep(Duration::from_millis(1)).await;
                builder.build("city")?.run().await?;
                Ok::<_, Error>(Instant::now())
            };
            let begun = Instant::now();
            let (built, _) = tokio::join!(build, dropped);
            assert!(
                built? - begun < Duration::from_secs(2),
                "held up in request {nth}"
            );
            builder
                .journal()
                .sweep(&[], Duration::from_secs(3600))
                .await?;
            let (found, wanted) = entries(&store, &index).await?;
            assert_eq!(found, wanted, "held up in request {nth}");
        }
    }
    Ok(())
}

/// A lookup that has begun returns all entities, or is refused.
#[tokio::test(start_paused = true)]
async fn a_drop_waits_for_lookups() -> Result<()> {
    for (placement, index) in placements() {
        for nth in 1..=4 {
            let store = five().await?;
            let operator = open(store.clone(), &index).await?;
            operator.build("city")?.run().await?;
            let (reader, _) = paused_at(&store, &index, nth).await?;
            let query = match placement {
                Placement::SamePartition => IndexQuery::partition("p").prefix("city_oslo_"),
                _ => IndexQuery::partition("city_oslo"),
            };
            let remove = async {
                sleep(Duration::from_millis(1)).await;
                operator.drop_index("city").await
            };
            let (removed, found) = tokio::join!(remove, reader.all("city", &query, Trust::Entry));
            removed?;
            assert_eq!(found?.len(), 5, "held up in request {nth}");
            assert!(
                reader.all("city", &query, Trust::Entry).await.is_err(),
                "the reader was told"
            );
        }
    }
    Ok(())
}

/// A dropped builder is replaced at once; a running builder is stopped before a drop removes its entries.
#[tokio::test(start_paused = true)]
async fn a_drop_waits_for_a_running_builder() -> Result<()> {
    for (_, index) in placements() {
        let store = five().await?;
        let (first, faults) = paused_at(&store, &index, u64::MAX).await?;
        // The first group declares the index.
        let held = || {
            FaultRule::new(Fault::Delay(PAUSE))
                .on(OperationKind::Transact)
                .nth(2)
        };
        faults.add(held());
        let gone = timeout(Duration::from_secs(1), first.build("city")?.run()).await;
        assert!(
            gone.is_err() && first.state("city") == IndexState::Building,
            "it was in the middle of it"
        );
        let second = open(store.clone(), &index).await?;
        let begun = Instant::now();
        second.build("city")?.run().await?;
        assert!(
            begun.elapsed() < Duration::from_secs(1),
            "{:?}",
            begun.elapsed()
        );
        let (found, wanted) = entries(&store, &index).await?;
        assert_eq!(found, wanted);

        second.drop_index("city").await?;
        faults.add(held());
        let mut waits = Vec::new();
        let remove = async {
            sleep(Duration::from_secs(1)).await;
            second
                .drop_index_with("city", |waiting| waits.push(waiting.for_what))
                .await
        };
        let (_, removed) = tokio::join!(first.build("city")?.run(), remove);
        removed?;
        assert_eq!(waits, [WaitingFor::Builder]);
        let (found, _) = entries(&store, &index).await?;
        assert!(found.is_empty(), "left by the builder: {found:?}");
    }
    Ok(())
}

/// Other processes may write a served store, so a build waits for durations and reports them.
#[tokio::test(start_paused = true)]
async fn a_change_of_state_in_a_served_store_waits_for_durations_and_reports_them() -> Result<()> {
    let (store, index) = (five().await?, index(&Placement::OtherPartition));
    store.context().local_writers().unwrap().serve();
    let people = open(store.clone(), &index).await?;
    let begun = Instant::now();
    let mut waits: Vec<(Duration, Waiting)> = Vec::new();
    let build = people.build("city")?.on_progress(|progress| {
        waits.extend(progress.waiting.map(|waiting| (begun.elapsed(), waiting)));
    });
    let built = build.run().await?;
    assert_eq!(built.waiting, None);
    let (seconds, full) = (Duration::from_secs, Duration::from_secs(90));
    let states = [
        IndexState::DeleteOnly,
        IndexState::WriteOnly,
        IndexState::Building,
        IndexState::Readable,
    ];
    assert_eq!(
        waits
            .iter()
            .map(|(_, waiting)| waiting.for_what)
            .collect::<Vec<_>>(),
        states.map(WaitingFor::State)
    );
    for ((at, waiting), n) in waits.iter().zip(0..) {
        assert!(*at >= full * n && *at < full * n + seconds(1), "{at:?}");
        assert!(
            waiting.until >= begun + *at + full && waiting.until < begun + *at + full + seconds(1)
        );
    }
    let begun = Instant::now();
    let mut waits = Vec::new();
    people
        .drop_index_with("city", |waiting| waits.push(waiting.to_string()))
        .await?;
    assert_eq!(
        waits,
        ["write-only", "delete-only"].map(|state| format!(
            "waiting until all programs know that the index is {state}, and their earlier requests have ended: 90s at most"
        ))
    );
    assert!(begun.elapsed() >= full * 2);
    Ok(())
}
