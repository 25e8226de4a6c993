//! Expiry and soft deletion in programs of several schema versions.

use crate::open_table;
use table_core::prelude::*;
use table_core::store::{Outcome, Result};
use table_core::typed::Schema;
use table_patterns::Database;
use table_patterns::spread::SpreadTable;
use table_patterns::wide::WideTable;

use super::expiry::{Indexed, Named, Plain, Spread, Wider, World, open, options};
use crate::Harness;

/// A program of the same schema version must declare the same expiry; an earlier version writes on, and a change feed is refused.
pub(super) async fn programs_agree_about_expiry(harness: &Harness) {
    #[derive(Debug, TableEntity)]
    #[entity(type = "Session", rename_all = "PascalCase")]
    struct Without {
        #[partition_key]
        p: String,
        #[row_key]
        r: u32,
        text: String,
    }
    #[derive(Debug, TableEntity)]
    #[entity(type = "Session", rename_all = "PascalCase", version = 2, previous = Without)]
    struct Later {
        #[partition_key]
        p: String,
        #[row_key]
        r: u32,
        text: String,
        #[expires]
        end: Option<Ticks>,
    }
    impl From<Without> for Later {
        fn from(old: Without) -> Self {
            Self {
                p: old.p,
                r: old.r,
                text: old.text,
                end: None,
            }
        }
    }
    let world = World::new(harness).await;
    let table = open!(world, Plain);
    table
        .insert(&Plain::new(1, Some(world.clock.now())))
        .await
        .expect("a new entity");
    let without = table.view::<Without>().expect("a table");
    let refused = without
        .insert(&Without {
            p: "p".into(),
            r: 2,
            text: "t".into(),
        })
        .await;
    let refused = refused
        .expect_err("another program of this version")
        .to_string();
    assert!(
        refused.contains("'Until'") && refused.contains("no expiry"),
        "{refused}"
    );
    assert!(
        without
            .get(Without::key("p", 1u32).expect("a key"))
            .await
            .expect("a read")
            .is_some(),
        "reads go on"
    );

    // A later version decides. The sweep leaves rows by a property that the type has no more.
    let later = table.view::<Later>().expect("a table");
    let (p, text) = ("p".to_owned(), "t".to_owned());
    later
        .insert(&Later {
            p,
            r: 3,
            text,
            end: Some(world.clock.now()),
        })
        .await
        .expect("a new entity");
    without
        .insert(&Without {
            p: "p".into(),
            r: 4,
            text: "t".into(),
        })
        .await
        .expect("an earlier version writes on");
    assert_eq!(world.sweep().await.removed, 1);
    assert_eq!(
        table.with_hidden().query().count().await.expect("a count"),
        2
    );
}

macro_rules! later_versions_of {
    ($harness:expr, $of:ident) => {{
        let world = World::new($harness).await;
        let table = open!(world, $of);
        let of = stringify!($of);
        table
            .insert(&$of::new(1, Some(world.clock.now())))
            .await
            .expect("a new entity");
        // As a program of the next version stores the entity.
        let stored = world
            .raw
            .query_all(&world.table, &Query::new())
            .await
            .expect("rows");
        let row = stored
            .iter()
            .find(|row| row.get("Until").is_some() && !row.is_index_entry());
        let row = row.expect("the row of the entity").key().clone();
        let later = Entity::from(row.clone()).with(Schema::VERSION_PROPERTY, 2);
        world
            .raw
            .write(&world.table, Operation::Merge(later, IfMatch::Any))
            .await
            .expect("a merge");
        let stored = async || {
            world
                .raw
                .get(&world.table, &row, None)
                .await
                .expect("a read")
        };
        let before = stored().await.expect("the row");

        let new = $of {
            name: None,
            ..$of::new(1, None)
        };
        let error = table.insert(&new).await.err().expect("the key is taken");
        assert!(error.is_already_exists(), "{of}: {error}");
        for error in [
            table.insert_or_merge(&new).await.err(),
            table.upsert(&new).await.err(),
        ] {
            let error = error.expect("a later version").to_string();
            assert!(error.contains("version 2"), "{of}: {error}");
        }
        assert_eq!(stored().await, Some(before), "{of}");
    }};
}

