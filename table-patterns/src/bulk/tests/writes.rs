use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::{FutureExt as _, StreamExt, TryStreamExt, stream};
use proptest::prelude::{any, prop};
use table_core::adapter::{Fault, FaultRule};
use table_core::manifest::{EntityType, IndexDefinition, IndexState, StoredIndex};
use table_core::model::{Entity, IfMatch, Key, ValueRef};
use table_core::query::Query;
use table_core::store::{
    Error, GroupTransaction, Operation, OperationKind, Result, TableStore, TableStoreExt as _,
};
use table_core::typed::Discriminator;
use tokio::sync::mpsc;

use super::{Rig, reading};
use crate::bulk::{BulkOptions, BulkWriter};
use crate::index::{Index, IndexOptions, IndexedEntities, Placement};

#[tokio::test]
async fn groups_are_full_and_requests_few() -> Result<()> {
    let rig = Rig::new().await?;
    let writes: Vec<_> = (0..1000)
        .map(|n| rig.insert(["a", "b", "c"][n % 3], n))
        .collect();
    let summary = BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    assert_eq!(summary.written, 1000);
    assert_eq!(summary.requests, 12);
    let counts = rig.meter.snapshot();
    assert_eq!(counts.of_kind(OperationKind::Transact), 12);
    assert_eq!(counts.of_kind(OperationKind::Query), 0);
    assert_eq!(counts.total(), 12);
    Ok(())
}

#[tokio::test]
async fn a_single_operation_is_sent_without_a_group() -> Result<()> {
    let rig = Rig::new().await?;
    let writes = stream::iter([rig.insert("a", 1), rig.insert("b", 1)]);
    assert_eq!(
        BulkWriter::new(rig.store.clone())
            .write(writes)
            .await?
            .into_result()?,
        2
    );
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Insert), 2);
    Ok(())
}

#[tokio::test]
async fn a_refused_operation_does_not_fail_the_others() -> Result<()> {
    let rig = Rig::new().await?;
    for row in [3, 7] {
        rig.store
            .write(&rig.table, Operation::Insert(reading("a", row)?))
            .await?;
    }
    let writes: Vec<_> = (0..10).map(|n| rig.insert("a", n)).collect();
    let summary = BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    assert_eq!(summary.written, 8);
    assert_eq!(summary.failed, 2);
    assert_eq!(summary.ambiguous, 0);
    // The group that failed, and the group of the others.
    assert_eq!(summary.requests, 2);
    assert!(
        summary
            .failures
            .iter()
            .all(|f| f.result.as_ref().is_err_and(Error::is_already_exists))
    );
    assert_eq!(rig.rows().await?.len(), 10);
    Ok(())
}

/// One look at the rows of a group finds all that exist: an input that is written again costs 2 requests for each group.
#[tokio::test]
async fn rows_that_exist_are_found_together() -> Result<()> {
    let rig = Rig::new().await?;
    let write = async |rows: Vec<usize>| -> Result<_> {
        let operations: Vec<_> = rows.into_iter().map(|n| rig.insert("a", n)).collect();
        rig.meter.reset();
        let options = BulkOptions::default().with_retry(None);
        let writer = BulkWriter::with_options(rig.store.clone(), options);
        let summary = writer.write(stream::iter(operations)).await?;
        let counts = rig.meter.snapshot();
        let kinds = [
            OperationKind::Transact,
            OperationKind::Insert,
            OperationKind::Query,
        ];
        Ok((
            [summary.written, summary.failed, summary.requests],
            kinds.map(|kind| counts.of_kind(kind)),
        ))
    };
    assert_eq!(write((0..300).collect()).await?, ([300, 0, 3], [3, 0, 0]));
    assert_eq!(write((0..300).collect()).await?, ([0, 300, 3], [3, 0, 3]));
    // Every second row of a group exists.
    assert_eq!(
        write((300..400).step_by(2).collect()).await?,
        ([50, 0, 1], [1, 0, 0])
    );
    assert_eq!(write((300..400).collect()).await?, ([50, 50, 2], [2, 0, 1]));
    // More rows between the first and the last row of the group than in a page: the rows of the page are found.
    let fill: Vec<_> = (1000..13_000).map(|n| rig.insert("a", n)).collect();
    BulkWriter::new(rig.store.clone())
        .write(stream::iter(fill))
        .await?
        .into_result()?;
    let sparse = vec![1000, 2000, 12_998, 12_999, 20_000];
    assert_eq!(write(sparse).await?, ([1, 4, 4], [3, 1, 1]));
    // A store that cannot be read: each row by itself.
    rig.faults
        .add(FaultRule::new(Fault::FailBefore).on(OperationKind::Query));
    assert_eq!(write(vec![1, 2, 3]).await?, ([0, 3, 3], [2, 1, 1]));
    Ok(())
}

