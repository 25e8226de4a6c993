//! Reads of entities through dynamic indexes: streams, and lookups over several partitions.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::Entity;
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexOptions, IndexQuery, IndexedEntities, Placement, Shards, Trust};

use super::index_lists::options;
use crate::Harness;
use crate::wrappers::InFlightStore;

async fn people(
    harness: &Harness,
    store: Arc<dyn TableStore>,
    index: Result<Index>,
    options: IndexOptions,
) -> IndexedEntities {
    let table = harness.table().await.name().clone();
    let people = IndexedEntities::open(store, table, vec![index.expect("a template")], options).await;
    let people = people.expect("an index that makes sense");
    for id in 0..24 {
        let person = Entity::new("p", format!("{id:04}")).expect("a legal key");
        people.insert(person.with("City", ["bern", "bonn", "oslo"][id % 3])).await.expect("a new person");
    }
    people
}

/// A stream reads only the pages that its caller takes.
pub(crate) async fn a_stream_reads_only_the_taken_pages(harness: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(harness.store().clone(), meter.clone()));
    let index = Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}");
    let people = people(harness, store, index, options()).await;
    let oslo = IndexQuery::partition("p").prefix("city_oslo_").top(3);
    let before = meter.total();
    let two: Vec<_> =
        people.stream("city", &oslo, Trust::Entry).take(2).try_collect().await.expect("entities");
    assert_eq!(two.len(), 2, "one page, and its references");
    assert_eq!(meter.total() - before, 1 + 3, "one page, and its references");
    let all: Vec<_> = people.stream("city", &oslo, Trust::Entry).try_collect().await.expect("entities");
    let rows: Vec<_> = all.iter().map(|e| e.key().row().to_owned()).collect();
    assert_eq!(rows, (0..24).filter(|id| id % 3 == 2).map(|id| format!("{id:04}")).collect::<Vec<_>>());
    let unknown: Result<Vec<_>> = people.stream("age", &oslo, Trust::Entry).try_collect().await;
    assert!(unknown.expect_err("no such index").to_string().contains("'age'"));
}

/// A merge of partitions sends at most as many concurrent requests as the options allow.
pub(crate) async fn merged_partitions_share_the_concurrency_limit(harness: &Harness) {
    let index = Index::keyed("city", Placement::OtherPartition, "city_{RowKey#8}", "{City}_{RowKey}");
    let in_flight = Arc::new(InFlightStore::new(harness.store().clone()));
    let mut options = options();
    options.concurrency = 3;
    let people = people(harness, in_flight.clone(), index, options).await;
    in_flight.reset();
    let partitions = Shards::new(8).expect("a number of shards").partitions("city_");
    let all = IndexQuery::partition("").range("a", "z");
    let found = people.all_merged("city", &partitions, &all, Trust::Entry).await.expect("entities");
    let cities: Vec<_> = found.iter().map(|e| e.get("City").map(|city| format!("{city:?}"))).collect();
    assert_eq!(cities.len(), 24);
    assert!(cities.is_sorted());
    assert_eq!(in_flight.max_in_flight(), 3);
}
