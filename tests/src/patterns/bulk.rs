//! Bulk work: grouped, parallel, with an outcome for every entity.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::open_table;
use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::adapter::{CrashPoint, Fault, FaultInjector, FaultRule, Faulty};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, PartitionKey, TableName, Ticks, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_patterns::bulk::{
    BulkOptions, BulkWriter, CopyJob, Unchanged, delete_partition, delete_where, scan_partitions,
    split_partitions,
};
use table_patterns::journal::Clearing;

use table_patterns::Table;
use table_patterns::index::IndexOptions;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::company::{Employee, key, with_badge};
use crate::wrappers::LaterIsFaster;
use crate::{Harness, TestTable};

const PARTITIONS: [&str; 4] = ["alpha", "beta", "it's 100%", "\u{1F600}"];

fn entity(n: usize) -> Entity {
    let entity = Entity::new(PARTITIONS[n % 4], format!("{n:06}")).expect("a legal key");
    entity
        .with("N", n as i32)
        .with("Text", "a text with \u{1F600} and 'quotes'")
        .with("At", Ticks::now())
}

async fn fill(harness: &Harness, table: &TestTable) -> usize {
    let rows = harness.scale().rows.min(1200);
    let name = table.name().clone();
    let inserts = (0..rows).map(move |n| Ok((name.clone(), Operation::Insert(entity(n)))));
    let summary = BulkWriter::new(Arc::clone(harness.store()))
        .write(stream::iter(inserts))
        .await;
    assert_eq!(summary.expect("the store works").written, rows as u64);
    rows
}

async fn count(harness: &Harness, table: &TestTable) -> usize {
    harness
        .store()
        .query_all(table.name(), &Query::new())
        .await
        .expect("rows")
        .len()
}

/// Every entity is written exactly once. Each outcome names the request that wrote the entity.
pub(crate) async fn everything_is_written(harness: &Harness) {
    let table = harness.table().await;
    let rows = fill(harness, &table).await;
    assert_eq!(count(harness, &table).await, rows);
    let name = table.name().clone();
    let upserts = (0..rows).map(move |n| Ok((name.clone(), Operation::InsertOrReplace(entity(n)))));
    let writer = BulkWriter::new(Arc::clone(harness.store()));
    let outcomes: Vec<_> = writer
        .outcomes(stream::iter(upserts))
        .try_collect()
        .await
        .expect("the store works");
    let mut requests = BTreeMap::<_, Vec<_>>::new();
    outcomes.iter().for_each(|o| {
        requests
            .entry(o.request)
            .or_default()
            .push(o.key.partition());
    });
    assert_eq!(outcomes.len(), rows);
    assert!(outcomes.iter().all(|o| {
        o.result
            .as_ref()
            .is_ok_and(|written| written.etag.is_some())
    }));
    assert!(
        requests
            .values()
            .all(|p| p.len() <= 100 && p.iter().all(|other| *other == p[0]))
    );
}

/// The input has no end and gives more operations only after it sees earlier writes. The writer does not wait
/// for the end of the input.
pub(crate) async fn an_endless_input_is_written_as_it_arrives(harness: &Harness) {
    let table = harness.table().await;
    let (send, receive) = mpsc::unbounded_channel();
    let input = stream::unfold(receive, |mut receive| async move {
        let item = receive.recv().await?;
        Some((Ok(item), receive))
    });
    let writer = BulkWriter::new(Arc::clone(harness.store()));
    let mut outcomes = pin!(writer.outcomes(input));
    for round in 0..3 {
        for n in [8 * round, 8 * round + 4] {
            send.send((table.name().clone(), Operation::Insert(entity(n))))
                .expect("the writer reads the input");
        }
        let mut requests = Vec::new();
        for _ in 0..2 {
            let outcome = timeout(Duration::from_secs(60), outcomes.next())
                .await
                .expect("the outcome does not wait for the end of the input");
            let outcome = outcome.expect("an outcome").expect("the store works");
            assert!(outcome.result.is_ok());
            requests.push(outcome.request);
        }
        assert_eq!(
            requests[0], requests[1],
            "operations that arrive together are one group"
        );
    }
    assert_eq!(count(harness, &table).await, 6);
    drop(send);
    assert!(outcomes.next().await.is_none());
}

