use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{Operation, Result, TableStore, TableStoreExt};

use crate::index::{
    Index, IndexOptions, IndexQuery, IndexState, IndexedEntities, Payload, Placement, ScrubMode,
    Trust,
};

fn text<'a>(entity: &'a Entity, name: &str) -> Option<&'a str> {
    match entity.get(name) {
        Some(ValueRef::String(text)) => Some(text),
        _ => None,
    }
}

fn by_email() -> Index {
    Index::new("email", Placement::SamePartition, "1", |e| {
        text(e, "Email")
            .map(|m| Key::new(e.key().partition(), format!("email_{m}")))
            .transpose()
    })
    .unique_within_partition()
    .with_payload(Payload::Full)
}

fn by_city() -> Index {
    by_city_in("1")
}

fn by_city_in(version: &str) -> Index {
    let table = TableName::new("PeopleByCity").unwrap();
    Index::new("city", Placement::OtherTable(table), version, |e| {
        text(e, "City")
            .map(|city| Key::new(city, e.key().row()))
            .transpose()
    })
}

fn person(id: &str, email: &str, city: &str) -> Result<Entity> {
    Ok(Entity::new("p", id)?
        .with("Email", email)
        .with("City", city))
}

async fn store() -> Result<(Arc<dyn TableStore>, RequestMeter)> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    for table in ["People", "PeopleByCity"] {
        store.create_table(&TableName::new(table)?).await?;
    }
    Ok((store, meter))
}

