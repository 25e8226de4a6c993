//! Values in several properties (`#[entity(split)]`): through every handle, in entries, in groups, over rows, and damaged.

use std::sync::Arc;

use crate::open_table;
use futures_util::TryStreamExt as _;
use table_core::model::{ETag, Entity, IfMatch};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::limits::{BINARY_BYTES, STRING_UNITS};
use table_patterns::Database;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::spread::SpreadTable;
use table_patterns::wide::WideTable;

use crate::{Harness, TestTable};

macro_rules! report {
    ($name:ident, [$($attribute:meta),*], [$key:meta]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attribute])*
        struct $name {
            #[$key]
            shelf: String,
            #[row_key]
            number: u32,
            title: String,
            #[entity(split)]
            body: String,
            #[entity(split)]
            picture: Option<Vec<u8>>,
            #[entity(split, json)]
            notes: Vec<String>,
            #[etag]
            etag: Option<ETag>,
        }

        impl $name {
            fn new(body: usize, picture: Option<usize>, notes: usize) -> Self {
                Self {
                    shelf: "s".to_owned(),
                    number: 1,
                    title: "t".to_owned(),
                    // Two UTF-16 units each. In ASCII, because Azurite decodes each chunk of a body by itself, and breaks a character
                    // that lies across two of them. The unit tests of `split` cut longer characters.
                    body: "ab".repeat(body),
                    picture: picture.map(|bytes| vec![7; bytes]),
                    notes: (0..notes).map(|n| format!("note {n}")).collect(),
                    etag: None,
                }
            }

            fn at() -> table_core::typed::EntityKey<Self> {
                Self::key("s", 1).expect("a legal key")
            }

            fn forget(self) -> Self {
                Self { etag: None, ..self }
            }
        }
    };
}

report!(Plain, [], [partition_key]);
report!(Typed, [entity(type = "Report")], [partition_key]);
report!(Recorded, [entity(type = "Report", feed)], [partition_key]);
report!(
    Indexed,
    [entity(type = "Report"), index(title, row_key = "title_{title}_{number}", payload = full)],
    [partition_key]
);
report!(
    Remote,
    [entity(type = "Report"), index(title, partition_key = "title_{title}", row_key = "{shelf}_{number}", payload = full)],
    [partition_key]
);
report!(Spread, [], [partition_key(spread = 4)]);
report!(Wider, [entity(wide)], [partition_key]);

/// The number of parts in the rows of a table.
async fn parts(table: &TestTable) -> usize {
    let rows = table
        .store()
        .query_all(table.name(), &Query::new())
        .await
        .expect("rows");
    let numbered = |name: &str| name.contains("_Part") && !name.ends_with("_Parts");
    rows.iter()
        .flat_map(|row| row.properties())
        .filter(|property| numbered(property.name()))
        .count()
}

/// Half of the longest text of one property, in characters of two units.
const HALF: usize = STRING_UNITS / 4;

/// Writes a long value, and shorter ones by every verb.
macro_rules! check {
    ($table:ident: $handle:ident, $of:ident, $copies:literal) => {{
        let what = stringify!($of);
        let long = || $of::new(5 * HALF, Some(2 * BINARY_BYTES + 1), 8000);
        // Three parts of each value, as notes have 8,000 texts of 12 units.
        let all = 9 * $copies;
        let stored = async || $of::clone(&$handle.get_existing($of::at()).await.expect(what));
        let read = async || stored().await.forget();
        $handle.insert(&long()).await.expect(what);
        assert_eq!(read().await, long(), "{what}");
        assert_eq!(parts(&$table).await, all, "{what}");

        $handle
            .upsert(&$of::new(2 * HALF, None, 1))
            .await
            .expect(what);
        assert_eq!(parts(&$table).await, 0, "{what}: upsert");
        $handle.insert_or_merge(&long()).await.expect(what);
        assert_eq!(parts(&$table).await, all, "{what}: insert_or_merge");
        assert_eq!(read().await, long(), "{what}: insert_or_merge");
        // `None` keeps the stored value.
        $handle
            .insert_or_merge(&$of::new(0, None, 0))
            .await
            .expect(what);
        assert_eq!(parts(&$table).await, 3 * $copies, "{what}: insert_or_merge");
        let merged = $of {
            picture: long().picture,
            ..$of::new(0, None, 0)
        };
        assert_eq!(read().await, merged, "{what}: insert_or_merge");

        let grown = $handle
            .update($of::at(), |report| {
                report.body = long().body;
                Ok(())
            })
            .await
            .expect(what);
        assert_eq!(grown.body, long().body, "{what}");
        assert_eq!(parts(&$table).await, 6 * $copies, "{what}: update");
        let stored = stored().await;
        $handle
            .replace(&$of {
                picture: Some(vec![1]),
                body: "b".to_owned(),
                ..stored
            })
            .await
            .expect(what);
        assert_eq!(parts(&$table).await, 0, "{what}: replace");
        assert!(
            $handle.delete_if_exists($of::at()).await.expect(what),
            "{what}"
        );
    }};
}

