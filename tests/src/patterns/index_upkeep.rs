//! What keeps indexes as their programs define them: rebuilding, removing what is outdated, scrubbing by pages.

use std::sync::Arc;

use object_store::memory::InMemory;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_patterns::index::{
    Index, IndexOptions, IndexState, IndexedEntities, Overflow, Payload, Placement, ScrubCursor, ScrubMode,
    ScrubReport, Shape,
};

use super::bent::Bent;
use super::index_lists::changing;
use crate::Harness;

const CITIES: [&str; 3] = ["bergen", "oslo", "rome"];

/// A table with people, and the blobs of their lists.
struct World {
    store: Arc<dyn TableStore>,
    table: TableName,
    options: IndexOptions,
}

impl World {
    async fn new(harness: &Harness) -> Self {
        let mut options = changing();
        options.blobs = Some(Arc::new(InMemory::new()));
        Self { store: harness.store().clone(), table: harness.table().await.name().clone(), options }
    }

    async fn try_open(&self, indexes: Vec<Index>) -> table_core::Result<IndexedEntities> {
        IndexedEntities::open(self.store.clone(), self.table.clone(), indexes, self.options.clone()).await
    }

    async fn open(&self, indexes: Vec<Index>) -> IndexedEntities {
        self.try_open(indexes).await.expect("indexes that make sense")
    }

    async fn drop_outdated(&self, indexes: Vec<Index>) -> Vec<String> {
        let (store, table, options) = (self.store.clone(), self.table.clone(), self.options.clone());
        IndexedEntities::drop_outdated(store, table, indexes, options).await.expect("the storage answers")
    }

    /// Entries of the index in one of the tables.
    async fn rows_of(&self, table: &TableName, index: &str) -> usize {
        let rows = self.store.query_all(table, &Default::default()).await.expect("rows");
        rows.iter().filter(|row| table_patterns::index::Entry::index_of(row) == Some(index)).count()
    }
}

fn key(id: usize) -> Key {
    Key::new("p", format!("{id:04}")).expect("a legal key")
}

fn person(id: usize) -> Entity {
    Entity::from(key(id)).with("City", CITIES[id % 3]).with("Age", 30)
}

async fn fill(people: &IndexedEntities) {
    for id in 0..30 {
        people.insert(person(id)).await.expect("a new person");
    }
}

fn by_city(placement: &Placement, row: &str) -> Index {
    let partition = if *placement == Placement::SamePartition { "" } else { "city_{City}" };
    Index::keyed("city", placement.clone(), partition, row).expect("a template")
}

fn by_age() -> Index {
    let index = Index::keyed("age", Placement::OtherPartition, "age_{Age:02}", "{RowKey}");
    index.expect("a template")
}

async fn assert_in_step(people: &IndexedEntities, index: &str) {
    let scrub = people.scrub(index, ScrubMode::Report).await.expect("a scrub");
    assert_eq!((scrub.dangling, scrub.missing, scrub.taken), (0, 0, 0), "{index}");
    assert!(scrub.entries > 0, "{index}");
}

/// A table whose index is defined otherwise now is refused, and taken over without the old definition: other
/// keys, another payload, another shape, another place.
pub async fn a_changed_definition_is_replaced(harness: &Harness) {
    let elsewhere = Placement::OtherTable(harness.table().await.name().clone());
    let further = Placement::OtherTable(harness.table().await.name().clone());
    let (here, other) = (Placement::SamePartition, Placement::OtherPartition);
    let row = "city_{City}_{RowKey}";
    let list = |placement| by_city(placement, "city_{City}").with_shape(Shape::LIST);
    let blob = Shape::List { bytes: 256, overflow: Overflow::Blob };
    let changes = [
        (by_city(&here, row), by_city(&here, "city_{City}_{Age:02}_{RowKey}")),
        (by_city(&other, row), by_city(&other, row).with_payload(Payload::Full)),
        (by_city(&elsewhere, row), by_city(&other, row)),
        (by_city(&here, "city_{City}").with_shape(blob), by_city(&here, row)),
        (by_city(&other, row), list(&further)),
    ];
    for (old, new) in changes {
        let world = World::new(harness).await;
        fill(&world.open(vec![old.clone()]).await).await;
        let refused = world.try_open(vec![new.clone()]).await.expect_err("another definition").to_string();
        assert!(refused.contains("'city'") && !refused.contains("drop"), "{refused}");

        assert_eq!(world.drop_outdated(vec![new.clone()]).await, ["city"]);
        for table in [Some(&world.table), other_table(&old)].into_iter().flatten() {
            assert_eq!(world.rows_of(table, "city").await, 0, "{old:?}");
        }
        let people = world.open(vec![new.clone()]).await;
        assert_eq!(people.state("city"), IndexState::Absent);
        people.insert(person(30)).await.expect("writes go on");
        people.build("city").expect("an index").run().await.expect("a build");
        assert_in_step(&people, "city").await;
        assert!(world.drop_outdated(vec![new]).await.is_empty(), "nothing is outdated");
    }
}

