//! A version of a type declares which earlier versions can read its rows (`min_reader`). A program of version 2
//! reads and changes rows of version 3 and keeps their unknown properties, on every handle. A program of
//! version 1 is refused.

use std::sync::Arc;

use conformance::open_table;
use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_patterns::Database;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

/// Version 3 adds `later` to version 2, with an index if the type has indexes.
macro_rules! versions {
    ($module:ident, [$($attr:meta),*], [$($second:meta),*], [$($third:meta),*], $key:meta, [$($large:meta),*]) => {
        mod $module {
            use table_core::prelude::*;

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            pub(super) struct V1 {
                #[$key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
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
                pub(super) name: String,
                pub(super) gone: Option<String>,
                pub(super) plain: Option<i32>,
                pub(super) shown: Option<i32>,
                $(#[$large])*
                pub(super) text: String,
                #[etag]
                pub(super) etag: Option<ETag>,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$third])*
            #[entity(version = 3, min_reader = 2, previous = V2)]
            pub(super) struct V3 {
                #[$key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
                pub(super) name: String,
                pub(super) gone: Option<String>,
                pub(super) plain: Option<i32>,
                pub(super) shown: Option<i32>,
                $(#[$large])*
                pub(super) text: String,
                pub(super) later: Option<String>,
                #[etag]
                pub(super) etag: Option<ETag>,
            }

            impl From<V1> for V2 {
                fn from(V1 { p, r }: V1) -> Self {
                    let (name, text) = (String::new(), String::new());
                    Self { p, r, name, gone: None, plain: None, shown: None, text, etag: None }
                }
            }

            impl From<V2> for V3 {
                fn from(V2 { p, r, name, gone, plain, shown, text, etag }: V2) -> Self {
                    Self { p, r, name, gone, plain, shown, text, later: None, etag }
                }
            }

            pub(super) fn second() -> V2 {
                let v1 = V1 { p: "p".into(), r: 1 };
                V2 { name: "two".into(), gone: Some("gone".into()), text: "text".repeat(20), ..v1.into() }
            }

            pub(super) fn third() -> V3 {
                V3 { later: Some("later".into()), ..second().into() }
            }

            pub(super) fn key<T>() -> EntityKey<T> {
                V1::key("p", 1u32).unwrap().cast()
            }
        }
    };
}

versions!(plain, [entity(type = "Thing")], [], [], partition_key, []);
versions!(indexed, [entity(type = "Thing")], [index(name, row_key = "name_{name}_{r}", payload = fields(shown))], [
    index(name, row_key = "name_{name}_{r}", payload = fields(shown)),
    index(later, row_key = "later_{later}_{r}")
], partition_key, []);
versions!(large, [entity(type = "Thing")], [], [], partition_key, [large(over = 16)]);
versions!(spread, [entity(type = "Thing")], [], [], partition_key(spread = 4), []);
versions!(wide, [entity(type = "Thing", wide)], [], [], partition_key, []);

const TABLE: &str = "Things";

fn store() -> (Arc<dyn TableStore>, RequestMeter) {
    let meter = RequestMeter::new();
    (
        Arc::new(Metered::new(MemoryStore::new(), meter.clone())),
        meter,
    )
}

/// Asserts that the row is still of version 3, with the property that version 2 does not know.
fn is_third(row: &Entity, why: &str) {
    assert_eq!(row.get("EntityVersion"), Some(ValueRef::Int32(3)), "{why}");
    assert_eq!(row.get("EntityReader"), Some(ValueRef::Int32(2)), "{why}");
    assert_eq!(row.get("later"), Some(ValueRef::String("later")), "{why}");
}

/// Asserts that the row is of version 2.
fn is_second(row: &Entity, why: &str) {
    assert_eq!(row.get("EntityVersion"), Some(ValueRef::Int32(2)), "{why}");
    assert_eq!(row.get("EntityReader"), None, "{why}");
    assert_eq!(row.get("later"), None, "{why}");
}

/// Reads the row of version 3. Changes it by every verb that keeps unknown properties, and replaces it by every
/// other verb.
macro_rules! every_verb {
    ($module:ident, $older:expr, $newer:expr, $row:expr) => {{
        use $module::{V2, key, second, third};
        let (older, newer, row) = ($older, $newer, $row);
        newer.upsert(&third()).await.unwrap();
        let read = older.get_existing(key()).await.unwrap();
        assert_eq!(read.name.as_str(), "two");
        assert_eq!(read.text.as_str(), second().text.as_str());
        older
            .update(key(), |v: &mut V2| {
                v.name = "updated".into();
                v.gone = None;
                Ok(())
            })
            .await
            .unwrap();
        is_third(&row().await, "update");
        assert_eq!(
            row().await.get("gone"),
            None,
            "what version 2 knows it may clear"
        );
        older
            .merge(key(), &V2::patch().plain(1), IfMatch::Any)
            .await
            .unwrap();
        is_third(&row().await, "merge");
        older
            .insert_or_merge(&V2 {
                name: "merged".into(),
                gone: None,
                ..second()
            })
            .await
            .unwrap();
        is_third(&row().await, "insert_or_merge");
        assert_eq!(older.upgrade_all().await.unwrap(), 0);
        let read = newer.get_existing(key()).await.unwrap();
        assert_eq!(read.name.as_str(), "merged");
        assert_eq!(read.plain, Some(1));
        assert_eq!(read.later.as_deref(), Some("later"));
        assert_eq!(read.text, third().text);

        let etag = older.get_existing(key()).await.unwrap().etag.clone();
        older.replace(&V2 { etag, ..second() }).await.unwrap();
        is_second(&row().await, "replace");
        newer.upsert(&third()).await.unwrap();
        is_third(&row().await, "upsert by version 3");
        older.replace_if(&second(), IfMatch::Any).await.unwrap();
        is_second(&row().await, "replace_if");
        newer.upsert(&third()).await.unwrap();
        older.upsert(&second()).await.unwrap();
        is_second(&row().await, "upsert");
        newer.upsert(&third()).await.unwrap();
    }};
}

#[tokio::test]
async fn plain_tables() {
    use plain::{V1, V2, V3, key, second, third};
    let (store, meter) = store();
    let newer = Database::new(store.clone()).table::<V3>(TABLE).unwrap();
    newer.declare().await.unwrap();
    let (older, oldest) = (newer.view::<V2>().unwrap(), newer.view::<V1>().unwrap());
    let row = async || {
        store
            .get(newer.name(), key::<V2>().key(), None)
            .await
            .unwrap()
            .unwrap()
    };
    every_verb!(plain, &older, &newer, row);

    // In a group of one type, and in a group of several types.
    let mut group = older.group(V2::partition("p").unwrap());
    group
        .merge(key::<V2>(), &V2::patch().plain(2), IfMatch::Any)
        .unwrap();
    group.commit().await.unwrap();
    is_third(&row().await, "group merge");
    let mut group = older.group(V2::partition("p").unwrap());
    group
        .insert_or_merge(&V2 {
            name: "group".into(),
            ..second()
        })
        .unwrap();
    group.commit().await.unwrap();
    is_third(&row().await, "group insert_or_merge");
    assert_eq!(row().await.get("name"), Some(ValueRef::String("group")));
    let mut group = older.group(V2::partition("p").unwrap());
    group.upsert(&second()).unwrap();
    group.commit().await.unwrap();
    is_second(&row().await, "group upsert");

    // A move keeps the row, also over a row of a later version.
    newer.upsert(&third()).await.unwrap();
    newer.upsert(&V3 { r: 2, ..third() }).await.unwrap();
    let there = V2::key("p", 2u32).unwrap();
    older.move_to(key(), &older, there.clone()).await.unwrap();
    is_third(
        &store
            .get(older.name(), there.key(), None)
            .await
            .unwrap()
            .unwrap(),
        "move",
    );

    // Version 1 cannot read the row.
    let there = V1::key("p", 2u32).unwrap();
    let error = oldest.get(there.clone()).await.unwrap_err().to_string();
    assert!(error.contains("at most version 1"), "{error}");
    let error = oldest
        .upsert(&V1 {
            p: "p".into(),
            r: 2,
        })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("is stored in version 3"), "{error}");

    // The same number of requests as between programs of one version.
    let (_, requests) = meter
        .measure(older.merge(there.cast(), &V2::patch().plain(3), IfMatch::Any))
        .await;
    assert_eq!(requests.total(), 2);
    let (_, requests) = meter.measure(older.get(V2::key("p", 2u32).unwrap())).await;
    assert_eq!(requests.total(), 1);
}

