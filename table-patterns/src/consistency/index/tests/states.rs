//! States of indexes that expire while a write is under way.

use std::sync::Arc;
use std::time::Duration;

use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::manifest::Manifest;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, TableName, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, OperationKind, Result, TableStore, TableStoreExt};

use crate::index::{
    Entry, Index, IndexOptions, IndexState, IndexedEntities, Placement, Shape, Trust,
};

fn by(name: &'static str, property: &'static str) -> Index {
    Index::new(name, Placement::SamePartition, "1", move |e| {
        match e.get(property) {
            Some(ValueRef::String(value)) => {
                Key::new(e.key().partition(), format!("{name}_{value}")).map(Some)
            }
            _ => Ok(None),
        }
    })
}

async fn open(store: Arc<dyn TableStore>) -> Result<IndexedEntities> {
    let table = TableName::new("People")?;
    store.create_table_if_missing(&table).await?;
    let indexes = vec![
        by("city", "City").with_shape(Shape::LIST),
        by("name", "Name"),
    ];
    IndexedEntities::open(store, table, indexes, IndexOptions::local()).await
}

/// A slow read of a list lets the states expire between the plan and the group.
#[tokio::test(start_paused = true)]
async fn a_group_is_not_sent_under_expired_states() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let operator = open(store.clone()).await?;
    let faults = FaultInjector::new(1);
    let writer = open(Arc::new(Faulty::new(store.clone(), faults.clone()))).await?;
    faults.add(
        FaultRule::new(Fault::DelayAnswer(Duration::from_secs(10)))
            .on(OperationKind::Get)
            .nth(1),
    );
    let person = Entity::new("p", "1")?
        .with("City", "oslo")
        .with("Name", "ken");
    let (inserted, dropped) = tokio::join!(writer.insert(person), operator.drop_index("name"));
    inserted?;
    dropped?;
    assert_eq!(faults.injected().len(), 1);
    assert_eq!(writer.state("name"), IndexState::Absent);
    assert!(
        store
            .query_all(writer.table(), &of_name())
            .await?
            .is_empty(),
        "an entry of a dropped index"
    );
    Ok(())
}

/// A group that an adapter delays is dropped when its states expire.
#[tokio::test(start_paused = true)]
async fn a_delayed_group_is_dropped_when_its_states_expire() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let operator = open(store.clone()).await?;
    let faults = FaultInjector::new(1);
    let writer = open(Arc::new(Faulty::new(store.clone(), faults.clone()))).await?;
    faults.add(
        FaultRule::new(Fault::Delay(Duration::from_secs(10)))
            .on(OperationKind::Transact)
            .nth(1),
    );
    let person = Entity::new("p", "1")?
        .with("City", "oslo")
        .with("Name", "ken");
    let later = tokio::time::sleep(Duration::from_secs(20));
    let (inserted, dropped, ()) =
        tokio::join!(writer.insert(person), operator.drop_index("name"), later);
    dropped?;
    assert!(inserted.is_err_and(|error| error.is_ambiguous()));
    assert_eq!(faults.injected().len(), 1);
    assert!(
        store
            .query_all(writer.table(), &of_name())
            .await?
            .is_empty(),
        "an entry of a dropped index"
    );
    Ok(())
}

/// A delayed group of a builder is dropped at the end of the lease: another builder may have continued.
#[tokio::test(start_paused = true)]
async fn a_delayed_group_of_a_build_is_dropped_at_the_end_of_its_lease() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table = TableName::new("People")?;
    store.create_table(&table).await?;
    for id in ["1", "2"] {
        let person = Entity::new("p", id)?.with("Name", id);
        store.write(&table, Operation::Insert(person)).await?;
    }
    let faults = FaultInjector::new(1);
    let builder = open(Arc::new(Faulty::new(store.clone(), faults.clone()))).await?;
    // The first group declares the index.
    faults.add(
        FaultRule::new(Fault::Delay(Duration::from_secs(10)))
            .on(OperationKind::Transact)
            .nth(2),
    );
    let error = builder.build("name")?.run().await.unwrap_err();
    assert!(error.is_ambiguous(), "{error}");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(
        store.query_all(&table, &of_name()).await?.is_empty(),
        "the group left after all"
    );
    builder.build("name")?.run().await?;
    assert_eq!(store.query_all(&table, &of_name()).await?.len(), 2);
    Ok(())
}

