//! Measures the cost of a block of work: requests by table, operation and access path, and round trips.
//!
//! The meter sends no request. It counts the requests of all tasks during the block.

use table_core::adapter::{Metered, RequestMeter};
use table_core::store::OperationKind;
use table_patterns::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Reading {
    #[partition_key]
    sensor: String,
    #[row_key]
    number: u32,
    celsius: f64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone());
    let readings = Database::new(store).table::<Reading>("Readings")?;
    readings.declare().await?;

    let write = async {
        for number in 0..1500 {
            readings
                .insert(&Reading {
                    sensor: "roof".to_owned(),
                    number,
                    celsius: 21.5,
                })
                .await?;
        }
        Ok::<_, table_core::Error>(())
    };
    let (written, cost) = meter.measure(write).await;
    written?;
    assert_eq!(cost.of_kind(OperationKind::Insert), 1500);

    // A page has at most 1000 entities, so the partition takes 2 requests.
    let roof = readings.query().partition(Reading::partition("roof")?);
    let (all, cost) = meter.measure(roof.all()).await;
    assert_eq!(all?.len(), 1500);
    assert_eq!(cost.total(), 2);
    assert_eq!(cost.round_trips(), 2);
    assert_eq!(cost.costliest_path(), Some(AccessPath::PartitionScan));

    let (one, cost) = meter.measure(readings.get(Reading::key("roof", 7)?)).await;
    assert!(one?.is_some());
    assert_eq!(cost.of_path(AccessPath::Point), 1);

    // create_table, the inserts, two pages, and a point read
    assert_eq!(meter.total(), 1 + 1500 + 2 + 1);
    Ok(())
}
