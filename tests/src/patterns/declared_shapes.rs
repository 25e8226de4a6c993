//! Declared indexes with lists that overflow, and with hashed shards.

use std::sync::Arc;

use crate::open_table;
use futures_util::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_core::query::Query;
use table_patterns::Table;
use table_patterns::index::{Entry, IndexOptions, IndexQuery, ScrubMode, Trust};
use table_patterns::journal::Clearing;

use crate::Harness;

/// Two lists of references by street, with different overflow, and an index by name in four shards.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Person", rename_all = "PascalCase")]
#[index(blobs, row_key = "blobs_{street}", shape = list(bytes = 256, overflow = blob))]
#[index(rows, row_key = "rows_{street}", shape = list(bytes = 256))]
#[index(
    name,
    partition_key = "name_{name#4}",
    row_key = "{name}_{town}_{id:04}"
)]
struct Person {
    #[partition_key]
    town: String,
    #[row_key(format = "person_{:04}")]
    id: u32,
    name: String,
    street: String,
}

struct Town {
    people: Table<Person>,
    blobs: Arc<InMemory>,
    meter: RequestMeter,
}

impl Town {
    async fn with(people: u32, h: &Harness) -> Self {
        let (meter, blobs) = (RequestMeter::new(), Arc::new(InMemory::new()));
        let store: Arc<dyn TableStore> = Arc::new(Metered::new(h.store().clone(), meter.clone()));
        let mut options = IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
        options.blobs = Some(blobs.clone());
        let table = open_table::<Person>(store, h.unused_name(), options)
            .await
            .expect("a new table");
        for id in 0..people {
            let name = ["ann", "bob", "cy"][id as usize % 3].to_owned();
            let person = Person {
                town: "oslo".to_owned(),
                id,
                name,
                street: "main".to_owned(),
            };
            table.insert(&person).await.expect("a new person");
        }
        Self {
            people: table,
            blobs,
            meter,
        }
    }
}

/// A list that is larger than the declared bytes overflows as the declaration says.
pub(crate) async fn lists_overflow_as_declared(h: &Harness) {
    let town = Town::with(120, h).await;
    let blobs = town
        .blobs
        .list(None)
        .try_collect::<Vec<_>>()
        .await
        .expect("blobs in memory");
    assert_eq!(blobs.len(), 1, "the list that overflows into a blob");
    let rows = town
        .people
        .store()
        .query_all(town.people.name(), &Query::new())
        .await;
    let rows = rows.expect("rows");
    let chunks: Vec<_> = rows
        .iter()
        .filter(|row| row.key().row().starts_with("~~l_"))
        .collect();
    assert!(!chunks.is_empty());
    assert!(
        chunks
            .iter()
            .all(|row| Entry::index_of(row).is_some_and(|id| id.starts_with("rows.")))
    );
    let in_blob = town
        .people
        .by(Person::by_blobs("oslo").street("main"))
        .all()
        .await
        .expect("a list");
    let in_rows = town
        .people
        .by(Person::by_rows("oslo").street("main"))
        .all()
        .await
        .expect("a list");
    assert_eq!(in_blob.len(), 120);
    assert_eq!(&in_blob, &in_rows);
    for index in ["blobs", "rows"] {
        let scrub = town
            .people
            .entities()
            .await
            .expect("an open table")
            .scrub(index, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(scrub.entries, 120, "{index}");
        assert_eq!(scrub.dangling, 0, "{index}");
        assert_eq!(scrub.missing, 0, "{index}");
    }
}

/// A lookup of one value reads one shard. A lookup of a range reads and merges all shards.
pub(crate) async fn shards_are_looked_up_by_their_value(h: &Harness) {
    let town = Town::with(12, h).await;
    let before = town.meter.total();
    let bobs = town
        .people
        .by(Person::by_name("bob"))
        .all()
        .await
        .expect("entries");
    assert_eq!(bobs.iter().map(|p| p.id).collect::<Vec<_>>(), [1, 4, 7, 10]);
    assert_eq!(
        town.meter.total() - before,
        1 + 4,
        "one shard, and its references"
    );
    let one = town
        .people
        .by(Person::by_name("bob").town("oslo").id(7u32))
        .first()
        .await
        .expect("an entry");
    assert_eq!(one.map(|p| p.id), Some(7));

    let shards = Person::name_shards().expect("legal keys");
    let range = IndexQuery::partition("").range("bob", "d");
    let before = town.meter.total();
    let found = town
        .people
        .entities()
        .await
        .expect("an open table")
        .all_merged("name", &shards, &range, Trust::Entry)
        .await;
    let found = found.expect("entries");
    assert_eq!(
        town.meter.total() - before,
        4 + 8,
        "every shard, and the references"
    );
    let found = found
        .into_iter()
        .map(Person::from_entity)
        .collect::<table_core::Result<Vec<_>>>();
    let ids: Vec<_> = found.expect("people").into_iter().map(|p| p.id).collect();
    assert_eq!(ids, [1, 4, 7, 10, 2, 5, 8, 11], "by name, and by number");
}
