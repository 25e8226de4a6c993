//! Processes that write one table: which of them a change of state waits for.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{OperationKind, Result, TableStore, TableStoreExt as _};
use tokio::time::{Instant, sleep};

use crate::index::{
    BuildProgress, Index, IndexOptions, IndexState, IndexedEntities, Placement, ProcessId, Trust,
    WaitingFor,
};

/// A process with the default durations: 30 seconds, 60 and 300.
const SETTLED: Duration = Duration::from_secs(30 + 60);
/// The time for which writers of plain rows use a manifest, plus their longest request.
const PLAIN: Duration = Duration::from_secs(30 + 60);
/// The time after which an unchanged row is of an ended process: ten minutes of heartbeat, plus cache time and longest request.
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

/// A store that several processes write, with a table of one entity.
async fn service() -> Result<MemoryStore> {
    let store = MemoryStore::new();
    store
        .context()
        .local_writers()
        .expect("one process")
        .serve();
    store.create_table(&people()).await?;
    open(store.clone(), IndexOptions::local(), Vec::new())
        .await?
        .insert(person("0"))
        .await?;
    for row in rows(&store).await? {
        let delete = table_core::store::Operation::Delete(
            row.key().clone(),
            table_core::model::IfMatch::Any,
        );
        store.write(&people(), delete).await?;
    }
    Ok(store)
}

async fn open(
    store: impl TableStore,
    options: IndexOptions,
    indexes: Vec<Index>,
) -> Result<IndexedEntities> {
    IndexedEntities::open(Arc::new(store), people(), indexes, options).await
}

/// The process rows of the manifest.
async fn rows(store: &MemoryStore) -> Result<Vec<Entity>> {
    let manifest = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION));
    let mut rows = store.query_all(&people(), &manifest).await?;
    rows.retain(|row| row.key().row().starts_with("process~"));
    Ok(rows)
}

/// Builds the index; returns the duration, and the process that each change of state reported to wait for.
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
async fn a_process_registers_its_durations() -> Result<()> {
    let store = service().await?;
    let meter = RequestMeter::new();
    let metered = Metered::new(store.clone(), meter.clone());
    let slow = open(metered, IndexOptions::default(), vec![index()]).await?;
    assert_eq!(meter.total(), 2, "its row, and the manifest");
    let rows = rows(&store).await?;
    let [row] = &rows[..] else { panic!("{rows:?}") };
    let said = ["Cache", "Request", "Lease", "Heartbeat"].map(|name| row.get(name));
    assert_eq!(
        said,
        [30_000, 60_000, 300_000, 600_000].map(|millis| Some(ValueRef::Int64(millis)))
    );
    drop(slow);
    // The table's own row has no duration of a registered process.
    let table = store
        .get_existing(&people(), &Key::new(MANIFEST_PARTITION, "table")?)
        .await?;
    assert_eq!(table.get("LongestCache"), Some(ValueRef::Int64(0)));
    Ok(())
}

/// Neither a reader nor a process that alone writes its store has a row.
#[tokio::test(start_paused = true)]
async fn a_process_without_waiters_has_no_row() -> Result<()> {
    let store = service().await?;
    let reader: Arc<dyn TableStore> = Arc::new(store.clone());
    IndexedEntities::open_to_read(reader, people(), Vec::new(), IndexOptions::default()).await?;
    assert!(rows(&store).await?.is_empty());
    let alone = MemoryStore::new();
    alone.create_table(&people()).await?;
    let first = open(alone.clone(), IndexOptions::default(), vec![index()]).await?;
    assert!(rows(&alone).await?.is_empty());
    // A server may later give other processes access, while this process runs: the table's own row has its durations.
    alone
        .context()
        .local_writers()
        .expect("one process")
        .serve();
    let quick = open(alone.clone(), IndexOptions::local(), vec![index()]).await?;
    assert_eq!(first.state("city"), IndexState::Readable);
    assert_eq!(rows(&alone).await?.len(), 1);
    let started = Instant::now();
    quick.drop_index("city").await?;
    assert!(started.elapsed() >= SETTLED, "{:?}", started.elapsed());
    Ok(())
}

