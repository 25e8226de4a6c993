//! Declared indexes: writes that keep entries in step with entities.

use std::sync::Arc;

use crate::open_table;
use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexState};
use table_patterns::journal::Clearing;

use super::company::{Company, Employee, employee, key, with_badge, with_email};
use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Flight",
    rename_all = "PascalCase",
    row_key = "flight_{number:04}"
)]
#[index(plane, row_key = "plane_{plane}_{number:04}", payload = full)]
struct Flight {
    #[partition_key]
    carrier: String,
    number: u32,
    plane: Option<String>,
    delay: i32,
}

/// A write and its local entries are one request. A lookup of full copies is one request.
pub(crate) async fn local_entries_cost_no_further_request(h: &Harness) {
    let meter = RequestMeter::new();
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
    let flights = open_table::<Flight>(
        store,
        h.unused_name(),
        IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
    )
    .await;
    let company = (flights.expect("a new table"), meter);
    let (flights, meter) = &company;
    let of = |plane: &str, number| Flight {
        carrier: "UA".to_owned(),
        number,
        plane: Some(plane.to_owned()),
        delay: 0,
    };
    let cost = |before: u64| meter.total() - before;

    let before = meter.total();
    flights.insert(&of("N1", 1)).await.expect("a new flight");
    assert_eq!(cost(before), 1, "an insert");

    let before = meter.total();
    let found = flights
        .by(Flight::by_plane("UA").plane("N1").number(1u32))
        .all()
        .await
        .expect("entries");
    assert_eq!(found.len(), 1, "a lookup of full copies");
    assert_eq!(cost(before), 1, "a lookup of full copies");

    let read = flights
        .get_existing_stored(Flight::key("UA", 1u32).unwrap())
        .await
        .expect("the flight");
    let before = meter.total();
    flights
        .replace_stored(&read, &of("N2", 1))
        .await
        .expect("no other writer");
    assert_eq!(cost(before), 1, "a replacement of a known value");

    let before = meter.total();
    flights
        .update(Flight::key("UA", 1u32).unwrap(), |f| {
            f.delay = 7;
            Ok(())
        })
        .await
        .expect("an update");
    assert_eq!(cost(before), 2, "a read-modify-write");

    let before = meter.total();
    assert!(
        flights
            .delete_if_exists(Flight::key("UA", 1u32).unwrap())
            .await
            .expect("a removal")
    );
    assert_eq!(cost(before), 2, "a removal");
    assert_eq!(
        flights
            .by(Flight::by_plane("UA"))
            .count()
            .await
            .expect("no entries"),
        0
    );
}

/// Remote entries cost the requests that the documentation states.
pub(crate) async fn remote_entries_cost_the_documented_requests(h: &Harness) {
    let company = Company::open(h).await;
    let of = &company.employees;
    // The group, the entry, the read of the journal row, its removal.
    assert_eq!(company.applied(of.insert(&employee(1, "Kwok"))).await, 4);
    let old = company.read(1).await;
    let new = Employee {
        last_name: "Lee".to_owned(),
        ..(*old).clone()
    };
    assert_eq!(
        company.applied(of.replace_stored(&old, &new)).await,
        6,
        "two remote partitions, and a read of the old entry"
    );
    // And the reservation and its settlement.
    assert_eq!(company.applied(of.insert(&with_badge(2, 7))).await, 6);
    let with_address = |e: &mut Employee| {
        e.email = Some("e@x".to_owned());
        Ok(())
    };
    let (_, requests) = company.cost(of.update(key(2), with_address)).await;
    assert_eq!(requests, 1 + 1, "the remote entries do not change");
    let old = company.read(1).await;
    assert_eq!(
        company.applied(of.delete_stored(&old)).await,
        5,
        "the entry is read"
    );
}

