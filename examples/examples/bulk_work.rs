//! Bulk work: writes thousands of entities in few requests with an outcome per entity, and copies a table
//! between stores.

use std::sync::Arc;

use futures_util::{TryStreamExt, stream};
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_embedded::EmbeddedStore;
use table_patterns::bulk::{
    BulkOptions, BulkWriter, CopyJob, delete_partition, operations, scan_partitions, split_partitions,
};

#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Reading {
    #[partition_key]
    sensor: String,
    #[row_key]
    number: u32,
    celsius: f64,
}

fn reading(n: u32) -> Reading {
    Reading { sensor: format!("sensor{}", n % 4), number: n, celsius: 21.5 }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("Readings")?;
    store.create_table(&table).await?;

    // 10,000 entities in four partitions: 100 group transactions. The manifest of a table that this process has created is known to be empty.
    let writer = BulkWriter::new(Arc::clone(&store));
    let readings = operations(&table, stream::iter((0..10_000).map(reading)), Operation::Insert);
    let (summary, cost) = meter.measure(writer.write(readings)).await;
    assert_eq!(summary?.written, 10_000);
    assert_eq!(cost.total(), 100);

    // An existing entity fails alone; the other entities of its group are written.
    let again =
        operations(&table, stream::iter([9_998, 9_999, 10_000, 10_001].map(reading)), Operation::Insert);
    let summary = writer.write(again).await?;
    assert_eq!(summary.written, 2);
    assert_eq!(summary.failed, 2);
    assert!(summary.failures[0].result.as_ref().is_err_and(|error| error.is_already_exists()));

    // Four ranges of partitions are read concurrently.
    let ranges = split_partitions(["sensor1", "sensor2", "sensor3"]);
    let scan = scan_partitions(Arc::clone(&store), &table, &Query::new(), ranges, 4);
    assert_eq!(scan.try_fold(0, |count, _| async move { Ok(count + 1) }).await?, 10_002);

    let sensor = Reading::partition("sensor2")?;
    let deleted =
        delete_partition(Arc::clone(&store), &table, sensor.partition_key(), BulkOptions::default()).await?;
    assert_eq!(deleted.written, 2_500);

    // Copies the table to disk and compares both tables.
    let directory = tempfile::tempdir()?;
    let disk = EmbeddedStore::open(directory.path().join("readings")).await?;
    let job = CopyJob::new((store, table.clone()), (Arc::new(disk.clone()), table)).resumable("memory");
    assert_eq!(job.run().await?.rows, 7_502);
    assert!(job.verify().await?.equal);
    disk.close().await?;
    Ok(())
}
