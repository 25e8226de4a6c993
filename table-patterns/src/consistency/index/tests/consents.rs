//! Definitions whose entries are in another table: which are in force, and which rows they may touch.

use futures_util::{TryStreamExt as _, stream};
use serde_json::json;
use table_core::manifest::{IndexDefinition, IndexState, Manifest, StoredIndex, WriteTarget};
use table_core::model::{Entity, IfMatch, Key, MANIFEST_PARTITION, PartitionKey, TableName};
use table_core::query::Query;
use table_core::store::{
    GroupTransaction, Operation, Outcome, Result, TableStore, TableStoreExt as _,
};

use super::world::{World, person, rows_left};
use crate::index::{
    BulkInsert, Entry, Index, IndexedEntities, Payload, Placement, ScrubMode, Trust,
};

fn other() -> TableName {
    TableName::from_static("ByCity")
}

fn people() -> TableName {
    TableName::from_static("People")
}

/// An entry at any key of the other table that an entity names.
fn anywhere() -> Index {
    Index::keyed("any", Placement::OtherTable(other()), "{Tp}", "{Tr}")
        .unwrap()
        .with_payload(Payload::Full)
}

fn pointing(id: &str, row: &str) -> Entity {
    Entity::new("g", id)
        .unwrap()
        .with("Tp", "vp")
        .with("Tr", row)
}

fn victim(row: &str) -> Key {
    Key::new("vp", row).unwrap()
}

async fn put(world: &World, table: &TableName, row: Entity) -> Result<()> {
    world
        .store
        .write(table, Operation::InsertOrReplace(row))
        .await
        .map(drop)
}

async fn plant(world: &World, definition: &IndexDefinition) -> Result<()> {
    let planted = StoredIndex::new(definition, IndexState::Readable);
    put(world, &people(), planted.to_entity()?).await
}

async fn victims(world: &World) -> Result<Vec<Entity>> {
    world.store.query_all(&other(), &Query::new()).await
}

/// The rows of the other table that are no control rows.
async fn entries(world: &World) -> Result<usize> {
    rows_left(world, "ByCity").await
}

