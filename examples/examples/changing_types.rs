//! A type changes while its rows stay: unknown values, former names, wider numbers, rows that cannot be read.

use futures_util::TryStreamExt as _;
use table_core::prelude::*;
use table_core::store::Operation;
use table_core::typed::SchemaDiff;

#[derive(Clone, Debug, PartialEq, Property)]
#[entity(rename_all = "lowercase")]
enum State {
    Open,
    #[entity(alias = "done")]
    Closed,
    /// Keeps a state that a later version of the program has written.
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Address {
    city: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key]
    id: u32,
    state: State,
    /// Was called `Price`, and was an Int32.
    #[entity(alias = "Price")]
    total: f64,
    #[entity(flatten(prefix = "Ship"))]
    ship: Address,
    #[entity(flatten(prefix = "Bill"))]
    bill: Address,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let orders = Table::<Order>::new(MemoryStore::new(), "Orders")?;
    orders.create_if_missing().await?;

    // Rows of an earlier program, of a later program, and of a program with a mistake.
    let row = |id| Ok::<_, table_core::Error>(Entity::from(Order::key("London", id)?.into_key()));
    let cities = |row: Entity| row.with("ShipCity", "Oslo").with("BillCity", "Bergen");
    for row in [
        cities(row(1)?).with("State", "done").with("Price", 120),
        cities(row(2)?).with("State", "paused").with("Total", 9.5),
        cities(row(3)?).with("State", "open").with("Total", "nine"),
    ] {
        orders.store().write(orders.name(), Operation::Insert(row)).await?;
    }

    // A stream that goes on after a row that cannot be read.
    let mut rows = orders.query().stream_readable();
    let (mut read, mut skipped) = (Vec::new(), Vec::new());
    while let Some(row) = rows.try_next().await? {
        match row {
            Ok(order) => read.push(order),
            Err(row) => skipped.push(row.error.to_string()),
        }
    }
    assert_eq!((read[0].total, &read[0].state), (120.0, &State::Closed));
    assert_eq!(read[1].state, State::Other("paused".to_owned()));
    assert!(skipped[0].contains("property 'Total': expected Edm.Double, found Edm.String"));

    // The plan of a migration: how the stored rows differ from the type.
    let diff = SchemaDiff::of::<Order>(&orders.view::<Entity>()?).await?;
    assert_eq!((diff.rows, diff.unreadable), (3, 1));
    assert_eq!(diff.properties["Total"].under_alias, 1);

    // An update writes the present names, and keeps the state that this program does not know.
    let dearer = |order: &mut Order| {
        order.total += 1.0;
        Ok(())
    };
    orders.update(Order::key("London", 1)?, dearer).await?;
    let stored = orders.view::<Entity>()?.get_existing(Order::key("London", 1)?.into_key()).await?;
    assert_eq!((stored.get("Total"), stored.get("Price")), (Some(ValueRef::Double(121.0)), None));
    Ok(())
}
