//! Several types in one table.

use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{Entity, PartitionKey, Properties, ValueRef};
use table_core::store::{Error, Operation, Result};
use table_core::typed::{EntityResolver, TableEntity};
use table_patterns::heterogeneous::{Resolver, modify};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use table_patterns::{Database, Table};

use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Department",
    partition_key = "{name}",
    row_key = "department",
    rename_all = "PascalCase"
)]
struct Department {
    name: String,
    employee_count: i32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Employee", rename_all = "PascalCase")]
struct Employee {
    #[partition_key]
    department: String,
    #[row_key(format = "empid_{:06}")]
    id: u32,
    name: String,
}

#[derive(Debug, PartialEq, EntityResolver)]
enum Row {
    Department(Department),
    Employee(Employee),
    #[resolver(other)]
    Other(Entity),
}

fn sales() -> Department {
    Department {
        name: "Sales".to_owned(),
        employee_count: 1,
    }
}

fn ken() -> Employee {
    Employee {
        department: "Sales".to_owned(),
        id: 223,
        name: "Ken".to_owned(),
    }
}

async fn rows(harness: &Harness) -> Table<Row> {
    let table = harness.table().await;
    let view = Database::new(harness.store().clone())
        .view::<Row>(table.name().clone())
        .expect("a table");
    view.view::<Department>()
        .expect("a view")
        .insert(&sales())
        .await
        .expect("a new row");
    view.view::<Employee>()
        .expect("a view")
        .insert(&ken())
        .await
        .expect("a new row");
    table.put(Operation::Insert(note())).await;
    view
}

fn note() -> Entity {
    let note = Entity::new("Sales", "note_1").expect("a legal key");
    note.with("EntityType", "Note")
        .with("Text", "by another program")
}

/// One query reads rows of every type. A row of an unknown type is returned as an entity.
pub(crate) async fn rows_of_every_type_are_read_by_one_query(harness: &Harness) {
    let rows = rows(harness).await;
    let sales_partition = PartitionKey::new("Sales").expect("a legal key");
    let all = rows
        .query()
        .partition(sales_partition)
        .all()
        .await
        .expect("three rows");
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all.contains(&Row::Department(sales())));
    assert!(all.contains(&Row::Employee(ken())));
    let other = |row: &Row| matches!(row, Row::Other(e) if e.properties() == note().properties());
    assert!(all.iter().any(other), "{all:?}");
}

/// Closures and derived types read the rows of a query. A row of an unknown type is an error, unless a closure
/// accepts such rows.
pub(crate) async fn rows_are_read_by_closures(harness: &Harness) {
    let rows = rows(harness).await;
    let all = rows.view::<Entity>().expect("a view").query();
    let names = Resolver::new()
        .on_type(|department: Department| department.name)
        .on("Employee", |entity| {
            Ok(format!("row {}", entity.key().row()))
        });
    let error = names.all(&all).await.expect_err("a note");
    assert!(error.to_string().contains("Note"), "{error}");
    let names = names.other(|entity| Ok(format!("something, {}", entity.key().row())));
    let mut read = names.all(&all).await.expect("three rows");
    read.sort();
    assert_eq!(read, ["Sales", "row empid_000223", "something, note_1"]);
    let streamed: Vec<String> = names.stream(&all).try_collect().await.expect("three rows");
    assert_eq!(streamed.len(), 3);
}

fn one_more(entity: &Entity) -> Result<Properties> {
    let Some(ValueRef::Int32(count)) = entity.get("EmployeeCount") else {
        return Err(Error::application("this entity counts no employees"));
    };
    let mut set = Properties::new();
    set.set("EmployeeCount", count + 1);
    Ok(set)
}

