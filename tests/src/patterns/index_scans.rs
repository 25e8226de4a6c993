//! Scans of a table with indexes leave entries out, unless the caller asks for entries.

use crate::open_table_with;
use table_core::model::{Entity, INDEX_NAME, PartitionKey};
use table_core::prelude::*;
use table_core::query::Filter;
use table_core::typed::EntityResolver;
use table_patterns::Table;
use table_patterns::heterogeneous::Resolver;
use table_patterns::index::{Index, IndexOptions, Placement, Shape};
use table_patterns::journal::Clearing;

use crate::Harness;

/// Entries before and after the entities of the partition, as full copies and in lists.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase", row_key = "m_{id:04}")]
#[index(city, row_key = "a_{city}_{id:04}", payload = full)]
#[index(email, row_key = "z_{email}", unique = "partition")]
#[index(
    badge,
    partition_key = "badge_{badge:04}",
    row_key = "badge",
    unique = "table"
)]
struct Person {
    #[partition_key]
    country: String,
    id: u32,
    city: String,
    email: String,
    badge: u32,
}

#[derive(Debug, PartialEq, EntityResolver)]
enum Row {
    Person(Person),
    #[resolver(other)]
    Other(Entity),
}

fn person(id: u32) -> Person {
    Person {
        country: "no".to_owned(),
        id,
        city: "oslo".to_owned(),
        email: format!("{id}@x"),
        badge: id,
    }
}

const PEOPLE: u32 = 40;

/// Inserts people with entries, lists and sums, and a note without a type.
async fn people(h: &Harness) -> Table<Person> {
    let list =
        Index::keyed("list", Placement::SamePartition, "", "list_{City}").expect("a template");
    let ages = Index::keyed("sums", Placement::SamePartition, "", "b_{City}").expect("a template");
    let more = vec![
        list.with_shape(Shape::LIST),
        ages.with_shape(Shape::summary(["Badge"])),
    ];
    let people = open_table_with(
        h.store().clone(),
        h.unused_name(),
        more,
        IndexOptions::local().with_clearing(Clearing::BeforeAnswer),
    )
    .await;
    let people: Table<Person> = people.expect("a new table");
    for id in 1..=PEOPLE {
        people.insert(&person(id)).await.expect("a new person");
    }
    let note = Entity::new("no", "m_9999")
        .expect("a legal key")
        .with("Text", "by another program");
    people
        .entities()
        .await
        .expect("an open table")
        .insert(note)
        .await
        .expect("a new note");
    people
}

/// Counts, limits, pages and point reads see only entities.
pub(crate) async fn scans_leave_entries_out(h: &Harness) {
    let people = people(h).await;
    let all = people.view::<Entity>().expect("a view");
    let entities = PEOPLE as usize + 1;
    let found = all.query().all().await.expect("entities");
    assert_eq!(found.len(), entities);
    assert!(
        found
            .iter()
            .all(|entity| entity.key().row().starts_with("m_")),
        "{found:?}"
    );
    assert_eq!(all.query().count().await.expect("entities"), entities);
    assert_eq!(
        people.query().count().await.expect("people"),
        PEOPLE as usize
    );

    let in_partition = || {
        all.query()
            .partition(PartitionKey::new("no").expect("a legal key"))
    };
    let first = in_partition().limit(3).all().await.expect("entities");
    assert_eq!(
        first.iter().map(|e| e.key().row()).collect::<Vec<_>>(),
        ["m_0001", "m_0002", "m_0003"]
    );
    let mut rows = Vec::new();
    let mut from = None;
    loop {
        let page = in_partition()
            .limit(7)
            .page(from.as_ref())
            .await
            .expect("a page");
        assert!(page.items.len() <= 7);
        rows.extend(
            page.items
                .iter()
                .map(|entity| entity.key().row().to_owned()),
        );
        from = page.continuation;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(
        rows,
        found
            .iter()
            .map(|e| e.key().row().to_owned())
            .collect::<Vec<_>>()
    );
    let names = in_partition()
        .select(["Badge"])
        .all()
        .await
        .expect("entities");
    assert!(names.iter().all(|entity| entity.get(INDEX_NAME).is_none()));
    assert_eq!(names.len(), entities);

    let entry = Key::new("no", "z_7@x").expect("a legal key");
    let keys = [
        Person::key("no", 7u32).expect("a legal key").into_key(),
        entry.clone(),
    ];
    let read = all.get_many(keys).await.expect("reads");
    assert_eq!(
        read.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false]
    );

    // The partition has two entries per person and two shared entries. Each badge has a remote entry.
    let entries = PEOPLE as usize * 3 + 2;
    let with_entries = all
        .query()
        .with_index_entries()
        .count()
        .await
        .expect("rows");
    assert_eq!(with_entries, entities + entries);
    let named = all.query().raw_filter(Filter::ge(INDEX_NAME, ""));
    assert_eq!(named.count().await.expect("entries"), entries);
    let row = all.store().get(all.name(), &entry, None).await;
    assert!(row.expect("a read").is_some());
}

/// A resolver gets entities only, no entries.
pub(crate) async fn resolvers_see_no_entries(h: &Harness) {
    let people = people(h).await;
    let rows = people.view::<Row>().expect("a view");
    let (known, other): (Vec<Row>, Vec<Row>) = rows
        .query()
        .all()
        .await
        .expect("rows")
        .into_iter()
        .partition(|row| matches!(row, Row::Person(_)));
    assert_eq!(
        known,
        (1..=PEOPLE)
            .map(|id| Row::Person(person(id)))
            .collect::<Vec<_>>()
    );
    assert!(
        matches!(&other[..], [Row::Other(note)] if note.key().row() == "m_9999"),
        "{other:?}"
    );

    let ids = Resolver::new()
        .on_type(|person: Person| person.id)
        .other(|_| Ok(0));
    let mut ids = ids
        .all(&rows.view::<Entity>().expect("a view").query())
        .await
        .expect("rows");
    ids.sort_unstable();
    assert_eq!(ids, (0..=PEOPLE).collect::<Vec<_>>());
}