#[tokio::test]
async fn an_operation_larger_than_any_group_does_not_fail_the_others() -> Result<()> {
    let rig = Rig::new().await?;
    let huge = |partition: &str| -> Result<_> {
        let mut row = reading(partition, 999)?;
        (0..90).for_each(|n| {
            row.properties_mut()
                .set(&format!("P{n}"), "x".repeat(50_000));
        });
        Ok((rig.table.clone(), Operation::Insert(row)))
    };
    let before = (0..10).map(|n| rig.insert("a", n));
    let after = (10..20)
        .map(|n| rig.insert("a", n))
        .chain((0..5).map(|n| rig.insert("c", n)));
    let writes: Vec<_> = before.chain([huge("a"), huge("b")]).chain(after).collect();
    let summary = BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    assert_eq!(summary.written, 25);
    assert_eq!(summary.failed, 2);
    assert!(
        summary
            .failures
            .iter()
            .all(|f| f.result.as_ref().is_err_and(Error::is_limit_exceeded))
    );
    assert_eq!(rig.rows().await?.len(), 25);
    Ok(())
}

#[tokio::test]
async fn an_operation_larger_than_any_group_sends_no_request() -> Result<()> {
    let rig = Rig::new().await?;
    let huge = (0..150).fold(reading("a", 0)?, |row, n| {
        row.with(&format!("P{n}"), "x".repeat(32_000))
    });
    let huge = Ok((rig.table.clone(), Operation::Insert(huge)));
    let writer = BulkWriter::new(rig.store.clone());
    let summary = writer.write(stream::iter([huge.clone()])).await?;
    assert_eq!(summary.requests, 0);
    assert_eq!(summary.failed, 1);
    assert_eq!(rig.meter.total(), 0);
    assert_eq!(summary.failures[0].request, None);
    let writes = [rig.insert("a", 1), huge];
    let summary = writer.write(stream::iter(writes)).await?;
    assert_eq!(summary.requests, 1);
    assert_eq!(summary.written, 1);
    assert_eq!(summary.failed, 1);
    Ok(())
}