/// Entries follow a changed value. An absent value has no entry.
pub(crate) async fn an_update_moves_entries_and_an_absent_value_has_none(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all([
            employee(1, "Kwok"),
            employee(2, "Kwok"),
            with_email(3, "c@x"),
        ])
        .await;
    let change = |e: &mut Employee| {
        (e.last_name, e.email) = ("Lee".to_owned(), Some("lee@x".to_owned()));
        Ok(())
    };
    company
        .employees
        .update(key(2), change)
        .await
        .expect("an update");
    assert_eq!(company.ids_by_surname("Kwok").await, [1, 3]);
    assert_eq!(company.ids_by_surname("Lee").await, [2]);
    company
        .employees
        .update(key(3), |e| {
            e.email = None;
            Ok(())
        })
        .await
        .expect("an update");
    let emails = company.employees.by(Employee::by_email("Sales"));
    let found: Vec<_> = emails
        .all()
        .await
        .expect("entries")
        .into_iter()
        .filter_map(|e| e.email)
        .collect();
    assert_eq!(found, ["lee@x"]);
    company
        .employees
        .upsert(&employee(2, "Park"))
        .await
        .expect("an upsert");
    assert_eq!(company.ids_by_surname("Park").await, [2]);
    assert!(company.ids_by_surname("Lee").await.is_empty());
    assert_eq!(emails.count().await.expect("no entries"), 0);
}

