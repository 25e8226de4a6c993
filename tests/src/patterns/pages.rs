//! Pages for web clients: every kind of query forward to its end and back to its start.

use std::fmt::Debug;
use std::sync::Arc;

use crate::open_table;
use futures_util::stream;
use table_core::model::Ticks;
use table_core::prelude::*;
use table_patterns::Database;
use table_patterns::bulk::BulkTable;
use table_patterns::index::IndexOptions;
use table_patterns::paging::{CursorError, CursorKey, PageError, Paged, Pager, WebPage};
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

use crate::Harness;

macro_rules! note {
    ($name:ident, [$($attribute:meta),*], [$key:meta], [$($text:meta)?]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attribute])*
        struct $name {
            #[$key]
            book: String,
            #[row_key(format = "{:06}")]
            number: u32,
            $(#[$text])?
            text: String,
        }

        impl $name {
            fn all() -> impl Iterator<Item = Self> {
                (0..23).map(|number| Self { book: "b".to_owned(), number, text: "a text".to_owned() })
            }
        }
    };
}

note!(Plain, [], [partition_key], []);
note!(Indexed, [entity(type = "Note"), index(all, partition_key = "all_{book}", row_key = "entry_{number:06}")], [partition_key], []);
note!(Wider, [entity(wide)], [partition_key], []);
note!(Large, [entity(type = "Note")], [partition_key], [large(over = 3)]);
note!(LargeIndexed, [entity(type = "Note"), index(all, row_key = "all_{number:06}")], [partition_key], [large(over = 3)]);
note!(Spread, [], [partition_key(spread = 4)], []);

fn book() -> PartitionKey {
    PartitionKey::new("b").expect("a legal key")
}

async fn fill<H: BulkTable>(handle: &H, notes: impl Iterator<Item = H::Entity> + Send + 'static) {
    let summary = handle
        .bulk()
        .insert_all(stream::iter(notes))
        .await
        .expect("a summary");
    summary.into_result().expect("no failure");
}

/// Walks forward and back, and returns a cursor of the second page.
async fn walk<Q: Paged>(what: &str, query: &Q, number: impl Fn(&Q::Item) -> u32) -> String
where
    Q::Item: Debug,
{
    let pager = Pager::new(CursorKey::new([3; 32]));
    let numbers = |page: &WebPage<Q::Item>| page.items.iter().map(&number).collect::<Vec<u32>>();
    let mut page = pager.page(query, "ann", None).await.expect(what);
    assert!(page.is_first && page.previous.is_none(), "{what}");
    let second = page.next.clone().expect(what);
    let mut pages = vec![numbers(&page)];
    while let Some(next) = page.next {
        page = pager.page(query, "ann", Some(&next)).await.expect(what);
        pages.push(numbers(&page));
    }
    assert_eq!(
        pages.concat(),
        (0..23).collect::<Vec<_>>(),
        "{what}: forward"
    );
    assert!(page.is_last, "{what}");
    for expected in pages[..pages.len() - 1].iter().rev() {
        let previous = page.previous.expect(what);
        page = pager.page(query, "ann", Some(&previous)).await.expect(what);
        assert_eq!(&numbers(&page), expected, "{what}: back");
    }
    assert!(
        page.is_first && page.previous.is_none(),
        "{what}: back at the start"
    );
    second
}

async fn refused<Q: Paged>(query: &Q, cursor: &str) -> bool {
    let page = Pager::new(CursorKey::new([3; 32]))
        .page(query, "ann", Some(cursor))
        .await;
    matches!(page, Err(PageError::Cursor(CursorError::OfAnotherQuery)))
}

/// Plain, large, wide and spread tables, slices and lookups have pages both ways, and refuse cursors of each other.
pub(super) async fn every_query_has_pages_both_ways(harness: &Harness) {
    let store = || Arc::clone(harness.store());
    let plain = Database::new(store())
        .table::<Plain>(harness.unused_name())
        .expect("a table");
    plain.declare().await.expect("a new table");
    fill(&plain, Plain::all()).await;
    let query = plain.query().partition(book()).limit(5);
    let cursor = walk("a table", &query, |note| note.number).await;
    assert!(refused(&plain.query().limit(5), &cursor).await);
    assert!(refused(&query.clone().filter(Plain::TEXT.eq("x")), &cursor).await);

    let indexed =
        open_table::<Indexed>(store(), harness.unused_name(), IndexOptions::default()).await;
    let indexed = indexed.expect("a new table");
    fill(&indexed, Indexed::all()).await;
    let lookup = indexed.by(Indexed::by_all("b")).limit(5);
    let of_lookup = walk("a lookup", &lookup, |note| note.number).await;
    assert!(refused(&indexed.by(Indexed::by_all("c")).limit(5), &of_lookup).await);
    assert!(refused(&query, &of_lookup).await);

    let wide = WideTable::<Wider>::new(store(), harness.unused_name()).expect("a table");
    wide.create_if_missing().await.expect("a new table");
    fill(&wide, Wider::all()).await;
    walk(
        "a wide table",
        &wide.query().partition(book()).limit(5),
        |note| note.number,
    )
    .await;

    let db = Database::new(store()).with_blobs(harness.blobs().await);
    let large = db.table::<Large>(harness.unused_name()).expect("a table");
    large.declare().await.expect("a new table");
    fill(&large, Large::all()).await;
    walk(
        "a large table",
        &large.query().partition(book()).limit(5),
        |note| note.number,
    )
    .await;

    let large = db
        .table::<LargeIndexed>(harness.unused_name())
        .expect("a table");
    large.declare().await.expect("a new table");
    fill(&large, LargeIndexed::all()).await;
    walk(
        "a large lookup",
        &large.by(LargeIndexed::by_all("b")).limit(5),
        |note| note.number,
    )
    .await;

    let spread = SpreadTable::<Spread>::new(store(), harness.unused_name()).expect("a table");
    spread.create_if_missing().await.expect("a new table");
    fill(&spread, Spread::all()).await;
    walk(
        "a spread table",
        &spread.query().partition(book()).limit(5),
        |note| note.number,
    )
    .await;

    let family = format!("{}s", harness.unused_name());
    for day in 1..=3 {
        harness.clean_up(
            &format!("{family}2013010{day}")
                .parse()
                .expect("a legal name"),
        );
    }
    let time = |note: &Plain| -> Ticks {
        format!("2013-01-0{}T00:00:00Z", 1 + note.number / 10)
            .parse()
            .expect("a time")
    };
    let slices =
        TimeSlices::<Plain>::new(store(), family.as_str(), Every::Day, time).expect("slices");
    fill(&slices, Plain::all()).await;
    walk("slices", &slices.query().limit(5), |note| note.number).await;
}
