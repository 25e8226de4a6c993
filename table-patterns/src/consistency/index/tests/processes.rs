//! Processes that write one table, and who waits for which of them.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{OperationKind, Result, TableStore, TableStoreExt as _};
use tokio::time::{Instant, sleep};

use crate::index::{
    BuildProgress, Index, IndexOptions, IndexState, IndexedEntities, Placement, ProcessId, Trust, WaitingFor,
};

/// A process with the default durations: 30 seconds, 60 and 300.
const SETTLED: Duration = Duration::from_secs(30 + 60);
/// As long as its row is unchanged when it is gone: ten leases of a minute, and what settles.
const GONE: Duration = Duration::from_secs(600 + 90);

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn index() -> Index {
    Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}").unwrap()
}

fn person(id: &str) -> Entity {
    Entity::new("p", id).unwrap().with("City", "oslo")
}

/// A store that several processes write, with a table that has an entity.
async fn service() -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store.local_writers().expect("one process").serve();
    store.create_table(&people()).await?;
    open(store.clone(), IndexOptions::local(), Vec::new()).await?.insert(person("0")).await?;
    for row in rows(&store).await? {
        let delete = table_core::store::Operation::Delete(row.key().clone(), table_core::model::IfMatch::Any);
        store.write(&people(), delete).await?;
    }
    Ok(store)
}

async fn open(store: impl TableStore, options: IndexOptions, indexes: Vec<Index>) -> Result<IndexedEntities> {
    IndexedEntities::open(Arc::new(store), people(), indexes, options).await
}

/// The rows of processes.
async fn rows(store: &MemoryStore) -> Result<Vec<Entity>> {
    let manifest = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION));
    let mut rows = store.query_all(&people(), &manifest).await?;
    rows.retain(|row| row.key().row().starts_with("process~"));
    Ok(rows)
}

/// Builds the index; how long it took, and whom each change of its state was said to wait for.
async fn build(people: &IndexedEntities) -> Result<(Duration, Vec<Option<ProcessId>>)> {
    let (started, mut waits) = (Instant::now(), Vec::new());
    let on_progress = |progress: BuildProgress| {
        if let Some(waiting) = progress.waiting
            && matches!(waiting.for_what, WaitingFor::State(_))
        {
            waits.push(waiting.process);
        }
    };
    people.build("city")?.on_progress(on_progress).run().await?;
    Ok((started.elapsed(), waits))
}

#[tokio::test(start_paused = true)]
async fn say_how_long_they_take() -> Result<()> {
    let store = service().await?;
    let meter = RequestMeter::new();
    let metered = Metered::new(store.clone(), meter.clone());
    let slow = open(metered, IndexOptions::default(), vec![index()]).await?;
    assert_eq!(meter.total(), 2, "its row, and the manifest");
    let rows = rows(&store).await?;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let said = ["Cache", "Request", "Lease", "Heartbeat"].map(|name| row.get(name));
    assert_eq!(said, [30_000, 60_000, 300_000, 600_000].map(|millis| Some(ValueRef::Int64(millis))));
    drop(slow);
    // Of the table as a whole nothing is said that lasts.
    let table = store.get_existing(&people(), &Key::new(MANIFEST_PARTITION, "table")?).await?;
    assert_eq!(table.get("LongestCache"), Some(ValueRef::Int64(0)));
    Ok(())
}

/// Neither who reads nor who is alone with its store has a row.
#[tokio::test(start_paused = true)]
async fn that_nobody_waits_for_have_no_row() -> Result<()> {
    let store = service().await?;
    let reader: Arc<dyn TableStore> = Arc::new(store.clone());
    IndexedEntities::open_to_read(reader, people(), Vec::new(), IndexOptions::default()).await?;
    assert!(rows(&store).await?.is_empty());
    let alone = MemoryStore::new();
    alone.create_table(&people()).await?;
    let first = open(alone.clone(), IndexOptions::default(), vec![index()]).await?;
    assert!(rows(&alone).await?.is_empty());
    // Others may come by a server, while it goes on: the table's own row says how long it takes.
    alone.local_writers().expect("one process").serve();
    let quick = open(alone.clone(), IndexOptions::local(), vec![index()]).await?;
    assert_eq!((first.state("city"), rows(&alone).await?.len()), (IndexState::Readable, 1));
    let started = Instant::now();
    quick.drop_index("city").await?;
    assert!(started.elapsed() >= SETTLED, "{:?}", started.elapsed());
    Ok(())
}

