//! Plain tables and the manifest: a plain table refuses to write entities that have an index of any program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::Notify;

use crate::adapter::{Metered, RequestMeter};
use crate::forward_to_store;
use crate::manifest::{
    EntityType, IndexDefinition, IndexState, Manifest, Placement, StoredIndex, StoredType,
};
use crate::memory::MemoryStore;
use crate::model::{Entity, IfMatch, Key, MANIFEST_PARTITION, PartitionKey, TableName, Ticks};
use crate::query::{Continuation, Query, ReadablePage};
use crate::store::{
    Error, ErrorKind, ManifestCache, Operation, OperationKind, Result, StoreContext, TableStore,
    TableStoreExt as _,
};
use crate::typed::{Discriminator, PlainTable, SerdeTable, TableEntity};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Order")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key(format = "order_{:04}")]
    number: u32,
    total: i32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Customer")]
struct Customer {
    #[partition_key]
    shop: String,
    #[row_key(format = "customer_{:04}")]
    number: u32,
    name: Option<String>,
}

/// A type without a discriminator.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate)]
struct Note {
    #[partition_key]
    shop: String,
    #[row_key(format = "note_{:04}")]
    number: u32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Offer")]
struct Offer {
    #[partition_key]
    shop: String,
    #[row_key(format = "offer_{:04}")]
    number: u32,
    #[expires]
    until: Option<Ticks>,
}

fn order(number: u32) -> Order {
    Order {
        shop: "s".into(),
        number,
        total: 7,
    }
}

fn customer(number: u32) -> Customer {
    Customer {
        shop: "s".into(),
        number,
        name: None,
    }
}

fn shop() -> TableName {
    TableName::from_static("Shop")
}

/// Declares an index as another program does.
async fn declare(store: &dyn TableStore, of: EntityType) -> Result<StoredIndex> {
    let row_key = "total_{Total}_{RowKey}".parse()?;
    let definition = IndexDefinition::keyed("total", Placement::SamePartition, None, row_key);
    let definition = IndexDefinition {
        entity: of,
        ..definition
    };
    let index = StoredIndex::new(&definition, IndexState::DeleteOnly);
    store
        .write(&shop(), Operation::Insert(index.to_entity()?))
        .await?;
    Ok(index)
}

fn orders() -> EntityType {
    Order::SCHEMA.entity_type()
}

async fn metered() -> Result<(Arc<dyn TableStore>, RequestMeter)> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    store.create_table(&shop()).await?;
    meter.reset();
    Ok((store, meter))
}

/// The store as another process sees it, with its own cache. A guest may not read the manifest.
#[derive(Debug)]
struct Process {
    store: MemoryStore,
    context: StoreContext,
    guest: bool,
    /// Whether the answer of the next query waits for `go_on`.
    pauses_next_query: AtomicBool,
    go_on: Notify,
}

impl Process {
    fn of(store: &MemoryStore) -> Self {
        Self {
            store: store.clone(),
            context: StoreContext::new(store.profile()),
            guest: false,
            pauses_next_query: AtomicBool::new(false),
            go_on: Notify::new(),
        }
    }
}

#[async_trait]
impl TableStore for Process {
    forward_to_store!(self => self.store;
        profile, create_table, delete_table, list_tables, get, write, transact);

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        if self.guest && query.bounds().partition.as_single() == Some(MANIFEST_PARTITION) {
            return Err(
                ErrorKind::Forbidden("the signature is of one partition".to_owned()).into(),
            );
        }
        let page = self.store.query(table, query, from).await;
        if self.pauses_next_query.swap(false, Ordering::SeqCst) {
            self.go_on.notified().await;
        }
        page
    }

    fn context(&self) -> &StoreContext {
        &self.context
    }
}

fn assert_refused<T: std::fmt::Debug>(result: Result<T>, index: &StoredIndex) {
    let refused = result.expect_err("an index is of it");
    assert!(
        matches!(refused.root().kind(), ErrorKind::ManifestMismatch(_)),
        "{refused}"
    );
    let text = refused.to_string();
    for named in [
        "'Shop'",
        &*format!("'{}'", index.id()),
        "Table",
        "ignoring_indexes()",
    ] {
        assert!(text.contains(named), "{named}: {text}");
    }
}

