//! Expiry and soft deletion: reads, sweeps, restores, on every layout and by a clock of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::open_table;
use futures_util::{TryStreamExt as _, stream};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{Faulty, Metered, RequestMeter};
use table_core::prelude::*;
use table_core::store::Result;
use table_patterns::bulk::BulkTable as _;
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::journal::Clearing;
use table_patterns::large::LargeOptions;
use table_patterns::paging::{CursorKey, Pager, WebPage};
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::upkeep::{Due, ExpiryUpkeep, Part, Upkeep};
use table_patterns::wide::WideTable;
use table_patterns::{Database, Table};

use crate::fault_runs::run_with_faults;
use crate::wrappers::HookedStore;
use crate::{Clock, Harness};

const SECOND: i64 = Clock::SECOND;
const DAY: i64 = Clock::DAY;

/// An operator has looked at the expiries of the types of the tests. On a service, upkeep obeys no other.
pub(crate) fn trusting(upkeep: Upkeep) -> Upkeep {
    let properties = ["Until", "Deleted", "End", "until", "deleted"];
    let expiries = ["Session", "Ticket", "Hint", "Note"]
        .iter()
        .flat_map(|of| properties.map(|name| (of, name)));
    expiries.fold(upkeep, |upkeep, (of, property)| {
        upkeep.trust_expiry(of, property)
    })
}

