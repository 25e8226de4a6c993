//! Writes that were committed under one definition of an index and are applied under another.

use super::*;
use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement, ScrubMode};
use crate::journal::WriteId;

fn by_login(version: &str) -> Index {
    Index::new("login", Placement::OtherPartition, version, |e| {
        match e.get("Login") {
            Some(ValueRef::String(login)) => Key::new(format!("login_{login}"), "").map(Some),
            _ => Ok(None),
        }
    })
}

fn definitions() -> [Index; 3] {
    [
        by_login("1"),
        by_login("1").unique_within_table(),
        by_login("1").with_shape(Shape::LIST),
    ]
}

fn user(id: &str) -> Result<Entity> {
    Ok(Entity::new("p", id)?.with("Login", "bob"))
}

async fn open(
    store: &Arc<MemoryStore>,
    index: &Index,
    acknowledge: Acknowledge,
) -> Result<IndexedEntities> {
    let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    options.acknowledge = acknowledge;
    IndexedEntities::open(
        store.clone(),
        TableName::new("People")?,
        vec![index.clone()],
        options,
    )
    .await
}

async fn redefine(store: &Arc<MemoryStore>, index: &Index) -> Result<IndexedEntities> {
    let table = TableName::new("People")?;
    let upkeep = IndexedEntities::open_for_upkeep(
        store.clone(),
        table,
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    )
    .await?;
    for declared in upkeep
        .declared()
        .await?
        .iter()
        .filter(|declared| declared.id() != index.id())
    {
        upkeep.drop_index(&declared.id()).await?;
    }
    open(store, index, Acknowledge::Applied).await
}

async fn new_store() -> Result<Arc<MemoryStore>> {
    let store = Arc::new(MemoryStore::new());
    store.create_table(&TableName::new("People")?).await?;
    Ok(store)
}

async fn in_step(people: &IndexedEntities, case: &str) -> Result<()> {
    let report = people.scrub("login", ScrubMode::Report).await?;
    assert_eq!(report.dangling, 0, "{case}");
    assert_eq!(report.missing, 0, "{case}");
    assert_eq!(report.taken_keys, 0, "{case}");
    Ok(())
}

/// A write is applied under the current definition of its index.
#[tokio::test(start_paused = true)]
async fn a_sweep_applies_a_write_under_the_current_definition() -> Result<()> {
    for before in definitions() {
        for now in definitions() {
            let case = format!("{before:?}, then {now:?}");
            let store = new_store().await?;
            open(&store, &before, Acknowledge::Committed)
                .await?
                .insert(user("1")?)
                .await?;
            let people = redefine(&store, &now).await?;
            people.build("login")?.run().await?;
            assert_eq!(people.state("login"), IndexState::Readable, "{case}");
            let swept = people
                .journal()
                .sweep(&[people.table().clone()], Duration::ZERO)
                .await?;
            assert_eq!(swept.applied, 1, "{case}");
            assert_eq!(swept.left, 0, "{case}");
            in_step(&people, &case).await?;
            people
                .delete(&people.get_existing(&Key::new("p", "1")?).await?)
                .await?;
            in_step(&people, &case).await?;
            let rows = store.query_all(people.table(), &Query::new()).await?;
            assert!(
                rows.iter().all(|row| row.key().partition() == "~~manifest"),
                "{case}: {rows:?}"
            );
        }
    }
    Ok(())
}

/// Two entities had one key of an index that became unique: the unique row of its owner stays.
#[tokio::test(start_paused = true)]
async fn an_old_key_collision_does_not_replace_a_unique_row() -> Result<()> {
    let store = new_store().await?;
    let people = open(&store, &by_login("1"), Acknowledge::Applied).await?;
    people.insert(user("1")?).await?;
    assert!(
        people
            .insert(user("2")?)
            .await
            .unwrap_err()
            .is_key_collision()
    );
    let people = redefine(&store, &by_login("1").unique_within_table()).await?;
    let first = people.get_existing(&Key::new("p", "1")?).await?;
    people.delete(&first).await?;
    people.build("login")?.run().await?;
    people
        .journal()
        .sweep(&[people.table().clone()], Duration::ZERO)
        .await?;
    assert!(
        people
            .insert(user("3")?)
            .await
            .unwrap_err()
            .is_unique_violation()
    );
    people
        .delete(&people.get_existing(&Key::new("p", "2")?).await?)
        .await?;
    people.insert(user("3")?).await?;
    Ok(())
}

/// The key of an entity's old row may be reserved for a later write of the entity. That write must not commit after its reservation
/// is removed.
#[tokio::test(start_paused = true)]
async fn a_sweep_gives_a_write_up_before_it_removes_its_reservation() -> Result<()> {
    let store = new_store().await?;
    open(&store, &by_login("1"), Acknowledge::Committed)
        .await?
        .insert(user("1")?)
        .await?;
    let people = redefine(&store, &by_login("1").unique_within_table()).await?;
    people
        .modify(&Key::new("p", "1")?, |_| Ok(Some(Entity::new("p", "1")?)))
        .await?;
    people.build("login")?.run().await?;
    let faults = FaultInjector::new(1);
    let faulty = Arc::new(Faulty::new(store.clone(), faults.clone()));
    let slow = IndexedEntities::open(
        faulty,
        people.table().clone(),
        vec![by_login("1").unique_within_table()],
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    );
    let slow = slow.await?;
    // The write is held after its read and its reservation.
    faults.crash_at(3, CrashPoint::Before);
    slow.upsert(user("1")?).await.unwrap_err();
    let key = Key::new("login_bob", "")?;
    let reserved = store
        .get(people.table(), &key, None)
        .await?
        .expect("a reservation");
    let Some(ValueRef::Guid(write)) = reserved.get("OwnerWrite") else {
        panic!("{reserved:?}")
    };
    let evidence = WriteId::from_uuid(write).key("p")?;
    assert!(store.get(people.table(), &evidence, None).await?.is_none());
    people
        .journal()
        .sweep(&[], Duration::from_secs(3600))
        .await?;
    assert!(store.get(people.table(), &key, None).await?.is_none());
    let evidence = store
        .get(people.table(), &evidence, None)
        .await?
        .expect("an abort row");
    assert_eq!(evidence.get("JournalKind"), Some(ValueRef::String("abort")));
    Ok(())
}
