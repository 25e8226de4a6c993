//! A feed of a live table: it is declared, built and dropped as an index is.

use table_core::manifest::{IndexState, StoredIndex};
use table_core::memory::MemoryStore;
use table_core::model::{Entity, IfMatch, PartitionKey};
use table_core::query::Query;
use table_core::store::{Operation, Result, TableStore as _, TableStoreExt as _};
use table_core::typed::TableEntity;

use super::{Collected, Order, ann, order};
use crate::changes::ChangeKind::{Deleted, Inserted, Updated};
use crate::changes::{ChangeKind, Changes};
use crate::index::{IndexOptions, IndexedEntities};
use crate::{Database, Table};

/// As an earlier program declares the type.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Order")]
struct Earlier {
    #[partition_key]
    customer: String,
    #[row_key]
    number: u32,
    paid: bool,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Letter", feed)]
struct Letter {
    #[partition_key]
    customer: String,
    #[row_key(format = "letter_{}")]
    number: u32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Draft")]
struct Draft {
    #[partition_key]
    customer: String,
    #[row_key(format = "draft_{}")]
    number: u32,
}

/// The type of all rows of its table.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(feed)]
struct Anything {
    #[partition_key]
    customer: String,
    #[row_key]
    row: String,
}

fn earlier(number: u32) -> Earlier {
    Earlier {
        customer: "ann".to_owned(),
        number,
        paid: false,
    }
}

fn letter(number: u32) -> Letter {
    Letter {
        customer: "ann".to_owned(),
        number,
    }
}

fn draft(number: u32) -> Draft {
    Draft {
        customer: "ann".to_owned(),
        number,
    }
}

/// The kinds and the rows of the changes of a partition.
async fn changes_of(changes: &Changes) -> Result<Vec<(ChangeKind, String, String)>> {
    let found = changes.after(&ann(), 0).await?;
    let all = found
        .into_iter()
        .map(|change| (change.kind, change.key.row().to_owned(), change.entity_type));
    Ok(all.collect())
}

fn of_orders<const N: usize>(
    changes: [(ChangeKind, &str); N],
) -> Vec<(ChangeKind, String, String)> {
    let order = |(kind, row): (ChangeKind, &str)| (kind, row.to_owned(), "Order".to_owned());
    changes.map(order).into()
}

async fn turned_on(orders: &Table<Order>) -> Result<IndexState> {
    let entities = orders.entities().await?;
    Ok(entities.build("changes")?.run().await?.state)
}

/// Programs that began before the feed emit, whichever verb they use.
#[tokio::test(start_paused = true)]
async fn writers_of_earlier_programs_emit() -> Result<()> {
    let store = MemoryStore::new();
    let before = Database::new(store.clone()).table::<Earlier>("Orders")?;
    before.declare().await?;
    before.insert(&earlier(1)).await?;

    let orders = Database::new(store.clone()).table::<Order>("Orders")?;
    orders.insert(&order(2)).await?;
    let (handler, mailer) = (Collected::default(), orders.changes().consumer("mailer"));
    let refused = mailer.run_once(&handler).await.unwrap_err().to_string();
    assert!(refused.contains("build"), "{refused}");
    assert_eq!(turned_on(&orders).await?, IndexState::Readable);
    let number = changes_of(&orders.changes()).await?.len();
    assert!(number <= 1, "what existed before is no change: {number}");

    before.insert(&earlier(3)).await?;
    before.upsert(&earlier(3)).await?;
    before
        .merge(
            Earlier::key("ann", 1u32)?,
            &Earlier::patch().paid(true),
            IfMatch::Any,
        )
        .await?;
    before
        .delete(Earlier::key("ann", 1u32)?, IfMatch::Any)
        .await?;
    let mut group = before.group(&Earlier::partition("ann")?);
    group.insert(&earlier(4))?;
    group.delete(Earlier::key("ann", 3u32)?, IfMatch::Any)?;
    group.commit().await?;
    before.query().delete().await?;
    let expected = of_orders([
        (Inserted, "0000000003"),
        (Updated, "0000000003"),
        (Updated, "0000000001"),
        (Deleted, "0000000001"),
        (Inserted, "0000000004"),
        (Deleted, "0000000003"),
        (Deleted, "0000000002"),
        (Deleted, "0000000004"),
    ]);
    assert_eq!(changes_of(&orders.changes()).await?[number..], expected);
    assert_eq!(mailer.run_once(&handler).await?.changes, 8 + number as u64);
    Ok(())
}

/// A drop may have removed some changes and not the cursors: a feed that went on would number its changes from 1 again.
#[tokio::test(start_paused = true)]
async fn a_feed_is_built_only_after_its_drop_has_ended() -> Result<()> {
    let store = MemoryStore::new();
    let orders = Database::new(store.clone()).table::<Order>("Orders")?;
    orders.insert(&order(1)).await?;
    let entities = orders.entities().await?;
    let feed = entities.declared().await?.remove(0);
    let interrupted = feed.state_patch(IndexState::DeleteOnly, Some(StoredIndex::DROPPING))?;
    let merge = Operation::Merge(interrupted, IfMatch::Any);
    store.write(orders.name(), merge).await?;
    let refused = turned_on(&orders).await.unwrap_err().to_string();
    assert!(refused.contains("end its drop"), "{refused}");
    entities.drop_index("changes").await?;
    assert_eq!(turned_on(&orders).await?, IndexState::Readable);
    orders.insert(&order(2)).await?;
    let expected = of_orders([(Inserted, "0000000002")]);
    assert_eq!(changes_of(&orders.changes()).await?, expected);
    Ok(())
}

/// While another feed is dropped, programs may still record its changes: the counter stays until they have ended.
#[tokio::test(start_paused = true)]
async fn the_last_drop_of_two_feeds_removes_the_changes() -> Result<()> {
    let store = MemoryStore::new();
    let db = Database::new(store.clone());
    let (orders, letters) = (db.table::<Order>("Orders")?, db.table::<Letter>("Orders")?);
    orders.insert(&order(1)).await?;
    letters.insert(&letter(1)).await?;
    let entities = letters.entities().await?;
    let declared = entities.declared().await?;
    let of_letters = |stored: &&StoredIndex| {
        let entity = stored.entity.as_ref();
        entity.is_some_and(|entity| entity.name == "Letter")
    };
    let feed = declared.iter().find(of_letters).expect("the feed");
    let dropped = feed.state_patch(IndexState::WriteOnly, Some(StoredIndex::DROPPING))?;
    let merge = Operation::Merge(dropped, IfMatch::Any);
    store.write(orders.name(), merge).await?;

    orders.entities().await?.drop_index("changes").await?;
    assert_eq!(changes_of(&orders.changes()).await?.len(), 2);
    letters.entities().await?.drop_index("changes").await?;
    assert_eq!(changes_of(&orders.changes()).await?.len(), 0);
    Ok(())
}

/// A feed over any type, as a server or an operator opens it.
async fn untyped(store: &MemoryStore, orders: &Table<Order>) -> Result<IndexedEntities> {
    IndexedEntities::open(
        store.clone(),
        orders.name().clone(),
        Vec::new(),
        IndexOptions::default(),
    )
    .await
}

#[tokio::test(start_paused = true)]
async fn programs_without_the_type_emit() -> Result<()> {
    let store = MemoryStore::new();
    let orders = Database::new(store.clone()).table::<Order>("Orders")?;
    orders.insert(&order(1)).await?;
    let entities = untyped(&store, &orders).await?;
    let paid = |old: Option<&Entity>| Ok(old.cloned().map(|row| row.with("paid", true)));
    entities
        .modify(Order::key("ann", 1u32)?.key(), paid)
        .await?;
    let expected = of_orders([(Inserted, "0000000001"), (Updated, "0000000001")]);
    assert_eq!(changes_of(&orders.changes()).await?, expected);
    Ok(())
}

/// The feeds of a table are one list of changes; other types are not in it. The changes go with the last feed.
#[tokio::test(start_paused = true)]
async fn types_share_a_feed_until_the_last_is_dropped() -> Result<()> {
    let store = MemoryStore::new();
    let db = Database::new(store.clone());
    let (orders, letters, drafts) = (
        db.table::<Order>("Orders")?,
        db.table::<Letter>("Orders")?,
        db.table::<Draft>("Orders")?,
    );
    orders.declare().await?;
    letters.declare().await?;
    let mut group = db
        .table::<Order>("Orders")?
        .group(&Order::partition("ann")?);
    group.insert(&order(1))?;
    group.insert(&letter(1))?;
    group.insert(&draft(1))?;
    group.commit().await?;
    drafts.insert(&draft(2)).await?;
    letters.insert(&letter(2)).await?;
    let name = |(_, row, of): (ChangeKind, String, String)| format!("{of} {row}");
    let found: Vec<_> = changes_of(&orders.changes())
        .await?
        .into_iter()
        .map(name)
        .collect();
    assert_eq!(
        found,
        [
            "Order 0000000001",
            "Letter letter_0000000001",
            "Letter letter_0000000002"
        ]
    );
    let handler = Collected::default();
    assert_eq!(
        orders
            .changes()
            .consumer("mailer")
            .run_once(&handler)
            .await?
            .changes,
        3
    );

    orders.entities().await?.drop_index("changes").await?;
    letters.insert(&letter(3)).await?;
    orders.insert(&order(2)).await?;
    assert_eq!(
        changes_of(&orders.changes()).await?.len(),
        4,
        "orders are not in it any more"
    );
    letters.entities().await?.drop_index("changes").await?;
    letters.insert(&letter(4)).await?;
    let rows = store.query_all(orders.name(), &Query::new()).await?;
    let of_feed = |row: &&Entity| {
        row.key().row().starts_with("~~changes") || row.key().partition() == "~~changes"
    };
    assert_eq!(
        rows.iter().filter(of_feed).count(),
        0,
        "changes, counters and cursors"
    );
    let refused = orders.changes().consumer("mailer").run_once(&handler).await;
    assert!(refused.unwrap_err().to_string().contains("no feed"));
    Ok(())
}

/// A type without a discriminator has all rows of its table.
#[tokio::test(start_paused = true)]
async fn a_type_without_discriminator_records_every_entity() -> Result<()> {
    let store = MemoryStore::new();
    let all = Database::new(store.clone()).table::<Anything>("Things")?;
    let row = Anything {
        customer: "ann".to_owned(),
        row: "1".to_owned(),
    };
    all.insert(&row).await?;
    all.upsert(&row).await?;
    let kinds: Vec<_> = changes_of(&all.changes())
        .await?
        .into_iter()
        .map(|change| change.0)
        .collect();
    assert_eq!(kinds, [Inserted, Updated]);
    assert_eq!(all.query().count().await?, 1);
    let partitions = all.changes().partitions().await?;
    assert_eq!(partitions, [PartitionKey::new("ann")?]);
    Ok(())
}

/// A handle of another type can replace and delete what it does not know.
#[tokio::test(start_paused = true)]
async fn other_types_record_what_they_overwrite() -> Result<()> {
    #[derive(Clone, Debug, PartialEq, TableEntity)]
    #[entity(type = "Draft")]
    struct Sketch {
        #[partition_key]
        customer: String,
        #[row_key]
        number: u32,
    }
    let sketch = |number| Sketch {
        customer: "ann".to_owned(),
        number,
    };
    let store = MemoryStore::new();
    let (db, other) = (Database::new(store.clone()), Database::new(store.clone()));
    let orders = db.table::<Order>("Orders")?;
    for number in 1..=4 {
        orders.insert(&order(number)).await?;
    }
    let sketches = other.table::<Sketch>("Orders")?;
    sketches.insert(&sketch(9)).await?;
    sketches.upsert(&sketch(1)).await?;
    sketches.replace_if(&sketch(2), IfMatch::Any).await?;
    sketches
        .delete(Sketch::key("ann", 3u32)?, IfMatch::Any)
        .await?;
    assert!(sketches.delete_if_exists(Sketch::key("ann", 4u32)?).await?);
    // An order takes the place of a sketch.
    orders.upsert(&order(9)).await?;
    let expected = of_orders([
        (Deleted, "0000000001"),
        (Deleted, "0000000002"),
        (Deleted, "0000000003"),
        (Deleted, "0000000004"),
        (Inserted, "0000000009"),
    ]);
    assert_eq!(changes_of(&orders.changes()).await?[4..], expected);
    Ok(())
}