/// A handle sees an index that another process declares after the handle was opened.
#[tokio::test(start_paused = true)]
async fn an_index_of_another_process_is_known_after_its_life() -> Result<()> {
    let shared = MemoryStore::new();
    shared.create_table(&shop()).await?;
    let meter = RequestMeter::new();
    let table =
        PlainTable::<Order>::new(Metered::new(Process::of(&shared), meter.clone()), "Shop")?;
    table.insert(&order(1)).await?;
    assert_eq!(
        (
            meter.total(),
            meter.snapshot().of_kind(OperationKind::Query)
        ),
        (2, 1),
        "it reads the manifest once"
    );
    table.insert(&order(2)).await?;
    table
        .clone()
        .view::<Customer>()?
        .insert(&customer(1))
        .await?;
    assert_eq!(meter.total(), 4, "clones and views know what it knows");

    let index = declare(&shared, orders()).await?;
    tokio::time::advance(ManifestCache::LIFE - Duration::from_secs(1)).await;
    table.insert(&order(3)).await?;
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_refused(table.insert(&order(4)).await, &index);
    assert_eq!(meter.total(), 6, "the manifest, and no write");
    assert_refused(
        table.delete(Order::key("s", 1u32)?, IfMatch::Any).await,
        &index,
    );
    assert_eq!(meter.total(), 6, "what was refused is remembered, too");
    assert!(table.get(Order::key("s", 4u32)?).await?.is_none());

    // An empty manifest is cached for the same time.
    shared
        .write(&shop(), Operation::Delete(index.key()?, IfMatch::Any))
        .await?;
    tokio::time::advance(ManifestCache::LIFE).await;
    table.insert(&order(4)).await?;
    Ok(())
}

#[tokio::test]
async fn an_index_of_this_process_is_known_at_once() -> Result<()> {
    let (store, meter) = metered().await?;
    let table = PlainTable::<Order>::new(store.clone(), "Shop")?;
    table.insert(&order(1)).await?;
    assert_eq!(
        meter.total(),
        1,
        "this process has created the table: its manifest is empty"
    );
    let index = declare(&*store, orders()).await?;
    meter.reset();
    let key = || Order::key("s", 1u32);
    assert_refused(table.insert(&order(2)).await, &index);
    assert_refused(table.upsert(&order(1)).await, &index);
    assert_refused(table.insert_or_merge(&order(1)).await, &index);
    assert_refused(table.replace_if(&order(1), IfMatch::Any).await, &index);
    assert_refused(
        table
            .merge(key()?, &Order::patch().total(8), IfMatch::Any)
            .await,
        &index,
    );
    assert_refused(
        table
            .update(key()?, |_| panic!("refused before it is read"))
            .await,
        &index,
    );
    assert_refused(table.delete_if_exists(key()?).await, &index);
    assert_refused(
        table.move_to(key()?, &table, Order::key("s", 9u32)?).await,
        &index,
    );
    assert_eq!(meter.total(), 1, "all by one reading of the manifest");

    let old = Entity::from(key()?.into_key())
        .with("EntityType", "Order")
        .with("total", 7);
    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(crate = crate, type = "Order", version = 2, previous = Order)]
    struct Newer {
        #[partition_key]
        shop: String,
        #[row_key(format = "order_{:04}")]
        number: u32,
        sum: i32,
    }
    impl From<Order> for Newer {
        fn from(
            Order {
                shop,
                number,
                total,
            }: Order,
        ) -> Self {
            Self {
                shop,
                number,
                sum: total,
            }
        }
    }
    assert_refused(table.view::<Newer>()?.upgrade_all().await, &index);
    assert_eq!(
        store
            .get(&shop(), old.key(), None)
            .await?
            .unwrap()
            .properties(),
        old.properties()
    );

    // Adapters of the same store share the cache.
    let other = PlainTable::<Order>::new(Metered::new(store.clone(), RequestMeter::new()), "shop")?;
    assert!(other.insert(&order(2)).await.is_err());
    Ok(())
}