/// A table whose manifest is read slowly does not delay the writes of another table.
pub(crate) async fn a_slow_table_delays_no_other_table(harness: &Harness) {
    let (table, slow) = (harness.table().await, harness.table().await);
    harness.store().context().manifests().forget(slow.name());
    let faults = FaultInjector::new(0);
    faults
        .add(FaultRule::new(Fault::Delay(Duration::from_secs(3600))).in_table(slow.name().clone()));
    let store = Arc::new(Faulty::new(Arc::clone(harness.store()), faults));
    let options = BulkOptions::default()
        .with_retry(None)
        .with_max_waiting(1, usize::MAX);
    let names = [table.name(), table.name(), slow.name()].map(Clone::clone);
    let input = names
        .into_iter()
        .enumerate()
        .map(|(n, name)| Ok((name, Operation::Insert(entity(n)))));
    let input = stream::iter(input.collect::<Vec<_>>());
    let writer = BulkWriter::with_options(store, options);
    let mut outcomes = pin!(writer.outcomes(input));
    let first = timeout(Duration::from_secs(60), outcomes.next())
        .await
        .expect("the other table is not delayed");
    assert_eq!(
        first.expect("an outcome").expect("the store works").table,
        *table.name()
    );
    let rest: Vec<_> = outcomes.try_collect().await.expect("the store works");
    assert_eq!(rest.len(), 2);
    assert!(rest.iter().all(|outcome| outcome.result.is_ok()));
}

/// An entity that exists already is reported as a conflict. The other entities of its group are written.
pub(crate) async fn a_conflict_affects_one_entity(harness: &Harness) {
    let table = harness.table().await;
    let taken = entity(8);
    harness
        .store()
        .write(table.name(), Operation::Insert(taken.clone()))
        .await
        .expect("a new row");
    let name = table.name().clone();
    let inserts = (0..40).map(move |n| Ok((name.clone(), Operation::Insert(entity(n)))));
    let summary = BulkWriter::new(Arc::clone(harness.store()))
        .write(stream::iter(inserts))
        .await;
    let summary = summary.expect("the store works");
    assert_eq!(summary.written, 39);
    assert_eq!(summary.failed, 1);
    assert_eq!(summary.ambiguous, 0);
    assert_eq!(&summary.failures[0].key, taken.key());
    assert!(
        summary.failures[0]
            .result
            .as_ref()
            .is_err_and(|e| e.is_already_exists())
    );
    assert_eq!(count(harness, &table).await, 40);
}

/// Large entities make small groups: the writer counts the bytes of the request.
pub(crate) async fn groups_stay_within_the_byte_limit(harness: &Harness) {
    let table = harness.table().await;
    let name = table.name().clone();
    let text = "\u{E4}".repeat(30_000);
    let large = move |n: usize| {
        let mut row = Entity::new("p", format!("{n:03}")).expect("a legal key");
        (0..12).for_each(|p| row.properties_mut().set(&format!("P{p}"), text.as_str()));
        Ok((name.clone(), Operation::Insert(row)))
    };
    let summary = BulkWriter::new(Arc::clone(harness.store()))
        .write(stream::iter((0..14).map(large)))
        .await;
    assert_eq!(
        summary
            .expect("the store works")
            .into_result()
            .expect("all fit"),
        14
    );
    assert_eq!(count(harness, &table).await, 14);
}

/// Rows of one key are written in the order of the input: with answers in another order, with repeated requests, and if the input
/// writes the name of the table in two ways.
pub(crate) async fn rows_of_a_key_are_written_in_their_order(harness: &Harness) {
    const KEYS: usize = 30;
    let table = harness.table().await;
    let upper = TableName::new(table.name().as_str().to_uppercase()).expect("a legal name");
    let names = [table.name().clone(), upper];
    let faults = FaultInjector::new(7);
    let throttled = Fault::Throttle {
        retry_after: Some(Duration::from_millis(1)),
    };
    faults.add(FaultRule::new(throttled).every(3));
    let store = Faulty::new(
        Arc::new(LaterIsFaster::new(Arc::clone(harness.store()))),
        faults,
    );
    let upserts = (0..8 * KEYS).map(move |n| {
        let (key, round) = (n % KEYS, n / KEYS);
        let row = Entity::new(PARTITIONS[key % 4], format!("{key:06}"))?.with("V", round as i32);
        Ok((names[round % 2].clone(), Operation::InsertOrReplace(row)))
    });
    let upserts: Vec<_> = upserts.collect();
    let summary = BulkWriter::new(store)
        .write(stream::iter(upserts))
        .await
        .expect("the store works");
    assert_eq!(summary.into_result().expect("no failure"), 8 * KEYS as u64);
    let rows = harness
        .store()
        .query_all(table.name(), &Query::new())
        .await
        .expect("rows");
    assert_eq!(rows.len(), KEYS);
    assert!(
        rows.iter()
            .all(|row| row.get("V") == Some(ValueRef::Int32(7))),
        "{rows:?}"
    );
}