/// A row of a later version without `min_reader` is refused.
#[tokio::test]
async fn a_row_that_names_no_reader() {
    use plain::{V2, V3, key, second, third};
    let (store, _) = store();
    let newer = Database::new(store.clone()).table::<V3>(TABLE).unwrap();
    newer.declare().await.unwrap();
    let mut row = third().to_entity().unwrap();
    row.properties_mut().remove("EntityReader");
    store
        .write(newer.name(), Operation::Insert(row))
        .await
        .unwrap();
    let older = newer.view::<V2>().unwrap();
    for refused in [
        older.get(key()).await.map(drop),
        older.upsert(&second()).await.map(drop),
        older
            .merge(key(), &V2::patch().plain(1), IfMatch::Any)
            .await
            .map(drop),
        older.insert_or_merge(&second()).await.map(drop),
        older.update(key(), |_| Ok(())).await.map(drop),
    ] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("version"), "{error}");
    }
    assert_eq!(
        newer.get_existing(key()).await.unwrap().later,
        third().later
    );
}

#[tokio::test]
async fn indexed_tables() {
    use indexed::{V2, V3, key, second, third};
    let (store, _) = store();
    let newer = open_table::<V3>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    let older = open_table::<V2>(store.clone(), TABLE, IndexOptions::local())
        .await
        .unwrap();
    let row = async || {
        store
            .get(newer.name(), key::<V2>().key(), None)
            .await
            .unwrap()
            .unwrap()
    };
    every_verb!(indexed, &older, &newer, row);

    // Both programs read a payload of fields, of rows of both versions.
    #[derive(Debug, PartialEq, TableEntity)]
    #[entity(projection_of = V2)]
    struct Shown {
        shown: Option<i32>,
    }
    older
        .merge(key(), &V2::patch().text("merged"), IfMatch::Any)
        .await
        .unwrap();
    let mut read = older.get_existing_stored(key()).await.unwrap();
    let set = |v: &mut V2| {
        (v.name, v.shown) = ("stored".into(), Some(5));
        Ok(())
    };
    older.update_stored(&mut read, set).await.unwrap();
    is_third(&row().await, "update_stored");
    let found = older
        .by(V2::by_name("p").name("stored"))
        .project::<Shown>()
        .all()
        .await
        .unwrap();
    assert_eq!(found, [Shown { shown: Some(5) }]);
    let entries = newer
        .entities()
        .await
        .expect("an open table")
        .scrub("later", ScrubMode::Report)
        .await
        .unwrap();
    assert_eq!(entries.entries, 1);
    assert_eq!(entries.missing, 0);
    assert_eq!(entries.dangling, 0);
    let entries = newer
        .entities()
        .await
        .expect("an open table")
        .scrub("name", ScrubMode::Report)
        .await
        .unwrap();
    assert_eq!(entries.entries, 1);
    assert_eq!(entries.missing, 0);
    assert_eq!(entries.dangling, 0);
    // A replacement by version 2 has neither the value of version 3 nor its entry.
    older.upsert(&second()).await.unwrap();
    assert_eq!(
        newer
            .by(V3::by_later("p").later("later"))
            .count()
            .await
            .unwrap(),
        0
    );
    let mut group = older.group(V2::partition("p").unwrap());
    group.upsert(&second()).unwrap();
    group.commit().await.unwrap();
    newer.upsert(&third()).await.unwrap();
    let mut group = older.group(V2::partition("p").unwrap());
    group.insert_or_merge(&second()).unwrap();
    group.commit().await.unwrap();
    is_third(&row().await, "group insert_or_merge");
}

