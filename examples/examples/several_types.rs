//! Customers, orders and the stock in one table: each type with its own indexes, written in one group transaction.
//!
//! ```text
//! several_types [STORE]...
//! ```
//!
//! A STORE is memory, embedded:DIR, azurite or azure. Without an argument, the program runs in memory and in a temporary directory.
//! **It creates and drops the table `ExampleSeveralTypes`**, and refuses a store that has a table of this name.
//!
//! Cost of a group: 1 request, and more for a unique value in another partition (see `index_unique_across_partitions`).

use std::sync::Arc;

use examples::store::StoreSpec;
use table_patterns::prelude::*;

/// The table of all types, which the program creates and drops.
const SHOP: &str = "ExampleSeveralTypes";

/// A customer. The e-mail address is unique in the whole table.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Customer", row_key = "customer", rename_all = "PascalCase")]
#[index(
    email,
    partition_key = "email_{email:lower}",
    row_key = "email",
    unique = "table"
)]
struct Customer {
    #[partition_key]
    shop: String,
    email: String,
}

/// An order. Its index `newest` lists the orders of a shop, newest first, in the shop's partition.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
#[index(newest, row_key = "newest_{placed:desc}_{number:06}")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key(format = "order_{:06}")]
    number: u32,
    /// The day as a number: 20261101.
    placed: u32,
}

/// A line of an order. This type has no index.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Line",
    row_key = "line_{order:06}_{line:03}",
    rename_all = "PascalCase"
)]
struct Line {
    #[partition_key]
    shop: String,
    order: u32,
    line: u32,
    item: String,
}

/// The number of pieces in stock. This type has no index.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Stock", row_key = "stock_{item}", rename_all = "PascalCase")]
struct Stock {
    #[partition_key]
    shop: String,
    item: String,
    left: u32,
}

/// A row of a shop's partition.
#[derive(Debug, PartialEq, EntityResolver)]
enum Row {
    Customer(Customer),
    Order(Order),
    Line(Line),
    #[resolver(other)]
    Other(Entity),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let mut specs = std::env::args()
        .skip(1)
        .map(|text| text.parse::<StoreSpec>())
        .collect::<Result<Vec<_>, _>>()?;
    if specs.is_empty() {
        specs = vec![
            StoreSpec::Memory,
            StoreSpec::Embedded(directory.path().join("shop")),
        ];
    }
    for spec in specs {
        let opened = spec.open().await?;
        let table = TableName::new(SHOP)?;
        // An error if the store has a table of this name, which the program must not drop.
        opened.store.create_table(&table).await?;
        sell(&opened.store).await?;
        opened.store.delete_table(&table).await?;
        opened.close().await?;
    }
    Ok(())
}

/// Writes a customer, orders, order lines and the stock. The last order is refused, because the stock has changed since it was read.
async fn sell(store: &Arc<dyn TableStore>) -> table_core::Result<()> {
    let db = Database::new(store.clone());
    let (customers, orders) = (db.table::<Customer>(SHOP)?, db.table::<Order>(SHOP)?);
    customers.declare().await?;
    orders.declare().await?;
    let shop = || "oslo".to_owned();
    let order = |number| Order {
        shop: shop(),
        number,
        placed: 20_261_100 + number,
    };
    let line = |order, line| Line {
        shop: shop(),
        order,
        line,
        item: "bolt".to_owned(),
    };
    let stock = |left| Stock {
        shop: shop(),
        item: "bolt".to_owned(),
        left,
    };

    // A customer, an order, its lines and the stock: all or nothing. The unique entry of the e-mail address is in another partition: it
    // is reserved before the group and confirmed after it (see `index_unique_across_partitions`).
    let customer = Customer {
        shop: shop(),
        email: "Ann@x".to_owned(),
    };
    let mut group = orders.group(Order::partition("oslo")?);
    group.insert(&order(1))?.insert(&customer)?;
    group.insert(&line(1, 1))?.insert(&line(1, 2))?;
    group.insert(&stock(5))?;
    group.commit().await?;
    let found = customers.by(Customer::by_email("ann@x")).get().await?;
    assert_eq!(found, Some(customer.clone()));
    // No other customer of the table gets the address.
    let other = Customer {
        shop: "bergen".to_owned(),
        email: "ANN@x".to_owned(),
    };
    let taken = customers.insert(&other).await.unwrap_err();
    assert!(
        matches!(taken.root().kind(), ErrorKind::UniqueViolation { .. }),
        "{taken}"
    );

    // Order 2 replaces the stock that was read, under its ETag: 1 request.
    let stocks = db.table::<Stock>(SHOP)?;
    let read = stocks
        .get_existing_stored(Stock::key("oslo", "bolt")?)
        .await?;
    let order_from_stock = async |number| {
        let mut group = orders.group(Order::partition("oslo")?);
        group.insert(&order(number))?.insert(&line(number, 1))?;
        group.replace_stored(&read, &stock(read.left - 2))?;
        group.commit().await
    };
    order_from_stock(2).await?;
    // Order 3 uses the same read. The stock has changed since, so nothing of the group is written.
    assert!(
        order_from_stock(3)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    let newest = orders.by(Order::by_newest("oslo")).limit(1).all().await?;
    assert_eq!(newest, [order(2)]);

    // One query reads the whole partition, each entity as its own type; index entries are not returned.
    let rows = db
        .view::<Row>(SHOP)?
        .query()
        .partition(PartitionKey::new("oslo")?)
        .all()
        .await?;
    assert_eq!(rows.len(), 1 + 2 + 3 + 1);
    assert!(rows.contains(&Row::Customer(customer)));
    assert!(rows.contains(&Row::Line(line(2, 1))));
    let others: Vec<_> = rows
        .iter()
        .filter(|row| matches!(row, Row::Other(_)))
        .collect();
    assert!(
        matches!(others[..], [Row::Other(stock)] if stock.key().row() == "stock_bolt"),
        "{others:?}"
    );

    // Waits until the background tasks of the writes have deleted their journal rows, before the table is dropped.
    orders.flush().await;
    customers.flush().await;
    Ok(())
}
