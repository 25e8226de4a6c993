//! Rows of a program whose type has no index, over which another program has declared indexes: a table maintains them, every other path is
//! refused with nothing written, and what writes all the same (`ignoring_indexes`, `write_indexed`) the next scrub finds and repairs.

use futures_util::future::BoxFuture;
use futures_util::stream;
use table_core::model::{Entity, Properties, Ticks};
use table_core::prelude::*;
use table_core::query::Filter;
use table_core::store::Result;
use table_patterns::bulk::{
    BulkOptions, BulkSummary, BulkTable as _, BulkWriter, Unchanged, delete_partition,
    delete_where, operations,
};
use table_patterns::heterogeneous::modify;
use table_patterns::index::{ScrubMode, ScrubReport};
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;
use table_patterns::{Database, Table};

use crate::backends::{Embedded, Emulated, Memory, Served};
use crate::world::{
    Backends, Beside, Handle as _, Indexed, Plain, Spread, TABLE, Thing as _, Unique, Upkeep as _,
    Wide, World, declared,
};

type Declared = Beside<Table<Plain>, Indexed>;
/// A write path of a program: its name and its action.
type Path = (&'static str, fn(World) -> BoxFuture<'static, Result<()>>);

macro_rules! paths {
    ($($name:literal: |$world:ident| $write:expr;)*) => {
        &[$(($name, |$world| Box::pin(async move { $write.await.map(drop) }))),*]
    };
}