#[tokio::test]
async fn large_tables() {
    use large::{V1, V2, V3, key};
    let ((store, _), blobs) = (store(), Arc::new(InMemory::new()));
    let db = Database::new(store.clone()).with_blobs(blobs.clone());
    let newer = db.table::<V3>(TABLE).unwrap();
    newer.declare().await.unwrap();
    let older = db.table::<V2>(TABLE).unwrap();
    let row = async || {
        store
            .get(newer.name(), key::<V1>().key(), None)
            .await
            .unwrap()
            .unwrap()
    };
    every_verb!(large, &older, &newer, row);
    let text = futures_util::stream::iter([Ok("streamed".repeat(10).into())]);
    older
        .put_stream(key(), V2::TEXT, text, IfMatch::Any)
        .await
        .unwrap();
    is_third(&row().await, "put_stream");
    assert_eq!(
        newer.get_existing(key()).await.unwrap().text,
        "streamed".repeat(10)
    );
}

#[tokio::test]
async fn spread_tables() {
    use spread::{V2, V3, key};
    let (store, _) = store();
    let newer = SpreadTable::<V3>::new(store.clone(), TABLE).unwrap();
    newer.create_if_missing().await.unwrap();
    let older = SpreadTable::<V2>::new(store.clone(), TABLE).unwrap();
    let place = older.stored_key(key::<V2>()).unwrap();
    let row = async || {
        store
            .get(newer.name(), &place, None)
            .await
            .unwrap()
            .unwrap()
    };
    every_verb!(spread, &older, &newer, row);
}

