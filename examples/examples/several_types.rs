//! Customers, orders and the stock in one table: each type with its own indexes, written in one group transaction.
//!
//! ```text
//! several_types [STORE]...            # each: memory | embedded:DIR | azurite | azure; without any, in memory and on disk
//! ```

use std::sync::Arc;

use examples::store::StoreSpec;
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};

/// The table of all types.
const SHOP: &str = "Shop";

/// One address in the whole table.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Customer", row_key = "customer", rename_all = "PascalCase")]
#[index(email, partition_key = "email_{email:lower}", row_key = "email", unique = "table")]
struct Customer {
    #[partition_key]
    shop: String,
    email: String,
}

/// Newest first, beside the orders.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
#[index(newest, row_key = "newest_{placed:desc}_{number:06}")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key(format = "order_{:06}")]
    number: u32,
    placed: u32,
}

/// Without indexes.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Line", row_key = "line_{order:06}_{line:03}", rename_all = "PascalCase")]
struct Line {
    #[partition_key]
    shop: String,
    order: u32,
    line: u32,
    item: String,
}

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
    let mut specs =
        std::env::args().skip(1).map(|text| text.parse::<StoreSpec>()).collect::<Result<Vec<_>, _>>()?;
    if specs.is_empty() {
        specs = vec![StoreSpec::Memory, StoreSpec::Embedded(directory.path().join("shop"))];
    }
    for spec in specs {
        let opened = spec.open().await?;
        sell(&opened.store).await?;
        opened.store.delete_table(&TableName::new(SHOP)?).await?;
        opened.close().await?;
    }
    Ok(())
}

/// Sells until the stock has changed under an order.
async fn sell(store: &Arc<dyn TableStore>) -> table_core::Result<()> {
    let customers = IndexedTable::<Customer>::open(store.clone(), SHOP, IndexOptions::default()).await?;
    let orders = IndexedTable::<Order>::open(store.clone(), SHOP, IndexOptions::default()).await?;
    let shop = || "oslo".to_owned();
    let order = |number| Order { shop: shop(), number, placed: 20_261_100 + number };
    let line = |order, line| Line { shop: shop(), order, line, item: "bolt".to_owned() };
    let stock = |left| Stock { shop: shop(), item: "bolt".to_owned(), left };

    // A customer, an order, its lines and the stock: all of it or nothing, with every entry.
    let customer = Customer { shop: shop(), email: "Ann@x".to_owned() };
    let mut group = orders.group(Order::partition("oslo")?);
    group.insert(&order(1))?;
    group.of(&customers)?.insert(&customer)?;
    group.of_plain::<Line>()?.insert(&line(1, 1))?.insert(&line(1, 2))?;
    group.of_plain::<Stock>()?.insert(&stock(5))?;
    group.commit().await?;
    let found = customers.by(Customer::by_email("ann@x")).get().await?;
    assert_eq!(found, Some(customer.clone()));
    // No other customer of the table gets the address.
    let other = Customer { shop: "bergen".to_owned(), email: "ANN@x".to_owned() };
    let taken = customers.insert(&other).await.unwrap_err();
    assert!(matches!(taken.root().kind(), ErrorKind::UniqueViolation { .. }), "{taken}");

    // The next order takes two from the stock as it was read. What else is bought meanwhile makes one of both fail.
    let read = orders.get_plain::<Stock>(Stock::key("oslo", "bolt")?).await?.expect("the stock");
    for (number, fails) in [(2, false), (3, true)] {
        let mut group = orders.group(Order::partition("oslo")?);
        group.insert(&order(number))?;
        group.of_plain::<Line>()?.insert(&line(number, 1))?;
        group.of_plain::<Stock>()?.replace_stored(&read, &stock(read.left - 2))?;
        let committed = group.commit().await; // 1 request
        assert_eq!(committed.is_err_and(|error| error.is_precondition_failed()), fails);
    }
    let newest = orders.by(Order::by_newest("oslo")).limit(1).all().await?;
    assert_eq!(newest, [order(2)]);

    // One query reads the whole partition, each row as what it is, without the entries of any index.
    let rows = orders.table().view::<Row>()?.query().partition(PartitionKey::new("oslo")?).all().await?;
    assert_eq!(rows.len(), 1 + 2 + 3 + 1);
    assert!(rows.contains(&Row::Customer(customer)) && rows.contains(&Row::Line(line(2, 1))));
    let others: Vec<_> = rows.iter().filter(|row| matches!(row, Row::Other(_))).collect();
    assert!(matches!(others[..], [Row::Other(stock)] if stock.key().row() == "stock_bolt"), "{others:?}");

    // A plain write of a type with indexes is refused, in a group as well.
    let mut group = orders.group(Order::partition("oslo")?);
    let error = group.of_plain::<Customer>().unwrap_err().to_string();
    assert!(error.contains("IndexedTable::<Customer>::open"), "{error}");
    Ok(())
}