#[tokio::test]
async fn another_type_of_the_table_is_written_freely_where_its_stored_type_is_known() -> Result<()>
{
    let (store, meter) = metered().await?;
    let index = declare(&*store, orders()).await?;
    meter.reset();
    let customers = PlainTable::<Customer>::new(store.clone(), "Shop")?;
    customers.insert(&customer(1)).await?;
    let named = Customer::patch().name("Ann".to_owned());
    customers
        .merge(Customer::key("s", 1u32)?, &named, IfMatch::Any)
        .await?;
    customers
        .update(Customer::key("s", 1u32)?, |customer| {
            customer.name = None;
            Ok(())
        })
        .await?;
    let stored = customers.get_versioned(Customer::key("s", 1u32)?).await?;
    let version = stored.expect("a customer").etag;
    customers.delete(Customer::key("s", 1u32)?, version).await?;
    assert_eq!(
        meter.total(),
        1 + 1 + 2 + 2 + 1 + 1,
        "beside the counts of each, one for the manifest"
    );
    // A write that accepts whatever is stored may meet an order.
    assert_refused(customers.upsert(&customer(1)).await, &index);
    assert_refused(
        customers
            .delete(Customer::key("s", 1u32)?, IfMatch::Any)
            .await,
        &index,
    );
    assert_refused(
        PlainTable::<Note>::new(store.clone(), "Shop")?
            .insert(&Note {
                shop: "s".into(),
                number: 1,
            })
            .await,
        &index,
    );

    // If the discriminator is in the key, the key of the write decides.
    store
        .write(&shop(), Operation::Delete(index.key()?, IfMatch::Any))
        .await?;
    let of_keys = EntityType {
        name: "Scrap".into(),
        discriminator: Discriminator::RowPrefix("order_".into()),
        ..EntityType::ANY
    };
    let index = declare(&*store, of_keys).await?;
    customers.insert(&customer(1)).await?;
    PlainTable::<Note>::new(store.clone(), "Shop")?
        .insert(&Note {
            shop: "s".into(),
            number: 1,
        })
        .await?;
    assert_refused(
        PlainTable::<Order>::new(store, "Shop")?
            .insert(&order(1))
            .await,
        &index,
    );
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, discriminator(row_prefix), partition_key = "s", row_key = "memo_{number:04}")]
struct Memo {
    number: u32,
}

