//! Upgrades of schema versions: planned, interrupted and resumed, through every handle.

use std::sync::{Arc, Mutex};

use crate::open_table;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_core::store::OperationKind;
use table_core::typed::upgrade::UpgradeRows as _;
use table_core::typed::{Upgrade, UpgradeCursor, UpgradeReport};
use table_patterns::Database;
use table_patterns::index::IndexOptions;
use table_patterns::journal::Clearing;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

use crate::Harness;
use crate::wrappers::SmallPageStore;

macro_rules! versions {
    ($module:ident, [$($attr:meta),*], [$($index:meta),*], $key:meta, [$($text:meta)?]) => {
        mod $module {
            use table_core::prelude::*;

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            pub(super) struct V1 {
                #[$key]
                pub(super) book: String,
                #[row_key]
                pub(super) number: u32,
                pub(super) name: String,
                $(#[$text])?
                pub(super) text: String,
            }

            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            $(#[$index])*
            #[entity(version = 2, previous = V1)]
            pub(super) struct V2 {
                #[$key]
                pub(super) book: String,
                #[row_key]
                pub(super) number: u32,
                pub(super) title: String,
                $(#[$text])?
                pub(super) text: String,
            }

            impl From<V1> for V2 {
                fn from(V1 { book, number, name, text }: V1) -> Self {
                    Self { book, number, title: name.to_uppercase(), text }
                }
            }

            impl V1 {
                pub(super) fn new(number: u32) -> Self {
                    // Two partitions of the table.
                    let book = if number.is_multiple_of(2) { "a" } else { "b" };
                    Self { book: book.to_owned(), number, name: format!("n{number}"), text: "a long text".to_owned() }
                }
            }
        }
    };
}

versions!(plain, [entity(type = "Note")], [], partition_key, []);
versions!(indexed, [entity(type = "Note")], [index(title, row_key = "title_{title}_{number:06}")], partition_key, []);
versions!(large, [entity(type = "Note")], [], partition_key, [large(over = 4)]);
versions!(spread, [entity(type = "Note")], [], partition_key(spread = 2), []);
versions!(wide, [entity(type = "Note", wide)], [], partition_key, []);

/// A store around the store of the harness: with small pages and faults.
struct Rig {
    store: Arc<dyn TableStore>,
    faults: FaultInjector,
}

impl Rig {
    fn new(harness: &Harness, rows_of_a_page: usize) -> Self {
        let faults = FaultInjector::new(0);
        let small = SmallPageStore::new(rows_of_a_page, Arc::clone(harness.store()));
        Self {
            store: Arc::new(Faulty::new(small, faults.clone())),
            faults,
        }
    }
}

/// Plans an upgrade, runs it until the store fails at the start of its third page, resumes it at the cursor, and runs it again.
async fn interrupted<T: TableEntity>(
    what: &str,
    rig: &Rig,
    older: u64,
    upgrade: impl Fn() -> Upgrade<T>,
) {
    let plan = upgrade().plan().await.expect(what);
    assert_eq!(
        (plan.older(), plan.upgraded, plan.failed, plan.version),
        (older, 0, 0, 2),
        "{what}: the plan"
    );
    assert_eq!(
        plan.versions.get(&2),
        Some(&1),
        "{what}: one entity of the current version"
    );
    assert_eq!(
        upgrade().plan().await.expect(what).older(),
        older,
        "{what}: a plan writes nothing"
    );
    let diff = upgrade().diff().await.expect(what);
    assert_eq!(
        (diff.rows, diff.older(), diff.unreadable),
        (older + 1, older, 0),
        "{what}: {diff}"
    );
    assert_eq!(
        diff.properties["title"].absent, older,
        "{what}: the new name"
    );
    assert_eq!(
        diff.properties["name"].found.values().sum::<u64>(),
        older,
        "{what}: the old name"
    );
    assert_eq!(diff.properties["name"].declared, None, "{what}");

    let cursors = Arc::new(Mutex::new(Vec::<Option<UpgradeCursor>>::new()));
    let seen = Arc::clone(&cursors);
    let watch =
        move |report: &UpgradeReport| seen.lock().expect("no panic").push(report.cursor.clone());
    rig.faults.add(
        FaultRule::new(Fault::FailBefore)
            .on(OperationKind::Query)
            .nth(3)
            .times(1),
    );
    upgrade()
        .on_progress(watch.clone())
        .run()
        .await
        .expect_err("the third page fails");
    let cursor = cursors
        .lock()
        .expect("no panic")
        .last()
        .cloned()
        .flatten()
        .expect("two pages were reported");
    let left = upgrade().plan().await.expect(what).older();
    assert!(
        left < older && left > 0,
        "{what}: {left} of {older} are left"
    );

    // The cursor is kept as text.
    let cursor =
        serde_json::from_str(&serde_json::to_string(&cursor).expect("text")).expect("a cursor");
    let resumed = upgrade()
        .resume(cursor)
        .with_concurrency(2)
        .on_progress(watch)
        .run()
        .await
        .expect(what);
    assert_eq!(
        (resumed.upgraded, resumed.failed, resumed.cursor),
        (left, 0, None),
        "{what}: resumed"
    );
    assert_eq!(
        resumed.versions.get(&1),
        Some(&left),
        "{what}: the pages before the cursor are not read again"
    );
    let again = upgrade().run().await.expect(what);
    assert_eq!(
        (again.older(), again.upgraded),
        (0, 0),
        "{what}: nothing is left"
    );
}

/// Every handle plans, reports and resumes an upgrade.
pub(super) async fn every_handle_plans_and_resumes_an_upgrade(harness: &Harness) {
    const OLDER: u32 = 50;
    let rig = Rig::new(harness, 10);
    let (store, raw) = (|| Arc::clone(&rig.store), || Arc::clone(harness.store()));
    let options = || IndexOptions::default().with_clearing(Clearing::BeforeAnswer);

    let name = harness.unused_name();
    let older = Database::new(raw())
        .table::<plain::V1>(name.clone())
        .expect("a table");
    older.declare().await.expect("a new table");
    for number in 0..OLDER {
        older
            .insert(&plain::V1::new(number))
            .await
            .expect("an insert");
    }
    let newer = Database::new(store())
        .table::<plain::V2>(name)
        .expect("a table");
    newer
        .insert(&plain::V1::new(OLDER).into())
        .await
        .expect("an insert");
    interrupted("a table", &rig, OLDER.into(), || newer.upgrade()).await;

    let name = harness.unused_name();
    let older = Database::new(raw())
        .table::<indexed::V1>(name.clone())
        .expect("a table")
        .ignoring_indexes();
    let newer = open_table::<indexed::V2>(store(), name, options())
        .await
        .expect("a table");
    for number in 0..OLDER {
        older
            .insert(&indexed::V1::new(number))
            .await
            .expect("an insert");
    }
    newer
        .insert(&indexed::V1::new(OLDER).into())
        .await
        .expect("an insert");
    interrupted("an indexed table", &rig, OLDER.into(), || newer.upgrade()).await;
    let found = newer
        .by(indexed::V2::by_title("a").title("N4"))
        .all()
        .await
        .expect("a lookup");
    assert_eq!(
        found.len(),
        1,
        "the entries of converted entities are written"
    );

    let (name, blobs) = (harness.unused_name(), harness.blobs().await);
    let db = Database::new(raw()).with_blobs(Arc::clone(&blobs));
    let older = db.table::<large::V1>(name.clone()).expect("a table");
    older.declare().await.expect("a new table");
    for number in 0..OLDER {
        older
            .insert(&large::V1::new(number))
            .await
            .expect("an insert");
    }
    let db = Database::new(store()).with_blobs(blobs);
    let newer = db.table::<large::V2>(name).expect("a table");
    newer
        .insert(&large::V1::new(OLDER).into())
        .await
        .expect("an insert");
    interrupted("a large table", &rig, OLDER.into(), || newer.upgrade()).await;

    let name = harness.unused_name();
    let older = SpreadTable::<spread::V1>::new(raw(), name.clone()).expect("a table");
    older.create_if_missing().await.expect("a new table");
    for number in 0..OLDER {
        older
            .insert(&spread::V1::new(number))
            .await
            .expect("an insert");
    }
    let newer = SpreadTable::<spread::V2>::new(store(), name).expect("a table");
    newer
        .insert(&spread::V1::new(OLDER).into())
        .await
        .expect("an insert");
    interrupted("a spread table", &rig, OLDER.into(), || newer.upgrade()).await;

    let family = format!("{}s", harness.unused_name());
    let time = |number: u32| -> Ticks {
        format!("2013-01-{:02}T00:00:00Z", 1 + number / 15)
            .parse()
            .expect("a time")
    };
    for day in 1..=4 {
        harness.clean_up(
            &format!("{family}201301{day:02}")
                .parse()
                .expect("a legal name"),
        );
    }
    let older = TimeSlices::<plain::V1>::new(raw(), family.as_str(), Every::Day, move |note| {
        time(note.number)
    });
    let older = older.expect("slices");
    for number in 0..OLDER {
        older
            .insert(&plain::V1::new(number))
            .await
            .expect("an insert");
    }
    let newer = TimeSlices::<plain::V2>::new(store(), family.as_str(), Every::Day, move |note| {
        time(note.number)
    });
    let newer = newer.expect("slices");
    newer
        .insert(&plain::V1::new(OLDER).into())
        .await
        .expect("an insert");
    interrupted("time slices", &rig, OLDER.into(), || newer.upgrade()).await;
}

/// A page of wide entities ends after 256 of them, and the next begins in the partition of the last.
pub(super) async fn wide_entities_are_upgraded_page_by_page(harness: &Harness) {
    const OLDER: u32 = 600;
    let (name, rig) = (harness.unused_name(), Rig::new(harness, 1000));
    let older =
        WideTable::<wide::V1>::new(Arc::clone(harness.store()), name.clone()).expect("a table");
    older.create_if_missing().await.expect("a new table");
    for number in 0..OLDER {
        older
            .insert(&wide::V1::new(number))
            .await
            .expect("an insert");
    }
    let newer = WideTable::<wide::V2>::new(Arc::clone(&rig.store), name).expect("a table");
    newer
        .insert(&wide::V1::new(OLDER).into())
        .await
        .expect("an insert");
    interrupted("a wide table", &rig, OLDER.into(), || newer.upgrade()).await;
    for number in [0, 255, 256, OLDER - 1] {
        let V2Key { book, number } = V2Key::of(number);
        let read = newer
            .get_existing(wide::V2::key(book, number).expect("a key"))
            .await
            .expect("an entity");
        assert_eq!(read.title, format!("N{number}"));
    }
    let error = newer
        .page(Some("of another table"))
        .await
        .expect_err("no cursor of wide entities");
    assert!(error.to_string().contains("cursor"), "{error}");
}

struct V2Key {
    book: &'static str,
    number: u32,
}

impl V2Key {
    const fn of(number: u32) -> Self {
        Self {
            book: if number.is_multiple_of(2) { "a" } else { "b" },
            number,
        }
    }
}

/// A row that cannot be converted is one failure, in the plan and in the upgrade. All others are converted.
pub(super) async fn a_row_that_cannot_be_converted_stops_no_other(harness: &Harness) {
    let table = harness.table().await;
    let newer = Database::new(Arc::clone(harness.store()))
        .table::<plain::V2>(table.name().clone())
        .expect("a table");
    let older = newer.view::<plain::V1>().expect("the earlier version");
    for number in 0..6 {
        older
            .insert(&plain::V1::new(number))
            .await
            .expect("an insert");
    }
    let key = plain::V1::key("b", 3u32).expect("a key").into_key();
    let damaged = Entity::from(key.clone()).with("name", 7);
    table.put(Operation::InsertOrMerge(damaged)).await;
    let plan = newer.upgrade().plan().await.expect("a plan");
    assert_eq!(
        (plan.older(), plan.failed, &plan.failures[0].key),
        (6, 1, &key)
    );
    let diff = newer.upgrade().diff().await.expect("a comparison");
    assert_eq!(
        (diff.rows, diff.unreadable, &diff.listed[0].key),
        (6, 1, &key),
        "{diff}"
    );
    let done = newer.upgrade().run().await.expect("an upgrade");
    assert_eq!((done.upgraded, done.failed), (5, 1));
    assert!(
        done.failures[0].error.to_string().contains("'name'"),
        "{}",
        done.failures[0].error
    );
    assert!(newer.upgrade_all().await.is_err(), "the row is still there");
    table
        .store()
        .get_existing(table.name(), &key)
        .await
        .expect("the row is as it was");
}
