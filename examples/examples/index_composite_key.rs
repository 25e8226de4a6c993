//! Composite index keys: parts in the order of the queries. A query sets the first parts, and a range of the
//! next one. Parts of another type or order do not compile.
//!
//! Cost: 1 request per page.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Order",
    rename_all = "PascalCase",
    row_key = "order_{number:06}"
)]
#[index(state, row_key = "state_{state}_{due}_{number:06}")]
struct Order {
    #[partition_key]
    customer: String,
    number: u32,
    state: String,
    /// As a number: 20130104.
    due: u32,
}

/// A projection with a part of the key only: no order is read.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Order)]
struct Number {
    #[row_key]
    number: u32,
}

const fn day(day: u32) -> u32 {
    20_130_100 + day
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let orders = Database::new(store).table::<Order>("Orders")?;
    orders.declare().await?;
    for number in 1..=9 {
        let order = Order {
            customer: "Contoso".to_owned(),
            number,
            state: if number < 6 { "open" } else { "paid" }.to_owned(),
            due: day(number),
        };
        orders.insert(&order).await?;
    }

    let open = || Order::by_state("Contoso").state("open");
    let due_before_the_fourth = orders.by(open().due_in(..day(4))).project::<Number>();
    let (found, cost) = meter.measure(due_before_the_fourth.all()).await;
    assert_eq!(
        found?.iter().map(|order| order.number).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(cost.total(), 1);
    // the first part alone
    assert_eq!(orders.by(open()).count().await?, 5);
    // two parts, and a range of the third
    assert_eq!(
        orders
            .by(open().due(day(5)).number_in(1..=5))
            .count()
            .await?,
        1
    );
    // a prefix of the first part
    assert_eq!(
        orders
            .by(Order::by_state("Contoso").state_starting("p"))
            .count()
            .await?,
        4
    );
    let next = orders.by(open().due_in(day(4)..)).first().await?;
    assert_eq!(next.map(|order| order.number), Some(4));
    Ok(())
}
