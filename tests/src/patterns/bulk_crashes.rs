//! Bulk work in trouble: at any request the process dies, or the request or its answer is lost. What was said of an
//! entity is so; run again, the work is done: nothing is lost, nothing is there twice, and no progress is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use table_core::adapter::{Faulty, RetryPolicy, WRITE_ID_PROPERTY};
use table_core::model::{Entity, Key, Properties, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, Outcome, Result, TableStore, TableStoreExt as _};
use table_patterns::bulk::{BulkOptions, BulkOutcome, BulkSummary, BulkWriter, CopyJob};

use crate::Harness;
use crate::trouble::{Play, trouble};

const ROWS: usize = 60;
/// Rows that a copy reads at a time.
const WINDOW: usize = 20;

/// Rows of three partitions.
fn rows() -> impl Iterator<Item = Entity> {
    (0..ROWS).map(|n| {
        let row = Entity::new(["alpha", "beta", "it's 100%"][n % 3], format!("{n:03}"));
        row.expect("a legal key").with("N", n as i32).with("Text", "a text with \u{1F600}")
    })
}

/// Small groups, a few at a time, each sent once.
fn options() -> BulkOptions {
    BulkOptions::default().with_parallelism(2).with_max_waiting(12, 100_000).with_retry(None)
}

fn retrying() -> BulkOptions {
    let delays = (Duration::from_millis(2), Duration::from_millis(10));
    options().with_retry(Some(RetryPolicy::default().with_write_ids().with_delays(delays.0, delays.1)))
}

async fn write(
    store: Arc<dyn TableStore>,
    table: &TableName,
    operation: fn(Entity) -> Operation,
    options: BulkOptions,
) -> Result<Vec<BulkOutcome>> {
    let (table, writer) = (table.clone(), BulkWriter::with_options(store, options));
    let operations = rows().map(move |row| Ok((table.clone(), operation(row))));
    writer.outcomes(stream::iter(operations)).try_collect().await
}

/// What is in a table, without the marks by which retries find what they wrote.
async fn found(harness: &Harness, table: &TableName) -> BTreeMap<Key, Properties> {
    let rows = harness.store().query_all(table, &Query::new()).await.expect("rows");
    let plain = |mut row: Entity| {
        row.properties_mut().remove(WRITE_ID_PROPERTY);
        row.into_parts()
    };
    rows.into_iter().map(plain).collect()
}

fn all() -> BTreeMap<Key, Properties> {
    rows().map(|row| row.into_parts()).collect()
}

/// Every outcome that was told is so.
fn check_outcomes(
    play: &Play<'_>,
    told: &Result<Vec<BulkOutcome>>,
    found: &BTreeMap<Key, Properties>,
    stops: bool,
) {
    let Ok(outcomes) = told else {
        // The manifest, where it is asked for, comes first.
        assert!(found.is_empty(), "{play}: {told:?}, and rows are there");
        return;
    };
    assert!(outcomes.len() == ROWS || stops, "{play}: {} of {ROWS}", outcomes.len());
    assert!(found.len() <= outcomes.len(), "{play}: nothing was said of some that are there");
    for outcome in outcomes {
        let is_there = found.contains_key(&outcome.key);
        match outcome.result.as_ref().map_err(table_core::Error::outcome) {
            Ok(_) | Err(Outcome::Applied) => assert!(is_there, "{play}: {outcome:?}, and it is not there"),
            Err(Outcome::NotApplied) => assert!(!is_there, "{play}: {outcome:?}, and it is there"),
            Err(Outcome::Ambiguous) => {}
        }
    }
}

