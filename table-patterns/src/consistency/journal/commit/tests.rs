//! Local entries during the build of a unique index over two entities with one value.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::store::{ErrorKind, Operation, Result, TableStore};

use crate::index::{
    Entry, Index, IndexOptions, IndexState, IndexedEntities, Payload, Placement, Stored, Trust,
};

fn email() -> Index {
    let index = Index::new("email", Placement::SamePartition, "1", |e| {
        match e.get("Email") {
            Some(ValueRef::String(email)) => Key::new("p", format!("email_{email}")).map(Some),
            _ => Ok(None),
        }
    });
    index.unique_within_partition().with_payload(Payload::Full)
}

fn person(id: &str, email: &str, age: i32) -> Result<Entity> {
    Ok(Entity::new("p", id)?.with("Email", email).with("Age", age))
}

/// Entities `1` and `2` with one address, and the index as far as it can be built.
async fn half_built(meter: &RequestMeter) -> Result<IndexedEntities> {
    let (store, table) = (MemoryStore::new(), TableName::new("People")?);
    store.create_table(&table).await?;
    for id in ["1", "2"] {
        store
            .write(&table, Operation::Insert(person(id, "b@b", 40)?))
            .await?;
    }
    let store = Arc::new(Metered::new(store, meter.clone()));
    let people = IndexedEntities::open(store, table, vec![email()], IndexOptions::local()).await?;
    let error = people.build("email")?.run().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::DuplicateValues { .. }),
        "{error}"
    );
    assert_eq!(people.state("email"), IndexState::Building);
    Ok(people)
}

async fn read(people: &IndexedEntities, id: &str) -> Result<Stored<Entity>> {
    people.get_existing(&Key::new("p", id)?).await
}

async fn owner(people: &IndexedEntities, email: &str) -> Result<Option<String>> {
    let key = Key::new("p", format!("email_{email}"))?;
    let row = people.store().get(people.table(), &key, None).await?;
    row.map(|row| Ok(Entry::owner_of(&row)?.row().to_owned()))
        .transpose()
}

#[tokio::test(start_paused = true)]
async fn the_second_owner_does_not_take_the_entry_of_the_first_during_a_build() -> Result<()> {
    let people = half_built(&RequestMeter::new()).await?;
    people
        .replace(&read(&people, "2").await?, person("2", "b@b", 41)?)
        .await?;
    assert_eq!(owner(&people, "b@b").await?.as_deref(), Some("1"));
    let second = read(&people, "2").await?;
    let error = people
        .replace(&second, person("2", "c@c", 41)?)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("building"), "{error}");
    people
        .replace(&second, Entity::new("p", "2")?.with("Age", 41))
        .await?;
    assert_eq!(owner(&people, "b@b").await?.as_deref(), Some("1"));
    assert_eq!(
        people.build("email")?.run().await?.state,
        IndexState::Readable
    );
    let found = people
        .find("email", &Key::new("p", "email_b@b")?, Trust::Entry)
        .await?
        .unwrap();
    assert_eq!(found.key().row(), "1");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_second_owner_does_not_remove_the_entry_of_the_first() -> Result<()> {
    let people = half_built(&RequestMeter::new()).await?;
    people.delete(&read(&people, "2").await?).await?;
    assert_eq!(owner(&people, "b@b").await?.as_deref(), Some("1"));
    people.build("email")?.run().await?;
    let error = people.insert(person("3", "b@b", 1)?).await.unwrap_err();
    assert!(error.is_unique_violation(), "{error}");
    Ok(())
}

/// 1 more request for each entry that changes or is removed while the index is built.
#[tokio::test(start_paused = true)]
async fn reads_of_local_entries_cost_what_is_documented() -> Result<()> {
    let meter = RequestMeter::new();
    let people = half_built(&meter).await?;
    for (round, look) in [1, 0].into_iter().enumerate() {
        people.refresh().await?;
        let (old, age) = (read(&people, "1").await?, 50 + round as i32);
        let (changed, cost) = meter
            .measure(people.replace(&old, person("1", "b@b", age)?))
            .await;
        assert_eq!(changed?.written.len(), 1, "change in round {round}");
        assert_eq!(cost.total(), 1 + look, "change in round {round}");
        let old = read(&people, "2").await?;
        let (_, cost) = meter.measure(people.delete(&old)).await;
        assert_eq!(cost.total(), 1 + look, "deletion in round {round}");
        people.build("email")?.run().await?;
        people.refresh().await?;
        let (_, cost) = meter.measure(people.insert(person("2", "z@z", 1)?)).await;
        assert_eq!(cost.total(), 1, "insert after round {round}");
    }
    Ok(())
}