fn other_table(index: &Index) -> Option<&TableName> {
    match index.placement() {
        Placement::OtherTable(table) => Some(table),
        _ => None,
    }
}

/// A program that has lost an index goes on without it; its other indexes are as they were.
pub async fn a_removed_index_is_dropped(harness: &Harness) {
    let world = World::new(harness).await;
    let city = by_city(&Placement::OtherPartition, "{RowKey}");
    fill(&world.open(vec![city.clone(), by_age()]).await).await;
    let refused = world.try_open(vec![by_age()]).await.expect_err("an unknown index").to_string();
    assert!(refused.contains("'city'") && !refused.contains("drop"), "{refused}");

    // Two programs start at once.
    let (one, two) =
        futures_util::join!(world.drop_outdated(vec![by_age()]), world.drop_outdated(vec![by_age()]));
    assert_eq!((one, two), (vec!["city".to_owned()], vec!["city".to_owned()]));
    assert_eq!(world.rows_of(&world.table, "city").await, 0);
    let people = world.open(vec![by_age()]).await;
    people.insert(person(30)).await.expect("a new person");
    assert_eq!(people.state("age"), IndexState::Readable);
    assert_in_step(&people, "age").await;
    let known = world.open(vec![by_age(), city]).await;
    assert_eq!(known.state("city"), IndexState::Absent, "it can come back, and is to be built");
}

/// An index is made anew where it is: what was wrong with it is gone.
pub async fn an_index_is_rebuilt(harness: &Harness) {
    for shape in [Shape::Row, Shape::LIST] {
        let world = World::new(harness).await;
        let row = if shape == Shape::Row { "{RowKey}" } else { "all" };
        let people = world.open(vec![by_city(&Placement::OtherPartition, row).with_shape(shape)]).await;
        fill(&people).await;
        damage(&world.store, &world.table).await;
        let built = people.rebuild("city").await.expect("a removal").run().await.expect("a build");
        assert_eq!((built.entities, built.entries, built.state), (29, 29, IndexState::Readable));
        assert_in_step(&people, "city").await;
        let unknown = people.rebuild("age").await.expect_err("no such index");
        assert!(unknown.to_string().contains("'age'"), "{unknown}");
    }
}

/// Behind the indexes' back one person moves and one goes.
async fn damage(store: &Arc<dyn TableStore>, table: &TableName) {
    let moved = person(0).with("City", "rome").with("Age", 31);
    store.write(table, Operation::InsertOrReplace(moved)).await.expect("a row");
    store.write(table, Operation::Delete(key(1), IfMatch::Any)).await.expect("a row");
}

/// A scrub whose process dies after every page goes on from the text of its cursor.
pub async fn a_scrub_goes_on_from_text(harness: &Harness) {
    let ages = Index::keyed("city", Placement::SamePartition, "", "ages_{City}").expect("a template");
    let indexes = [
        (by_city(&Placement::OtherPartition, "{RowKey}"), 14, (2, 1)),
        (by_city(&Placement::OtherPartition, "all").with_shape(Shape::LIST), 8, (2, 1)),
        (ages.with_shape(Shape::summary(["Age"])), 2, (0, 3)),
    ];
    for (index, least, found) in indexes {
        let world = World::new(harness).await;
        fill(&world.open(vec![index.clone()]).await).await;
        damage(&world.store, &world.table).await;
        let store: Arc<dyn TableStore> = Arc::new(Bent::in_pages_of(5, world.store.clone()));
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
            let next = process.scrub_page("city", ScrubMode::Repair, cursor, &mut report).await;
            stored = next.expect("a page").map(|cursor| cursor.to_string());
            pages += 1;
        }
        assert!(pages >= least, "{pages} pages of {index:?}");
        assert_eq!((report.dangling, report.missing), found, "{index:?}");
        assert_in_step(&world.open(vec![index]).await, "city").await;
    }
    for wrong in ["", "missing at", "after", "before noon"] {
        assert!(wrong.parse::<ScrubCursor>().is_err(), "{wrong:?}");
    }
}
