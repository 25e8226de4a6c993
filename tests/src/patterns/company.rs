//! A company whose employees have declared indexes.

use std::sync::Arc;

use crate::open_table;
use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_core::store::Written;
use table_patterns::Table;
use table_patterns::index::{IndexOptions, Stored};

use crate::Harness;

/// The e-mail address is indexed in the department; the surname in partitions of its own; the badge, a unique
/// value, in the whole company.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
#[index(email, row_key = "email_{email}", unique = "partition", payload = full)]
#[index(
    surname,
    partition_key = "surname_{last_name}",
    row_key = "{hired:04}_{department}_{id:06}"
)]
#[index(badge, partition_key = "badge_{badge:04}", row_key = "badge", unique = "table", payload = fields(last_name))]
pub(super) struct Employee {
    #[partition_key]
    pub(super) department: String,
    #[row_key(format = "empid_{:06}")]
    pub(super) id: u32,
    pub(super) last_name: String,
    pub(super) hired: u32,
    pub(super) email: Option<String>,
    pub(super) badge: Option<u32>,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Employee, rename_all = "PascalCase")]
pub(super) struct Surname {
    pub(super) last_name: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Employee)]
pub(super) struct Id {
    #[row_key]
    pub(super) id: u32,
}

pub(super) fn employee(id: u32, last_name: &str) -> Employee {
    let (department, last_name) = ("Sales".to_owned(), last_name.to_owned());
    Employee {
        department,
        id,
        last_name,
        hired: 2000 + id,
        email: None,
        badge: None,
    }
}

pub(super) fn with_email(id: u32, email: &str) -> Employee {
    Employee {
        email: Some(email.to_owned()),
        ..employee(id, "Kwok")
    }
}

pub(super) fn with_badge(id: u32, badge: u32) -> Employee {
    Employee {
        badge: Some(badge),
        ..employee(id, "Kwok")
    }
}

pub(super) fn key(id: u32) -> EntityKey<Employee> {
    Employee::key("Sales", id).expect("a legal key")
}

pub(super) struct Company {
    pub(super) employees: Table<Employee>,
    pub(super) meter: RequestMeter,
}

impl Company {
    pub(super) async fn open(h: &Harness) -> Self {
        let meter = RequestMeter::new();
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
        let table = h.unused_name();
        let employees = open_table(store, table, IndexOptions::default())
            .await
            .expect("a new table");
        Self { employees, meter }
    }

    /// Returns the result of the work and its number of requests.
    pub(super) async fn cost<T>(
        &self,
        work: impl Future<Output = table_core::Result<T>>,
    ) -> (T, u64) {
        self.employees.flush().await;
        let before = self.meter.total();
        let done = work.await.expect("it succeeds");
        // What follows the answer counts too.
        self.employees.flush().await;
        (done, self.meter.total() - before)
    }

    /// Returns the number of requests of a write, once its entries agree with the entity.
    pub(super) async fn applied(
        &self,
        work: impl Future<Output = table_core::Result<Written>>,
    ) -> u64 {
        let (done, requests) = self.cost(work).await;
        assert!(!done.pending, "its entries agree");
        requests
    }

    pub(super) async fn insert_all(&self, employees: impl IntoIterator<Item = Employee>) {
        for employee in employees {
            self.employees
                .insert(&employee)
                .await
                .expect("a new employee");
        }
    }

    pub(super) async fn read(&self, id: u32) -> Stored<Employee> {
        self.employees
            .get_existing_stored(key(id))
            .await
            .expect("the employee")
    }

    pub(super) async fn ids_by_surname(&self, name: &str) -> Vec<u32> {
        let found = self
            .employees
            .by(Employee::by_surname(name))
            .all()
            .await
            .expect("the entries");
        found.into_iter().map(|employee| employee.id).collect()
    }

    pub(super) async fn id_by_badge(&self, badge: u32) -> Option<u32> {
        let found = self
            .employees
            .by(Employee::by_badge(badge))
            .verified()
            .get()
            .await;
        found.expect("the entry").map(|employee| employee.id)
    }
}