#[tokio::test]
async fn operations_of_one_request_share_its_number() -> Result<()> {
    let rig = Rig::new().await?;
    let writes: Vec<_> = (0..250).map(|n| rig.insert("a", n)).collect();
    let outcomes: Vec<_> = BulkWriter::new(rig.store.clone())
        .outcomes(stream::iter(writes))
        .try_collect()
        .await?;
    let mut sizes = BTreeMap::<Option<u64>, usize>::new();
    outcomes
        .iter()
        .for_each(|outcome| *sizes.entry(outcome.request).or_default() += 1);
    let mut sizes: Vec<_> = sizes.into_values().collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_answer_an_insert_is_ambiguous_and_an_upsert_repeated() -> Result<()> {
    let rig = Rig::new().await?;
    rig.faults.add(
        FaultRule::new(Fault::LoseAnswer)
            .on(OperationKind::Transact)
            .nth(1),
    );
    let writes = stream::iter([rig.insert("a", 1), rig.insert("a", 2)]);
    let summary = BulkWriter::new(rig.store.clone()).write(writes).await?;
    assert_eq!(summary.written, 0);
    assert_eq!(summary.failed, 0);
    assert_eq!(summary.ambiguous, 2);

    rig.faults.add(
        FaultRule::new(Fault::LoseAnswer)
            .on(OperationKind::Transact)
            .nth(1),
    );
    let upsert = |n| {
        Ok((
            rig.table.clone(),
            Operation::InsertOrReplace(reading("a", n)?),
        ))
    };
    let summary = BulkWriter::new(rig.store.clone())
        .write(stream::iter([upsert(1), upsert(2)]))
        .await?;
    assert_eq!(summary.written, 2);
    assert_eq!(summary.ambiguous, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn writes_to_a_busy_service_are_repeated() -> Result<()> {
    let rig = Rig::new().await?;
    rig.faults.add(
        FaultRule::new(Fault::Throttle { retry_after: None })
            .on(OperationKind::Transact)
            .every(2),
    );
    let writes: Vec<_> = (0..1000).map(|n| rig.insert("a", n)).collect();
    let summary = BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    assert_eq!(summary.written, 1000);
    assert_eq!(summary.requests, 10);
    assert!(!rig.faults.injected().is_empty());
    Ok(())
}

#[tokio::test]
async fn the_input_is_read_no_faster_than_it_is_written() -> Result<()> {
    let rig = Rig::new().await?;
    let read = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&read);
    let writes: Vec<_> = (0..5000).map(|n| rig.insert(&format!("p{n}"), n)).collect();
    let writes = stream::iter(writes).inspect(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let options = BulkOptions::default()
        .with_concurrency(4)
        .with_max_waiting(100, usize::MAX);
    let mut outcomes =
        Box::pin(BulkWriter::with_options(rig.store.clone(), options).outcomes(writes));
    let (mut answered, mut most) = (0, 0);
    while outcomes.try_next().await?.is_some() {
        answered += 1;
        most = most.max(read.load(Ordering::Relaxed) - answered);
    }
    assert_eq!(answered, 5000);
    assert!(most <= 110, "{most} operations were in memory");
    Ok(())
}

#[tokio::test]
async fn the_writer_stops_at_the_first_failure_with_stop_at_failure() -> Result<()> {
    let rig = Rig::new().await?;
    rig.store
        .write(&rig.table, Operation::Insert(reading("a", 0)?))
        .await?;
    let writes: Vec<_> = (0..1000).map(|n| rig.insert("a", n)).collect();
    let options = BulkOptions::default().with_concurrency(1).stop_at_failure();
    let summary = BulkWriter::with_options(rig.store.clone(), options)
        .write(stream::iter(writes))
        .await?;
    assert_eq!(summary.failed, 1);
    assert!(summary.written < 1000, "{}", summary.written);
    assert!(summary.into_result().is_err_and(|e| e.is_already_exists()));
    Ok(())
}

#[tokio::test]
async fn an_error_of_the_input_is_the_last_item() -> Result<()> {
    let rig = Rig::new().await?;
    let mut writes: Vec<_> = (0..150).map(|n| rig.insert("a", n)).collect();
    writes.push(Err(Error::application("the file is damaged")));
    writes.push(rig.insert("a", 999));
    let writer = BulkWriter::new(rig.store.clone());
    let outcomes: Vec<_> = writer.outcomes(stream::iter(writes)).collect().await;
    assert_eq!(outcomes.len(), 151);
    assert!(outcomes.last().is_some_and(Result::is_err));
    assert_eq!(rig.rows().await?.len(), 150);
    Ok(())
}

#[tokio::test]
async fn a_table_with_indexes_is_refused() -> Result<()> {
    let rig = Rig::new().await?;
    let index = Index::new("celsius", Placement::SamePartition, "1", |_| Ok(None));
    IndexedEntities::open(
        rig.store.clone(),
        rig.table.clone(),
        vec![index],
        IndexOptions::default(),
    )
    .await?;
    let error = BulkWriter::new(rig.store.clone())
        .write(stream::iter([rig.insert("a", 1)]))
        .await;
    assert!(error.is_err_and(|e| e.to_string().contains("Table")));
    let raw = BulkOptions::default().write_indexed();
    let writer = BulkWriter::with_options(rig.store.clone(), raw);
    assert_eq!(
        writer
            .write(stream::iter([rig.insert("a", 1)]))
            .await?
            .written,
        1
    );
    Ok(())
}

fn alarm(row: usize) -> Result<Entity> {
    Ok(reading("a", row)?.with("EntityType", "Alarm"))
}

async fn declare_alarms(rig: &Rig) -> Result<()> {
    let keyed = IndexDefinition::keyed(
        "celsius",
        Placement::SamePartition,
        None,
        "c_{Celsius}_{RowKey}".parse()?,
    );
    let entity = EntityType {
        name: "Alarm".into(),
        discriminator: Discriminator::Property("EntityType".into()),
        ..EntityType::ANY
    };
    let index = StoredIndex::new(&IndexDefinition { entity, ..keyed }, IndexState::DeleteOnly);
    rig.store
        .write(&rig.table, Operation::Insert(index.to_entity()?))
        .await
        .map(drop)
}

/// In a table with indexes, entities that no index covers are written.
#[tokio::test]
async fn entities_with_an_index_are_refused_and_others_written() -> Result<()> {
    let rig = Rig::new().await?;
    declare_alarms(&rig).await?;
    rig.meter.reset();
    let writer = BulkWriter::new(rig.store.clone());
    let free = (0..100).map(|n| rig.insert("a", n)).collect::<Vec<_>>();
    assert_eq!(writer.write(stream::iter(free)).await?.written, 100);
    assert_eq!(
        rig.meter.total(),
        2,
        "1 request for the manifest, 1 for the group"
    );
    let key = reading("a", 1)?.key().clone();
    for refused in [
        Operation::Insert(alarm(200)?),
        Operation::InsertOrMerge(reading("a", 1)?),
        Operation::Delete(key, IfMatch::Any),
    ] {
        let error = writer
            .write(stream::iter([Ok((rig.table.clone(), refused))]))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("'celsius.") && error.to_string().contains("Table"),
            "{error}"
        );
    }
    assert_eq!(rig.meter.total(), 2, "a refused operation sends no request");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_index_that_is_declared_while_writes_wait_refuses_them() -> Result<()> {
    let rig = Rig::new().await?;
    let (send, receive) = mpsc::unbounded_channel();
    let receive = stream::unfold(
        receive,
        |mut receive: mpsc::UnboundedReceiver<_>| async move {
            let item = receive.recv().await?;
            Some((item, receive))
        },
    );
    let mut outcomes = Box::pin(BulkWriter::new(rig.store.clone()).outcomes(receive));
    send.send(Ok((rig.table.clone(), Operation::Insert(alarm(1)?))))
        .expect("it is read");
    send.send(rig.insert("a", 2)).expect("it is read");
    assert!(
        outcomes.next().now_or_never().is_none(),
        "both operations wait for others of their partition"
    );
    declare_alarms(&rig).await?;
    drop(send);
    let outcomes: Vec<_> = outcomes.try_collect().await?;
    let of = |row: usize| {
        outcomes
            .iter()
            .find(|o| o.key.row() == format!("{row:06}"))
            .expect("an outcome")
    };
    assert!(
        of(1)
            .result
            .as_ref()
            .is_err_and(|e| e.to_string().contains("Table"))
    );
    assert!(of(2).result.is_ok());
    assert_eq!(
        rig.rows()
            .await?
            .iter()
            .filter(|key| key.contains("000001"))
            .count(),
        0
    );
    Ok(())
}

/// A store that takes at most 30 operations in a request, although its profile allows 100.
#[derive(Debug)]
struct SmallRequests(Arc<dyn TableStore>);

#[async_trait::async_trait]
impl TableStore for SmallRequests {
    table_core::forward_to_store!(self => self.0;
        profile, create_table, delete_table, list_tables, get, query, write, context);

    async fn transact(
        &self,
        table: &table_core::model::TableName,
        group: GroupTransaction,
    ) -> Result<Vec<table_core::store::Written>> {
        if group.len() > 30 {
            return Err(Error::limit(
                "bytes of a group transaction's request",
                30,
                group.len(),
            ));
        }
        self.0.transact(table, group).await
    }
}

#[tokio::test]
async fn a_group_whose_request_is_too_large_is_split() -> Result<()> {
    let rig = Rig::new().await?;
    let writes: Vec<_> = (0..100).map(|n| rig.insert("a", n)).collect();
    let small = Arc::new(SmallRequests(rig.store.clone()));
    let summary = BulkWriter::new(small).write(stream::iter(writes)).await?;
    assert_eq!(summary.written, 100);
    assert_eq!(summary.failed, 0);
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Transact), 4);
    Ok(())
}

/// An operation of a random kind.
fn operation(kind: u8, key: Key, value: i32) -> Operation {
    let entity = Entity::from(key.clone()).with("V", value);
    match kind % 4 {
        0 => Operation::Insert(entity),
        1 => Operation::InsertOrReplace(entity),
        2 => Operation::Replace(entity, IfMatch::Any),
        _ => Operation::Delete(key, IfMatch::Any),
    }
}

/// Applies the operation to the model; whether it succeeds.
fn apply(model: &mut BTreeMap<Key, i32>, kind: u8, key: &Key, value: i32) -> bool {
    let exists = model.contains_key(key);
    let works = match kind % 4 {
        0 => !exists,
        1 => true,
        _ => exists,
    };
    match kind % 4 {
        3 => drop(model.remove(key)),
        _ if works => drop(model.insert(key.clone(), value)),
        _ => {}
    }
    works
}

proptest::proptest! {
    /// For any grouping, every entity ends as if its operations had run one after another.
    #[test]
    fn operations_on_an_entity_keep_their_order(
        steps in prop::collection::vec((any::<u8>(), 0..3usize, 0..6usize), 1..300),
        concurrency in 1..9usize,
        waiting in 1..40usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(check_order(steps, concurrency, waiting)).map_err(|e| {
            proptest::test_runner::TestCaseError::fail(e.to_string())
        })?;
    }
}

async fn check_order(
    steps: Vec<(u8, usize, usize)>,
    concurrency: usize,
    waiting: usize,
) -> Result<()> {
    let rig = Rig::new().await?;
    let (mut model, mut works) = (BTreeMap::new(), 0);
    let mut writes = Vec::new();
    for (n, (kind, partition, row)) in steps.into_iter().enumerate() {
        let (key, value) = (
            Key::new(format!("p{partition}"), format!("{row}"))?,
            n as i32,
        );
        works += u64::from(apply(&mut model, kind, &key, value));
        writes.push(Ok((rig.table.clone(), operation(kind, key, value))));
    }
    let total = writes.len() as u64;
    let options = BulkOptions::default()
        .with_concurrency(concurrency)
        .with_max_waiting(waiting, 1 << 20);
    let summary = BulkWriter::with_options(rig.store.clone(), options)
        .write(stream::iter(writes))
        .await?;
    assert_eq!(summary.written, works);
    assert_eq!(summary.failed, total - works);
    let stored = rig.store.query_all(&rig.table, &Query::new()).await?;
    let value = |row: &Entity| match row.get("V") {
        Some(ValueRef::Int32(value)) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        stored
            .iter()
            .map(|row| (row.key().clone(), value(row)))
            .collect::<BTreeMap<_, _>>(),
        model
    );
    Ok(())
}