/// A change of state waits for a dead process until its row was unchanged for long enough; then the row is removed.
#[tokio::test(start_paused = true)]
async fn a_build_stops_waiting_for_an_ended_process() -> Result<()> {
    let store = service().await?;
    let quick = open(store.clone(), IndexOptions::local(), vec![index()]).await?;
    drop(open(store.clone(), IndexOptions::default(), vec![index()]).await?);
    let slow = rows(&store)
        .await?
        .into_iter()
        .find(|row| row.get("Cache") == Some(ValueRef::Int64(30_000)));
    let slow = slow.expect("its row").key().row().replace("process~", "");
    quick.refresh().await?;
    let (took, waits) = build(&quick).await?;
    assert!(took >= SETTLED * 4, "{took:?}");
    let waits: Vec<_> = waits
        .iter()
        .map(|process| process.map(|process| process.to_string()))
        .collect();
    assert_eq!(
        waits,
        vec![Some(slow); 4],
        "delete-only, write-only, building and readable"
    );
    sleep(GONE).await;
    quick.refresh().await?;
    assert_eq!(
        rows(&store).await?.len(),
        1,
        "its row went, that of the quick one was written again"
    );
    let started = Instant::now();
    quick.drop_index("city").await?;
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    Ok(())
}

/// A paused process whose row was removed registers again before it reads the states for its next write.
#[tokio::test(start_paused = true)]
async fn a_process_that_resumes_registers_first() -> Result<()> {
    let store = service().await?;
    let quick = open(store.clone(), IndexOptions::local(), vec![index()]).await?;
    let meter = RequestMeter::new();
    let slow = open(
        Metered::new(store.clone(), meter.clone()),
        IndexOptions::default(),
        vec![index()],
    )
    .await?;
    quick.refresh().await?;
    sleep(GONE).await;
    let (took, waits) = build(&quick).await?;
    assert!(
        took >= PLAIN && took < PLAIN + Duration::from_secs(5),
        "for writers of plain rows alone: {took:?}"
    );
    assert!(waits.iter().all(Option::is_none), "{waits:?}");
    assert_eq!(rows(&store).await?.len(), 1, "that of the quick one");
    let before = meter.snapshot();
    slow.insert(person("1")).await?;
    let cost = meter.since(&before);
    let (replaced, inserted) = (
        cost.of_kind(OperationKind::Replace),
        cost.of_kind(OperationKind::Insert),
    );
    assert_eq!(replaced, 1, "the write of the removed row fails");
    assert_eq!(inserted, 1, "another row is inserted");
    assert_eq!(rows(&store).await?.len(), 2);
    let found = quick
        .find("city", &Key::new("city_oslo", "1")?, Trust::Entry)
        .await?;
    assert!(found.is_some(), "it knows the index");
    Ok(())
}

/// Writers of plain rows are not registered. The build of a type's first index waits for them, and says so. They refuse to write the type
/// from then on, so the build of a later index does not wait for them.
#[tokio::test(start_paused = true)]
async fn the_first_index_waits_for_writers_of_plain_rows() -> Result<()> {
    let store = service().await?;
    let later = Index::keyed(
        "later",
        Placement::OtherPartition,
        "later_{City}",
        "{RowKey}",
    )
    .unwrap();
    let quick = open(store.clone(), IndexOptions::local(), vec![index(), later]).await?;
    for (name, waited) in [("city", vec![IndexState::DeleteOnly]), ("later", vec![])] {
        let (started, mut waits) = (Instant::now(), Vec::new());
        let on_progress = |progress: BuildProgress| {
            if let Some(waiting) = progress.waiting
                && waiting.for_what == WaitingFor::PlainWriters
            {
                assert_eq!(
                    waiting.until.duration_since(started).as_secs(),
                    PLAIN.as_secs()
                );
                waits.push(progress.state);
            }
        };
        quick.build(name)?.on_progress(on_progress).run().await?;
        assert_eq!(waits, waited, "{name}");
        let took = started.elapsed();
        assert_eq!(took >= PLAIN, !waited.is_empty(), "{name}: {took:?}");
        assert!(took < PLAIN + Duration::from_secs(5), "{name}: {took:?}");
    }
    Ok(())
}

