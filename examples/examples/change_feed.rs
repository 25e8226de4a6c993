//! A change feed: every write adds a change in its own transaction. A consumer sends the changes to a work queue, in order,
//! at least once.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::queue::WorkQueue as _;
use table_patterns::changes::{ChangeTable, ToQueue};
use table_patterns::queue::TableQueue;

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
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
    let orders = ChangeTable::<Order>::new(store.clone(), "Orders")?;
    orders.create_if_missing().await?;

    orders.insert(&Order { customer: "ann".to_owned(), number: 1, paid: false }).await?;
    let second = Order { customer: "ann".to_owned(), number: 2, paid: false };
    let (done, cost) = meter.measure(orders.insert(&second)).await;
    done?;
    assert_eq!(cost.total(), 1); // the entity, its change and the counter, in one group
    let pay = |order: &mut Order| {
        order.paid = true;
        Ok(())
    };
    orders.update(Order::key("ann", 1u32)?, pay).await?;

    // In another process: the changes go to a queue. A crashed run goes on at the cursor.
    let queue = Arc::new(TableQueue::open(store, "Queues", "mails").await?);
    let mailer = orders.changes().consumer("mailer");
    let delivered = mailer.run_once(&ToQueue::new(orders.table().name().clone(), queue.clone())).await?;
    assert_eq!((delivered.changes, delivered.failed.len()), (3, 0));
    let messages = queue.peek(10).await?;
    assert_eq!(messages.len(), 3);

    // What every consumer has handled can be removed.
    let ann = Order::partition("ann")?;
    assert_eq!(orders.changes().trim(ann.partition_key(), &["mailer"]).await?, 3);
    Ok(())
}
