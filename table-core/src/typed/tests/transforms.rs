use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::Key;
use crate::store::Result;
use crate::typed::{EntriesOf, IndexEntries, OneEntry, TableEntity};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(crate = crate, type = "Order", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email:lower}", unique = "partition")]
#[index(
    newest,
    partition_key = "newest",
    row_key = "{placed:desc}_{shop}_{id}"
)]
#[index(
    day,
    partition_key = "day_{placed:date}",
    row_key = "{placed:hour}_{shop}_{id}"
)]
#[index(name, row_key = "name_{name:lower:prefix(3)}_{id}")]
#[index(
    tag,
    partition_key = "tag_{tags[]:lower}",
    row_key = "{shop}_{id}",
    where = "Status eq 'open'"
)]
#[index(largest, row_key = "largest_{total:desc}_{id}")]
struct Order {
    #[partition_key]
    shop: String,
    #[row_key(format = "order_{}")]
    id: u32,
    email: String,
    placed: DateTime<Utc>,
    name: String,
    status: String,
    total: f64,
    #[entity(json)]
    tags: BTreeSet<String>,
}

fn order() -> Order {
    Order {
        shop: "oslo".into(),
        id: 7,
        email: "Ken@X".into(),
        placed: "2026-11-22T18:30:00Z".parse().unwrap(),
        name: "Kwok".into(),
        status: "open".into(),
        total: 0.5,
        tags: ["Red", "red", "BIG"].map(String::from).into(),
    }
}

fn entries<T: EntriesOf<Order>>(entries: T) -> IndexEntries<Order> {
    entries.into_entries().unwrap()
}

fn has<T: EntriesOf<Order>>(named: T, key: &Key) -> bool {
    let entries = entries(named);
    entries.partition().as_str() == key.partition() && entries.rows().contains(key.row())
}

#[test]
fn keys_are_transformed() -> Result<()> {
    let order = order();
    let key = |n: usize| Ok::<_, crate::Error>(order.index_keys(n)?.remove(0));
    assert_eq!(key(0)?, Key::new("oslo", "email_ken@x")?);
    assert_eq!(
        key(2)?,
        Key::new("day_2026-11-22", "2026-11-22T18_oslo_0000000007")?
    );
    assert_eq!(key(3)?, Key::new("oslo", "name_kwo_0000000007")?);
    let tags = [
        Key::new("tag_big", "oslo_0000000007")?,
        Key::new("tag_red", "oslo_0000000007")?,
    ];
    assert_eq!(order.index_keys(4)?, tags);
    Ok(())
}

/// Whatever a lookup is given, it names the entries of the entities that have it.
#[test]
fn lookups_transform_their_arguments() -> Result<()> {
    let order = order();
    let key = |n: usize| order.index_keys(n).unwrap().remove(0);
    fn one<T: EntriesOf<Order, Kind = OneEntry>>(named: T) -> T {
        named
    }
    assert!(has(one(Order::by_email("oslo").email("KEN@x")), &key(0)));
    assert!(has(Order::by_email("oslo").email_starting("KE"), &key(0)));
    assert!(!has(Order::by_email("oslo").email("kent@x"), &key(0)));
    assert!(has(Order::by_newest().placed(order.placed), &key(1)));
    assert!(has(
        Order::by_day(order.placed).placed(order.placed + TimeDelta::minutes(29)),
        &key(2)
    ));
    assert!(!has(
        Order::by_day(order.placed).placed(order.placed + TimeDelta::minutes(30)),
        &key(2)
    ));
    assert!(has(Order::by_name("oslo").name_prefix("KWOng"), &key(3)));
    assert!(!has(Order::by_name("oslo").name_prefix("KW"), &key(3)));
    assert!(has(Order::by_tag("RED"), &order.index_keys(4)?[1]));
    Ok(())
}

/// A range is of values in their own order, whatever the order of the entries.
#[test]
fn ranges_of_descending_parts_have_their_ends() {
    let (order, hour) = (order(), TimeDelta::hours(1));
    let at = order.placed;
    let key = order.index_keys(1).unwrap().remove(0);
    let newest = || Order::by_newest();
    for (found, wanted) in [
        (has(newest().placed_in(at..), &key), true),
        (has(newest().placed_in(at - hour..at), &key), false),
        (has(newest().placed_in(at - hour..=at), &key), true),
        (has(newest().placed_in(..at), &key), false),
        (has(newest().placed_in(at + hour..), &key), false),
        (has(newest().placed_in(..at + hour), &key), true),
    ] {
        assert_eq!(found, wanted);
    }
    let key = order.index_keys(5).unwrap().remove(0);
    assert!(has(Order::by_largest("oslo").total_in(0.25..=0.5), &key));
    assert!(!has(Order::by_largest("oslo").total_in(0.25..0.5), &key));
    assert!(has(Order::by_largest("oslo").total(0.5), &key));
}

/// The patch has no field that decides whether there is an entry.
#[test]
fn the_condition_is_part_of_the_definition() -> Result<()> {
    let tag = &Order::SCHEMA.indexes[4];
    assert_eq!(tag.condition.as_deref(), Some("Status eq 'open'"));
    let open = order().to_entity()?;
    let closed = Order {
        status: "closed".into(),
        ..order()
    }
    .to_entity()?;
    assert_eq!(tag.entry_keys(&open)?.len(), 2);
    assert_eq!(tag.entry_keys(&closed)?.len(), 0);
    Ok(())
}
