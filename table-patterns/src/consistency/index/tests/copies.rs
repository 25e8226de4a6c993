//! Copies in other entities.

use table_core::model::{Entity, Key, ValueRef};
use table_core::store::{Outcome, Result};

use super::world::{World, text};
use crate::index::{Index, Placement, ScrubMode, Shape};
use crate::journal::Change;

fn manager(placement: Placement) -> Index {
    let here = placement == Placement::SamePartition;
    let index = Index::new("manager", placement, "1", move |e| {
        let partition = if here {
            e.key().partition()
        } else {
            "departments"
        };
        text(e, "Manages")
            .map(|department| Key::new(partition, department))
            .transpose()
    });
    index.with_shape(Shape::copy("Manager", ["Name"]))
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
            let error = people
                .insert(boss("1", "ann", Some("sales"))?)
                .await
                .unwrap_err();
            assert!(
                error.to_string().contains("does not exist")
                    && error.outcome() == Outcome::NotApplied,
                "{error}"
            );
            let both = [
                Change::insert(boss("1", "ann", Some("sales"))?),
                Change::insert(Entity::from(target.clone()).with("Floor", 1)),
            ];
            assert_eq!(world.cost(people.write(&both)).await?, 1);
        } else {
            people
                .insert(Entity::from(target.clone()).with("Floor", 1))
                .await?;
            people.insert(boss("1", "ann", Some("sales"))?).await?;
        }
        let name = || async {
            Ok::<_, table_core::Error>(
                text(people.get_existing(&target).await?.entity(), "ManagerName")
                    .map(str::to_owned),
            )
        };
        assert_eq!(name().await?.as_deref(), Some("ann"));
        people
            .upsert(Entity::from(target.clone()).with("Floor", 2))
            .await?;
        assert_eq!(
            name().await?.as_deref(),
            Some("ann"),
            "a writer of the target keeps the copy"
        );
        people.upsert(boss("1", "anna", Some("sales"))?).await?;
        assert_eq!(name().await?.as_deref(), Some("anna"));
        let second = people
            .insert(boss("2", "bob", Some("sales"))?)
            .await
            .unwrap_err();
        assert!(second.is_key_collision(), "{second}");
        people.upsert(boss("2", "bob", None)?).await?;
        people.upsert(boss("1", "anna", None)?).await?;
        assert_eq!(name().await?, None);
        assert_eq!(
            people.get_existing(&target).await?.get("Floor"),
            Some(ValueRef::Int32(2))
        );
        let scrub = people.scrub("manager", ScrubMode::Report).await?;
        assert_eq!(scrub.dangling, 0);
        assert_eq!(scrub.missing, 0);
        assert_eq!(scrub.taken_keys, 0);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn copies_are_built_scrubbed_and_dropped() -> Result<()> {
    for placement in [Placement::SamePartition, Placement::OtherPartition] {
        let target = Key::new(
            if placement == Placement::SamePartition {
                "p"
            } else {
                "departments"
            },
            "sales",
        )?;
        let world = World::new().await?;
        let people = world.open(vec![]).await?;
        people
            .insert(Entity::from(target.clone()).with("Floor", 1))
            .await?;
        people.insert(boss("1", "ann", Some("sales"))?).await?;
        let people = world.open(vec![manager(placement)]).await?;
        people.build("manager")?.run().await?;
        assert_eq!(
            text(people.get_existing(&target).await?.entity(), "ManagerName"),
            Some("ann")
        );
        let wrong = people
            .get_existing(&target)
            .await?
            .into_inner()
            .with("ManagerName", "eve");
        world
            .store
            .write(
                people.table(),
                table_core::store::Operation::InsertOrReplace(wrong),
            )
            .await?;
        assert_eq!(people.scrub("manager", ScrubMode::Repair).await?.missing, 1);
        assert_eq!(
            text(people.get_existing(&target).await?.entity(), "ManagerName"),
            Some("ann")
        );
        let gone = table_core::store::Operation::Delete(
            Key::new("p", "1")?,
            table_core::model::IfMatch::Any,
        );
        world.store.write(people.table(), gone).await?;
        assert_eq!(
            people.scrub("manager", ScrubMode::Repair).await?.dangling,
            1
        );
        assert_eq!(
            text(people.get_existing(&target).await?.entity(), "ManagerName"),
            None
        );
        people.insert(boss("3", "cy", Some("sales"))?).await?;
        people.drop_index("manager").await?;
        let left = people.get_existing(&target).await?;
        assert_eq!(
            left.properties()
                .iter()
                .map(|p| p.name().to_owned())
                .collect::<Vec<_>>(),
            ["Floor"]
        );
    }
    Ok(())
}

/// Two indexes may copy into one entity, each under its own prefix, also in one group.
#[tokio::test(start_paused = true)]
async fn two_indexes_copy_into_one_entity() -> Result<()> {
    for placement in [Placement::SamePartition, Placement::OtherPartition] {
        let here = placement == Placement::SamePartition;
        let world = World::new().await?;
        let second = Index::new("deputy", placement.clone(), "1", move |e| {
            let partition = if here {
                e.key().partition()
            } else {
                "departments"
            };
            text(e, "Manages")
                .map(|department| Key::new(partition, department))
                .transpose()
        });
        let shape = Shape::copy("Deputy", ["Name"]);
        let people = world
            .open(vec![manager(placement), second.with_shape(shape)])
            .await?;
        let target = Key::new(if here { "p" } else { "departments" }, "sales")?;
        people
            .insert(Entity::from(target.clone()).with("Floor", 1))
            .await?;
        for name in ["ann", "anna"] {
            people.upsert(boss("1", name, Some("sales"))?).await?;
            let target = people.get_existing(&target).await?;
            assert_eq!(text(&target, "ManagerName"), Some(name));
            assert_eq!(text(&target, "DeputyName"), Some(name));
        }
        people.upsert(boss("1", "anna", None)?).await?;
        let left = people.get_existing(&target).await?;
        assert_eq!(
            left.properties()
                .iter()
                .map(|p| p.name().to_owned())
                .collect::<Vec<_>>(),
            ["Floor"]
        );
    }
    Ok(())
}
