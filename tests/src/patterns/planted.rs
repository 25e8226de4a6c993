//! Rows that somebody has planted who may add rows to one table only.

use std::time::Duration;

use futures_util::{TryStreamExt as _, stream};
use table_core::manifest::{IndexState, Manifest, StoredIndex, WriteTarget};
use table_core::model::{Entity, IfMatch, Key, MANIFEST_PARTITION, TableName};
use table_core::store::{Operation, Outcome, TableStoreExt as _};
use table_patterns::index::{
    BulkInsert, Index, IndexedEntities, Payload, Placement, ScrubMode, Shape, Trust,
};

use super::index_lists::changing;
use crate::Harness;

/// A table in which anybody may add rows, and a table that is none of their business.
struct Planted<'a> {
    harness: &'a Harness,
    guest: TableName,
    victim: TableName,
}

impl<'a> Planted<'a> {
    async fn new(harness: &'a Harness) -> Self {
        let (guest, victim) = (
            harness.table().await.name().clone(),
            harness.table().await.name().clone(),
        );
        let planted = Self {
            harness,
            guest,
            victim,
        };
        for row in ["old", "other"] {
            planted
                .put(&planted.victim, Entity::from(key(row)).with("Secret", 1))
                .await;
        }
        planted
    }

    async fn put(&self, table: &TableName, row: Entity) {
        let put = self
            .harness
            .store()
            .write(table, Operation::InsertOrReplace(row))
            .await;
        put.expect("a row of a legal key");
    }

    fn elsewhere(&self) -> Placement {
        Placement::OtherTable(self.victim.clone())
    }

    /// An index that puts a whole entity at any key of the other table that the entity names.
    fn index(&self) -> Index {
        Index::keyed("ev", self.elsewhere(), "{Tp}", "{Tr}")
            .expect("a template")
            .with_payload(Payload::Full)
    }

    async fn open(&self, indexes: Vec<Index>) -> IndexedEntities {
        let (store, table) = (self.harness.store().clone(), self.guest.clone());
        IndexedEntities::open(store, table, indexes, changing())
            .await
            .expect("a table")
    }

    async fn victims(&self) -> Vec<Entity> {
        let rows = self
            .harness
            .store()
            .query_all(&self.victim, &Default::default())
            .await
            .expect("rows");
        rows.into_iter()
            .filter(|row| row.key().partition() != MANIFEST_PARTITION)
            .collect()
    }
}

fn key(row: &str) -> Key {
    Key::new("vp", row).expect("a legal key")
}

fn pointing(id: &str, row: &str) -> Entity {
    Entity::new("g", id)
        .expect("a legal key")
        .with("Tp", "vp")
        .with("Tr", row)
}

/// Writes, imports, scrubs, builds and recovery follow no definition to which the other table has not consented.
pub(crate) async fn a_planted_definition_changes_no_other_table(harness: &Harness) {
    let world = Planted::new(harness).await;
    let program = world.open(vec![]).await;
    program
        .insert(pointing("before", "old"))
        .await
        .expect("an insert");
    let planted = StoredIndex::new(world.index().definition(), IndexState::Readable);
    world
        .put(&world.guest, planted.to_entity().expect("a row"))
        .await;
    // As a careless attacker would write it: without what follows from the definition.
    let bare = Entity::new(MANIFEST_PARTITION, "index~~ev.00000000").expect("a legal key");
    let bare = bare
        .with("Format", 1)
        .with("State", "readable")
        .with("Shape", "\"row\"");
    let bare = bare.with("IndexTable", world.victim.as_str());
    world
        .put(
            &world.guest,
            bare.with("Definition", world.index().definition().to_json()),
        )
        .await;
    let before = world.victims().await;

    let guests = world.open(vec![]).await;
    guests
        .insert(pointing("1", "new"))
        .await
        .expect("an insert");
    guests
        .upsert(pointing("2", "old"))
        .await
        .expect("an upsert");
    guests
        .modify(&Key::new("g", "before").expect("a legal key"), |_| Ok(None))
        .await
        .expect("a delete");
    let rows = stream::iter([Ok(pointing("3", "new")), Ok(pointing("4", "old"))]);
    let imported = guests.insert_all(rows, BulkInsert::default());
    let imported: Vec<_> = imported.try_collect().await.expect("an import");
    assert!(imported.iter().all(|outcome| outcome.result.is_ok()));
    let plain = harness
        .store()
        .plain_write(&world.guest)
        .await
        .expect("a manifest");
    let row = pointing("5", "new");
    let checked =
        plain
            .manifest()
            .check_plain(&world.guest, WriteTarget::Entity(&row), "a write", "");
    checked.expect("no index in force");
    drop(plain);
    assert!(guests.scrub("ev", ScrubMode::Repair).await.is_err());
    assert!(guests.build("ev").is_err());
    guests
        .journal()
        .sweep(std::slice::from_ref(&world.victim), Duration::ZERO)
        .await
        .expect("a sweep");
    assert_eq!(world.victims().await, before);

    let error = guests
        .find("ev", &key("new"), Trust::Entry)
        .await
        .expect_err("no index")
        .to_string();
    assert!(
        error.contains("not in force") && error.contains(world.victim.as_str()),
        "{error}"
    );
    let manifest = Manifest::load(&**harness.store(), &world.guest)
        .await
        .expect("a manifest");
    assert_eq!(
        (manifest.not_in_force.len(), manifest.refused.len()),
        (1, 1)
    );

    // The owner of both tables takes the definition for his own: then it is an index like any other.
    guests.trust_index("ev").await.expect("a consent");
    let error = guests
        .build("ev")
        .expect("an index")
        .run()
        .await
        .expect_err("rows in the way");
    assert!(error.is_key_collision(), "{error}");
    let now = world.victims().await;
    assert!(before.iter().all(|row| now.contains(row)));
}

