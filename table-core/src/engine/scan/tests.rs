use std::collections::BTreeMap;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::engine::{Record, Stamp};
use crate::model::{EdmValue, Ticks};
use crate::profile::ServiceProfile;
use crate::query::tests::arbitrary::{entity, key_filter, value};

/// Rows by key, packed and numbered.
struct Stored {
    rows: BTreeMap<Vec<u8>, (Vec<u8>, Vec<u8>)>,
    dictionary: Arc<PropertyDictionary>,
}

/// Gives a number to every dictionary entry except the second, which is written into the rows.
fn stored(entities: &[Entity]) -> Stored {
    let mut dictionary = PropertyDictionary::default();
    let mut second = None;
    let mut number = |entry: &[u8]| {
        if dictionary.iter().count() == 1 && dictionary.number(entry).is_none() {
            second.get_or_insert_with(|| entry.to_vec());
        }
        let number = (second.as_deref() != Some(entry))
            .then(|| dictionary.number(entry).or_else(|| dictionary.add(entry)));
        Ok::<_, Infallible>(number.flatten())
    };
    let mut row = |entity: &Entity| {
        let (key, properties) = entity.clone().into_parts();
        let stamp = Stamp {
            version: 1,
            time: Ticks::MIN,
        };
        let mut numbered = Vec::new();
        stamp.push_bytes(&mut numbered);
        let mut rest = properties.as_packed();
        while PropertyDictionary::pack_next(&mut rest, &mut numbered, &mut number).unwrap() {}
        (
            key.to_sortable(),
            (Record { stamp, properties }.to_bytes(), numbered),
        )
    };
    let rows = entities.iter().map(&mut row).collect();
    Stored {
        rows,
        dictionary: Arc::new(dictionary),
    }
}

