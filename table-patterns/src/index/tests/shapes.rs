//! Entries that share a row: lists, blobs, summaries and copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Outcome, Result, TableStore, TableStoreExt};

use crate::index::{
    BulkInsert, Index, IndexOptions, IndexQuery, IndexState, IndexedEntities, InsertSummary, Overflow,
    Payload, Placement, ScrubMode, Shape, Shards, Summary, Trust,
};
use crate::journal::Change;

struct World {
    store: Arc<dyn TableStore>,
    blobs: Arc<InMemory>,
    meter: RequestMeter,
}

impl World {
    async fn new() -> Result<Self> {
        let meter = RequestMeter::new();
        let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
        for table in ["People", "ByCity"] {
            store.create_table(&TableName::new(table)?).await?;
        }
        Ok(Self { store, blobs: Arc::default(), meter })
    }

    async fn open(&self, indexes: Vec<Index>) -> Result<IndexedEntities> {
        let mut options = IndexOptions::local();
        options.blobs = Some(self.blobs.clone());
        IndexedEntities::open(self.store.clone(), TableName::new("People")?, indexes, options).await
    }

    async fn blobs(&self) -> usize {
        self.blobs.list(None).try_collect::<Vec<_>>().await.unwrap().len()
    }

    async fn cost<T>(&self, work: impl Future<Output = Result<T>>) -> Result<u64> {
        let before = self.meter.total();
        work.await?;
        Ok(self.meter.total() - before)
    }
}

fn small(overflow: Overflow) -> Shape {
    Shape::List { bytes: 256, overflow }
}

fn text<'a>(e: &'a Entity, name: &str) -> Option<&'a str> {
    match e.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

fn by_city(placement: Placement, shape: Shape) -> Index {
    let here = placement == Placement::SamePartition;
    let index = Index::new("city", placement, move |e| {
        let of = |city: &str| if here { e.key().partition().to_owned() } else { format!("city_{city}") };
        text(e, "City").map(|city| Key::new(of(city), format!("city_{city}"))).transpose()
    });
    index.with_shape(shape)
}

fn placements() -> [Placement; 3] {
    let other = TableName::new("ByCity").unwrap();
    [Placement::SamePartition, Placement::OtherPartition, Placement::OtherTable(other)]
}

fn list_of(index: &Index, city: &str) -> Key {
    let here = *index.placement() == Placement::SamePartition;
    Key::new(if here { "p".to_owned() } else { format!("city_{city}") }, format!("city_{city}")).unwrap()
}

fn person(id: usize, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", format!("{id:05}"))?.with("City", city).with("Age", 40))
}

fn rows(entities: &[Entity]) -> Vec<&str> {
    entities.iter().map(|e| e.key().row()).collect()
}

