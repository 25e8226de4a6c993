//! An entity and its dependent rows under one prefix of the RowKey.

use std::sync::Arc;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty, Metered, RequestMeter};
use table_core::query::AccessPath;
use table_core::store::OperationKind;
use table_core::typed::{EntityResolver, TableEntity};
use table_patterns::Database;
use table_patterns::compound::Compound;

use crate::{Harness, TestTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Review",
    rename_all = "PascalCase",
    partition_key = "{department}",
    row_key = "empid_{id:06}_{year:04}"
)]
struct Review {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

#[derive(Clone, Debug, PartialEq, EntityResolver)]
enum Row {
    Employee(Employee),
    Review(Review),
}

fn employee(id: u32) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        name: format!("employee {id}"),
    }
}

fn review(id: u32, year: u16) -> Review {
    Review {
        department: "Sales".to_owned(),
        id,
        year,
        rating: i32::from(year % 5),
    }
}

fn open(table: &TestTable, id: u32) -> (Compound<Row>, RequestMeter) {
    let meter = RequestMeter::new();
    let store = Metered::new(table.store().clone(), meter.clone());
    let employees = Database::new(Arc::new(store))
        .table::<Employee>(table.name().clone())
        .expect("a table");
    let key = Employee::key("Sales", id).expect("a legal key");
    (Compound::new(&employees, key).expect("a view"), meter)
}

/// Inserts the employee and the reviews of some years.
async fn fill(rows: &Compound<Row>, id: u32, years: std::ops::RangeInclusive<u16>) {
    let mut group = rows.group();
    group.insert(&employee(id)).expect("it fits");
    for year in years {
        group.insert(&review(id, year)).expect("it fits");
    }
    group.commit().await.expect("a group of inserts");
}

/// One request reads the employee and all reviews, each as its own type, and no row of another employee.
pub(crate) async fn one_request_reads_rows_of_all_types(harness: &Harness) {
    let table = harness.table().await;
    let (ken, meter) = open(&table, 123);
    fill(&open(&table, 122).0, 122, 2010..=2010).await;
    fill(&open(&table, 124).0, 124, 2010..=2010).await;
    fill(&ken, 123, 2010..=2013).await;
    assert_eq!(meter.total(), 1);
    let (rows, cost) = meter.measure(ken.all()).await;
    let reviews = (2010..=2013).map(|year| Row::Review(review(123, year)));
    let expected: Vec<Row> = [Row::Employee(employee(123))]
        .into_iter()
        .chain(reviews)
        .collect();
    assert_eq!(rows.expect("rows"), expected);
    assert_eq!(cost.total(), 1);
    assert_eq!(cost.of_path(AccessPath::RowRange), 1);
}

/// Rows of one type, or a range of their keys, are read by one request.
pub(crate) async fn one_request_reads_a_range_of_one_type(harness: &Harness) {
    let table = harness.table().await;
    let (ken, meter) = open(&table, 123);
    fill(&ken, 123, 2010..=2013).await;
    let reviews = ken
        .of::<Review>()
        .expect("a view")
        .all()
        .await
        .expect("reviews");
    assert_eq!(
        reviews.iter().map(|review| review.year).collect::<Vec<_>>(),
        [2010, 2011, 2012, 2013]
    );
    let of = |year| Review::key("Sales", 123, year).expect("a legal key");
    let query = ken.between::<Review>(of(2011), of(2012)).expect("a view");
    let (some, cost) = meter.measure(query.all()).await;
    let years: Vec<u16> = some
        .expect("reviews")
        .iter()
        .map(|review| review.year)
        .collect();
    assert_eq!(years, vec![2011, 2012]);
    assert_eq!(cost.total(), 1);
}

