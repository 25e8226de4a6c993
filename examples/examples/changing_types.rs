//! Changing a type while its stored entities stay as they are: unknown enum values, former property names, wider numbers, and reading
//! past entities that cannot be read. (Versions and migrations: `schema_versions`.)
//!
//! Cost: no additional requests; the comparison of stored entities with the type 1 request per page.

use futures_util::TryStreamExt as _;
use table_patterns::prelude::*;

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
    let orders = Database::new(MemoryStore::new()).table::<Order>("Orders")?;
    orders.declare().await?;

    let stored = |id| -> table_core::Result<Entity> {
        let order = Entity::from(Order::key("London", id)?.into_key());
        Ok(order.with("ShipCity", "Oslo").with("BillCity", "Bergen"))
    };
    for order in [
        // an earlier version: the former name and an Int32
        stored(1)?.with("State", "done").with("Price", 120),
        // a later version: a state that this program does not know
        stored(2)?.with("State", "paused").with("Total", 9.5),
        // a wrong type
        stored(3)?.with("State", "open").with("Total", "nine"),
    ] {
        orders
            .store()
            .write(orders.name(), Operation::Insert(order))
            .await?;
    }

    // `stream_readable` yields the entities, and an error for each entity that cannot be read.
    let mut rows = orders.query().stream_readable();
    let (mut read, mut skipped) = (Vec::new(), Vec::new());
    while let Some(row) = rows.try_next().await? {
        match row {
            Ok(order) => read.push(order),
            Err(unreadable) => skipped.push(unreadable.error.to_string()),
        }
    }
    assert_eq!(read[0].total, 120.0);
    assert_eq!(read[0].state, State::Closed);
    assert_eq!(read[1].state, State::Other("paused".to_owned()));
    assert_eq!(skipped.len(), 1);
    let error = &skipped[0];
    assert!(
        error.contains("property 'Total': expected Edm.Double, found Edm.String"),
        "{error}"
    );

    // How the stored entities differ from the type: 1 request per page, nothing is written.
    let diff = orders.upgrade().diff().await?;
    assert_eq!(diff.rows, 3);
    assert_eq!(diff.unreadable, 1);
    assert_eq!(diff.properties["Total"].under_alias, 1);

    // An update writes the present names, and keeps the state that this program does not know.
    let dearer = |order: &mut Order| {
        order.total += 1.0;
        Ok(())
    };
    orders.update(Order::key("London", 1)?, dearer).await?;
    let stored = orders
        .view::<Entity>()?
        .get_existing(Order::key("London", 1)?.into_key())
        .await?;
    assert_eq!(stored.get("Total"), Some(ValueRef::Double(121.0)));
    assert_eq!(stored.get("Price"), None);
    Ok(())
}
