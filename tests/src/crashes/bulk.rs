//! Bulk work with faults: at each request the process crashes, or the request or its answer is lost. Every
//! reported outcome is true. A second run completes the work: no row is lost, no row is written twice, and no
//! progress row is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use table_core::adapter::{Faulty, RetryPolicy, WRITE_ID_PROPERTY};
use table_core::model::{Entity, Key, Properties, TableName, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Outcome, Result, TableStore, TableStoreExt as _};
use table_patterns::bulk::{BulkOptions, BulkOutcome, BulkSummary, BulkWriter, CopyJob};

use crate::Harness;
use crate::fault_runs::{FaultRun, run_with_faults};

const ROWS: usize = 60;
/// The rows that a copy reads at a time.
const WINDOW: usize = 20;

/// Rows of three partitions.
fn rows() -> impl Iterator<Item = Entity> {
    (0..ROWS).map(|n| {
        let row = Entity::new(["alpha", "beta", "it's 100%"][n % 3], format!("{n:03}"));
        row.expect("a legal key")
            .with("N", n as i32)
            .with("Text", "a text with \u{1F600}")
    })
}

/// Small groups, some of them concurrent, each sent once.
fn options() -> BulkOptions {
    BulkOptions::default()
        .with_concurrency(2)
        .with_max_waiting(12, 100_000)
        .with_retry(None)
}

fn retrying() -> BulkOptions {
    let delays = (Duration::from_millis(2), Duration::from_millis(10));
    options().with_retry(Some(
        RetryPolicy::default()
            .with_write_ids()
            .with_delays(delays.0, delays.1),
    ))
}

async fn write(
    store: Arc<dyn TableStore>,
    table: &TableName,
    operation: fn(Entity) -> Operation,
    options: BulkOptions,
) -> Result<Vec<BulkOutcome>> {
    let (table, writer) = (table.clone(), BulkWriter::with_options(store, options));
    let operations = rows().map(move |row| Ok((table.clone(), operation(row))));
    writer
        .outcomes(stream::iter(operations))
        .try_collect()
        .await
}

/// Reads the rows of a table, without the write ids of retries.
async fn found(harness: &Harness, table: &TableName) -> BTreeMap<Key, Properties> {
    let rows = harness
        .store()
        .query_all(table, &Query::new())
        .await
        .expect("rows");
    let plain = |mut row: Entity| {
        row.properties_mut().remove(WRITE_ID_PROPERTY);
        row.into_parts()
    };
    rows.into_iter().map(plain).collect()
}

fn all() -> BTreeMap<Key, Properties> {
    rows().map(|row| row.into_parts()).collect()
}

/// Asserts that every reported outcome is true.
fn check_outcomes(
    run: &FaultRun<'_>,
    answered: &Result<Vec<BulkOutcome>>,
    found: &BTreeMap<Key, Properties>,
    stops: bool,
) {
    let Ok(outcomes) = answered else {
        // The manifest, if it is read, is read before the first write.
        assert!(found.is_empty(), "{run}: {answered:?}, but rows are stored");
        return;
    };
    assert!(
        outcomes.len() == ROWS || stops,
        "{run}: {} of {ROWS}",
        outcomes.len()
    );
    assert!(
        found.len() <= outcomes.len(),
        "{run}: a stored row has no outcome"
    );
    for outcome in outcomes {
        let is_there = found.contains_key(&outcome.key);
        match outcome.result.as_ref().map_err(table_core::Error::outcome) {
            Ok(_) | Err(Outcome::Applied) => {
                assert!(is_there, "{run}: {outcome:?}, but the row is missing");
            }
            Err(Outcome::NotApplied) => {
                assert!(!is_there, "{run}: {outcome:?}, but the row is stored");
            }
            Err(Outcome::Ambiguous) => {}
        }
    }
}

