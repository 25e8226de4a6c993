//! Pages of every query and lookup that list the entities that cannot be decrypted.

use std::sync::Arc;

use crate::open_table;
use object_store::memory::InMemory;
use table_core::prelude::*;
use table_patterns::Database;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::large::LargeOptions;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

use super::{HEADER, TableViews, keys};
use crate::{Harness, TestTable};

macro_rules! letter {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Letter", rename_all = "PascalCase")]
        $(#[$attr])*
        struct $name {
            #[$key]
            p: String,
            #[row_key(format = "{:02}")]
            number: u32,
            tag: i32,
            #[encrypt]
            $(#[$large])*
            secret: String,
        }

        impl $name {
            fn new(number: u32) -> Self {
                Self { p: "p".into(), number, tag: 7, secret: "a long text".into() }
            }
        }
    };
}

letter!(Plain, [], partition_key, []);
letter!(
    Indexed,
    [
        index(tag, row_key = "tag_{tag}_{number}"),
        index(
            copy,
            partition_key = "copy_{tag}",
            row_key = "{p}_{number}",
            payload = full
        ),
        index(
            list,
            partition_key = "list_{tag}",
            row_key = "x",
            shape = list
        )
    ],
    partition_key,
    []
);
letter!(
    LargeIndexed,
    [index(tag, row_key = "tag_{tag}_{number}")],
    partition_key,
    [large(over = 4)]
);
letter!(Spread, [], partition_key(spread = 4), []);
letter!(Wider, [entity(wide)], partition_key, []);

fn store_of(table: &TableViews) -> Arc<dyn TableStore> {
    Arc::clone(&table.store) as Arc<dyn TableStore>
}

/// Damages the header of the encrypted properties of letters 2 and 4, in every row that has it.
async fn damage(raw: &TestTable) {
    let mut found = 0;
    for row in raw.all(&Query::new()).await {
        let of_damaged = ["02", "04"]
            .iter()
            .any(|number| row.key().row().contains(number));
        if of_damaged && row.get(HEADER).is_some() {
            raw.put(Operation::Merge(
                Entity::from(row.key().clone()).with(HEADER, "garbage"),
                IfMatch::Any,
            ))
            .await;
            found += 1;
        }
    }
    assert!(found >= 2, "{found} rows");
}

/// Asserts that pages of two letters list numbers 2 and 4, and that other pages fail.
macro_rules! check {
    ($what:literal, $query:expr) => {{
        let query = || $query.limit(2);
        assert!(query().page(None).await.is_err(), "{}", $what);
        let (mut read, mut unreadable, mut from) = (Vec::new(), Vec::new(), None);
        loop {
            let page = query().readable_page(from.as_ref()).await.expect($what);
            assert!(
                page.page.items.len() + page.unreadable.len() <= 2,
                "{}",
                $what
            );
            read.extend(page.page.items.iter().map(|letter| letter.number));
            for row in &page.unreadable {
                assert!(row.error.is_of_one_entity(), "{}: {}", $what, row.error);
                let key = row.key.row();
                unreadable.push(key[key.len() - 2..].to_owned());
            }
            from = page.page.continuation;
            if from.is_none() {
                break;
            }
        }
        assert_eq!(
            (read, unreadable),
            (vec![1, 3, 5], vec!["02".to_owned(), "04".to_owned()]),
            "{}",
            $what
        );
    }};
}

/// On every table and every kind of lookup.
pub(crate) async fn pages_list_what_cannot_be_decrypted(harness: &Harness) {
    let views = async || TableViews::over(harness.table().await, keys(), |b, _| b);
    let options = || IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    macro_rules! fill {
        ($views:expr, $table:expr, $of:ident) => {{
            for number in 1..=5 {
                $table
                    .insert(&$of::new(number))
                    .await
                    .expect("a new letter");
            }
            damage(&$views.raw).await;
        }};
    }
    let of = views().await;
    let table = Database::new(store_of(&of))
        .table::<Plain>(of.raw.name().clone())
        .expect("a table");
    fill!(of, table, Plain);
    check!(
        "a table",
        table
            .query()
            .partition(Plain::partition("p").expect("a key"))
    );

    let of = views().await;
    let opened = open_table::<Indexed>(store_of(&of), of.raw.name().clone(), options()).await;
    let table = opened.expect("a table");
    fill!(of, table, Indexed);
    check!(
        "an indexed table",
        table
            .query()
            .partition(Indexed::partition("p").expect("a key"))
    );
    check!(
        "a lookup of references",
        table.by(Indexed::by_tag("p").tag(7))
    );
    check!("a lookup of copies", table.by(Indexed::by_copy(7)));
    check!(
        "a verified lookup",
        table.by(Indexed::by_tag("p").tag(7)).verified()
    );
    check!("a lookup of a list", table.by(Indexed::by_list(7)));

    let (of, blobs) = (views().await, Arc::new(InMemory::new()));
    let large = LargeOptions::default().with_codec(Arc::new(of.store.blob_cipher()));
    let db = Database::with_options(store_of(&of), options()).with_blobs(blobs);
    let table = db
        .with_large(large)
        .table::<LargeIndexed>(of.raw.name().clone())
        .expect("a table");
    fill!(of, table, LargeIndexed);
    check!(
        "a large table",
        table
            .query()
            .partition(LargeIndexed::partition("p").expect("a key"))
    );
    check!(
        "a lookup of large entities",
        table.by(LargeIndexed::by_tag("p").tag(7))
    );

    let of = views().await;
    let table = SpreadTable::<Spread>::new(store_of(&of), of.raw.name().clone()).expect("a table");
    fill!(of, table, Spread);
    check!(
        "a spread table",
        table
            .query()
            .partition(Spread::partition("p").expect("a key"))
    );

    let of = views().await;
    let table = WideTable::<Wider>::new(store_of(&of), of.raw.name().clone()).expect("a table");
    fill!(of, table, Wider);
    check!(
        "a wide table",
        table
            .query()
            .partition(Wider::partition("p").expect("a key"))
    );

    let (of, family) = (views().await, format!("{}s", harness.unused_name()));
    harness.clean_up(&format!("{family}20130101").parse().expect("a legal name"));
    let day: Ticks = "2013-01-01T00:00:00Z".parse().expect("a time");
    let slices =
        TimeSlices::<Plain>::new(store_of(&of), &family, Every::Day, move |_| day).expect("slices");
    for number in 1..=5 {
        slices
            .insert(&Plain::new(number))
            .await
            .expect("a new letter");
    }
    let slice = slices.table_name(day).expect("a legal name");
    damage(&TestTable::new(Arc::clone(of.raw.store()), slice)).await;
    check!("time slices", slices.query());
}
