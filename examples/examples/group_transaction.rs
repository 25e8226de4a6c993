//! Writes several entities of one partition in one entity group transaction: all or none.
//!
//! Cost: 1 request for at most 100 operations and 4 MiB. All entities must be in one partition.

use table_patterns::prelude::*;

#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "Order",
    partition_key = "{customer}",
    row_key = "order_{number:06}"
)]
struct Order {
    customer: String,
    number: u32,
    lines: i32,
}

#[derive(Clone, Debug, TableEntity)]
#[entity(
    type = "OrderLine",
    partition_key = "{customer}",
    row_key = "line_{order:06}_{line:03}"
)]
struct OrderLine {
    customer: String,
    order: u32,
    line: u32,
    product: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let db = Database::new(MemoryStore::new());
    let (orders, lines) = (
        db.table::<Order>("Orders")?,
        db.table::<OrderLine>("Orders")?,
    );
    orders.declare().await?;
    let order = Order {
        customer: "alice".to_owned(),
        number: 1,
        lines: 2,
    };
    let line = |line| OrderLine {
        customer: "alice".to_owned(),
        order: 1,
        line,
        product: format!("product {line}"),
    };

    // The order and its lines have different types and are written together.
    let mut group = orders.group(Order::partition("alice")?);
    group.insert(&order)?.insert(&line(1))?.insert(&line(2))?;
    let written = group.commit().await?; // 1 request
    assert_eq!(written.len(), 3);
    let lines_of_order = lines
        .query()
        .partition(OrderLine::partition("alice")?)
        .rows(OrderLine::row_prefix().order(1));
    assert_eq!(lines_of_order.all().await?.len(), 2);

    // The order exists already, so the whole group fails and the new line is not written. The error names the failed operation,
    // counted from 1.
    let mut group = orders.group(Order::partition("alice")?);
    group.insert(&line(3))?.insert(&order)?;
    let error = group.commit().await.unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("operation 2 of the group transaction failed"),
        "{error}"
    );
    assert!(lines.get(line(3).entity_key()?).await?.is_none());

    // An entity of another partition is refused when it is added, before a request is sent.
    let mut group = orders.group(Order::partition("alice")?);
    let other_partition = Order {
        customer: "bob".to_owned(),
        ..order
    };
    assert!(group.insert(&other_partition).is_err());
    Ok(())
}