#[tokio::test]
async fn wide_tables() {
    use wide::{V2, V3, key};
    let (store, _) = store();
    let newer = WideTable::<V3>::new(store.clone(), TABLE).unwrap();
    newer.create_if_missing().await.unwrap();
    let older = WideTable::<V2>::new(store.clone(), TABLE).unwrap();
    let row = async || {
        older
            .entities()
            .get_existing(key::<V2>().key())
            .await
            .unwrap()
            .into_inner()
    };
    every_verb!(wide, &older, &newer, row);
}

#[tokio::test]
async fn time_slices() {
    use plain::{V2, V3, key, second, third};
    let (store, _) = store();
    let newer = TimeSlices::<V3>::new(store.clone(), "Days", Every::Day, |_| Ticks::MIN).unwrap();
    let older = TimeSlices::<V2>::new(store.clone(), "Days", Every::Day, |_| Ticks::MIN).unwrap();
    newer.insert(&third()).await.unwrap();
    let table = newer.table_name(Ticks::MIN).unwrap();
    let row = async || {
        store
            .get(&table, key::<V2>().key(), None)
            .await
            .unwrap()
            .unwrap()
    };
    let update = |v: &mut V2| {
        v.name = "updated".into();
        Ok(())
    };
    older.update(Ticks::MIN, key(), update).await.unwrap();
    is_third(&row().await, "update");
    older.insert_or_merge(&second()).await.unwrap();
    is_third(&row().await, "insert_or_merge");
    assert_eq!(
        newer.query().all().await.unwrap()[0].later.as_deref(),
        Some("later")
    );
    older.upsert(&second()).await.unwrap();
    is_second(&row().await, "upsert");
}
