mod states;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use table_core::adapter::{Metered, RequestMeter};
use table_core::forward_to_store;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::query::{Continuation, Filter, Query, ReadablePage};
use table_core::queue::WorkQueue;
use table_core::store::{
    Error, GroupTransaction, KeyOrder, Operation, Outcome, Result, ServiceProfile, StoreContext,
    TableStore, TableStoreExt as _, Written,
};
use table_core::typed::TableEntity;

use super::{Change, ChangeHandler, ChangeKind, Changes, ToQueue};
use crate::queue::TableQueue;
use crate::{Database, Table};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", feed)]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key]
    number: u32,
    paid: bool,
}

fn order(number: u32) -> Order {
    Order {
        customer: "ann".to_owned(),
        number,
        paid: false,
    }
}

async fn open() -> Result<(Table<Order>, RequestMeter)> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let orders = open_over(store).await?;
    Ok((orders, meter))
}

async fn open_over(store: Arc<dyn TableStore>) -> Result<Table<Order>> {
    let orders = Database::new(store).table::<Order>("Orders")?;
    orders.declare().await?;
    Ok(orders)
}

/// The store as another process has it: it shares nothing but the rows.
fn another_process(store: &Arc<dyn TableStore>) -> Arc<dyn TableStore> {
    #[derive(Debug)]
    struct Process {
        store: Arc<dyn TableStore>,
        context: StoreContext,
    }

    #[async_trait]
    impl TableStore for Process {
        forward_to_store!(self => self.store; profile, create_table, delete_table, list_tables, get, query, write, transact);

        fn context(&self) -> &StoreContext {
            &self.context
        }
    }

    Arc::new(Process {
        store: Arc::clone(store),
        context: StoreContext::new(store.profile()),
    })
}

fn ann() -> PartitionKey {
    PartitionKey::new("ann").unwrap()
}

/// Collects changes, and fails at one.
#[derive(Default)]
struct Collected {
    numbers: Mutex<Vec<i64>>,
    fails_at: Mutex<Option<i64>>,
}

#[async_trait]
impl ChangeHandler for Collected {
    async fn handle(&self, change: &Change) -> Result<()> {
        if *self.fails_at.lock().unwrap() == Some(change.number) {
            return Err(Error::application("the handler is not ready"));
        }
        self.numbers.lock().unwrap().push(change.number);
        Ok(())
    }
}

#[tokio::test]
async fn a_write_is_one_group_after_the_first() -> Result<()> {
    let (orders, meter) = open().await?;
    let (_, first) = meter.measure(orders.insert(&order(1))).await;
    assert_eq!(first.total(), 2, "the counter, and the group");
    let (_, next) = meter.measure(orders.insert(&order(2))).await;
    assert_eq!(next.total(), 1);
    // Another handle of the process knows the counter, too.
    let other = open_over(Arc::clone(orders.store())).await?;
    let (_, of_other) = meter.measure(other.insert(&order(5))).await;
    assert_eq!(of_other.total(), 1);
    // Another process does not.
    let process = open_over(another_process(orders.store())).await?;
    process.insert(&order(3)).await?;
    let (done, conflict) = meter.measure(orders.insert(&order(4))).await;
    done?;
    assert_eq!(
        conflict.total(),
        3,
        "a lost number, the counter, and the group"
    );
    Ok(())
}

