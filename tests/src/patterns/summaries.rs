//! Summaries that a type declares: counts, sums, minima and maxima by the fields of the type.

use std::sync::Arc;

use crate::open_table;
use table_core::model::{Entity, Key, Ticks};
use table_core::prelude::*;
use table_patterns::Table;
use table_patterns::index::{IndexOptions, ScrubMode};

use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(
    office,
    row_key = "office_{office}",
    shape = summary(sum(salary, bonus), min(salary, hired, rating), max(salary, bonus, rating))
)]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    office: String,
    salary: i64,
    bonus: Option<i32>,
    hired: Ticks,
    rating: Option<f64>,
}

fn minute(number: i64) -> Ticks {
    format!("2013-01-01T{:02}:{:02}:00Z", number / 60 % 24, number % 60)
        .parse()
        .expect("a time")
}

fn employee(id: u32, office: &str, salary: i64) -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id,
        office: office.to_owned(),
        salary,
        bonus: id.is_multiple_of(3).then_some(salary as i32 / 10),
        hired: minute(salary % 1440),
        rating: id.is_multiple_of(2).then_some(salary as f64 / 7.0),
    }
}

async fn open(harness: &Harness) -> Table<Employee> {
    let (store, name) = (Arc::clone(harness.store()), harness.unused_name());
    open_table(store, name, IndexOptions::default())
        .await
        .expect("a new table")
}

/// Compares the summary of an office, and of the department, with the employees that are left.
async fn check(employees: &Table<Employee>, all: &[Employee], what: &str) {
    for office in ["Oslo", "Rome"] {
        let of = employees
            .by(Employee::by_office("Sales").office(office))
            .summary()
            .await
            .expect(what);
        let here: Vec<_> = all
            .iter()
            .filter(|employee| employee.office == office)
            .collect();
        let case = format!("{what}: {office} {of:?}");
        assert_eq!(of.count(), here.len() as i64, "{case}");
        assert_eq!(
            of.sum(Employee::SALARY).expect(what),
            here.iter().map(|e| e.salary).sum::<i64>(),
            "{case}"
        );
        assert_eq!(
            of.sum(Employee::BONUS).expect(what),
            here.iter()
                .filter_map(|e| e.bonus)
                .map(i64::from)
                .sum::<i64>()
        );
        assert_eq!(
            of.min(Employee::SALARY).expect(what),
            here.iter().map(|e| e.salary).min(),
            "{case}"
        );
        assert_eq!(
            of.max(Employee::SALARY).expect(what),
            here.iter().map(|e| e.salary).max(),
            "{case}"
        );
        assert_eq!(
            of.min(Employee::HIRED).expect(what),
            here.iter().map(|e| e.hired).min(),
            "{case}"
        );
        assert_eq!(
            of.max(Employee::BONUS).expect(what),
            here.iter().filter_map(|e| e.bonus).max(),
            "{case}"
        );
        let ratings = || here.iter().filter_map(|e| e.rating);
        assert_eq!(
            of.min(Employee::RATING).expect(what),
            ratings().min_by(f64::total_cmp),
            "{case}"
        );
        assert_eq!(
            of.max(Employee::RATING).expect(what),
            ratings().max_by(f64::total_cmp),
            "{case}"
        );
    }
    let whole = employees
        .by(Employee::by_office("Sales"))
        .summary()
        .await
        .expect(what);
    assert_eq!(whole.count(), all.len() as i64, "{what}");
    assert_eq!(
        whole.max(Employee::SALARY).expect(what),
        all.iter().map(|e| e.salary).max(),
        "{what}"
    );
    assert_eq!(
        whole.min(Employee::HIRED).expect(what),
        all.iter().map(|e| e.hired).min(),
        "{what}"
    );
}