/// A patch of another field keeps the parts. A type with a full payload has no patch.
macro_rules! check_merge {
    ($table:ident: $handle:ident, $of:ident) => {
        let long = $of::new(5 * HALF, None, 1);
        $handle.insert(&long).await.expect("an insert");
        $handle
            .merge($of::at(), &$of::patch().title("other"), IfMatch::Any)
            .await
            .expect("a merge");
        assert_eq!(
            parts(&$table).await,
            3,
            "{}: a merge of another field",
            stringify!($of)
        );
        let read = $of::clone(&$handle.get_existing($of::at()).await.expect("an entity")).forget();
        assert_eq!(
            read,
            $of {
                title: "other".to_owned(),
                ..long
            }
        );
    };
}

/// Long values are read back as they were, and no write leaves parts of a longer one.
pub(super) async fn every_handle_reads_and_shortens_long_values(harness: &Harness) {
    let store = || Arc::clone(harness.store());
    let table = harness.table().await;
    let plain = Database::new(store())
        .table::<Plain>(table.name().clone())
        .expect("a table");
    check!(table: plain, Plain, 1);
    check_merge!(table: plain, Plain);
    let table = harness.table().await;
    let typed = Database::new(store())
        .table::<Typed>(table.name().clone())
        .expect("a table");
    check!(table: typed, Typed, 1);
    check_merge!(table: typed, Typed);

    let table = harness.missing_table();
    let options = || IndexOptions::default().with_clearing(Clearing::BeforeAnswer);
    let indexed = open_table::<Indexed>(store(), table.name().clone(), options())
        .await
        .expect("a table");
    check!(table: indexed, Indexed, 2);
    let table = harness.missing_table();
    let remote = open_table::<Remote>(store(), table.name().clone(), options())
        .await
        .expect("a table");
    check!(table: remote, Remote, 2);

    let table = harness.table().await;
    let db = Database::new(store()).with_blobs(harness.blobs().await);
    let large = db.table::<Typed>(table.name().clone()).expect("a table");
    check!(table: large, Typed, 1);
    check_merge!(table: large, Typed);
    let table = harness.table().await;
    let spread = SpreadTable::<Spread>::new(store(), table.name().clone()).expect("a table");
    check!(table: spread, Spread, 1);
    check_merge!(table: spread, Spread);
    let table = harness.table().await;
    let recorded = Database::new(store())
        .table::<Recorded>(table.name().clone())
        .expect("a table");
    check!(table: recorded, Recorded, 1);
    check_merge!(table: recorded, Recorded);
    let table = harness.table().await;
    let wide = WideTable::<Wider>::new(store(), table.name().clone()).expect("a table");
    check!(table: wide, Wider, 1);
    check_merge!(table: wide, Wider);
}

/// An entry with a full payload gives the whole value without a read of the entity.
pub(super) async fn an_entry_has_every_part(harness: &Harness) {
    let name = harness.unused_name();
    let indexed =
        open_table::<Indexed>(Arc::clone(harness.store()), name, IndexOptions::default()).await;
    let indexed = indexed.expect("a new table");
    let long = Indexed::new(5 * HALF, Some(BINARY_BYTES + 1), 1);
    indexed.insert(&long).await.expect("an insert");
    let found = indexed
        .by(Indexed::by_title("s").title("t"))
        .all()
        .await
        .expect("a lookup");
    assert_eq!(
        found.into_iter().map(Indexed::forget).collect::<Vec<_>>(),
        [long]
    );
}

