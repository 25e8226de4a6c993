//! Groups with several types of one table.

use std::sync::Arc;
use std::time::Duration;

use crate::index::tests::open_table;
use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::{Result, TableStore};

use crate::index::{Index, IndexOptions, IndexState, IndexedEntities, Placement, ScrubMode};
use crate::{Database, Table};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
#[index(state, row_key = "state_{state}_{id:06}")]
struct Order {
    #[partition_key]
    customer: String,
    #[row_key(format = "order_{:06}")]
    id: u32,
    state: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Ticket", rename_all = "PascalCase")]
#[index(subject, row_key = "subject_{subject}", unique = "partition")]
struct Ticket {
    #[partition_key]
    customer: String,
    #[row_key(format = "ticket_{:06}")]
    id: u32,
    subject: String,
    note: Option<String>,
}

/// The tickets of another program, which also has an index by note.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Ticket", rename_all = "PascalCase")]
#[index(subject, row_key = "subject_{subject}", unique = "partition")]
#[index(note, row_key = "note_{note}_{id:06}")]
struct NotedTicket {
    #[partition_key]
    customer: String,
    #[row_key(format = "ticket_{:06}")]
    id: u32,
    subject: String,
    note: Option<String>,
}

/// A type without indexes.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Stock", rename_all = "PascalCase")]
struct Stock {
    #[partition_key]
    customer: String,
    #[row_key(format = "stock_{}")]
    item: String,
    left: i32,
    #[etag]
    etag: Option<ETag>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Letter", rename_all = "PascalCase")]
struct Letter {
    #[partition_key]
    customer: String,
    #[row_key(format = "letter_{:06}")]
    id: u32,
    #[large(over = 1024)]
    text: String,
}

fn order(id: u32, state: &str) -> Order {
    Order {
        customer: "c".to_owned(),
        id,
        state: state.to_owned(),
    }
}

fn ticket(id: u32, subject: &str) -> Ticket {
    Ticket {
        customer: "c".to_owned(),
        id,
        subject: subject.to_owned(),
        note: None,
    }
}

fn stock(left: i32) -> Stock {
    Stock {
        customer: "c".to_owned(),
        item: "bolt".to_owned(),
        left,
        etag: None,
    }
}

fn stock_key() -> EntityKey<Stock> {
    Stock::key("c", "bolt").unwrap()
}

fn ticket_key(id: u32) -> EntityKey<Ticket> {
    Ticket::key("c", id).unwrap()
}

struct Shop {
    db: Database,
    store: Arc<dyn TableStore>,
    meter: RequestMeter,
}

impl Shop {
    fn new() -> Self {
        let meter = RequestMeter::new();
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
        Self {
            db: Database::new(store.clone()),
            store,
            meter,
        }
    }

    async fn open<T: TableEntity>(&self) -> Result<Table<T>> {
        let table = self.db.table("Shop")?;
        table.declare().await?;
        Ok(table)
    }