#[tokio::test]
async fn a_refused_write_emits_nothing() -> Result<()> {
    let (orders, _) = open().await?;
    orders.insert(&order(1)).await?;
    assert!(
        orders
            .insert(&order(1))
            .await
            .unwrap_err()
            .is_already_exists()
    );
    assert!(
        orders
            .delete(Order::key("ann", 9u32)?, IfMatch::Any)
            .await
            .unwrap_err()
            .is_entity_not_found()
    );
    assert!(!orders.delete_if_exists(Order::key("ann", 9u32)?).await?);
    let refused = orders
        .update(Order::key("ann", 1u32)?, |_| Err(Error::application("no")))
        .await;
    assert!(refused.is_err());
    orders
        .delete(Order::key("ann", 1u32)?, IfMatch::Any)
        .await?;
    let changes = orders.changes().after(&ann(), 0).await?;
    let seen: Vec<_> = changes
        .iter()
        .map(|change| (change.number, change.kind))
        .collect();
    assert_eq!(seen, [(1, ChangeKind::Inserted), (2, ChangeKind::Deleted)]);
    assert_eq!(changes[1].key, *Order::key("ann", 1u32)?.key());
    assert_eq!(
        orders.query().count().await?,
        0,
        "rows of the feed are no entities"
    );
    Ok(())
}

