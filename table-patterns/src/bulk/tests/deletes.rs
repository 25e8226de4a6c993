use futures_util::{TryStreamExt, stream};
use table_core::model::{IfMatch, PartitionKey};
use table_core::query::{Filter, Query};
use table_core::store::{ErrorKind, Operation, OperationKind, Result};

use super::{Rig, reading};
use crate::bulk::scan::{delete_operation, scan};
use crate::bulk::{
    BulkOptions, BulkWriter, Unchanged, delete_partition, delete_where, scan_partitions,
    split_partitions,
};
use crate::tests::AlwaysFirstPage;

async fn filled() -> Result<Rig> {
    let rig = Rig::new().await?;
    let writes: Vec<_> = (0..1500)
        .map(|n| rig.insert(["a", "b", "m"][n % 3], n))
        .collect();
    BulkWriter::new(rig.store.clone())
        .write(stream::iter(writes))
        .await?;
    rig.meter.reset();
    Ok(rig)
}

#[tokio::test]
async fn delete_partition_leaves_other_partitions() -> Result<()> {
    let rig = filled().await?;
    let partition = PartitionKey::new("b")?;
    let summary = delete_partition(
        rig.store.clone(),
        &rig.table,
        &partition,
        BulkOptions::default(),
    )
    .await?;
    assert_eq!(summary.written, 500);
    assert_eq!(summary.failed, 0);
    let counts = rig.meter.snapshot();
    assert_eq!(counts.of_kind(OperationKind::Transact), 5);
    assert_eq!(counts.of_kind(OperationKind::Query), 1);
    assert_eq!(rig.rows().await?.len(), 1000);
    Ok(())
}

#[tokio::test]
async fn a_changed_entity_stays_with_unchanged_required() -> Result<()> {
    let rig = filled().await?;
    let first = Query::new().with_filter(Filter::lt(Filter::ROW_KEY, "000003"));
    let found: Vec<_> = scan(rig.store.clone(), rig.table.clone(), first)
        .try_collect()
        .await?;
    let changed = Operation::Merge(reading("b", 1)?.with("Celsius", 30.0), IfMatch::Any);
    rig.store.write(&rig.table, changed).await?;
    let writer = BulkWriter::new(rig.store.clone());
    let deletes: Vec<_> = found
        .iter()
        .map(|row| {
            Ok((
                rig.table.clone(),
                delete_operation(row, Unchanged::Required)?,
            ))
        })
        .collect();
    let summary = writer.write(stream::iter(deletes)).await?;
    assert_eq!(summary.written, 2);
    assert_eq!(summary.failed, 1);
    assert!(
        summary
            .into_result()
            .is_err_and(|e| e.is_precondition_failed())
    );
    Ok(())
}

#[tokio::test]
async fn delete_where_deletes_only_matching_entities() -> Result<()> {
    let rig = filled().await?;
    let first = || Filter::lt(Filter::ROW_KEY, "000300");
    let options = BulkOptions::default();
    let summary = delete_where(
        rig.store.clone(),
        &rig.table,
        first(),
        Unchanged::Required,
        options.clone(),
    )
    .await?;
    assert_eq!(summary.written, 300);
    assert_eq!(summary.failed, 0);
    let again = delete_where(
        rig.store.clone(),
        &rig.table,
        first(),
        Unchanged::Ignored,
        options,
    )
    .await?;
    assert_eq!(again.written, 0);
    assert_eq!(again.requests, 0);
    assert_eq!(rig.rows().await?.len(), 1200);
    Ok(())
}

#[tokio::test]
async fn ranges_of_partitions_cover_every_entity_once() -> Result<()> {
    let rig = filled().await?;
    let ranges = split_partitions(["b", "z", "b", "c"]);
    assert_eq!(ranges.len(), 4);
    let scan = scan_partitions(rig.store.clone(), &rig.table, &Query::new(), ranges, 2);
    let mut keys: Vec<_> = scan
        .map_ok(|row| row.key().to_string())
        .try_collect()
        .await?;
    keys.sort_unstable();
    let mut all = rig.rows().await?;
    all.sort_unstable();
    assert_eq!(keys, all);
    assert_eq!(rig.meter.snapshot().of_kind(OperationKind::Query), 4 + 2);
    Ok(())
}

#[tokio::test]
async fn a_repeated_continuation_token_ends_a_scan_with_an_error() -> Result<()> {
    let rig = filled().await?;
    let hostile = AlwaysFirstPage::around(rig.store.clone(), 10);
    let all = split_partitions([] as [&str; 0]);
    let scanned = scan_partitions(hostile, &rig.table, &Query::new(), all, 1)
        .try_collect::<Vec<_>>()
        .await;
    let error = scanned.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Service(_)), "{error}");
    assert!(
        error.to_string().contains("repeated continuation"),
        "{error}"
    );
    Ok(())
}