/// A process that has died is waited for until it was watched for long enough; then its row goes, and nobody waits.
#[tokio::test(start_paused = true)]
async fn that_are_gone_are_waited_for_no_longer() -> Result<()> {
    let store = service().await?;
    let quick = open(store.clone(), IndexOptions::local(), vec![index()]).await?;
    drop(open(store.clone(), IndexOptions::default(), vec![index()]).await?);
    let slow = rows(&store).await?.into_iter().find(|row| row.get("Cache") == Some(ValueRef::Int64(30_000)));
    let slow = slow.expect("its row").key().row().replace("process~", "");
    quick.refresh().await?;
    let (took, waits) = build(&quick).await?;
    assert!(took >= SETTLED * 4, "{took:?}");
    let waits: Vec<_> = waits.iter().map(|process| process.map(|process| process.to_string())).collect();
    assert_eq!(waits, vec![Some(slow); 4], "delete-only, write-only, building and readable");
    sleep(GONE).await;
    quick.refresh().await?;
    assert_eq!(rows(&store).await?.len(), 1, "its row went, that of the quick one was written again");
    let started = Instant::now();
    quick.drop_index("city").await?;
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    Ok(())
}

/// A process whose row was removed while it did nothing is registered again before it reads the states by which it writes.
#[tokio::test(start_paused = true)]
async fn that_come_back_are_registered_first() -> Result<()> {
    let store = service().await?;
    let quick = open(store.clone(), IndexOptions::local(), vec![index()]).await?;
    let meter = RequestMeter::new();
    let slow =
        open(Metered::new(store.clone(), meter.clone()), IndexOptions::default(), vec![index()]).await?;
    quick.refresh().await?;
    sleep(GONE).await;
    let (took, waits) = build(&quick).await?;
    assert!(took < Duration::from_secs(5) && waits.iter().all(Option::is_none), "{took:?}, {waits:?}");
    assert_eq!(rows(&store).await?.len(), 1, "that of the quick one");
    let before = meter.snapshot();
    slow.insert(person("1")).await?;
    let cost = meter.since(&before);
    let (replaced, inserted) = (cost.of_kind(OperationKind::Replace), cost.of_kind(OperationKind::Insert));
    assert_eq!((replaced, inserted), (1, 1), "the row that is gone, and another one");
    assert_eq!(rows(&store).await?.len(), 2);
    let found = quick.find("city", &Key::new("city_oslo", "1")?, Trust::Entry).await?;
    assert!(found.is_some(), "it knows the index");
    Ok(())
}

/// While it writes, a process is registered once for ten times that it reads states: each quarter of an hour three times.
#[tokio::test(start_paused = true)]
async fn say_so_again_while_they_write() -> Result<()> {
    let store = service().await?;
    let meter = RequestMeter::new();
    let busy = open(Metered::new(store.clone(), meter.clone()), IndexOptions::default(), Vec::new()).await?;
    let before = meter.snapshot();
    for n in 1..=90 {
        sleep(Duration::from_secs(10)).await;
        busy.insert(person(&n.to_string())).await?;
    }
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Replace), 3, "each five minutes");
    assert_eq!(cost.of_kind(OperationKind::Query), 30, "states are read each thirty seconds");
    assert_eq!(rows(&store).await?.len(), 1);
    Ok(())
}

/// Who cannot say that it is there does not write.
#[tokio::test(start_paused = true)]
async fn that_cannot_be_registered_do_not_write() -> Result<()> {
    // A row that was not written is found to be gone by then; one that was is waited for.
    for (fault, left) in [(Fault::LoseAnswer, 2), (Fault::LoseRequest, 1)] {
        let store = service().await?;
        let faults = FaultInjector::new(1);
        let writer = open(Faulty::new(store.clone(), faults.clone()), IndexOptions::local(), vec![]).await?;
        sleep(Duration::from_secs(60)).await;
        faults.add(FaultRule::new(fault).on(OperationKind::Replace).nth(1));
        writer.insert(person("1")).await.unwrap_err();
        assert_eq!(faults.injected().len(), 1);
        assert!(store.get(&people(), person("1").key(), None).await?.is_none(), "{fault:?}");
        // The next time by another row: of the first nobody knows what became.
        writer.insert(person("1")).await?;
        assert_eq!(rows(&store).await?.len(), left, "{fault:?}");
    }
    Ok(())
}
