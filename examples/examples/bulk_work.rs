//! Bulk work: writes, scans and deletes thousands of entities in few requests, with an outcome per entity; copies a table, or all
//! tables of a store, to another store.
//!
//! Cost: 1 request per group of up to 100 entities of one partition, 1 per page read.

use std::sync::Arc;

use futures_util::{TryStreamExt, stream};
use table_core::adapter::{Metered, RequestMeter};
use table_embedded::EmbeddedStore;
use table_patterns::bulk::{
    BulkOptions, BulkWriter, CopyJob, copy_store, delete_partition, operations, scan_partitions,
    split_partitions,
};
use table_patterns::prelude::*;

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
    Reading {
        sensor: format!("sensor{}", n % 4),
        number: n,
        celsius: 21.5,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let table = TableName::new("Readings")?;
    store.create_table(&table).await?;

    // 10,000 entities in four partitions: 100 group transactions. (A bulk write into a table that another program has created also reads
    // the manifest of the table: 1 request more.)
    let writer = BulkWriter::new(Arc::clone(&store));
    let readings = operations(
        &table,
        stream::iter((0..10_000).map(reading)),
        Operation::Insert,
    );
    let (summary, cost) = meter.measure(writer.write(readings)).await;
    assert_eq!(summary?.written, 10_000);
    assert_eq!(cost.total(), 100);

    // Two of these four entities exist. They fail and the others are written: if a group fails, the writer sends its entities again
    // without the failed entity.
    let two_exist = operations(
        &table,
        stream::iter([9_998, 9_999, 10_000, 10_001].map(reading)),
        Operation::Insert,
    );
    let summary = writer.write(two_exist).await?;
    assert_eq!(summary.written, 2);
    assert_eq!(summary.failed, 2);
    assert!(
        summary.failures[0]
            .result
            .as_ref()
            .is_err_and(|error| error.is_already_exists())
    );

    // The keys split the table into four ranges, which are read at the same time: 1 request per page of 1,000.
    let ranges = split_partitions(["sensor1", "sensor2", "sensor3"]);
    let scan = scan_partitions(Arc::clone(&store), &table, &Query::new(), ranges, 4);
    let rows: Vec<_> = scan.try_collect().await?;
    assert_eq!(rows.len(), 10_002);

    let sensor = Reading::partition("sensor2")?;
    let deleted = delete_partition(
        Arc::clone(&store),
        &table,
        sensor.partition_key(),
        BulkOptions::default(),
    )
    .await?;
    assert_eq!(deleted.written, 2_500);

    // Copies the table to disk and compares both tables.
    let directory = tempfile::tempdir()?;
    let disk = EmbeddedStore::open(directory.path().join("readings")).await?;
    let job = CopyJob::new(
        (Arc::clone(&store), table.clone()),
        (Arc::new(disk.clone()), table),
    );
    // An interrupted copy continues under this name, which must identify the source store.
    let job = job.resumable("readings of the memory store");
    assert_eq!(job.run().await?.rows, 7_502);
    assert!(job.verify().await?.equal);
    disk.close().await?;

    // Copies all tables of a store, with their manifests.
    let copy = copy_store(store, Arc::new(MemoryStore::new()));
    assert_eq!(copy.run().await?.tables.len(), 1);
    assert!(copy.verify().await?.is_empty());
    Ok(())
}