macro_rules! on {
    ($($store:ident: $backend:expr;)*) => {$(
        mod $store {
            use super::*;

            const BACKENDS: Backends = || Box::new($backend);

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn paths_that_do_not_know_the_indexes() {
                refused(BACKENDS).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_table_maintains_the_indexes_of_others() {
                maintained(BACKENDS).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn unmanaged_writes() {
                repaired(BACKENDS).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn unmanaged_writes_of_a_unique_value() {
                taken(BACKENDS).await;
            }
        }
    )*};
}

on! {
    memory: Memory;
    embedded: Embedded::new();
    azurite: Emulated::new(&[]);
    served: Served;
}

fn plain(world: &World) -> Table<Plain> {
    Database::new(world.store.clone())
        .table(world.table(TABLE))
        .unwrap()
}

fn unmanaged(world: &World) -> Table<Plain> {
    plain(world).ignoring_indexes()
}

fn key<T>(r: u32) -> EntityKey<T> {
    Plain::key("p", r).unwrap().cast()
}

fn named(r: u32, name: &str) -> Plain {
    let mut thing = Plain::new("p", r);
    name.clone_into(&mut thing.name);
    thing
}

/// The first entity under another name.
fn renamed() -> Plain {
    named(1, "another")
}

async fn bulk(
    world: &World,
    options: BulkOptions,
    kind: fn(Entity) -> Operation,
    value: Plain,
) -> Result<()> {
    let writes = operations(&world.table(TABLE), stream::iter([value]), kind);
    let writer = BulkWriter::with_options(world.store.clone(), options);
    writer
        .write(writes)
        .await
        .and_then(BulkSummary::into_result)
        .map(drop)
}

async fn delete_all(world: &World, options: BulkOptions) -> Result<()> {
    let (partition, name) = (PartitionKey::new("p")?, world.table(TABLE));
    delete_partition(world.store.clone(), &name, &partition, options)
        .await
        .and_then(BulkSummary::into_result)
        .map(drop)
}

/// These write the entries of indexes that their program does not define.
const MAINTAINED: &[Path] = paths! {
    "replace": |w| async move {
        let table = plain(&w);
        let version = table.get_existing_stored(key(1)).await?.etag().clone();
        table.replace_if(&renamed(), version).await
    };
    "replace_stored": |w| async move {
        let table = plain(&w);
        let stored = table.get_existing_stored(key(1)).await?;
        table.replace_stored(&stored, &renamed()).await
    };
    "delete_stored": |w| async move {
        let table = plain(&w);
        let stored = table.get_existing_stored(key(1)).await?;
        table.delete_stored(&stored).await
    };
    "move_to": |w| async move {
        let table = plain(&w);
        table.move_to(key(1), &table, key(3)).await
    };
    "a set of updates": |w| async move {
        let rename = |thing: &mut Plain| {
            thing.rename();
            Ok(())
        };
        plain(&w).query().partition(Plain::partition("p")?).update(rename).await
    };
    "a set of deletes": |w| async move {
        plain(&w).query().partition(Plain::partition("p")?).delete().await
    };
    "inserts in bulk": |w| async move {
        let inserts = stream::iter([Plain::new("p", 2), Plain::new("p", 3)]);
        plain(&w).bulk().insert_all(inserts).await.and_then(BulkSummary::into_result)
    };
    "insert": |w| plain(&w).insert(&Plain::new("p", 2));
    "upsert": |w| plain(&w).upsert(&renamed());
    "replace_if": |w| plain(&w).replace_if(&renamed(), IfMatch::Any);
    "insert_or_merge": |w| plain(&w).insert_or_merge(&renamed());
    "merge": |w| plain(&w).merge(key(1), &Plain::patch().name("another"), IfMatch::Any);
    "update": |w| plain(&w).update(key(1), |thing| { *thing = renamed(); Ok(()) });
    "delete": |w| plain(&w).delete(key(1), IfMatch::Any);
    "delete_if_exists": |w| plain(&w).delete_if_exists(key(1));
    "a group": |w| async move {
        let table = plain(&w);
        let mut group = table.group(Plain::partition("p")?);
        group.insert(&Plain::new("p", 2))?;
        group.delete(key::<Plain>(1), IfMatch::Any)?;
        group.commit().await
    };
};

/// Nothing of these is written: the error says that an index is there, and what to use.
const PATHS: &[Path] = paths! {
    "modify": |w| async move {
        let table = plain(&w);
        let another = |_: &Entity| Ok([("name", "another")].into_iter().collect::<Properties>());
        modify(&table, key::<Plain>(1).key(), another).await
    };
    "a bulk insert": |w| async move { bulk(&w, BulkOptions::default(), Operation::Insert, Plain::new("p", 2)).await };
    "a bulk upsert": |w| async move { bulk(&w, BulkOptions::default(), Operation::InsertOrReplace, renamed()).await };
    "delete_partition": |w| async move { delete_all(&w, BulkOptions::default()).await };
    "delete_where": |w| async move {
        let (name, named) = (w.table(TABLE), Filter::eq("name", "name1"));
        let options = BulkOptions::default();
        let deleted = delete_where(w.store.clone(), &name, named, Unchanged::Required, options).await;
        deleted.and_then(BulkSummary::into_result)
    };
    "WideTable": |w| async move {
        WideTable::new(w.store.clone(), w.table(TABLE))?.insert(&Wide::new("p", 2)).await
    };
    "SpreadTable": |w| async move {
        SpreadTable::new(w.store.clone(), w.table(TABLE))?.insert(&Spread::new("p", 2)).await
    };
};

async fn maintained(backends: Backends) {
    for (name, write) in MAINTAINED {
        let world = World::new(backends, false).await;
        let own = Declared::open(&world).await;
        own.put(&Plain::new("p", 1)).await.unwrap();
        let before = world.rows().await;
        write(world.clone()).await.expect(name);
        assert_ne!(world.rows().await, before, "{name} wrote nothing");
        own.check().await;
    }
}

async fn refused(backends: Backends) {
    let world = World::new(backends, false).await;
    let own = Declared::open(&world).await;
    own.put(&Plain::new("p", 1)).await.unwrap();
    let before = world.rows().await;
    for (name, write) in PATHS {
        let error = write(world.clone()).await.expect_err(name).to_string();
        let id = Indexed::SCHEMA.indexes[0].id();
        let instead = ["Table`", "keep them in a table of their own"];
        let names = instead.iter().any(|instead| error.contains(instead));
        assert!(error.contains(&id) && names, "{name}: {error}");
        assert_eq!(world.rows().await, before, "{name} wrote something");
    }
    assert_eq!(
        own.read(key::<Plain>(1).key()).await.unwrap(),
        Some(Plain::new("p", 1))
    );

    // A slice is a table, of which another program may declare an index as well.
    let days = world.table("Days").to_string();
    let slices =
        TimeSlices::<Plain>::new(world.store.clone(), &days, Every::Day, |_| Ticks::MIN).unwrap();
    let slice = slices.table_for(Ticks::MIN).await.unwrap();
    let declaring: Table<Indexed> = declared(&world, slice.name().clone()).await.unwrap();
    let error = slices
        .insert(&Plain::new("p", 1))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains(&Indexed::SCHEMA.indexes[0].id()), "{error}");
    assert_eq!(slices.query().all().await.unwrap(), []);
    declaring.check().await;
}

/// These know no manifest: entries are not as they are to be afterwards.
const UNMANAGED: &[Path] = paths! {
    "insert": |w| unmanaged(&w).insert(&Plain::new("p", 2));
    "upsert": |w| unmanaged(&w).upsert(&renamed());
    "merge": |w| unmanaged(&w).merge(key(1), &Plain::patch().name("another"), IfMatch::Any);
    "update": |w| unmanaged(&w).update(key(1), |thing| { *thing = renamed(); Ok(()) });
    "delete": |w| unmanaged(&w).delete(key(1), IfMatch::Any);
    "a group": |w| async move {
        let table = unmanaged(&w);
        let mut group = table.group(Plain::partition("p")?);
        group.insert(&Plain::new("p", 2))?;
        group.delete(key::<Plain>(1), IfMatch::Any)?;
        group.commit().await
    };
    "a bulk insert": |w| async move {
        bulk(&w, BulkOptions::default().write_indexed(), Operation::Insert, Plain::new("p", 2)).await
    };
    "a bulk upsert": |w| async move {
        bulk(&w, BulkOptions::default().write_indexed(), Operation::InsertOrReplace, renamed()).await
    };
    "delete_partition": |w| async move { delete_all(&w, BulkOptions::default().write_indexed()).await };
};

fn wrong(found: &ScrubReport) -> usize {
    found.dangling + found.missing + found.taken_keys
}

async fn repaired(backends: Backends) {
    for (name, write) in UNMANAGED {
        let world = World::new(backends, false).await;
        let own = Declared::open(&world).await;
        own.put(&Plain::new("p", 1)).await.unwrap();
        write(world.clone()).await.expect(name);
        let mut found = 0;
        for index in Indexed::SCHEMA.indexes {
            let entities = own.declaring.entities().await.expect("an open table");
            let reported = entities
                .scrub(&index.name, ScrubMode::Report)
                .await
                .unwrap();
            let repaired = entities
                .scrub(&index.name, ScrubMode::Repair)
                .await
                .unwrap();
            assert_eq!(wrong(&reported), wrong(&repaired), "{name}: {}", index.name);
            found += wrong(&reported);
        }
        assert!(found > 0, "{name}: every entry was as it is to be");
        own.check().await;
    }
}

/// The second owner of a value is found by every scrub until one of both has gone.
async fn taken(backends: Backends) {
    let world = World::new(backends, false).await;
    let own = Beside::<Table<Plain>, Unique>::open(&world).await;
    own.put(&Plain::new("p", 1)).await.unwrap();
    unmanaged(&world).insert(&named(2, "name1")).await.unwrap();
    let entities = own.declaring.entities().await.expect("an open table");
    for mode in [ScrubMode::Report, ScrubMode::Repair, ScrubMode::Report] {
        let found = entities.scrub("name", mode).await.unwrap();
        assert_eq!(found.taken_keys, 1, "{mode:?}");
        assert_eq!(found.missing, 0, "{mode:?}");
        assert_eq!(found.dangling, 0, "{mode:?}");
    }
    own.declaring.delete(key(2), IfMatch::Any).await.unwrap();
    own.check().await;
}
