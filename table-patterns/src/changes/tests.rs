use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{IfMatch, PartitionKey};
use table_core::store::{Error, Result, TableStore};
use table_core::typed::TableEntity;

use super::{Change, ChangeHandler, ChangeKind, ChangeTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order")]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key]
    number: u32,
    paid: bool,
}

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Indexed")]
#[index(paid, row_key = "paid_{paid}_{number}")]
struct Indexed {
    #[partition_key]
    customer: String,
    #[row_key]
    number: u32,
    paid: bool,
}

fn order(number: u32) -> Order {
    Order { customer: "ann".to_owned(), number, paid: false }
}

async fn open() -> Result<(ChangeTable<Order>, RequestMeter)> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let orders = ChangeTable::new(store, "Orders")?;
    orders.create_if_missing().await?;
    Ok((orders, meter))
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
            return Err(Error::invalid_request("the handler is not ready"));
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
    let other = ChangeTable::<Order>::new(Arc::clone(orders.table().store()), "Orders")?;
    other.insert(&order(3)).await?;
    let (done, conflict) = meter.measure(orders.insert(&order(4))).await;
    done?;
    assert_eq!(conflict.total(), 3, "a lost number, the counter, and the group");
    Ok(())
}

#[tokio::test]
async fn a_refused_write_emits_nothing() -> Result<()> {
    let (orders, _) = open().await?;
    orders.insert(&order(1)).await?;
    assert!(orders.insert(&order(1)).await.unwrap_err().is_already_exists());
    assert!(orders.delete(Order::key("ann", 9u32)?, IfMatch::Any).await.unwrap_err().is_entity_not_found());
    assert!(!orders.delete_if_exists(Order::key("ann", 9u32)?).await?);
    let refused = orders.update(Order::key("ann", 1u32)?, |_| Err(Error::invalid_request("no"))).await;
    assert!(refused.is_err());
    orders.delete(Order::key("ann", 1u32)?, IfMatch::Any).await?;
    let changes = orders.changes().after(&ann(), 0).await?;
    let seen: Vec<_> = changes.iter().map(|change| (change.number, change.kind)).collect();
    assert_eq!(seen, [(1, ChangeKind::Inserted), (2, ChangeKind::Deleted)]);
    assert_eq!(changes[1].key, *Order::key("ann", 1u32)?.key());
    assert_eq!(orders.query().count().await?, 0, "rows of the feed are no entities");
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
    assert_eq!(*handler.numbers.lock().unwrap(), (1..=250).collect::<Vec<_>>(), "in order, each once");
    assert_eq!(mailer.run_once(&handler).await?.changes, 0);

    // Another consumer gets every change. A trim removes what both have handled.
    let (search, other) = (orders.changes().consumer("search"), Collected::default());
    assert_eq!(orders.changes().trim(&ann(), &["mailer", "search"]).await?, 0);
    assert_eq!(search.deliver(&ann(), &other).await?, 250);
    orders.insert(&order(999)).await?;
    assert_eq!(orders.changes().trim(&ann(), &["mailer", "search"]).await?, 250);
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
    assert!(cost.total() <= 6, "a page, 2 groups, and a lost number of one of them: {}", cost.total());
    assert_eq!(orders.query().delete().await?.into_result()?, 100);
    let changes = orders.changes().after(&ann(), 0).await?;
    assert_eq!(changes.iter().map(|change| change.number).collect::<Vec<_>>(), (1..=260).collect::<Vec<_>>());
    assert_eq!(changes.iter().filter(|change| change.kind == ChangeKind::Deleted).count(), 100);
    Ok(())
}

#[tokio::test]
async fn types_with_indexes_are_refused() {
    let refused = ChangeTable::<Indexed>::new(MemoryStore::new(), "Orders").unwrap_err();
    assert!(refused.to_string().contains("the index 'paid'"), "{refused}");
}
