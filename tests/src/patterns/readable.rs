//! Pages and streams of every query and lookup that list the entities that cannot be read.

use std::sync::Arc;

use crate::open_table;
use futures_util::TryStreamExt as _;
use object_store::{ObjectStore as _, ObjectStoreExt as _};
use table_core::prelude::*;
use table_core::query::ReadablePage;
use table_patterns::Database;
use table_patterns::index::IndexOptions;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

use crate::Harness;

macro_rules! reading {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Reading", rename_all = "PascalCase")]
        $(#[$attr])*
        struct $name {
            #[$key]
            sensor: String,
            #[row_key(format = "{:02}")]
            number: u32,
            tag: i32,
            value: i32,
            $(#[$large])*
            text: String,
        }

        impl $name {
            fn new(number: u32) -> Self {
                Self { sensor: "s1".into(), number, tag: 7, value: 1, text: "a long text".into() }
            }
        }
    };
}

/// A projection of readings.
#[derive(Debug, TableEntity)]
#[entity(projection_of = Plain, rename_all = "PascalCase")]
struct Tag {
    tag: i32,
}

reading!(Plain, [], partition_key, []);
reading!(
    Indexed,
    [
        index(tag, row_key = "tag_{tag}_{number}"),
        index(
            copy,
            partition_key = "copy_{tag}",
            row_key = "{number}_{sensor}",
            payload = full
        ),
        index(listed, row_key = "listed_{tag}", shape = list)
    ],
    partition_key,
    []
);
reading!(Large, [], partition_key, [large(over = 4)]);
reading!(
    LargeIndexed,
    [index(tag, row_key = "tag_{tag}_{number}")],
    partition_key,
    [large(over = 4)]
);
reading!(Spread, [], partition_key(spread = 4), []);
reading!(Wider, [entity(wide)], partition_key, []);

/// Stores text in the integer of these readings, in every row that has it: rows of entities, and index entries.
async fn damage(store: &dyn TableStore, table: &TableName, numbers: &[u32]) {
    let rows = store.query_all(table, &Query::new()).await.expect("rows");
    let mut found = 0;
    for row in rows.iter().filter(|row| row.get("Value").is_some()) {
        if numbers
            .iter()
            .any(|number| row.key().row().contains(&format!("{number:02}")))
        {
            let damaged = Entity::from(row.key().clone()).with("Value", "many");
            store
                .write(table, Operation::Merge(damaged, IfMatch::Any))
                .await
                .expect("a row");
            found += 1;
        }
    }
    assert!(found >= numbers.len(), "{found} rows");
}

/// The readings and the unreadable rows of a page, by their numbers.
fn numbers<T>(page: &ReadablePage<T>, number: impl Fn(&T) -> u32) -> (Vec<u32>, Vec<u32>) {
    let of_key = |key: &Key| {
        let row = key.row();
        row[row.len() - 2..].parse::<u32>().expect("a number")
    };
    let mut unreadable: Vec<u32> = page.unreadable.iter().map(|row| of_key(&row.key)).collect();
    unreadable.sort_unstable();
    for row in &page.unreadable {
        let error = row.error.to_string();
        assert!(
            error.contains("'Value'") && error.contains("Edm.String"),
            "{error}"
        );
        assert!(row.error.is_of_one_entity(), "{error}");
    }
    (page.page.items.iter().map(number).collect(), unreadable)
}

/// Asserts that pages of two readings list numbers 2 and 4, that streams go on after them, and that other pages fail.
macro_rules! check {
    ($what:literal, $query:expr) => {{
        let query = || $query.limit(2);
        assert!(query().page(None).await.is_err(), "{}", $what);
        let (mut found, mut from) = (Vec::new(), None);
        loop {
            let page = query().readable_page(from.as_ref()).await.expect($what);
            found.push(numbers(&page, |reading| reading.number));
            from = page.page.continuation;
            if from.is_none() {
                break;
            }
        }
        // A store may answer with an empty last page.
        found.retain(|(read, unreadable)| !read.is_empty() || !unreadable.is_empty());
        assert_eq!(
            found,
            [(vec![1], vec![2]), (vec![3], vec![4]), (vec![5], vec![])],
            "{}",
            $what
        );

        // The stream with a limit ends after the second reading, before the second unreadable one.
        let streams = [
            ($query.stream_readable(), vec![1, 3, 5], 2),
            (query().stream_readable(), vec![1, 3], 1),
        ];
        for (stream, expected, unreadable) in streams {
            let rows: Vec<_> = stream.try_collect().await.expect($what);
            let read: Vec<u32> = rows
                .iter()
                .flatten()
                .map(|reading| reading.number)
                .collect();
            assert_eq!(read, expected, "{}: a stream", $what);
            assert_eq!(
                rows.len() - read.len(),
                unreadable,
                "{}: the unreadable ones of a stream",
                $what
            );
        }
    }};
}

/// On every table and every kind of lookup.
pub(super) async fn pages_list_what_cannot_be_read(harness: &Harness) {
    let store = || Arc::clone(harness.store());
    let options = IndexOptions::local;
    macro_rules! fill {
        ($table:expr, $name:expr, $of:ident) => {{
            for number in 1..=5 {
                $table
                    .insert(&$of::new(number))
                    .await
                    .expect("a new reading");
            }
            damage(&**harness.store(), $name, &[2, 4]).await;
        }};
    }
    let name = harness.unused_name();
    let table = Database::new(store())
        .table::<Plain>(name.clone())
        .expect("a table");
    table.declare().await.expect("a new table");
    fill!(table, &name, Plain);
    check!(
        "a table",
        table
            .query()
            .partition(Plain::partition("s1").expect("a key"))
    );
    // A projection without the damaged property reads every row.
    let tags = table
        .query()
        .project::<Tag>()
        .in_any_order()
        .readable_page(None)
        .await
        .expect("a page");
    assert_eq!((tags.page.items.len(), tags.unreadable.len()), (5, 0));
    assert!(tags.page.items.iter().all(|tag| tag.tag == 7));

    let name = harness.unused_name();
    let table = open_table::<Indexed>(store(), name.clone(), options())
        .await
        .expect("a table");
    for number in 1..=5 {
        table
            .insert(&Indexed::new(number))
            .await
            .expect("a new reading");
    }
    table.flush().await;
    damage(&**harness.store(), &name, &[2, 4]).await;
    check!(
        "an indexed table",
        table
            .query()
            .partition(Indexed::partition("s1").expect("a key"))
    );
    check!(
        "a lookup of references",
        table.by(Indexed::by_tag("s1").tag(7))
    );
    check!("a lookup of copies", table.by(Indexed::by_copy(7)));
    check!(
        "a verified lookup",
        table.by(Indexed::by_tag("s1").tag(7)).verified()
    );
    check!(
        "a lookup by a list",
        table.by(Indexed::by_listed("s1").tag(7))
    );

    let (name, blobs) = (harness.unused_name(), harness.blobs().await);
    let db = Database::with_options(store(), options()).with_blobs(blobs);
    let table = db.table::<Large>(name.clone()).expect("a table");
    table.declare().await.expect("a new table");
    fill!(table, &name, Large);
    check!(
        "a large table",
        table
            .query()
            .partition(Large::partition("s1").expect("a key"))
    );

    let name = harness.unused_name();
    let table = db.table::<LargeIndexed>(name.clone()).expect("a table");
    fill!(table, &name, LargeIndexed);
    check!(
        "a lookup of large entities",
        table.by(LargeIndexed::by_tag("s1").tag(7))
    );

    let name = harness.unused_name();
    let table = SpreadTable::<Spread>::new(store(), name.clone()).expect("a table");
    table.create_if_missing().await.expect("a new table");
    fill!(table, &name, Spread);
    check!(
        "a spread table",
        table
            .query()
            .partition(Spread::partition("s1").expect("a key"))
    );

    let name = harness.unused_name();
    let table = WideTable::<Wider>::new(store(), name.clone()).expect("a table");
    table.create_if_missing().await.expect("a new table");
    fill!(table, &name, Wider);
    check!(
        "a wide table",
        table
            .query()
            .partition(Wider::partition("s1").expect("a key"))
    );

    let family = format!("{}s", harness.unused_name());
    harness.clean_up(&format!("{family}20130101").parse().expect("a legal name"));
    let day: Ticks = "2013-01-01T00:00:00Z".parse().expect("a time");
    let slices =
        TimeSlices::<Plain>::new(store(), &family, Every::Day, move |_| day).expect("slices");
    let slice = slices.table_name(day).expect("a legal name");
    fill!(slices, &slice, Plain);
    check!("time slices", slices.query());
}

/// An entity whose blob is missing is listed; all others of the page are read.
pub(super) async fn missing_blobs_are_listed(harness: &Harness) {
    let (name, blobs) = (harness.unused_name(), harness.blobs().await);
    let store = Arc::clone(harness.store());
    let db = Database::with_options(store, IndexOptions::local()).with_blobs(Arc::clone(&blobs));
    let table = db.table::<LargeIndexed>(name).expect("a table");
    table.declare().await.expect("a new table");
    table
        .insert(&LargeIndexed::new(1))
        .await
        .expect("a new reading");
    let list = async || {
        blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .expect("blobs")
    };
    let before = list().await;
    table
        .insert(&LargeIndexed::new(2))
        .await
        .expect("a new reading");
    table
        .insert(&LargeIndexed {
            text: "abc".into(),
            ..LargeIndexed::new(3)
        })
        .await
        .expect("a new reading");
    let after = list().await;
    let of_second = after
        .iter()
        .find(|blob| before.iter().all(|known| known.location != blob.location));
    blobs
        .delete(&of_second.expect("a blob").location)
        .await
        .expect("a blob");

    let query = table
        .query()
        .partition(LargeIndexed::partition("s1").expect("a key"));
    let lookup = table.by(LargeIndexed::by_tag("s1").tag(7));
    assert!(query.page(None).await.is_err() && lookup.page(None).await.is_err());
    for page in [
        query.readable_page(None).await,
        lookup.readable_page(None).await,
    ] {
        let page = page.expect("a page");
        assert_eq!(
            page.page
                .items
                .iter()
                .map(|reading| reading.number)
                .collect::<Vec<_>>(),
            [1, 3]
        );
        assert_eq!(page.unreadable.len(), 1);
        assert_eq!(page.unreadable[0].key.row(), "02");
        assert!(
            page.unreadable[0].error.to_string().contains("blob"),
            "{}",
            page.unreadable[0].error
        );
    }
}

/// A wide entity without one of its rows is listed, by pages and by upgrades; all others are read.
pub(super) async fn damaged_wide_entities_are_listed(harness: &Harness) {
    let (name, store) = (harness.unused_name(), || Arc::clone(harness.store()));
    let table = WideTable::<Wider>::new(store(), name.clone()).expect("a table");
    table.create_if_missing().await.expect("a new table");
    for number in 1..=4 {
        table
            .insert(&Wider::new(number))
            .await
            .expect("a new reading");
    }
    let rows = store().query_all(&name, &Query::new()).await.expect("rows");
    let has_values = |row: &&Entity| row.get("Value").is_some() && row.key().row().contains("_02~");
    let chunk = rows
        .iter()
        .find(has_values)
        .expect("a row of the second reading")
        .key()
        .clone();
    store()
        .write(&name, Operation::Delete(chunk, IfMatch::Any))
        .await
        .expect("a deletion");

    let query = || {
        table
            .query()
            .partition(Wider::partition("s1").expect("a key"))
    };
    assert!(query().page(None).await.is_err());
    let (mut read, mut unreadable, mut from) = (Vec::new(), Vec::new(), None);
    loop {
        let page = query()
            .limit(2)
            .readable_page(from.as_ref())
            .await
            .expect("a page");
        read.extend(page.page.items.iter().map(|reading| reading.number));
        unreadable.extend(page.unreadable.iter().map(|row| row.key.row().to_owned()));
        from = page.page.continuation;
        if from.is_none() {
            break;
        }
    }
    assert_eq!((read, unreadable), (vec![1, 3, 4], vec!["02".to_owned()]));
    let plan = table.upgrade().plan().await.expect("a plan");
    assert_eq!(
        (plan.rows, plan.failed, plan.failures[0].key.row()),
        (4, 1, "02")
    );
    assert!(
        plan.failures[0]
            .error
            .to_string()
            .contains("do not belong together"),
        "{plan:?}"
    );
}