    /// Asserts that every index of the manifest agrees with the entities.
    async fn check(&self) -> Result<()> {
        let all = IndexedEntities::open_for_upkeep(
            self.store.clone(),
            TableName::new("Shop")?,
            IndexOptions::default(),
        )
        .await?;
        for index in all.declared().await? {
            let scrub = all.scrub(&index.id(), ScrubMode::Report).await?;
            assert_eq!(scrub.dangling, 0, "{}", index.id());
            assert_eq!(scrub.missing, 0, "{}", index.id());
            assert_eq!(scrub.taken_keys, 0, "{}", index.id());
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_its_ticket_and_the_stock_are_one_request() -> Result<()> {
    let shop = Shop::new();
    let (orders, tickets) = (shop.open::<Order>().await?, shop.open::<Ticket>().await?);
    let group = async || {
        let mut group = orders.group(Order::partition("c")?);
        group.insert(&order(1, "open"))?;
        group
            .insert(&ticket(1, "late"))?
            .insert(&ticket(2, "lost"))?;
        group.insert(&stock(5))?;
        group.commit().await
    };
    let (committed, cost) = shop.meter.measure(group()).await;
    assert_eq!(committed?.len(), 4);
    assert_eq!(cost.total(), 1);
    assert_eq!(tickets.by(Ticket::by_subject("c")).count().await?, 2);
    shop.check().await?;

    // Atomic: the second ticket is refused, and the order stays unchanged.
    let one = orders.get_existing_stored(Order::key("c", 1)?).await?;
    let mut group = orders.group(Order::partition("c")?);
    group.replace_stored(&one, &order(1, "paid"))?;
    group.insert(&ticket(3, "late"))?;
    assert!(group.commit().await.unwrap_err().is_unique_violation());
    assert_eq!(
        orders.get_existing(Order::key("c", 1)?).await?.state,
        "open"
    );
    shop.check().await
}

#[tokio::test(start_paused = true)]
async fn a_group_has_every_verb_for_every_type() -> Result<()> {
    let shop = Shop::new();
    let (orders, tickets) = (shop.open::<Order>().await?, shop.open::<Ticket>().await?);
    orders.insert(&order(1, "open")).await?;
    for (id, subject) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        tickets.insert(&ticket(id, subject)).await?;
    }
    let mut group = orders.group(Order::partition("c")?);
    group.insert(&stock(5))?;
    group.commit().await?;

    let (third, fourth) = (
        tickets.get_existing_stored(ticket_key(3)).await?,
        tickets.get_existing_stored(ticket_key(4)).await?,
    );
    let read = orders
        .view::<Stock>()?
        .get_stored(stock_key())
        .await?
        .expect("the stock");
    let group = async || {
        let mut group = orders.group(Order::partition("c")?);
        group.upsert(&order(1, "paid"))?;
        group
            .upsert(&ticket(1, "aa"))?
            .delete(ticket_key(2), IfMatch::Any)?;
        group
            .replace_stored(&third, &ticket(3, "b"))?
            .delete_stored(&fourth)?;
        group.replace_stored(&read, &stock(4))?;
        group.commit().await
    };
    let (committed, cost) = shop.meter.measure(group()).await;
    committed?;
    assert_eq!(cost.total(), 3 + 1, "three old values are read");
    shop.check().await?;
    let subjects = tickets.by(Ticket::by_subject("c")).all().await?;
    assert_eq!(subjects, [ticket(1, "aa"), ticket(3, "b")]);

    let now = orders
        .view::<Stock>()?
        .get_stored(stock_key())
        .await?
        .expect("the stock");
    assert_eq!(now.left, 4);
    let mut group = orders.group(Order::partition("c")?);
    group.merge(
        ticket_key(1),
        &Ticket::patch().note("x".to_owned()),
        IfMatch::Any,
    )?;
    group.insert_or_merge(&ticket(3, "cc"))?;
    group.replace(&Stock {
        left: 3,
        ..now.into_inner()
    })?;
    group.commit().await?;
    assert_eq!(
        tickets.get_existing(ticket_key(1)).await?.note.as_deref(),
        Some("x")
    );
    let now = orders
        .view::<Stock>()?
        .get_stored(stock_key())
        .await?
        .expect("the stock");
    assert_eq!(now.left, 3);
    let mut group = orders.group(Order::partition("c")?);
    group.delete_stored(&now)?;
    group.replace_if(&ticket(3, "dd"), IfMatch::Any)?;
    group.commit().await?;
    assert!(
        orders
            .view::<Stock>()?
            .get_stored(stock_key())
            .await?
            .is_none()
    );
    assert_eq!(
        tickets
            .by(Ticket::by_subject("c").subject("dd"))
            .count()
            .await?,
        1
    );
    shop.check().await
}

#[tokio::test(start_paused = true)]
async fn an_index_declared_after_the_groups_handle_is_maintained() -> Result<()> {
    let shop = Shop::new();
    let orders = shop.open::<Order>().await?;
    orders.insert(&order(1, "open")).await?;
    // Another program declares the index by note after the orders' handle has read the manifest.
    let noted = shop.open::<NotedTicket>().await?;
    let tickets = shop.open::<Ticket>().await?;
    let group = async || {
        let mut group = orders.group(Order::partition("c")?);
        let noted = Ticket {
            note: Some("n".to_owned()),
            ..ticket(1, "late")
        };
        group.insert(&order(2, "open"))?.insert(&noted)?;
        group.commit().await
    };
    let (committed, cost) = shop.meter.measure(group()).await;
    committed?;
    assert_eq!(
        cost.total(),
        1,
        "the states are those that the other handle has read"
    );
    assert_eq!(
        tickets
            .by(Ticket::by_subject("c").subject("late"))
            .count()
            .await?,
        1
    );
    assert_eq!(
        noted
            .by(NotedTicket::by_note("c").note("n"))
            .count()
            .await?,
        1
    );
    shop.check().await?;

    // The states are read again: writes no longer maintain the dropped index.
    noted.entities().await?.drop_index("note").await?;
    tokio::time::advance(Duration::from_secs(600)).await;
    let mut group = orders.group(Order::partition("c")?);
    let second = Ticket {
        note: Some("n".to_owned()),
        ..ticket(2, "lost")
    };
    group.insert(&second)?;
    group.commit().await?;
    let found = shop
        .store
        .query_all(&TableName::new("Shop")?, &Query::new())
        .await?;
    assert!(found.iter().any(|row| row.key().row() == "subject_lost"));
    assert!(
        !found.iter().any(|row| row.key().row().starts_with("note_")),
        "{found:?}"
    );
    shop.check().await
}

#[tokio::test(start_paused = true)]
async fn a_group_uses_the_rust_code_of_the_other_handle() -> Result<()> {
    let shop = Shop::new();
    let opaque = || {
        Index::new("first", Placement::SamePartition, "1", |e| {
            let Some(ValueRef::String(subject)) = e.get("Subject") else {
                return Ok(None);
            };
            Key::new(
                e.key().partition(),
                format!("first_{}_{}", &subject[..1], e.key().row()),
            )
            .map(Some)
        })
        .with_discriminator("EntityType", "Ticket")
    };
    let orders = shop.open::<Order>().await?;
    let tickets = shop.db.table_with::<Ticket>("Shop", vec![opaque()])?;
    tickets.declare().await?;
    tokio::time::advance(Duration::from_secs(600)).await;
    // The orders' program alone cannot maintain that index.
    let refused = orders
        .entities()
        .await?
        .insert(ticket(1, "late").to_entity()?)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("first") && refused.contains("Rust code"),
        "{refused}"
    );

    let mut group = orders.group(Order::partition("c")?);
    group
        .insert(&order(1, "open"))?
        .insert(&ticket(1, "late"))?;
    group.commit().await?;
    let first = Key::new("c", "first_l_ticket_000001")?;
    assert!(
        shop.store
            .get(&TableName::new("Shop")?, &first, None)
            .await?
            .is_some()
    );
    tokio::time::advance(Duration::from_secs(600)).await;
    let mut group = orders.group(Order::partition("c")?);
    group.delete(ticket_key(1), IfMatch::Any)?;
    group.commit().await?;
    assert!(
        shop.store
            .get(&TableName::new("Shop")?, &first, None)
            .await?
            .is_none()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_group_refuses_changes_that_it_cannot_write_without_a_request() -> Result<()> {
    let shop = Shop::new();
    let orders = shop.open::<Order>().await?;
    let before = shop.meter.total();
    let mut group = orders.group(Order::partition("c")?);
    group.insert(&order(1, "open"))?;
    let letter = Letter {
        customer: "c".to_owned(),
        id: 1,
        text: "x".repeat(2000),
    };
    let large = group.insert(&letter).unwrap_err().to_string();
    assert!(large.contains("with_blobs"), "{large}");
    let outside = Stock {
        customer: "d".to_owned(),
        ..stock(1)
    };
    let outside = group.insert(&outside).unwrap_err().to_string();
    assert!(outside.contains("is not in the partition 'c'"), "{outside}");
    assert_eq!(group.len(), 1);
    assert_eq!(shop.meter.total() - before, 0);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_absent_unique_index_refuses_values() -> Result<()> {
    let shop = Shop::new();
    let orders = shop.open::<Order>().await?;
    let everything = IndexedEntities::open(
        shop.store.clone(),
        TableName::new("Shop")?,
        vec![],
        IndexOptions::default(),
    );
    everything
        .await?
        .insert(ticket(1, "late").to_entity()?)
        .await?;
    let tickets = shop.open::<Ticket>().await?;
    assert_eq!(
        tickets.entities().await?.state("subject"),
        IndexState::Absent
    );
    let mut group = orders.group(Order::partition("c")?);
    group
        .insert(&order(1, "open"))?
        .insert(&ticket(2, "lost"))?;
    let refused = group.commit().await.unwrap_err().to_string();
    assert!(
        refused.contains("subject") && refused.contains("absent"),
        "{refused}"
    );
    assert!(orders.get(Order::key("c", 1)?).await?.is_none());

    tickets.entities().await?.build("subject")?.run().await?;
    let mut group = orders.group(Order::partition("c")?);
    group
        .insert(&order(1, "open"))?
        .insert(&ticket(2, "lost"))?;
    group.commit().await?;
    shop.check().await
}

/// The value that was written can be written again without a read.
#[tokio::test]
async fn a_write_renews_the_version_of_its_entity() -> Result<()> {
    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Order", rename_all = "PascalCase")]
    #[index(state, row_key = "state_{state}_{id:06}")]
    struct Versioned {
        #[partition_key]
        customer: String,
        #[row_key(format = "order_{:06}")]
        id: u32,
        state: String,
        #[etag]
        etag: Option<ETag>,
    }
    let meter = RequestMeter::new();
    let store = Metered::new(MemoryStore::new(), meter.clone());
    let orders = open_table::<Versioned>(store, "Shop", IndexOptions::local()).await?;
    let mut order = Versioned {
        customer: "ann".into(),
        id: 1,
        state: "open".into(),
        etag: None,
    };
    orders.insert(&order).await?.renew(&mut order);
    let stale = order.clone();
    let (done, cost) = meter
        .measure(async {
            for state in ["paid", "sent"] {
                order.state = state.into();
                orders.replace(&order).await?.renew(&mut order);
            }
            Ok::<_, table_core::Error>(())
        })
        .await;
    done?;
    let read = orders.get_existing(Versioned::key("ann", 1)?).await?;
    assert_eq!((read.state.as_str(), &read.etag), ("sent", &order.etag));
    assert_eq!(
        cost.total(),
        4,
        "a read of the old state and a group, twice"
    );
    assert!(
        orders
            .replace(&stale)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    Ok(())
}