/// Returns the entities of all pages.
fn found(stored: &Stored, query: &Query, numbered: bool) -> Vec<Entity> {
    let table = TableName::new("Flights").unwrap();
    let mut from = None;
    let mut found = Vec::new();
    loop {
        let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, query, from.as_ref()).unwrap();
        let range = scan
            .range()
            .map(|(from, to)| (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec)));
        for (key, (record, row)) in range.into_iter().flat_map(|range| stored.rows.range(range)) {
            let step = match numbered {
                false => scan.offer(key, record),
                true => scan.offer_numbered(key, row, &stored.dictionary),
            };
            if step.unwrap() == ScanStep::Done {
                break;
            }
        }
        let page = scan.finish();
        found.extend(page.items);
        match page.continuation {
            None => return found,
            next => from = next,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn pages_contain_every_match_in_key_order(
        filter in key_filter(),
        entities in proptest::collection::vec(entity(), 0..40),
        top in 1..5_usize,
    ) {
        let entities: BTreeMap<Key, Entity> = entities.into_iter().map(|e| (e.key().clone(), e)).collect();
        let entities: Vec<Entity> = entities.into_values().collect();
        let matches = |entity: &&Entity| filter.matches(entity);
        let expected: Vec<Key> = entities.iter().filter(matches).map(|e| e.key().clone()).collect();
        let query = Query::new().with_filter(filter.clone()).with_top(top);
        let found = found(&stored(&entities), &query, false);
        prop_assert_eq!(found.into_iter().map(|e| e.key().clone()).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn numbered_rows_give_the_same_entities(
        filter in proptest::option::of(key_filter()),
        rows in proptest::collection::vec((entity(), proptest::collection::vec(("[A-F]", value()), 0..5)), 0..40),
        select in any::<bool>(),
        top in 1..50_usize,
    ) {
        let with = |(mut entity, more): (Entity, Vec<(String, EdmValue)>)| {
            more.into_iter().for_each(|(name, value)| entity.properties_mut().set(&name, value));
            entity
        };
        let stored = stored(&rows.into_iter().map(with).collect::<Vec<_>>());
        let mut query = Query::new().with_top(top);
        query.filter = filter;
        query.select = select.then(|| Select::new(["A", "C"]));
        prop_assert_eq!(found(&stored, &query, true), found(&stored, &query, false));
    }
}

#[test]
fn a_row_with_unknown_numbers_is_damaged() {
    let table = TableName::new("Flights").unwrap();
    let query = Query::new();
    let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
    let row = [&[0; Stamp::BYTES][..], &[1, 0, 0, 0, 0]].concat();
    let error = scan
        .offer_numbered(b"a\0b", &row, &Arc::default())
        .unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// The first chunk of a page is small; the others have space for some hundred of these rows.
#[test]
fn entities_of_many_chunks_have_their_own_properties() {
    let entity = |n: i32| {
        let text = "x".repeat(n as usize % 300);
        Entity::new("p", format!("{n:04}"))
            .unwrap()
            .with("Number", n)
            .with("Text", text.as_str())
    };
    let entities: Vec<_> = (0..1000).map(entity).collect();
    let query = Query::new();
    for numbered in [false, true] {
        let found = found(&stored(&entities), &query, numbered);
        assert!(
            found
                .iter()
                .zip(&entities)
                .all(|(a, b)| a.properties() == b.properties())
        );
        assert_eq!(found.len(), entities.len());
    }
}

/// The bytes of a page are bounded, and so is the memory that a single kept entity keeps alive.
#[test]
fn large_entities_make_short_pages() {
    let text = "x".repeat(30_000);
    let large = |n| {
        Entity::new("a", format!("{n:03}"))
            .unwrap()
            .with("A", &*text)
            .with("B", &*text)
    };
    let entities: Vec<Entity> = (0..200).map(large).collect();
    let rows = stored(&entities);
    let (table, query) = (TableName::new("Flights").unwrap(), Query::new());
    for numbered in [false, true] {
        let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
        let offered = rows.rows.iter().map(|(key, (record, row))| match numbered {
            false => scan.offer(key, record).unwrap(),
            true => scan.offer_numbered(key, row, &rows.dictionary).unwrap(),
        });
        let taken = offered
            .take_while(|step| *step == ScanStep::Continue)
            .count();
        assert_eq!(taken, limits::PAGE_BYTES / (60_000 + 4 + 2 * 8));
        let page = scan.finish();
        assert_eq!(page.items.len(), taken);
        assert!(page.continuation.is_some());
        assert!(
            page.items
                .iter()
                .zip(&entities)
                .all(|(read, stored)| read.properties() == stored.properties())
        );
        assert_eq!(found(&rows, &query, numbered).len(), 200);
        let select = query.clone().with_select(Select::new(["B"]));
        assert_eq!(found(&rows, &select, numbered).len(), 200);
    }
}

/// Returns how many of endless rows without a match are visited for one page.
fn visited_for_nothing(text: &str) -> usize {
    let table = TableName::new("Flights").unwrap();
    let query = Query::new().with_filter("Missing eq 1".parse().unwrap());
    let (_, properties) = Entity::new("a", "")
        .unwrap()
        .with("A", text)
        .with("B", text)
        .into_parts();
    let record = Record {
        stamp: Stamp {
            version: 1,
            time: Ticks::MIN,
        },
        properties,
    }
    .to_bytes();
    let mut scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
    let key = |n: &usize| Key::new("a", format!("{n:07}")).unwrap().to_sortable();
    let visited =
        (0..1_000_000).take_while(|n| scan.offer(&key(n), &record).unwrap() == ScanStep::Continue);
    let visited = visited.count();
    let page = scan.finish();
    assert!(page.items.is_empty() && page.continuation.is_some());
    visited
}

#[test]
fn a_page_visits_a_bounded_number_of_rows_and_bytes() {
    assert_eq!(visited_for_nothing("x"), 10_000);
    let text = "x".repeat(30_000);
    let visited = visited_for_nothing(&text);
    assert!(
        (1_100..1_120).contains(&visited),
        "64 MiB of rows of 60,034 bytes, and {visited} were visited"
    );
}

#[test]
fn conditions_implied_by_the_range_are_not_evaluated_per_row() {
    let table = TableName::new("Flights").unwrap();
    let left = |text: &str| {
        let query = Query::new().with_filter(text.parse().unwrap());
        let scan = Scan::new(&ServiceProfile::LOCAL, &table, &query, None).unwrap();
        scan.range()
            .is_some()
            .then(|| scan.filter.as_ref().map(ToString::to_string))
    };
    assert_eq!(
        left("PartitionKey eq 'a' and RowKey ge 'b' and RowKey lt 'c'"),
        Some(None)
    );
    let some = |text: &str| Some(Some(text.to_owned()));
    assert_eq!(
        left("PartitionKey eq 'a' and Delay gt 2"),
        some("Delay gt 2")
    );
    assert_eq!(
        left("PartitionKey ge 'a' and RowKey eq 'b'"),
        some("RowKey eq 'b'")
    );
    assert_eq!(left("PartitionKey eq 'a' and PartitionKey eq 'b'"), None);
}