/// A program of an earlier version claims neither the key nor a value of an entity of a later one: that version may expire otherwise.
pub(super) async fn entities_of_later_versions_are_not_claimed(harness: &Harness) {
    later_versions_of!(harness, Plain);
    later_versions_of!(harness, Indexed);
    later_versions_of!(harness, Spread);
    later_versions_of!(harness, Wider);

    let world = World::new(harness).await;
    let table = open!(world, Indexed);
    table
        .insert(&Indexed::new(1, Some(world.clock.now())))
        .await
        .expect("a new entity");
    let key = Indexed::key("p", 1).expect("a key").into_key();
    let later = Entity::from(key.clone()).with(Schema::VERSION_PROPERTY, 2);
    world
        .raw
        .write(&world.table, Operation::Merge(later.clone(), IfMatch::Any))
        .await
        .expect("a merge");
    for p in ["p", "q"] {
        let claimant = Indexed {
            p: p.into(),
            name: Some("name1".into()),
            ..Indexed::new(2, None)
        };
        // Whether the owner still has the value, only its own version can derive.
        assert_taken(table.insert(&claimant).await, &key);
        table
            .insert(&Indexed::new(3, None))
            .await
            .expect("another value is free");
        assert_taken(
            table
                .update(Indexed::key("p", 3).expect("a key"), rename)
                .await,
            &key,
        );
        table
            .delete(Indexed::key("p", 3).expect("a key"), IfMatch::Any)
            .await
            .expect("a deletion");
    }
    assert!(
        world
            .raw
            .get(&world.table, &key, None)
            .await
            .expect("a read")
            .is_some()
    );

    // A value within the partition.
    let world = World::new(harness).await;
    let table = open!(world, Named);
    table
        .insert(&Named::new(1, Some(world.clock.now())))
        .await
        .expect("a new entity");
    world
        .raw
        .write(&world.table, Operation::Merge(later, IfMatch::Any))
        .await
        .expect("a merge");
    let claimant = Named {
        name: Some("name1".into()),
        ..Named::new(2, None)
    };
    assert_taken(table.insert(&claimant).await, &key);
    assert!(
        world
            .raw
            .get(&world.table, &key, None)
            .await
            .expect("a read")
            .is_some()
    );
}

fn rename(entity: &mut Indexed) -> Result<()> {
    entity.name = Some("name1".into());
    Ok(())
}

/// The error of a write whose value the entity of this key has.
fn assert_taken<W: std::fmt::Debug>(written: Result<W>, owner: &Key) {
    let error = written.expect_err("the value is taken");
    assert!(
        error.is_unique_violation() && error.outcome() == Outcome::NotApplied,
        "{error}"
    );
    assert_eq!(error.owner(), Some(&*owner.to_string()));
}

