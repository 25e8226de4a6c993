//! Collisions: two entities with one key of an index that is not unique.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{Error, Operation, Outcome, Result, TableStore, TableStoreExt};

use crate::index::{
    Index, IndexOptions, IndexState, IndexedEntities, Payload, Placement, ScrubMode, Trust,
};
use crate::journal::{Acknowledge, Change, Clearing};

/// By city alone: the entry's key lacks the entity's key.
fn by_city(placement: Placement) -> Index {
    let elsewhere = placement != Placement::SamePartition;
    Index::new("city", placement, "1", move |e| match e.get("City") {
        Some(ValueRef::String(city)) if elsewhere => Key::new(format!("city_{city}"), "").map(Some),
        Some(ValueRef::String(city)) => {
            Key::new(e.key().partition(), format!("city_{city}")).map(Some)
        }
        _ => Ok(None),
    })
}

fn person(id: &str, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", id)?.with("City", city))
}

async fn open(store: &Arc<dyn TableStore>, indexes: Vec<Index>) -> Result<IndexedEntities> {
    store
        .create_table_if_missing(&TableName::new("People")?)
        .await?;
    IndexedEntities::open(
        store.clone(),
        TableName::new("People")?,
        indexes,
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    )
    .await
}

fn metered() -> (Arc<dyn TableStore>, RequestMeter) {
    let meter = RequestMeter::new();
    (
        Arc::new(Metered::new(MemoryStore::new(), meter.clone())),
        meter,
    )
}

