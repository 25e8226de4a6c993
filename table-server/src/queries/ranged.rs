//! Pages for signatures with a range of keys.
//!
//! Such a signature is often the only wall between two tenants of a table, so a page must be a function of the rows that the signature
//! covers: its content, whether there is a continuation token, and the key that the token names. The store therefore gets the range as
//! the bounds of its scan, and nothing else. The client's filter is evaluated here, on rows within the range. It could otherwise use up
//! the comparisons of a filter, so that there is no room for the range, or stop a page at a row that the client must not see.

use table_core::Result;
use table_core::engine::check_query;
use table_core::model::{Entity, Key, RowKind, TableName};
use table_core::query::{KeyBounds, Query};
use table_core::store::{CycleDetector, Error, KeyOrder, TableStore, check_progress, limits};

use crate::authorize::KeyRange;

/// The visible rows and their bytes after which a page ends although few of them match, as in the local stores.
const MAX_VISITED: usize = 10_000;
const MAX_VISITED_BYTES: usize = 16 * limits::PAGE_BYTES;

/// The entities of a page, and the key at which the next one starts: that of a row within the range.
pub(super) struct RangedPage {
    pub(super) items: Vec<Entity>,
    pub(super) next: Option<Key>,
}

/// Whether a signature with this range shows the row with this key.
///
/// A control row has the keys of other rows, also of rows outside the range.
pub(super) fn shows(range: &KeyRange, key: &Key) -> bool {
    range.contains(key) && key.row_kind() != RowKind::Control
}

/// Reads a page of the rows that a signature with a range shows.
pub(super) async fn page(
    store: &dyn TableStore,
    table: &TableName,
    query: &Query,
    range: &KeyRange,
) -> Result<RangedPage> {
    check_query(store.profile(), query)?;
    if store.profile().order != KeyOrder::Sorted {
        let feature = "signatures with a range of keys, because its pages are not sorted; use a signature without a range";
        return Err(Error::unsupported(store.profile().name, feature));
    }
    let mut page = Collected::new(query, store.profile().page_size);
    for bounds in scans(query, range) {
        let mut rows = Query {
            filter: bounds.to_filter(),
            select: None,
            top: page.rows_to_read(),
            ..Query::new()
        };
        let (mut from, mut cycles) = (None, CycleDetector::default());
        loop {
            let found = store
                .query(table, &rows, from.as_ref())
                .await?
                .into_page()?;
            check_progress(
                from.as_ref(),
                found.continuation.as_ref(),
                found.items.len(),
            )?;
            let count = found.items.len();
            for entity in found
                .items
                .into_iter()
                .filter(|entity| shows(range, entity.key()))
            {
                if page.is_full(&entity) {
                    return Ok(RangedPage {
                        items: page.items,
                        next: Some(entity.key().clone()),
                    });
                }
                page.add(entity);
            }
            let Some(next) = found.continuation else {
                break;
            };
            cycles.add(&next, count)?;
            // Hidden rows were among the first ones: how many more follow is not known.
            (from, rows.top) = (Some(next), None);
        }
    }
    Ok(RangedPage {
        items: page.items,
        next: None,
    })
}

/// Returns the bounds to scan, one after the other: the parts of the range in which the client's filter can match. The omitted keys
/// follow from the range and from the filter, not from any row.
fn scans(query: &Query, range: &KeyRange) -> Vec<KeyBounds> {
    let wanted = query.bounds();
    let within = range.segments().into_iter().map(|segment| {
        let partition = segment.partition.intersect(wanted.partition.clone());
        // In several partitions, bounds of the RowKey would only be a filter.
        let row = match partition.as_single() {
            Some(_) => segment.row.intersect(wanted.row.clone()),
            None => segment.row,
        };
        KeyBounds { partition, row }
    });
    within.filter(|bounds| !bounds.is_empty()).collect()
}

/// A page that is being read. Only rows that the signature shows are added, so hidden rows end no page.
struct Collected<'a> {
    query: &'a Query,
    limit: usize,
    items: Vec<Entity>,
    bytes: usize,
    visited: usize,
    visited_bytes: usize,
}

impl<'a> Collected<'a> {
    fn new(query: &'a Query, page_size: usize) -> Self {
        let limit = query.top.unwrap_or(page_size).min(page_size);
        Self {
            query,
            limit,
            items: Vec::new(),
            bytes: 0,
            visited: 0,
            visited_bytes: 0,
        }
    }

    /// The number of rows to read at once: with the row that the token names. `None` if the filter decides how many are needed.
    fn rows_to_read(&self) -> Option<usize> {
        let all = self.query.filter.is_none();
        all.then_some(self.limit - self.items.len() + 1)
            .filter(|rows| *rows < limits::PAGE_SIZE)
    }

    /// Whether the next row belongs to the next page.
    fn is_full(&self, next: &Entity) -> bool {
        let bytes = bytes(next);
        self.items.len() == self.limit
            || self.visited == MAX_VISITED
            || self.visited > 0 && self.visited_bytes + bytes > MAX_VISITED_BYTES
            || !self.items.is_empty() && self.bytes + bytes > limits::PAGE_BYTES
    }

    fn add(&mut self, mut entity: Entity) {
        let bytes = bytes(&entity);
        self.visited += 1;
        self.visited_bytes += bytes;
        if self
            .query
            .filter
            .as_ref()
            .is_some_and(|filter| !filter.matches(&entity))
        {
            return;
        }
        self.bytes += bytes;
        if let Some(select) = &self.query.select {
            entity
                .properties_mut()
                .retain(|property| select.contains(property.name()));
        }
        self.items.push(entity);
    }
}