/// A partition is deleted, or the entities that match a filter. All other entities stay.
pub(crate) async fn a_deletion_removes_only_matching_entities(harness: &Harness) {
    let table = harness.table().await;
    let rows = fill(harness, &table).await;
    let (store, options) = (|| Arc::clone(harness.store()), BulkOptions::default());
    let beta = PartitionKey::new("beta").expect("a legal key");
    let summary = delete_partition(store(), table.name(), &beta, options.clone()).await;
    assert_eq!(summary.expect("the store works").written, rows as u64 / 4);
    let few = Filter::lt("N", 400);
    let summary = delete_where(store(), table.name(), few, Unchanged::Required, options).await;
    assert_eq!(summary.expect("the store works").written, 300);
    assert_eq!(count(harness, &table).await, rows - rows / 4 - 300);
}

/// Ranges of partitions that are read concurrently contain every row once.
pub(crate) async fn scans_cover_every_partition(harness: &Harness) {
    let table = harness.table().await;
    let rows = fill(harness, &table).await;
    let ranges = split_partitions(["b", "it's 100%", "\u{1F600}"]);
    let scan = scan_partitions(
        Arc::clone(harness.store()),
        table.name(),
        &Query::new(),
        ranges,
        3,
    );
    let mut keys: Vec<_> = scan
        .map_ok(|row| row.key().clone())
        .try_collect()
        .await
        .expect("rows");
    assert_eq!(keys.len(), rows);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), rows);
}

/// A copy to another store and back equals the original. A comparison finds a changed row.
pub(crate) async fn copies_to_another_store_and_back_are_equal(harness: &Harness) {
    let (table, back) = (harness.table().await, harness.missing_table());
    let rows = fill(harness, &table).await;
    let here = |table: &TestTable| (Arc::clone(harness.store()), table.name().clone());
    let memory: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let there = || (Arc::clone(&memory), table.name().clone());
    for job in [
        CopyJob::new(here(&table), there()),
        CopyJob::new(there(), here(&back)),
    ] {
        let job = job.resumable("there and back");
        assert_eq!(job.run().await.expect("the stores work").rows, rows as u64);
        assert!(job.verify().await.expect("the stores work").equal);
    }
    let changed = Operation::InsertOrReplace(entity(1).with("N", -1));
    harness
        .store()
        .write(back.name(), changed)
        .await
        .expect("the store works");
    let compared = CopyJob::new(here(&table), here(&back))
        .verify()
        .await
        .expect("the stores work");
    assert!(!compared.equal);
    assert_eq!(compared.differences.len(), 1);
}

/// Returns a table with an employee, in which a program crashed before one request of a write, and the rows of
/// the table.
async fn left_by<F>(
    harness: &Harness,
    requests: u64,
    write: impl FnOnce(Table<Employee>) -> F,
) -> (Table<Employee>, Vec<Entity>)
where
    F: Future<Output = ()>,
{
    let table = harness.unused_name();
    let open = |store| {
        open_table::<Employee>(
            store,
            table.clone(),
            IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
        )
    };
    let employees = open(Arc::clone(harness.store()))
        .await
        .expect("a new table");
    employees
        .insert(&with_badge(1, 7))
        .await
        .expect("a new employee");
    let faults = FaultInjector::new(0);
    let crashing: Arc<dyn TableStore> =
        Arc::new(Faulty::new(Arc::clone(harness.store()), faults.clone()));
    let writer = open(crashing).await.expect("the table");
    faults.crash_at(requests, CrashPoint::Before);
    write(writer).await;
    assert!(
        faults.is_crashed(),
        "the write sends fewer than {requests} requests"
    );
    let rows = harness
        .store()
        .query_all(&table, &Query::new())
        .await
        .expect("rows");
    (employees, rows)
}

