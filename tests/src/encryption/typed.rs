//! Derived types.

use std::sync::Arc;

use table_core::model::{Entity, IfMatch, ValueRef};
use table_core::prelude::*;
use table_core::store::{ErrorKind, Operation, TableStore};

use super::{Both, key, text};
use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "{:03}")]
    id: u32,
    age: i32,
    #[encrypt]
    national_id: String,
    #[encrypt]
    salary: Option<f64>,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Employee, rename_all = "PascalCase")]
struct Badge {
    #[encrypt]
    national_id: String,
}

fn ken() -> Employee {
    Employee { department: "Sales".into(), id: 223, age: 41, national_id: "760519".into(), salary: Some(1.5) }
}

fn open(table: &Both) -> Table<Employee> {
    Table::new(Arc::clone(&table.store) as Arc<dyn TableStore>, table.raw.name().clone())
        .expect("it encrypts")
}

/// By insert, update and query.
pub async fn entities_are_read_and_written(harness: &Harness) {
    let table = Both::new(harness).await;
    let employees = open(&table);
    employees.insert(&ken()).await.expect("an insert");
    let key = Employee::key("Sales", 223).expect("a key");
    assert_eq!(employees.get_existing(&key).await.expect("Ken"), ken());
    let raised = employees
        .update(&key, |e| {
            e.salary = None;
            e.age += 1;
            Ok(())
        })
        .await
        .expect("an update");
    assert_eq!(raised, Employee { salary: None, age: 42, ..ken() });
    let found = employees.query().filter(Employee::AGE.gt(41)).all().await.expect("a query");
    assert_eq!(found, [raised]);
    let stored = table.raw.all(&Default::default()).await;
    assert!(matches!(stored[0].get("NationalId"), Some(ValueRef::Binary(_))));
}

/// When the table is opened, by the name of a property.
pub async fn a_store_that_does_not_encrypt_is_refused(harness: &Harness) {
    let table = harness.table().await;
    let error =
        Table::<Employee>::new(Arc::clone(table.store()), table.name().clone()).expect_err("no encryption");
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }) && error.to_string().contains("NationalId"),
        "{error}"
    );
}

/// Outside of a declared migration, in which it comes back marked and is encrypted by the next write.
pub async fn plaintext_in_a_marked_field_is_refused(harness: &Harness) {
    let table = Both::new(harness).await;
    let plain = Entity::from(key("Sales", "223")).with("EntityType", "Employee").with("Age", 41);
    table.store_raw(plain.with("NationalId", "760519")).await;
    let stored = Employee::key("Sales", 223).expect("a key");
    let error = open(&table).get(&stored).await.expect_err("plaintext");
    assert!(matches!(error.kind(), ErrorKind::Decode(_)) && !error.to_string().contains("760519"), "{error}");
    let migrating = Both::over(table.raw.clone(), super::keys(), |b, t| {
        b.encrypt_type::<Employee>(t).accept_plaintext(t)
    });
    let employees = open(&migrating);
    assert_eq!(employees.get_existing(&stored).await.expect("Ken").national_id, "760519");
    employees
        .update(&stored, |e| {
            e.age += 1;
            Ok(())
        })
        .await
        .expect("an update");
    assert_eq!(open(&table).get_existing(&stored).await.expect("Ken").age, 42);
}

/// Of encrypted fields.
pub async fn projections_and_patches_work(harness: &Harness) {
    let table = Both::new(harness).await;
    let employees = open(&table);
    employees.insert(&ken()).await.expect("an insert");
    let badges = employees.query().project::<Badge>().all().await.expect("a projection");
    assert_eq!(badges, [Badge { national_id: "760519".into() }]);
    let patch = EmployeePatch { national_id: Some("new".into()), ..EmployeePatch::default() };
    employees
        .merge(Employee::key("Sales", 223).expect("a key"), &patch, IfMatch::Any)
        .await
        .expect("a merge");
    let group = vec![Operation::Delete(key("Sales", "223"), IfMatch::Any)];
    assert_eq!(table.clear.existing(&key("Sales", "223")).await.get("NationalId"), text("new"));
    assert_eq!(
        open(&table).query().all().await.expect("all"),
        [Employee { national_id: "new".into(), ..ken() }]
    );
    table.clear.transact("Sales", group).await.expect("a delete");
}