#[tokio::test]
async fn a_consumer_goes_on_at_its_cursor() -> Result<()> {
    let (orders, _) = open().await?;
    for number in 1..=250 {
        orders.upsert(&order(number)).await?;
    }
    let (mailer, handler) = (orders.changes().consumer("mailer"), Collected::default());
    *handler.fails_at.lock().unwrap() = Some(130);
    let delivered = mailer.run_once(&handler).await?;
    assert_eq!(delivered.failed.len(), 1);
    *handler.fails_at.lock().unwrap() = None;
    assert_eq!(mailer.run_once(&handler).await?.changes, 121);
    assert_eq!(
        *handler.numbers.lock().unwrap(),
        (1..=250).collect::<Vec<_>>(),
        "in order, each once"
    );
    assert_eq!(mailer.run_once(&handler).await?.changes, 0);

    // Another consumer gets every change. A trim removes what both have handled.
    let (search, other) = (orders.changes().consumer("search"), Collected::default());
    assert_eq!(
        orders.changes().trim(&ann(), &["mailer", "search"]).await?,
        0
    );
    assert_eq!(search.deliver(&ann(), &other).await?, 250);
    orders.insert(&order(999)).await?;
    assert_eq!(
        orders.changes().trim(&ann(), &["mailer", "search"]).await?,
        250
    );
    assert_eq!(search.deliver(&ann(), &other).await?, 1);
    assert_eq!(other.numbers.lock().unwrap().last(), Some(&251));
    assert!(orders.changes().trim(&ann(), &[]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn set_operations_emit_a_change_for_each_entity() -> Result<()> {
    let (orders, meter) = open().await?;
    for number in 1..=100 {
        orders.insert(&order(number)).await?;
    }
    let pay = |order: &mut Order| {
        order.paid = order.number > 40;
        Ok(())
    };
    let (summary, cost) = meter.measure(orders.query().update(pay)).await;
    let summary = summary?;
    assert_eq!(summary.written, 60, "49 and 11 entities");
    assert_eq!(summary.unchanged, 40, "49 and 11 entities");
    assert_eq!(summary.requests, 2, "49 and 11 entities");
    assert!(
        cost.total() <= 6,
        "a page, 2 groups, and a lost number of one of them: {}",
        cost.total()
    );
    assert_eq!(orders.query().delete().await?.into_result()?, 100);
    let changes = orders.changes().after(&ann(), 0).await?;
    assert_eq!(
        changes
            .iter()
            .map(|change| change.number)
            .collect::<Vec<_>>(),
        (1..=260).collect::<Vec<_>>()
    );
    assert_eq!(
        changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Deleted)
            .count(),
        100
    );
    Ok(())
}

/// A store that does not sort, whose scans have passed the place of the first change before it was written.
#[derive(Debug)]
struct Unsorted {
    store: Arc<MemoryStore>,
    profile: ServiceProfile,
}

#[async_trait]
impl TableStore for Unsorted {
    forward_to_store!(self => self.store; create_table, delete_table, list_tables, get, write, transact, context);

    fn profile(&self) -> &ServiceProfile {
        &self.profile
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut page = self
            .store
            .query(
                table,
                &Query {
                    top: None,
                    ..query.clone()
                },
                from,
            )
            .await?
            .into_page()?;
        page.items.retain(|row| !row.key().row().ends_with("1"));
        page.items.reverse();
        page.items.truncate(query.top.unwrap_or(usize::MAX));
        Ok(page.into())
    }
}

#[tokio::test]
async fn no_change_is_skipped_where_the_store_does_not_sort() -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    let orders = open_over(Arc::clone(&store) as Arc<dyn TableStore>).await?;
    let mut profile = store.profile().clone();
    profile.order = KeyOrder::Unsorted;
    let unsorted = Unsorted { store, profile };
    let changes = Changes::new(Arc::new(unsorted), TableName::new("Orders")?);
    for number in 1..=3 {
        orders.insert(&order(number)).await?;
    }
    let numbers = |found: Vec<Change>| found.iter().map(|change| change.number).collect::<Vec<_>>();
    assert_eq!(
        numbers(changes.after(&ann(), 0).await?),
        [1],
        "the scan has only 3 and 2"
    );
    assert_eq!(numbers(changes.after(&ann(), 1).await?), [2, 3]);
    for number in 4..=1200 {
        orders.insert(&order(number)).await?;
    }
    assert_eq!(
        numbers(changes.after(&ann(), 11).await?),
        (12..=20).collect::<Vec<_>>(),
        "not the last ones"
    );
    Ok(())
}

/// A store in which another writer changes the entity before the first group.
#[derive(Debug)]
struct Raced {
    store: Arc<MemoryStore>,
    races: AtomicUsize,
}

#[async_trait]
impl TableStore for Raced {
    forward_to_store!(self => self.store; profile, create_table, delete_table, list_tables, get, query, write, context);

    async fn transact(&self, table: &TableName, group: GroupTransaction) -> Result<Vec<Written>> {
        if self.races.swap(0, Ordering::SeqCst) > 0 {
            let store: Arc<dyn TableStore> = self.store.clone();
            open_over(another_process(&store))
                .await?
                .upsert(&Order {
                    paid: true,
                    ..order(1)
                })
                .await?;
        }
        self.store.transact(table, group).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_accepts_any_version_reads_again_after_a_race() -> Result<()> {
    let store = Arc::new(MemoryStore::new());
    open_over(Arc::clone(&store) as Arc<dyn TableStore>).await?;
    let raced = async |races| {
        let races = AtomicUsize::new(races);
        let raced = Raced {
            store: Arc::clone(&store),
            races,
        };
        open_over(Arc::new(raced) as Arc<dyn TableStore>).await
    };
    raced(1).await?.upsert(&order(1)).await?; // the other writer inserts it first
    raced(1).await?.upsert(&order(1)).await?;
    raced(1).await?.insert_or_merge(&order(1)).await?;
    let patch = Order::patch().paid(false);
    raced(1)
        .await?
        .merge(Order::key("ann", 1u32)?, &patch, IfMatch::Any)
        .await?;
    raced(1).await?.replace_if(&order(1), IfMatch::Any).await?;
    let orders = raced(0).await?;
    assert!(!orders.get_existing(Order::key("ann", 1u32)?).await?.paid);
    assert_eq!(orders.changes().after(&ann(), 0).await?.len(), 10);
    assert!(
        raced(1)
            .await?
            .insert(&order(1))
            .await
            .unwrap_err()
            .is_already_exists(),
        "an insert is not repeated"
    );
    Ok(())
}

/// A program runs the consumer until it stops; the pause does not delay the stop.
#[tokio::test(start_paused = true)]
async fn a_consumer_runs_until_it_is_stopped() -> Result<()> {
    let (orders, _) = open().await?;
    orders.insert(&order(1)).await?;
    let (handler, consumer) = (Collected::default(), orders.changes().consumer("mail"));
    let later = async {
        tokio::time::sleep(Duration::from_secs(90)).await;
        orders.insert(&order(2)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(61)).await;
    };
    let done = consumer
        .run(&handler, Duration::from_secs(60), later)
        .await?;
    assert_eq!(*handler.numbers.lock().unwrap(), [1, 2]);
    assert!(done.failed.is_empty(), "{done:?}");

    // A failure ends the run of its partition; it is reported, and tried again.
    *handler.fails_at.lock().unwrap() = Some(3);
    orders.insert(&order(3)).await?;
    let done = consumer
        .run(&handler, Duration::from_secs(60), std::future::ready(()))
        .await?;
    assert_eq!((done.changes, done.failed.len()), (0, 1), "{done:?}");
    let json = serde_json::to_value(&done).unwrap();
    assert_eq!(json["failed"][0][0], "ann");
    *handler.fails_at.lock().unwrap() = None;
    assert_eq!(
        consumer
            .run(&handler, Duration::from_secs(60), std::future::ready(()))
            .await?
            .changes,
        1
    );
    assert_eq!(*handler.numbers.lock().unwrap(), [1, 2, 3]);
    Ok(())
}

/// The body says which entity was changed, how, and with which number.
#[tokio::test]
async fn changes_become_messages() -> Result<()> {
    let (orders, _) = open().await?;
    let queue: Arc<dyn WorkQueue> =
        Arc::new(TableQueue::open(MemoryStore::new(), "Queues", "mail").await?);
    orders.insert(&order(1)).await?;
    orders.delete(Order::key("ann", 1)?, IfMatch::Any).await?;
    let to_queue = ToQueue::new(orders.name().clone(), Arc::clone(&queue));
    assert_eq!(
        orders
            .changes()
            .consumer("mail")
            .run_once(&to_queue)
            .await?
            .changes,
        2
    );
    let received = queue.receive(10, Duration::from_secs(30)).await?;
    let bodies: Vec<serde_json::Value> = received
        .iter()
        .map(|message| serde_json::from_str(&message.body).unwrap())
        .collect();
    let found: Vec<_> = bodies
        .iter()
        .map(|body| (&body["table"], &body["number"], &body["kind"]))
        .collect();
    let (table, kinds) = (
        serde_json::json!("Orders"),
        ["inserted", "deleted"].map(serde_json::Value::from),
    );
    assert_eq!(
        found,
        [
            (&table, &1.into(), &kinds[0]),
            (&table, &2.into(), &kinds[1])
        ],
        "{bodies:?}"
    );
    Ok(())
}

/// A server asks by this for the rights that a row needs.
#[test]
fn the_rows_of_a_feed_are_parts_of_entities() -> Result<()> {
    use table_core::model::RowKind;

    use crate::entry::shared::feed::{change_row, counter_key};
    let change = Key::new("ann", change_row(1))?;
    for key in [
        counter_key(&ann())?,
        change,
        super::cursor::cursor_key("consumer", &ann())?,
    ] {
        assert_eq!(key.row_kind(), RowKind::Part, "{key}");
    }
    Ok(())
}

/// The numbers that a consumer gets of a partition with this planted row, and the error that ends it.
async fn delivered(orders: &Table<Order>) -> Result<(Vec<i64>, String)> {
    let collected = Collected::default();
    let done = orders
        .changes()
        .consumer("mail")
        .run_once(&collected)
        .await?;
    let errors: Vec<_> = done
        .failed
        .iter()
        .map(|(partition, error)| format!("{partition}: {error}"))
        .collect();
    Ok((collected.numbers.into_inner().unwrap(), errors.join("; ")))
}

async fn plant(orders: &Table<Order>, row: Entity) -> Result<()> {
    orders
        .store()
        .write(orders.name(), Operation::InsertOrReplace(row))
        .await
        .map(drop)
}

/// Changes that the feed did not write are named; the changes before them are delivered.
#[tokio::test]
async fn a_planted_change_ends_the_delivery_before_it() -> Result<()> {
    let like_change = |row: &str| -> Result<Entity> {
        Ok(Entity::new("ann", format!("~~changes~{row}"))?
            .with("Kind", "updated")
            .with("Type", "Order")
            .with("Row", "1"))
    };
    let planted = [
        "9223372036854775807",
        "9223372036854775806",
        "0000000000000000009",
        "1x",
        "-000000000000000001",
    ];
    for row in planted {
        let (orders, _) = open().await?;
        orders.insert(&order(1)).await?;
        orders.insert(&order(2)).await?;
        plant(&orders, like_change(row)?).await?;
        let (numbers, error) = delivered(&orders).await?;
        assert_eq!(numbers, [1, 2], "{row}");
        // A row that sorts before all numbers is never read.
        assert!(
            error.contains(&format!("~~changes~{row}")) || row.starts_with('-'),
            "{row}: {error}"
        );
        // The next run stops there too, and the cursor did not pass the row.
        let (numbers, again) = delivered(&orders).await?;
        assert_eq!((numbers, again), (Vec::new(), error), "{row}");
        if !row.ends_with('9') {
            orders.insert(&order(3)).await?;
            assert_eq!(delivered(&orders).await?.0, [3], "{row}");
        }
    }
    Ok(())
}

/// A change under the number that comes next refuses the write, with the name of the row, and not as a conflict of writers.
#[tokio::test]
async fn a_planted_change_under_the_next_number_is_named_by_the_writer() -> Result<()> {
    let (orders, meter) = open().await?;
    orders.insert(&order(1)).await?;
    plant(
        &orders,
        Entity::new("ann", "~~changes~0000000000000000002")?.with("Kind", "updated"),
    )
    .await?;
    let (error, cost) = meter.measure(orders.insert(&order(2))).await;
    let error = error.unwrap_err();
    assert!(
        error.to_string().contains("~~changes~0000000000000000002"),
        "{error}"
    );
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(cost.total(), 2, "the refused group, and the counter");
    Ok(())
}

#[tokio::test]
async fn a_planted_counter_is_an_error_of_writers_and_consumers() -> Result<()> {
    for next in [i64::MAX, 0, -5, i64::MIN] {
        let (orders, _) = open().await?;
        orders.insert(&order(1)).await?;
        let key = Key::new("ann", "~~changes")?;
        let counter = orders.store().get(orders.name(), &key, None).await?;
        plant(&orders, counter.expect("a counter").with("Next", next)).await?;
        let other = open_over(Arc::clone(orders.store())).await?;
        let error = other.insert(&order(2)).await.unwrap_err();
        assert!(
            error.to_string().contains("'~~changes'") && error.to_string().contains("Next"),
            "{next}: {error}"
        );
        let (numbers, error) = delivered(&orders).await?;
        if next == i64::MAX {
            assert_eq!((numbers, error), (vec![1], String::new()));
        } else {
            assert!(error.contains("'~~changes'"), "{next}: {error}");
        }
    }
    Ok(())
}

/// Sets the position in the cursor of the consumer `mail`.
async fn plant_cursor(orders: &Table<Order>, done: i64) -> Result<()> {
    let key = super::cursor::cursor_key("mail", &ann())?;
    let cursor = orders.store().get(orders.name(), &key, None).await?;
    plant(orders, cursor.expect("a cursor").with("Done", done)).await
}

/// A consumer whose cursor is after the last change would miss the next ones without a word.
#[tokio::test]
async fn a_planted_cursor_is_named() -> Result<()> {
    for done in [i64::MAX, i64::MAX - 1, 3, -1, i64::MIN] {
        let (orders, _) = open().await?;
        orders.insert(&order(1)).await?;
        assert_eq!(delivered(&orders).await?.0, [1]);
        plant_cursor(&orders, done).await?;
        let (numbers, error) = delivered(&orders).await?;
        assert_eq!(numbers, Vec::<i64>::new(), "{done}");
        assert!(
            error.contains("cursor") || error.contains("'~~changes'"),
            "{done}: {error}"
        );
        assert_eq!(orders.changes().after(&ann(), done.max(1)).await?, []);
    }
    Ok(())
}

/// The next change of the feed gets the number of the planted row: nobody has written it yet.
#[tokio::test]
async fn a_planted_next_change_is_not_delivered() -> Result<()> {
    let (orders, _) = open().await?;
    orders.insert(&order(1)).await?;
    assert_eq!(delivered(&orders).await?.0, [1]);
    let planted = Entity::new("ann", "~~changes~0000000000000000002")?
        .with("Kind", "deleted")
        .with("Type", "Order")
        .with("Row", "1");
    plant(&orders, planted.clone()).await?;
    let (numbers, error) = delivered(&orders).await?;
    assert_eq!(numbers, Vec::<i64>::new());
    assert!(error.contains("~~changes~0000000000000000002"), "{error}");
    let delete = Operation::Delete(planted.key().clone(), IfMatch::Any);
    orders.store().write(orders.name(), delete).await?;
    orders.insert(&order(2)).await?;
    assert_eq!(delivered(&orders).await?, (vec![2], String::new()));
    Ok(())
}

/// One partition alone is delivered, and trimmed, by the same rules as a run over all.
#[tokio::test]
async fn a_cursor_after_the_last_change_stops_a_partition_and_a_trim() -> Result<()> {
    let (orders, _) = open().await?;
    orders.insert(&order(1)).await?;
    assert_eq!(delivered(&orders).await?.0, [1]);
    plant_cursor(&orders, 1_000_000).await?;
    for number in 2..=6 {
        orders.insert(&order(number)).await?;
    }
    let handler = Collected::default();
    let consumer = orders.changes().consumer("mail");
    let refused = consumer.deliver(&ann(), &handler).await.unwrap_err();
    assert!(refused.to_string().contains("the cursor"), "{refused}");
    let refused = orders.changes().trim(&ann(), &["mail"]).await.unwrap_err();
    assert!(refused.to_string().contains("the cursor"), "{refused}");
    assert_eq!(orders.changes().after(&ann(), 0).await?.len(), 6);
    Ok(())
}

/// Cursors of a feed that ended count for nothing in the next one, although its numbers are the same.
#[tokio::test]
async fn a_feed_that_begins_again_is_delivered_from_its_first_change() -> Result<()> {
    let (orders, _) = open().await?;
    for number in 1..=10 {
        orders.insert(&order(number)).await?;
    }
    assert_eq!(delivered(&orders).await?.0.len(), 10);
    let rows = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, "ann"));
    for row in orders.store().query_all(orders.name(), &rows).await? {
        let delete = Operation::Delete(row.key().clone(), IfMatch::Any);
        orders.store().write(orders.name(), delete).await?;
    }
    for number in 1..=15 {
        orders.insert(&order(number)).await?;
    }
    let (numbers, error) = delivered(&orders).await?;
    assert_eq!((numbers, &*error), ((1..=15).collect::<Vec<_>>(), ""));
    Ok(())
}

/// Trims at the same time divide the work.
#[tokio::test]
async fn trims_at_the_same_time_delete_each_change_once() -> Result<()> {
    let (orders, _) = open().await?;
    for number in 1..=250 {
        orders.insert(&order(number)).await?;
    }
    delivered(&orders).await?;
    let changes = orders.changes();
    let trims = [&["mail"], &["mail"]].map(|consumers| async {
        let partition = ann();
        changes.trim(&partition, consumers).await
    });
    let trimmed = futures_util::future::try_join_all(trims).await?;
    assert_eq!(trimmed.iter().sum::<u64>(), 250);
    Ok(())
}