#[tokio::test(start_paused = true)]
async fn lists_are_maintained_with_the_entity() -> Result<()> {
    // In the partition: the list is read, then one group. Elsewhere: group, list read and written, entity, journal.
    for (placement, (insert, change)) in placements().into_iter().zip([(2, 3), (5, 7), (5, 7)]) {
        let world = World::new().await?;
        let index = by_city(placement, Shape::LIST);
        let people = world.open(vec![index.clone()]).await?;
        for id in [3, 1, 2] {
            assert_eq!(world.cost(people.insert(person(id, "oslo")?)).await?, insert);
        }
        let before = world.meter.total();
        assert_eq!(rows(&people.list("city", &list_of(&index, "oslo")).await?), ["00001", "00002", "00003"]);
        assert_eq!(world.meter.total() - before, 1 + 3);
        let before = world.meter.total();
        assert_eq!(people.list_by_range("city", &list_of(&index, "oslo")).await?.len(), 3);
        assert_eq!(world.meter.total() - before, 2);

        let old = people.get_existing(&Key::new("p", "00002")?).await?;
        assert_eq!(world.cost(people.replace(old, person(2, "rome")?)).await?, change);
        assert_eq!(rows(&people.list("city", &list_of(&index, "oslo")).await?), ["00001", "00003"]);
        assert_eq!(rows(&people.list("city", &list_of(&index, "rome")).await?), ["00002"]);
        let all = IndexQuery::partition(list_of(&index, "oslo").partition());
        assert!(people.all("city", &all, Default::default()).await?.len() >= 2);
        for id in ["00001", "00002", "00003"] {
            people.modify(&Key::new("p", id)?, |_| Ok(None)).await?;
        }
        assert!(people.references("city", &list_of(&index, "oslo")).await?.is_empty());
        for table in ["People", "ByCity"] {
            let left = world.store.query_all(&TableName::new(table)?, &Query::new()).await?;
            assert!(left.iter().all(|row| row.key().partition() == "~~indexes"), "{left:?}");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_group_changes_a_list_once() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::SamePartition, Shape::LIST);
    let people = world.open(vec![index.clone()]).await?;
    let all: Vec<_> = (0..99).map(|id| Ok(Change::insert(person(id, "oslo")?))).collect::<Result<_>>()?;
    assert_eq!(world.cost(people.write(&all)).await?, 2);
    assert_eq!(people.references("city", &list_of(&index, "oslo")).await?.len(), 99);
    Ok(())
}

/// Random writes against a map from city to ids, then a scrub that finds nothing.
#[tokio::test(start_paused = true)]
async fn lists_agree_with_a_model() -> Result<()> {
    let shapes = [Shape::LIST, small(Overflow::Entities), small(Overflow::Blob), Shape::Blob];
    for (seed, (placement, shape)) in
        placements().into_iter().flat_map(|p| shapes.iter().map(move |s| (p.clone(), s.clone()))).enumerate()
    {
        let world = World::new().await?;
        let index = by_city(placement, shape.clone());
        let people = world.open(vec![index.clone()]).await?;
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let mut model: BTreeMap<usize, &str> = BTreeMap::new();
        for round in 0..300 {
            let id = rng.usize(..120);
            // Grows, then shrinks.
            let city = if round < 200 || rng.bool() { ["oslo", "rome", ""][rng.usize(..3)] } else { "gone" };
            let new = (city != "gone").then_some(if city.is_empty() { "bare" } else { city });
            people
                .modify(&Key::new("p", format!("{id:05}"))?, |_| {
                    new.map(|city| {
                        let person = person(id, city)?;
                        Ok(if city == "bare" { Entity::from(person.key().clone()) } else { person })
                    })
                    .transpose()
                })
                .await?;
            match new {
                Some(city) => drop(model.insert(id, city)),
                None => drop(model.remove(&id)),
            }
        }
        for (id, _) in model.clone().iter().filter(|(id, _)| **id % 4 != 0) {
            people.modify(&Key::new("p", format!("{id:05}"))?, |_| Ok(None)).await?;
            model.remove(id);
        }
        for city in ["oslo", "rome"] {
            let wanted: BTreeSet<_> =
                model.iter().filter(|(_, c)| **c == city).map(|(id, _)| format!("{id:05}")).collect();
            let found = people.references("city", &list_of(&index, city)).await?;
            assert_eq!(
                found.iter().map(|k| k.row().to_owned()).collect::<BTreeSet<_>>(),
                wanted,
                "{shape:?}"
            );
        }
        let scrub = people.scrub("city", ScrubMode::Report).await?;
        assert_eq!(
            (scrub.dangling, scrub.missing, scrub.taken),
            (0, 0, 0),
            "{shape:?} {:?}",
            index.placement()
        );
        let named = if shape.needs_blobs() { 2 } else { 0 };
        assert!(world.blobs().await <= named, "old blobs are gone");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn long_lists_go_on_in_chunks_and_come_back() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::SamePartition, small(Overflow::Entities));
    let people = world.open(vec![index.clone()]).await?;
    let at = list_of(&index, "oslo");
    for id in 0..200 {
        people.insert(person(id, "oslo")?).await?;
    }
    let chunks = || async {
        let rows = world.store.query_all(people.table(), &Query::new()).await?;
        Ok::<_, table_core::Error>(rows.iter().filter(|row| row.key().row().starts_with("~~l_")).count())
    };
    let many = chunks().await?;
    assert!(many > 2, "{many} chunks");
    assert_eq!(world.cost(people.references("city", &at)).await?, 1 + many as u64);
    assert_eq!(people.list("city", &at).await?.len(), 200);
    for id in 3..200 {
        people.modify(&Key::new("p", format!("{id:05}"))?, |_| Ok(None)).await?;
    }
    assert_eq!((chunks().await?, world.cost(people.references("city", &at)).await?), (0, 1));
    assert_eq!(people.list("city", &at).await?.len(), 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn shared_indexes_are_built_scrubbed_and_dropped() -> Result<()> {
    let shapes = [small(Overflow::Entities), small(Overflow::Blob), Shape::Blob, Shape::LIST];
    for placement in placements() {
        for shape in &shapes {
            let world = World::new().await?;
            let people = world.open(vec![]).await?;
            for id in 0..150 {
                people.insert(person(id, ["oslo", "rome", "bonn"][id % 3])?).await?;
            }
            let index = by_city(placement.clone(), shape.clone());
            let people = world.open(vec![index.clone()]).await?;
            let done = people.build("city")?.run().await?;
            assert_eq!((done.entities, done.entries), (150, 150));
            let partitions = if placement == Placement::SamePartition { 1 } else { 3 };
            assert!(done.groups <= partitions * 2, "{} groups", done.groups);
            let at = list_of(&index, "oslo");
            assert_eq!(people.list("city", &at).await?.len(), 50);

            // Behind the index's back: an entity changes and another goes.
            let moved = person(0, "rome")?;
            world.store.write(people.table(), table_core::store::Operation::InsertOrReplace(moved)).await?;
            let gone = Key::new("p", "00003")?;
            let delete = table_core::store::Operation::Delete(gone, table_core::model::IfMatch::Any);
            world.store.write(people.table(), delete).await?;
            assert_eq!(people.list("city", &at).await?.len(), 48, "lookups verify");
            let report = people.scrub("city", ScrubMode::Report).await?;
            assert_eq!((report.entries, report.dangling, report.missing), (150, 2, 1));
            people.scrub("city", ScrubMode::Repair).await?;
            let report = people.scrub("city", ScrubMode::Report).await?;
            assert_eq!((report.entries, report.dangling, report.missing), (149, 0, 0));

            people.drop_index("city").await?;
            let (people_left, by_city) =
                (rows_left(&world, "People").await?, rows_left(&world, "ByCity").await?);
            assert_eq!((people_left, by_city, world.blobs().await), (149, 0, 0));
        }
    }
    Ok(())
}

async fn rows_left(world: &World, table: &str) -> Result<usize> {
    let rows = world.store.query_all(&TableName::new(table)?, &Query::new()).await?;
    Ok(rows.iter().filter(|row| row.key().partition() != "~~indexes").count())
}

#[tokio::test(start_paused = true)]
async fn damaged_lists_are_repaired() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::OtherTable(TableName::new("ByCity")?), Shape::Blob);
    let people = world.open(vec![index.clone()]).await?;
    for id in 0..5 {
        people.insert(person(id, "oslo")?).await?;
    }
    for meta in world.blobs.list(None).try_collect::<Vec<_>>().await.unwrap() {
        object_store::ObjectStoreExt::delete(&*world.blobs, &meta.location).await.unwrap();
    }
    let report = people.scrub("city", ScrubMode::Repair).await?;
    assert_eq!((report.dangling, report.missing), (1, 5));
    assert_eq!(people.list("city", &list_of(&index, "oslo")).await?.len(), 5);
    Ok(())
}

fn ages() -> Index {
    let index = Index::new("ages", Placement::SamePartition, |e| {
        text(e, "City").map(|city| Key::new(e.key().partition(), format!("sum_{city}"))).transpose()
    });
    index.with_shape(Shape::Summary { sums: vec!["Age".to_owned()] })
}

fn summary(count: i64, age: i64) -> Summary {
    Summary { count, sums: BTreeMap::from([("Age".to_owned(), age)]) }
}

#[tokio::test(start_paused = true)]
async fn summaries_count_and_sum_in_the_group() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let oslo = Key::new("p", "sum_oslo")?;
    let group: Vec<_> = (0..50).map(|id| Ok(Change::insert(person(id, "oslo")?))).collect::<Result<_>>()?;
    assert_eq!(world.cost(people.write(&group)).await?, 2, "the summary, the group");
    assert_eq!(people.summary("ages", &oslo).await?, summary(50, 2000));
    let old = people.get_existing(&Key::new("p", "00001")?).await?;
    let older = person(1, "oslo")?.with("Age", 50i64);
    assert_eq!(world.cost(people.replace(old, older)).await?, 2);
    assert_eq!(people.summary("ages", &oslo).await?, summary(50, 2010));
    people
        .modify(&Key::new("p", "00001")?, |_| Ok(Some(Entity::new("p", "00001")?.with("City", "rome"))))
        .await?;
    assert_eq!(people.summary("ages", &oslo).await?, summary(49, 1960));
    let all = people.summaries("ages", &IndexQuery::partition("p")).await?;
    assert_eq!(
        all.iter().map(|(k, s)| (k.row(), s.count)).collect::<Vec<_>>(),
        [("sum_oslo", 49), ("sum_rome", 1)]
    );
    let refused = people.insert(person(77, "oslo")?.with("Age", 1.5)).await.unwrap_err();
    assert!(refused.to_string().contains("integers"), "{refused}");
    for id in 0..50 {
        people.modify(&Key::new("p", format!("{id:05}"))?, |_| Ok(None)).await?;
    }
    assert_eq!(rows_left(&world, "People").await?, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn summaries_are_exact_under_concurrent_writers() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let writers = (0..8).map(|w| {
        let people = people.clone();
        async move {
            for n in 0..10 {
                people.insert(person(w * 100 + n, "oslo")?).await?;
            }
            Ok::<_, table_core::Error>(())
        }
    });
    futures_util::future::try_join_all(writers).await?;
    assert_eq!(people.summary("ages", &Key::new("p", "sum_oslo")?).await?, summary(80, 3200));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_bulk_insert_fills_groups_with_entities_that_share_a_summary() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![ages()]).await?;
    let entities = (0..294).map(|id| person(id, "oslo"));
    let outcomes = people.insert_all(futures_util::stream::iter(entities), BulkInsert::default());
    let done = InsertSummary::of(outcomes).await?;
    assert_eq!((done.written, done.groups), (294, 3), "98 entities, the summary, a place for a journal row");
    assert_eq!(people.summary("ages", &Key::new("p", "sum_oslo")?).await?, summary(294, 294 * 40));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn summaries_are_built_and_corrected() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![]).await?;
    for id in 0..30 {
        let e = person(id, ["oslo", "rome"][id % 2])?;
        people.insert(e.with_key(Key::new(["p", "q", "zz"][id % 3], format!("{id:05}"))?)).await?;
    }
    let people = world.open(vec![ages()]).await?;
    assert_eq!(people.state("ages"), IndexState::Absent);
    let done = people.build("ages")?.run().await?;
    assert_eq!((done.entities, done.entries), (30, 6));
    assert_eq!(people.summary("ages", &Key::new("q", "sum_rome")?).await?, summary(5, 200));
    let wrong =
        Entity::new("q", "sum_rome")?.with("IndexName", "ages").with("Count", 7i64).with("SumAge", 1i64);
    world.store.write(people.table(), table_core::store::Operation::InsertOrReplace(wrong)).await?;
    let stray = Entity::new("q", "sum_bonn")?.with("IndexName", "ages").with("Count", 7i64);
    world.store.write(people.table(), table_core::store::Operation::InsertOrReplace(stray)).await?;
    for mode in [ScrubMode::Report, ScrubMode::Repair] {
        let report = people.scrub("ages", mode).await?;
        assert_eq!((report.entities, report.missing, report.dangling), (30, 1, 1), "{mode:?}");
    }
    let report = people.scrub("ages", ScrubMode::Report).await?;
    assert_eq!((report.missing, report.dangling), (0, 0));
    people.drop_index("ages").await?;
    assert_eq!(rows_left(&world, "People").await?, 30);
    Ok(())
}

