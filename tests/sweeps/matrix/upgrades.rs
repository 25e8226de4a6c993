//! `upgrade_all` of every typed table: rows of an earlier version become rows of the current version, with
//! their entries, blobs and further rows. Unknown properties stay.

use std::sync::Arc;

use conformance::open_table;
use futures_util::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_core::query::Query;
use table_patterns::Database;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::journal::Clearing;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

const TABLE: &str = "Things";

/// Version 1 has `name`; version 2 has the same value as `full`. One index is of `full`, another of a property
/// of both versions.
macro_rules! versions {
    ($module:ident, [$($attr:meta),*], [$($first:meta),*], [$($second:meta),*], $key:meta, [$($large:meta),*]) => {
        mod $module {
            use table_core::prelude::*;

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$first])*
            pub(super) struct V1 {
                #[$key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
                pub(super) name: String,
                pub(super) code: i32,
                $(#[$large])*
                pub(super) text: String,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$second])*
            #[entity(version = 2, previous = V1)]
            pub(super) struct V2 {
                #[$key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
                pub(super) full: String,
                pub(super) code: i32,
                $(#[$large])*
                pub(super) text: String,
            }

            impl From<V1> for V2 {
                fn from(V1 { p, r, name, code, text }: V1) -> Self {
                    Self { p, r, full: format!("{name}!"), code, text }
                }
            }

            pub(super) fn first(r: u32) -> V1 {
                V1 { p: "p".into(), r, name: format!("name{r}"), code: 7, text: "text".repeat(20) }
            }

            pub(super) fn second(r: u32) -> V2 {
                first(r).into()
            }
        }
    };
}

versions!(plain, [entity(type = "Thing")], [], [], partition_key, []);
versions!(indexed, [entity(type = "Thing")], [index(code, row_key = "code_{code}_{r}")], [
    index(code, row_key = "code_{code}_{r}"),
    index(full, row_key = "full_{full}_{r}"),
    index(elsewhere, partition_key = "full_{full}", row_key = "{p}_{r}"),
    index(sole, partition_key = "sole_{full}", row_key = "x", unique = "table")
], partition_key, []);
versions!(large, [entity(type = "Thing")], [], [
    index(code, row_key = "code_{code}_{r}"),
    index(elsewhere, partition_key = "full_{full}", row_key = "{p}_{r}")
], partition_key, [large(over = 16)]);
versions!(large_alone, [entity(type = "Thing")], [], [], partition_key, [large(over = 16)]);
versions!(spread, [entity(type = "Thing")], [], [], partition_key(spread = 4), []);
versions!(wide, [entity(type = "Thing", wide)], [], [], partition_key, []);

fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

/// Returns a store and the meter of its requests.
fn store() -> (Arc<dyn TableStore>, RequestMeter) {
    let meter = RequestMeter::new();
    (
        Arc::new(Metered::new(MemoryStore::new(), meter.clone())),
        meter,
    )
}

/// Adds a property that no version declares to the rows of the type, and returns the rows.
async fn with_unknown(store: &dyn TableStore, name: &str) -> Vec<Entity> {
    let rows = store.query_all(&table(), &Query::new()).await.unwrap();
    rows.into_iter()
        .filter(|row| row.get(name).is_some())
        .collect()
}

async fn insert_raw(store: &dyn TableStore, row: Entity) {
    store
        .write(&table(), Operation::Insert(row.with("Unknown", 7)))
        .await
        .unwrap();
}

fn is_upgraded(rows: &[Entity], count: usize) {
    assert_eq!(rows.len(), count);
    for row in rows {
        assert_eq!(
            row.get("EntityVersion"),
            Some(ValueRef::Int32(2)),
            "{row:?}"
        );
        assert!(
            row.get("full").is_some() && row.get("name").is_none(),
            "{row:?}"
        );
    }
}

/// The program of version 1 knows the new indexes only by their definitions and writes rows without their
/// entries.
#[tokio::test]
async fn indexed_tables() {
    use indexed::{V2, first, second};
    let (store, meter) = store();
    let newer = open_table::<V2>(
        store.clone(),
        TABLE,
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    )
    .await
    .unwrap();
    for r in 0..5 {
        insert_raw(&*store, first(r).to_entity().unwrap()).await;
    }
    newer.insert(&second(5)).await.unwrap();
    assert_eq!(
        newer.by(V2::by_elsewhere("name3!")).count().await.unwrap(),
        0
    );
    assert_eq!(newer.upgrade_all().await.unwrap(), 5);
    is_upgraded(&with_unknown(&*store, "Unknown").await, 5);
    for index in ["code", "full", "elsewhere", "sole"] {
        let found = newer
            .entities()
            .await
            .expect("an open table")
            .scrub(index, ScrubMode::Report)
            .await
            .unwrap();
        assert_eq!(found.entries, 6, "{index}");
        assert_eq!(found.dangling, 0, "{index}");
        assert_eq!(found.missing, 0, "{index}");
    }
    assert_eq!(
        newer.by(V2::by_elsewhere("name3!")).all().await.unwrap(),
        [second(3)]
    );
    assert_eq!(
        meter.measure(newer.upgrade_all()).await.1.total(),
        1,
        "a page"
    );
}