macro_rules! session {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        #[entity(type = "Session", rename_all = "PascalCase")]
        $(#[$attr])*
        pub(super) struct $name {
            #[$key]
            pub(super) p: String,
            #[row_key]
            pub(super) r: u32,
            pub(super) name: Option<String>,
            pub(super) state: Option<i32>,
            $(#[$large])*
            pub(super) text: String,
            #[expires]
            pub(super) until: Option<Ticks>,
            #[deleted_at(keep_days = 7)]
            pub(super) deleted: Option<Ticks>,
        }

        impl $name {
            pub(super) fn new(r: u32, until: Option<Ticks>) -> Self {
                let (name, text) = (Some(format!("name{r}")), "text".repeat(20));
                Self { p: "p".into(), r, name, state: Some(1), text, until, deleted: None }
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
        index(
            local,
            row_key = "local_{name}",
            unique = "partition",
            payload = full
        ),
        index(
            state,
            partition_key = "state_{state}",
            row_key = "{p}_{r}",
            payload = fields(until, deleted)
        ),
        index(reference, row_key = "reference_{name}_{r}"),
        index(listed, row_key = "listed_{state}", shape = list)
    ],
    partition_key,
    []
);
// An index over few properties: a patch has the others.
session!(
    Named,
    [index(name, row_key = "named_{name}", unique = "partition")],
    partition_key,
    []
);
session!(Large, [], partition_key, [large(over = 16)]);
session!(
    LargeIndexed,
    [index(
        name,
        partition_key = "name_{name}",
        row_key = "x",
        unique = "table"
    )],
    partition_key,
    [large(over = 16)]
);
session!(Spread, [], partition_key(spread = 4), []);
session!(EarlierSpread, [], partition_key(spread = 3), []);
session!(Wider, [entity(wide)], partition_key, []);

pub(super) fn options() -> IndexOptions {
    let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    // Counts of requests are without reads of the manifest.
    options.cache = Duration::from_secs(60);
    options
}

/// The stores, tables and clock of a test.
pub(super) struct World {
    pub(super) raw: Arc<dyn TableStore>,
    pub(super) store: Arc<dyn TableStore>,
    pub(super) table: TableName,
    pub(super) blobs: Arc<dyn ObjectStore>,
    pub(super) clock: Clock,
}

impl World {
    pub(super) async fn new(harness: &Harness) -> Self {
        Self::with(harness, harness.blobs().await)
    }

    /// For tests in virtual time, in which requests to the blob store of a service would time out.
    pub(super) fn without_blobs(harness: &Harness) -> Self {
        Self::with(harness, Arc::new(InMemory::new()))
    }

    fn with(harness: &Harness, blobs: Arc<dyn ObjectStore>) -> Self {
        let (raw, clock) = (Arc::clone(harness.store()), Clock::start());
        let (store, table) = (clock.over(&raw), harness.unused_name());
        Self {
            raw,
            store,
            table,
            blobs,
            clock,
        }
    }

    pub(super) async fn indexed(&self, store: &Arc<dyn TableStore>) -> Result<Table<Indexed>> {
        open_table(Arc::clone(store), self.table.clone(), options()).await
    }

    /// A declared table of a database with blobs.
    pub(super) async fn with_blobs<T: TableEntity>(&self) -> Table<T> {
        let db = Database::with_options(Arc::clone(&self.store), options());
        let db = db.with_blobs(Arc::clone(&self.blobs));
        let table = db.table(self.table.clone()).expect("a table");
        table.declare().await.expect("a new table");
        table
    }

    pub(super) async fn blob_count(&self) -> usize {
        self.blobs
            .list(None)
            .try_fold(0, async |count, _| Ok(count + 1))
            .await
            .expect("blobs")
    }

    /// Upkeep by a process that knows no type.
    fn upkeep(&self) -> Upkeep {
        let upkeep = trusting(Upkeep::new(Arc::clone(&self.store))).tables([self.table.clone()]);
        upkeep
            .with_options(options())
            .expire_every(Duration::ZERO)
            .scrub_every(None)
            .collect_every(None)
    }

    /// Sweeps once, with the blobs of large values.
    pub(super) async fn sweep(&self) -> ExpiryUpkeep {
        let upkeep = self
            .upkeep()
            .blobs(Arc::clone(&self.blobs), LargeOptions::default());
        let report = upkeep.run_once().await.expect("a round");
        assert_eq!(report.errors().count(), 0, "{report:?}");
        assert_eq!(report.due().count(), 0, "{report:?}");
        report.tables[&self.table]
            .expiry
            .clone()
            .expect("a type that expires")
    }

    /// The number of rows that are not of the manifest, and not of the journal.
    async fn rows(&self) -> usize {
        let rows = self
            .raw
            .query_all(&self.table, &Query::new())
            .await
            .expect("rows");
        rows.iter()
            .filter(|row| !row.key().partition().starts_with("~~"))
            .count()
    }
}

/// Opens the table of a layout.
macro_rules! open {
    ($world:expr, Plain) => {
        {
            let table = Database::new($world.store.clone()).table::<Plain>($world.table.clone());
            let table = table.expect("a table");
            table.declare().await.expect("a new table");
            table
        }
    };
    ($world:expr, Spread) => {
        open!(@created SpreadTable::<Spread>::new($world.store.clone(), $world.table.clone()))
    };
    ($world:expr, Wider) => {
        open!(@created WideTable::<Wider>::new($world.store.clone(), $world.table.clone()))
    };
    ($world:expr, Large) => {
        $world.with_blobs::<Large>().await
    };
    ($world:expr, Indexed) => {
        $world.indexed(&$world.store).await.expect("a table")
    };
    ($world:expr, Named) => {{
        let opened = open_table::<Named>($world.store.clone(), $world.table.clone(), options());
        opened.await.expect("a table")
    }};
    ($world:expr, LargeIndexed) => {
        $world.with_blobs::<LargeIndexed>().await
    };
    (@created $opened:expr) => {{
        let table = $opened.expect("a table");
        table.create_if_missing().await.expect("a new table");
        table
    }};
}

pub(super) use open;

macro_rules! every_layout {
    ($check:ident, $harness:expr) => {
        $check!($harness, Plain);
        $check!($harness, Indexed);
        $check!($harness, Large);
        $check!($harness, LargeIndexed);
        $check!($harness, Spread);
        $check!($harness, Wider);
    };
}

/// The number of entities of the partition.
macro_rules! count {
    ($table:expr, $of:ident) => {
        $table
            .query()
            .partition($of::partition("p").expect("a key"))
            .count()
            .await
            .expect("a count")
    };
}

macro_rules! reads_of {
    ($harness:expr, $of:ident) => {{
        let world = World::new($harness).await;
        let table = open!(world, $of);
        let key = |r: u32| $of::key("p", r).expect("a key");
        let of = stringify!($of);
        table
            .insert(&$of::new(1, Some(world.clock.after(10 * SECOND))))
            .await
            .expect("a new entity");
        table
            .insert(&$of::new(2, None))
            .await
            .expect("a new entity");
        assert_eq!(count!(table, $of), 2, "{of}");
        assert!(table.get(key(1)).await.expect("a read").is_some(), "{of}");

        world.clock.advance(10 * SECOND);
        assert!(table.get(key(1)).await.expect("a read").is_none(), "{of}");
        assert!(
            table
                .get_existing(key(1))
                .await
                .expect_err("missing")
                .is_entity_not_found(),
            "{of}"
        );
        assert!(table.get(key(2)).await.expect("a read").is_some(), "{of}");
        assert_eq!(count!(table, $of), 1, "{of}");
        let all = table
            .query()
            .partition($of::partition("p").expect("a key"))
            .all()
            .await
            .expect("a query");
        assert_eq!(all.len(), 1, "{of}");
        let everything = table.clone().with_hidden();
        assert!(
            everything.get(key(1)).await.expect("a read").is_some(),
            "{of}"
        );
        assert_eq!(count!(everything, $of), 2, "{of}");

        // What keeps a part of the entity treats it as missing. What renews it keeps the rest.
        let touch = |entity: &mut $of| {
            entity.state = Some(2);
            Ok(())
        };
        assert!(
            table
                .update(key(1), touch)
                .await
                .expect_err("missing")
                .is_entity_not_found(),
            "{of}"
        );
        let until = world.clock.after(10 * SECOND);
        let renew = |entity: &mut $of| {
            entity.until = Some(until);
            Ok(())
        };
        everything.update(key(1), renew).await.expect("a renewal");
        assert!(table.get(key(1)).await.expect("a read").is_some(), "{of}");
        assert_eq!(count!(table, $of), 2, "{of}");

        // A new entity with the key of an expired one replaces all of it.
        world.clock.advance(10 * SECOND);
        let new = $of {
            name: None,
            state: None,
            ..$of::new(1, None)
        };
        table.insert(&new).await.expect("the key is free");
        assert!(table.insert(&new).await.is_err(), "{of}: the key is taken");
        assert_eq!(
            table.get_existing(key(1)).await.expect("a read").state,
            None,
            "{of}"
        );
        table
            .update(key(1), |entity| {
                entity.until = Some(until);
                Ok(())
            })
            .await
            .expect("an update");
        let merged = $of {
            name: None,
            state: None,
            text: "new".into(),
            ..$of::new(1, None)
        };
        table
            .insert_or_merge(&merged)
            .await
            .expect("the key is free");
        let now = table.get_existing(key(1)).await.expect("a read");
        assert_eq!(
            (now.until, now.text.as_str()),
            (None, "new"),
            "{of}: not merged into what has expired"
        );
    }};
}

/// Reads of every layout leave out what has expired, and writes that keep a part of it treat it as missing.
pub(super) async fn reads_leave_out_what_has_expired(harness: &Harness) {
    every_layout!(reads_of, harness);
}

/// While the number of buckets changes, an expired entity in its previous bucket is replaced as one in its new bucket.
pub(super) async fn inserts_replace_expired_entities_in_previous_buckets(harness: &Harness) {
    let world = World::new(harness).await;
    let earlier =
        open!(@created SpreadTable::<EarlierSpread>::new(world.store.clone(), world.table.clone()));
    for r in 0..12 {
        let entity = EarlierSpread::new(r, Some(world.clock.after(10 * SECOND)));
        earlier.insert(&entity).await.expect("a new entity");
    }
    let table = open!(world, Spread).with_previous(3);
    let key = |r: u32| Spread::key("p", r).expect("a key");
    let stays = |r: &u32| {
        let before = earlier.stored_key(EarlierSpread::key("p", *r).expect("a key"));
        before.expect("a key") == table.stored_key(key(*r)).expect("a key")
    };
    assert!(
        (1..12).contains(&(0..12).filter(stays).count()),
        "some entities move, and some stay"
    );
    let new = |r: u32| Spread {
        name: None,
        ..Spread::new(r, None)
    };
    assert!(
        table
            .insert(&new(0))
            .await
            .expect_err("it is valid")
            .is_already_exists()
    );
    table.soft_delete(key(11)).await.expect("a deletion");
    world.clock.advance(10 * SECOND);
    for r in 0..10 {
        if r % 2 == 0 {
            table.insert(&new(r)).await.expect("the key is free");
        } else {
            table
                .insert_or_merge(&new(r))
                .await
                .expect("the key is free");
        }
        assert_eq!(
            table.get_existing(key(r)).await.expect("a read").name,
            None,
            "{r}"
        );
        assert!(
            table
                .insert(&new(r))
                .await
                .expect_err("taken")
                .is_already_exists(),
            "{r}"
        );
    }
    assert_eq!(count!(table, Spread), 10);
    table.migrate().await.expect("a migration");
    assert_eq!(count!(table, Spread), 10);
    for r in 0..10 {
        assert_eq!(
            table.get_existing(key(r)).await.expect("a read").name,
            None,
            "{r}"
        );
    }
    table
        .clone()
        .with_hidden()
        .get_existing(key(10))
        .await
        .expect("an entity that is not replaced is moved");
}

macro_rules! merges_of {
    ($harness:expr, $of:ident) => {{
        let world = World::new($harness).await;
        let table = open!(world, $of);
        let key = || $of::key("p", 1).expect("a key");
        table
            .insert(&$of::new(1, Some(world.clock.now())))
            .await
            .expect("a new entity");
        let patch = $of::patch().until(world.clock.after(SECOND));
        let merged = table
            .merge(key(), &patch, IfMatch::Any)
            .await
            .err()
            .expect("missing");
        assert!(
            merged.is_entity_not_found(),
            "{}: {merged}",
            stringify!($of)
        );
        table
            .clone()
            .with_hidden()
            .merge(key(), &patch, IfMatch::Any)
            .await
            .expect("a renewal");
        assert!(
            table.get(key()).await.expect("a read").is_some(),
            "{}",
            stringify!($of)
        );
    }};
}

/// A merge changes no entity that has expired, and renews it through a handle that sees it.
pub(super) async fn merges_do_not_revive_what_has_expired(harness: &Harness) {
    merges_of!(harness, Plain);
    merges_of!(harness, Large);
    merges_of!(harness, LargeIndexed);
    merges_of!(harness, Spread);
    merges_of!(harness, Wider);
}

macro_rules! deletions_of {
    ($harness:expr, $of:ident) => {{
        let world = World::new($harness).await;
        let table = open!(world, $of);
        let key = |r: u32| $of::key("p", r).expect("a key");
        let of = stringify!($of);
        for r in [1, 2, 3] {
            table
                .insert(&$of::new(r, None))
                .await
                .expect("a new entity");
        }
        let rows = world.rows().await;
        table.soft_delete(key(1)).await.expect("a deletion");
        table.soft_delete(key(2)).await.expect("a deletion");
        assert!(table.get(key(1)).await.expect("a read").is_none(), "{of}");
        assert!(
            table
                .soft_delete(key(1))
                .await
                .expect_err("missing")
                .is_entity_not_found(),
            "{of}"
        );
        assert!(
            table.insert(&$of::new(1, None)).await.is_err(),
            "{of}: the key is kept"
        );
        let merged = table
            .insert_or_merge(&$of::new(1, None))
            .await
            .err()
            .expect("kept");
        assert!(
            merged.to_string().contains("restore it first"),
            "{of}: {merged}"
        );
        assert_eq!(
            (world.sweep().await.removed, world.rows().await),
            (0, rows),
            "{of}: kept for a week"
        );

        let restored = table.restore(key(1)).await.expect("a restore");
        assert_eq!(
            (restored.deleted, restored.text.clone()),
            (None, "text".repeat(20)),
            "{of}"
        );
        assert!(table.get(key(1)).await.expect("a read").is_some(), "{of}");

        world.clock.advance(7 * DAY);
        let swept = world.sweep().await;
        assert_eq!((swept.removed, swept.failed), (1, 0), "{of}: {swept:?}");
        assert!(
            table
                .restore(key(2))
                .await
                .expect_err("removed")
                .is_entity_not_found(),
            "{of}"
        );
        assert!(
            table.get(key(1)).await.expect("a read").is_some(),
            "{of}: restored"
        );
        assert!(
            table.get(key(3)).await.expect("a read").is_some(),
            "{of}: never deleted"
        );
        table
            .insert(&$of::new(2, None))
            .await
            .expect("the key is free");
        assert_eq!(world.rows().await, rows, "{of}");
    }};
}

/// A soft deletion is restored, or a sweep removes the entity when it was kept long enough.
pub(super) async fn deleted_entities_are_restored_or_removed(harness: &Harness) {
    every_layout!(deletions_of, harness);
}

macro_rules! sweep_of {
    ($harness:expr, $of:ident) => {{
        let world = World::new($harness).await;
        let table = open!(world, $of);
        let of = stringify!($of);
        let empty = world.rows().await;
        for r in 0..5 {
            let until = Some(world.clock.after(SECOND)).filter(|_| r != 3);
            table
                .insert(&$of::new(r, until))
                .await
                .expect("a new entity");
        }
        assert_eq!(world.sweep().await.removed, 0, "{of}");
        world.clock.advance(SECOND);
        let swept = world.sweep().await;
        assert_eq!(
            (swept.removed, swept.failed, swept.sweeps),
            (4, 0, 1),
            "{of}: {swept:?}"
        );
        assert_eq!(
            swept.types.into_iter().collect::<Vec<_>>(),
            ["Session"],
            "{of}"
        );
        let all = table
            .with_hidden()
            .query()
            .partition($of::partition("p").expect("a key"));
        assert_eq!(all.all().await.expect("a query").len(), 1, "{of}");
        let one = (world.rows().await - empty, world.blob_count().await);
        // The one that stays has its rows and its blob; nothing of the others is left.
        let expected = match of {
            "Indexed" => (6, 0),
            "LargeIndexed" => (2, 1),
            "Large" => (1, 1),
            "Wider" => (2, 0),
            _ => (1, 0),
        };
        assert_eq!(one, expected, "{of}: rows and blobs");
        assert_eq!(world.sweep().await.removed, 0, "{of}");
    }};
}

/// A process that knows only the manifest removes expired entities with their entries, unique values and blobs.
pub(super) async fn sweeps_remove_everything_of_expired_entities(harness: &Harness) {
    every_layout!(sweep_of, harness);
}

/// Without the store of the blobs, entities with blobs stay, and the report says so.
pub(super) async fn a_sweep_without_blobs_leaves_their_entities(harness: &Harness) {
    let world = World::new(harness).await;
    let table = open!(world, Large);
    table
        .insert(&Large::new(1, Some(world.clock.now())))
        .await
        .expect("a new entity");
    let report = world.upkeep().run_once().await.expect("a round");
    let due = |(table, part, due): (&TableName, Part<'_>, Option<&Due>)| {
        let is_it = part == Part::Expiry && matches!(due, Some(Due::NoLargeBlobs));
        is_it && *table == world.table
    };
    assert!(report.due().any(due), "{report:?}");
    assert_eq!((world.rows().await, world.blob_count().await), (1, 1));
    assert_eq!(world.sweep().await.removed, 1);
    assert_eq!((world.rows().await, world.blob_count().await), (0, 0));
}

/// Lookups by every form of index leave out what has expired, and read what they need to know it.
pub(super) async fn lookups_leave_out_what_has_expired(harness: &Harness) {
    let world = World::new(harness).await;
    let meter = RequestMeter::new();
    let metered: Arc<dyn TableStore> =
        Arc::new(Metered::new(Arc::clone(&world.store), meter.clone()));
    let table = world.indexed(&metered).await.expect("a table");
    for r in 1..4 {
        let until = (r < 3).then(|| world.clock.after(SECOND));
        table
            .insert(&Indexed {
                state: Some(7),
                ..Indexed::new(r, until)
            })
            .await
            .expect("a new entity");
    }
    let of_state = || table.by(Indexed::by_state(7));
    let of_list = || table.by(Indexed::by_listed("p").state(7));
    let of_name = || table.by(Indexed::by_local("p").name("name1"));
    assert_eq!(
        (
            of_state().count().await.expect("a count"),
            of_list().all().await.expect("a lookup").len()
        ),
        (3, 3)
    );
    world.clock.advance(SECOND);
    let (count, cost) = meter.measure(of_state().count()).await;
    // The entries hold the times: 1 request for the page, none for the entities.
    assert_eq!((count.expect("a count"), cost.total()), (1, 1));
    assert_eq!(of_state().all().await.expect("a lookup").len(), 1);
    assert_eq!(
        of_state()
            .first()
            .await
            .expect("a lookup")
            .map(|found| found.r),
        Some(3)
    );
    assert_eq!(of_list().all().await.expect("a lookup").len(), 1);
    assert_eq!(of_list().count().await.expect("a count"), 1);
    let (found, cost) = meter.measure(of_name().get()).await;
    assert_eq!(
        (found.expect("a lookup"), cost.total()),
        (None, 1),
        "the entry is a copy of the entity"
    );
    // Entries that are references do not hold the times: a count reads the entities.
    let of_reference = || table.by(Indexed::by_reference("p").name("name1"));
    let (count, cost) = meter.measure(of_reference().count()).await;
    assert_eq!((count.expect("a count"), cost.total()), (0, 2));
    let everything = table.clone().with_hidden();
    assert_eq!(
        everything
            .by(Indexed::by_state(7))
            .count()
            .await
            .expect("a count"),
        3
    );
    assert_eq!(
        everything
            .by(Indexed::by_name("name1"))
            .first()
            .await
            .expect("a lookup")
            .map(|found| found.r),
        Some(1)
    );
}

pub(super) async fn assert_in_step(table: &Table<Indexed>, what: &str) {
    table.flush().await;
    for index in Indexed::SCHEMA.indexes {
        let found = table
            .entities()
            .await
            .expect("an open table")
            .scrub(&index.name, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(
            (found.dangling, found.missing, found.taken_keys),
            (0, 0, 0),
            "{what}: {}",
            index.name
        );
    }
}

/// A sweep removes an entity in the version that it has found due: an entity that is renewed before the removal stays.
pub(super) async fn a_sweep_leaves_what_is_renewed(harness: &Harness) {
    let mut stayed = 0;
    for request in 1.. {
        let world = World::without_blobs(harness);
        let table = open!(world, Indexed);
        for r in [1, 2] {
            table
                .insert(&Indexed::new(r, Some(world.clock.now())))
                .await
                .expect("a new entity");
        }
        let (others, until, done) = (
            table.clone().with_hidden(),
            world.clock.after(DAY),
            Arc::new(AtomicU32::new(0)),
        );
        let flag = Arc::clone(&done);
        let renew = async move {
            let renew = |entity: &mut Indexed| {
                entity.until = Some(until);
                Ok(())
            };
            let renewed = others
                .update(Indexed::key("p", 1).expect("a key"), renew)
                .await
                .is_ok();
            flag.store(1 + u32::from(renewed), Ordering::Relaxed);
        };
        let store = Arc::new(HookedStore::unarmed(Arc::clone(&world.store), renew));
        let upkeep = trusting(Upkeep::new(store.clone() as Arc<dyn TableStore>))
            .tables([world.table.clone()]);
        let upkeep = upkeep
            .with_options(options())
            .expire_every(Duration::ZERO)
            .scrub_every(None);
        store.arm(request);
        let report = upkeep.run_once().await.expect("a round");
        if !store.has_run() {
            break;
        }
        let removed = report.tables[&world.table]
            .expiry
            .as_ref()
            .map_or(0, |expiry| expiry.removed);
        let renewed = done.load(Ordering::Relaxed) == 2;
        let what = format!("renewed before request {request}: {report:?}");
        let lives = table
            .get(Indexed::key("p", 1).expect("a key"))
            .await
            .expect("a read")
            .is_some();
        assert_eq!(lives, renewed, "{what}");
        assert_eq!(removed, if renewed { 1 } else { 2 }, "{what}");
        assert_in_step(&table, &what).await;
        stayed += u32::from(renewed);
    }
    assert!(stayed > 0);
}

/// A sweep that fails at any request goes on in the next round, and leaves nothing of what it has removed.
pub(super) async fn a_sweep_can_fail_at_any_request(harness: &Harness) {
    run_with_faults(harness, "a sweep", async |run| {
        let world = World::without_blobs(harness);
        let table = open!(world, Indexed);
        for r in [1, 2] {
            table
                .insert(&Indexed::new(r, Some(world.clock.now())))
                .await
                .expect("a new entity");
        }
        // The rest of the inserts must not share the requests of the sweep.
        table.flush().await;
        let faulty: Arc<dyn TableStore> =
            Arc::new(Faulty::new(Arc::clone(&world.store), run.faults.clone()));
        let upkeep = trusting(Upkeep::new(faulty))
            .tables([world.table.clone()])
            .with_options(options());
        let upkeep = upkeep.expire_every(Duration::ZERO).scrub_every(None);
        run.begin();
        let _report = upkeep.run_once().await.expect("a report");
        run.end();
        for _ in 0..3 {
            world.upkeep().run_once().await.expect("a round");
        }
        assert_in_step(&table, &run.to_string()).await;
        let all = table
            .clone()
            .with_hidden()
            .query()
            .count()
            .await
            .expect("a count");
        assert_eq!(all, 0, "{run}");
        for r in [1, 2] {
            table
                .insert(&Indexed::new(r, None))
                .await
                .expect("keys and values are free");
        }
    })
    .await;
}

/// The requests that docs/expiry.md names.
pub(super) async fn requests_are_as_documented(harness: &Harness) {
    let world = World::new(harness).await;
    let meter = RequestMeter::new();
    let metered: Arc<dyn TableStore> =
        Arc::new(Metered::new(Arc::clone(&world.store), meter.clone()));
    let table = Database::new(metered.clone())
        .table::<Plain>(world.table.clone())
        .expect("a table");
    table.declare().await.expect("a new table");
    let past = Some(world.clock.now());
    let costs = [
        (0, 3, "the first write adds the type"),
        (1, 1, "an insert"),
        (1, 3, "an insert over an expired entity"),
    ];
    for (r, requests, what) in costs {
        let (inserted, cost) = meter.measure(table.insert(&Plain::new(r, past))).await;
        inserted.expect("a new entity");
        assert_eq!(cost.total(), requests, "{what}");
    }
    let key = || Plain::key("p", 1).expect("a key");
    let (read, cost) = meter.measure(table.get(key())).await;
    assert_eq!((read.expect("a read"), cost.total()), (None, 1));
    let renew = |entity: &mut Plain| {
        entity.until = past;
        Ok(())
    };
    let (renewed, cost) = meter
        .measure(table.clone().with_hidden().update(key(), renew))
        .await;
    assert_eq!((renewed.expect("a renewal").until, cost.total()), (past, 2));
    for r in 2..150 {
        table
            .insert(&Plain::new(r, past))
            .await
            .expect("a new entity");
    }
    let upkeep = trusting(Upkeep::new(metered))
        .tables([world.table.clone()])
        .with_options(options());
    let (report, cost) = meter.measure(upkeep.run_once()).await;
    let removed = report.expect("a round").tables[&world.table]
        .expiry
        .as_ref()
        .map(|expiry| expiry.removed);
    // The manifest of the round; 3 for the row `expiry`; 1 page; 2 groups.
    assert_eq!((removed, cost.total()), (Some(150), 1 + 3 + 1 + 2));
}

/// Slices by the time of expiry are dropped as a whole, at the cost of a table drop.
pub(super) async fn expired_slices_are_dropped(harness: &Harness) {
    let world = World::new(harness).await;
    let (meter, family) = (RequestMeter::new(), format!("{}x", world.table));
    for day in ["20130101", "20130102"] {
        harness.clean_up(&format!("{family}{day}").parse().expect("a legal name"));
    }
    let metered: Arc<dyn TableStore> =
        Arc::new(Metered::new(Arc::clone(&world.store), meter.clone()));
    let slices = TimeSlices::<Plain>::by_expiry(metered, &family, Every::Day).expect("a family");
    let (soon, later) = (world.clock.after(SECOND), world.clock.after(DAY + SECOND));
    for r in 0..20 {
        slices
            .insert(&Plain::new(r, Some(if r < 10 { soon } else { later })))
            .await
            .expect("a new entity");
    }
    let key = || Plain::key("p", 1).expect("a key");
    assert!(slices.get(soon, key()).await.expect("a read").is_some());
    world.clock.advance(SECOND);
    assert!(
        slices.get(soon, key()).await.expect("a read").is_none(),
        "hidden before the slice ends"
    );
    assert_eq!(slices.query().count().await.expect("a count"), 10);
    assert_eq!(
        slices.drop_expired().await.expect("a list"),
        [],
        "the day is not over"
    );
    world.clock.advance(DAY);
    let (dropped, cost) = meter.measure(slices.drop_expired()).await;
    assert_eq!(
        (dropped.expect("a drop").len(), cost.total()),
        (1, 2),
        "1 to list the tables and 1 per slice"
    );
    assert_eq!(
        slices
            .clone()
            .with_hidden()
            .query()
            .count()
            .await
            .expect("a count"),
        10
    );
    let by_time = TimeSlices::<Plain>::new(world.store.clone(), &family, Every::Day, |one| {
        one.until.unwrap_or(Ticks::MAX)
    });
    let refused = by_time
        .expect("a family")
        .drop_expired()
        .await
        .expect_err("not by expiry");
    assert!(refused.to_string().contains("by_expiry"), "{refused}");
}

/// Set operations and pages leave out what has expired; bulk inserts do not claim.
pub(super) async fn sets_and_pages_leave_out_what_has_expired(harness: &Harness) {
    let world = World::new(harness).await;
    let table = open!(world, Indexed);
    for r in 0..6 {
        let until = (r % 2 == 0).then(|| world.clock.now());
        table
            .insert(&Indexed::new(r, until))
            .await
            .expect("a new entity");
    }
    let query = || {
        table
            .query()
            .partition(Indexed::partition("p").expect("a key"))
    };
    let page = query().page_size(100).page(None).await.expect("a page");
    assert_eq!(
        page.items.iter().map(|item| item.r).collect::<Vec<_>>(),
        [1, 3, 5]
    );
    assert_eq!(
        query().limit(2).all().await.expect("a query").len(),
        2,
        "a limit counts what is returned"
    );
    let touch = |entity: &mut Indexed| {
        entity.state = Some(9);
        Ok(())
    };
    let updated = query().update(touch).await.expect("a set operation");
    assert_eq!((updated.written, updated.failed), (3, 0), "{updated:?}");
    let deleted = query().delete().await.expect("a set operation");
    assert_eq!((deleted.written, deleted.failed), (3, 0), "{deleted:?}");
    let hidden = query().with_hidden();
    assert_eq!(hidden.count().await.expect("a count"), 3);
    assert_eq!(hidden.delete().await.expect("a set operation").written, 3);
    assert_in_step(&table, "after set operations").await;

    // A bulk insert of plain rows adds the type to the manifest too.
    let world = World::new(harness).await;
    let (table, past) = (open!(world, Plain), Some(world.clock.now()));
    let rows = stream::iter((0..10).map(move |r| Plain::new(r, past)));
    let inserted = table.bulk().insert_all(rows).await.expect("a bulk insert");
    assert_eq!((inserted.written, inserted.failed), (10, 0), "{inserted:?}");
    assert_eq!(world.sweep().await.removed, 10);
}

/// Groups keep nothing of an entity that has expired, and leave a deleted one to a restore.
pub(super) async fn groups_treat_hidden_entities_as_single_writes_do(harness: &Harness) {
    macro_rules! check {
        ($of:ident) => {{
            let world = World::new(harness).await;
            let table = open!(world, $of);
            let (of, key) = (stringify!($of), |r: u32| $of::key("p", r).expect("a key"));
            let partition = || $of::partition("p").expect("a key");
            table
                .insert(&$of::new(1, Some(world.clock.now())))
                .await
                .expect("a new entity");
            table
                .insert(&$of::new(2, None))
                .await
                .expect("a new entity");
            table.soft_delete(key(2)).await.expect("a deletion");

            let patch = $of::patch().text("patched".to_owned());
            let mut merge = table.group(partition());
            merge.merge(key(1), &patch, IfMatch::Any).expect("a change");
            let error = merge.commit().await.err().expect("missing");
            assert!(error.is_entity_not_found(), "{of}: {error}");

            let mut into_deleted = table.group(partition());
            into_deleted
                .insert_or_merge(&$of::new(2, None))
                .expect("a change");
            let error = into_deleted.commit().await.err().expect("kept").to_string();
            assert!(error.contains("restore it first"), "{of}: {error}");

            let mut into_expired = table.group(partition());
            let new = $of {
                name: None,
                state: None,
                ..$of::new(1, None)
            };
            into_expired.insert_or_merge(&new).expect("a change");
            into_expired
                .commit()
                .await
                .expect("the expired entity is replaced");
            let now = table.get_existing(key(1)).await.expect("a read");
            assert_eq!(
                (&now.name, now.state, now.until),
                (&None, None, None),
                "{of}: nothing is kept"
            );

            let everything = table.clone().with_hidden();
            let mut merge = everything.group(partition());
            merge.merge(key(2), &patch, IfMatch::Any).expect("a change");
            merge.commit().await.expect("a handle that sees the entity");
            let merged = everything.get_existing(key(2)).await.expect("a read");
            assert!(
                merged.text == "patched" && merged.deleted.is_some(),
                "{of}: {merged:?}"
            );
        }};
    }
    check!(Plain);
    check!(Named);
}

/// A group of an indexed type adds types without indexes to the manifest, by which a sweep finds their entities.
pub(super) async fn groups_register_types_without_indexes(harness: &Harness) {
    #[derive(Debug, TableEntity)]
    #[entity(type = "Hint", rename_all = "PascalCase")]
    struct Hint {
        #[partition_key]
        p: String,
        #[row_key(format = "hint_{}")]
        name: String,
        #[expires]
        until: Ticks,
    }
    let world = World::new(harness).await;
    let table = open!(world, Indexed);
    let mut group = table.group(Indexed::partition("p").expect("a key"));
    group.insert(&Indexed::new(1, None)).expect("a change");
    let hint = Hint {
        p: "p".into(),
        name: "a".into(),
        until: world.clock.now(),
    };
    group.insert(&hint).expect("a change");
    group.commit().await.expect("a group");
    let swept = world.sweep().await;
    assert_eq!((swept.removed, swept.failed), (1, 0), "{swept:?}");
    assert!(swept.types.contains("Hint"), "{swept:?}");
    assert!(
        table
            .get(Indexed::key("p", 1).expect("a key"))
            .await
            .expect("a read")
            .is_some()
    );
}

/// Pages of both directions leave hidden entities out, and reach every other one.
pub(super) async fn pages_both_ways_leave_out_what_has_expired(harness: &Harness) {
    let world = World::new(harness).await;
    let table = open!(world, Plain);
    for r in 0..10 {
        let until = (r % 3 != 0).then(|| world.clock.now());
        table
            .insert(&Plain::new(r, until))
            .await
            .expect("a new entity");
    }
    let query = table
        .query()
        .partition(Plain::partition("p").expect("a key"))
        .limit(3);
    let pager = Pager::new(CursorKey::new([7; 32]));
    let numbers = |page: &WebPage<Plain>| page.items.iter().map(|item| item.r).collect::<Vec<_>>();
    let mut page = pager.page(&query, "ann", None).await.expect("a page");
    let mut pages = vec![numbers(&page)];
    while let Some(next) = page.next {
        page = pager
            .page(&query, "ann", Some(&next))
            .await
            .expect("a page");
        pages.push(numbers(&page));
    }
    assert_eq!(pages.concat(), [0, 3, 6, 9], "{pages:?}");
    assert!(page.is_last, "{pages:?}");
    for expected in pages[..pages.len() - 1].iter().rev() {
        let previous = page.previous.expect("a page before");
        page = pager
            .page(&query, "ann", Some(&previous))
            .await
            .expect("a page");
        assert_eq!(&numbers(&page), expected, "{pages:?}: back");
    }
    assert!(page.is_first && page.previous.is_none(), "{pages:?}");
}