macro_rules! aged {
    ($module:ident, [$($attr:meta),*], [$($index:meta),*], $key:meta, [$($text:meta)?]) => {
        mod $module {
            use table_core::prelude::*;

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            #[entity(type = "Note")]
            $(#[$attr])*
            $(#[$index])*
            pub(super) struct V1 {
                #[$key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
                pub(super) name: String,
                $(#[$text])?
                pub(super) text: String,
                #[expires]
                pub(super) until: Option<Ticks>,
                #[deleted_at(keep_days = 7)]
                pub(super) deleted: Option<Ticks>,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            #[entity(type = "Note", version = 2, previous = V1)]
            $(#[$attr])*
            $(#[$index])*
            pub(super) struct V2 {
                #[$key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
                pub(super) title: String,
                $(#[$text])?
                pub(super) text: String,
                #[expires]
                pub(super) until: Option<Ticks>,
                #[deleted_at(keep_days = 7)]
                pub(super) deleted: Option<Ticks>,
            }

            impl From<V1> for V2 {
                fn from(V1 { p, r, name, text, until, deleted }: V1) -> Self {
                    Self { p, r, title: name.to_uppercase(), text, until, deleted }
                }
            }
        }
    };
}

aged!(plain_versions, [], [], partition_key, []);
aged!(
    indexed_versions,
    [],
    [index(
        seat,
        partition_key = "seat_{r}",
        row_key = "x",
        unique = "table"
    )],
    partition_key,
    []
);
aged!(large_versions, [], [], partition_key, [large(over = 4)]);
aged!(spread_versions, [], [], partition_key(spread = 2), []);
aged!(wide_versions, [entity(wide)], [], partition_key, []);

macro_rules! migration_of {
    ($world:ident, $module:ident, $older:expr, $newer:expr) => {{
        use $module::{V1, V2};
        let what = stringify!($module);
        let older = $older;
        for r in 1..=4 {
            let (name, text) = (format!("n{r}"), "a long text".to_owned());
            let until = Some($world.clock.now()).filter(|_| r == 2);
            let note = V1 {
                p: "p".into(),
                r,
                name,
                text,
                until,
                deleted: None,
            };
            older.insert(&note).await.expect("a new note");
        }
        older
            .soft_delete(V1::key("p", 3u32).expect("a key"))
            .await
            .expect("a deletion");
        let table = $newer;
        let plan = table.upgrade().plan().await.expect("a plan");
        assert_eq!(plan.older(), 4, "{what}: {plan:?}");
        assert_eq!(table.upgrade_all().await.expect("a migration"), 4, "{what}");
        let query = table.query().partition(V2::partition("p").expect("a key"));
        let notes = query.all().await.expect("the notes");
        assert_eq!(
            notes.iter().map(|note| &*note.title).collect::<Vec<_>>(),
            ["N1", "N4"],
            "{what}"
        );
        table
            .restore(V2::key("p", 3u32).expect("a key"))
            .await
            .expect("a restore");
        let restored = table
            .get_existing(V2::key("p", 3u32).expect("a key"))
            .await
            .expect("a read");
        assert_eq!(
            (restored.title.as_str(), restored.deleted),
            ("N3", None),
            "{what}"
        );
        let swept = $world.sweep().await;
        assert_eq!((swept.removed, swept.failed), (1, 0), "{what}: {swept:?}");
        let all = table
            .clone()
            .with_hidden()
            .query()
            .partition(V2::partition("p").expect("a key"));
        assert_eq!(all.count().await.expect("a count"), 3, "{what}");
        let (title, text) = ("N2".to_owned(), "a long text".to_owned());
        let again = V2 {
            p: "p".into(),
            r: 2,
            title,
            text,
            until: None,
            deleted: None,
        };
        table
            .insert(&again)
            .await
            .expect("the key and the values are free");
    }};
}

/// A migration converts hidden entities too: a deleted one can be restored as the new version, and a sweep removes an expired one with its entries.
pub(super) async fn migrations_convert_hidden_entities(harness: &Harness) {
    macro_rules! created {
        ($opened:expr) => {{
            let table = $opened.expect("a table");
            table.create_if_missing().await.expect("a table");
            table
        }};
    }
    let world = World::new(harness).await;
    let (store, name) = (|| world.store.clone(), || world.table.clone());
    migration_of!(
        world,
        plain_versions,
        open_table::<V1>(store(), name(), options())
            .await
            .expect("a table"),
        open_table::<V2>(store(), name(), options())
            .await
            .expect("a table")
    );
    let world = World::new(harness).await;
    let (store, name) = (|| world.store.clone(), || world.table.clone());
    migration_of!(
        world,
        indexed_versions,
        open_table::<V1>(store(), name(), options())
            .await
            .expect("a table"),
        open_table::<V2>(store(), name(), options())
            .await
            .expect("a table")
    );
    let world = World::new(harness).await;
    migration_of!(
        world,
        large_versions,
        world.with_blobs::<V1>().await,
        world.with_blobs::<V2>().await
    );
    let world = World::new(harness).await;
    let (store, name) = (|| world.store.clone(), || world.table.clone());
    migration_of!(
        world,
        spread_versions,
        created!(SpreadTable::<V1>::new(store(), name())),
        created!(SpreadTable::<V2>::new(store(), name()))
    );
    let world = World::new(harness).await;
    let (store, name) = (|| world.store.clone(), || world.table.clone());
    migration_of!(
        world,
        wide_versions,
        created!(WideTable::<V1>::new(store(), name())),
        created!(WideTable::<V2>::new(store(), name()))
    );
}
