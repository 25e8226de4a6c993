use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::engine::{Record, Stamp};
use crate::model::Ticks;
use crate::query::tests::arbitrary::{entity, key_filter};
use crate::store::ServiceProfile;

type Stored = BTreeMap<Vec<u8>, Vec<u8>>;

fn stored(entities: &[Entity]) -> Stored {
    let row = |entity: &Entity| {
        let (key, properties) = entity.clone().into_parts();
        let stamp = Stamp { version: 1, time: Ticks::MIN };
        (key.to_sortable(), Record { stamp, properties }.to_bytes())
    };
    entities.iter().map(row).collect()
}

/// Every page after another; the keys found.
fn found(rows: &Stored, query: &Query) -> Vec<Key> {
    let table = TableName::new("Flights").unwrap();
    let mut from = None;
    let mut keys = Vec::new();
    loop {
        let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, query, from.as_ref()).unwrap();
        let range = scan.range().map(|(from, to)| (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec)));
        for (key, record) in range.into_iter().flat_map(|range| rows.range(range)) {
            if scan.offer(key, record).unwrap() == ScanStep::Done {
                break;
            }
        }
        let page = scan.finish();
        keys.extend(page.items.iter().map(|entity| entity.key().clone()));
        match page.continuation {
            None => return keys,
            next => from = next,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn pages_are_every_match_in_the_order_of_keys(
        filter in key_filter(),
        entities in proptest::collection::vec(entity(), 0..40),
        top in 1..5_usize,
    ) {
        let entities: BTreeMap<Key, Entity> = entities.into_iter().map(|e| (e.key().clone(), e)).collect();
        let entities: Vec<Entity> = entities.into_values().collect();
        let matches = |entity: &&Entity| filter.matches(entity);
        let expected: Vec<Key> = entities.iter().filter(matches).map(|e| e.key().clone()).collect();
        let query = Query::new().with_filter(filter.clone()).with_top(top);
        prop_assert_eq!(found(&stored(&entities), &query), expected);
    }
}

/// A page is bounded in bytes too, and so is the memory that one entity keeps.
#[test]
fn large_entities_make_short_pages() {
    let text = "x".repeat(30_000);
    let large = |n| Entity::new("a", format!("{n:03}")).unwrap().with("A", &*text).with("B", &*text);
    let entities: Vec<Entity> = (0..200).map(large).collect();
    let rows = stored(&entities);
    let (table, query) = (TableName::new("Flights").unwrap(), Query::new());
    let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
    let taken = rows.iter().take_while(|(key, row)| scan.offer(key, row).unwrap() == ScanStep::Continue);
    let taken = taken.count();
    assert_eq!(taken, limits::PAGE_BYTES / (60_000 + 4 + 2 * 8));
    let page = scan.finish();
    assert_eq!(page.items.len(), taken);
    assert!(page.continuation.is_some());
    assert!(page.items.iter().zip(&entities).all(|(read, stored)| read.properties() == stored.properties()));
    assert_eq!(found(&rows, &query).len(), 200);
    let select = query.clone().with_select(Select::new(["B"]));
    assert_eq!(found(&rows, &select).len(), 200);
}

/// How many of endless rows like this one, of which none matches, are visited for a page that then goes on.
fn visited_for_nothing(text: &str) -> usize {
    let table = TableName::new("Flights").unwrap();
    let query = Query::new().with_filter("Missing eq 1".parse().unwrap());
    let (_, properties) = Entity::new("a", "").unwrap().with("A", text).with("B", text).into_parts();
    let record = Record { stamp: Stamp { version: 1, time: Ticks::MIN }, properties }.to_bytes();
    let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
    let key = |n: &usize| Key::new("a", format!("{n:07}")).unwrap().to_sortable();
    let visited = (0..1_000_000).take_while(|n| scan.offer(&key(n), &record).unwrap() == ScanStep::Continue);
    let visited = visited.count();
    let page = scan.finish();
    assert!(page.items.is_empty() && page.continuation.is_some());
    visited
}

#[test]
fn rows_that_do_not_match_are_visited_up_to_a_number_and_up_to_so_many_bytes() {
    assert_eq!(visited_for_nothing("x"), 10_000);
    let text = "x".repeat(30_000);
    let visited = visited_for_nothing(&text);
    assert!((1_100..1_120).contains(&visited), "64 MiB of rows of 60,034 bytes, and {visited} were visited");
}

#[test]
fn what_the_range_implies_is_not_asked_of_each_row() {
    let table = TableName::new("Flights").unwrap();
    let left = |text: &str| {
        let query = Query::new().with_filter(text.parse().unwrap());
        let scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
        scan.range().is_some().then(|| scan.filter.as_ref().map(ToString::to_string))
    };
    assert_eq!(left("PartitionKey eq 'a' and RowKey ge 'b' and RowKey lt 'c'"), Some(None));
    let some = |text: &str| Some(Some(text.to_owned()));
    assert_eq!(left("PartitionKey eq 'a' and Delay gt 2"), some("Delay gt 2"));
    assert_eq!(left("PartitionKey ge 'a' and RowKey eq 'b'"), some("RowKey eq 'b'"));
    assert_eq!(left("PartitionKey eq 'a' and PartitionKey eq 'b'"), None);
}
