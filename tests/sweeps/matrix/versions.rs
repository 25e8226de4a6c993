//! Program version × program version: the effect of a program of version 1 on rows of version 2, and on rows of
//! its own version with an unknown property.

use std::sync::Arc;

use conformance::open_table;
use futures_util::future::BoxFuture;
use object_store::memory::InMemory;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::Result;
use table_patterns::Database;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

/// Two versions of a type: with `name`, and with `name` and `later`.
macro_rules! versions {
    ($module:ident, [$($attr:meta),*], [$($first:meta),*], $key:meta, $row:meta, [$($large:meta),*]) => {
        mod $module {
            use table_core::prelude::*;

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$first])*
            pub(super) struct V1 {
                #[$key]
                pub(super) p: String,
                #[$row]
                pub(super) r: u32,
                pub(super) name: String,
                $(#[$large])*
                pub(super) text: String,
                #[etag]
                pub(super) etag: Option<ETag>,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            #[entity(version = 2, previous = V1)]
            pub(super) struct V2 {
                #[$key]
                pub(super) p: String,
                #[$row]
                pub(super) r: u32,
                pub(super) name: String,
                $(#[$large])*
                pub(super) text: String,
                pub(super) later: Option<String>,
                #[etag]
                pub(super) etag: Option<ETag>,
            }

            impl From<V1> for V2 {
                fn from(V1 { p, r, name, text, etag }: V1) -> Self {
                    Self { p, r, name, text, later: None, etag }
                }
            }

            pub(super) fn first(name: &str) -> V1 {
                V1 { p: "p".into(), r: 1, name: name.into(), text: "text".repeat(20), etag: None }
            }

            pub(super) fn second() -> V2 {
                let later = Some("what version 1 does not know".into());
                V2 { later, ..V2::from(first("two")) }
            }

            pub(super) fn key<T>() -> EntityKey<T> {
                V1::key("p", 1u32).unwrap().cast()
            }
        }
    };
}

versions!(told, [entity(type = "Thing")], [], partition_key, row_key, []);
versions!(numbered, [entity(type = "Thing", discriminator(none))], [entity(version = 1)], partition_key, row_key, []);
versions!(prefixed, [entity(type = "Thing", discriminator(row_prefix))], [], partition_key, row_key(format = "thing_{}"), []);
versions!(indexed, [entity(type = "Thing"), index(name, row_key = "name_{name}_{r}")], [], partition_key, row_key, []);
versions!(large, [entity(type = "Thing")], [], partition_key, row_key, [large(over = 16)]);
versions!(spread, [entity(type = "Thing")], [], partition_key(spread = 4), row_key, []);
versions!(wide, [entity(type = "Thing", wide)], [], partition_key, row_key, []);

const TABLE: &str = "Things";

fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

/// Returns every row of the store, to assert that nothing was written.
async fn all(store: &Arc<dyn TableStore>) -> Vec<Entity> {
    let mut rows = Vec::new();
    for table in store.all_tables(None).await.unwrap() {
        rows.extend(store.query_all(&table, &Query::new()).await.unwrap());
    }
    // Rows that a handle registers for itself are no entities.
    rows.retain(|row| !row.key().partition().starts_with("~~"));
    rows
}

type Write<H> = (&'static str, fn(H) -> BoxFuture<'static, Result<()>>);

/// Asserts that every write is refused by an error with the reason, and that no row changes.
async fn refused<H: Clone>(store: &Arc<dyn TableStore>, handle: &H, writes: &[Write<H>]) {
    let before = all(store).await;
    assert!(!before.is_empty());
    for (name, write) in writes {
        let error = write(handle.clone()).await.expect_err(name);
        let text = error.to_string();
        assert!(text.contains("version"), "{name}: {text}");
        assert_eq!(all(store).await, before, "{name} wrote something");
    }
}

macro_rules! writes {
    ($($name:literal: |$handle:ident| $write:expr;)*) => {
        &[$(($name, |$handle| Box::pin(async move { $write.await.map(drop) }))),*]
    };
}

macro_rules! plain {
    ($test:ident, $module:ident) => {
        #[tokio::test]
        async fn $test() {
            use $module::{V1, V2, first, key, second};
            let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
            let newer = Database::new(store.clone()).table::<V2>(TABLE).unwrap();
            newer.declare().await.unwrap();
            newer.insert(&second()).await.unwrap();
            let older = Database::new(store.clone()).table::<V1>(TABLE).unwrap();
            refused(
                &store,
                &older,
                writes! {
                    "upsert": |t| t.upsert(&first("one"));
                    "insert_or_merge": |t| t.insert_or_merge(&first("one"));
                    "replace_if any": |t| t.replace_if(&first("one"), IfMatch::Any);
                    "merge any": |t| t.merge(key(), &V1::patch().name("one"), IfMatch::Any);
                    "update": |t| t.update(key(), |v| { v.name = "one".into(); Ok(()) });
                    "upgrade_all": |t| async move {
                        t.upgrade_all().await?;
                        t.get(key()).await.map(drop)
                    };
                    "group upsert": |t| async move {
                        let mut group = t.group(V1::partition("p")?);
                        group.upsert(&first("one"))?;
                        group.commit().await
                    };
                    "group insert_or_merge": |t| async move {
                        let mut group = t.group(V1::partition("p")?);
                        group.insert_or_merge(&first("one"))?;
                        group.commit().await
                    };
                    "group replace_if any": |t| async move {
                        let mut group = t.group(V1::partition("p")?);
                        group.replace_if(&first("one"), IfMatch::Any)?;
                        group.commit().await
                    };
                    "group merge any": |t| async move {
                        let mut group = t.group(V1::partition("p")?);
                        group.merge(key::<V1>(), &V1::patch().name("one"), IfMatch::Any)?;
                        group.commit().await
                    };
                },
            )
            .await;

            // The reverse: rows of version 1 are converted, and unknown properties stay.
            store.delete_table(&table()).await.unwrap();
            older.declare().await.unwrap();
            let unknown = first("one").to_entity().unwrap().with("Unknown", 7);
            store
                .write(&table(), Operation::Insert(unknown))
                .await
                .unwrap();
            let stored = || async {
                store
                    .get(&table(), key::<V1>().key(), None)
                    .await
                    .unwrap()
                    .unwrap()
            };
            older
                .update(key(), |v| {
                    v.name = "changed".into();
                    Ok(())
                })
                .await
                .unwrap();
            assert_eq!(
                stored().await.get("Unknown"),
                Some(ValueRef::Int32(7)),
                "update by version 1"
            );
            older
                .merge(key(), &V1::patch().name("merged"), IfMatch::Any)
                .await
                .unwrap();
            assert_eq!(
                stored().await.get("Unknown"),
                Some(ValueRef::Int32(7)),
                "merge by version 1"
            );
            newer
                .update(key(), |v| {
                    v.later = Some("x".into());
                    Ok(())
                })
                .await
                .unwrap();
            let row = stored().await;
            assert_eq!(
                row.get("Unknown"),
                Some(ValueRef::Int32(7)),
                "update by version 2"
            );
            assert_eq!(newer.get_existing(key()).await.unwrap().name, "merged");

            let unknown = first("one").to_entity().unwrap().with("Unknown", 8);
            store
                .write(&table(), Operation::InsertOrReplace(unknown))
                .await
                .unwrap();
            assert_eq!(newer.upgrade_all().await.unwrap(), 1);
            assert_eq!(
                stored().await.get("Unknown"),
                Some(ValueRef::Int32(8)),
                "an upgrade"
            );
            newer.upsert(&second()).await.unwrap();
            newer.replace_if(&second(), IfMatch::Any).await.unwrap();
            assert_eq!(
                stored().await.get("Unknown"),
                None,
                "a replacement replaces"
            );
        }
    };
}

plain!(a_type_that_is_told_by_a_property, told);
plain!(a_type_that_says_its_version, numbered);
plain!(a_type_that_is_told_by_its_row_key, prefixed);

/// A type without discriminator and schema version does not read before an unconditional write. It checks each
/// row that it reads.
#[tokio::test]
async fn a_type_that_says_nothing() {
    #[derive(Clone, Debug, TableEntity)]
    struct Plain {
        #[partition_key]
        p: String,
        #[row_key]
        r: u32,
        name: String,
    }
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let older = Database::new(store.clone()).table::<Plain>(TABLE).unwrap();
    older.declare().await.unwrap();
    let later = Entity::new("p", "0000000001")
        .unwrap()
        .with("name", "two")
        .with("EntityVersion", 2);
    store
        .write(&table(), Operation::Insert(later))
        .await
        .unwrap();
    refused(
        &store,
        &older,
        writes! {
            "update": |t| t.update(Plain::key("p", 1u32)?, |v: &mut Plain| { v.name = "one".into(); Ok(()) });
        },
    )
    .await;
}

#[tokio::test]
async fn indexed_tables() {
    use indexed::{V1, V2, first, key, second};
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let newer = open_table::<V2>(
        store.clone(),
        TABLE,
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    )
    .await
    .unwrap();
    newer.insert(&second()).await.unwrap();
    let older = open_table::<V1>(
        store.clone(),
        TABLE,
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    )
    .await
    .unwrap();
    refused(
        &store,
        &older,
        writes! {
            "upsert": |t| t.upsert(&first("one"));
            "update": |t| t.update(key(), |v| { v.name = "one".into(); Ok(()) });
            "merge": |t| t.merge(key(), &V1::patch().text("one"), IfMatch::Any);
            "insert_or_merge": |t| t.insert_or_merge(&first("one"));
            "replace_if any": |t| t.replace_if(&first("one"), IfMatch::Any);
            "read": |t| async move { t.get(key()).await.map(drop) };
        },
    )
    .await;

    newer.delete(key(), IfMatch::Any).await.unwrap();
    let unknown = first("one").to_entity().unwrap().with("Unknown", 7);
    newer
        .entities()
        .await
        .expect("an open table")
        .insert(unknown)
        .await
        .unwrap();
    let stored = || async {
        store
            .get(&table(), key::<V1>().key(), None)
            .await
            .unwrap()
            .unwrap()
    };
    older
        .update(key(), |v| {
            v.name = "changed".into();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(
        stored().await.get("Unknown"),
        Some(ValueRef::Int32(7)),
        "update"
    );
    let mut read = older.get_existing_stored(key()).await.unwrap();
    older
        .update_stored(&mut read, |v| {
            v.name = "edited".into();
            Ok(())
        })
        .await
        .unwrap();
    assert_eq!(
        stored().await.get("Unknown"),
        Some(ValueRef::Int32(7)),
        "update_stored"
    );
    older
        .merge(key(), &V1::patch().text("merged"), IfMatch::Any)
        .await
        .unwrap();
    assert_eq!(
        stored().await.get("Unknown"),
        Some(ValueRef::Int32(7)),
        "merge"
    );
    let found = older
        .by(V1::by_name("p").name("edited"))
        .all()
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn large_tables() {
    use large::{V1, V2, first, key, second};
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let blobs = Arc::new(InMemory::new());
    let program = || Database::new(store.clone()).with_blobs(blobs.clone());
    let newer = program().table::<V2>(TABLE).unwrap();
    newer.declare().await.unwrap();
    newer.insert(&second()).await.unwrap();
    let older = program().table::<V1>(TABLE).unwrap();
    refused(
        &store,
        &older,
        writes! {
            "upsert": |t| t.upsert(&first("one"));
            "insert_or_merge": |t| t.insert_or_merge(&first("one"));
            "replace_if any": |t| t.replace_if(&first("one"), IfMatch::Any);
            "merge any": |t| t.merge(key(), &V1::patch().name("one"), IfMatch::Any);
            "update": |t| t.update(key(), |v| { v.name = "one".into(); Ok(()) });
            "group upsert": |t| async move {
                let mut group = t.group(V1::partition("p")?);
                group.upsert(&first("one"))?;
                group.commit().await
            };
            "read": |t| t.get(key());
            "put_stream": |t| t.put_stream(key(), V1::TEXT, futures_util::stream::empty(), IfMatch::Any);
        },
    )
    .await;
    assert_eq!(newer.get_existing(key()).await.unwrap().text, second().text);

    // An unknown property in a blob stays, with its blob.
    newer.delete(key(), IfMatch::Any).await.unwrap();
    older.insert(&first("one")).await.unwrap();
    let row = store
        .get(&table(), key::<V1>().key(), None)
        .await
        .unwrap()
        .unwrap();
    let reference = row.get("text").unwrap().to_owned();
    let merge = Entity::from(row.key().clone())
        .with("other", reference.clone())
        .with("text", "short");
    store
        .write(&table(), Operation::Merge(merge, IfMatch::Any))
        .await
        .unwrap();
    older
        .update(key(), |v| {
            v.name = "changed".into();
            Ok(())
        })
        .await
        .unwrap();
    let row = store
        .get(&table(), key::<V1>().key(), None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(row.get("other"), Some(reference.as_ref()));
    use futures_util::TryStreamExt as _;
    use object_store::ObjectStore as _;
    let left: Vec<_> = blobs.list(None).try_collect().await.unwrap();
    assert_eq!(
        left.len(),
        1,
        "the blob of the property that this type does not know"
    );
}

#[tokio::test]
async fn spread_tables() {
    use spread::{V1, V2, first, key, second};
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let newer = SpreadTable::<V2>::new(store.clone(), TABLE).unwrap();
    newer.create_if_missing().await.unwrap();
    newer.insert(&second()).await.unwrap();
    let older = SpreadTable::<V1>::new(store.clone(), TABLE).unwrap();
    for older in [older.clone(), older.clone().with_previous(2)] {
        refused(
            &store,
            &older,
            writes! {
                "upsert": |t| t.upsert(&first("one"));
                "replace_if any": |t| t.replace_if(&first("one"), IfMatch::Any);
                "update": |t| t.update(key(), |v| { v.name = "one".into(); Ok(()) });
            },
        )
        .await;
    }

    newer.delete(key(), IfMatch::Any).await.unwrap();
    older.insert(&first("one")).await.unwrap();
    let place = older.stored_key(key::<V1>()).unwrap();
    let unknown = Entity::from(place.clone()).with("Unknown", 7);
    store
        .write(&table(), Operation::Merge(unknown, IfMatch::Any))
        .await
        .unwrap();
    older
        .update(key(), |v| {
            v.name = "changed".into();
            Ok(())
        })
        .await
        .unwrap();
    let row = store.get(&table(), &place, None).await.unwrap().unwrap();
    assert_eq!(row.get("Unknown"), Some(ValueRef::Int32(7)));
}

#[tokio::test]
async fn wide_tables() {
    use wide::{V1, V2, first, key, second};
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let newer = WideTable::<V2>::new(store.clone(), TABLE).unwrap();
    newer.create_if_missing().await.unwrap();
    newer.insert(&second()).await.unwrap();
    let older = WideTable::<V1>::new(store.clone(), TABLE).unwrap();
    refused(
        &store,
        &older,
        writes! {
            "upsert": |t| t.upsert(&first("one"));
            "replace_if any": |t| t.replace_if(&first("one"), IfMatch::Any);
            "update": |t| t.update(key(), |v| { v.name = "one".into(); Ok(()) });
        },
    )
    .await;

    newer.delete_if_exists(key::<V2>()).await.unwrap();
    older.insert(&first("one")).await.unwrap();
    let unknown = |properties: &mut Properties| {
        properties.set("Unknown", 7);
        Ok(())
    };
    older
        .entities()
        .update(key::<V1>().key(), unknown)
        .await
        .unwrap();
    older
        .update(key(), |v| {
            v.name = "changed".into();
            Ok(())
        })
        .await
        .unwrap();
    let read = older
        .entities()
        .get(key::<V1>().key())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.get("Unknown"), Some(ValueRef::Int32(7)));
}

#[tokio::test]
async fn time_slices() {
    use told::{V1, V2, first, second};
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let newer = TimeSlices::<V2>::new(store.clone(), "Days", Every::Day, |_| Ticks::MIN).unwrap();
    newer.insert(&second()).await.unwrap();
    let older = TimeSlices::<V1>::new(store.clone(), "Days", Every::Day, |_| Ticks::MIN).unwrap();
    refused(
        &store,
        &older,
        writes! {
            "upsert": |t| t.upsert(&first("one"));
        },
    )
    .await;
}
