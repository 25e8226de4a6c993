//! Blobs of large values.

use futures_util::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::typed::TableEntity;

use super::super::{LargeUpkeep, Part};
use super::*;
use crate::Database;
use crate::large::LargeOptions;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", rename_all = "PascalCase")]
#[index(title, row_key = "title_{title}_{number}")]
struct Report {
    #[partition_key]
    department: String,
    #[row_key(format = "report_{}")]
    number: u32,
    title: String,
    #[large(over = 10)]
    text: String,
}

/// A collection takes blobs that are older than two milliseconds, by the clock of their store. The writer has its usual deadline.
fn options() -> LargeOptions {
    LargeOptions::default().with_write_deadline(Duration::from_millis(1))
}

/// Two reports with their blobs. The test deletes the row of one report without the library.
async fn reports(store: &MemoryStore) -> Result<(TableName, Arc<InMemory>)> {
    let (table, blobs) = (TableName::new("Reports")?, Arc::new(InMemory::new()));
    let shared: Arc<dyn ObjectStore> = blobs.clone();
    let db = Database::with_options(store.clone(), IndexOptions::local()).with_blobs(shared);
    let reports = db.table::<Report>(table.clone())?;
    reports.declare().await?;
    for number in [1, 2] {
        let (department, title, text) = (
            "Sales".to_owned(),
            "T".to_owned(),
            "a long story. ".repeat(100),
        );
        reports
            .insert(&Report {
                department,
                number,
                title,
                text,
            })
            .await?;
    }
    let rows = Query::new().with_filter(Filter::starts_with(Filter::ROW_KEY, "report_"));
    let rows = store.query_all(&table, &rows).await?;
    assert_eq!(rows.len(), 2);
    store
        .write(
            &table,
            Operation::Delete(rows[1].key().clone(), IfMatch::Any),
        )
        .await?;
    sleep(Duration::from_millis(20)).await;
    Ok((table, blobs))
}

fn upkeep(store: &MemoryStore) -> Upkeep {
    Upkeep::new(store.clone())
        .tables(["Reports"])
        .with_options(IndexOptions::local())
        .keep(Duration::ZERO)
}

async fn names(blobs: &InMemory) -> usize {
    blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .unwrap()
        .len()
}

fn large<'r>(report: &'r UpkeepReport, table: &TableName) -> &'r LargeUpkeep {
    assert_eq!(report.errors().count(), 0, "{report:?}");
    report.tables[table]
        .large
        .as_ref()
        .expect("the manifest names a type with large values")
}

#[tokio::test]
async fn without_their_store_blobs_are_due() -> Result<()> {
    let store = MemoryStore::new();
    let (table, blobs) = reports(&store).await?;
    let report = upkeep(&store).run_once().await?;
    assert_eq!(
        large(&report, &table).types.iter().collect::<Vec<_>>(),
        ["Report"]
    );
    let due: Vec<_> = report.due().collect();
    let [(of, Part::Large, Some(Due::NoLargeBlobs))] = due[..] else {
        panic!("{due:?}")
    };
    assert_eq!(of, &table);
    assert_eq!(names(&blobs).await, 2);
    // An upkeep that never collects reports nothing.
    let report = upkeep(&store).collect_every(None).run_once().await?;
    assert_eq!(report.due().count(), 0, "{report:?}");
    Ok(())
}

/// Of several processes one collects, and the next one not before the interval is over.
#[tokio::test]
async fn blobs_are_collected_by_one_of_several() -> Result<()> {
    let store = MemoryStore::new();
    let (table, blobs) = reports(&store).await?;
    let upkeep = upkeep(&store).blobs(blobs.clone(), options());
    let (first, second) = join!(upkeep.run_once(), upkeep.run_once());
    let reports = [first?, second?];
    let sum = |of: &dyn Fn(&LargeUpkeep) -> u64| {
        reports
            .iter()
            .map(|report| of(large(report, &table)))
            .sum::<u64>()
    };
    assert_eq!(sum(&|large| large.collections as u64), 1);
    assert_eq!(sum(&|large| large.collected.used), 1);
    assert_eq!(sum(&|large| large.collected.orphans), 1);
    assert!(
        reports.iter().all(|report| report.due().count() == 0),
        "{reports:?}"
    );
    assert_eq!(names(&blobs).await, 1);

    let report = upkeep.run_once().await?;
    assert_eq!(large(&report, &table).collections, 0, "not yet");
    let report = upkeep.collect_every(Duration::ZERO).run_once().await?;
    assert_eq!(large(&report, &table).collections, 1);
    assert_eq!(large(&report, &table).collected.orphans, 0);
    Ok(())
}

/// A blob may be of a write whose row comes later.
#[tokio::test]
async fn young_blobs_stay() -> Result<()> {
    let store = MemoryStore::new();
    let (table, blobs) = reports(&store).await?;
    for (keep, deadline) in [(3600, 1), (0, 1800)] {
        let options = options().with_write_deadline(Duration::from_secs(deadline));
        let upkeep = upkeep(&store)
            .keep(Duration::from_secs(keep))
            .blobs(blobs.clone(), options);
        let report = upkeep.collect_every(Duration::ZERO).run_once().await?;
        let collected = large(&report, &table).collected;
        assert_eq!(collected.young, 2);
        assert_eq!(collected.orphans, 0);
        assert_eq!(names(&blobs).await, 2);
    }
    Ok(())
}

/// A type without indexes has nothing in the manifest but its row: the first program that opens the table with indexes stays the first.
#[tokio::test]
async fn tables_without_indexes_are_collected_too() -> Result<()> {
    let store = MemoryStore::new();
    let (reports, blobs) = reports(&store).await?;
    let papers = TableName::new("Papers")?;
    store.create_table(&papers).await?;
    let of_type = store
        .get_existing(&reports, &Key::new(MANIFEST_PARTITION, "type~Report")?)
        .await?;
    store
        .write(&papers, Operation::Insert(of_type.with_system(None, None)))
        .await?;
    for blob in blobs.list(None).try_collect::<Vec<_>>().await.unwrap() {
        let there = blob.location.as_ref().replace("reports", "papers");
        blobs.copy(&blob.location, &there.into()).await.unwrap();
    }
    sleep(Duration::from_millis(20)).await;
    let upkeep = Upkeep::new(store.clone())
        .tables(["Papers"])
        .with_options(IndexOptions::local());
    let report = upkeep
        .keep(Duration::ZERO)
        .blobs(blobs.clone(), options())
        .run_once()
        .await?;
    assert!(!report.tables[&papers].has_manifest);
    assert_eq!(large(&report, &papers).collected.orphans, 2);
    assert_eq!(names(&blobs).await, 2);
    assert!(
        store
            .get(&papers, &Key::new(MANIFEST_PARTITION, "table")?, None)
            .await?
            .is_none()
    );
    Ok(())
}