async fn write_in_trouble(
    harness: &Harness,
    path: &str,
    operation: fn(Entity) -> Operation,
    options: fn() -> BulkOptions,
) {
    trouble(harness, path, async |play| {
        let table = harness.table().await.name().clone();
        let store = Arc::new(Faulty::new(harness.store().clone(), play.faults.clone()));
        play.begin();
        let told = write(store, &table, operation, options()).await;
        play.end();
        let before = found(harness, &table).await;
        check_outcomes(play, &told, &before, options().stops_at_failure);
        let hears_all = play.is_untroubled() || (options().retry.is_some() && !play.is_dead());
        assert!(!hears_all || told.is_ok_and(|all| all.iter().all(|o| o.result.is_ok())), "{play}");

        let again = write(harness.store().clone(), &table, operation, options()).await;
        let mut summary = BulkSummary::default();
        again.expect("the store works").into_iter().for_each(|outcome| summary.add(outcome));
        let kept = if matches!(operation(rows().next().expect("a row")), Operation::Insert(_)) {
            before.len()
        } else {
            0
        };
        assert_eq!(summary.written as usize, ROWS - kept, "{play}");
        assert_eq!(summary.failed as usize, kept, "{play}");
        assert_eq!(found(harness, &table).await, all(), "{play}");
    })
    .await;
}

/// Upserts are written again, inserts are refused where they were written.
pub(crate) async fn writes_are_run_again(harness: &Harness) {
    write_in_trouble(harness, "upserts", Operation::InsertOrReplace, options).await;
    write_in_trouble(harness, "inserts", Operation::Insert, options).await;
    let stopping = || options().stop_at_failure().write_indexed();
    write_in_trouble(harness, "upserts up to a failure", Operation::InsertOrReplace, stopping).await;
}

/// What is lost is sent again, and found where it was written: only a death leaves anything undone.
pub(crate) async fn writes_under_retries_are_done_once(harness: &Harness) {
    write_in_trouble(harness, "upserts under retries", Operation::InsertOrReplace, retrying).await;
    write_in_trouble(harness, "inserts under retries", Operation::Insert, retrying).await;
}

/// A named copy goes on where it was, counts every row once, and leaves no trace of its progress.
pub(crate) async fn copies_go_on_where_they_were(harness: &Harness) {
    for (path, options) in
        [("copy", options as fn() -> BulkOptions), ("copy under retries", retrying as fn() -> BulkOptions)]
    {
        trouble(harness, path, async |play| copy_in_trouble(harness, play, options()).await).await;
    }
}

async fn copy_in_trouble(harness: &Harness, play: &Play<'_>, options: BulkOptions) {
    let (from, to) = (harness.table().await.name().clone(), harness.missing_table().name().clone());
    write(harness.store().clone(), &from, Operation::Insert, BulkOptions::default()).await.expect("new rows");
    let job = |store: Arc<dyn TableStore>| {
        let job = CopyJob::new((store.clone(), from.clone()), (store, to.clone()));
        job.resumable("there").with_window(WINDOW).with_options(options.clone())
    };
    play.begin();
    let told = job(Arc::new(Faulty::new(harness.store().clone(), play.faults.clone()))).run().await;
    play.end();
    assert!(!play.is_untroubled() || told.is_ok(), "{play}: {told:?}");
    let kept = progress(harness, &to).await;
    if told.is_ok_and(|report| report.rows == ROWS as u64) {
        assert_eq!(kept, 0, "{play}: it was said to be done");
        assert_eq!(found(harness, &to).await, all(), "{play}: it was said to be done");
    }

    let again = job(harness.store().clone());
    let report = again.run().await.expect("the store works");
    assert_eq!(report.rows, ROWS as u64, "{play}: rows are counted once");
    assert_eq!(report.resumed > 0, kept > 0, "{play}: {report:?}");
    assert!(again.verify().await.expect("the store works").equal, "{play}");
    assert_eq!(progress(harness, &to).await, 0, "{play}: its progress is left");
}

/// How many rows of progress there are.
async fn progress(harness: &Harness, table: &TableName) -> usize {
    let rows = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, "~~copy"));
    match harness.store().query_all(table, &rows).await {
        Err(error) if error.is_table_not_found() => 0,
        rows => rows.expect("rows").len(),
    }
}