fn bytes(entity: &Entity) -> usize {
    entity.key().partition().len()
        + entity.key().row().len()
        + entity.properties().as_packed().len()
}

#[cfg(test)]
mod tests {
    use table_core::memory::MemoryStore;
    use table_core::query::Filter;
    use table_core::store::{Operation, TableStore as _};

    use super::*;
    use crate::authorize::Bound;

    async fn table(rows: impl IntoIterator<Item = Entity>) -> (MemoryStore, TableName) {
        let (store, table) = (MemoryStore::new(), TableName::new("Guest").unwrap());
        store.create_table(&table).await.unwrap();
        for row in rows {
            store.write(&table, Operation::Insert(row)).await.unwrap();
        }
        (store, table)
    }

    fn range(partition: &str, from: &str, to: &str) -> KeyRange {
        KeyRange {
            start: Bound::of(partition, from).unwrap(),
            end: Bound::of(partition, to).unwrap(),
        }
    }

    fn entity(partition: &str, row: &str, value: i32) -> Entity {
        Entity::new(partition, row).unwrap().with("V", value)
    }

    /// The rows of all pages, and the key that each page's token names.
    async fn pages(
        store: &MemoryStore,
        table: &TableName,
        query: &Query,
        range: &KeyRange,
    ) -> (Vec<String>, Vec<String>) {
        let (mut rows, mut tokens, mut range) = (Vec::new(), Vec::new(), range.clone());
        loop {
            let page = page(store, table, query, &range).await.unwrap();
            rows.extend(
                page.items
                    .iter()
                    .map(|entity| entity.key().row().to_owned()),
            );
            let Some(next) = page.next else {
                return (rows, tokens);
            };
            tokens.push(next.row().to_owned());
            range = range.starting_at(&next);
        }
    }

    #[tokio::test]
    async fn pages_end_at_rows_of_the_range() {
        let letters = ["a", "b", "c", "d", "e", "f"];
        let (store, table) = table(letters.map(|row| entity("p", row, 1))).await;
        let of = |text: &[&str]| text.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        for (top, tokens) in [
            (1, of(&["c", "d", "e"])),
            (2, of(&["d"])),
            (3, of(&["e"])),
            (4, of(&[])),
        ] {
            for filter in [None, Some(Filter::eq("V", 1))] {
                let query = Query {
                    filter,
                    top: Some(top),
                    select: None,
                    ..Query::new()
                };
                let (rows, named) = pages(&store, &table, &query, &range("p", "b", "e")).await;
                assert_eq!(
                    (rows, named),
                    (of(&["b", "c", "d", "e"]), tokens.clone()),
                    "{top}"
                );
            }
        }
    }

    #[tokio::test]
    async fn rows_that_are_not_shown_end_no_page() {
        let hidden = (0..30).map(|number| entity("p", &format!("~~j_{number}"), 1));
        let shown = ["a", "~~w_1", "~~~"].map(|row| entity("p", row, 1));
        let system = [
            entity("~~manifest", "table", 1),
            entity("~~changes", "cursor", 1),
        ];
        let (store, table) = table(
            hidden
                .chain(shown)
                .chain(system)
                .chain([entity("~\u{A1}", "z", 1)]),
        )
        .await;
        let open = KeyRange {
            start: Bound::of("a", "").unwrap(),
            end: None,
        };
        for top in [1, 2, 1000] {
            let (rows, tokens) = pages(&store, &table, &Query::new().with_top(top), &open).await;
            assert_eq!(rows, ["a", "~~w_1", "z"], "{top}");
            assert_eq!(tokens.len(), 3_usize.div_ceil(top) - 1, "{top}");
        }
    }

    #[tokio::test]
    async fn a_filter_that_matches_nothing_ends_after_a_bounded_number_of_rows() {
        let rows = (0..MAX_VISITED + 5).map(|number| entity("p", &format!("{number:05}"), 1));
        let (store, table) = table(rows).await;
        let query = Query::new().with_filter(Filter::eq("V", 2));
        let (rows, tokens) = pages(&store, &table, &query, &range("p", "", "")).await;
        assert_eq!((rows.len(), tokens), (0, vec!["10000".to_owned()]));
    }

    #[test]
    fn a_filter_of_keys_bounds_the_scan_within_the_range() {
        let open = KeyRange {
            start: Bound::of("b", "5").unwrap(),
            end: None,
        };
        let of = |filter: Filter| scans(&Query::new().with_filter(filter), &open);
        let point = Filter::eq("PartitionKey", "b").and(Filter::eq("RowKey", "7"));
        let [bounds] = &of(point)[..] else {
            panic!("one scan")
        };
        assert!(
            bounds.contains(&Key::new("b", "7").unwrap()) && bounds.row.as_single() == Some("7")
        );
        assert!(of(Filter::eq("PartitionKey", "a")).is_empty());
        assert!(of(Filter::eq("PartitionKey", "~~manifest")).is_empty());
        // Over several partitions the RowKey does not bound a scan.
        assert!(
            of(Filter::eq("RowKey", "7"))
                .iter()
                .skip(1)
                .all(|bounds| bounds.row == table_core::query::Range::ALL)
        );
    }
}
