//! Reads do not return index entries and system rows.

use std::sync::Arc;

use futures_util::TryStreamExt;

use crate::adapter::{Metered, RequestMeter};
use crate::memory::MemoryStore;
use crate::model::{Entity, INDEX_NAME, Key, PartitionKey, ValueRef};
use crate::query::{Filter, Select};
use crate::store::{Operation, Result, TableStore};
use crate::typed::{FromEntity, PlainTable, TableQuery};

/// A projection of any row.
#[derive(Debug, PartialEq)]
struct Number(i32);

impl FromEntity for Number {
    fn select() -> Option<Select> {
        Some(Select::new(["Number"]))
    }

    fn type_filter() -> Option<Filter> {
        None
    }

    fn from_entity(entity: Entity) -> Result<Self> {
        assert!(
            entity.get(INDEX_NAME).is_none(),
            "the projection does not select it"
        );
        match entity.get("Number") {
            Some(ValueRef::Int32(number)) => Ok(Self(number)),
            other => panic!("{other:?} at {}", entity.key()),
        }
    }
}

fn entity(row: &str, number: i32) -> Entity {
    Entity::new("p", row).unwrap().with("Number", number)
}

fn entry(row: &str) -> Entity {
    Entity::new("p", row)
        .unwrap()
        .with(INDEX_NAME, "email.1f0c77aa")
        .with("OwnerRow", "m1")
}

/// 20 entries before two entities, an entry between them, and a system row after them.
async fn mixed() -> (PlainTable<Entity>, RequestMeter) {
    let meter = RequestMeter::new();
    let table = PlainTable::<Entity>::new(Metered::new(MemoryStore::new(), meter.clone()), "Mixed")
        .unwrap();
    table.create_if_missing().await.unwrap();
    let entries = (0..20).map(|n| entry(&format!("e{n:02}")));
    let others = [
        entity("m1", 1),
        entry("m1_entry"),
        entity("m2", 2),
        entity("~~j_1", 3),
    ];
    for row in entries.chain(others) {
        table
            .store()
            .write(table.name(), Operation::Insert(row))
            .await
            .unwrap();
    }
    meter.reset();
    (table, meter)
}

async fn rows(query: TableQuery<Entity>) -> Vec<String> {
    query
        .all()
        .await
        .unwrap()
        .iter()
        .map(|entity| entity.key().row().to_owned())
        .collect()
}

fn key(row: &str) -> Key {
    Key::new("p", row).unwrap()
}

#[tokio::test]
async fn queries_of_anything_leave_them_out() {
    let (table, _) = mixed().await;
    assert_eq!(rows(table.query()).await, ["m1", "m2"]);
    assert_eq!(table.query().count().await.unwrap(), 2);
    assert_eq!(
        rows(table.query().sorted_on_client().select(["Number"])).await,
        ["m1", "m2"]
    );
    assert_eq!(
        table.query().project::<Number>().all().await.unwrap(),
        [Number(1), Number(2)]
    );
    let numbers = table.view::<Number>().unwrap();
    assert_eq!(numbers.query().all().await.unwrap(), [Number(1), Number(2)]);
    assert_eq!(numbers.query().count().await.unwrap(), 2);
    let pages: Vec<usize> = table
        .query()
        .page_size(11)
        .pages()
        .map_ok(|p| p.len())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(pages.iter().sum::<usize>(), 2, "{pages:?}");
    let either = Filter::eq(Filter::ROW_KEY, "e00").or(Filter::eq(Filter::ROW_KEY, "m1"));
    let points = table
        .query()
        .partition(PartitionKey::new("p").unwrap())
        .raw_filter(either)
        .use_cheaper_plan();
    assert_eq!(rows(points).await, ["m1"]);
}

#[tokio::test]
async fn limits_count_entities_without_index_entries() {
    let (table, meter) = mixed().await;
    assert_eq!(rows(table.query().limit(2)).await, ["m1", "m2"]);
    assert_eq!(rows(table.query().limit(1)).await, ["m1"]);
    assert_eq!(table.query().limit(1).count().await.unwrap(), 1);
    meter.reset();
    assert_eq!(
        table.query().first().await.unwrap().unwrap().key().row(),
        "m1"
    );
    assert_eq!(meter.total(), 5, "pages of 1, 2, 4, 8 and 16 rows");

    let mut found = Vec::new();
    let mut from = None;
    loop {
        let page = table.query().limit(3).page(from.as_ref()).await.unwrap();
        assert!(page.items.len() <= 3);
        found.extend(
            page.items
                .iter()
                .map(|entity| entity.key().row().to_owned()),
        );
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found, ["m1", "m2"]);
}

