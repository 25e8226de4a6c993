//! The kinds of refusals: each says what a program does next, and nothing is written.

use std::error::Error as _;

use table_core::Result;
use table_core::limits::LIST_ELEMENTS;
use table_core::model::{Entity, Key, TableName};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::{Error, ErrorKind, Operation, Outcome};
use table_patterns::index::{Index, IndexOptions, IndexQuery, IndexedEntities, Placement, Trust};
use table_patterns::wide::WideEntities;
use table_patterns::{Database, Table};

use crate::Harness;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
struct Person {
    #[partition_key]
    team: String,
    #[row_key]
    id: u32,
    name: String,
    #[deleted_at(keep_days = 7)]
    deleted: Option<Ticks>,
}

fn person(id: u32) -> Person {
    Person {
        team: "Sales".to_owned(),
        id,
        name: "Ken".to_owned(),
        deleted: None,
    }
}

fn key(id: u32) -> EntityKey<Person> {
    Person::key("Sales", id).expect("a legal key")
}

async fn people(harness: &Harness) -> Table<Person> {
    let table = harness.table().await.name().clone();
    Database::new(harness.store().clone())
        .table(table)
        .expect("a table")
}

fn by_name(placement: Placement, row: &str) -> Index {
    let partition = match placement {
        Placement::SamePartition => "",
        _ => "name_{Name}",
    };
    Index::keyed("name", placement, partition, row).expect("a template")
}

async fn open(harness: &Harness, indexes: Vec<Index>, built_later: &[&str]) -> IndexedEntities {
    let table = harness.table().await.name().clone();
    try_open(harness, table, indexes, built_later)
        .await
        .expect("a table")
}

async fn try_open(
    harness: &Harness,
    table: TableName,
    indexes: Vec<Index>,
    built_later: &[&str],
) -> Result<IndexedEntities> {
    let mut options = IndexOptions::default();
    options.built_later = built_later.iter().map(|name| (*name).to_owned()).collect();
    IndexedEntities::open(harness.store().clone(), table, indexes, options).await
}

fn refused<T: std::fmt::Debug>(done: Result<T>) -> Error {
    let error = done.expect_err("it is refused");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    error
}

macro_rules! assert_kind {
    ($error:expr, $kind:pat) => {{
        let error = $error;
        assert!(matches!(error.root().kind(), $kind), "{error:?}");
    }};
}

/// An argument that is never allowed, a call that the handle does not allow, and a refusal of the application's own code.
pub(crate) async fn calls_are_refused_by_kind(harness: &Harness) {
    let table = people(harness).await;
    table.insert(&person(1)).await.expect("a new entity");
    let no_rows = table.query().page_size(0).all().await;
    assert_kind!(refused(no_rows), ErrorKind::InvalidArgument(_));
    let empty = table.group(Person::partition("Sales").expect("a key"));
    assert_kind!(refused(empty.commit().await), ErrorKind::Misuse(_));
    let renamed = |person: &mut Person| {
        person.id = 2;
        Ok(())
    };
    assert_kind!(
        refused(table.update(key(1), renamed).await),
        ErrorKind::Misuse(_)
    );
    let denied = |_: &mut Person| Err(Error::application("the person is retired"));
    let denied = refused(table.update(key(1), denied).await);
    assert_eq!(denied.to_string(), "the person is retired");
    assert_kind!(denied, ErrorKind::Application(_));
    assert_eq!(
        table.get(key(1)).await.expect("a read").as_ref(),
        Some(&person(1))
    );
}

/// Indexes that contradict each other are not declared.
pub(crate) async fn a_declaration_is_refused_by_kind(harness: &Harness) {
    let table = harness.table().await;
    let indexes = vec![
        by_name(Placement::SamePartition, "name_{Name}_{RowKey}"),
        by_name(Placement::OtherPartition, "{RowKey}"),
    ];
    let opened = try_open(harness, table.name().clone(), indexes, &[]).await;
    assert_kind!(refused(opened), ErrorKind::InvalidDeclaration(_));
    assert!(table.all(&Query::new()).await.is_empty());
}

