//! Summaries, copies in other entities, shards, and entry keys that two entities produce by mistake.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Operation, Outcome, TableStore};
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Placement, ScrubMode, Shape, Shards, Summary,
    Trust,
};
use table_patterns::journal::Change;

use super::index_lists::{changing, options};
use crate::Harness;

async fn open(harness: &Harness, index: Vec<Index>) -> (IndexedEntities, RequestMeter) {
    let table = harness.table().await.name().clone();
    open_in(harness, table, index, options()).await
}

async fn open_in(
    harness: &Harness,
    table: TableName,
    index: Vec<Index>,
    options: IndexOptions,
) -> (IndexedEntities, RequestMeter) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(harness.store().clone(), meter.clone()));
    let opened = IndexedEntities::open(store, table, index, options).await;
    (opened.expect("indexes that make sense"), meter)
}

fn key(partition: &str, row: &str) -> Key {
    Key::new(partition, row).expect("a legal key")
}

fn person(id: usize, city: &str, age: i32) -> Entity {
    Entity::from(key("p", &format!("{id:04}")))
        .with("City", city)
        .with("Age", age)
}

fn ages() -> Index {
    let index =
        Index::keyed("ages", Placement::SamePartition, "", "ages_{City}").expect("a template");
    index.with_shape(Shape::summary(["Age"]))
}

/// The ages of a city.
#[derive(Debug, PartialEq)]
struct Ages {
    count: i64,
    sum: i64,
}

async fn summary(people: &IndexedEntities, city: &str) -> Ages {
    let found = people
        .summary("ages", &key("p", &format!("ages_{city}")))
        .await
        .expect("a summary");
    Ages {
        count: found.count,
        sum: found.sums.get("Age").copied().unwrap_or_default(),
    }
}

/// Summaries after random writes agree with counted numbers. A write costs one request more than the group.
pub(crate) async fn summaries_agree_with_a_model(harness: &Harness) {
    let (people, meter) = open(harness, vec![ages()]).await;
    let mut rng = fastrand::Rng::with_seed(1);
    let mut model: BTreeMap<usize, (&str, i32)> = BTreeMap::new();
    for _ in 0..(harness.scale().steps / 5).min(300) {
        let id = rng.usize(..30);
        let new = (rng.u8(..3) > 0).then(|| (["oslo", "rome"][rng.usize(..2)], rng.i32(20..60)));
        let key = key("p", &format!("{id:04}"));
        let changed = people
            .modify(&key, |_| Ok(new.map(|(city, age)| person(id, city, age))))
            .await;
        changed.expect("a write");
        match new {
            Some(new) => drop(model.insert(id, new)),
            None => drop(model.remove(&id)),
        }
    }
    for city in ["oslo", "rome"] {
        let of: Vec<_> = model.values().filter(|(of, _)| *of == city).collect();
        let sum = of.iter().map(|(_, age)| i64::from(*age)).sum();
        let wanted = Ages {
            count: of.len() as i64,
            sum,
        };
        assert_eq!(summary(&people, city).await, wanted);
    }
    let group: Vec<_> = (100..150)
        .map(|id| Change::insert(person(id, "bonn", 2)))
        .collect();
    let before = meter.total();
    people.write(&group).await.expect("a group");
    assert_eq!(meter.total() - before, 2);
    assert_eq!(
        summary(&people, "bonn").await,
        Ages {
            count: 50,
            sum: 100
        }
    );
    let scrub = people
        .scrub("ages", ScrubMode::Report)
        .await
        .expect("a scrub");
    assert_eq!(scrub.dangling, 0);
    assert_eq!(scrub.missing, 0);
}

