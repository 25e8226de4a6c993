//! What composes with what: a table refuses a type of which it would not keep something when it is opened,
//! before any request.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::Ticks;
use table_core::store::TableStore;
use table_core::typed::{IndexedEntity, Table, TableEntity};
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::large::LargeTable;
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

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}", spread = 4)]
#[index(city, row_key = "city_{city}_{number:04}")]
struct IndexedSpread {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    text: String,
}

#[derive(Debug, TableEntity)]
#[entity(type = "Entity", row_key = "{number:04}", spread = 4)]
struct LargeSpread {
    #[partition_key]
    group: String,
    number: u32,
    city: String,
    #[large]
    text: String,
}

/// Which tables take a type: `Table`, `LargeTable`, `SpreadTable`, `TimeSlices`, `WideTable`.
fn taken_by<T: TableEntity + std::fmt::Debug>() -> [bool; 5] {
    let meter = RequestMeter::new();
    let store = || Arc::new(Metered::new(MemoryStore::new(), meter.clone())) as Arc<dyn TableStore>;
    let name = || "Entities".parse().expect("a legal name");
    let never = |_: &T| Ticks::MIN;
    let taken = [
        Table::<T>::new(store(), "Entities").is_ok(),
        LargeTable::<T>::open(store(), "Entities", Arc::new(InMemory::new())).is_ok(),
        SpreadTable::<T>::open(store(), "Entities").is_ok(),
        TimeSlices::<T>::new(store(), "Entities", Every::Month, never).is_ok(),
        WideTable::<T>::new(store(), name()).is_ok(),
    ];
    assert_eq!(meter.total(), 0);
    taken
}

#[test]
fn what_a_table_would_not_keep_is_refused_at_once() {
    assert_eq!(taken_by::<Plain>(), [true, true, false, true, true]);
    // To read: writes are refused, one by one, unless they ignore indexes by name.
    assert_eq!(taken_by::<Indexed>(), [true, false, false, false, false]);
    assert_eq!(taken_by::<Large>(), [false, true, false, false, false]);
    assert_eq!(taken_by::<Spread>(), [false, false, true, false, false]);
    assert_eq!(taken_by::<IndexedLarge>(), [false; 5]);
    assert_eq!(taken_by::<IndexedSpread>(), [false; 5]);
    assert_eq!(taken_by::<LargeSpread>(), [false; 5]);
}

#[tokio::test]
async fn a_table_with_indexes_keeps_neither_large_fields_nor_spread_keys() {
    async fn refusal<T: IndexedEntity>() -> String {
        let meter = RequestMeter::new();
        let store = Metered::new(MemoryStore::new(), meter.clone());
        let opened = IndexedTable::<T>::open(store, "Entities", IndexOptions::local()).await;
        assert_eq!(meter.total(), 0);
        opened.map(drop).expect_err("it would not be kept").to_string()
    }
    assert!(refusal::<IndexedLarge>().await.contains("LargeTable"));
    assert!(refusal::<IndexedSpread>().await.contains("SpreadTable"));
}
