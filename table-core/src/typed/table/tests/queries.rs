use std::ops::Bound;

use super::*;
use crate::model::{Entity, PartitionKey};
use crate::query::{AccessPath, Filter, Plan};
use crate::store::{ErrorKind, OperationKind};
use crate::typed::{
    Condition, Field, PartitionOf, PartitionPrefix, PlainTable, RowPrefix, Schema, TableEntity,
    TableQuery,
};

const NAME: Field<Employee, String> = Field::new("Name");

fn rows(text: &str) -> RowPrefix<Employee> {
    RowPrefix::escaped(text)
}

fn filter<T: crate::typed::FromEntity, R: crate::typed::FromEntity>(
    query: &TableQuery<T, R>,
) -> String {
    query.to_query().unwrap().filter.unwrap().to_string()
}

async fn ids(query: TableQuery<Employee>) -> Vec<u32> {
    query.all().await.unwrap().iter().map(|e| e.id).collect()
}

#[tokio::test]
async fn rows_are_prefixes_and_ranges_of_prefixes() {
    let (table, _) = employees([9, 10, 11, 19, 20, 21]).await;
    let query = || table.query().partition(sales());
    let (ten, twenty) = (|| rows("empid_00001"), || rows("empid_00002"));
    assert_eq!(ids(query().rows(ten())).await, [10, 11, 19]);
    assert_eq!(ids(query().rows(ten()..twenty())).await, [10, 11, 19]);
    assert_eq!(
        ids(query().rows(ten()..=twenty())).await,
        [10, 11, 19, 20, 21]
    );
    assert_eq!(ids(query().rows(twenty()..)).await, [20, 21]);
    assert_eq!(ids(query().rows(..ten())).await, [9]);
    assert_eq!(ids(query().rows(..=ten())).await, [9, 10, 11, 19]);
    assert_eq!(ids(query().rows(rows(""))).await.len(), 6);
    assert_eq!(
        ids(query().rows(twenty()..).rows(..twenty())).await,
        [0_u32; 0]
    );
}

#[tokio::test]
async fn partitions_are_one_a_range_or_a_prefix() {
    let (table, _) = employees([]).await;
    for department in ["A", "B1", "B2", "C"] {
        table
            .insert(&Employee {
                department: department.to_owned(),
                ..employee(1, department)
            })
            .await
            .unwrap();
    }
    let of = |text: &str| PartitionOf::<Employee>::new(PartitionKey::new(text).unwrap());
    let names = async |query: TableQuery<Employee>| -> String {
        query
            .all()
            .await
            .unwrap()
            .into_iter()
            .map(|e| e.name)
            .collect()
    };
    assert_eq!(names(table.query().partition(of("C"))).await, "C");
    assert_eq!(
        names(table.query().partition_range(of("A")..of("B2"))).await,
        "AB1"
    );
    assert_eq!(
        names(table.query().partition_range(of("B2")..)).await,
        "B2C"
    );
    let after = (Bound::Excluded(of("A")), Bound::Included(of("B2")));
    assert_eq!(names(table.query().partition_range(after)).await, "B1B2");
    assert_eq!(
        names(
            table
                .query()
                .partition_prefix(PartitionPrefix::escaped("B"))
        )
        .await,
        "B1B2"
    );
    let path = table
        .query()
        .partition_prefix(PartitionPrefix::escaped("B"))
        .access_path()
        .unwrap();
    assert_eq!(path, AccessPath::PartitionRange);
}

#[tokio::test]
async fn rows_of_other_types_are_kept_out_by_the_store() {
    let (table, meter) = employees([1, 2]).await;
    let badge = Badge {
        department: "Sales".to_owned(),
        id: 1,
        color: "red".to_owned(),
    };
    let badges: PlainTable<Badge> = table.view().unwrap();
    badges.insert(&badge).await.unwrap();
    let before = meter.snapshot();
    assert_eq!(ids(table.query().partition(sales())).await, [1, 2]);
    assert_eq!(
        badges.query().partition(sales()).all().await.unwrap(),
        [badge]
    );
    assert_eq!(table.query().count().await.unwrap(), 2);
    assert_eq!(
        table
            .view::<Entity>()
            .unwrap()
            .query()
            .count()
            .await
            .unwrap(),
        3
    );
    assert_eq!(meter.since(&before).of_kind(OperationKind::Query), 4);
}