async fn write_with_faults(
    harness: &Harness,
    path: &str,
    operation: fn(Entity) -> Operation,
    options: fn() -> BulkOptions,
) {
    run_with_faults(harness, path, async |run| {
        let table = harness.table().await.name().clone();
        let store = Arc::new(Faulty::new(harness.store().clone(), run.faults.clone()));
        run.begin();
        let answered = write(store, &table, operation, options()).await;
        run.end();
        let before = found(harness, &table).await;
        check_outcomes(run, &answered, &before, options().stops_at_failure);
        let hears_all = run.has_no_fault() || (options().retry.is_some() && !run.is_dead());
        assert!(
            !hears_all || answered.is_ok_and(|all| all.iter().all(|o| o.result.is_ok())),
            "{run}"
        );

        let again = write(harness.store().clone(), &table, operation, options()).await;
        let mut summary = BulkSummary::default();
        again
            .expect("the store works")
            .into_iter()
            .for_each(|outcome| summary.add(outcome));
        let kept = if matches!(
            operation(rows().next().expect("a row")),
            Operation::Insert(_)
        ) {
            before.len()
        } else {
            0
        };
        assert_eq!(summary.written as usize, ROWS - kept, "{run}");
        assert_eq!(summary.failed as usize, kept, "{run}");
        assert_eq!(found(harness, &table).await, all(), "{run}");
    })
    .await;
}

/// A second run repeats upserts. Inserts that took effect in the first run are refused.
pub(crate) async fn crashed_writes_can_be_repeated(harness: &Harness) {
    write_with_faults(harness, "upserts", Operation::InsertOrReplace, options).await;
    write_with_faults(harness, "inserts", Operation::Insert, options).await;
    let stopping = || options().stop_at_failure().write_indexed();
    write_with_faults(
        harness,
        "upserts up to a failure",
        Operation::InsertOrReplace,
        stopping,
    )
    .await;
}

/// A retry repeats a lost request, and finds the write if only its answer was lost. Only a crash leaves work
/// undone.
pub(crate) async fn retried_writes_take_effect_once(harness: &Harness) {
    write_with_faults(
        harness,
        "upserts under retries",
        Operation::InsertOrReplace,
        retrying,
    )
    .await;
    write_with_faults(
        harness,
        "inserts under retries",
        Operation::Insert,
        retrying,
    )
    .await;
}

/// A named copy continues at its stored progress, counts every row once, and removes its progress at the end.
pub(crate) async fn crashed_copies_continue_at_their_progress(harness: &Harness) {
    for (path, options) in [
        ("copy", options as fn() -> BulkOptions),
        ("copy under retries", retrying as fn() -> BulkOptions),
    ] {
        run_with_faults(harness, path, async |run| {
            copy_with_faults(harness, run, options()).await;
        })
        .await;
    }
}

async fn copy_with_faults(harness: &Harness, run: &FaultRun<'_>, options: BulkOptions) {
    let (from, to) = (
        harness.table().await.name().clone(),
        harness.missing_table().name().clone(),
    );
    write(
        harness.store().clone(),
        &from,
        Operation::Insert,
        BulkOptions::default(),
    )
    .await
    .expect("new rows");
    let job = |store: Arc<dyn TableStore>| {
        let job = CopyJob::new((store.clone(), from.clone()), (store, to.clone()));
        job.resumable("there")
            .with_window(WINDOW)
            .with_options(options.clone())
    };
    run.begin();
    let answered = job(Arc::new(Faulty::new(
        harness.store().clone(),
        run.faults.clone(),
    )))
    .run()
    .await;
    run.end();
    assert!(
        !run.has_no_fault() || answered.is_ok(),
        "{run}: {answered:?}"
    );
    let (kept, saved) = progress(harness, &to).await;
    if answered.is_ok_and(|report| report.rows == ROWS as u64) {
        assert_eq!(kept, 0, "{run}: an acknowledged copy is incomplete");
        assert_eq!(
            found(harness, &to).await,
            all(),
            "{run}: an acknowledged copy is incomplete"
        );
    }

    let again = job(harness.store().clone());
    let report = again.run().await.expect("the store works");
    assert_eq!(report.rows, ROWS as u64, "{run}: rows are counted once");
    assert_eq!(report.resumed, saved, "{run}: {report:?}");
    assert!(
        again.verify().await.expect("the store works").equal,
        "{run}"
    );
    assert_eq!(
        progress(harness, &to).await,
        (0, 0),
        "{run}: a progress row is left"
    );
}

/// Counts the progress rows, and the copied rows that they name. A job saves a progress row before its first window.
async fn progress(harness: &Harness, table: &TableName) -> (usize, u64) {
    let rows = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, "~~copy"));
    let rows = match harness.store().query_all(table, &rows).await {
        Err(error) if error.is_table_not_found() => Vec::new(),
        rows => rows.expect("rows"),
    };
    let copied = rows.iter().map(|row| match row.get("Rows") {
        Some(ValueRef::Int64(copied)) => copied.cast_unsigned(),
        other => panic!("{other:?} is not a number of rows"),
    });
    (rows.len(), copied.sum())
}
