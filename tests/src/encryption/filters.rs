//! Filters by name in a process that does not know yet which names are encrypted.

use std::sync::Arc;

use table_core::model::Entity;
use table_core::prelude::*;
use table_core::query::{Filter, Query, Select};
use table_core::store::{Operation, TableStore};
use table_patterns::bulk::{BulkOptions, Unchanged, delete_where};
use table_patterns::{Database, Table};

use super::{TableViews, key, keys, text};
use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key]
    id: u32,
    age: i32,
    #[encrypt]
    national_id: String,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Employee, rename_all = "PascalCase")]
struct Age {
    age: i32,
}

const PEOPLE: usize = 3;

fn id(n: usize) -> String {
    format!("id{n}")
}

/// Entities that another process encrypted, and a store without knowledge of them.
async fn filled(harness: &Harness) -> TableViews {
    let table = TableViews::new(harness).await;
    for n in 0..PEOPLE {
        let person =
            Entity::from(key("Sales", &format!("{n:010}"))).with_encrypted("NationalId", id(n));
        table.clear.insert(person.with("Age", n as i32)).await;
    }
    fresh(&table)
}

fn fresh(table: &TableViews) -> TableViews {
    TableViews::over(table.raw.clone(), keys(), |builder, _| builder)
}

fn store(table: &TableViews) -> Arc<dyn TableStore> {
    Arc::clone(&table.store) as Arc<dyn TableStore>
}

fn entities(table: &TableViews) -> Table<Entity> {
    Database::new(store(table))
        .view(table.raw.name().clone())
        .expect("a table")
}

/// Runs every kind of query with the filter. Returns the number of entities that each found, or its error.
async fn ask(table: impl Fn() -> TableViews, filter: &Filter) -> Vec<table_core::Result<usize>> {
    let mut answers = Vec::new();
    for select in [
        None,
        Some(Select::new(["Age"])),
        Some(Select::new([Filter::ROW_KEY])),
    ] {
        let (table, mut query) = (table(), Query::new().with_filter(filter.clone()));
        query.select = select;
        let page = table.store.query(table.raw.name(), &query, None).await;
        answers.push(page.map(|found| found.page.items.len()));
    }
    answers.push(
        entities(&table())
            .query()
            .raw_filter(filter.clone())
            .count()
            .await,
    );
    let this = table();
    let deleted = delete_where(
        store(&this),
        this.raw.name(),
        filter.clone(),
        Unchanged::Ignored,
        BulkOptions::default(),
    );
    answers.push(deleted.await.map(|summary| summary.written as usize));
    assert_eq!(
        this.raw.all(&Query::new()).await.len(),
        PEOPLE,
        "the deletion is refused"
    );
    answers
}

fn assert_refused(answers: Vec<table_core::Result<usize>>) {
    assert_eq!(answers.len(), 5);
    for answer in answers {
        let error = answer.expect_err("ciphertext was compared").to_string();
        assert!(error.contains("'NationalId'"), "{error}");
        assert!(!error.contains("id1"), "{error}");
    }
}

/// A filter that finds encrypted entities is refused by their headers, in every kind of query. A deletion of
/// all but one person deletes no person.
pub(crate) async fn filters_that_find_ciphertext_are_refused(harness: &Harness) {
    let table = filled(harness).await;
    let all_but = Filter::ne("NationalId", id(1));
    assert_refused(ask(|| fresh(&table), &all_but).await);
    assert_refused(ask(|| fresh(&table), &all_but.and(Filter::ge("Age", 0))).await);
    assert_refused(ask(|| fresh(&table), &!Filter::eq("NationalId", id(1))).await);
}

/// A filter that finds no entity is refused if a rule, a write or a read has made the names known. Otherwise
/// its result is empty, as documented.
pub(crate) async fn filters_that_find_nothing_are_refused_where_names_are_known(harness: &Harness) {
    let table = filled(harness).await;
    let one = Filter::eq("NationalId", id(1));
    let by = |configure: fn(super::Builder, &TableName) -> super::Builder| {
        let raw = table.raw.clone();
        move || TableViews::over(raw.clone(), keys(), configure)
    };
    assert_refused(ask(by(|b, t| b.encrypt(t, ["NationalId"])), &one).await);
    assert_refused(ask(by(|b, t| b.filter_only_by(t, ["Age"])), &one).await);
    let opened = || {
        let table = fresh(&table);
        Database::new(store(&table))
            .table::<Employee>(table.raw.name().clone())
            .expect("a table");
        table
    };
    assert_refused(ask(opened, &one).await);
    for answer in ask(|| fresh(&table), &one).await {
        assert_eq!(answer.expect("the encrypted names are unknown"), 0);
    }
}

/// A filter cannot name a property that a type encrypts: neither the type of the table nor the type of the
/// result.
pub(crate) async fn typed_filters_by_name_are_refused(harness: &Harness) {
    let table = filled(harness).await;
    let employees = Database::new(store(&table))
        .table::<Employee>(table.raw.name().clone())
        .expect("a table");
    for filter in [
        Filter::eq("NationalId", id(1)),
        Filter::ne("NationalId", id(1)),
        Filter::gt("NationalId", ""),
    ] {
        let query = employees
            .query()
            .raw_filter(Filter::ge("Age", 0).or(filter.clone()));
        for error in [
            query.clone().all().await.expect_err("ciphertext"),
            query.clone().count().await.expect_err("ciphertext"),
            query
                .clone()
                .project::<Age>()
                .page(None)
                .await
                .expect_err("ciphertext"),
            entities(&fresh(&table))
                .query()
                .raw_filter(filter)
                .project::<Employee>()
                .all()
                .await
                .expect_err("ciphertext"),
        ] {
            assert!(error.to_string().contains("'NationalId'"), "{error}");
        }
    }
    let older = employees.query().raw_filter(Filter::ge("Age", 1));
    assert_eq!(older.clone().count().await.expect("a count"), PEOPLE - 1);
    assert_eq!(older.all().await.expect("employees")[0].national_id, id(1));
}

/// With a list of plaintext names, filters can use exactly the listed names, and no listed name can be
/// encrypted.
pub(crate) async fn filters_can_use_only_listed_names(harness: &Harness) {
    let table = filled(harness).await;
    let table = TableViews::over(table.raw, keys(), |b, t| b.filter_only_by(t, ["Age"]));
    let by =
        |filter: Filter| Query::new().with_filter(filter.and(Filter::eq("PartitionKey", "Sales")));
    let found = table.clear.all(&by(Filter::eq("Age", 1))).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].get("NationalId"), text(&id(1)));
    let error = table
        .store
        .query(table.raw.name(), &by(Filter::eq("City", "Bern")), None)
        .await;
    assert!(
        error
            .expect_err("an unlisted name")
            .to_string()
            .contains("'City'")
    );
    let secret = Entity::from(key("Sales", "9")).with_encrypted("Age", 41);
    let error = table
        .store
        .write(table.raw.name(), Operation::Insert(secret))
        .await
        .expect_err("a listed name");
    assert!(error.to_string().contains("'Age'"), "{error}");
}