/// A correct entry is not written again: one request per entity.
#[tokio::test]
async fn an_entry_that_stays_costs_nothing() {
    use told::{V1, V2};
    mod told {
        use table_core::prelude::*;
        #[derive(Debug, TableEntity)]
        #[entity(type = "Thing")]
        #[index(code, row_key = "code_{code}_{r}")]
        pub(super) struct V1 {
            #[partition_key]
            pub(super) p: String,
            #[row_key]
            pub(super) r: u32,
            pub(super) code: i32,
        }
        #[derive(Debug, TableEntity)]
        #[entity(type = "Thing", version = 2, previous = V1)]
        #[index(code, row_key = "code_{code}_{r}")]
        pub(super) struct V2 {
            #[partition_key]
            pub(super) p: String,
            #[row_key]
            pub(super) r: u32,
            pub(super) code: i32,
            pub(super) more: Option<String>,
        }
        impl From<V1> for V2 {
            fn from(V1 { p, r, code }: V1) -> Self {
                Self {
                    p,
                    r,
                    code,
                    more: None,
                }
            }
        }
    }
    let (store, meter) = store();
    let options = || IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let older = open_table::<V1>(store.clone(), TABLE, options())
        .await
        .unwrap();
    for r in 0..10 {
        older
            .insert(&V1 {
                p: "p".into(),
                r,
                code: 1,
            })
            .await
            .unwrap();
    }
    let newer = open_table::<V2>(store.clone(), TABLE, options())
        .await
        .unwrap();
    let (upgraded, requests) = meter.measure(newer.upgrade_all()).await;
    assert_eq!(upgraded.unwrap(), 10);
    assert_eq!(requests.total(), 1 + 10);
    assert_eq!(
        newer.by(V2::by_code("p").code(1)).count().await.unwrap(),
        10
    );
    assert_eq!(
        newer
            .entities()
            .await
            .expect("an open table")
            .scrub("code", ScrubMode::Report)
            .await
            .unwrap()
            .missing,
        0
    );
    let rows = store.query_all(&table(), &Query::new()).await.unwrap();
    assert_eq!(
        older.upgrade_all().await.unwrap(),
        0,
        "an older program leaves them alone"
    );
    assert_eq!(
        store.query_all(&table(), &Query::new()).await.unwrap(),
        rows
    );
}

#[tokio::test]
async fn large_tables() {
    use large_alone::{V1, V2, first, second};
    let ((store, meter), blobs) = (store(), Arc::new(InMemory::new()));
    let program = || Database::new(store.clone()).with_blobs(blobs.clone());
    let older = program().table::<V1>(TABLE).unwrap();
    older.declare().await.unwrap();
    for r in 0..5 {
        older.insert(&first(r)).await.unwrap();
    }
    let newer = program().table::<V2>(TABLE).unwrap();
    let unknown = Entity::from(V1::key("p", 1u32).unwrap().into_key()).with("Unknown", 7);
    store
        .write(&table(), Operation::Merge(unknown, IfMatch::Any))
        .await
        .unwrap();
    let (upgraded, requests) = meter.measure(newer.upgrade_all()).await;
    assert_eq!(upgraded.unwrap(), 5);
    // A page, the entities, and the new version in the manifest, which is written and read again.
    assert_eq!(requests.total(), 1 + 5 + 2);
    is_upgraded(&with_unknown(&*store, "Unknown").await, 1);
    assert_eq!(
        newer.query().all().await.unwrap(),
        (0..5).map(second).collect::<Vec<_>>()
    );
    assert_eq!(newer.scrub_blobs().await.unwrap().missing, []);
    assert_eq!(
        blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len(),
        5
    );
    assert_eq!(newer.upgrade_all().await.unwrap(), 0);
}

#[tokio::test]
async fn large_tables_with_indexes() {
    use large::{V1, V2, first, second};
    let ((store, _), blobs) = (store(), Arc::new(InMemory::new()));
    let program =
        || Database::with_options(store.clone(), IndexOptions::local()).with_blobs(blobs.clone());
    let older = program().table::<V1>(TABLE).unwrap();
    older.declare().await.unwrap();
    for r in 0..5 {
        older.insert(&first(r)).await.unwrap();
    }
    let newer = program().table::<V2>(TABLE).unwrap();
    let entities = newer.entities().await.unwrap();
    for index in ["code", "elsewhere"] {
        entities.build(index).unwrap().run().await.unwrap();
    }
    // Version 1 maintains the index of a property that it has. What the conversion makes has its entry after the upgrade.
    older.insert(&first(5)).await.unwrap();
    for (index, entries, missing) in [("code", 6, 0), ("elsewhere", 5, 1)] {
        let found = entities.scrub(index, ScrubMode::Report).await.unwrap();
        assert_eq!(
            (found.entries, found.missing),
            (entries, missing),
            "{index}"
        );
        assert_eq!(found.dangling, 0, "{index}");
    }
    assert_eq!(newer.upgrade_all().await.unwrap(), 6);
    for index in ["code", "elsewhere"] {
        let found = entities.scrub(index, ScrubMode::Report).await.unwrap();
        assert_eq!(found.entries, 6, "{index}");
        assert_eq!(found.dangling, 0, "{index}");
        assert_eq!(found.missing, 0, "{index}");
    }
    assert_eq!(
        newer.by(V2::by_elsewhere("name3!")).all().await.unwrap(),
        [second(3)]
    );
    assert_eq!(newer.by(V2::by_code("p").code(7)).count().await.unwrap(), 6);
    assert_eq!(
        blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len(),
        6
    );
}