#[test]
fn a_discriminator_in_the_row_key_narrows_the_range_at_no_comparison() {
    let store = crate::memory::MemoryStore::new();
    let badges = PlainTable::<Badge>::new(store, "Employees").unwrap();
    let query = badges.query().partition(sales());
    assert_eq!(
        filter(&query),
        "PartitionKey eq 'Sales' and (RowKey ge 'badge_' and RowKey lt 'badge`')",
    );
    assert_eq!(query.access_path().unwrap(), AccessPath::RowRange);
    let within = query.rows(RowPrefix::escaped("badge_0000"));
    assert_eq!(
        filter(&within),
        "PartitionKey eq 'Sales' and (RowKey ge 'badge_0000' and RowKey lt 'badge_0001')",
    );
    let open = badges
        .query()
        .partition(sales())
        .rows(RowPrefix::escaped("badge_5")..);
    assert_eq!(
        filter(&open),
        "PartitionKey eq 'Sales' and (RowKey ge 'badge_5' and RowKey lt 'badge`')"
    );
}

#[tokio::test]
async fn conditions_and_types_are_joined() {
    let (table, _) = employees(1..=5).await;
    let query = table
        .query()
        .filter(NAME.gt("n3"))
        .raw_filter(Filter::ne("Name", "n4"));
    assert_eq!(
        filter(&query),
        "Name gt 'n3' and Name ne 'n4' and EntityType eq 'Employee'"
    );
    assert_eq!(ids(query).await, [5]);
}

#[tokio::test]
async fn a_projection_reads_its_properties_and_the_type() {
    let (table, _) = employees([1, 2]).await;
    let named = table.query().partition(sales()).project::<Named>();
    assert_eq!(
        filter(&named),
        "PartitionKey eq 'Sales' and EntityType eq 'Employee'"
    );
    assert_eq!(
        named
            .to_query()
            .unwrap()
            .select
            .unwrap()
            .names()
            .collect::<Vec<_>>(),
        ["Name"]
    );
    assert_eq!(named.all().await.unwrap().len(), 2);

    let all = table.view::<Entity>().unwrap().query();
    let named = all.project::<Named>();
    assert_eq!(filter(&named), "EntityType eq 'Employee'");

    let bags = table
        .query()
        .project::<Entity>()
        .select(["Age", "Name"])
        .all()
        .await
        .unwrap();
    assert_eq!(bags[0].get(Schema::TYPE_PROPERTY), None);
    assert!(bags[0].get("Name").is_some());
    let names = table
        .query()
        .project::<Entity>()
        .select([NAME])
        .all()
        .await
        .unwrap();
    assert_eq!(names[0].get("Age"), None);
    assert!(names[0].get("Name").is_some());
}

#[tokio::test]
async fn a_cheaper_plan_reads_an_or_of_keys_by_key() {
    let (table, meter) = employees(1..=9).await;
    let (one, two, none) = ("empid_000001", "empid_000002", "empid_000077");
    let or = [two, none, one].map(|row| Filter::eq(Filter::ROW_KEY, row));
    let or = or.into_iter().reduce(Filter::or).unwrap();
    let bags = table.view::<Entity>().unwrap();
    let query = bags.query().partition(sales()).filter(Condition::new(or));
    assert_eq!(query.access_path().unwrap(), AccessPath::PartitionScan);
    assert!(matches!(query.explain().unwrap().plan, Some(Plan::Points(keys)) if keys.len() == 3));

    let scanned = query.all().await.unwrap();
    let before = meter.snapshot();
    let query = query.use_cheaper_plan();
    assert_eq!(query.all().await.unwrap(), scanned);
    let cost = meter.since(&before);
    assert_eq!(cost.of_kind(OperationKind::Get), 3);
    assert_eq!(cost.total(), 3);

    let before = meter.snapshot();
    assert_eq!(query.clone().limit(1).all().await.unwrap(), scanned[..1]);
    assert_eq!(query.first().await.unwrap().as_ref(), scanned.first());
    assert_eq!(query.clone().limit(0).all().await.unwrap(), []);
    assert_eq!(meter.since(&before).total(), 2);
    assert!(query.page(None).await.is_err());
}

