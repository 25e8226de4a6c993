//! Copies and sums in other entities, which indexes keep in step with their sources.

use std::sync::Arc;

use table_core::adapter::{CrashPoint, FaultInjector, Faulty, Metered, RequestMeter};
use table_core::model::{Entity, Key, ValueRef};
use table_core::store::{Result, TableStore};
use table_patterns::index::{Index, IndexedEntities, Placement, Shape};

use super::index_lists::options;
use crate::{Harness, TestTable};

fn employee(id: u32, name: &str, manages: bool) -> Entity {
    let entity = Entity::new("Sales", format!("empid_{id:06}")).expect("a legal key");
    entity
        .with("Name", name)
        .with("Manages", manages)
        .with("Salary", 100)
}

fn department() -> Key {
    Key::new("Sales", "department").expect("a legal key")
}

/// The department holds the name of its manager. Another row counts the employees and adds up their salaries.
fn indexes() -> Vec<Index> {
    let is_employee = |entity: &Entity| entity.key().row().starts_with("empid_");
    let manager = Index::new("manager", Placement::SamePartition, "1", move |entity| {
        let manages = is_employee(entity) && entity.get("Manages") == Some(ValueRef::Boolean(true));
        Ok(manages.then(department))
    });
    let staff = Index::new("staff", Placement::SamePartition, "1", move |entity| {
        let key = || Key::new(entity.key().partition(), "staff");
        is_employee(entity).then(key).transpose()
    });
    let copy = Shape::copy("Manager", ["Name"]);
    vec![
        manager.with_shape(copy),
        staff.with_shape(Shape::summary(["Salary"])),
    ]
}

async fn open(store: Arc<dyn TableStore>, table: &TestTable) -> Result<IndexedEntities> {
    IndexedEntities::open(store, table.name().clone(), indexes(), options()).await
}

/// Inserts a department with two employees, one of them the manager.
async fn fill(company: &IndexedEntities) -> Result<()> {
    company
        .insert(Entity::from(department()).with("Budget", 1_000))
        .await?;
    company.insert(employee(1, "Ken", true)).await?;
    company.insert(employee(2, "Kim", false)).await?;
    Ok(())
}

/// The denormalized values of the department.
#[derive(Debug, PartialEq)]
struct Facts {
    manager: Option<String>,
    employees: i64,
    salaries: i64,
}

impl Facts {
    fn new(manager: &str, employees: i64, salaries: i64) -> Self {
        Self {
            manager: Some(manager.to_owned()),
            employees,
            salaries,
        }
    }
}

async fn facts(table: &TestTable) -> Facts {
    let department = table.existing(&department()).await;
    let manager = match department.get("ManagerName") {
        Some(ValueRef::String(name)) => Some(name.to_owned()),
        _ => None,
    };
    let staff = table
        .existing(&Key::new("Sales", "staff").expect("a legal key"))
        .await;
    let number = |name| match staff.get(name) {
        Some(ValueRef::Int64(number)) => number,
        other => panic!("{name}: {other:?}"),
    };
    Facts {
        manager,
        employees: number("Count"),
        salaries: number("SumSalary"),
    }
}

/// A copy and a sum change in the group transaction of their source. A department is read by one point query.
pub(crate) async fn copies_and_sums_change_in_the_entitys_group(harness: &Harness) {
    let table = harness.table().await;
    let meter = RequestMeter::new();
    let metered = Arc::new(Metered::new(table.store().clone(), meter.clone()));
    let company = open(metered, &table).await.expect("a new table");
    fill(&company).await.expect("new entities");
    assert_eq!(facts(&table).await, Facts::new("Ken", 2, 200));
    let (renamed, cost) = meter
        .measure(company.upsert(employee(1, "Kenneth", true)))
        .await;
    renamed.expect("an update");
    assert_eq!(cost.of_kind(table_core::store::OperationKind::Transact), 1);
    assert_eq!(facts(&table).await, Facts::new("Kenneth", 2, 200));
    let kim = company
        .get_existing(employee(2, "Kim", false).key())
        .await
        .expect("the employee");
    company.delete(&kim).await.expect("a delete");
    assert_eq!(facts(&table).await, Facts::new("Kenneth", 1, 100));
}

/// After a crash at any request, copies and sums agree with the entities.
pub(crate) async fn copies_and_sums_are_in_step_after_a_crash(harness: &Harness) {
    let mut crashes = 0;
    for point in CrashPoint::ALL {
        for request in 1.. {
            let table = harness.table().await;
            let healthy = open(table.store().clone(), &table)
                .await
                .expect("a new table");
            fill(&healthy).await.expect("new entities");
            let faults = FaultInjector::new(0);
            let faulty = Arc::new(Faulty::new(table.store().clone(), faults.clone()));
            let crashing = open(faulty, &table).await.expect("the index opens");
            faults.crash_at(request, point);
            let answer = crashing.upsert(employee(1, "Kenneth", true)).await;
            let stored = table.existing(employee(1, "", true).key()).await;
            let Some(ValueRef::String(name)) = stored.get("Name") else {
                panic!("no name")
            };
            assert_eq!(
                facts(&table).await,
                Facts::new(name, 2, 200),
                "{point:?} at {request}"
            );
            assert!(
                answer.is_err() || name == "Kenneth",
                "an acknowledged write is lost"
            );
            if !faults.is_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes >= 4, "only {crashes} crashes");
}