#[tokio::test]
async fn spread_tables() {
    use spread::{V1, V2, first, second};
    let (store, meter) = store();
    let older = SpreadTable::<V1>::new(store.clone(), TABLE).unwrap();
    older.create_if_missing().await.unwrap();
    for r in 0..20 {
        older.insert(&first(r)).await.unwrap();
    }
    let place = older.stored_key(V1::key("p", 1u32).unwrap()).unwrap();
    let unknown = Entity::from(place).with("Unknown", 7);
    store
        .write(&table(), Operation::Merge(unknown, IfMatch::Any))
        .await
        .unwrap();
    let newer = SpreadTable::<V2>::new(store.clone(), TABLE).unwrap();
    let (upgraded, requests) = meter.measure(newer.upgrade_all()).await;
    assert_eq!(upgraded.unwrap(), 20);
    // A page, the entities, and the new version in the manifest, which is written and read again.
    assert_eq!(requests.total(), 1 + 20 + 2);
    is_upgraded(&with_unknown(&*store, "Unknown").await, 1);
    for r in 0..20 {
        assert_eq!(
            newer.get(V2::key("p", r).unwrap()).await.unwrap(),
            Some(second(r))
        );
    }
    assert_eq!(newer.upgrade_all().await.unwrap(), 0);
}

/// Wide entities with one row prefix in several partitions, each with several rows.
#[tokio::test]
async fn wide_tables() {
    use wide::{V1, V2, first, second};
    let (store, meter) = store();
    let older = WideTable::<V1>::new(store.clone(), TABLE).unwrap();
    older.create_if_missing().await.unwrap();
    for p in ["p", "q", "r"] {
        for r in 0..3 {
            older
                .insert(&V1 {
                    p: p.into(),
                    ..first(r)
                })
                .await
                .unwrap();
        }
    }
    let many = |properties: &mut Properties| {
        (0..600).for_each(|n| properties.set(&format!("Unknown{n}"), n));
        Ok(())
    };
    older
        .entities()
        .update(V1::key("q", 1u32).unwrap().key(), many)
        .await
        .unwrap();
    let newer = WideTable::<V2>::new(store.clone(), TABLE).unwrap();
    newer
        .insert(&V2 {
            p: "s".into(),
            ..second(9)
        })
        .await
        .unwrap();
    let (upgraded, requests) = meter.measure(newer.upgrade_all()).await;
    assert_eq!(upgraded.unwrap(), 9);
    assert_eq!(requests.total(), 1 + 9);
    for p in ["p", "q", "r"] {
        for r in 0..3 {
            let found = newer.get_existing(V2::key(p, r).unwrap()).await.unwrap();
            assert_eq!(
                *found,
                V2 {
                    p: p.into(),
                    ..second(r)
                }
            );
        }
    }
    let kept = newer
        .entities()
        .get_existing(V1::key("q", 1u32).unwrap().key())
        .await
        .unwrap();
    assert_eq!(kept.get("Unknown599"), Some(ValueRef::Int32(599)));
    assert_eq!(newer.upgrade_all().await.unwrap(), 0);
}

#[tokio::test]
async fn time_slices() {
    use plain::{V1, V2, first, second};
    let (store, _) = store();
    let day =
        |r: u32| Ticks::from(chrono::DateTime::from_timestamp(i64::from(r) * 86_400, 0).unwrap());
    let older =
        TimeSlices::<V1>::new(store.clone(), "Days", Every::Day, move |v| day(v.r)).unwrap();
    for r in 0..4 {
        older.insert(&first(r)).await.unwrap();
    }
    let newer =
        TimeSlices::<V2>::new(store.clone(), "Days", Every::Day, move |v| day(v.r)).unwrap();
    newer.insert(&second(5)).await.unwrap();
    assert_eq!(newer.upgrade_all().await.unwrap(), 4);
    let found = newer.query().all().await.unwrap();
    assert_eq!(found, [0, 1, 2, 3, 5].map(second));
    assert_eq!(newer.upgrade_all().await.unwrap(), 0);
    let rows = store
        .query_all(&newer.table_name(day(2)).unwrap(), &Query::new())
        .await
        .unwrap();
    assert_eq!(rows[0].get("EntityVersion"), Some(ValueRef::Int32(2)));
}