/// Another program, which the derive macros do not check, has a type whose keys begin like those of this program's type.
#[tokio::test]
async fn types_whose_keys_begin_alike_do_not_share_a_table() -> Result<()> {
    for (start, is_refused) in [
        ("memo", true),
        ("memo_old_", true),
        ("memo_", false),
        ("memos_", false),
    ] {
        let (store, _) = metered().await?;
        let stored = StoredType {
            entity: Some(EntityType {
                name: "Other".into(),
                discriminator: Discriminator::RowPrefix(start.into()),
                ..EntityType::ANY
            }),
            ..StoredType::from_schema(Memo::SCHEMA)
        };
        store.write(&shop(), stored.operation()?).await?;
        let memos = PlainTable::<Memo>::new(store, "Shop")?;
        match memos.insert(&Memo { number: 1 }).await {
            Err(error) if is_refused => {
                let text = error.to_string();
                assert!(
                    text.contains("has Other, whose keys begin like those of Memo"),
                    "{text}"
                );
            }
            done => assert!(done.is_ok() && !is_refused, "{start}: {done:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_unmanaged_table_reads_and_checks_nothing() -> Result<()> {
    let (store, meter) = metered().await?;
    declare(&*store, orders()).await?;
    meter.reset();
    let table = PlainTable::<Order>::new(store, "Shop")?.ignoring_indexes();
    table.insert(&order(1)).await?;
    let mut group = table.group(Order::partition("s")?);
    group
        .insert(&order(2))?
        .delete(Order::key("s", 1u32)?, IfMatch::Any)?;
    group.commit().await?;
    assert_eq!(meter.total(), 2);
    Ok(())
}

#[tokio::test]
async fn without_permission_to_read_the_manifest_the_error_names_unmanaged_tables() -> Result<()> {
    let shared = MemoryStore::new();
    shared.create_table(&shop()).await?;
    let table = PlainTable::<Order>::new(
        Process {
            guest: true,
            ..Process::of(&shared)
        },
        "Shop",
    )?;
    let refused: Error = table.insert(&order(1)).await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Forbidden(_)),
        "{refused}"
    );
    let text = refused.to_string();
    assert!(
        text.contains("of one partition")
            && text.contains("ignoring_indexes()")
            && text.contains("'Shop'"),
        "{text}"
    );
    table.ignoring_indexes().insert(&order(1)).await?;
    Ok(())
}

#[tokio::test]
async fn groups_are_checked_by_the_types_in_them() -> Result<()> {
    let (store, meter) = metered().await?;
    let table = PlainTable::<Order>::new(store.clone(), "Shop")?;
    table.insert(&order(1)).await?;
    table.view::<Customer>()?.insert(&customer(1)).await?;
    let index = declare(&*store, orders()).await?;
    meter.reset();
    let group = || table.group(PartitionKey::new("s").unwrap());
    let (mut free, mut bound) = (group(), group());
    free.insert(&customer(2))?.upsert(&customer(3))?;
    free.commit().await?;
    assert_eq!(
        meter.total(),
        1 + 1 + 1,
        "the manifest, what the upsert replaces, the group"
    );
    bound.insert(&customer(4))?.insert(&order(2))?;
    let refused = bound.commit().await;
    assert_eq!(refused.as_ref().unwrap_err().failed_index(), Some(1));
    assert_refused(refused, &index);

    // The type of a deleted entity is known only from the stored row.
    let (mut free, mut bound) = (group(), group());
    free.delete(Customer::key("s", 1u32)?, IfMatch::Any)?;
    meter.reset();
    free.commit().await?;
    assert_eq!(meter.total(), 2, "the row, and the group");
    bound.delete(Order::key("s", 1u32)?, IfMatch::Any)?;
    assert_refused(bound.commit().await, &index);
    assert!(table.get(Order::key("s", 1u32)?).await?.is_some());
    Ok(())
}

#[tokio::test]
async fn dynamic_entities_are_checked_one_by_one() -> Result<()> {
    let (store, _) = metered().await?;
    PlainTable::<Order>::new(store.clone(), "Shop")?
        .insert(&order(1))
        .await?;
    let index = declare(&*store, orders()).await?;
    let table = PlainTable::<Entity>::new(store.clone(), "Shop")?;
    let group = |operation: Operation| {
        let mut group = table.group(PartitionKey::new("s").unwrap());
        group.push(operation).map(drop).map(|()| group)
    };
    let free = Entity::new("s", "x")?.with("Total", 1);
    group(Operation::Insert(free.clone()))?.commit().await?;
    group(Operation::InsertOrReplace(free.clone()))?
        .commit()
        .await?;
    group(Operation::Merge(free.clone(), IfMatch::Any))?
        .commit()
        .await?;
    group(Operation::Delete(free.key().clone(), IfMatch::Any))?
        .commit()
        .await?;
    group(Operation::InsertOrMerge(free))?.commit().await?;

    let new = Entity::new("s", "y")?.with("EntityType", "Order");
    assert_refused(group(Operation::Insert(new))?.commit().await, &index);
    let stored = || Entity::new("s", "order_0001").unwrap().with("Total", 1);
    for over in [
        Operation::InsertOrReplace(stored()),
        Operation::InsertOrMerge(stored()),
        Operation::Merge(stored(), IfMatch::Any),
        Operation::Replace(stored(), IfMatch::Any),
        Operation::Delete(stored().key().clone(), IfMatch::Any),
    ] {
        assert_refused(group(over)?.commit().await, &index);
    }
    let system = Entity::new("s", "~~lock")?.with("By", "me");
    group(Operation::InsertOrReplace(system))?.commit().await?;
    Ok(())
}

#[tokio::test]
async fn a_missing_table_is_an_error_and_a_new_table_is_read() -> Result<()> {
    let store = MemoryStore::new();
    let table = PlainTable::<Order>::new(store.clone(), "Shop")?;
    assert!(
        table
            .insert(&order(1))
            .await
            .unwrap_err()
            .is_table_not_found()
    );
    store.create_table(&shop()).await?;
    declare(&store, orders()).await?;
    assert!(table.insert(&order(1)).await.is_err());
    store.delete_table(&shop()).await?;
    assert!(
        table
            .insert(&order(1))
            .await
            .unwrap_err()
            .is_table_not_found()
    );
    store.create_table(&shop()).await?;
    table.insert(&order(1)).await.map(drop)
}

/// A change of the manifest waits for the writes that know only the earlier manifest.
#[tokio::test]
async fn a_write_is_waited_for() -> Result<()> {
    let store = MemoryStore::new();
    store.create_table(&shop()).await?;
    let writers = store
        .context()
        .local_writers()
        .expect("only this process writes");
    let rests_on = store.plain_write(&shop()).await?;
    let change = writers.change("shop");
    assert!(!change.is_known());
    drop(rests_on);
    assert!(change.is_known());
    Ok(())
}

async fn paused_process() -> Result<(Arc<Process>, Arc<ManifestCache>)> {
    let shared = MemoryStore::new();
    shared.create_table(&shop()).await?;
    let process = Process::of(&shared);
    process.pauses_next_query.store(true, Ordering::SeqCst);
    Ok((
        Arc::new(process),
        Arc::new(ManifestCache::new(shared.profile())),
    ))
}

#[tokio::test]
async fn one_task_reads_for_all_and_another_task_after_its_future_is_dropped() -> Result<()> {
    let (process, cache) = paused_process().await?;
    let meter = RequestMeter::new();
    let store = Metered::new(process.clone(), meter.clone());
    let table = shop();
    let (mut first, mut second) = (
        Box::pin(cache.get(&store, &table)),
        Box::pin(cache.get(&store, &table)),
    );
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    assert_eq!(meter.total(), 1);
    process.go_on.notify_one();
    first.await?;
    assert_eq!(second.await?, Arc::new(Manifest::default()));
    assert_eq!(meter.total(), 1);

    cache.forget(&shop());
    process.pauses_next_query.store(true, Ordering::SeqCst);
    let (mut first, mut second) = (
        Box::pin(cache.get(&store, &table)),
        Box::pin(cache.get(&store, &table)),
    );
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    drop(first);
    second.await?;
    assert_eq!(meter.total(), 3);
    Ok(())
}

/// The answer to a read that started before the manifest changed is outdated.
#[tokio::test]
async fn a_manifest_that_was_read_before_a_change_is_not_cached() -> Result<()> {
    let (process, cache) = paused_process().await?;
    let table = shop();
    let mut reading = Box::pin(cache.get(&*process, &table));
    assert!(reading.as_mut().now_or_never().is_none());
    let change = cache.change(&table);
    declare(&process.store, orders()).await?;
    drop(change);
    process.go_on.notify_one();
    assert!(
        reading.await?.indexes.is_empty(),
        "the read began before the change"
    );
    assert_eq!(cache.get(&*process, &table).await?.indexes.len(), 1);

    // A manifest row may be written before the creator of the table has its answer: the manifest is not cached as empty.
    let new = cache.new_table(&table, None);
    drop(cache.change(&table));
    new.created();
    assert!(cache.known(None, &table).is_none());
    Ok(())
}

/// A backend that does not inform its cache of the manifest rows that it writes. The first write of a type with an expiry adds such a row.
#[tokio::test]
async fn a_type_is_registered_in_a_store_that_does_not_notice_its_manifest_rows() -> Result<()> {
    let shared = MemoryStore::new();
    shared.create_table(&shop()).await?;
    let meter = RequestMeter::new();
    let store = Metered::new(Process::of(&shared), meter.clone());
    let table = PlainTable::<Offer>::new(store, "Shop")?;
    let offer = Offer {
        shop: "s".into(),
        number: 1,
        until: None,
    };
    table.insert(&offer).await?;
    assert_eq!(
        meter.total(),
        4,
        "the manifest twice, its row, and the entity"
    );
    Ok(())
}

/// A table of serde types is a plain table too.
#[tokio::test]
async fn a_serde_table_refuses_rows_with_an_index() -> Result<()> {
    let (store, meter) = metered().await?;
    declare(&*store, Note::SCHEMA.entity_type()).await?;
    meter.reset();
    let key = |_: &BTreeMap<String, String>| Key::new("s", "note_0001");
    let table = SerdeTable::with_keys(store, "Shop", key)?;
    let row: BTreeMap<String, String> = [("Total".to_owned(), "7".to_owned())].into();
    let error = table.insert(&row).await.expect_err("an index").to_string();
    assert!(
        error.contains("has the index 'total.") && error.contains("ignoring_indexes"),
        "{error}"
    );
    assert_eq!(meter.snapshot().of_kind(OperationKind::Insert), 0);
    table.ignoring_indexes().insert(&row).await?;
    Ok(())
}