#[tokio::test]
async fn point_reads_find_entities() {
    let (table, meter) = mixed().await;
    assert!(table.get(key("m1")).await.unwrap().is_some());
    assert!(table.get(key("e00")).await.unwrap().is_none());
    assert!(table.get(key("~~j_1")).await.unwrap().is_none());
    assert!(
        table
            .get_existing(key("e00"))
            .await
            .unwrap_err()
            .is_entity_not_found()
    );
    assert!(table.get_as::<Number>(key("e00")).await.unwrap().is_none());
    assert_eq!(
        table.get_as::<Number>(key("m2")).await.unwrap(),
        Some(Number(2))
    );
    meter.reset();
    let found = table
        .get_many([key("m1"), key("e00"), key("m2")])
        .await
        .unwrap();
    assert_eq!(
        found.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert_eq!(meter.total(), 3);
}

#[tokio::test]
async fn index_entries_are_returned_on_request() {
    let (table, _) = mixed().await;
    assert_eq!(
        table.query().with_index_entries().count().await.unwrap(),
        23
    );
    assert_eq!(
        rows(table.query().with_system_rows()).await,
        ["m1", "m2", "~~j_1"]
    );
    assert_eq!(
        table
            .query()
            .with_index_entries()
            .with_system_rows()
            .count()
            .await
            .unwrap(),
        24
    );
    let named = table
        .query()
        .raw_filter(Filter::eq(INDEX_NAME, "email.1f0c77aa"));
    assert_eq!(named.count().await.unwrap(), 21);
    let first = table
        .query()
        .with_index_entries()
        .select(["OwnerRow"])
        .first()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.key().row(), "e00");
    assert_eq!(first.get(INDEX_NAME), None);

    let all = table.with_index_entries().with_system_rows();
    assert!(all.get(key("e00")).await.unwrap().is_some());
    assert!(all.get(key("~~j_1")).await.unwrap().is_some());
    assert_eq!(all.query().count().await.unwrap(), 24);
}

#[tokio::test]
async fn rows_that_only_resemble_index_entries_are_returned() {
    let (table, _) = mixed().await;
    for (n, name) in ["email", "email.1F0C77AA", "email.1f0c77a", ".1f0c77aa"]
        .into_iter()
        .enumerate()
    {
        let row = entity(&format!("n{n}"), 7).with(INDEX_NAME, name);
        table
            .store()
            .write(table.name(), Operation::Insert(row))
            .await
            .unwrap();
    }
    let number = entity("n4", 7).with(INDEX_NAME, 5);
    table
        .store()
        .write(table.name(), Operation::Insert(number))
        .await
        .unwrap();
    assert_eq!(
        rows(table.query()).await,
        ["m1", "m2", "n0", "n1", "n2", "n3", "n4"]
    );
    let kept = table
        .query()
        .select([INDEX_NAME])
        .limit(3)
        .all()
        .await
        .unwrap();
    assert!(kept[2].get(INDEX_NAME).is_some(), "it was asked for");
}

#[tokio::test]
async fn types_with_a_discriminator_read_no_extra_properties() {
    let (table, _) = mixed().await;
    let store: Arc<dyn TableStore> = Arc::clone(table.store());
    let employees = PlainTable::<super::Employee>::new(store, "Mixed").unwrap();
    let whole = employees.query().to_query().unwrap().select.unwrap();
    assert!(!whole.contains(INDEX_NAME), "{whole:?}");
    assert_eq!(
        employees
            .query()
            .project::<super::Named>()
            .to_query()
            .unwrap()
            .select,
        Some(Select::new(["Name"]))
    );
    let of_any = table.query().select(["Name"]).to_query().unwrap().select;
    assert_eq!(of_any, Some(Select::new(["Name", INDEX_NAME])));
}