/// With `wide`, a value can be longer than a row. The size of a row can be set.
pub(super) async fn wide_values_are_in_several_rows(harness: &Harness) {
    let table = harness.table().await;
    // Azurite takes 767 KiB of Binary in a row.
    let wide = WideTable::<Wider>::new(Arc::clone(harness.store()), table.name().clone())
        .expect("a table");
    let wide = wide.with_row_bytes(700 * 1024);
    let long = Wider::new(1, Some(24 * BINARY_BYTES), 1);
    let written = wide.insert(&long).await.expect("a wide entity");
    assert_eq!(
        written.rows(),
        4,
        "1.5 MiB in rows of 700 KiB, and the head row"
    );
    assert_eq!(
        wide.get_existing(Wider::at())
            .await
            .expect("an entity")
            .value
            .clone()
            .forget(),
        long
    );
    let small = wide.with_row_bytes(0);
    let grown = small
        .update(Wider::at(), |report| {
            report.picture = Some(vec![8; 5 * BINARY_BYTES]);
            Ok(())
        })
        .await;
    assert_eq!(
        grown.expect("an update").picture,
        Some(vec![8; 5 * BINARY_BYTES])
    );
    let read = small.get_existing(Wider::at()).await.expect("an entity");
    assert_eq!(read.picture, Some(vec![8; 5 * BINARY_BYTES]));
    let all: Vec<_> = small
        .query()
        .partition(Wider::partition("s").expect("a key"))
        .stream()
        .try_collect()
        .await
        .expect("a query");
    assert_eq!(all.len(), 1);
    small.delete_stored(&read).await.expect("a delete");
    assert_eq!(
        table
            .store()
            .query_all(table.name(), &Query::new())
            .await
            .expect("rows")
            .iter()
            .filter(|row| row.key().partition() == "s")
            .count(),
        0
    );
}

/// Values beyond one row are refused before anything is written. A row with a damaged value is one error of one row.
pub(super) async fn damaged_and_excessive_values_are_errors_of_one_row(harness: &Harness) {
    let table = harness.table().await;
    let reports = Database::new(Arc::clone(harness.store()))
        .table::<Plain>(table.name().clone())
        .expect("a table");
    let error = reports
        .insert(&Plain::new(1, Some(17 * BINARY_BYTES), 1))
        .await
        .expect_err("more than 1 MiB");
    assert!(
        matches!(error.kind(), ErrorKind::LimitExceeded { .. }),
        "{error}"
    );
    for number in 1..=3 {
        reports
            .insert(&Plain {
                number,
                ..Plain::new(3 * HALF, None, 1)
            })
            .await
            .expect("an insert");
    }
    let key = Plain::key("s", 2).expect("a key").into_key();
    let mut row = table
        .store()
        .get_existing(table.name(), &key)
        .await
        .expect("a row")
        .with_system(None, None);
    row.properties_mut().remove("body_Part2");
    table.put(Operation::InsertOrReplace(row)).await;
    let page = reports.query().readable_page(None).await.expect("a page");
    assert_eq!(
        page.page
            .items
            .iter()
            .map(|report| report.number)
            .collect::<Vec<_>>(),
        [1, 3]
    );
    assert_eq!(page.unreadable[0].key, key);
    assert!(
        page.unreadable[0]
            .error
            .to_string()
            .contains("'body_Part2'"),
        "{}",
        page.unreadable[0].error
    );
    // Another client that writes the whole property does not remove the parts.
    let theirs = Entity::from(Plain::at().into_key()).with("body", "theirs");
    table.put(Operation::InsertOrMerge(theirs)).await;
    let error = reports.get(Plain::at()).await.expect_err("two values");
    assert!(error.to_string().contains("another program"), "{error}");
    reports
        .upsert(&Plain::new(1, None, 1))
        .await
        .expect("an upsert");
    assert_eq!(
        reports
            .get_existing(Plain::at())
            .await
            .expect("an entity")
            .body,
        "ab"
    );
}
