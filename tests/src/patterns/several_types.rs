//! Customers, orders and tickets in one table, each type with its own indexes, one of them unique.

use std::sync::Arc;

use crate::open_table;
use futures_util::join;
use table_core::Result;
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{Entity, TableName};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedEntities, ScrubMode};
use table_patterns::journal::Clearing;
use table_patterns::{Database, Table};

use crate::Harness;

/// The e-mail address is unique in the table.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Customer", rename_all = "PascalCase")]
#[index(
    email,
    partition_key = "email_{email}",
    row_key = "email",
    unique = "table"
)]
#[index(name, row_key = "name_{name}_{id:04}")]
struct Customer {
    #[partition_key]
    region: String,
    #[row_key(format = "customer_{:04}")]
    id: u32,
    name: String,
    email: String,
    phone: Option<String>,
}

/// The receipt is unique in its region.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
#[index(newest, row_key = "newest_{placed:desc}_{id:04}", payload = full)]
#[index(receipt, row_key = "receipt_{receipt}", unique = "partition")]
struct Order {
    #[partition_key]
    region: String,
    #[row_key(format = "order_{:04}")]
    id: u32,
    placed: u32,
    receipt: String,
}

/// The code is unique in the table.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Ticket", rename_all = "PascalCase")]
#[index(state, partition_key = "state_{state}", row_key = "{region}_{id:04}")]
#[index(
    code,
    partition_key = "code_{code}",
    row_key = "code",
    unique = "table"
)]
struct Ticket {
    #[partition_key]
    region: String,
    #[row_key(format = "ticket_{:04}")]
    id: u32,
    state: String,
    code: String,
}

/// A type without indexes.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Line",
    rename_all = "PascalCase",
    row_key = "line_{order:04}_{line:02}"
)]
struct Line {
    #[partition_key]
    region: String,
    order: u32,
    line: u32,
    item: String,
}

/// A second type without indexes.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Stock", rename_all = "PascalCase", row_key = "stock_{item}")]
struct Stock {
    #[partition_key]
    region: String,
    item: String,
    left: i32,
}

const NAMES: [&str; 2] = ["ann", "bob"];

fn customer(id: u32, email: u32) -> Customer {
    let name = NAMES[id as usize % 2].to_owned();
    Customer {
        region: "no".to_owned(),
        id,
        name,
        email: format!("{email}@x"),
        phone: None,
    }
}

fn order(id: u32, receipt: u32) -> Order {
    Order {
        region: "no".to_owned(),
        id,
        placed: id,
        receipt: format!("r{receipt}"),
    }
}

fn ticket(id: u32, code: u32) -> Ticket {
    Ticket {
        region: "no".to_owned(),
        id,
        state: "open".to_owned(),
        code: format!("c{code}"),
    }
}

/// Updates, patches, moves and deletes customers; a replacement takes over a released unique value. A write
/// with a taken unique value is refused.
async fn work_on_customers(customers: &Table<Customer>) -> Result<()> {
    for id in 1..=6 {
        customers.insert(&customer(id, id)).await?;
    }
    let renewed = |customer: &mut Customer| {
        customer.email = "new@x".to_owned();
        Ok(())
    };
    customers.update(Customer::key("no", 1)?, renewed).await?;
    let phone = Customer::patch().phone("47".to_owned());
    customers
        .merge(Customer::key("no", 2)?, &phone, IfMatch::Any)
        .await?;
    customers
        .move_to(Customer::key("no", 3)?, customers, Customer::key("se", 3)?)
        .await?;
    assert!(customers.delete_if_exists(Customer::key("no", 4)?).await?);
    customers.upsert(&customer(5, 4)).await?;
    customers.insert(&customer(7, 1)).await?;
    for taken in [customer(8, 2), customer(8, 3)] {
        assert!(
            customers
                .insert(&taken)
                .await
                .unwrap_err()
                .is_unique_violation(),
            "{taken:?}"
        );
    }
    Ok(())
}

async fn work_on_orders(orders: &Table<Order>) -> Result<()> {
    for id in 1..=6 {
        orders.insert(&order(id, id)).await?;
    }
    let later = |order: &mut Order| {
        order.placed = 100;
        Ok(())
    };
    orders.update(Order::key("no", 1)?, later).await?;
    orders
        .move_to(Order::key("no", 3)?, orders, Order::key("se", 3)?)
        .await?;
    assert!(orders.delete_if_exists(Order::key("no", 4)?).await?);
    orders.upsert(&order(5, 4)).await?;
    orders.insert(&order(7, 3)).await?;
    assert!(
        orders
            .insert(&order(8, 2))
            .await
            .unwrap_err()
            .is_unique_violation()
    );
    Ok(())
}

