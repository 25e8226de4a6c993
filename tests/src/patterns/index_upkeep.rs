//! Maintenance of indexes: rebuilds, drops of outdated generations, scrubs by pages.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_core::model::{Entity, IfMatch, Key, TableName, entry_id};
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_patterns::index::{
    Index, IndexOptions, IndexState, IndexedEntities, Overflow, Payload, Placement, ScrubCursor,
    ScrubMode, ScrubReport, Shape,
};

use super::index_lists::changing;
use crate::Harness;
use crate::wrappers::SmallPageStore;

const CITIES: [&str; 3] = ["bergen", "oslo", "rome"];

/// A table of people, and the blobs of its lists.
struct World {
    store: Arc<dyn TableStore>,
    table: TableName,
    options: IndexOptions,
}

impl World {
    async fn new(harness: &Harness) -> Self {
        let mut options = changing();
        options.blobs = Some(Arc::new(InMemory::new()));
        Self {
            store: harness.store().clone(),
            table: harness.table().await.name().clone(),
            options,
        }
    }

    async fn try_open(&self, indexes: Vec<Index>) -> table_core::Result<IndexedEntities> {
        IndexedEntities::open(
            self.store.clone(),
            self.table.clone(),
            indexes,
            self.options.clone(),
        )
        .await
    }

    async fn open(&self, indexes: Vec<Index>) -> IndexedEntities {
        self.try_open(indexes)
            .await
            .expect("indexes that make sense")
    }

    /// Drops every generation that is not in `indexes`, as a program without types does.
    async fn drop_others(&self, indexes: &[Index]) -> Vec<String> {
        let (store, table, options) =
            (self.store.clone(), self.table.clone(), self.options.clone());
        let upkeep = IndexedEntities::open_for_upkeep(store, table, options)
            .await
            .expect("a manifest");
        let declared = upkeep.declared().await.expect("the storage answers");
        let ids = declared.iter().map(|declared| declared.id());
        let others: Vec<_> = ids
            .filter(|id| !indexes.iter().any(|index| index.id() == id))
            .collect();
        for id in &others {
            if let Err(error) = upkeep.drop_index(id).await {
                // Another process dropped the index first.
                let declared = upkeep.declared().await.expect("the storage answers");
                assert!(
                    !declared.iter().any(|declared| declared.id() == *id),
                    "{error}"
                );
            }
        }
        others
    }

    /// Counts the entries of the index in one of the tables.
    async fn rows_of(&self, table: &TableName, index: &str) -> usize {
        let index = &*entry_id(index, Some(&self.table).filter(|own| *own != table));
        let rows = self
            .store
            .query_all(table, &Default::default())
            .await
            .expect("rows");
        rows.iter()
            .filter(|row| table_patterns::index::Entry::index_of(row) == Some(index))
            .count()
    }
}

fn key(id: usize) -> Key {
    Key::new("p", format!("{id:04}")).expect("a legal key")
}

fn person(id: usize) -> Entity {
    Entity::from(key(id))
        .with("City", CITIES[id % 3])
        .with("Age", 30)
}

async fn fill(people: &IndexedEntities) {
    for id in 0..30 {
        people.insert(person(id)).await.expect("a new person");
    }
}

fn by_city(placement: &Placement, row: &str) -> Index {
    let partition = if *placement == Placement::SamePartition {
        ""
    } else {
        "city_{City}"
    };
    Index::keyed("city", placement.clone(), partition, row).expect("a template")
}

fn by_age() -> Index {
    let index = Index::keyed("age", Placement::OtherPartition, "age_{Age:02}", "{RowKey}");
    index.expect("a template")
}

async fn assert_in_step(people: &IndexedEntities, index: &str) {
    let scrub = people
        .scrub(index, ScrubMode::Report)
        .await
        .expect("a scrub");
    assert_eq!(scrub.dangling, 0, "{index}");
    assert_eq!(scrub.missing, 0, "{index}");
    assert_eq!(scrub.taken_keys, 0, "{index}");
    assert!(scrub.entries > 0, "{index}");
}