/// A write of entities that an index covers, by a pattern that maintains no indexes.
pub(crate) async fn a_write_against_the_manifest_is_refused_by_kind(harness: &Harness) {
    let index = by_name(Placement::SamePartition, "name_{Name}_{RowKey}");
    let entities = open(harness, vec![index], &[]).await;
    let wide = WideEntities::new(harness.store().clone(), entities.table().clone());
    let row = person(1).to_entity().expect("an entity");
    let written = wide.insert(&row).await;
    assert_kind!(refused(written), ErrorKind::ManifestMismatch(_));
    let written = entities.get(key(1).key()).await.expect("a read");
    assert!(written.is_none());
}

/// An index that is not built, and one that the table does not have.
pub(crate) async fn an_unready_index_is_refused_by_kind(harness: &Harness) {
    let index = by_name(Placement::SamePartition, "name_{Name}_{RowKey}");
    let entities = open(harness, vec![index], &["name"]).await;
    for name in ["name", "age"] {
        let query = IndexQuery::partition("Sales");
        let found = entities.all(name, &query, Trust::Entity).await;
        assert_kind!(refused(found), ErrorKind::IndexNotReady(_));
    }
}

/// A deleted entity that is kept: the write is allowed when the entity is restored.
pub(crate) async fn a_state_is_refused_by_kind(harness: &Harness) {
    let table = people(harness).await;
    table.insert(&person(1)).await.expect("a new entity");
    table.soft_delete(key(1)).await.expect("a deletion");
    let merged = table.insert_or_merge(&person(1)).await;
    assert_kind!(refused(merged), ErrorKind::WrongState(_));
    table.restore(key(1)).await.expect("the entity is kept");
    table
        .insert_or_merge(&person(1))
        .await
        .expect("as the message said");
}

/// The limit on the entries of an entity says how much is allowed.
pub(crate) async fn a_limit_of_entries_says_how_much_is_allowed(harness: &Harness) {
    let tags = Index::keyed(
        "tag",
        Placement::OtherPartition,
        "tag_{Tags[]}",
        "{PartitionKey}_{RowKey}",
    );
    let entities = open(harness, vec![tags.expect("a template")], &[]).await;
    let tags: Vec<_> = (0..=LIST_ELEMENTS).map(|n| format!("\"t{n}\"")).collect();
    let entity = Entity::new("Sales", "1")
        .expect("a legal key")
        .with("Tags", format!("[{}]", tags.join(",")));
    let error = refused(entities.insert(entity).await);
    let ErrorKind::LimitExceeded {
        allowed, actual, ..
    } = error.root().kind()
    else {
        panic!("{error:?}");
    };
    assert_eq!((*allowed, *actual), (LIST_ELEMENTS, LIST_ELEMENTS + 1));
    assert!(error.is_of_one_entity());
}

/// The texts of an error and of its causes do not name the other entity, which the writer may not be allowed to read. The program asks for it.
pub(crate) async fn a_taken_value_names_its_owner_on_request(harness: &Harness) {
    let local = || by_name(Placement::SamePartition, "name_{Name}");
    let remote = || by_name(Placement::OtherPartition, "name");
    for (index, is_unique) in [
        (local().unique_within_partition(), true),
        (remote().unique_within_table(), true),
        (local(), false),
    ] {
        let entities = open(harness, vec![index], &[]).await;
        let entity = |row: &str| {
            Entity::new("Sales", row)
                .expect("a legal key")
                .with("Name", "Ken")
        };
        entities.insert(entity("secret")).await.expect("a value");
        let error = refused(entities.insert(entity("new")).await);
        assert_eq!(
            (error.is_unique_violation(), error.is_key_collision()),
            (is_unique, !is_unique),
            "{error}"
        );
        let mut texts = vec![error.to_string()];
        let mut source = error.source();
        while let Some(cause) = source {
            texts.push(cause.to_string());
            source = cause.source();
        }
        assert!(
            texts.iter().all(|text| !text.contains("secret")),
            "{texts:?}"
        );
        assert!(texts[0].contains("'name'"), "{texts:?}");
        let owner = Key::new("Sales", "secret").expect("a legal key");
        assert_eq!(error.owner(), Some(&*owner.to_string()));
    }
    // An error without another entity has no owner.
    let table = harness.table().await;
    let insert = || Operation::Insert(Entity::new("Sales", "1").expect("a legal key"));
    harness
        .store()
        .write(table.name(), insert())
        .await
        .expect("a new entity");
    let exists = harness.store().write(table.name(), insert()).await;
    assert_eq!(refused(exists).owner(), None);
}
