//! Indexes together with other indexes, tables, processes and versions of the program.

use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::store::{ErrorKind, Operation, Result, TableStore, TableStoreExt};

use super::world::{World, by_city, list_of, person, rows_left, text};
use crate::index::{
    Index, IndexOptions, IndexState, IndexedEntities, Payload, Placement, ScrubMode, Shape, Trust,
};

/// An index whose keys can collide with those of another such index.
fn named(name: &'static str) -> Index {
    let index = Index::new(
        name.to_lowercase(),
        Placement::SamePartition,
        "1",
        move |e| {
            text(e, name)
                .map(|text| Key::new("p", format!("name_{text}")))
                .transpose()
        },
    );
    index.unique_within_partition().with_payload(Payload::Full)
}

#[tokio::test(start_paused = true)]
async fn a_lookup_ignores_the_entry_of_another_index() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![named("Nick"), named("Login")]).await?;
    people
        .insert(
            Entity::new("p", "1")?
                .with("Nick", "bob")
                .with("Login", "x"),
        )
        .await?;
    people
        .insert(Entity::new("p", "name_kim")?.with("Age", 40))
        .await?;
    let found = async |index: &str, name: &str, trust| {
        let key = Key::new("p", format!("name_{name}"))?;
        Ok::<_, table_core::Error>(
            people
                .find(index, &key, trust)
                .await?
                .map(|e| e.key().row().to_owned()),
        )
    };
    for trust in [Trust::Entry, Trust::Entity] {
        assert_eq!(found("nick", "bob", trust).await?.as_deref(), Some("1"));
        assert_eq!(found("login", "bob", trust).await?, None);
        assert_eq!(
            found("login", "kim", trust).await?,
            None,
            "an entity is no entry"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_handle_opened_to_read_refuses_writes() -> Result<()> {
    let world = World::new().await?;
    let index = || by_city(Placement::SamePartition, Shape::LIST);
    let people = world.open(vec![index(), named("Nick")]).await?;
    people.insert(person(1, "oslo")?).await?;
    let (store, table) = (world.store.clone(), people.table().clone());
    let mut slow = IndexOptions::default();
    slow.cache *= 100;
    let before = world.meter.total();
    let reader = IndexedEntities::open_to_read(store, table, vec![index()], slow).await?;
    assert_eq!(
        world.meter.total() - before,
        1,
        "the manifest; it need not know every index"
    );
    assert_eq!(
        reader.list("city", &list_of(&index(), "oslo")).await?.len(),
        1
    );
    assert_eq!(reader.scrub("city", ScrubMode::Report).await?.missing, 0);
    let before = world.meter.total();
    let old = reader.get_existing(person(1, "oslo")?.key()).await?;
    let refused = [
        reader.insert(person(2, "oslo")?).await.map(drop),
        reader.delete(&old).await.map(drop),
        reader
            .journal()
            .write(&[], Default::default())
            .await
            .map(drop),
        reader
            .journal()
            .sweep(&[], std::time::Duration::ZERO)
            .await
            .map(drop),
        reader.scrub("city", ScrubMode::Repair).await.map(drop),
        reader.build("city").map(drop),
        reader.rebuild("city").await.map(drop),
        reader.collect_blobs("city").await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("'People' was opened to read"), "{error}");
    }
    assert_eq!(
        world.meter.total() - before,
        1 + 1,
        "a read, and the sweep's look at the journal"
    );
    // A change of state does not wait for the reader's cache.
    let started = tokio::time::Instant::now();
    people.drop_index("nick").await?;
    assert!(started.elapsed() < std::time::Duration::from_secs(30));
    Ok(())
}

/// Its row names the type by a discriminator that this program does not know.
#[tokio::test(start_paused = true)]
async fn an_index_of_a_later_format_is_dropped() -> Result<()> {
    for state in [IndexState::Readable, IndexState::DeleteOnly] {
        let world = World::new().await?;
        let people = world
            .open(vec![by_city(Placement::OtherPartition, Shape::Row)])
            .await?;
        people.insert(person(1, "oslo")?).await?;
        let table = people.table().clone();
        let declared = people.declared().await?.remove(0);
        let mut row = declared.state_patch(
            state,
            (state == IndexState::DeleteOnly).then_some("~leaving"),
        )?;
        row.properties_mut().set("Format", 99);
        row.properties_mut()
            .set("Discriminator", r#"{"suffix":"x"}"#);
        world
            .store
            .write(&table, Operation::Merge(row, IfMatch::Any))
            .await?;

        let upkeep = IndexedEntities::open_for_upkeep(
            world.store.clone(),
            table.clone(),
            IndexOptions::local(),
        );
        let upkeep = upkeep.await?;
        let later = upkeep.declared().await?.remove(0);
        assert_eq!(later.entity, None);
        assert_eq!(
            later.key()?,
            declared.key()?,
            "the key of the row that was read"
        );
        let id = later.id();
        let drop = upkeep.drop_index(&id);
        tokio::time::timeout(std::time::Duration::from_secs(3600), drop)
            .await
            .expect("the drop ends")?;
        assert_eq!(upkeep.declared().await?, []);
        assert_eq!(rows_left(&world, "People").await?, 1, "the entity");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_scrub_refuses_an_absent_index() -> Result<()> {
    let world = World::new().await?;
    world.open(vec![]).await?.insert(person(1, "oslo")?).await?;
    let summary = by_city(Placement::SamePartition, Shape::summary::<&str>([]));
    for index in [summary, by_city(Placement::SamePartition, Shape::Row)] {
        let people = world.open(vec![index]).await?;
        let rows = world
            .store
            .query_all(people.table(), &Default::default())
            .await?
            .len();
        for mode in [ScrubMode::Report, ScrubMode::Repair] {
            let error = people.scrub("city", mode).await.unwrap_err().to_string();
            assert!(
                error.contains("'city'") && error.contains("absent") && error.contains("build"),
                "{error}"
            );
        }
        assert_eq!(
            world
                .store
                .query_all(people.table(), &Default::default())
                .await?
                .len(),
            rows
        );
        people.build("city")?.run().await?;
        assert_eq!(people.scrub("city", ScrubMode::Repair).await?.missing, 0);
        people.drop_index("city").await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn copies_into_another_table_with_indexes_are_refused() -> Result<()> {
    let world = World::new().await?;
    let other = TableName::new("ByCity")?;
    let copies = || {
        let at = Placement::OtherTable(TableName::new("ByCity").unwrap());
        let index = Index::new("mayor", at, "1", |e| {
            text(e, "MayorOf")
                .map(|city| Key::new("cities", city))
                .transpose()
        });
        index.with_shape(Shape::copy("Mayor", ["Name"]))
    };
    let (store, options) = (world.store.clone(), IndexOptions::local());
    let cities = Index::keyed("size", Placement::SamePartition, "", "size_{Size}_{RowKey}")?;
    let cities =
        IndexedEntities::open(store.clone(), other.clone(), vec![cities], options.clone()).await?;
    let error = world.open(vec![copies()]).await.unwrap_err().to_string();
    assert!(
        error.contains("'mayor'") && error.contains("'ByCity'"),
        "{error}"
    );
    cities.drop_index("size").await?;
    let people = world.open(vec![copies()]).await?;
    store
        .write(&other, Operation::Insert(Entity::new("cities", "oslo")?))
        .await?;
    people.build("mayor")?.run().await?;
    people
        .insert(
            Entity::new("p", "1")?
                .with("Name", "kim")
                .with("MayorOf", "oslo"),
        )
        .await?;
    let oslo = store
        .get_existing(&other, &Key::new("cities", "oslo")?)
        .await?;
    assert_eq!(text(&oslo, "MayorName"), Some("kim"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_list_of_a_newer_format_is_not_changed() -> Result<()> {
    let world = World::new().await?;
    let index = by_city(Placement::SamePartition, Shape::LIST);
    let people = world.open(vec![index.clone()]).await?;
    people.insert(person(1, "oslo")?).await?;
    let at = list_of(&index, "oslo");
    let list = world.store.get_existing(people.table(), &at).await?;
    for property in ["List0", "ListChunks0"] {
        let newer = list.clone().with(property, vec![2u8, 0, 0]);
        world
            .store
            .write(people.table(), Operation::InsertOrReplace(newer))
            .await?;
        for mode in [ScrubMode::Report, ScrubMode::Repair] {
            let error = people.scrub("city", mode).await.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Unsupported { .. }),
                "{error}"
            );
            assert!(
                error.to_string().contains("format 2") && error.to_string().contains("city_oslo"),
                "{error}"
            );
        }
        assert!(people.references("city", &at).await.is_err());
        assert!(world.store.get(people.table(), &at, None).await?.is_some());
    }
    people.rebuild("city").await?.run().await?;
    assert_eq!(people.references("city", &at).await?.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_builders_is_refused() -> Result<()> {
    let world = World::new().await?;
    // As two processes: in one process, the first build would end before the second begins.
    world.store.context().local_writers().unwrap().serve();
    world.open(vec![]).await?.insert(person(1, "oslo")?).await?;
    let open = || world.open(vec![by_city(Placement::OtherPartition, Shape::Row)]);
    let (one, two) = (open().await?, open().await?);
    let (first, second) = tokio::join!(one.build("city")?.run(), two.build("city")?.run());
    let (built, refused) = if first.is_ok() {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(built?.state, IndexState::Readable);
    let error = refused.unwrap_err();
    assert!(
        error.to_string().contains("another process") && error.to_string().contains("'city'"),
        "{error}"
    );
    assert!(!error.is_precondition_failed());
    Ok(())
}

/// A program without the Rust code of an index sees the state of the index in the manifest.
#[tokio::test(start_paused = true)]
async fn the_state_of_an_index_that_cannot_be_maintained_is_known() -> Result<()> {
    let world = World::new().await?;
    let people = world.open(vec![named("Nick")]).await?;
    people
        .insert(Entity::new("p", "1")?.with("Nick", "bob"))
        .await?;
    let (store, table) = (world.store.clone(), people.table().clone());
    let upkeep = IndexedEntities::open_for_upkeep(store, table, IndexOptions::local()).await?;
    assert_eq!(upkeep.state("nick"), IndexState::Readable);
    assert_eq!(upkeep.state(named("Nick").id()), IndexState::Readable);
    assert_eq!(upkeep.state("login"), IndexState::Absent);
    let error = upkeep
        .scrub("nick", ScrubMode::Report)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'People' needs Rust code that this program does not have"),
        "{error}"
    );
    Ok(())
}
