use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::engine::Stamp;
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