async fn open(store: &Arc<dyn TableStore>, indexes: Vec<Index>) -> Result<IndexedEntities> {
    IndexedEntities::open(
        store.clone(),
        TableName::new("People")?,
        indexes,
        IndexOptions::local(),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn local_entries_are_written_with_the_entity_in_one_request() -> Result<()> {
    let (store, meter) = store().await?;
    let people = open(&store, vec![by_email()]).await?;
    let before = meter.total();
    people.insert(person("1", "ken@x", "oslo")?).await?;
    assert_eq!(meter.total() - before, 1);
    let found = people
        .find("email", &Key::new("p", "email_ken@x")?, Trust::Entry)
        .await?
        .unwrap();
    assert_eq!(meter.total() - before, 2);
    assert_eq!(found.key().row(), "1");
    assert_eq!(text(&found, "City"), Some("oslo"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_taken_value_is_a_named_error() -> Result<()> {
    let (store, _) = store().await?;
    let people = open(&store, vec![by_email()]).await?;
    people.insert(person("1", "ken@x", "oslo")?).await?;
    let error = people
        .insert(person("2", "ken@x", "rome")?)
        .await
        .unwrap_err();
    assert!(
        error.is_unique_violation() && error.to_string().contains("email"),
        "{error}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn references_in_another_table_are_followed() -> Result<()> {
    let (store, meter) = store().await?;
    let people = open(&store, vec![by_city()]).await?;
    for id in ["1", "2", "3"] {
        people.insert(person(id, "x", "oslo")?).await?;
    }
    let before = meter.total();
    let found = people
        .all("city", &IndexQuery::partition("oslo"), Trust::Entry)
        .await?;
    assert_eq!(found.len(), 3);
    assert_eq!(meter.total() - before, 1 + 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_upsert_moves_the_entry() -> Result<()> {
    let (store, _) = store().await?;
    let people = open(&store, vec![by_city(), by_email()]).await?;
    people.upsert(person("1", "a@x", "oslo")?).await?;
    people.upsert(person("1", "b@x", "rome")?).await?;
    assert!(
        people
            .all("city", &IndexQuery::partition("oslo"), Trust::Entry)
            .await?
            .is_empty()
    );
    assert_eq!(
        people
            .all("city", &IndexQuery::partition("rome"), Trust::Entry)
            .await?
            .len(),
        1
    );
    assert!(
        people
            .find("email", &Key::new("p", "email_a@x")?, Trust::Entry)
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_index_is_built_over_existing_data_and_then_read() -> Result<()> {
    let (store, meter) = store().await?;
    let people = open(&store, vec![]).await?;
    for n in 0..250 {
        people
            .insert(person(
                &format!("{n:03}"),
                "x",
                if n % 2 == 0 { "oslo" } else { "rome" },
            )?)
            .await?;
    }
    let people = open(&store, vec![by_city()]).await?;
    assert_eq!(people.state("city"), IndexState::Absent);
    let refused = people
        .all("city", &IndexQuery::partition("oslo"), Trust::Entry)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("call `build`"), "{refused}");

    let before = meter.snapshot();
    let done = people.build("city")?.run().await?;
    assert_eq!(done.entities, 250);
    assert_eq!(done.entries, 250);
    assert_eq!(done.groups, 4);
    drop(before);
    assert_eq!(people.state("city"), IndexState::Readable);
    assert_eq!(
        people
            .all("city", &IndexQuery::partition("oslo"), Trust::Entry)
            .await?
            .len(),
        125
    );
    let scrub = people.scrub("city", ScrubMode::Report).await?;
    assert_eq!(scrub.entries, 250);
    assert_eq!(scrub.entities, 250);
    assert_eq!(scrub.dangling, 0);
    assert_eq!(scrub.missing, 0);

    people.drop_index("city").await?;
    let left = store
        .query_all(&TableName::new("PeopleByCity")?, &Default::default())
        .await?;
    assert!(
        left.iter().all(|row| row.key().partition() == "~~manifest"),
        "{left:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_scrub_finds_and_repairs_dangling_and_missing_entries() -> Result<()> {
    let (store, _) = store().await?;
    let people = open(&store, vec![by_city()]).await?;
    people.insert(person("1", "x", "oslo")?).await?;
    // Plain writes lose one entry and leave one dangling.
    let cities = TableName::new("PeopleByCity")?;
    let lost = Key::new("oslo", "1")?;
    let row = store.get_existing(&cities, &lost).await?;
    store
        .write(
            &cities,
            Operation::Delete(lost, table_core::model::IfMatch::Any),
        )
        .await?;
    store
        .write(
            &cities,
            Operation::Insert(row.with_key(Key::new("rome", "1")?)),
        )
        .await?;

    let report = people.scrub("city", ScrubMode::Report).await?;
    assert_eq!(report.dangling, 1);
    assert_eq!(report.missing, 1);
    people.scrub("city", ScrubMode::Repair).await?;
    let report = people.scrub("city", ScrubMode::Report).await?;
    assert_eq!(report.entries, 1);
    assert_eq!(report.dangling, 0);
    assert_eq!(report.missing, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_program_without_an_indexs_function_reads_and_refuses_writes() -> Result<()> {
    let (store, _) = store().await?;
    let people = open(&store, vec![by_city(), by_email()]).await?;
    people.insert(person("1", "x", "oslo")?).await?;
    let others = [
        vec![by_email()],
        vec![by_city().with_payload(Payload::Full), by_email()],
        vec![by_city_in("2"), by_email()],
    ];
    for indexes in others {
        let other = open(&store, indexes).await?;
        let before = store.query_all(other.table(), &Default::default()).await?;
        let error = other
            .insert(person("2", "y", "rome")?)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(by_city().id()) && error.contains("drop_index"),
            "{error}"
        );
        let error = other
            .delete(&other.get_existing(&Key::new("p", "1")?).await?)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(by_city().id()), "{error}");
        assert_eq!(
            store.query_all(other.table(), &Default::default()).await?,
            before
        );
        assert_eq!(other.state("email"), IndexState::Readable);
    }
    let other = open(&store, vec![by_email()]).await?;
    other.drop_index(by_city().id()).await?;
    other.insert(person("2", "y", "rome")?).await?;
    Ok(())
}
