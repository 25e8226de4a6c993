//! Derived types with marked fields.

use std::sync::Arc;

use table_core::model::{Entity, IfMatch, ValueRef};
use table_core::prelude::*;
use table_core::store::{ErrorKind, Operation, TableStore};
use table_patterns::log_tail::LogTail;
use table_patterns::series::{DataSeries, Grouped, Hours};
use table_patterns::{Database, Table};

use super::{TableViews, assert_hidden, key, text};
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
    Employee {
        department: "Sales".into(),
        id: 223,
        age: 41,
        national_id: "760519".into(),
        salary: Some(1.5),
    }
}

fn open(table: &TableViews) -> Table<Employee> {
    Database::new(Arc::clone(&table.store) as Arc<dyn TableStore>)
        .table(table.raw.name().clone())
        .expect("it encrypts")
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Pulse {
    beats: i32,
    #[encrypt]
    note: String,
}

/// Logs and series with marked fields are refused when opened on a store that does not encrypt. Otherwise they
/// store ciphertext.
pub(crate) async fn logs_and_series_are_encrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let (name, log) = (
        table.raw.name().clone(),
        PartitionKey::new("log").expect("a key"),
    );
    let raw = Arc::clone(table.raw.store());
    let errors = [
        LogTail::<Pulse>::new(Arc::clone(&raw), name.clone(), log.clone())
            .expect_err("no encryption"),
        DataSeries::<_, Pulse, Grouped>::with_codec(raw, name.clone(), Hours)
            .expect_err("no encryption"),
    ];
    assert!(
        errors.iter().all(|e| e.to_string().contains("Note")),
        "{errors:?}"
    );
    let store = || Arc::clone(&table.store) as Arc<dyn TableStore>;
    let pulse = Pulse {
        beats: 60,
        note: "secret-note".into(),
    };
    let tail = LogTail::<Pulse>::new(store(), name.clone(), log).expect("a log");
    tail.append(&pulse).await.expect("an entry");
    assert_eq!(tail.latest(1).await.expect("an entry")[0].value, pulse);
    let series = DataSeries::<_, Pulse, Grouped>::with_codec(store(), name.clone(), Hours)
        .expect("a series");
    series
        .set(&key("ken", "2013"), 9, &pulse)
        .await
        .expect("a slot");
    let read = series.get(&key("ken", "2013")).await.expect("a series");
    assert_eq!(read.get(&9), Some(&pulse));
    assert_hidden(&table, &["secret-note"]).await;
}

/// By insert, update and query.
pub(crate) async fn entities_are_read_and_written(harness: &Harness) {
    let table = TableViews::new(harness).await;
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
    assert_eq!(
        raised,
        Employee {
            salary: None,
            age: 42,
            ..ken()
        }
    );
    let found = employees
        .query()
        .filter(Employee::AGE.gt(41))
        .all()
        .await
        .expect("a query");
    assert_eq!(found, [raised]);
    let stored = table.raw.all(&Default::default()).await;
    assert!(matches!(
        stored[0].get("NationalId"),
        Some(ValueRef::Binary(_))
    ));
}

/// The table is refused when it is opened; the error names the property.
pub(crate) async fn a_store_that_does_not_encrypt_is_refused(harness: &Harness) {
    let table = harness.table().await;
    let error = Database::new(Arc::clone(table.store()))
        .table::<Employee>(table.name().clone())
        .expect_err("no encryption");
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("NationalId"), "{error}");
}