/// A changed definition is a new generation: with other keys, another payload, another shape or another
/// placement. The new generation is built while programs with either definition keep both in step. Then the
/// earlier generation is dropped.
pub(crate) async fn a_changed_definition_is_a_new_generation(harness: &Harness) {
    let elsewhere = Placement::OtherTable(harness.table().await.name().clone());
    let further = Placement::OtherTable(harness.table().await.name().clone());
    let (here, other) = (Placement::SamePartition, Placement::OtherPartition);
    let (row, next) = ("city_{City}_{RowKey}", "city2_{City}_{RowKey}");
    let list = |placement| by_city(placement, "city2_{City}").with_shape(Shape::LIST);
    let blob = Shape::List {
        bytes: 256,
        overflow: Overflow::Blob,
    };
    let changes = [
        (
            by_city(&here, row),
            by_city(&here, "city2_{City}_{Age:02}_{RowKey}"),
        ),
        (
            by_city(&other, row),
            by_city(&other, next).with_payload(Payload::Full),
        ),
        (by_city(&elsewhere, row), by_city(&other, next)),
        (
            by_city(&here, "city_{City}").with_shape(blob),
            by_city(&here, next),
        ),
        (by_city(&other, row), list(&further)),
    ];
    for (old, new) in changes {
        let world = World::new(harness).await;
        let before = world.open(vec![old.clone()]).await;
        fill(&before).await;
        let people = world.open(vec![new.clone()]).await;
        assert_eq!(people.state("city"), IndexState::Absent);
        assert_eq!(people.state(old.id()), IndexState::Readable);
        people.insert(person(30)).await.expect("writes continue");
        people
            .build("city")
            .expect("an index")
            .run()
            .await
            .expect("a build");
        before
            .insert(person(31))
            .await
            .expect("the earlier program continues to write");
        people
            .delete(&people.get_existing(&key(0)).await.expect("a person"))
            .await
            .expect("a removal");
        for program in [&before, &people] {
            program.refresh().await.expect("the storage answers");
            assert_in_step(program, old.id()).await;
            assert_in_step(program, new.id()).await;
        }

        assert_eq!(
            world.drop_others(std::slice::from_ref(&new)).await,
            [old.id()]
        );
        for table in [Some(&world.table), other_table(&old)]
            .into_iter()
            .flatten()
        {
            assert_eq!(world.rows_of(table, old.id()).await, 0, "{old:?}");
        }
        assert_in_step(&people, "city").await;
    }
}

/// Two generations whose entries can have equal keys cannot coexist: the second is refused, and the first stays
/// usable.
pub(crate) async fn generations_with_equal_keys_are_refused(harness: &Harness) {
    let (here, other) = (Placement::SamePartition, Placement::OtherPartition);
    let row = "city_{City}_{RowKey}";
    let by = |placement: &Placement| by_city(placement, row);
    let list = by_city(&here, "city_{City}").with_shape(Shape::LIST);
    let changes = [
        (by(&here), by(&here).with_payload(Payload::Full)),
        (by(&here), list),
        (by(&other), by(&other).unique_within_table()),
    ];
    for (old, new) in changes {
        let world = World::new(harness).await;
        fill(&world.open(vec![old.clone()]).await).await;
        let people = world.open(vec![new.clone()]).await;
        let refused = people
            .build("city")
            .expect("an index")
            .run()
            .await
            .expect_err("the same keys")
            .to_string();
        assert!(refused.contains(old.id()), "{refused}");
        assert!(refused.contains("drop_index"), "{refused}");
        assert_in_step(&people, old.id()).await;
        people.drop_index(old.id()).await.expect("a removal");
        people
            .build("city")
            .expect("an index")
            .run()
            .await
            .expect("a build");
        assert_in_step(&people, "city").await;
    }
}

fn other_table(index: &Index) -> Option<&TableName> {
    match index.placement() {
        Placement::OtherTable(table) => Some(table),
        _ => None,
    }
}