#[tokio::test(start_paused = true)]
async fn a_local_collision_is_refused_before_a_write() -> Result<()> {
    let (store, meter) = metered();
    let people = open(&store, vec![by_city(Placement::SamePartition)]).await?;
    let before = meter.total();
    people.insert(person("1", "oslo")?).await?;
    assert_eq!(
        meter.total() - before,
        1,
        "no request more to find collisions"
    );
    let error = people.insert(person("2", "oslo")?).await.unwrap_err();
    assert!(
        error.is_key_collision() && error.outcome() == Outcome::NotApplied,
        "{error}"
    );
    assert!(
        error.to_string().contains("add the entity's key"),
        "{error}"
    );
    assert!(people.get(&Key::new("p", "2")?).await?.is_none());
    let found = people
        .find("city", &Key::new("p", "city_oslo")?, Trust::Entity)
        .await?
        .unwrap();
    assert_eq!(found.key().row(), "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_collision_in_one_group_is_refused_before_a_write() -> Result<()> {
    let (store, _) = metered();
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    let changes = [
        Change::insert(person("1", "oslo")?),
        Change::insert(person("2", "oslo")?),
    ];
    let error = people.write(&changes).await.unwrap_err();
    assert!(
        error.is_key_collision() && error.outcome() == Outcome::NotApplied,
        "{error}"
    );
    assert!(people.get(&Key::new("p", "1")?).await?.is_none());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_remote_collision_is_an_applied_error_and_keeps_the_first_entry() -> Result<()> {
    let (store, meter) = metered();
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    let before = meter.total();
    people.insert(person("1", "oslo")?).await?;
    assert_eq!(
        meter.total() - before,
        1 + 1 + 1 + 1,
        "group, entry, read, journal row"
    );
    let error = people.insert(person("2", "oslo")?).await.unwrap_err();
    assert!(
        error.is_key_collision() && error.outcome() == Outcome::Applied,
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("'city'") && !text.contains(by_city(Placement::OtherPartition).id()),
        "{text}"
    );
    assert!(people.get(&Key::new("p", "2")?).await?.is_some());
    let found = people
        .find("city", &Key::new("city_oslo", "")?, Trust::Entity)
        .await?
        .unwrap();
    assert_eq!(found.key().row(), "1");
    let report = people.scrub("city", ScrubMode::Repair).await?;
    assert_eq!(report.dangling, 0);
    assert_eq!(report.missing, 0);
    assert_eq!(report.taken_keys, 1);

    // No journal row waits for the key: the first entity may have it for ever.
    let swept = people.journal().sweep(&[], Duration::ZERO).await?;
    assert_eq!((swept.applied, swept.failed, swept.left), (0, 0, 0));
    people.modify(&Key::new("p", "1")?, |_| Ok(None)).await?;
    let report = people.scrub("city", ScrubMode::Repair).await?;
    assert_eq!((report.taken_keys, report.missing), (0, 1));
    let found = people
        .find("city", &Key::new("city_oslo", "")?, Trust::Entity)
        .await?
        .unwrap();
    assert_eq!(found.key().row(), "2");
    Ok(())
}

/// The refused entity is changed and deleted, and the entry stays the first entity's.
#[tokio::test(start_paused = true)]
async fn later_writes_of_the_refused_entity_keep_the_first_entry() -> Result<()> {
    let (store, meter) = metered();
    let index = || vec![by_city(Placement::OtherPartition).with_payload(Payload::Full)];
    let people = open(&store, index()).await?;
    let other = open(&store, index()).await?;
    let removal = async |people: &IndexedEntities, id: &str| {
        let old = people.get_existing(&Key::new("p", id)?).await?;
        let (gone, cost) = meter.measure(people.delete(&old)).await;
        Ok::<_, Error>((gone?, cost.total()).1)
    };
    people.insert(person("0", "rome")?).await?;
    assert_eq!(
        removal(&people, "0").await?,
        3 + 2,
        "the entry is read and removed"
    );
    people.insert(person("1", "oslo")?).await?;
    people.insert(person("2", "oslo")?).await.unwrap_err();
    let first = async || {
        let found = people
            .find("city", &Key::new("city_oslo", "")?, Trust::Entry)
            .await?;
        Ok::<_, Error>(found.map(|found| found.key().row().to_owned()))
    };
    let grown = people
        .modify(&Key::new("p", "2")?, |old| {
            Ok(old.cloned().map(|e| e.with("Age", 40)))
        })
        .await;
    assert!(grown.unwrap_err().is_key_collision());
    assert_eq!(
        first().await?.as_deref(),
        Some("1"),
        "a change of the second entity keeps the entry"
    );
    // Another process knows nothing of the collision.
    assert_eq!(
        removal(&other, "2").await?,
        3 + 1,
        "the entry is read, and belongs to the first entity"
    );
    assert_eq!(
        first().await?.as_deref(),
        Some("1"),
        "the removal of the second entity keeps the entry"
    );
    let swept = people.journal().sweep(&[], Duration::ZERO).await?;
    assert_eq!((swept.applied, swept.failed, swept.left), (0, 0, 0));
    assert_eq!(
        removal(&people, "1").await?,
        3 + 2,
        "the entry is read and removed"
    );
    assert_eq!(first().await?, None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn recovery_keeps_the_entry_of_another_entity() -> Result<()> {
    let (store, _) = metered();
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    people.insert(person("1", "oslo")?).await?;
    lazy(&store).await?.insert(person("2", "oslo")?).await?;
    // The journal row of entity 2 names the key of entity 1. Entity 2 no longer exists during its recovery.
    let second = people.get_existing(&Key::new("p", "2")?).await?;
    let gone = Operation::Delete(second.key().clone(), second.etag().into());
    store.write(people.table(), gone).await?;
    assert_eq!(
        people
            .journal()
            .sweep(&[], Default::default())
            .await?
            .applied,
        1
    );
    let found = people
        .find("city", &Key::new("city_oslo", "")?, Trust::Entity)
        .await?
        .unwrap();
    assert_eq!(found.key().row(), "1");
    Ok(())
}

/// A handle that leaves its entries to a sweep.
async fn lazy(store: &Arc<dyn TableStore>) -> Result<IndexedEntities> {
    let options = IndexOptions {
        acknowledge: Acknowledge::Committed,
        ..IndexOptions::local().with_clearing(Clearing::BeforeAnswer)
    };
    let indexes = vec![by_city(Placement::OtherPartition)];
    IndexedEntities::open(store.clone(), TableName::new("People")?, indexes, options).await
}

#[tokio::test(start_paused = true)]
async fn a_sweep_reports_the_entry_of_a_taken_key_once() -> Result<()> {
    let (store, _) = metered();
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    people.insert(person("1", "oslo")?).await?;
    lazy(&store).await?.insert(person("2", "oslo")?).await?;
    let swept = people.journal().sweep(&[], Duration::ZERO).await?;
    assert_eq!((swept.applied, swept.failed, swept.left), (1, 0, 0));
    assert_eq!((swept.collisions, swept.collided.len()), (1, 1));
    let error = &swept.collided[0].1;
    let owner = Key::new("p", "1")?.to_string();
    assert!(
        error.is_key_collision() && error.owner() == Some(&*owner),
        "{error}"
    );
    let swept = people.journal().sweep(&[], Duration::ZERO).await?;
    assert_eq!((swept.applied, swept.collisions), (0, 0));
    assert_eq!(people.scrub("city", ScrubMode::Report).await?.taken_keys, 1);
    Ok(())
}

/// The entry of an entity that has given its key up, and whose write has not removed the entry yet.
#[tokio::test(start_paused = true)]
async fn an_entity_takes_a_key_that_another_has_given_up() -> Result<()> {
    let (store, meter) = metered();
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    for (id, new) in [("1", Some("rome")), ("2", None)] {
        people.insert(person(id, "oslo")?).await?;
        let old = people.get_existing(&Key::new("p", id)?).await?;
        match new {
            Some(city) => drop(lazy(&store).await?.replace(&old, person(id, city)?).await?),
            None => drop(lazy(&store).await?.delete(&old).await?),
        }
        let (heir, cost) = meter
            .measure(people.insert(person(&format!("{id}0"), "oslo")?))
            .await;
        heir?;
        assert_eq!(
            cost.total(),
            4 + 3,
            "the row, its owner, and the row in its version"
        );
        let swept = people.journal().sweep(&[], Duration::ZERO).await?;
        assert_eq!((swept.applied, swept.collisions), (1, 0));
        let found = people
            .find("city", &Key::new("city_oslo", "")?, Trust::Entity)
            .await?;
        assert_eq!(found.unwrap().key().row(), format!("{id}0"));
        people
            .modify(&Key::new("p", format!("{id}0"))?, |_| Ok(None))
            .await?;
    }
    Ok(())
}

/// A group swaps the keys of two entities.
#[tokio::test(start_paused = true)]
async fn two_entities_of_one_write_swap_their_keys() -> Result<()> {
    let (store, _) = metered();
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    for (id, city) in [("1", "oslo"), ("2", "rome")] {
        people.insert(person(id, city)?).await?;
    }
    let mut changes = Vec::new();
    for (id, city) in [("1", "rome"), ("2", "oslo")] {
        let old = people.get_existing(&Key::new("p", id)?).await?;
        changes.push(Change::replace(old.into_inner(), person(id, city)?));
    }
    people.write(&changes).await?;
    let report = people.scrub("city", ScrubMode::Report).await?;
    assert_eq!(
        (report.dangling, report.missing, report.taken_keys),
        (0, 0, 0)
    );
    for (city, id) in [("rome", "1"), ("oslo", "2")] {
        let at = Key::new(format!("city_{city}"), "")?;
        let found = people.find("city", &at, Trust::Entity).await?.unwrap();
        assert_eq!(found.key().row(), id);
    }
    Ok(())
}

/// A group with several entries in one partition: those whose keys are free are written.
#[tokio::test(start_paused = true)]
async fn a_taken_key_keeps_no_other_entry_of_the_write_back() -> Result<()> {
    let (store, _) = metered();
    let in_one_partition = Index::keyed("city", Placement::OtherPartition, "cities", "{City}")?;
    let people = open(&store, vec![in_one_partition]).await?;
    let table = people.table().clone();
    let stranger = Entity::new("cities", "oslo")?.with("Mayor", "anne");
    store
        .write(&table, Operation::Insert(stranger.clone()))
        .await?;
    let changes: Vec<_> = ["bonn", "oslo", "rome"]
        .into_iter()
        .map(|city| person(city, city).map(Change::insert))
        .collect::<Result<_>>()?;
    let error = people.write(&changes).await.unwrap_err();
    assert!(
        error.is_key_collision() && error.outcome() == Outcome::Applied,
        "{error}"
    );
    for (city, is_found) in [("bonn", true), ("oslo", false), ("rome", true)] {
        let found = people
            .find("city", &Key::new("cities", city)?, Trust::Entity)
            .await?;
        assert_eq!(found.is_some(), is_found, "{city}");
    }
    let now = store.get(&table, stranger.key(), None).await?.unwrap();
    assert_eq!(now.properties(), stranger.properties());
    let swept = people.journal().sweep(&[], Duration::ZERO).await?;
    assert_eq!((swept.applied, swept.failed, swept.left), (0, 0, 0));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_build_over_colliding_keys_fails() -> Result<()> {
    let (store, _) = metered();
    let people = open(&store, vec![]).await?;
    for id in ["1", "2"] {
        people.insert(person(id, "oslo")?).await?;
    }
    let people = open(&store, vec![by_city(Placement::OtherPartition)]).await?;
    let error = people.build("city")?.run().await.unwrap_err();
    assert!(error.is_key_collision(), "{error}");
    assert_eq!(people.state("city"), IndexState::Building);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_entry_never_replaces_an_entity() -> Result<()> {
    let (store, _) = metered();
    let by_twin = Index::new("twin", Placement::SamePartition, "1", |e| {
        match e.get("Twin") {
            Some(ValueRef::String(twin)) => Key::new(e.key().partition(), twin).map(Some),
            _ => Ok(None),
        }
    });
    let people = open(&store, vec![by_twin]).await?;
    people.insert(person("1", "oslo")?).await?;
    let error = people
        .insert(person("2", "rome")?.with("Twin", "1"))
        .await
        .unwrap_err();
    assert!(error.is_key_collision(), "{error}");
    let rows = store.query_all(people.table(), &Query::new()).await?;
    assert_eq!(rows.iter().filter(|row| !row.key().is_system()).count(), 1);
    Ok(())
}