/// Plaintext in a marked field is refused unless a migration is declared. In a migration the value is read with
/// its mark, and the next write encrypts it.
pub(crate) async fn plaintext_in_a_marked_field_is_refused(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let plain = Entity::from(key("Sales", "223"))
        .with("EntityType", "Employee")
        .with("Age", 41);
    table.store_raw(plain.with("NationalId", "760519")).await;
    let stored = Employee::key("Sales", 223).expect("a key");
    let error = open(&table).get(&stored).await.expect_err("plaintext");
    let text = error.to_string();
    assert!(matches!(error.kind(), ErrorKind::Encryption(_)), "{error}");
    assert!(text.contains("'NationalId'"), "{error}");
    assert!(!text.contains("760519"), "{error}");
    let migrating = TableViews::over(table.raw.clone(), super::keys(), |b, t| {
        b.encrypt_type::<Employee>(t).accept_plaintext(t)
    });
    let employees = open(&migrating);
    assert_eq!(
        employees
            .get_existing(&stored)
            .await
            .expect("Ken")
            .national_id,
        "760519"
    );
    employees
        .update(&stored, |e| {
            e.age += 1;
            Ok(())
        })
        .await
        .expect("an update");
    assert_eq!(
        open(&table).get_existing(&stored).await.expect("Ken").age,
        42
    );
}

/// Projections and patches of encrypted fields.
pub(crate) async fn projections_and_patches_work(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let employees = open(&table);
    employees.insert(&ken()).await.expect("an insert");
    let badges = employees
        .query()
        .project::<Badge>()
        .all()
        .await
        .expect("a projection");
    assert_eq!(
        badges,
        [Badge {
            national_id: "760519".into()
        }]
    );
    let patch = EmployeePatch {
        national_id: Some("new".into()),
        ..EmployeePatch::default()
    };
    employees
        .merge(
            Employee::key("Sales", 223).expect("a key"),
            &patch,
            IfMatch::Any,
        )
        .await
        .expect("a merge");
    let group = vec![Operation::Delete(key("Sales", "223"), IfMatch::Any)];
    assert_eq!(
        table
            .clear
            .existing(&key("Sales", "223"))
            .await
            .get("NationalId"),
        text("new")
    );
    assert_eq!(
        open(&table).query().all().await.expect("all"),
        [Employee {
            national_id: "new".into(),
            ..ken()
        }]
    );
    table
        .clear
        .transact("Sales", group)
        .await
        .expect("a delete");
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Letter", rename_all = "PascalCase")]
struct Letter {
    #[partition_key]
    shelf: String,
    #[row_key]
    number: u32,
    #[encrypt]
    #[entity(split)]
    text: String,
    #[encrypt]
    #[entity(split)]
    scan: Option<Vec<u8>>,
}

/// A long value is encrypted part by part. Parts that are missing or exchanged are refused.
pub(crate) async fn long_values_are_encrypted_in_parts(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let store = Arc::clone(&table.store) as Arc<dyn TableStore>;
    let letters = Database::new(store)
        .table::<Letter>(table.raw.name().clone())
        .expect("it encrypts");
    // Three bytes each: a part of marked text has at most 64 KiB of UTF-8, as its ciphertext is Binary.
    let text = format!("{}secret-end", "\u{20AC}".repeat(30_000));
    let letter = Letter {
        shelf: "s".into(),
        number: 1,
        text,
        scan: Some(b"secret-scan".repeat(7000)),
    };
    letters.insert(&letter).await.expect("an insert");
    let key = Letter::key("s", 1).expect("a key");
    assert_eq!(letters.get_existing(&key).await.expect("an entity"), letter);
    assert_hidden(&table, &["secret-end", "secret-scan"]).await;
    let raw = table
        .raw
        .get(key.key())
        .await
        .expect("a row")
        .with_system(None, None);
    for name in ["Text_Parts", "Text_Part2", "Scan_Part1"] {
        assert!(matches!(raw.get(name), Some(ValueRef::Binary(_))), "{name}");
        let mut without = raw.clone();
        without.properties_mut().remove(name);
        table.store_raw(without).await;
        letters.get(&key).await.expect_err("a part is missing");
    }
    let (first, second) = (
        raw.get("Scan_Part1").expect("a part"),
        raw.get("Scan_Part2").expect("a part"),
    );
    let exchanged = raw
        .clone()
        .with("Scan_Part1", second.to_owned())
        .with("Scan_Part2", first.to_owned());
    table.store_raw(exchanged).await;
    letters.get(&key).await.expect_err("exchanged parts");
    table.store_raw(raw).await;
    let shorter = Letter {
        text: "secret-short".into(),
        scan: None,
        ..letter
    };
    letters.insert_or_merge(&shorter).await.expect("a merge");
    let raw = table.raw.get(key.key()).await.expect("a row");
    assert!(
        raw.properties()
            .iter()
            .all(|property| !property.name().starts_with("Text_Part")),
        "no stale part"
    );
    assert!(raw.get("Scan_Part2").is_some(), "`None` keeps the value");
    assert_hidden(&table, &["secret-short", "secret-scan"]).await;
}

#[derive(Clone, Debug, PartialEq, Property)]
enum Grade {
    Junior,
    #[entity(other)]
    Other(String),
}

#[derive(Clone, Debug, PartialEq, Property)]
enum EarlierGrade {
    Principal,
}

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Address {
    #[encrypt]
    street: String,
    city: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Person",
    rename_all = "PascalCase",
    partition_key = "all",
    row_key = "{id}"
)]
struct EarlierPerson {
    id: u32,
    #[encrypt]
    pin: String,
    #[encrypt]
    grade: EarlierGrade,
    #[encrypt]
    home_street: String,
    home_city: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Person",
    rename_all = "PascalCase",
    partition_key = "all",
    row_key = "{id}"
)]
struct Person {
    id: u32,
    #[encrypt]
    #[entity(alias = "Pin")]
    code: String,
    #[encrypt]
    grade: Grade,
    #[entity(flatten(prefix = "Home"))]
    home: Address,
}