fn manager(placement: Placement) -> Index {
    let here = placement == Placement::SamePartition;
    let index = Index::new("manager", placement, move |e| {
        let partition = if here { e.key().partition() } else { "departments" };
        text(e, "Manages").map(|department| Key::new(partition, department)).transpose()
    });
    index.with_shape(Shape::Copy { prefix: "Manager".to_owned(), fields: vec!["Name".to_owned()] })
}

fn boss(id: &str, name: &str, manages: Option<&str>) -> Result<Entity> {
    let boss = Entity::new("p", id)?.with("Name", name);
    Ok(match manages {
        Some(department) => boss.with("Manages", department),
        None => boss,
    })
}

#[tokio::test(start_paused = true)]
async fn copies_follow_their_source_and_survive_writers_of_the_target() -> Result<()> {
    for placement in [Placement::SamePartition, Placement::OtherPartition] {
        let here = placement == Placement::SamePartition;
        let world = World::new().await?;
        let people = world.open(vec![manager(placement)]).await?;
        let target = Key::new(if here { "p" } else { "departments" }, "sales")?;
        if here {
            let error = people.insert(boss("1", "ann", Some("sales"))?).await.unwrap_err();
            assert!(
                error.to_string().contains("does not exist") && error.outcome() == Outcome::NotApplied,
                "{error}"
            );
            let both = [
                Change::insert(boss("1", "ann", Some("sales"))?),
                Change::insert(Entity::from(target.clone()).with("Floor", 1)),
            ];
            assert_eq!(world.cost(people.write(&both)).await?, 1);
        } else {
            people.insert(Entity::from(target.clone()).with("Floor", 1)).await?;
            people.insert(boss("1", "ann", Some("sales"))?).await?;
        }
        let name = || async {
            Ok::<_, table_core::Error>(
                text(&people.get_existing(&target).await?, "ManagerName").map(str::to_owned),
            )
        };
        assert_eq!(name().await?.as_deref(), Some("ann"));
        people.upsert(Entity::from(target.clone()).with("Floor", 2)).await?;
        assert_eq!(name().await?.as_deref(), Some("ann"), "the writer of the target knows nothing of it");
        people.upsert(boss("1", "anna", Some("sales"))?).await?;
        assert_eq!(name().await?.as_deref(), Some("anna"));
        let second = people.insert(boss("2", "bob", Some("sales"))?).await.unwrap_err();
        assert!(second.is_key_collision(), "{second}");
        people.upsert(boss("2", "bob", None)?).await?;
        people.upsert(boss("1", "anna", None)?).await?;
        assert_eq!(name().await?, None);
        assert_eq!(people.get_existing(&target).await?.get("Floor"), Some(ValueRef::Int32(2)));
        let scrub = people.scrub("manager", ScrubMode::Report).await?;
        assert_eq!((scrub.dangling, scrub.missing, scrub.taken), (0, 0, 0));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn copies_are_built_scrubbed_and_dropped() -> Result<()> {
    for placement in [Placement::SamePartition, Placement::OtherPartition] {
        let target =
            Key::new(if placement == Placement::SamePartition { "p" } else { "departments" }, "sales")?;
        let world = World::new().await?;
        let people = world.open(vec![]).await?;
        people.insert(Entity::from(target.clone()).with("Floor", 1)).await?;
        people.insert(boss("1", "ann", Some("sales"))?).await?;
        let people = world.open(vec![manager(placement)]).await?;
        people.build("manager")?.run().await?;
        assert_eq!(text(&people.get_existing(&target).await?, "ManagerName"), Some("ann"));
        let wrong = people.get_existing(&target).await?.with("ManagerName", "eve");
        world.store.write(people.table(), table_core::store::Operation::InsertOrReplace(wrong)).await?;
        assert_eq!(people.scrub("manager", ScrubMode::Repair).await?.missing, 1);
        assert_eq!(text(&people.get_existing(&target).await?, "ManagerName"), Some("ann"));
        let gone = table_core::store::Operation::Delete(Key::new("p", "1")?, table_core::model::IfMatch::Any);
        world.store.write(people.table(), gone).await?;
        assert_eq!(people.scrub("manager", ScrubMode::Repair).await?.dangling, 1);
        assert_eq!(text(&people.get_existing(&target).await?, "ManagerName"), None);
        people.insert(boss("3", "cy", Some("sales"))?).await?;
        people.drop_index("manager").await?;
        let left = people.get_existing(&target).await?;
        assert_eq!(left.properties().iter().map(|p| p.name().to_owned()).collect::<Vec<_>>(), ["Floor"]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn shards_are_read_together_in_order() -> Result<()> {
    let world = World::new().await?;
    let index = Index::keyed("city", Placement::OtherPartition, "city_{City#8}", "{City}_{RowKey}")?;
    let people = world.open(vec![index]).await?;
    for id in 0..60 {
        people.insert(person(id, ["oslo", "rome", "bonn", "bern"][id % 4])?).await?;
    }
    let shards = Shards::new(8)?;
    let before = world.meter.total();
    let one = IndexQuery::partition(shards.partition("city_", "rome")).prefix("rome_");
    assert_eq!(people.all("city", &one, Trust::Entry).await?.len(), 15);
    assert_eq!(world.meter.total() - before, 1 + 15);
    let before = world.meter.total();
    let range = IndexQuery::partition("").range("bern", "p");
    let found = people.all_merged("city", &shards.partitions("city_"), &range, Trust::Entry).await?;
    assert_eq!(world.meter.total() - before, 8 + 45);
    let cities: Vec<_> = found.iter().filter_map(|e| text(e, "City")).collect();
    assert!(cities.is_sorted() && cities.len() == 45, "{cities:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused() -> Result<()> {
    let world = World::new().await?;
    let here = || by_city(Placement::SamePartition, Shape::LIST);
    let cases = [
        (here().unique_within_partition(), "unique"),
        (here().with_payload(Payload::Full), "payload"),
        (here().with_shape(Shape::List { bytes: 1, overflow: Overflow::Blob }), "256"),
        (by_city(Placement::OtherPartition, Shape::Summary { sums: vec![] }), "added twice"),
    ];
    for (index, what) in cases {
        let error = world.open(vec![index]).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let blob = vec![by_city(Placement::SamePartition, Shape::Blob)];
    let table = TableName::new("People")?;
    let error =
        IndexedEntities::open(world.store.clone(), table, blob, IndexOptions::local()).await.unwrap_err();
    assert!(error.to_string().contains("object store"), "{error}");
    let people = world.open(vec![here()]).await?;
    let key = Key::new("p", "city_oslo")?;
    assert!(
        people.find("city", &key, Default::default()).await.unwrap_err().to_string().contains("use `list`")
    );
    let changed = world.open(vec![by_city(Placement::SamePartition, small(Overflow::Entities))]).await;
    assert!(changed.unwrap_err().to_string().contains("drop_outdated"));
    Ok(())
}