async fn work_on_tickets(tickets: &Table<Ticket>) -> Result<()> {
    for id in 1..=6 {
        tickets.insert(&ticket(id, id)).await?;
    }
    let closed = |ticket: &mut Ticket| {
        ticket.state = "closed".to_owned();
        Ok(())
    };
    tickets.update(Ticket::key("no", 1)?, closed).await?;
    tickets
        .move_to(Ticket::key("no", 3)?, tickets, Ticket::key("se", 3)?)
        .await?;
    assert!(tickets.delete_if_exists(Ticket::key("no", 4)?).await?);
    let two = tickets.get_existing_stored(Ticket::key("no", 2)?).await?;
    tickets.replace_stored(&two, &ticket(2, 4)).await?;
    tickets.insert(&ticket(7, 2)).await?;
    for taken in [ticket(8, 2), ticket(8, 3)] {
        assert!(
            tickets
                .insert(&taken)
                .await
                .unwrap_err()
                .is_unique_violation(),
            "{taken:?}"
        );
    }
    Ok(())
}

async fn open<T: TableEntity>(h: &Harness, table: &TableName) -> Table<T> {
    let opened = open_table(h.store().clone(), table.clone(), IndexOptions::default()).await;
    opened.expect("indexes that make sense")
}

/// Asserts the result of lookups of each type, and that every index of the table agrees with the entities.
async fn check(h: &Harness, table: &TableName) -> Result<()> {
    let customers = open::<Customer>(h, table).await;
    let owner = async |email: &str| {
        let found = customers
            .by(Customer::by_email(email))
            .verified()
            .get()
            .await?;
        Ok::<_, table_core::Error>(found.map(|customer| (customer.region, customer.id)))
    };
    for (email, region, id) in [
        ("new@x", "no", 1),
        ("1@x", "no", 7),
        ("2@x", "no", 2),
        ("3@x", "se", 3),
        ("4@x", "no", 5),
    ] {
        assert_eq!(
            owner(email).await?,
            Some((region.to_owned(), id)),
            "{email}"
        );
    }
    assert_eq!(owner("5@x").await?, None);
    let bobs = customers
        .by(Customer::by_name("no").name("bob"))
        .all()
        .await?;
    assert_eq!(
        bobs.iter().map(|customer| customer.id).collect::<Vec<_>>(),
        [1, 5, 7]
    );
    let two = customers.get_existing(Customer::key("no", 2)?).await?;
    assert_eq!(two.phone.as_deref(), Some("47"));
    assert_eq!(two.email.as_str(), "2@x");

    let orders = open::<Order>(h, table).await;
    let newest = orders.by(Order::by_newest("no")).limit(4).all().await?;
    assert_eq!(
        newest.iter().map(|order| order.id).collect::<Vec<_>>(),
        [1, 7, 6, 5]
    );
    for (region, receipt, id) in [
        ("no", "r3", Some(7)),
        ("se", "r3", Some(3)),
        ("no", "r4", Some(5)),
        ("no", "r5", None),
    ] {
        let found = orders
            .by(Order::by_receipt(region).receipt(receipt))
            .verified()
            .get()
            .await?;
        assert_eq!(found.map(|order| order.id), id, "{region} {receipt}");
    }

    let tickets = open::<Ticket>(h, table).await;
    let open_ones = tickets.by(Ticket::by_state("open")).all().await?;
    assert_eq!(
        open_ones.iter().map(|ticket| ticket.id).collect::<Vec<_>>(),
        [2, 5, 6, 7, 3]
    );
    assert_eq!(tickets.by(Ticket::by_state("closed")).count().await?, 1);
    for (code, id) in [
        ("c1", Some(1)),
        ("c2", Some(7)),
        ("c3", Some(3)),
        ("c4", Some(2)),
        ("c8", None),
    ] {
        let found = tickets.by(Ticket::by_code(code)).verified().get().await?;
        assert_eq!(found.map(|ticket| ticket.id), id, "{code}");
    }
    scrub(h, table, 6, 18).await
}

/// Asserts that every index of the manifest is in step, and that a scan reads only `entities` entities.
async fn scrub(h: &Harness, table: &TableName, indexes: usize, entities: usize) -> Result<()> {
    let (store, options) = (h.store().clone(), IndexOptions::default());
    let all = IndexedEntities::open_for_upkeep(store.clone(), table.clone(), options).await?;
    let declared = all.declared().await?;
    assert_eq!(declared.len(), indexes);
    for index in declared {
        let found = all.scrub(&index.id(), ScrubMode::Report).await?;
        assert_eq!(found.dangling, 0, "{}", index.id());
        assert_eq!(found.missing, 0, "{}", index.id());
        assert_eq!(found.taken_keys, 0, "{}", index.id());
    }
    assert_eq!(
        Database::new(store)
            .view::<Entity>(table.clone())?
            .query()
            .count()
            .await?,
        entities
    );
    Ok(())
}