/// Concurrent writers change one property of an entity without its type. All other properties stay.
pub(crate) async fn an_entity_is_changed_without_its_type(harness: &Harness) {
    let rows = rows(harness).await;
    let key = Department::key("Sales").expect("a legal key").into_key();
    let meter = RequestMeter::new();
    let store = Metered::new(rows.store().clone(), meter.clone());
    let metered = Database::new(Arc::new(store))
        .view::<Entity>(rows.name().clone())
        .expect("a table");
    modify(&metered, &key, one_more)
        .await
        .expect("a department");
    assert_eq!(meter.total(), 2);
    let error = modify(&metered, note().key(), one_more)
        .await
        .expect_err("a note counts nothing");
    assert!(error.to_string().contains("counts no employees"), "{error}");
    let nothing = modify(&metered, note().key(), |_| Ok(Properties::new()))
        .await
        .expect("nothing to do");
    assert!(nothing.is_empty());
    assert_eq!(meter.total(), 4);

    let results = join_all((0..4).map(|_| modify(&rows, &key, one_more))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let department = rows.get_existing(&key).await.expect("a department");
    assert_eq!(
        department,
        Row::Department(Department {
            employee_count: 6,
            ..sales()
        })
    );
    assert!(
        matches!(rows.get(note().key()).await, Ok(Some(Row::Other(e))) if e.properties() == note().properties())
    );
}

/// A change of an indexed entity without its type is refused, because the entry would become stale.
pub(crate) async fn a_change_without_the_type_is_refused_in_an_indexed_table(harness: &Harness) {
    let table = harness.table().await;
    let rows = Database::new(harness.store().clone())
        .view::<Row>(table.name().clone())
        .expect("a table");
    let index =
        Index::keyed("text", Placement::SamePartition, "", "text_{Text}").expect("a template");
    let (store, name) = (harness.store().clone(), rows.name().clone());
    let opened = IndexedEntities::open(store, name, vec![index], IndexOptions::default()).await;
    opened.expect("an indexed table");
    table
        .put(Operation::Insert(sales().to_entity().expect("an entity")))
        .await;
    let key = Department::key("Sales").expect("a legal key").into_key();
    let error = modify(&rows, &key, one_more)
        .await
        .expect_err("entries would go stale");
    assert!(error.to_string().contains("Table"), "{error}");
    assert_eq!(
        rows.get_existing(&key).await.expect("a department"),
        Row::Department(sales())
    );
    modify(&rows.clone().ignoring_indexes(), &key, one_more)
        .await
        .expect("nothing is checked");
}

/// A type whose RowKeys begin like those of other rows of its table, and which can be read from any of them.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    discriminator(row_prefix),
    rename_all = "PascalCase",
    partition_key = "{shelf}",
    row_key = "doc_{name}"
)]
struct Doc {
    shelf: String,
    name: String,
    pages: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    discriminator(row_prefix),
    rename_all = "PascalCase",
    partition_key = "{shelf}",
    row_key = "docMeta_{name}"
)]
struct DocMeta {
    shelf: String,
    name: String,
    pages: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(
    type = "Sheet",
    rename_all = "PascalCase",
    partition_key = "{shelf}",
    row_key = "doc_sheet_{name}"
)]
struct Sheet {
    shelf: String,
    name: String,
    pages: Option<i32>,
}

/// Queries, counts and set operations of a type that the start of a key identifies leave the rows of other types, and index entries, alone.
pub(super) async fn rows_whose_keys_begin_alike_are_told_apart(harness: &Harness) {
    let table = harness.table().await;
    let (shelf, pages) = ("a".to_owned(), Some(7));
    let docs = Database::new(harness.store().clone())
        .table::<Doc>(table.name().clone())
        .expect("a table");
    let (metas, sheets) = (
        docs.view::<DocMeta>().expect("a view"),
        docs.view::<Sheet>().expect("a view"),
    );
    let doc = |name: &str| Doc {
        shelf: shelf.clone(),
        name: name.to_owned(),
        pages,
    };
    for name in ["Meta_7", "eta", "meta_7"] {
        docs.insert(&doc(name)).await.expect("a new row");
    }
    metas
        .insert(&DocMeta {
            shelf: shelf.clone(),
            name: "7".into(),
            pages,
        })
        .await
        .expect("a new row");
    sheets
        .insert(&Sheet {
            shelf: shelf.clone(),
            name: "7".into(),
            pages,
        })
        .await
        .expect("a new row");
    let entry = Entity::new("a", "doc_entry")
        .expect("a legal key")
        .with("IndexName", "doc.1f0c77aa");
    table.put(Operation::Insert(entry.clone())).await;

    let names = |found: Vec<Doc>| found.into_iter().map(|doc| doc.name).collect::<Vec<_>>();
    assert_eq!(
        names(docs.query().all().await.expect("rows")),
        ["Meta_7", "eta", "meta_7"]
    );
    assert_eq!(docs.query().count().await.expect("a count"), 3);
    let of_any = docs.view::<Entity>().expect("a view");
    assert_eq!(
        names(of_any.query().project::<Doc>().all().await.expect("rows")).len(),
        3
    );
    assert_eq!(
        docs.query()
            .rows(Doc::row_prefix().name_starting("meta"))
            .count()
            .await
            .expect("a count"),
        1
    );
    assert_eq!(
        docs.get(Doc::key("a", "sheet_7").expect("a key"))
            .await
            .expect("an answer"),
        None
    );
    assert_eq!(metas.query().count().await.expect("a count"), 1);
    assert_eq!(sheets.query().count().await.expect("a count"), 1);

    let deleted = docs.query().delete().await.expect("a summary");
    assert_eq!(
        (deleted.written, deleted.failed),
        (3, 0),
        "{:?}",
        deleted.failures
    );
    assert_eq!(metas.query().delete().await.expect("a summary").written, 1);
    assert_eq!(sheets.query().count().await.expect("a count"), 1);
    assert!(table.get(entry.key()).await.is_some(), "the index entry");
}