/// A copy of a table with an unfinished write is refused before anything is written. The table can be copied
/// once the write is finished.
pub(crate) async fn copies_of_unfinished_writes_are_refused(harness: &Harness) {
    let marked = |row: &Entity| row.get("EntityMoveTo").is_some();
    let pending = |row: &Entity| row.get("HeirRow").is_some();
    let journaled = |row: &Entity| row.get("JournalKind") == Some(ValueRef::String("write"));
    let kinds = |rows: &[Entity]| {
        let count = |kind: &dyn Fn(&Entity) -> bool| rows.iter().filter(|row| kind(row)).count();
        (count(&marked), count(&pending), count(&journaled))
    };
    // The move crashes before it writes the entry of its value, before its commit, or before it removes the
    // source.
    for (requests, left) in [(4, (1, 0, 0)), (6, (1, 1, 0)), (7, (1, 1, 1))] {
        let (employees, rows) = left_by(harness, requests, |writer| async move {
            let to = Employee::key("Marketing", 1).expect("a legal key");
            // A committed move is acknowledged, whatever work is left.
            let _ = writer.move_to(key(1), &writer, to).await;
        })
        .await;
        assert_eq!(
            kinds(&rows),
            left,
            "a move that died before request {requests}: {rows:?}"
        );
        refused_then_copied(&employees).await;
    }
    // The insert crashes before it removes its journal row, which is then the only trace of the insert.
    let mut journal_rows = 0;
    for requests in 1..=6 {
        let (employees, rows) = left_by(harness, requests, |writer| async move {
            let _ = writer.insert(&with_badge(2, 8)).await;
        })
        .await;
        if kinds(&rows) == (0, 0, 1) {
            journal_rows += 1;
            refused_then_copied(&employees).await;
        }
    }
    assert!(journal_rows > 0, "no insert left its journal row");
}

async fn refused_then_copied(employees: &Table<Employee>) {
    let of = employees.entities().await.expect("an open table");
    let memory: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let from = (Arc::clone(of.store()), of.table().clone());
    let job = CopyJob::new(from, (Arc::clone(&memory), of.table().clone()));
    let refused = job.run().await.expect_err("a write is unfinished");
    let text = refused.to_string();
    assert!(text.contains("not finished"), "{text}");
    assert!(text.contains("Upkeep"), "{text}");
    let copied = memory
        .query_all(of.table(), &Query::new())
        .await
        .expect("rows");
    assert!(copied.is_empty(), "{copied:?}");

    for _ in 0..2 {
        let unique = [of.table().clone()];
        of.journal()
            .sweep(&unique, Duration::ZERO)
            .await
            .expect("the store works");
    }
    job.run().await.expect("no write is unfinished");
    assert!(job.verify().await.expect("the stores work").equal);
    let copy = open_table::<Employee>(memory, of.table().clone(), IndexOptions::local());
    let copy = copy.await.expect("the copy");
    let found = copy.by(Employee::by_badge(7)).verified().get().await;
    assert_eq!(found.expect("an answer").expect("an employee").id, 1);
    let second = copy
        .insert(&with_badge(3, 7))
        .await
        .expect_err("the value is taken");
    assert!(second.is_unique_violation(), "{second}");
}

/// A deletion that crashes at any request removes no entity outside the filter. A second run removes the rest.
pub(crate) async fn a_crashed_deletion_can_be_repeated(harness: &Harness) {
    let matching = || Filter::lt("N", 24);
    let options = BulkOptions::default().with_retry(None);
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let table = harness.table().await;
            let name = table.name().clone();
            let inserts = (0..48).map(move |n| Ok((name.clone(), Operation::Insert(entity(n)))));
            let filled = BulkWriter::new(Arc::clone(harness.store()))
                .write(stream::iter(inserts))
                .await;
            assert_eq!(filled.expect("the store works").written, 48);
            let faults = FaultInjector::new(0);
            let crashing = Arc::new(Faulty::new(harness.store().clone(), faults.clone()));
            faults.crash_at(request, point);
            let died = delete_where(
                crashing,
                table.name(),
                matching(),
                Unchanged::Required,
                options.clone(),
            );
            let answered = died.await.map_or(0, |summary| summary.written as usize);
            let left = count(harness, &table).await;
            let case = format!("{point:?} at {request}: {answered} answered, {left} left");
            assert!((24..=48 - answered).contains(&left), "{case}");
            assert!(faults.is_crashed() || answered == 24, "{case}");
            let store = Arc::clone(harness.store());
            let again = delete_where(
                store,
                table.name(),
                matching(),
                Unchanged::Required,
                options.clone(),
            );
            assert_eq!(
                again.await.expect("the store works").written as usize,
                left - 24,
                "{case}"
            );
            let rest = harness
                .store()
                .query_all(table.name(), &Query::new())
                .await
                .expect("rows");
            let kept = |row: &Entity| matches!(row.get("N"), Some(ValueRef::Int32(24..)));
            assert_eq!(rest.len(), 24, "{case}");
            assert!(rest.iter().all(kept), "{case}");
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert_eq!(crashes, 2 * 5);
}