/// A program that does not declare an index keeps it in step until the index is dropped. The other indexes do
/// not change.
pub(crate) async fn an_index_of_another_program_is_kept_in_step_and_dropped(harness: &Harness) {
    let world = World::new(harness).await;
    let city = by_city(&Placement::OtherPartition, "{RowKey}");
    let both = world.open(vec![city.clone(), by_age()]).await;
    fill(&both).await;
    let one = world.open(vec![by_age()]).await;
    one.insert(person(30)).await.expect("a new person");
    assert_in_step(&both, "city").await;

    // Two programs drop the index concurrently.
    let kept = [by_age()];
    let (first, second) = futures_util::join!(world.drop_others(&kept), world.drop_others(&kept));
    let dropped: Vec<_> = first.iter().chain(&second).collect();
    assert!(!dropped.is_empty(), "{first:?} {second:?}");
    assert!(
        dropped.iter().all(|id| **id == city.id()),
        "{first:?} {second:?}"
    );
    assert_eq!(world.rows_of(&world.table, city.id()).await, 0);
    one.insert(person(31)).await.expect("a new person");
    assert_eq!(one.state("age"), IndexState::Readable);
    assert_in_step(&one, "age").await;
    let known = world.open(vec![by_age(), city]).await;
    assert_eq!(
        known.state("city"),
        IndexState::Absent,
        "the index can be declared again and must be built"
    );
}

/// A rebuild replaces the entries of an index and removes wrong entries.
pub(crate) async fn a_rebuild_removes_wrong_entries(harness: &Harness) {
    for shape in [Shape::Row, Shape::LIST] {
        let world = World::new(harness).await;
        let row = if shape == Shape::Row {
            "{RowKey}"
        } else {
            "all"
        };
        let people = world
            .open(vec![
                by_city(&Placement::OtherPartition, row).with_shape(shape),
            ])
            .await;
        fill(&people).await;
        damage(&world.store, &world.table).await;
        let built = people
            .rebuild("city")
            .await
            .expect("a removal")
            .run()
            .await
            .expect("a build");
        assert_eq!(built.entities, 29);
        assert_eq!(built.entries, 29);
        assert_eq!(built.state, IndexState::Readable);
        assert_in_step(&people, "city").await;
        let unknown = people.rebuild("age").await.expect_err("no such index");
        assert!(unknown.to_string().contains("'age'"), "{unknown}");
    }
}

/// Changes the table directly: one person moves, and one is deleted.
async fn damage(store: &Arc<dyn TableStore>, table: &TableName) {
    let moved = person(0).with("City", "rome").with("Age", 31);
    store
        .write(table, Operation::InsertOrReplace(moved))
        .await
        .expect("a row");
    store
        .write(table, Operation::Delete(key(1), IfMatch::Any))
        .await
        .expect("a row");
}

/// A scrub that crashes after every page continues from the text of its cursor.
pub(crate) async fn a_scrub_continues_from_its_cursor(harness: &Harness) {
    let ages =
        Index::keyed("city", Placement::SamePartition, "", "ages_{City}").expect("a template");
    let indexes = [
        (by_city(&Placement::OtherPartition, "{RowKey}"), 14, 2, 1),
        (
            by_city(&Placement::OtherPartition, "all").with_shape(Shape::LIST),
            8,
            2,
            1,
        ),
        (ages.with_shape(Shape::summary(["Age"])), 2, 0, 3),
    ];
    for (index, least, dangling, missing) in indexes {
        let world = World::new(harness).await;
        fill(&world.open(vec![index.clone()]).await).await;
        damage(&world.store, &world.table).await;
        let store: Arc<dyn TableStore> = Arc::new(SmallPageStore::new(5, world.store.clone()));
        let (mut report, mut pages) = (ScrubReport::default(), 0);
        let mut stored = Some(ScrubCursor::default().to_string());
        while let Some(text) = stored {
            let process = IndexedEntities::open(
                store.clone(),
                world.table.clone(),
                vec![index.clone()],
                world.options.clone(),
            );
            let process = process.await.expect("the same index");
            let cursor: ScrubCursor = text.parse().expect("the text of a cursor");
            assert_eq!(cursor.to_string(), text);
            let next = process
                .scrub_page("city", ScrubMode::Repair, cursor, &mut report)
                .await;
            stored = next.expect("a page").map(|cursor| cursor.to_string());
            pages += 1;
        }
        assert!(pages >= least, "{pages} pages of {index:?}");
        assert_eq!(report.dangling, dangling, "{index:?}");
        assert_eq!(report.missing, missing, "{index:?}");
        assert_in_step(&world.open(vec![index]).await, "city").await;
    }
    for wrong in ["", "missing at", "after", "before noon"] {
        assert!(wrong.parse::<ScrubCursor>().is_err(), "{wrong:?}");
    }
}