/// A writing process writes its row once for ten reads of the states: three times in fifteen minutes.
#[tokio::test(start_paused = true)]
async fn a_writing_process_renews_its_registration() -> Result<()> {
    let store = service().await?;
    let meter = RequestMeter::new();
    let busy = open(
        Metered::new(store.clone(), meter.clone()),
        IndexOptions::default(),
        Vec::new(),
    )
    .await?;
    let before = meter.snapshot();
    for n in 1..=90 {
        sleep(Duration::from_secs(10)).await;
        busy.insert(person(&n.to_string())).await?;
    }
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Replace), 3, "each five minutes");
    assert_eq!(
        cost.of_kind(OperationKind::Query),
        30,
        "states are read each thirty seconds"
    );
    assert_eq!(rows(&store).await?.len(), 1);
    Ok(())
}

/// The handles of a process share its row, if they have the same durations. When the last of them is gone, the row ends with them.
#[tokio::test(start_paused = true)]
async fn handles_of_a_process_share_its_row() -> Result<()> {
    let store = service().await?;
    let first = open(store.clone(), IndexOptions::default(), vec![index()]).await?;
    let meter = RequestMeter::new();
    let metered = Metered::new(store.clone(), meter.clone());
    let second = open(metered, IndexOptions::default(), Vec::new()).await?;
    assert_eq!(meter.total(), 1, "the manifest");
    assert_eq!(rows(&store).await?.len(), 1);
    let other = open(store.clone(), IndexOptions::local(), Vec::new()).await?;
    assert_eq!(rows(&store).await?.len(), 2, "other durations");
    drop((first, second, other));
    let _next = open(store.clone(), IndexOptions::default(), Vec::new()).await?;
    assert_eq!(rows(&store).await?.len(), 3);
    Ok(())
}

/// Another process drops the table and creates it again. A handle that is opened then has its row in the
/// new manifest, and the handle of the earlier table gets it with its next read of the states.
#[tokio::test(start_paused = true)]
async fn a_process_registers_again_in_a_new_table_of_the_name() -> Result<()> {
    let store = service().await?;
    let before = open(store.clone(), IndexOptions::default(), Vec::new()).await?;
    for opens in [true, false] {
        store.delete_table(&people()).await?;
        store.create_table(&people()).await?;
        assert!(rows(&store).await?.is_empty());
        if opens {
            open(store.clone(), IndexOptions::default(), Vec::new()).await?;
        } else {
            before.refresh().await?;
        }
        assert_eq!(rows(&store).await?.len(), 1, "{opens}");
    }
    Ok(())
}

/// A process that cannot register does not write.
#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_register_does_not_write() -> Result<()> {
    // The first case: the row was not written. The second: the row was written and its answer was lost.
    for (fault, left) in [(Fault::LoseAnswer, 2), (Fault::LoseRequest, 1)] {
        let store = service().await?;
        let faults = FaultInjector::new(1);
        let writer = open(
            Faulty::new(store.clone(), faults.clone()),
            IndexOptions::local(),
            vec![],
        )
        .await?;
        sleep(Duration::from_secs(60)).await;
        faults.add(FaultRule::new(fault).on(OperationKind::Replace).nth(1));
        writer.insert(person("1")).await.unwrap_err();
        assert_eq!(faults.injected().len(), 1);
        assert!(
            store
                .get(&people(), person("1").key(), None)
                .await?
                .is_none(),
            "{fault:?}"
        );
        // The next write inserts another row, because the outcome of the first is unknown.
        writer.insert(person("1")).await?;
        assert_eq!(rows(&store).await?.len(), left, "{fault:?}");
    }
    Ok(())
}
