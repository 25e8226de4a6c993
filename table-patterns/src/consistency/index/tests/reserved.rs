//! Property names that entries and marks of moves reserve.

use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Operation, Result};

use super::world::{World, by_city, person, placements};
use crate::index::{Index, IndexQuery, IndexState, Payload, Placement, ScrubMode, Shape, Trust};

const NAMES: [&str; 9] = [
    "IndexName",
    "OwnerPartition",
    "OwnerRow",
    "OwnerWrite",
    "OwnerPending",
    "HeirPartition",
    "HeirRow",
    "EntityMoveWrite",
    "EntityMoveTo",
];

/// An entry has its owner's key as properties, which would overwrite an entity's properties of the same names in a full payload.
#[tokio::test(start_paused = true)]
async fn reserved_property_names_are_refused_in_entities() -> Result<()> {
    for placement in placements() {
        let world = World::new().await?;
        let people = world
            .open(vec![by_city(placement, Shape::Row).unique_within_table()])
            .await?;
        for name in NAMES {
            let before = world.meter.total();
            let error = people
                .insert(person(1, "oslo")?.with(name, "city"))
                .await
                .unwrap_err();
            assert!(
                error.to_string().contains(name) && error.to_string().contains("rename"),
                "{error}"
            );
            assert_eq!(world.meter.total(), before, "it was sent");
        }
    }
    Ok(())
}

/// A row of a plain table is not an entry merely because it has a property of a reserved name.
#[tokio::test(start_paused = true)]
async fn a_reserved_property_alone_makes_no_entry() -> Result<()> {
    for shape in [Shape::Row, Shape::LIST, Shape::summary::<&str>([])] {
        let world = World::new().await?;
        let people = world
            .open(vec![by_city(Placement::SamePartition, shape.clone())])
            .await?;
        let table = TableName::new("People")?;
        let plain = person(7, "rome")?.with("IndexName", "city");
        world
            .store
            .write(&table, Operation::Insert(plain.clone()))
            .await?;
        people.insert(person(1, "oslo")?).await?;
        if !matches!(shape, Shape::Summary { .. }) {
            let found = people
                .all("city", &IndexQuery::partition("p"), Trust::Entry)
                .await?;
            assert_eq!(found.len(), 1, "a lookup meets it");
            let report = people.scrub("city", ScrubMode::Report).await?;
            assert_eq!(report.entries, 1, "{shape}");
            assert_eq!(report.dangling, 0, "{shape}");
            assert_eq!(report.missing, 1, "{shape}");
        }
        people.drop_index("city").await?;
        assert!(
            people.get(plain.key()).await?.is_some(),
            "the drop of a {shape} took an entity along"
        );
        let refused = people.build("city")?.run().await;
        if matches!(shape, Shape::Summary { .. }) {
            refused?;
        } else {
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("IndexName") && refused.contains("00007"),
                "{refused}"
            );
            assert_eq!(people.state("city"), IndexState::Building);
        }
    }
    Ok(())
}

/// A paused writer can leave an entry with a property that the entity no longer has.
#[tokio::test(start_paused = true)]
async fn a_scrub_finds_properties_of_an_older_state() -> Result<()> {
    for placement in placements() {
        let world = World::new().await?;
        let index = by_city(placement, Shape::Row)
            .with_payload(Payload::Full)
            .unique_within_table();
        let people = world.open(vec![index.clone()]).await?;
        people.insert(person(1, "oslo")?).await?;
        let entry = index
            .entries(people.table(), &person(1, "oslo")?)?
            .remove(0);
        let row = world
            .store
            .get(&entry.location.table, &entry.location.key, None)
            .await?
            .unwrap();
        let stale: Entity = row.with("Nickname", "ken");
        world
            .store
            .write(&entry.location.table, Operation::InsertOrReplace(stale))
            .await?;
        assert_eq!(people.scrub("city", ScrubMode::Report).await?.missing, 1);
        assert_eq!(people.scrub("city", ScrubMode::Repair).await?.missing, 1);
        assert_eq!(people.scrub("city", ScrubMode::Report).await?.missing, 0);
        let key: &Key = &entry.location.key;
        let found = people.find("city", key, Trust::Entry).await?.unwrap();
        assert!(found.get("Nickname").is_none(), "{found:?}");
    }
    Ok(())
}

/// A client that writes an entity would write a row by which programs act.
#[tokio::test(start_paused = true)]
async fn an_entry_is_no_system_row() -> Result<()> {
    let world = World::new().await?;
    let by_function = Index::new(
        "city",
        Placement::OtherPartition,
        "1",
        |entity| match entity.get("City") {
            Some(ValueRef::String(city)) => Key::new(city, "type~Session").map(Some),
            _ => Ok(None),
        },
    );
    let people = world.open(vec![by_function]).await?;
    let before = world.meter.total();
    let error = people.insert(person(1, "~~manifest")?).await.unwrap_err();
    assert!(error.to_string().contains("a system row"), "{error}");
    assert_eq!(world.meter.total(), before, "it was sent");
    people.insert(person(2, "oslo")?).await?;
    Ok(())
}