#[tokio::test]
async fn a_cheaper_plan_asks_for_the_type_with_each_key() {
    let (table, meter) = employees([1, 2, 3]).await;
    let mut other = employee(2, "n2").to_entity().unwrap();
    other.properties_mut().set(Schema::TYPE_PROPERTY, "Robot");
    let write = crate::store::Operation::InsertOrReplace(other);
    table.store().write(table.name(), write).await.unwrap();
    let before = meter.snapshot();
    let or = "RowKey eq 'empid_000003' or RowKey eq 'empid_000002' or RowKey eq 'empid_000001'";
    let query = table
        .query()
        .partition(sales())
        .raw_filter(or.parse().unwrap())
        .use_cheaper_plan();
    assert_eq!(ids(query).await, [1, 3]);
    let cost = meter.since(&before);
    assert_eq!(cost.of_path(AccessPath::Point), 3);
    assert_eq!(cost.total(), 3);
}

#[tokio::test]
async fn a_cheaper_plan_reads_an_or_of_ranges_one_by_one() {
    let (table, meter) = employees(1..=30).await;
    let query = table.query().partition(sales()).use_cheaper_plan();
    let query = query.raw_filter(
        "RowKey lt 'empid_000004' or RowKey ge 'empid_000028'"
            .parse()
            .unwrap(),
    );
    assert!(matches!(
        query.explain().unwrap().plan,
        Some(Plan::Ranges(_))
    ));
    assert_eq!(ids(query.clone()).await, [1, 2, 3, 28, 29, 30]);
    assert_eq!(meter.total(), 2);
    assert_eq!(ids(query.clone().limit(5)).await, [1, 2, 3, 28, 29]);
    assert_eq!(ids(query.limit(3)).await, [1, 2, 3]);
    assert_eq!(meter.total(), 5);
}

#[tokio::test]
async fn the_first_error_of_building_comes_when_it_is_run() {
    let (table, meter) = employees([1]).await;
    let broken = RowPrefix::from_result(Err(crate::Error::invalid_key("RowKey", "x", "too wide")));
    let query = table.query().rows(broken).partition(sales());
    for error in [
        query.access_path().unwrap_err(),
        query.all().await.unwrap_err(),
        query.count().await.unwrap_err(),
        query.page(None).await.unwrap_err(),
    ] {
        assert!(
            matches!(error.kind(), ErrorKind::InvalidKey { .. }),
            "{error}"
        );
    }
    assert_eq!(meter.total(), 0);
}

#[tokio::test]
async fn too_many_comparisons_are_refused_with_the_types_counted() {
    let (table, _) = employees([1]).await;
    let many = (0..15)
        .map(|n| Filter::ne("Age", n))
        .reduce(Filter::and)
        .unwrap();
    let error = table
        .query()
        .raw_filter(many.clone())
        .all()
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("at most 15 allowed, got 16"),
        "{error}"
    );
    assert!(
        table
            .view::<Entity>()
            .unwrap()
            .query()
            .raw_filter(many)
            .all()
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_row_that_does_not_decode_is_named() {
    let (table, _) = employees([1]).await;
    let mut broken = employee(2, "").to_entity().unwrap();
    broken.properties_mut().set("Name", 5);
    let write = crate::store::Operation::Insert(broken);
    table.store().write(table.name(), write).await.unwrap();
    let error = table.query().all().await.unwrap_err();
    assert!(
        error.to_string().contains("('Sales', 'empid_000002')"),
        "{error}"
    );
}

#[tokio::test]
async fn system_rows_are_not_shown_and_do_not_count() {
    use crate::store::{Operation, TableStore as _};
    let (table, meter) = employees([1, 2]).await;
    for row in ["~~j_1", "~~j_2"] {
        let system = Entity::new("Sales", row).unwrap().with("Kind", "write");
        table
            .store()
            .write(table.name(), Operation::Insert(system))
            .await
            .unwrap();
    }
    meter.reset();
    let view = table.view::<Entity>().unwrap();
    assert_eq!(view.query().all().await.unwrap().len(), 2);
    assert_eq!(view.query().count().await.unwrap(), 2);
    assert_eq!(view.query().page(None).await.unwrap().items.len(), 2);
    assert_eq!(view.query().limit(3).all().await.unwrap().len(), 2);
    assert_eq!(
        meter.total(),
        5,
        "a limit that system rows used up is read on"
    );
}
