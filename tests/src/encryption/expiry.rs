//! Entities that expire and have encrypted properties. The times are in plaintext: no rule may encrypt them.

use std::sync::Arc;
use std::time::Duration;

use crate::open_table;
use futures_util::TryStreamExt as _;
use object_store::ObjectStore as _;
use object_store::memory::InMemory;
use table_core::prelude::*;
use table_encryption::Keys;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::journal::Clearing;
use table_patterns::large::LargeOptions;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::upkeep::{Due, ExpiryUpkeep, Upkeep};
use table_patterns::wide::WideTable;
use table_patterns::{Database, Table};

use super::{Builder, HEADER, TableViews, assert_hidden, kek, keys};
use crate::{Clock, Harness, TestTable};

macro_rules! session {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Session", rename_all = "PascalCase")]
        $(#[$attr])*
        struct $name {
            #[$key]
            p: String,
            #[row_key]
            r: u32,
            name: Option<String>,
            #[encrypt]
            $(#[$large])*
            secret: String,
            #[expires]
            until: Option<Ticks>,
            #[deleted_at(keep_days = 7)]
            deleted: Option<Ticks>,
        }

        impl $name {
            #[allow(dead_code, reason = "some layouts are opened alone")]
            fn new(r: u32, until: Option<Ticks>) -> Self {
                let (name, secret) = (Some(format!("name{r}")), format!("secret-{r}").repeat(5));
                Self { p: "p".into(), r, name, secret, until, deleted: None }
            }
        }
    };
}

session!(Plain, [], partition_key, []);
session!(
    Indexed,
    [
        index(
            name,
            partition_key = "name_{name}",
            row_key = "x",
            unique = "table"
        ),
        index(local, row_key = "local_{name}_{r}", payload = full)
    ],
    partition_key,
    []
);
session!(Large, [], partition_key, [large(over = 16)]);
session!(Spread, [], partition_key(spread = 4), []);
session!(Wider, [entity(wide)], partition_key, []);

#[derive(Debug, TableEntity)]
#[entity(projection_of = Plain, rename_all = "PascalCase")]
struct Secret {
    #[encrypt]
    secret: String,
}

/// Keys and rules over a table whose clock the test sets.
async fn views(
    harness: &Harness,
    clock: &Clock,
    rules: impl FnOnce(Builder, &TableName) -> Builder,
) -> TableViews {
    let raw = harness.table().await;
    let raw = TestTable::new(clock.over(raw.store()), raw.name().clone());
    TableViews::over(raw, keys(), rules)
}

fn store_of(table: &TableViews) -> Arc<dyn TableStore> {
    Arc::clone(&table.store) as Arc<dyn TableStore>
}

fn options() -> IndexOptions {
    IndexOptions::local().with_clearing(Clearing::BeforeAnswer)
}

async fn indexed(table: &TableViews) -> Table<Indexed> {
    let opened = open_table(store_of(table), table.raw.name().clone(), options()).await;
    opened.expect("a table")
}

/// Sweeps once, by a process that knows no type.
async fn sweep(
    store: Arc<dyn TableStore>,
    table: &TableName,
    blobs: &Arc<InMemory>,
) -> ExpiryUpkeep {
    let upkeep = Upkeep::new(store)
        .trust_expiry("Session", "Until")
        .trust_expiry("Session", "Deleted");
    let upkeep = upkeep.tables([table.clone()]).with_options(options());
    let upkeep = upkeep
        .expire_every(Duration::ZERO)
        .scrub_every(None)
        .collect_every(None);
    let report = upkeep
        .blobs(blobs.clone(), LargeOptions::default())
        .run_once()
        .await
        .expect("a round");
    assert_eq!(report.errors().count(), 0, "{report:?}");
    report.tables[table]
        .expiry
        .clone()
        .expect("a type that expires")
}

/// The number of stored rows of the type.
async fn rows(table: &TableViews) -> usize {
    let rows = table.raw.all(&Query::new()).await;
    rows.iter()
        .filter(|row| {
            row.get("EntityType").is_some() && !row.is_index_entry() && !row.key().is_system()
        })
        .count()
}

/// Every handle of such a type is refused when it is opened, whether the rule is for every row or for some; the error names the time.
pub(crate) async fn times_that_a_rule_encrypts_are_refused(harness: &Harness) {
    fn check<T: std::fmt::Debug>(name: &str, opened: table_core::Result<T>) {
        let error = opened.expect_err("the time is encrypted").to_string();
        assert!(
            error.contains(&format!("'{name}'")) && error.contains("`#[expires]`"),
            "{error}"
        );
    }
    let clock = Clock::start();
    for name in ["Until", "Deleted"] {
        let in_every_row: fn(Builder, &TableName, &str) -> Builder =
            |b, t, name| b.encrypt(t, [name]);
        let in_some_rows: fn(Builder, &TableName, &str) -> Builder =
            |b, t, name| b.encrypt_where(t, [name], |_, row, _| row.ends_with('7'));
        for rule in [in_every_row, in_some_rows] {
            let table = views(harness, &clock, |b, t| rule(b, t, name)).await;
            let (store, of) = (|| store_of(&table), || table.raw.name().clone());
            check(name, Database::new(store()).table::<Plain>(of()));
            check(name, Database::new(store()).view::<Secret>(of()));
            check(name, open_table::<Indexed>(store(), of(), options()).await);
            let large = LargeOptions::default().with_codec(Arc::new(table.store.blob_cipher()));
            let db = Database::new(store()).with_blobs(Arc::new(InMemory::new()));
            check(name, db.with_large(large).table::<Large>(of()));
            check(name, SpreadTable::<Spread>::new(store(), of()));
            check(name, WideTable::<Wider>::new(store(), of()));
            let none = |_: &Plain| Ticks::MIN;
            check(
                name,
                TimeSlices::new(store(), of().as_str(), Every::Day, none),
            );
            assert_eq!(table.raw.all(&Query::new()).await, []);
        }
    }
}

/// Reads, claims, soft deletion and sweeps work as without encryption, and store no plaintext.
pub(crate) async fn encrypted_entities_expire(harness: &Harness) {
    let (clock, blobs) = (Clock::start(), Arc::new(InMemory::new()));
    let table = views(harness, &clock, |b, _| b).await;
    let sessions = indexed(&table).await;
    let until = Some(clock.after(Clock::SECOND));
    for r in 1..=4 {
        sessions
            .insert(&Indexed::new(r, until.filter(|_| r < 3)))
            .await
            .expect("a new entity");
    }
    let key = |r: u32| Indexed::key("p", r).expect("a key");
    assert_eq!(sessions.query().count().await.expect("a count"), 4);
    clock.advance(Clock::SECOND);
    assert!(sessions.get(key(1)).await.expect("a read").is_none());
    assert_eq!(sessions.query().count().await.expect("a count"), 2);
    let secrets = sessions
        .query()
        .project::<Secret>()
        .all()
        .await
        .expect("a query");
    assert_eq!(
        secrets
            .iter()
            .map(|one| &one.secret[..8])
            .collect::<Vec<_>>(),
        ["secret-3", "secret-4"]
    );
    let local = |name: &str| sessions.by(Indexed::by_local("p").name(name));
    assert_eq!(local("name1").all().await.expect("a lookup"), []);
    assert_eq!(
        local("name3").all().await.expect("a lookup"),
        [Indexed::new(3, None)]
    );

    // A claim of the value of an expired owner.
    let claimant = Indexed {
        name: Some("name1".into()),
        ..Indexed::new(5, None)
    };
    sessions.insert(&claimant).await.expect("the value is free");
    let found = sessions
        .by(Indexed::by_name("name1"))
        .first()
        .await
        .expect("a lookup");
    assert_eq!(found, Some(claimant));

    // Soft deletion, with other keys since.
    sessions.soft_delete(key(3)).await.expect("a deletion");
    let both = TableViews::over(
        table.raw.clone(),
        Keys::new(kek(2)).with_key(kek(1)),
        |b, _| b,
    );
    let rotated = both
        .store
        .rotation(table.raw.name())
        .run()
        .await
        .expect("a rotation");
    assert_eq!(rotated.skipped, 0);
    let rotated = TableViews::over(table.raw.clone(), Keys::new(kek(2)), |b, _| b);
    let sessions = indexed(&rotated).await;
    assert!(sessions.get(key(3)).await.expect("a read").is_none());
    assert_eq!(
        sessions.restore(key(3)).await.expect("a restore"),
        Indexed::new(3, None)
    );
    sessions.soft_delete(key(4)).await.expect("a deletion");
    clock.advance(7 * Clock::DAY);

    let swept = sweep(store_of(&rotated), table.raw.name(), &blobs).await;
    assert_eq!(
        (swept.removed, swept.failed),
        (2, 0),
        "{swept:?}: the expired and the deleted one"
    );
    assert!(swept.due.is_none(), "{swept:?}");
    let left = sessions
        .clone()
        .with_hidden()
        .query()
        .all()
        .await
        .expect("a query");
    assert_eq!(left.iter().map(|one| one.r).collect::<Vec<_>>(), [3, 5]);
    for index in ["name", "local"] {
        let found = sessions
            .entities()
            .await
            .expect("an open table")
            .scrub(index, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(
            (
                found.entries,
                found.dangling,
                found.missing,
                found.taken_keys
            ),
            (2, 0, 0, 0),
            "{index}"
        );
    }
    sessions
        .insert(&Indexed::new(4, None))
        .await
        .expect("key and value are free");
    assert_hidden(&table, &["secret-"]).await;
}

/// A process without keys removes rows without blobs. It leaves entities whose entries it cannot write, and entities whose blobs it cannot find, and
/// the report says so.
pub(crate) async fn a_sweep_without_keys_leaves_what_it_cannot_read(harness: &Harness) {
    let (clock, blobs) = (Clock::start(), Arc::new(InMemory::new()));
    let past = Some(clock.now());
    let table = views(harness, &clock, |b, _| b).await;
    let raw = || Arc::clone(table.raw.store());
    let sessions = Database::new(store_of(&table))
        .table::<Plain>(table.raw.name().clone())
        .expect("a table");
    for r in 0..3 {
        sessions
            .insert(&Plain::new(r, past.filter(|_| r > 0)))
            .await
            .expect("a new entity");
    }
    let swept = sweep(raw(), table.raw.name(), &blobs).await;
    assert_eq!(
        (swept.removed, swept.failed, rows(&table).await),
        (2, 0, 1),
        "{swept:?}"
    );

    // The payload of an index has the encrypted property.
    let table = views(harness, &clock, |b, _| b).await;
    let sessions = indexed(&table).await;
    sessions
        .insert(&Indexed::new(1, past))
        .await
        .expect("a new entity");
    let swept = sweep(Arc::clone(table.raw.store()), table.raw.name(), &blobs).await;
    assert_eq!((swept.removed, swept.failed), (0, 1), "{swept:?}");
    let Some(Due::Failed(error)) = &swept.due else {
        panic!("{swept:?}")
    };
    assert!(
        error.to_string().contains("'Secret'") && error.to_string().contains("'local."),
        "{error}"
    );
    assert_eq!(rows(&table).await, 1);
    assert_eq!(
        sweep(store_of(&table), table.raw.name(), &blobs)
            .await
            .removed,
        1
    );
    assert_eq!(rows(&table).await, 0);

    // The name of the blob is encrypted too.
    let table = views(harness, &clock, |b, _| b).await;
    let large = LargeOptions::default().with_codec(Arc::new(table.store.blob_cipher()));
    let of = table.raw.name().clone();
    let db = Database::new(store_of(&table)).with_blobs(blobs.clone());
    let sessions = db
        .with_large(large)
        .table::<Large>(of.clone())
        .expect("a table");
    sessions
        .insert(&Large::new(1, past))
        .await
        .expect("a new entity");
    let count = async || {
        blobs
            .list(None)
            .try_fold(0, async |count, _| Ok(count + 1))
            .await
            .expect("blobs")
    };
    assert_eq!(count().await, 1);
    let swept = sweep(Arc::clone(table.raw.store()), &of, &blobs).await;
    assert_eq!((swept.removed, swept.failed), (0, 0), "{swept:?}");
    assert!(matches!(swept.due, Some(Due::NoKeys)), "{swept:?}");
    assert_eq!((rows(&table).await, count().await), (1, 1));
    let swept = sweep(store_of(&table), &of, &blobs).await;
    assert_eq!((swept.removed, swept.failed), (1, 0), "{swept:?}");
    assert!(swept.due.is_none(), "{swept:?}");
    assert_eq!((rows(&table).await, count().await), (0, 0));
}

/// A sweep filters by the time and the type: a store that lists what filters may compare has to list both.
pub(crate) async fn a_sweep_needs_its_filters(harness: &Harness) {
    let (clock, blobs) = (Clock::start(), Arc::new(InMemory::new()));
    let table = views(harness, &clock, |b, t| b.filter_only_by(t, ["EntityType"])).await;
    let sessions = Database::new(store_of(&table))
        .table::<Plain>(table.raw.name().clone())
        .expect("a table");
    sessions
        .insert(&Plain::new(1, Some(clock.now())))
        .await
        .expect("a new entity");
    assert_eq!(sessions.query().count().await.expect("a count"), 0);
    let swept = sweep(store_of(&table), table.raw.name(), &blobs).await;
    let Some(Due::Failed(error)) = &swept.due else {
        panic!("{swept:?}")
    };
    assert!(error.to_string().contains("'Until'"), "{error}");
    assert_eq!((swept.removed, rows(&table).await), (0, 1));

    let listed = ["EntityType", "Until", "Deleted"];
    let table = TableViews::over(table.raw.clone(), keys(), |b, t| {
        b.filter_only_by(t, listed)
    });
    let swept = sweep(store_of(&table), table.raw.name(), &blobs).await;
    assert_eq!((swept.removed, rows(&table).await), (1, 0), "{swept:?}");
}

/// Such a row is one failure of the sweep, in a table of rows and in one of wide entities.
pub(crate) async fn a_row_that_cannot_be_decrypted_keeps_no_other(harness: &Harness) {
    let (clock, blobs) = (Clock::start(), Arc::new(InMemory::new()));
    let past = Some(clock.now());
    let table = views(harness, &clock, |b, _| b).await;
    let sessions = Database::new(store_of(&table))
        .table::<Plain>(table.raw.name().clone())
        .expect("a table");
    let wide = views(harness, &clock, |b, _| b).await;
    let wider = WideTable::<Wider>::new(store_of(&wide), wide.raw.name().clone()).expect("a table");
    for r in 1..=3 {
        sessions
            .insert(&Plain::new(r, past))
            .await
            .expect("a new entity");
        wider
            .insert(&Wider::new(r, past))
            .await
            .expect("a new entity");
    }
    for table in [&table, &wide] {
        let rows = table.raw.all(&Query::new()).await;
        let second = |row: &&Entity| {
            row.get("Secret").is_some() && row.get("Name") == Some(ValueRef::String("name2"))
        };
        let row = rows.iter().find(second).expect("a row").key().clone();
        let damaged = Entity::from(row).with(HEADER, "garbage");
        table.raw.put(Operation::Merge(damaged, IfMatch::Any)).await;
        let swept = sweep(store_of(table), table.raw.name(), &blobs).await;
        assert_eq!((swept.removed, swept.failed), (2, 1), "{swept:?}");
        assert!(matches!(swept.due, Some(Due::Failed(_))), "{swept:?}");
        assert_eq!(rows_with_names(table).await, ["name2"]);
    }
}

async fn rows_with_names(table: &TableViews) -> Vec<String> {
    let rows = table.raw.all(&Query::new()).await;
    let name = |row: &Entity| match row.get("Name") {
        Some(ValueRef::String(name)) => Some(name.to_owned()),
        _ => None,
    };
    rows.iter()
        .filter(|row| row.get("EntityType").is_some())
        .filter_map(name)
        .collect()
}