/// Three programs, each with one type, open the same empty table concurrently.
pub(crate) async fn programs_of_three_types_share_a_table(h: &Harness) {
    let table = h.unused_name();
    let customers = async { work_on_customers(&open(h, &table).await).await };
    let orders = async { work_on_orders(&open(h, &table).await).await };
    let tickets = async { work_on_tickets(&open(h, &table).await).await };
    let (customers, orders, tickets) = join!(customers, orders, tickets);
    customers.and(orders).and(tickets).expect("three programs");
    check(h, &table).await.expect("three types");

    // The program of customers moves and deletes entities of the other types by the index definitions in the
    // manifest.
    let customers = open::<Customer>(h, &table).await;
    let by_key = |key: Result<Key>| key.expect("a legal key");
    let (from, to) = (
        by_key(Ticket::key("no", 1).map(Into::into)),
        by_key(Ticket::key("se", 1).map(Into::into)),
    );
    let moved = customers
        .entities()
        .await
        .expect("an open table")
        .move_to(
            &from,
            customers.entities().await.expect("an open table"),
            &to,
        )
        .await;
    moved.expect("a ticket");
    let old = customers
        .entities()
        .await
        .expect("an open table")
        .get_existing(&by_key(Order::key("no", 1).map(Into::into)))
        .await;
    customers
        .entities()
        .await
        .expect("an open table")
        .delete(&old.expect("an order"))
        .await
        .expect("no other writer");
    let tickets = open::<Ticket>(h, &table).await;
    let found = tickets
        .by(Ticket::by_code("c1"))
        .verified()
        .get()
        .await
        .expect("a lookup");
    assert_eq!(found.map(|ticket| ticket.region), Some("se".to_owned()));
    scrub(h, &table, 6, 17).await.expect("three types");
}

/// One program opens three handles of the table and writes through all of them.
pub(crate) async fn handles_of_three_types_share_a_table(h: &Harness) {
    let table = h.unused_name();
    let customers = open::<Customer>(h, &table).await;
    let (orders, tickets) = (
        open::<Order>(h, &table).await,
        open::<Ticket>(h, &table).await,
    );
    work_on_tickets(&tickets).await.expect("tickets");
    work_on_orders(&orders).await.expect("orders");
    work_on_customers(&customers).await.expect("customers");
    check(h, &table).await.expect("three types");
}

/// An order, its lines, a ticket, a customer and the stock are written together or not at all. The requests are
/// those of the entries.
pub(crate) async fn a_group_holds_several_types(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let table = h.unused_name();
    let options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let db = Database::with_options(store, options);
    let orders = db.table::<Order>(table.clone()).expect("a table");
    let tickets = db.table::<Ticket>(table.clone()).expect("a table");
    orders.declare().await.expect("indexes that make sense");
    tickets.declare().await.expect("indexes that make sense");
    let line = |line| Line {
        region: "no".to_owned(),
        order: 1,
        line,
        item: "bolt".to_owned(),
    };
    let stock = |left| Stock {
        region: "no".to_owned(),
        item: "bolt".to_owned(),
        left,
    };

    // All entries are local.
    let before = meter.total();
    let mut group = orders.group(Order::partition("no").expect("a legal key"));
    group.insert(&order(1, 1)).expect("an order");
    group
        .insert(&line(1))
        .expect("a line")
        .insert(&line(2))
        .unwrap();
    group.insert(&stock(9)).expect("the stock");
    let committed = group.commit().await.expect("new entities");
    assert_eq!(committed.len(), 4);
    assert_eq!(meter.total() - before, 1);

    // The ticket has remote entries: the group costs as many requests as the insert of the ticket.
    let before = meter.total();
    tickets.insert(&ticket(1, 1)).await.expect("a new ticket");
    let alone = meter.total() - before;
    let stock_key = || Stock::key("no", "bolt").expect("a legal key");
    let read = orders
        .view::<Stock>()
        .expect("a view")
        .get_stored(stock_key())
        .await
        .expect("a read")
        .expect("the stock");
    let before = meter.total();
    let mut group = orders.group(Order::partition("no").expect("a legal key"));
    group.insert(&order(2, 2)).expect("an order");
    group.insert(&ticket(2, 2)).expect("a ticket");
    group.replace_stored(&read, &stock(8)).expect("the stock");
    let committed = group.commit().await.expect("new entities");
    let cost = meter.total() - before;
    assert!(committed.iter().all(|written| !written.pending));
    assert_eq!(cost, alone + 2, "one read for each further entity");
    scrub(h, &table, 4, 7).await.expect("indexes in step");

    // A refused group writes nothing. The stock was read before.
    let mut group = orders.group(Order::partition("no").expect("a legal key"));
    group.insert(&order(3, 3)).expect("an order");
    group.insert(&ticket(3, 3)).expect("a ticket");
    group.replace_stored(&read, &stock(7)).expect("the stock");
    assert!(group.commit().await.unwrap_err().is_precondition_failed());
    // A group with a taken unique value writes nothing, too.
    let mut group = orders.group(Order::partition("no").expect("a legal key"));
    group.insert(&order(3, 3)).expect("an order");
    group.insert(&ticket(3, 1)).expect("a ticket");
    assert!(group.commit().await.unwrap_err().is_unique_violation());
    let left = orders
        .view::<Stock>()
        .expect("a view")
        .get_stored(stock_key())
        .await
        .expect("a read")
        .expect("the stock");
    assert_eq!(left.left, 8);
    scrub(h, &table, 4, 7).await.expect("indexes in step");
}
