//! Lists of references, in rows, chunks and blobs.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::TryStreamExt as _;
use object_store::ObjectStore;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::query::Query;
use table_core::store::{Operation, Result, TableStoreExt};
use uuid::Uuid;

use super::world::{World, by_city, list_of, person, placements, rows_left, small};
use crate::entry::row_properties::{MOVE_TO, MOVE_WRITE, has_mark};
use crate::index::{IndexQuery, Overflow, Placement, ScrubMode, Shape};
use crate::journal::Change;

fn rows(entities: &[Entity]) -> Vec<&str> {
    entities.iter().map(|e| e.key().row()).collect()
}

/// The mark of a move is in the row of the entity, and no reader gets it.
#[tokio::test(start_paused = true)]
async fn both_reads_of_a_list_give_an_entity_that_moves_without_its_mark() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::OtherPartition, Shape::LIST);
    let people = world.open(vec![index.clone()]).await?;
    people.insert(person(1, "oslo")?).await?;
    let mark = Entity::new("p", "00001")?
        .with(MOVE_WRITE, Uuid::from_u128(7))
        .with(MOVE_TO, "q");
    let merge = Operation::Merge(mark, IfMatch::Any);
    world.store.write(&TableName::new("People")?, merge).await?;
    let oslo = list_of(&index, "oslo");
    let listed = people.list("city", &oslo).await?;
    assert_eq!(listed.len(), 1);
    assert!(!has_mark(&listed[0]), "{listed:?}");
    assert_eq!(people.list_by_range("city", &oslo).await?, listed);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn lists_are_maintained_with_the_entity() -> Result<()> {
    // Local: the list is read, then one group. Remote: group, list read and written, entity, journal row.
    for (placement, (insert, change)) in placements().into_iter().zip([(2, 3), (5, 7), (5, 7)]) {
        let world = World::new().await?;
        let index = by_city(placement, Shape::LIST);
        let people = world.open(vec![index.clone()]).await?;
        for id in [3, 1, 2] {
            assert_eq!(
                world.cost(people.insert(person(id, "oslo")?)).await?,
                insert
            );
        }
        let before = world.meter.total();
        assert_eq!(
            rows(&people.list("city", &list_of(&index, "oslo")).await?),
            ["00001", "00002", "00003"]
        );
        assert_eq!(world.meter.total() - before, 1 + 3);
        let before = world.meter.total();
        assert_eq!(
            people
                .list_by_range("city", &list_of(&index, "oslo"))
                .await?
                .len(),
            3
        );
        assert_eq!(world.meter.total() - before, 2);

        let old = people.get_existing(&Key::new("p", "00002")?).await?;
        assert_eq!(
            world.cost(people.replace(&old, person(2, "rome")?)).await?,
            change
        );
        assert_eq!(
            rows(&people.list("city", &list_of(&index, "oslo")).await?),
            ["00001", "00003"]
        );
        assert_eq!(
            rows(&people.list("city", &list_of(&index, "rome")).await?),
            ["00002"]
        );
        let all = IndexQuery::partition(list_of(&index, "oslo").partition());
        assert!(people.all("city", &all, Default::default()).await?.len() >= 2);
        for id in ["00001", "00002", "00003"] {
            people.modify(&Key::new("p", id)?, |_| Ok(None)).await?;
        }
        assert!(
            people
                .references("city", &list_of(&index, "oslo"))
                .await?
                .is_empty()
        );
        for table in ["People", "ByCity"] {
            let left = world
                .store
                .query_all(&TableName::new(table)?, &Query::new())
                .await?;
            assert!(
                left.iter().all(|row| row.key().partition() == "~~manifest"),
                "{left:?}"
            );
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_group_changes_a_list_once() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::SamePartition, Shape::LIST);
    let people = world.open(vec![index.clone()]).await?;
    let all: Vec<_> = (0..99)
        .map(|id| Ok(Change::insert(person(id, "oslo")?)))
        .collect::<Result<_>>()?;
    assert_eq!(world.cost(people.write(&all)).await?, 2);
    assert_eq!(
        people
            .references("city", &list_of(&index, "oslo"))
            .await?
            .len(),
        99
    );
    Ok(())
}

/// Random writes against a map from city to ids, then a scrub without findings.
#[tokio::test(start_paused = true)]
async fn lists_agree_with_a_model() -> Result<()> {
    let shapes = [
        Shape::LIST,
        small(Overflow::Entities),
        small(Overflow::Blob),
        Shape::Blob,
    ];
    for (seed, (placement, shape)) in placements()
        .into_iter()
        .flat_map(|p| shapes.iter().map(move |s| (p.clone(), s.clone())))
        .enumerate()
    {
        let world = World::new().await?;
        let index = by_city(placement, shape.clone());
        let people = world.open(vec![index.clone()]).await?;
        let mut rng = fastrand::Rng::with_seed(seed as u64);
        let mut model: BTreeMap<usize, &str> = BTreeMap::new();
        for round in 0..300 {
            let id = rng.usize(..120);
            // The lists grow, then shrink.
            let city = if round < 200 || rng.bool() {
                ["oslo", "rome", ""][rng.usize(..3)]
            } else {
                "gone"
            };
            let new = (city != "gone").then_some(if city.is_empty() { "bare" } else { city });
            people
                .modify(&Key::new("p", format!("{id:05}"))?, |_| {
                    new.map(|city| {
                        let person = person(id, city)?;
                        Ok(if city == "bare" {
                            Entity::from(person.key().clone())
                        } else {
                            person
                        })
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
            people
                .modify(&Key::new("p", format!("{id:05}"))?, |_| Ok(None))
                .await?;
            model.remove(id);
        }
        for city in ["oslo", "rome"] {
            let wanted: BTreeSet<_> = model
                .iter()
                .filter(|(_, c)| **c == city)
                .map(|(id, _)| format!("{id:05}"))
                .collect();
            let found = people.references("city", &list_of(&index, city)).await?;
            assert_eq!(
                found
                    .iter()
                    .map(|k| k.row().to_owned())
                    .collect::<BTreeSet<_>>(),
                wanted,
                "{shape:?}"
            );
        }
        let scrub = people.scrub("city", ScrubMode::Report).await?;
        assert_eq!(scrub.dangling, 0, "{shape:?} {:?}", index.placement());
        assert_eq!(scrub.missing, 0, "{shape:?} {:?}", index.placement());
        assert_eq!(scrub.taken_keys, 0, "{shape:?} {:?}", index.placement());
        let named = if shape.needs_blobs() { 2 } else { 0 };
        assert!(world.blobs().await <= named, "old blobs are gone");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_long_list_moves_into_chunks_and_back() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::SamePartition, small(Overflow::Entities));
    let people = world.open(vec![index.clone()]).await?;
    let at = list_of(&index, "oslo");
    for id in 0..200 {
        people.insert(person(id, "oslo")?).await?;
    }
    let chunks = || async {
        let rows = world.store.query_all(people.table(), &Query::new()).await?;
        Ok::<_, table_core::Error>(
            rows.iter()
                .filter(|row| row.key().row().starts_with("~~l_"))
                .count(),
        )
    };
    let many = chunks().await?;
    assert!(many > 2, "{many} chunks");
    assert_eq!(
        world.cost(people.references("city", &at)).await?,
        1 + many as u64
    );
    assert_eq!(people.list("city", &at).await?.len(), 200);
    for id in 3..200 {
        people
            .modify(&Key::new("p", format!("{id:05}"))?, |_| Ok(None))
            .await?;
    }
    assert_eq!(chunks().await?, 0);
    assert_eq!(world.cost(people.references("city", &at)).await?, 1);
    assert_eq!(people.list("city", &at).await?.len(), 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn shared_indexes_are_built_scrubbed_and_dropped() -> Result<()> {
    let shapes = [
        small(Overflow::Entities),
        small(Overflow::Blob),
        Shape::Blob,
        Shape::LIST,
    ];
    for placement in placements() {
        for shape in &shapes {
            let world = World::new().await?;
            let people = world.open(vec![]).await?;
            for id in 0..150 {
                people
                    .insert(person(id, ["oslo", "rome", "bonn"][id % 3])?)
                    .await?;
            }
            let index = by_city(placement.clone(), shape.clone());
            let people = world.open(vec![index.clone()]).await?;
            let done = people.build("city")?.run().await?;
            assert_eq!(done.entities, 150);
            assert_eq!(done.entries, 150);
            let partitions = if placement == Placement::SamePartition {
                1
            } else {
                3
            };
            assert!(done.groups <= partitions * 2, "{} groups", done.groups);
            let at = list_of(&index, "oslo");
            assert_eq!(people.list("city", &at).await?.len(), 50);

            // Plain writes change an entity and delete another.
            let moved = person(0, "rome")?;
            world
                .store
                .write(
                    people.table(),
                    table_core::store::Operation::InsertOrReplace(moved),
                )
                .await?;
            let gone = Key::new("p", "00003")?;
            let delete =
                table_core::store::Operation::Delete(gone, table_core::model::IfMatch::Any);
            world.store.write(people.table(), delete).await?;
            assert_eq!(people.list("city", &at).await?.len(), 48, "lookups verify");
            let report = people.scrub("city", ScrubMode::Report).await?;
            assert_eq!(report.entries, 150);
            assert_eq!(report.dangling, 2);
            assert_eq!(report.missing, 1);
            people.scrub("city", ScrubMode::Repair).await?;
            let report = people.scrub("city", ScrubMode::Report).await?;
            assert_eq!(report.entries, 149);
            assert_eq!(report.dangling, 0);
            assert_eq!(report.missing, 0);

            people.drop_index("city").await?;
            let (people_left, by_city) = (
                rows_left(&world, "People").await?,
                rows_left(&world, "ByCity").await?,
            );
            assert_eq!(people_left, 149);
            assert_eq!(by_city, 0);
            assert_eq!(world.blobs().await, 0);
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn damaged_lists_are_repaired() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(
        Placement::OtherTable(TableName::new("ByCity")?),
        Shape::Blob,
    );
    let people = world.open(vec![index.clone()]).await?;
    for id in 0..5 {
        people.insert(person(id, "oslo")?).await?;
    }
    for meta in world
        .blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .unwrap()
    {
        object_store::ObjectStoreExt::delete(&*world.blobs, &meta.location)
            .await
            .unwrap();
    }
    let report = people.scrub("city", ScrubMode::Repair).await?;
    assert_eq!(report.dangling, 1);
    assert_eq!(report.missing, 5);
    assert_eq!(
        people.list("city", &list_of(&index, "oslo")).await?.len(),
        5
    );
    Ok(())
}
