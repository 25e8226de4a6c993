//! Combinations of types and tables: a table refuses a type that it cannot store whole, when it is opened and
//! before any request.

use std::sync::Arc;

use conformance::open_table;
use object_store::memory::InMemory;
use table_azure::{AzureTableStore, AzureTableStoreOptions, ReadFrom};
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::Ticks;
use table_core::store::{ErrorKind, TableStore};
use table_core::typed::TableEntity;
use table_patterns::Database;
use table_patterns::eventual::{Coordinator, Resources};
use table_patterns::index::IndexOptions;
use table_patterns::queue::TableQueue;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}")]
struct Plain {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    text: String,
}

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}")]
#[index(city, row_key = "city_{city}_{number:04}")]
struct Indexed {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    text: String,
}

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}")]
struct Large {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    #[large]
    text: String,
}

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}", spread = 4)]
struct Spread {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    text: String,
}

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}")]
#[index(city, row_key = "city_{city}_{number:04}")]
struct IndexedLarge {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    #[large]
    text: String,
}

/// Which tables accept a type: `Table`, `Table` with blobs, `SpreadTable`, `TimeSlices`, `WideTable`.
fn taken_by<T: TableEntity + std::fmt::Debug>() -> [bool; 5] {
    let meter = RequestMeter::new();
    let store = || Arc::new(Metered::new(MemoryStore::new(), meter.clone())) as Arc<dyn TableStore>;
    let never = |_: &T| Ticks::MIN;
    let taken = [
        Database::new(store()).table::<T>("Entities").is_ok(),
        (Database::new(store()).with_blobs(Arc::new(InMemory::new())))
            .table::<T>("Entities")
            .is_ok(),
        SpreadTable::<T>::new(store(), "Entities").is_ok(),
        TimeSlices::<T>::new(store(), "Entities", Every::Month, never).is_ok(),
        WideTable::<T>::new(store(), "Entities").is_ok(),
    ];
    assert_eq!(meter.total(), 0);
    taken
}

#[test]
fn a_table_refuses_a_type_that_it_cannot_store() {
    assert_eq!(taken_by::<Plain>(), [true, true, false, true, true]);
    assert_eq!(taken_by::<Indexed>(), [true, true, false, false, false]);
    assert_eq!(taken_by::<Large>(), [false, true, false, false, false]);
    assert_eq!(taken_by::<Spread>(), [false, false, true, false, false]);
    assert_eq!(
        taken_by::<IndexedLarge>(),
        [false, true, false, false, false]
    );
}

/// A store with stale reads. Its address has no service.
fn lagging() -> Arc<dyn TableStore> {
    let mut options = AzureTableStoreOptions::default();
    options.read_from = ReadFrom::Secondary;
    Arc::new(AzureTableStore::with_sas("http://127.0.0.1:1/acc?sig=x", Some(options)).unwrap())
}

#[tokio::test]
async fn patterns_that_read_their_own_writes_refuse_stale_reads() {
    let queue = || TableQueue::open(lagging(), "Queues", "jobs");
    let local = Arc::new(
        TableQueue::open(Arc::new(MemoryStore::new()), "Queues", "jobs")
            .await
            .unwrap(),
    );
    let indexed = open_table::<Indexed>(lagging(), "Entities", IndexOptions::default()).await;
    let transactions = Coordinator::open(lagging(), "Ledger", local, Resources::new()).await;
    for refused in [
        queue().await.map(drop),
        indexed.map(drop),
        transactions.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("primary"), "{error}");
    }
}