/// An index in force changes and deletes no row but its own entries.
pub(crate) async fn an_entry_changes_only_its_own_row(harness: &Harness) {
    let world = Planted::new(harness).await;
    let guests = world.open(vec![world.index()]).await;
    let before = world.victims().await;
    let error = guests
        .insert(pointing("1", "old"))
        .await
        .expect_err("a row in the way");
    assert!(error.is_key_collision(), "{error}");
    assert!(
        error.to_string().contains("'ev'") && error.to_string().contains("old"),
        "{error}"
    );
    let other = world.open(vec![]).await;
    let first = Key::new("g", "1").expect("a legal key");
    other.modify(&first, |_| Ok(None)).await.expect("a delete");
    guests
        .journal()
        .sweep(std::slice::from_ref(&world.victim), Duration::ZERO)
        .await
        .expect("a sweep");
    guests
        .scrub("ev", ScrubMode::Repair)
        .await
        .expect("a scrub");
    assert_eq!(world.victims().await, before);
    guests
        .insert(pointing("1", "new"))
        .await
        .expect("an insert");
    assert_eq!(world.victims().await.len(), before.len() + 1);
    let old = guests.get_existing(&first).await.expect("an entity");
    guests
        .replace(&old, pointing("1", "newer"))
        .await
        .expect("another key");
    assert!(
        guests
            .find("ev", &key("newer"), Trust::Entity)
            .await
            .expect("a lookup")
            .is_some()
    );
    guests.drop_index("ev").await.expect("a removal");
    assert_eq!(world.victims().await, before);
}

/// A row in the way of an entry leaves no journal row, keeps no other entry of the write back, and is named by a scrub. A scrub adds the entry
/// when the row is gone.
pub(crate) async fn a_row_in_the_way_leaves_no_unfinished_write(harness: &Harness) {
    for shape in [Shape::Row, Shape::LIST] {
        let world = Planted::new(harness).await;
        let guests = world
            .open(vec![
                Index::keyed("ev", world.elsewhere(), "{Tp}", "{Tr}")
                    .expect("a template")
                    .with_shape(shape.clone()),
                Index::keyed("more", world.elsewhere(), "more", "{Tr}").expect("a template"),
            ])
            .await;
        let before = world.victims().await;
        let error = guests
            .insert(pointing("1", "old"))
            .await
            .expect_err("a row in the way");
        assert!(error.is_key_collision(), "{error}");
        assert_eq!(error.outcome(), Outcome::Applied, "{error}");
        let now = world.victims().await;
        assert!(before.iter().all(|row| now.contains(row)));
        assert_eq!(now.len(), before.len() + 1, "the entry of the other index");
        let rows = harness
            .store()
            .query_all(&world.guest, &Default::default())
            .await
            .expect("rows");
        let journal = rows.iter().find(|row| row.key().row().starts_with("~~j_"));
        assert!(journal.is_none(), "{shape:?}: {journal:?}");
        let swept = guests
            .journal()
            .sweep(std::slice::from_ref(&world.victim), Duration::ZERO)
            .await
            .expect("a sweep");
        assert_eq!((swept.applied, swept.failed, swept.left), (0, 0, 0));
        for mode in [ScrubMode::Report, ScrubMode::Repair] {
            let scrub = guests.scrub("ev", mode).await.expect("a scrub");
            assert_eq!(
                (scrub.taken_keys, scrub.missing),
                (1, 0),
                "{shape:?} {mode:?}"
            );
        }
        harness
            .store()
            .write(&world.victim, Operation::Delete(key("old"), IfMatch::Any))
            .await
            .expect("a removal");
        let scrub = guests
            .scrub("ev", ScrubMode::Repair)
            .await
            .expect("a scrub");
        assert_eq!((scrub.taken_keys, scrub.missing), (0, 1), "{shape:?}");
        let scrub = guests
            .scrub("ev", ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!((scrub.taken_keys, scrub.missing), (0, 0), "{shape:?}");
    }
}

pub(crate) async fn a_damaged_manifest_stops_no_read_and_no_write(harness: &Harness) {
    let world = Planted::new(harness).await;
    let by_city = || {
        Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}")
            .expect("a template")
    };
    let program = world.open(vec![by_city()]).await;
    for row in [
        "index~~x.00000000",
        "type~Order",
        "process~00000000000000000000000000000001",
    ] {
        let garbage = Entity::new(MANIFEST_PARTITION, row).expect("a legal key");
        world
            .put(
                &world.guest,
                garbage
                    .with("Format", "x")
                    .with("Definition", 7)
                    .with("Cache", "x"),
            )
            .await;
    }
    let (store, table) = (harness.store().clone(), world.guest.clone());
    let reader = IndexedEntities::open_to_read(store, table, vec![by_city()], changing())
        .await
        .expect("a reader");
    program.refresh().await.expect("a manifest");
    let person = Entity::new("p", "1")
        .expect("a legal key")
        .with("City", "oslo");
    world
        .open(vec![by_city()])
        .await
        .insert(person)
        .await
        .expect("an insert");
    let entry = Key::new("city_oslo", "1").expect("a legal key");
    assert!(
        reader
            .find("city", &entry, Trust::Entity)
            .await
            .expect("a lookup")
            .is_some()
    );
}
