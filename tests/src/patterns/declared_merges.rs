//! Declared indexes: merges, which send a part of the entity.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedTable, Payload, Placement, Shape, Trust,
};

use crate::Harness;

/// The patch has one field, which no index holds: the entries are references.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Sparse", rename_all = "PascalCase", row_key = "flight_{number:04}")]
#[index(plane, row_key = "plane_{plane}_{number:04}")]
struct Sparse {
    #[partition_key]
    carrier: String,
    number: u32,
    plane: Option<String>,
    delay: i32,
}

/// A patch of this type cannot change an indexed value, so a merge reads no entries. The merge reads the type
/// and the schema version of the row, and writes.
pub(crate) async fn a_merge_without_indexed_values_reads_no_entries(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let flights = IndexedTable::<Sparse>::open(store, h.unused_name(), IndexOptions::default()).await;
    let flights = flights.expect("a new table");
    let flight = Sparse { carrier: "UA".to_owned(), number: 1, plane: Some("N1".to_owned()), delay: 0 };
    flights.insert(&flight).await.expect("a new flight");
    let before = meter.total();
    let key = Sparse::key("UA", 1u32).unwrap();
    flights.merge(&key, &Sparse::patch().delay(9), IfMatch::Any).await.expect("a merge");
    assert_eq!(meter.total() - before, 2, "the row's schema version, the merge");
    let found = flights.by(Sparse::by_plane("UA").plane("N1")).first().await.expect("an entry");
    assert_eq!(found, Some(Sparse { delay: 9, ..flight }));
}

/// A patch can change a value of an undeclared index. The merge then reads the entity and updates the entries.
pub(crate) async fn a_merge_keeps_undeclared_indexes_in_step(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let delays = Index::keyed("delays", Placement::SamePartition, "", "delays_{Plane}").expect("a template");
    let delays = delays.with_shape(Shape::summary(["Delay"]));
    let copy = Index::keyed("copy", Placement::SamePartition, "", "copy_{Delay:04}_{RowKey}");
    let more = vec![delays, copy.expect("a template").with_payload(Payload::Full)];
    let flights =
        IndexedTable::<Sparse>::open_with(store, h.unused_name(), more, IndexOptions::default()).await;
    let flights = flights.expect("a new table");
    let flight = Sparse { carrier: "UA".to_owned(), number: 1, plane: Some("N1".to_owned()), delay: 0 };
    let written = flights.insert(&flight).await.expect("a new flight").written;
    let first = written[0].etag.clone().expect("a version");
    let key = || Sparse::key("UA", 1u32).expect("a legal key");

    let before = meter.total();
    let patch = Sparse::patch().delay(5);
    let merged = flights.merge(key(), &patch, &first).await.expect("no other writer");
    assert_eq!(meter.total() - before, 3, "the entity, the summary, the group");
    let sum = Key::new("UA", "delays_N1").expect("a legal key");
    let summary = flights.entities().summary("delays", &sum).await.expect("a summary");
    assert_eq!(summary.count, 1);
    assert_eq!(summary.sums["Delay"], 5);
    let late = IndexQuery::partition("UA").prefix("copy_0005_");
    let found = flights.entities().all("copy", &late, Trust::Entry).await.expect("entries");
    assert_eq!(found.iter().map(|e| e.get("Delay")).collect::<Vec<_>>(), [Some(ValueRef::Int32(5))]);

    assert!(merged.written[0].etag.as_ref().is_some_and(|etag| *etag != first));
    let stale = flights.merge(key(), &patch, &first).await.unwrap_err();
    assert!(stale.is_precondition_failed(), "{stale}");
    let missing = flights.merge(Sparse::key("UA", 9u32).unwrap(), &patch, IfMatch::Any).await.unwrap_err();
    assert!(missing.is_entity_not_found(), "{missing}");
    assert!(flights.merge(key(), &Sparse::patch(), IfMatch::Any).await.is_err(), "nothing to merge");
    assert!(flights.table().merge(key(), &patch, IfMatch::Any).await.is_err(), "a plain table");
}