/// A marked property under a former name, in a group with a prefix, and of a variant that the program does not know stays encrypted
/// while programs of both versions write it.
pub(crate) async fn renamed_and_prefixed_properties_stay_encrypted(harness: &Harness) {
    let table = TableViews::new(harness).await;
    let store = || Arc::clone(&table.store) as Arc<dyn TableStore>;
    let earlier = Database::new(store())
        .table::<EarlierPerson>(table.raw.name().clone())
        .expect("it encrypts");
    let person = EarlierPerson {
        id: 1,
        pin: "secret-pin".into(),
        grade: EarlierGrade::Principal,
        home_street: "secret-street".into(),
        home_city: "Oslo".into(),
    };
    earlier.insert(&person).await.expect("an insert");
    let people = Database::new(store())
        .table::<Person>(table.raw.name().clone())
        .expect("it encrypts");
    let key = Person::key(1).expect("a key");
    let read = people.get_existing(&key).await.expect("an entity");
    let home = Address {
        street: "secret-street".into(),
        city: "Oslo".into(),
    };
    let expected = Person {
        id: 1,
        code: "secret-pin".into(),
        grade: Grade::Other("Principal".into()),
        home,
    };
    assert_eq!(read, expected);
    let change = |person: &mut Person| {
        person.home.street = "secret-road".into();
        Ok(())
    };
    people.update(&key, change).await.expect("an update");
    let raw = table.raw.get(key.key()).await.expect("a row");
    assert_eq!(raw.get("Pin"), None, "the former name is gone");
    for name in ["Code", "Grade", "HomeStreet"] {
        assert!(matches!(raw.get(name), Some(ValueRef::Binary(_))), "{name}");
    }
    assert_eq!(raw.get("HomeCity"), text("Oslo"));
    assert_hidden(
        &table,
        &["secret-pin", "Principal", "secret-street", "secret-road"],
    )
    .await;
    let read = people.get_existing(&key).await.expect("an entity");
    assert_eq!(
        (read.code.as_str(), read.grade),
        ("secret-pin", Grade::Other("Principal".into()))
    );
    // A patch of the group marks its property too.
    let home = Address {
        street: "secret-lane".into(),
        city: "Bergen".into(),
    };
    people
        .merge(&key, &Person::patch().home(home), IfMatch::Any)
        .await
        .expect("a merge");
    assert_hidden(&table, &["secret-pin", "secret-lane"]).await;
    let error = earlier
        .get(EarlierPerson::key(1).expect("a key"))
        .await
        .expect_err("the name is another");
    assert!(error.to_string().contains("'Pin'"), "{error}");
}