/// A replacement of a stored value is bound to the version that was read.
pub(crate) async fn a_replacement_needs_the_version_that_was_read(h: &Harness) {
    let company = Company::open(h).await;
    company.insert_all([employee(1, "Kwok")]).await;
    let old = company.read(1).await;
    let lee = Employee {
        last_name: "Lee".to_owned(),
        ..(*old).clone()
    };
    company
        .employees
        .replace_stored(&old, &lee)
        .await
        .expect("no other writer");
    assert!(
        company
            .employees
            .replace_stored(&old, &lee)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    assert!(
        company
            .employees
            .delete_stored(&old)
            .await
            .unwrap_err()
            .is_precondition_failed()
    );
    let moved = Employee {
        id: 2,
        ..company.read(1).await.into_inner()
    };
    assert!(
        company
            .employees
            .replace_stored(&company.read(1).await, &moved)
            .await
            .is_err()
    );
    let missing = company
        .employees
        .update(key(9), |_| Ok(()))
        .await
        .unwrap_err();
    assert!(missing.is_entity_not_found(), "{missing}");
    assert!(
        !company
            .employees
            .delete_if_exists(key(9))
            .await
            .expect("nothing to do")
    );
    assert_eq!(company.ids_by_surname("Lee").await, [1]);
}

/// Changes of several entities commit together with their entries.
pub(crate) async fn a_group_commits_with_all_its_entries(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all([with_email(1, "ken@x"), employee(2, "Lee")])
        .await;
    let (ken, lee) = (company.read(1).await, company.read(2).await);
    let mut group = company
        .employees
        .group(Employee::partition("Sales").unwrap());
    // The e-mail address moves from one employee to the other within the group.
    group.delete_stored(&ken).unwrap();
    group
        .replace_stored(
            &lee,
            &Employee {
                email: Some("ken@x".to_owned()),
                ..(*lee).clone()
            },
        )
        .unwrap();
    group.insert(&employee(3, "Park")).unwrap();
    let other = Employee {
        department: "Marketing".to_owned(),
        ..employee(4, "Kwok")
    };
    assert!(
        group
            .insert(&other)
            .unwrap_err()
            .to_string()
            .contains("'Sales'")
    );
    assert_eq!(group.len(), 3);
    let done = group.commit().await.expect("all of it");
    assert_eq!(done.len(), 3);
    assert!(done.iter().all(|written| !written.pending));
    let by_email = Employee::by_email("Sales").email("ken@x");
    assert_eq!(
        company
            .employees
            .by(by_email)
            .get()
            .await
            .expect("an entry")
            .map(|e| e.id),
        Some(2)
    );
    assert!(company.ids_by_surname("Kwok").await.is_empty());

    let mut group = company
        .employees
        .group(Employee::partition("Sales").unwrap());
    group.insert(&employee(5, "Kwok")).unwrap();
    group.insert(&with_email(6, "ken@x")).unwrap();
    assert!(group.commit().await.unwrap_err().is_unique_violation());
    assert!(company.ids_by_surname("Kwok").await.is_empty());
}

/// A write with a taken unique value is refused by an error that names the index: for a local and for a remote
/// unique index.
pub(crate) async fn a_write_with_a_taken_unique_value_is_refused(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all([with_email(1, "ken@x"), with_badge(2, 7)])
        .await;
    let error = company
        .employees
        .insert(&with_email(3, "ken@x"))
        .await
        .unwrap_err();
    assert!(error.is_unique_violation(), "{error}");
    assert!(error.to_string().contains("email"), "{error}");
    let error = company
        .employees
        .insert(&with_badge(3, 7))
        .await
        .unwrap_err();
    assert!(error.is_unique_violation(), "{error}");
    assert!(error.to_string().contains("badge"), "{error}");
    assert!(
        company
            .employees
            .get(key(3))
            .await
            .expect("a read")
            .is_none()
    );
    // The e-mail address is unique only within its department.
    let elsewhere = Employee {
        department: "Marketing".to_owned(),
        ..with_email(3, "ken@x")
    };
    company
        .employees
        .insert(&elsewhere)
        .await
        .expect("another department");
    company
        .employees
        .delete(key(2), IfMatch::Any)
        .await
        .expect("a removal");
    company
        .employees
        .insert(&with_badge(3, 7))
        .await
        .expect("the badge is free again");
    assert_eq!(company.id_by_badge(7).await, Some(3));
}

/// Of several concurrent writers of one unique value, exactly one succeeds, and only its entity exists.
pub(crate) async fn one_of_several_concurrent_writers_gets_a_unique_value(h: &Harness) {
    let company = Company::open(h).await;
    let writers = (0..4).map(|id| {
        let employees = company.employees.clone();
        tokio::spawn(async move { employees.insert(&with_badge(id, 7)).await })
    });
    let mut winners = Vec::new();
    for (id, writer) in (0..).zip(writers.collect::<Vec<_>>()) {
        match writer.await.expect("no panic") {
            Ok(_) => winners.push(id),
            Err(error) => assert!(
                error.is_unique_violation() || error.is_precondition_failed(),
                "{error}"
            ),
        }
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(company.id_by_badge(7).await, winners.first().copied());
    let all = company.employees.query().count().await.expect("a query");
    assert_eq!(all, 1);
}

/// The same rows in a program of another version: it declares an index that the first program does not declare,
/// and none of the others.
#[derive(Debug, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(hired, row_key = "hired_{hired:04}_{id:06}")]
struct Other {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    hired: u32,
}

/// A program keeps undeclared indexes of the manifest in step. A plain table refuses to write.
pub(crate) async fn writers_keep_undeclared_indexes_in_step(h: &Harness) {
    let company = Company::open(h).await;
    company
        .insert_all([employee(1, "Kwok"), with_badge(3, 7)])
        .await;
    let (store, table) = (h.store().clone(), company.employees.name().clone());
    let others = open_table::<Other>(
        store,
        table,
        IndexOptions::default().with_clearing(Clearing::BeforeAnswer),
    )
    .await
    .expect("a table");
    assert_eq!(
        others
            .entities()
            .await
            .expect("an open table")
            .state("hired"),
        IndexState::Absent
    );
    let other = |id| Other::key("Sales", id).expect("a key");
    others
        .update(other(1), |o| {
            o.hired = 2001;
            Ok(())
        })
        .await
        .expect("an update");
    assert_eq!(company.ids_by_surname("Kwok").await, [1, 3]);
    assert!(others.delete_if_exists(other(3)).await.expect("a removal"));
    assert_eq!(company.id_by_badge(7).await, None);
    company.insert_all([with_badge(4, 7)]).await;
    let refused = others
        .insert(&Other {
            department: "Sales".to_owned(),
            id: 5,
            hired: 1999,
        })
        .await;
    refused.expect("an entity without what the other indexes hold");
    assert_eq!(company.ids_by_surname("Kwok").await, [1, 4]);
}
