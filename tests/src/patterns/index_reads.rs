//! Reads of entities through dynamic indexes: streams, and lookups over several partitions.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _};
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{Entity, Key};
use table_core::store::{Operation, Result, TableStore};
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, Shards, Trust,
};

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
    let people =
        IndexedEntities::open(store, table, vec![index.expect("a template")], options).await;
    let people = people.expect("an index that makes sense");
    for id in 0..24 {
        let person = Entity::new("p", format!("{id:04}")).expect("a legal key");
        people
            .insert(person.with("City", ["bern", "bonn", "oslo"][id % 3]))
            .await
            .expect("a new person");
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
    let two: Vec<_> = people
        .stream("city", &oslo, Trust::Entry)
        .take(2)
        .try_collect()
        .await
        .expect("entities");
    assert_eq!(two.len(), 2, "one page, and its references");
    assert_eq!(
        meter.total() - before,
        1 + 3,
        "one page, and its references"
    );
    let all: Vec<_> = people
        .stream("city", &oslo, Trust::Entry)
        .try_collect()
        .await
        .expect("entities");
    let rows: Vec<_> = all.iter().map(|e| e.key().row().to_owned()).collect();
    assert_eq!(
        rows,
        (0..24)
            .filter(|id| id % 3 == 2)
            .map(|id| format!("{id:04}"))
            .collect::<Vec<_>>()
    );
    let unknown: Result<Vec<_>> = people
        .stream("age", &oslo, Trust::Entry)
        .try_collect()
        .await;
    assert!(
        unknown
            .expect_err("no such index")
            .to_string()
            .contains("'age'")
    );
}

/// A merge of partitions sends at most as many concurrent requests as the options allow.
pub(crate) async fn merged_partitions_share_the_concurrency_limit(harness: &Harness) {
    let index = Index::keyed(
        "city",
        Placement::OtherPartition,
        "city_{RowKey#8}",
        "{City}_{RowKey}",
    );
    let in_flight = Arc::new(InFlightStore::new(harness.store().clone()));
    let mut options = options();
    options.concurrency = 3;
    let people = people(harness, in_flight.clone(), index, options).await;
    in_flight.reset();
    let partitions = Shards::new(8)
        .expect("a number of shards")
        .partitions("city_");
    let all = IndexQuery::partition("").range("a", "z");
    let found = people
        .all_merged("city", &partitions, &all, Trust::Entry)
        .await
        .expect("entities");
    let cities: Vec<_> = found
        .iter()
        .map(|e| e.get("City").map(|city| format!("{city:?}")))
        .collect();
    assert_eq!(cities.len(), 24);
    assert!(cities.is_sorted());
    assert_eq!(in_flight.max_in_flight(), 3);
}

/// A row in the form of an entry that no write of the entity has made: a program that may write the table can plant one, and entries can be stale. A
/// lookup does not return its content as the entity, as far as the content tells; it does not read the entity for that.
pub(crate) async fn a_planted_entry_is_not_shown_as_its_entity(harness: &Harness) {
    let remote = || {
        Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")
            .expect("a template")
    };
    let local = || {
        Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}")
            .expect("a template")
    };
    let function = || {
        Index::new(
            "city",
            Placement::OtherPartition,
            "1",
            |entity| match entity.get("City") {
                Some(table_core::model::ValueRef::String(city)) => {
                    Key::new(format!("city_{city}"), entity.key().row()).map(Some)
                }
                _ => Ok(None),
            },
        )
    };
    let full = Payload::Full;
    let covering = || Payload::fields(["City", "Name"]);
    for index in [
        remote().with_payload(full.clone()),
        remote().with_payload(covering()),
        local().with_payload(full.clone()),
        local().with_payload(covering()),
        function().with_payload(full),
    ] {
        let (id, placement) = (index.id().to_owned(), index.placement().clone());
        let partition = if placement == Placement::SamePartition {
            "p"
        } else {
            "city_oslo"
        };
        let row = |row: &str| {
            if placement == Placement::SamePartition {
                format!("city_oslo_{row}")
            } else {
                row.to_owned()
            }
        };
        let people = people(harness, harness.store().clone(), Ok(index), options()).await;
        let entry = |at: &str, owner: (&str, &str), city: &str| {
            let row = Entity::new(partition, row(at))
                .expect("a legal key")
                .with("City", city)
                .with("Name", "planted");
            row.with("IndexName", &*id)
                .with("OwnerPartition", owner.0)
                .with("OwnerRow", owner.1)
        };
        let planted = [
            // The content of another entity, of another city, without a city, and of an entity in another partition.
            entry("9001", ("p", "0002"), "oslo"),
            entry("9002", ("p", "9002"), "bern"),
            {
                let mut entry = entry("9003", ("p", "9003"), "oslo");
                entry.properties_mut().remove("City");
                entry
            },
            entry(
                "9004",
                (
                    if placement == Placement::SamePartition {
                        "q"
                    } else {
                        "city_oslo"
                    },
                    "9004",
                ),
                "oslo",
            ),
        ];
        for entry in planted {
            let key = entry.key().clone();
            harness
                .store()
                .write(people.table(), Operation::Insert(entry))
                .await
                .expect("a new row");
            let found = people
                .find("city", &key, Trust::Entry)
                .await
                .expect("a lookup");
            assert_eq!(found, None, "{key}");
        }
        let query = IndexQuery::partition(partition).prefix(&row(""));
        let all = people
            .all("city", &query, Trust::Entry)
            .await
            .expect("entities");
        assert_eq!(all.len(), 8, "{all:?}");
        let merged = people
            .all_merged("city", &[partition.to_owned()], &query, Trust::Entry)
            .await
            .expect("entities");
        assert_eq!(merged.len(), 8, "{merged:?}");
        let own = people
            .find(
                "city",
                &Key::new(partition, row("0002")).expect("a legal key"),
                Trust::Entry,
            )
            .await;
        assert_eq!(
            own.expect("a lookup")
                .map(|entity| entity.key().row().to_owned())
                .as_deref(),
            Some("0002")
        );
    }
    // The payload does not have what the key needs: the place of the owner is compared.
    let index = local().with_payload(Payload::fields(["Name"]));
    let id = index.id().to_owned();
    let people = people(harness, harness.store().clone(), Ok(index), options()).await;
    let entry = Entity::new("p", "city_oslo_1")
        .expect("a legal key")
        .with("IndexName", &*id);
    let entry = entry.with("OwnerPartition", "q").with("OwnerRow", "1");
    let key = entry.key().clone();
    harness
        .store()
        .write(people.table(), Operation::Insert(entry))
        .await
        .expect("a new row");
    assert_eq!(
        people
            .find("city", &key, Trust::Entry)
            .await
            .expect("a lookup"),
        None
    );
}