#[tokio::test(start_paused = true)]
async fn a_planted_definition_reaches_no_other_table() -> Result<()> {
    let world = World::new().await?;
    put(
        &world,
        &other(),
        Entity::from(victim("old")).with("Secret", 1),
    )
    .await?;
    let program = world.open(vec![]).await?;
    program.insert(pointing("before", "old")).await?;
    plant(&world, anywhere().definition()).await?;
    let before = victims(&world).await?;

    // Programs that maintain indexes, and programs that write plain rows.
    let guests = world.open(vec![]).await?;
    guests.insert(pointing("1", "new")).await?;
    guests.insert(pointing("2", "old")).await?;
    guests
        .modify(&Key::new("g", "before")?, |_| Ok(None))
        .await?;
    let rows = stream::iter([Ok(pointing("3", "new"))]);
    let imported: Vec<_> = guests
        .insert_all(rows, BulkInsert::default())
        .try_collect()
        .await?;
    assert!(imported[0].result.is_ok());
    let plain = world.store.plain_write(&people()).await?;
    plain.manifest().check_plain(
        &people(),
        WriteTarget::Entity(&pointing("4", "new")),
        "a write",
        "",
    )?;
    drop(plain);
    guests
        .journal()
        .sweep(&[other()], Default::default())
        .await?;
    assert_eq!(victims(&world).await?, before);

    assert!(guests.declared().await?.is_empty());
    assert_eq!(guests.state("any"), IndexState::Absent);
    for error in [
        guests
            .find("any", &victim("new"), Trust::Entry)
            .await
            .unwrap_err(),
        guests.scrub("any", ScrubMode::Repair).await.unwrap_err(),
        guests.build("any").unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.contains("not in force") && error.contains("'ByCity'") && error.contains("trust"),
            "{error}"
        );
    }
    let manifest = Manifest::load(&*world.store, &people()).await?;
    assert_eq!(manifest.not_in_force.len(), 1);
    guests.drop_index("any").await?;
    assert_eq!(victims(&world).await?, before);
    assert_eq!(
        Manifest::load(&*world.store, &people())
            .await?
            .all_definitions()
            .count(),
        0
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_program_that_declares_its_index_gives_the_consent() -> Result<()> {
    let world = World::new().await?;
    let cost = world.cost(world.open(vec![])).await?;
    let index = Index::keyed("any", Placement::OtherTable(other()), "{Tp}", "{Tr}")?;
    world.store.delete_table(&people()).await?;
    world.store.create_table(&people()).await?;
    let declared = world.cost(world.open(vec![index.clone()])).await?;
    assert_eq!(
        declared - cost,
        1 + 1 + 1 + 1,
        "is the table empty, pairing id, consent, consents read"
    );
    let open = world.open(vec![index]).await?;
    assert_eq!(open.state("any"), IndexState::Readable);
    // A program that has only the manifest maintains it.
    let guests = world.open(vec![]).await?;
    guests.insert(pointing("1", "new")).await?;
    assert_eq!(entries(&world).await?, 1);
    let row = world.store.get_existing(&other(), &victim("new")).await?;
    assert_eq!(
        Entry::index_of(&row),
        Some(&*format!("{}@people", open.declared().await?[0].id()))
    );
    guests.drop_index("any").await?;
    assert_eq!(entries(&world).await?, 0);
    let left = victims(&world).await?;
    assert!(left.is_empty(), "the consent goes with the index: {left:?}");
    Ok(())
}

/// Consents are lost with the table of entries, and do not fit a source that was made again.
#[tokio::test(start_paused = true)]
async fn an_index_without_its_consent_is_absent_until_it_is_built() -> Result<()> {
    for is_source in [false, true] {
        let world = World::new().await?;
        let people_of = world.open(vec![anywhere()]).await?;
        people_of.insert(pointing("1", "one")).await?;
        let (manifest, gone) = (people(), if is_source { people() } else { other() });
        let rows = world.store.query_all(&manifest, &Query::new()).await?;
        world.store.delete_table(&gone).await?;
        world.store.create_table(&gone).await?;
        if is_source {
            // Whoever restores the definition does not restore the pairing id.
            for row in rows.into_iter().filter(|row| row.key().row() != "pairing") {
                put(&world, &people(), row).await?;
            }
        }
        let again = world.open(vec![anywhere()]).await?;
        assert_eq!(again.state("any"), IndexState::Absent);
        again.insert(pointing("2", "two")).await?;
        assert_eq!(entries(&world).await?, usize::from(is_source));
        let error = again
            .find("any", &victim("two"), Trust::Entry)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("not in force"), "{error}");
        again.build("any")?.run().await?;
        assert_eq!(
            (again.state("any"), entries(&world).await?),
            (IndexState::Readable, 2)
        );
        let scrub = again.scrub("any", ScrubMode::Report).await?;
        assert_eq!((scrub.missing, scrub.dangling), (0, 0));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_trusted_definition_starts_as_a_new_one() -> Result<()> {
    let world = World::new().await?;
    let program = world.open(vec![]).await?;
    program.insert(pointing("1", "one")).await?;
    plant(&world, anywhere().definition()).await?;
    let upkeep = world.open(vec![]).await?;
    upkeep.trust_index("any").await?;
    assert_eq!(upkeep.state("any"), IndexState::DeleteOnly);
    upkeep.trust_index("any").await?;
    upkeep.build("any")?.run().await?;
    assert_eq!(
        (upkeep.state("any"), entries(&world).await?),
        (IndexState::Readable, 1)
    );
    let error = upkeep.trust_index("none").await.unwrap_err().to_string();
    assert!(error.contains("no index 'none'"), "{error}");
    // Nothing is made because a definition says so.
    let missing = Placement::OtherTable(TableName::new("Missing")?);
    plant(
        &world,
        Index::keyed("more", missing, "{Tp}", "{Tr}")?.definition(),
    )
    .await?;
    assert!(
        upkeep
            .trust_index("more")
            .await
            .unwrap_err()
            .is_table_not_found()
    );
    upkeep.insert(pointing("2", "two")).await?;
    Ok(())
}

/// In each case the row in the way is no entry of this index, of this entity, of this table.
#[tokio::test(start_paused = true)]
async fn entries_change_and_delete_only_their_own_rows() -> Result<()> {
    for index in [
        anywhere(),
        Index::keyed("any", Placement::OtherTable(other()), "{Tp}", "{Tr}")?.unique_within_table(),
    ] {
        let world = World::new().await?;
        let third = TableName::new("Third")?;
        world.store.create_table(&third).await?;
        let guests = world.open(vec![index.clone()]).await?;
        let strangers = IndexedEntities::open(
            world.store.clone(),
            third,
            vec![index.clone()],
            crate::index::IndexOptions::local()
                .with_clearing(crate::journal::Clearing::BeforeAnswer),
        )
        .await?;
        strangers.insert(pointing("1", "entry")).await?;
        put(
            &world,
            &other(),
            Entity::from(victim("entity")).with("Secret", 1),
        )
        .await?;
        // Not even with the properties of an entry.
        let forged = Entity::from(victim("forged"))
            .with("OwnerPartition", "g")
            .with("OwnerRow", "1");
        put(&world, &other(), forged).await?;
        let before = victims(&world).await?;
        for row in ["entry", "entity", "forged"] {
            let error = guests.insert(pointing("1", row)).await.unwrap_err();
            assert!(
                error.is_key_collision() || error.is_unique_violation(),
                "{error}"
            );
            assert!(
                error.to_string().contains("any") && error.to_string().contains(row),
                "{error}"
            );
            let is_there = guests.get(&Key::new("g", "1")?).await?.is_some();
            assert_eq!(is_there, error.outcome() == Outcome::Applied);
            // Another program deletes the entity, and with it the entry that the entity never had.
            if let Some(old) = world.open(vec![]).await?.get(&Key::new("g", "1")?).await? {
                guests.delete(&old).await?;
            }
            guests
                .journal()
                .sweep(&[other()], Default::default())
                .await?;
            guests.scrub("any", ScrubMode::Repair).await?;
            assert_eq!(victims(&world).await?, before, "{row}");
        }
        guests.drop_index("any").await?;
        assert_eq!(entries(&world).await?, 3);
        assert!(
            strangers
                .find("any", &victim("entry"), Trust::Entity)
                .await?
                .is_some()
        );
    }
    Ok(())
}

/// A journal row is data, too: recovery derives its work from the entity and from definitions in force.
#[tokio::test(start_paused = true)]
async fn a_planted_journal_row_reaches_no_foreign_row() -> Result<()> {
    let world = World::new().await?;
    let guests = world.open(vec![]).await?;
    guests.insert(Entity::new("g", "1")?).await?;
    put(
        &world,
        &other(),
        Entity::from(victim("entity"))
            .with("OwnerPartition", "g")
            .with("OwnerRow", "1"),
    )
    .await?;
    let entry = Entity::from(victim("entry"))
        .with("IndexName", "any.00000000")
        .with("OwnerPartition", "g");
    put(&world, &other(), entry.with("OwnerRow", "1")).await?;
    let before = victims(&world).await?;
    let copy = json!(["any.00000000", {"copy": {"prefix": "Owner", "fields": ["Partition"]}}]);
    let list = json!(["any.00000000", {"list": {"bytes": 256, "overflow": "entities"}}]);
    for (n, extra) in [
        json!({}),
        json!({"u": true}),
        json!({"s": copy}),
        json!({"s": list}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut touched = Vec::new();
        for row in ["entity", "entry"] {
            let mut affected = json!({"t": "ByCity", "p": "vp", "r": row});
            affected
                .as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            touched.push(affected);
        }
        let id = uuid::Uuid::from_u128(n as u128 + 1);
        let row = Entity::new("g", format!("~~j_{}", id.simple()))?
            .with("JournalKind", "write")
            .with("JournalLease", 0i64)
            .with("JournalRows0", br#"["1"]"#.to_vec())
            .with("JournalTouched0", serde_json::to_vec(&touched).unwrap());
        put(&world, &people(), row).await?;
        let report = guests.journal().sweep(&[], Default::default()).await?;
        assert_eq!((report.applied, report.left), (1, 0), "{extra}");
        assert_eq!(victims(&world).await?, before, "{extra}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn garbage_in_a_manifest_stops_nobody() -> Result<()> {
    let world = World::new().await?;
    let by_city =
        || Index::keyed("city", Placement::OtherPartition, "city_{City}", "{RowKey}").unwrap();
    let program = world.open(vec![by_city()]).await?;
    for row in [
        "index~~x.00000000",
        "type~Order",
        "process~00000000000000000000000000000001",
        "table",
    ] {
        let garbage = Entity::new(MANIFEST_PARTITION, row)?
            .with("Format", "x")
            .with("Definition", 7);
        put(&world, &people(), garbage.with("LongestCache", "x")).await?;
    }
    let options = crate::index::IndexOptions::local();
    let reader =
        IndexedEntities::open_to_read(world.store.clone(), people(), vec![by_city()], options)
            .await?;
    program.refresh().await?;
    for program in [&program, &world.open(vec![by_city()]).await?] {
        let id = program.declared().await?.len();
        program.upsert(person(id, "oslo")?).await?;
    }
    let found = reader
        .find("city", &Key::new("city_oslo", "00001")?, Trust::Entity)
        .await?;
    assert!(found.is_some());
    program.drop_index("index~~x.00000000").await?;
    let manifest = Manifest::load(&*world.store, &people()).await?;
    assert_eq!(
        manifest
            .refused
            .iter()
            .map(|row| row.key.row())
            .collect::<Vec<_>>(),
        ["type~Order"]
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_write_derives_is_bounded_before_it_is_derived() -> Result<()> {
    let world = World::new().await?;
    let tags = Index::keyed(
        "tag",
        Placement::OtherPartition,
        "t_{Tags[]}",
        "{PartitionKey}_{RowKey}",
    )?;
    let people = world.open(vec![tags.with_payload(Payload::Full)]).await?;
    let entity = |row: &str, elements: usize, bytes: usize| {
        let list: Vec<_> = (0..elements).map(|n| n.to_string()).collect();
        let filler = vec![0u8; bytes];
        let list = serde_json::to_string(&list).unwrap();
        Entity::new("p", row)
            .unwrap()
            .with("Tags", list)
            .with("Filler", filler)
    };
    let refused = |error: table_core::store::Error| {
        let text = error.to_string();
        assert!(text.contains("'tag'") && text.contains("at most"), "{text}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
    };
    refused(people.insert(entity("1", 1001, 0)).await.unwrap_err());
    refused(people.insert(entity("1", 1000, 20_000)).await.unwrap_err());
    let many: Vec<_> = (0..11)
        .map(|n| crate::journal::Change::insert(entity(&n.to_string(), 1000, 0)))
        .collect();
    refused(people.write(&many).await.unwrap_err());
    assert_eq!(entries(&world).await?, 0);
    people.insert(entity("1", 50, 100)).await?;
    Ok(())
}

/// Two programs declare at once: both find the pairing id of the first.
#[tokio::test(start_paused = true)]
async fn programs_that_declare_at_once_agree() -> Result<()> {
    let world = World::new().await?;
    let (a, b) = futures_util::join!(world.open(vec![anywhere()]), world.open(vec![anywhere()]));
    for program in [a?, b?] {
        program.refresh().await?;
        assert_eq!(program.state("any"), IndexState::Readable);
    }
    let consents = victims(&world).await?;
    assert_eq!(consents.len(), 1, "{consents:?}");
    let mut group = GroupTransaction::new(
        PartitionKey::new(MANIFEST_PARTITION)?,
        world.store.profile(),
    );
    group.push(Operation::Delete(consents[0].key().clone(), IfMatch::Any))?;
    world.store.transact(&other(), group).await?;
    assert_eq!(
        Manifest::load(&*world.store, &people())
            .await?
            .not_in_force
            .len(),
        1
    );
    Ok(())
}