/// All rows of the employee are deleted together, whatever their types. Rows of other employees stay.
pub(crate) async fn all_rows_are_deleted_together(harness: &Harness) {
    let table = harness.table().await;
    let (ken, meter) = open(&table, 123);
    fill(&open(&table, 124).0, 124, 2010..=2010).await;
    fill(&ken, 123, 2010..=2013).await;
    let (deleted, cost) = meter.measure(ken.delete()).await;
    assert_eq!(deleted.expect("a count"), 5);
    assert_eq!(cost.total(), 2);
    assert_eq!(cost.of_kind(OperationKind::Transact), 1);
    assert_eq!(ken.all().await.expect("nothing"), []);
    assert_eq!(ken.delete().await.expect("nothing"), 0);
    assert_eq!(open(&table, 124).0.all().await.expect("rows").len(), 2);
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Person",
    rename_all = "PascalCase",
    partition_key = "{department}",
    row_key = "{name}_"
)]
struct Person {
    department: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Absence",
    rename_all = "PascalCase",
    partition_key = "{department}",
    row_key = "{name}_{year:04}"
)]
struct Absence {
    department: String,
    name: String,
    year: u16,
}

#[derive(Debug, TableEntity)]
struct Nickname {
    #[partition_key]
    department: String,
    #[row_key]
    name: String,
}

#[derive(Clone, Debug, PartialEq, EntityResolver)]
enum Personal {
    Person(Person),
    Absence(Absence),
}

/// A prefix that ends in text is refused, because other keys can continue the text. A separator after the text
/// excludes these keys.
pub(crate) async fn a_prefix_that_other_keys_continue_is_refused(harness: &Harness) {
    let table = harness.table().await;
    let open = Database::new(table.store().clone())
        .table::<Nickname>(table.name().clone())
        .expect("a table");
    let key = Nickname::key("Sales", "ann").expect("a key");
    let error = Compound::<Nickname>::new(&open, key).expect_err("'anna' goes on from 'ann'");
    assert!(error.to_string().contains("'{name}_'"), "{error}");

    let people = Database::new(table.store().clone())
        .table::<Person>(table.name().clone())
        .expect("a table");
    let of = |name: &str| {
        Compound::<Personal>::new(&people, Person::key("Sales", name).expect("a key"))
            .expect("a view")
    };
    let names = ["ann", "anna", "ann_b", "ann~", "an"];
    for name in names {
        let mut group = of(name).group();
        let (department, name) = ("Sales".to_owned(), name.to_owned());
        group
            .insert(&Absence {
                department: department.clone(),
                name: name.clone(),
                year: 2012,
            })
            .expect("it fits");
        group.insert(&Person { department, name }).expect("it fits");
        group.commit().await.expect("new rows");
    }
    for (n, name) in names.iter().enumerate() {
        assert_eq!(of(name).all().await.expect("rows").len(), 2, "{name}");
        assert_eq!(of(name).delete().await.expect("a count"), 2, "{name}");
        let left = people
            .view::<Personal>()
            .expect("a view")
            .query()
            .all()
            .await
            .expect("rows");
        assert_eq!(left.len(), 2 * (names.len() - n - 1), "{name}");
    }
}

/// A deletion that crashes at any request leaves all rows or none. A second run leaves none.
pub(crate) async fn a_crashed_deletion_leaves_all_rows_or_none(harness: &Harness) {
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let table = harness.table().await;
            let (ken, _) = open(&table, 123);
            fill(&ken, 123, 2010..=2013).await;
            fill(&open(&table, 124).0, 124, 2010..=2010).await;
            let faults = FaultInjector::new(0);
            let store = Faulty::new(table.store().clone(), faults.clone());
            let crashing = Database::new(Arc::new(store))
                .table::<Employee>(table.name().clone())
                .expect("a table");
            let key = Employee::key("Sales", 123).expect("a legal key");
            let crashing = Compound::<Row>::new(&crashing, key).expect("a view");
            faults.crash_at(request, point);
            let answer = crashing.delete().await;
            let left = ken.all().await.expect("rows").len();
            assert!(
                left == 0 || (left == 5 && answer.is_err()),
                "{point:?} at {request}: {left} are left"
            );
            let again = ken.delete().await.expect("the rest");
            assert_eq!(again, left);
            assert_eq!(ken.all().await.expect("nothing"), vec![]);
            assert_eq!(open(&table, 124).0.all().await.expect("others").len(), 2);
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert_eq!(crashes, 4);
}
