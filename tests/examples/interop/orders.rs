//! Rows that the other clients write from their native values, read by a type with wider numbers, aliases and fallback variants; and rows of the
//! type, read by the other clients as native values.

use chrono::{DateTime, Utc};
use table_azure::AzureTableStore;
use table_core::prelude::*;
use table_patterns::{Database, Table};
use uuid::Uuid;

use crate::client::{Check, Client};

#[derive(Clone, Debug, PartialEq, Property)]
enum Status {
    Open,
    #[entity(alias = "closed")]
    Closed,
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Property)]
#[entity(integer)]
#[repr(i32)]
enum Priority {
    High = 2,
    #[entity(other)]
    Other(i32),
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase", partition_key = "all", row_key = "{id}")]
struct Order {
    id: u32,
    count: i64,
    price: f64,
    #[entity(alias = "State")]
    status: Status,
    priority: Priority,
    placed: DateTime<Utc>,
    customer: Uuid,
    #[entity(default)]
    paid: bool,
    picture: Option<Vec<u8>>,
    #[entity(json)]
    tags: Vec<String>,
}

/// The rows of the scripts' command `write_orders`, as the type reads them. Their command `read_orders` has the rows that the type writes.
fn expected() -> [Order; 3] {
    let open = Order {
        id: 1,
        count: 3,
        price: 120.0,
        status: Status::Open,
        priority: Priority::High,
        placed: "2024-05-01T12:00:00Z".parse().expect("a time"),
        customer: "c9da6455-213d-42c9-9a79-3e9149a57833"
            .parse()
            .expect("a Guid"),
        paid: false,
        picture: None,
        tags: vec!["new".to_owned()],
    };
    // A former name of the property and of the value, and a value that this type does not know.
    let closed = Order {
        id: 2,
        count: 5_000_000_000,
        price: 0.5,
        status: Status::Closed,
        priority: Priority::Other(9),
        paid: true,
        picture: Some(vec![1, 2]),
        ..open.clone()
    };
    let reopened = Order {
        id: 3,
        status: Status::Other("Reopened".to_owned()),
        ..open.clone()
    };
    [open, closed, reopened]
}

fn table(store: &AzureTableStore, client: &Client<'_>) -> table_core::Result<Table<Order>> {
    Database::new(store.clone()).table(&*format!("Orders{}", client.name))
}

/// Reads the orders that the client writes.
pub(crate) async fn read(
    store: &AzureTableStore,
    client: &Client<'_>,
) -> Result<Vec<Check>, crate::Failure> {
    let orders = table(store, client)?;
    client.run::<()>(&["write_orders", orders.name().as_str()])?;
    let mut checks = Vec::new();
    for order in expected() {
        let found = orders.get(&order.entity_key()?).await;
        let problem = match found {
            Ok(Some(found)) if found == order => None,
            Ok(found) => Some(format!("{found:?}")),
            Err(error) => Some(error.to_string()),
        };
        checks.push(Check {
            check: format!("order {}", order.id),
            problem,
        });
    }
    Ok(checks)
}

/// Writes orders that the client reads as values of its own language.
pub(crate) async fn write(
    store: &AzureTableStore,
    client: &Client<'_>,
) -> Result<Vec<Check>, crate::Failure> {
    let orders =
        Database::new(store.clone()).table::<Order>(&*format!("TypedOrders{}", client.name))?;
    orders.declare().await?;
    for order in expected() {
        orders.insert(&order).await?;
    }
    client.run(&["read_orders", orders.name().as_str()])
}

/// Finds the orders that the client has written by a number of either width.
pub(crate) async fn find(
    store: &AzureTableStore,
    client: &Client<'_>,
) -> Result<Vec<Check>, crate::Failure> {
    let orders = table(store, client)?;
    let page = orders
        .query()
        .partition(Order::partition()?)
        .filter(Order::COUNT.eq(3))
        .all()
        .await;
    let ids = page.map(|orders| orders.iter().map(|order| order.id).collect::<Vec<_>>());
    let problem = (!matches!(ids.as_deref(), Ok([1, 3]))).then(|| format!("{ids:?}"));
    Ok(vec![Check {
        check: "orders by a number of either width".to_owned(),
        problem,
    }])
}