/// Many concurrent writers change one summary.
pub(crate) async fn summaries_are_exact_under_concurrent_writers(harness: &Harness) {
    let (people, _) = open(harness, vec![ages()]).await;
    let tasks = harness.scale().tasks.min(8);
    let writers = (0..tasks).map(|task| {
        let people = people.clone();
        tokio::spawn(async move {
            for n in 0..5 {
                people
                    .insert(person(task * 10 + n, "oslo", 1))
                    .await
                    .expect("an insert");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
    assert_eq!(
        summary(&people, "oslo").await,
        Ages {
            count: tasks as i64 * 5,
            sum: tasks as i64 * 5
        }
    );
}

/// A summary is built over existing entities while writers continue. A scrub corrects it after a direct change.
pub(crate) async fn summaries_are_built_and_corrected(harness: &Harness) {
    let table = harness.table().await.name().clone();
    let (before, _) = open_in(harness, table, vec![], changing()).await;
    let group: Vec<_> = (0..90)
        .map(|id| Change::insert(person(id, ["oslo", "rome"][id % 2], 10)))
        .collect();
    before.write(&group).await.expect("a group");
    let (people, _) = open_in(harness, before.table().clone(), vec![ages()], changing()).await;
    let writes = async {
        for id in 90..100 {
            people
                .insert(person(id, "oslo", 10))
                .await
                .expect("an insert");
        }
    };
    let build = async {
        people
            .build("ages")
            .expect("an index")
            .run()
            .await
            .expect("a build")
    };
    futures_util::join!(writes, build);
    assert_eq!(
        summary(&people, "oslo").await,
        Ages {
            count: 55,
            sum: 550
        }
    );
    assert_eq!(
        summary(&people, "rome").await,
        Ages {
            count: 45,
            sum: 450
        }
    );
    let wrong = Entity::from(key("p", "ages_rome"))
        .with("IndexName", ages().id())
        .with("Count", 3i64);
    people
        .store()
        .write(people.table(), Operation::InsertOrReplace(wrong))
        .await
        .expect("a write");
    let scrub = people
        .scrub("ages", ScrubMode::Repair)
        .await
        .expect("a scrub");
    assert_eq!(scrub.missing, 1);
    assert_eq!(scrub.dangling, 0);
    assert_eq!(
        summary(&people, "rome").await,
        Ages {
            count: 45,
            sum: 450
        }
    );
    let all = people
        .summaries("ages", &IndexQuery::partition("p"))
        .await
        .expect("summaries");
    assert_eq!(
        all.iter()
            .map(|(_, s): &(Key, Summary)| s.count)
            .collect::<Vec<_>>(),
        [55, 45]
    );
}

fn manager(placement: Placement, template: &str) -> Index {
    let index = Index::keyed("manager", placement, template, "{Manages}").expect("a template");
    index.with_shape(Shape::copy("Manager", ["Name"]))
}

fn boss(id: &str, name: &str) -> Entity {
    Entity::from(key("p", id))
        .with("Name", name)
        .with("Manages", "sales")
}

/// A copy follows its source, and writers of its target keep it. A copy has one source.
pub(crate) async fn copies_follow_their_source(harness: &Harness) {
    for (placement, template, partition) in [
        (Placement::SamePartition, "", "p"),
        (Placement::OtherPartition, "departments", "departments"),
    ] {
        let (people, _) = open(harness, vec![manager(placement, template)]).await;
        let target = key(partition, "sales");
        let name = async || {
            let target = people.get_existing(&target).await.expect("the target");
            match target.get("ManagerName") {
                Some(ValueRef::String(name)) => Some(name.to_owned()),
                _ => None,
            }
        };
        people
            .insert(Entity::from(target.clone()).with("Floor", 1))
            .await
            .expect("the target");
        people.insert(boss("1", "ann")).await.expect("the source");
        assert_eq!(name().await.as_deref(), Some("ann"));
        people
            .upsert(Entity::from(target.clone()).with("Floor", 2))
            .await
            .expect("a write");
        people.upsert(boss("1", "anna")).await.expect("a write");
        assert_eq!(name().await.as_deref(), Some("anna"));
        assert!(
            people
                .insert(boss("2", "bob"))
                .await
                .expect_err("a second source")
                .is_key_collision()
        );
        people
            .modify(&key("p", "2"), |_| Ok(None))
            .await
            .expect("a delete");
        let scrub = people
            .scrub("manager", ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(scrub.entries, 1);
        assert_eq!(scrub.dangling, 0);
        assert_eq!(scrub.missing, 0);
        assert_eq!(scrub.taken_keys, 0);
        people
            .modify(&key("p", "1"), |_| Ok(None))
            .await
            .expect("a delete");
        assert_eq!(name().await, None);
    }
}

/// A lookup of a value reads one shard. A range reads all shards and returns their entries in order.
pub(crate) async fn shards_are_read_in_order(harness: &Harness) {
    let index = Index::keyed(
        "city",
        Placement::OtherPartition,
        "city_{City#4}",
        "{City}_{RowKey}",
    );
    let (people, meter) = open(harness, vec![index.expect("a template")]).await;
    for id in 0..24 {
        people
            .insert(person(id, ["bern", "bonn", "oslo"][id % 3], 1))
            .await
            .expect("an insert");
    }
    let shards = Shards::new(4).expect("a number of shards");
    let before = meter.total();
    let some = IndexQuery::partition("").range("bonn", "p");
    let found = people
        .all_merged("city", &shards.partitions("city_"), &some, Trust::Entry)
        .await;
    let rows: Vec<_> = found
        .expect("entities")
        .iter()
        .map(|e| e.key().row().to_owned())
        .collect();
    let of = |rest: usize| {
        (0..24)
            .filter(move |id| id % 3 == rest)
            .map(|id| format!("{id:04}"))
    };
    assert_eq!(rows, of(1).chain(of(2)).collect::<Vec<_>>());
    assert_eq!(meter.total() - before, 4 + 16);
    let one = IndexQuery::partition(shards.partition("city_", "oslo")).prefix("oslo_");
    assert_eq!(
        people
            .all("city", &one, Trust::Entry)
            .await
            .expect("entities")
            .len(),
        8
    );
}

/// Two entities with one entry key of an index that is not unique are an error. The first entry stays.
pub(crate) async fn two_entities_with_one_entry_key_are_refused(harness: &Harness) {
    for (placement, partition, at, outcome) in [
        (
            Placement::SamePartition,
            "",
            key("p", "city_oslo"),
            Outcome::NotApplied,
        ),
        (
            Placement::OtherPartition,
            "cities",
            key("cities", "city_oslo"),
            Outcome::Applied,
        ),
    ] {
        let index = Index::keyed("city", placement, partition, "city_{City}").expect("a template");
        let (people, _) = open(harness, vec![index]).await;
        people
            .insert(person(1, "oslo", 1))
            .await
            .expect("an insert");
        let error = people
            .insert(person(2, "oslo", 1))
            .await
            .expect_err("a collision");
        assert!(error.is_key_collision(), "{error}");
        assert_eq!(error.outcome(), outcome, "{error}");
        let first = async || {
            let found = people
                .find("city", &at, Trust::Entity)
                .await
                .expect("a lookup")
                .expect("an entity");
            assert_eq!(found.key().row(), "0001");
        };
        first().await;
        // The second entity is deleted. The entry belongs to the first entity.
        people
            .modify(&key("p", "0002"), |_| Ok(None))
            .await
            .expect("a delete, or nothing to do");
        people
            .journal()
            .sweep(&[], Duration::ZERO)
            .await
            .expect("a sweep");
        first().await;
    }
}

/// Two tables keep the entries of equal definitions in one table: equal keys of their entities are told apart, and a scrub or a
/// removal of one leaves the rows of the other.
pub(crate) async fn tables_share_a_table_of_entries(harness: &Harness) {
    let (mine, other) = (harness.table().await, harness.table().await);
    let entries = harness.table().await.name().clone();
    let index = || {
        let placement = Placement::OtherTable(entries.clone());
        vec![Index::keyed("city", placement, "{City}", "{Age:03}_{RowKey}").expect("a template")]
    };
    let (people, _) = open_in(harness, mine.name().clone(), index(), options()).await;
    let (others, _) = open_in(harness, other.name().clone(), index(), options()).await;
    people
        .insert(person(1, "oslo", 1))
        .await
        .expect("an insert");
    others
        .insert(person(1, "oslo", 2))
        .await
        .expect("an insert");
    let collision = others
        .upsert(person(1, "oslo", 1))
        .await
        .expect_err("the entry of another table");
    assert!(collision.is_key_collision(), "{collision}");
    others
        .upsert(person(1, "oslo", 3))
        .await
        .expect("another key");
    // The write of the refused entity has removed the entry that the entity had before.
    others
        .journal()
        .sweep(&[], Duration::ZERO)
        .await
        .expect("a sweep");
    let in_oslo = IndexQuery::partition("oslo");
    for (table, age) in [(&people, 1), (&others, 3)] {
        let scrub = table
            .scrub("city", ScrubMode::Repair)
            .await
            .expect("a scrub");
        assert_eq!((scrub.entries, scrub.dangling, scrub.missing), (1, 0, 0));
        let found = table
            .all("city", &in_oslo, Trust::Entity)
            .await
            .expect("a lookup");
        assert_eq!(
            found
                .iter()
                .map(|found| found.get("Age"))
                .collect::<Vec<_>>(),
            [Some(ValueRef::Int32(age))]
        );
    }
    let (again, meter) = open_in(harness, mine.name().clone(), index(), options()).await;
    assert_eq!(
        meter.total(),
        2,
        "the manifest and the consents; `people` has registered this process"
    );
    others.drop_index("city").await.expect("a removal");
    assert_eq!(
        again
            .all("city", &in_oslo, Trust::Entry)
            .await
            .expect("one")
            .len(),
        1
    );
}
