//! Indexes on an unsorted store, such as Cosmos DB for Table.

use std::sync::Arc;

use crate::open_table;
use futures_util::TryStreamExt as _;
use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_core::query::AccessPath;
use table_core::store::{Error, GroupTransaction};
use table_patterns::Table;
use table_patterns::index::{Index, IndexQuery, IndexedEntities, Placement, Trust};

use super::index_lists::{changing, options};
use crate::Harness;
use crate::wrappers::UnsortedStore;

#[derive(Debug, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
#[index(name, partition_key = "names", row_key = "{name}_{city}_{id}")]
struct Person {
    #[partition_key]
    city: String,
    #[row_key(format = "person_{}")]
    id: u32,
    name: String,
}

fn names(people: Vec<Person>) -> Vec<String> {
    people.into_iter().map(|person| person.name).collect()
}

async fn people(harness: &Harness) -> Table<Person> {
    let store = Arc::new(UnsortedStore::with_pages_of(3, harness.store().clone()));
    let table = harness.table().await.name().clone();
    let people = open_table(store, table.as_str(), options())
        .await
        .expect("an empty table");
    for (id, name) in ["eva", "ann", "dan", "bob", "cyd", "fay", "gus"]
        .into_iter()
        .enumerate()
    {
        let person = Person {
            city: "oslo".to_owned(),
            id: id as u32,
            name: name.to_owned(),
        };
        people.insert(&person).await.expect("a person");
    }
    people
}

fn assert_refused(error: &Error) {
    assert!(
        matches!(error.kind(), ErrorKind::Unsupported { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("sorted_on_client"), "{error}");
}

/// A lookup with a limit on an unsorted store is refused, or reads all entries and sorts them on the client.
pub(crate) async fn a_limit_on_an_unsorted_store_is_refused_or_sorted_on_the_client(
    harness: &Harness,
) {
    let people = people(harness).await;
    let all = || people.by(Person::by_name());
    assert_refused(&all().first().await.unwrap_err());
    assert_refused(&all().limit(2).all().await.unwrap_err());
    assert_eq!(
        all().limit(2).count().await.expect("a number"),
        2,
        "a number has no order"
    );
    let first = all().sorted_on_client().first().await.expect("the first");
    assert_eq!(first.map(|person| person.name).as_deref(), Some("ann"));
    let three = all()
        .sorted_on_client()
        .limit(3)
        .all()
        .await
        .expect("the first three");
    assert_eq!(names(three), ["ann", "bob", "cyd"]);
    assert!(names(all().sorted_on_client().all().await.expect("all")).is_sorted());
    assert_eq!(all().all().await.expect("all").len(), 7);
}

/// Partitions without order cannot be merged.
pub(crate) async fn unsorted_partitions_cannot_be_merged(harness: &Harness) {
    let people = people(harness).await;
    let entities = people.entities().await.expect("an open table");
    let (parts, query) = (["names".to_owned()], IndexQuery::partition(""));
    assert_refused(
        &entities
            .all_merged("name", &parts, &query, Trust::Entry)
            .await
            .unwrap_err(),
    );
    let query = query.sorted_on_client();
    let found: Vec<_> = entities
        .merged("name", &parts, &query, Trust::Entry)
        .try_collect()
        .await
        .expect("the entries");
    let found = found
        .into_iter()
        .map(Person::from_entity)
        .collect::<table_core::Result<Vec<_>>>();
    assert_eq!(
        names(found.expect("people")),
        ["ann", "bob", "cyd", "dan", "eva", "fay", "gus"]
    );
}

/// Inserts entities so large that a build takes two windows.
async fn insert_large(store: &dyn TableStore, table: &TableName) {
    for first in (0..400).step_by(50) {
        let partition = PartitionKey::new("p").expect("a legal key");
        let mut group = GroupTransaction::new(partition, store.profile());
        for id in first..first + 50 {
            let entity = Entity::new("p", format!("{id:04}")).expect("a legal key");
            let large = entity.with("City", "oslo").with("Face", vec![0u8; 60_000]);
            group
                .push(Operation::Insert(large))
                .expect("a group within the limits");
        }
        store.transact(table, group).await.expect("people");
    }
}

/// A build reads each window twice and no further page of the table.
pub(crate) async fn a_build_on_an_unsorted_store_reads_each_window_twice(harness: &Harness) {
    let meter = RequestMeter::new();
    let unsorted = UnsortedStore::with_pages_of(20, harness.store().clone());
    let store: Arc<dyn TableStore> = Arc::new(Metered::new(unsorted, meter.clone()));
    let (table, cities) = (
        harness.table().await.name().clone(),
        harness.table().await.name().clone(),
    );
    insert_large(&*store, &table).await;
    let by_city = Index::keyed("city", Placement::OtherTable(cities), "{City}", "{RowKey}");
    let indexes = vec![by_city.expect("a template")];
    let people = IndexedEntities::open(store, table.clone(), indexes, changing())
        .await
        .expect("a table");
    let before = meter.snapshot();
    let built = people
        .build("city")
        .expect("an index")
        .run()
        .await
        .expect("a build");
    assert_eq!(built.entries, 400);
    let scans = meter.since(&before).sum(|request| {
        request.table.as_ref() == Some(&table) && request.path == Some(AccessPath::TableScan)
    });
    // The windows have 14 and 6 pages. The last request reads the page of the manifest at the end of the table.
    assert_eq!(scans.requests, 2 * 20 + 1);
}