/// Minima and maxima stay right while the entities that have them are deleted and changed, also when more are deleted than a row
/// keeps. A scrub completes such a row, and a build makes it.
pub(super) async fn typed_summaries_follow_every_write(harness: &Harness) {
    let employees = open(harness).await;
    let mut all = Vec::new();
    for id in 0..24 {
        let one = employee(
            id,
            if id.is_multiple_of(2) { "Oslo" } else { "Rome" },
            i64::from(1000 + id * 7 % 40),
        );
        employees.insert(&one).await.expect("an insert");
        all.push(one);
    }
    check(&employees, &all, "after inserts").await;

    // The largest and the smallest salaries of Oslo, one by one: more than a row keeps.
    let mut oslo: Vec<_> = all.iter().filter(|e| e.office == "Oslo").cloned().collect();
    oslo.sort_by_key(|e| e.salary);
    for gone in &oslo[2..] {
        employees
            .delete(
                Employee::key("Sales", gone.id).expect("a key"),
                IfMatch::Any,
            )
            .await
            .expect("a delete");
        all.retain(|e| e.id != gone.id);
        check(&employees, &all, "after a delete").await;
    }
    let key = |id: u32| Employee::key("Sales", id).expect("a key");
    let move_and_raise = |employee: &mut Employee| {
        employee.office = "Oslo".to_owned();
        employee.salary = 5000;
        employee.rating = None;
        Ok(())
    };
    employees
        .update(key(1), move_and_raise)
        .await
        .expect("an update");
    let changed = all.iter_mut().find(|e| e.id == 1).expect("the employee");
    (changed.office, changed.salary, changed.rating) = ("Oslo".to_owned(), 5000, None);
    check(&employees, &all, "after an update").await;
    // A value in the middle changes: a recount must notice it.
    employees
        .update(key(5), |employee| {
            employee.salary = 1001;
            Ok(())
        })
        .await
        .expect("an update");
    all.iter_mut()
        .find(|e| e.id == 5)
        .expect("the employee")
        .salary = 1001;
    check(&employees, &all, "after another update").await;

    employees
        .entities()
        .await
        .expect("an open table")
        .scrub("office", ScrubMode::Repair)
        .await
        .expect("a scrub");
    let found = employees
        .entities()
        .await
        .expect("an open table")
        .scrub("office", ScrubMode::Report)
        .await
        .expect("a scrub");
    assert_eq!(
        (found.missing, found.dangling),
        (0, 0),
        "a scrub completes the rows"
    );
    check(&employees, &all, "after a scrub").await;

    employees
        .entities()
        .await
        .expect("an open table")
        .drop_index("office")
        .await
        .expect("a drop");
    employees
        .entities()
        .await
        .expect("an open table")
        .build("office")
        .expect("a declared index")
        .run()
        .await
        .expect("a build");
    check(&employees, &all, "after a build").await;
    for gone in std::mem::take(&mut all) {
        employees
            .delete(key(gone.id), IfMatch::Any)
            .await
            .expect("a delete");
    }
    check(&employees, &all, "without employees").await;
}

/// A key that no entity can have, a field that is not added up, and an overflow are errors, and not zero.
pub(super) async fn mistakes_in_summaries_are_errors(harness: &Harness) {
    let employees = open(harness).await;
    employees
        .insert(&employee(1, "Oslo", 1000))
        .await
        .expect("an insert");
    let of = employees
        .by(Employee::by_office("Sales").office("Oslo"))
        .summary()
        .await
        .expect("a summary");
    for error in [
        of.max(Employee::HIRED)
            .expect_err("only the minimum")
            .to_string(),
        of.min(Employee::BONUS)
            .expect_err("only the maximum")
            .to_string(),
    ] {
        assert!(
            error.contains("Hired") || error.contains("Bonus"),
            "{error}"
        );
    }
    assert!(
        of.sum(Employee::RATING)
            .expect_err("no sum")
            .to_string()
            .contains("'Rating'")
    );
    let nothing = employees
        .by(Employee::by_office("Sales").office("Bonn"))
        .summary()
        .await
        .expect("zeros");
    assert_eq!(
        (
            nothing.count(),
            nothing.sum(Employee::SALARY).expect("zero")
        ),
        (0, 0)
    );
    assert_eq!(nothing.min(Employee::SALARY).expect("none"), None);

    let entities = employees.entities().await.expect("an open table");
    let wrong = entities
        .summary("office", &Key::new("Sales", "ofice_Oslo").expect("a key"))
        .await;
    let error = wrong.expect_err("a key that the index cannot have");
    assert!(
        error.to_string().contains("office_{Office:text}"),
        "{error}"
    );
    let right = entities
        .summary("office", &Key::new("Sales", "office_Oslo").expect("a key"))
        .await
        .expect("a summary");
    assert_eq!((right.count, right.sums["Salary"]), (1, 1000));

    // A refused write would tell about the sum of others. The sum is kept, and not shown.
    let rome = Key::new("Sales", "office_Rome").expect("a key");
    for id in [2, 4] {
        let added = employees.insert(&employee(id, "Rome", i64::MAX)).await;
        added.expect("a sum of more than an Int64");
    }
    let error = entities.summary("office", &rome).await;
    let error = error.expect_err("more than an Int64").to_string();
    let sum = (2 * i128::from(i64::MAX)).to_string();
    assert!(
        error.contains("'Salary'") && error.contains(&sum),
        "{error}"
    );
    for id in [2, 4] {
        let key = employee(id, "Rome", 0).entity_key().expect("a key");
        let removed = employees.delete_if_exists(key).await;
        assert!(removed.expect("a removal"));
    }
    let nobody = entities.summary("office", &rome).await.expect("zeros");
    assert_eq!((nobody.count, nobody.sums["Salary"]), (0, 0));

    let infinite = Employee {
        rating: Some(f64::INFINITY),
        ..employee(3, "Oslo", 1)
    };
    assert!(
        employees
            .insert(&infinite)
            .await
            .expect_err("no order")
            .to_string()
            .contains("finite")
    );
    assert_eq!(
        employees.query().count().await.expect("an answer"),
        1,
        "nothing was written"
    );

    // Another client sees the count and the sum as numbers, and the smallest and largest values as text.
    let (table, key) = (&employees, Key::new("Sales", "office_Oslo").expect("a key"));
    let row: Entity = table
        .store()
        .get(table.name(), &key, None)
        .await
        .expect("an answer")
        .expect("the summary");
    assert_eq!(row.get("Count"), Some(ValueRef::Int64(1)));
    assert_eq!(row.get("SumSalary"), Some(ValueRef::Int64(1000)));
    assert_eq!(row.get("MinSalary"), Some(ValueRef::String("1000*1")));
}
