//! A change feed: every write adds a change in its own transaction, also writes of programs that know nothing of the feed. A consumer sends
//! the changes to a work queue, in order, at least once. Use it to send mails, fill caches or update a search engine after writes. Writers of
//! one partition take turns.
//!
//! Cost: a write none more; 1 more for a program's first write of a partition; 2 more per conflict with another program in the partition.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::queue::WorkQueue as _;
use table_patterns::Database;
use table_patterns::changes::ToQueue;
use table_patterns::prelude::*;
use table_patterns::queue::TableQueue;

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase", feed)]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key(format = "order_{:06}")]
    number: u32,
    paid: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let orders = Database::new(store.clone()).table::<Order>("Orders")?;
    orders.declare().await?;

    // The first write in a partition also reads the partition's counter: 2 requests. Later writes: 1, a group of the entity, its change and
    // the counter.
    let first = Order {
        customer: "ann".to_owned(),
        number: 1,
        paid: false,
    };
    let (done, cost) = meter.measure(orders.insert(&first)).await;
    done?;
    assert_eq!(cost.total(), 2);
    let second = Order {
        customer: "ann".to_owned(),
        number: 2,
        paid: false,
    };
    let (done, cost) = meter.measure(orders.insert(&second)).await;
    done?;
    assert_eq!(cost.total(), 1);
    let pay = |order: &mut Order| {
        order.paid = true;
        Ok(())
    };
    orders.update(Order::key("ann", 1)?, pay).await?;

    // In another process: the consumer `mailer` sends the changes to a queue. After a crash it continues at its saved cursor, and may send
    // some changes twice.
    let queue = Arc::new(TableQueue::open(store, "Queues", "mails").await?);
    let mailer = orders.changes().consumer("mailer");
    let delivered = mailer
        .run_once(&ToQueue::new(orders.name().clone(), queue.clone()))
        .await?;
    assert_eq!(delivered.changes, 3);
    assert!(delivered.failed.is_empty());
    assert_eq!(queue.peek(10).await?.len(), 3);

    // Deletes the changes of Ann's partition that the consumer `mailer` has handled.
    let ann = Order::partition("ann")?;
    assert_eq!(
        orders
            .changes()
            .trim(ann.partition_key(), &["mailer"])
            .await?,
        3
    );
    Ok(())
}