/// A builder waits for a process with a longer cache time.
#[tokio::test(start_paused = true)]
async fn a_build_waits_for_a_process_with_a_longer_cache_time() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table = TableName::new("People")?;
    store.create_table(&table).await?;
    let process = async |options: IndexOptions| {
        let built_later = vec!["name".to_owned()];
        let options = IndexOptions {
            built_later,
            ..options
        };
        IndexedEntities::open(
            store.clone(),
            table.clone(),
            vec![by("name", "Name")],
            options,
        )
        .await
    };
    let (slow, quick) = (
        process(IndexOptions::default()).await?,
        process(IndexOptions::local()).await?,
    );
    let write = async {
        // The slower process still knows the index as absent.
        tokio::time::sleep(Duration::from_secs(20)).await;
        slow.insert(Entity::new("p", "1")?.with("Name", "ken"))
            .await
    };
    let (built, written) = tokio::join!(quick.build("name")?.run(), write);
    built?;
    written?;
    let found = quick
        .find("name", &Key::new("p", "name_ken")?, Trust::Entry)
        .await?;
    assert!(
        found.is_some(),
        "an entity without its entry in a readable index"
    );
    Ok(())
}

/// A program that has opened an empty table may write without a later index, so that index is readable only after its build.
#[tokio::test(start_paused = true)]
async fn a_later_index_of_an_open_table_is_absent() -> Result<()> {
    for known in [vec![], vec![by("city", "City")]] {
        let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
        let table = TableName::new("People")?;
        store.create_table(&table).await?;
        let process = async |indexes: Vec<Index>| {
            IndexedEntities::open(store.clone(), table.clone(), indexes, IndexOptions::local())
                .await
        };
        let writer = process(known).await?;
        let later = process(vec![by("city", "City"), by("name", "Name")]).await?;
        assert_eq!(
            later.state("name"),
            IndexState::Absent,
            "the writer does not know it"
        );
        writer
            .insert(Entity::new("p", "1")?.with("Name", "ken"))
            .await?;
        later.build("name")?.run().await?;
        assert!(
            later
                .find("name", &Key::new("p", "name_ken")?, Trust::Entry)
                .await?
                .is_some()
        );
    }
    Ok(())
}

/// All programs that open a new table concurrently can read by its indexes.
#[tokio::test(start_paused = true)]
async fn concurrent_first_opens_all_have_readable_indexes() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let slow = |nth| {
        let faults = FaultInjector::new(1);
        faults.add(
            FaultRule::new(Fault::Delay(Duration::from_millis(50)))
                .on(OperationKind::Transact)
                .nth(nth),
        );
        Arc::new(Faulty::new(store.clone(), faults)) as Arc<dyn TableStore>
    };
    let (first, second, third) = tokio::join!(open(slow(1)), open(slow(2)), open(store.clone()));
    for people in [first?, second?, third?] {
        assert_eq!(
            [people.state("city"), people.state("name")],
            [IndexState::Readable; 2]
        );
    }
    Ok(())
}

/// A manifest with only the table's own row declares no index.
#[tokio::test]
async fn opening_without_indexes_leaves_a_table_plain() -> Result<()> {
    let store: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let table = TableName::new("People")?;
    store.create_table(&table).await?;
    IndexedEntities::open(
        store.clone(),
        table.clone(),
        Vec::new(),
        IndexOptions::local(),
    )
    .await?;
    assert!(Manifest::load(&*store, &table).await?.indexes.is_empty());
    open(store.clone()).await?.build("city")?.run().await?;
    assert!(!Manifest::load(&*store, &table).await?.indexes.is_empty());
    Ok(())
}

fn of_name() -> Query {
    Query::new().with_filter(Filter::eq(Entry::INDEX, by("name", "Name").id()))
}
