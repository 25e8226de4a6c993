//! Entities that expire × every layout × every store, in plaintext and with an encrypted field, in tables that several programs
//! use: programs that have declared indexes, programs of other versions, and programs of other types. Reads leave out what has
//! expired; claimants and sweeps remove it with its entries, unique values and blobs; everything else is refused with nothing
//! written.

use std::time::Duration;

use conformance::Clock;
use conformance::open_table;
use table_core::model::Entity;
use table_core::prelude::*;
use table_core::store::BulkSummary;
use table_patterns::Table;
use table_patterns::index::ScrubMode;
use table_patterns::journal::Timing;
use table_patterns::large::LargeOptions;
use table_patterns::spread::SpreadTable;
use table_patterns::upkeep::{Due, ExpiryUpkeep, Upkeep as Sweeper};
use table_patterns::wide::WideTable;

use crate::backends::{Embedded, Emulated, Memory, Served};
use crate::programs::{Program, Subject};
use crate::world::{Backends, SECRET, TABLE, Upkeep as _, World, is_large};

/// An entity that expires, in any layout.
trait Session: Subject {
    fn new(r: u32, name: &str, until: Option<Ticks>) -> Self;
    fn renew(&mut self, until: Option<Ticks>);
}

macro_rules! session {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*], [$($secret:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attr])*
        struct $name {
            #[$key]
            p: String,
            #[row_key]
            r: u32,
            name: String,
            $(#[$secret])*
            secret: String,
            $(#[$large])*
            text: String,
            #[expires]
            until: Option<Ticks>,
        }

        impl Session for $name {
            fn new(r: u32, name: &str, until: Option<Ticks>) -> Self {
                let (p, secret, text) = ("p".to_owned(), format!("{SECRET}{r}"), format!("{SECRET}text").repeat(5));
                Self { p, r, name: name.to_owned(), secret, text, until }
            }

            fn renew(&mut self, until: Option<Ticks>) {
                self.until = until;
            }
        }

        impl Subject for $name {
            fn key_of(r: u32) -> Key {
                Self::key("p", r).unwrap().into_key()
            }

            fn number(&self) -> u32 {
                self.r
            }

            fn rename(&mut self, name: &str) {
                self.name = name.to_owned();
            }
        }
    };
}

/// A type of a layout, and the same type with encrypted fields.
macro_rules! sessions {
    ($name:ident, $sealed:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        session!($name, [$($attr),*], $key, [$($large),*], []);
        session!($sealed, [$($attr),*], $key, [encrypt $(, $large)*], [encrypt]);
    };
}

sessions!(Plain, SealedPlain, [entity(type = "Session")], partition_key, []);
sessions!(Older, SealedOlder, [
    entity(type = "Session"),
    index(local, row_key = "local_{name}_{r}")
], partition_key, []);
sessions!(Indexed, SealedIndexed, [
    entity(type = "Session"),
    index(local, row_key = "local_{name}_{r}"),
    index(name, partition_key = "name_{name}", row_key = "x", unique = "table"),
    index(copy, partition_key = "copy_{name}", row_key = "{p}_{r}", payload = full)
], partition_key, []);
sessions!(Timed, SealedTimed, [
    entity(type = "Session"),
    index(local, row_key = "local_{name}_{r}"),
    index(end, partition_key = "end_{until:hour}", row_key = "{p}_{r}", payload = fields(until))
], partition_key, []);
sessions!(Large, SealedLarge, [entity(type = "Session")], partition_key, [large(over = 16)]);
sessions!(LargeIndexed, SealedLargeIndexed, [
    entity(type = "Session"),
    index(local, row_key = "local_{name}_{r}"),
    index(name, partition_key = "name_{name}", row_key = "x", unique = "table")
], partition_key, [large(over = 16)]);
sessions!(Spread, SealedSpread, [entity(type = "Session")], partition_key(spread = 4), []);
sessions!(Wide, SealedWide, [entity(type = "Session", wide)], partition_key, []);

/// What a sweep by a process without keys does with the sessions of a layout.
#[derive(Clone, Copy, Debug)]
enum Keyless {
    /// It removes them.
    Removes,
    /// It leaves them, for a reason with these words.
    Leaves(&'static str),
}
use Keyless::{Leaves, Removes};

/// The layouts, and the pairs of programs.
macro_rules! matrix {
    ($($layout:ident: $plain:ty, $sealed:ty, $keyless:expr;)*) => {
        macro_rules! on {
            ($store:ident, $backend:expr) => {
                mod $store {
                    use super::*;

                    const BACKENDS: Backends = || Box::new($backend);

                    $(mod $layout {
                        use super::*;

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn plain() {
                            life::<$plain>(BACKENDS, false, Removes).await;
                        }

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn sealed() {
                            life::<$sealed>(BACKENDS, true, $keyless).await;
                        }
                    })*

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn plain_rows_with_indexes_of_another_program() {
                        beside_plain::<Table<Plain>, Table<Indexed>>(BACKENDS, false).await;
                        beside_plain::<Table<SealedPlain>, Table<SealedIndexed>>(BACKENDS, true).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn large_rows_with_indexes_of_another_program() {
                        beside_plain::<Table<Large>, Table<LargeIndexed>>(BACKENDS, false).await;
                        beside_plain::<Table<SealedLarge>, Table<SealedLargeIndexed>>(BACKENDS, true).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn indexes_of_a_later_program() {
                        beside_older::<Table<Older>, Table<Indexed>>(BACKENDS, false).await;
                        beside_older::<Table<SealedOlder>, Table<SealedIndexed>>(BACKENDS, true).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn an_index_on_the_time_of_a_later_program() {
                        timed::<Table<Older>, Table<Timed>>(BACKENDS, false).await;
                        timed::<Table<SealedOlder>, Table<SealedTimed>>(BACKENDS, true).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn versions_with_and_without_expiry() {
                        versions(BACKENDS).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn other_types_in_the_table() {
                        types(BACKENDS).await;
                    }
                }
            };
        }

        on!(memory, Memory);
        on!(embedded, Embedded::new());
        on!(azurite, Emulated::new(&[]));
        on!(served, Served);
    };
}

matrix! {
    plain_rows: Table<Plain>, Table<SealedPlain>, Removes;
    indexed: Table<Indexed>, Table<SealedIndexed>, Leaves("the encrypted property");
    local: Table<Older>, Table<SealedOlder>, Removes;
    by_time: Table<Timed>, Table<SealedTimed>, Removes;
    large: Table<Large>, Table<SealedLarge>, Leaves("without keys");
    large_indexed: Table<LargeIndexed>, Table<SealedLargeIndexed>, Leaves("without keys");
    wide: WideTable<Wide>, WideTable<SealedWide>, Removes;
    spread: SpreadTable<Spread>, SpreadTable<SealedSpread>, Removes;
}

/// In stores that one process writes, where a build need not wait for other processes.
mod large_rows_and_indexes_of_a_later_program {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn in_memory() {
        built::<Large, LargeIndexed>(|| Box::new(Memory), false).await;
        built::<SealedLarge, SealedLargeIndexed>(|| Box::new(Memory), true).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_disk() {
        built::<Large, LargeIndexed>(|| Box::new(Embedded::new()), false).await;
        built::<SealedLarge, SealedLargeIndexed>(|| Box::new(Embedded::new()), true).await;
    }
}

/// A world by a clock.
async fn world(backends: Backends, sealed: bool) -> (World, Clock) {
    let (world, clock) = (World::new(backends, sealed).await, Clock::start());
    (world.through(clock.over(&world.store)), clock)
}

/// A time at which no test is any more.
fn lasting(clock: &Clock) -> Option<Ticks> {
    Some(clock.after(1000 * Clock::DAY))
}

/// Sweeps once, by a process that knows only the manifest.
async fn sweep(world: &World, clock: &Clock) -> ExpiryUpkeep {
    let (store, table) = (clock.over(&world.store), world.table(TABLE));
    // An operator has looked at the expiry in the manifest: on a service it is not obeyed otherwise.
    let sweeper = Sweeper::new(store).trust_expiry("Session", "until");
    let sweeper = sweeper
        .tables([table.clone()])
        .with_options(world.options.clone());
    let sweeper = sweeper
        .expire_every(Duration::ZERO)
        .scrub_every(None)
        .collect_every(None);
    let report = sweeper
        .blobs(world.blobs.clone(), LargeOptions::default())
        .run_once()
        .await
        .unwrap();
    assert_eq!(report.errors().count(), 0, "{report:?}");
    report.tables[&table]
        .expiry
        .clone()
        .expect("a type that expires")
}

/// Asserts that the sweep has removed this number of entities, and nothing is due.
fn swept(report: &ExpiryUpkeep, removed: u64, what: &str) {
    assert_eq!(
        (report.removed, report.failed),
        (removed, 0),
        "{what}: {report:?}"
    );
    assert!(report.due.is_none(), "{what}: {report:?}");
}

/// The stored entities: rows that are neither index entries nor of the manifest.
async fn entities(world: &World) -> Vec<Entity> {
    let (rows, _) = world.rows().await;
    rows.into_iter()
        .filter(|row| !row.is_index_entry())
        .collect()
}

/// An entity is written, hidden, renewed, claimed by its key, left out by set operations, and swept with everything that belongs to it.
async fn life<P: Program<Of: Session>>(backends: Backends, sealed: bool, keyless: Keyless) {
    let what = std::any::type_name::<P>();
    let (world, clock) = world(backends, sealed).await;
    let own = P::open(&world).await.unwrap();
    let new = |r: u32, until| P::Of::new(r, &format!("name{r}"), until);
    let (soon, later) = (Some(clock.after(Clock::SECOND)), lasting(&clock));
    for r in 1..=4 {
        own.put(&new(r, if r < 4 { soon } else { later }))
            .await
            .unwrap();
    }
    assert_eq!(own.numbers().await.unwrap(), [1, 2, 3, 4], "{what}");
    clock.advance(Clock::SECOND);
    assert_eq!(own.read(1).await.unwrap(), None, "{what}");
    assert_eq!(own.numbers().await.unwrap(), [4], "{what}");
    let all = own.seeing_all();
    assert_eq!(all.numbers().await.unwrap(), [1, 2, 3, 4], "{what}");
    assert_eq!(all.read(1).await.unwrap(), Some(new(1, soon)), "{what}");
    own.check().await;

    // A renewal, and a claim of the key.
    assert!(
        own.change(3, |session| session.renew(later))
            .await
            .unwrap_err()
            .is_entity_not_found(),
        "{what}"
    );
    all.change(3, |session| session.renew(later)).await.unwrap();
    let claimant = P::Of::new(2, "claimant", soon);
    own.put(&claimant).await.unwrap();
    assert_eq!(all.read(2).await.unwrap(), Some(claimant), "{what}");
    own.check().await;

    // Set operations write what reads return.
    let renamed = own.rename_set("renamed").await.unwrap();
    assert_eq!(
        (renamed.written, renamed.failed),
        (2, 0),
        "{what}: {renamed:?}"
    );
    assert_eq!(
        all.read(1).await.unwrap(),
        Some(new(1, soon)),
        "{what}: an expired entity was renamed"
    );
    own.check().await;
    world.check(what).await;

    if sealed {
        let (before, report) = (entities(&world).await, sweep(&world.raw(), &clock).await);
        match keyless {
            Removes => swept(&report, 2, what),
            Leaves(words) => {
                assert_eq!(report.removed, 0, "{what}: {report:?}");
                let why = report.due.as_ref().map(Due::to_string).unwrap_or_default();
                assert!(why.contains(words), "{what}: {why}");
                assert_eq!(
                    entities(&world).await,
                    before,
                    "{what}: a sweep without keys"
                );
                swept(&sweep(&world, &clock).await, 2, what);
            }
        }
    } else {
        swept(&sweep(&world, &clock).await, 2, what);
    }
    assert_eq!(all.numbers().await.unwrap(), [3, 4], "{what}");
    own.check().await;
    assert_eq!(
        world.stored_blobs().await.len(),
        if is_large::<P::Of>() { 2 } else { 0 },
        "{what}: blobs"
    );

    // Keys and values are free, and what is left goes by a set operation.
    own.put(&new(1, later)).await.unwrap();
    own.put(&new(2, soon)).await.unwrap();
    let deleted = own.delete_set().await.unwrap();
    assert_eq!(
        (deleted.written, deleted.failed),
        (3, 0),
        "{what}: {deleted:?}"
    );
    assert_eq!(all.numbers().await.unwrap(), [2], "{what}");
    swept(&sweep(&world, &clock).await, 1, what);
    assert_eq!(world.stored_blobs().await.len(), 0, "{what}: blobs");
    let (rows, _) = world.rows().await;
    assert_eq!(rows, [], "{what}: nothing of a removed entity is left");
    world.check(what).await;
}

/// A plain program comes first; another program declares indexes of its rows. The plain program reads, and maintains them.
async fn beside_plain<P: Program<Of: Session>, D: Program<Of: Session>>(
    backends: Backends,
    sealed: bool,
) {
    let what = std::any::type_name::<P>();
    let (world, clock) = world(backends, sealed).await;
    let own = P::open(&world).await.unwrap();
    let declaring = D::open(&world).await.unwrap();
    let soon = Some(clock.after(Clock::SECOND));
    for r in 1..=3 {
        declaring
            .put(&D::Of::new(r, &format!("name{r}"), soon.filter(|_| r < 3)))
            .await
            .unwrap();
    }
    assert_eq!(own.numbers().await.unwrap(), [1, 2, 3], "{what}");
    clock.advance(Clock::SECOND);
    assert_eq!(
        (own.read(1).await.unwrap(), own.numbers().await.unwrap()),
        (None, vec![3]),
        "{what}"
    );

    let all = own.seeing_all();
    // The other program claims a value of an expired entity, and the sweep removes the rest.
    declaring.put(&D::Of::new(4, "name1", None)).await.unwrap();
    declaring.check().await;
    assert_eq!(
        all.numbers().await.unwrap(),
        [2, 3, 4],
        "{what}: the owner is removed"
    );
    swept(&sweep(&world, &clock).await, 1, what);
    declaring.check().await;
    assert_eq!(all.numbers().await.unwrap(), [3, 4], "{what}");
    declaring.put(&D::Of::new(5, "name2", None)).await.unwrap();

    // The program without the indexes maintains them: an insert, a renewal, a set of updates, an insert over an expired entity, and a set of
    // deletions, of expired entities too.
    let soon = Some(clock.after(Clock::SECOND));
    own.put(&P::Of::new(6, "name6", soon)).await.unwrap();
    declaring.check().await;
    own.change(5, |session| session.renew(soon)).await.unwrap();
    declaring.check().await;
    clock.advance(Clock::SECOND);
    own.put(&P::Of::new(6, "name7", None)).await.unwrap();
    declaring.check().await;
    own.delete_set()
        .await
        .and_then(BulkSummary::into_result)
        .unwrap();
    declaring.check().await;
    assert_eq!(all.numbers().await.unwrap(), [5], "{what}");
    let renamed = all.rename_set("x").await;
    renamed.and_then(BulkSummary::into_result).unwrap();
    declaring.check().await;
    all.delete_set()
        .await
        .and_then(BulkSummary::into_result)
        .unwrap();
    declaring.check().await;
    assert_eq!(all.numbers().await.unwrap(), [0_u32; 0], "{what}");
    assert_eq!(world.stored_blobs().await.len(), 0, "{what}: blobs");
    world.check(what).await;
}

/// An older program knows one index; a later program has declared two more, one of them unique. Claims and set operations of the older program
/// maintain all of them.
async fn beside_older<P: Program<Of: Session>, D: Program<Of: Session>>(
    backends: Backends,
    sealed: bool,
) {
    let what = std::any::type_name::<P>();
    let (world, clock) = world(backends, sealed).await;
    let declaring = D::open(&world).await.unwrap();
    let own = P::open(&world).await.unwrap();
    let soon = Some(clock.after(Clock::SECOND));
    for r in 1..=4 {
        own.put(&P::Of::new(r, &format!("name{r}"), soon.filter(|_| r < 4)))
            .await
            .unwrap();
    }
    declaring.check().await;
    let taken = own.put(&P::Of::new(5, "name1", None)).await.unwrap_err();
    assert!(taken.is_unique_violation(), "{what}: {taken}");
    clock.advance(Clock::SECOND);

    // By an insert, by an update and by the key.
    own.put(&P::Of::new(5, "name1", None)).await.unwrap();
    own.change(4, |session| session.rename("name2"))
        .await
        .unwrap();
    own.put(&P::Of::new(3, "name4", None)).await.unwrap();
    declaring.check().await;
    let all = own.seeing_all();
    assert_eq!(
        all.numbers().await.unwrap(),
        [3, 4, 5],
        "{what}: owners are removed"
    );

    // By a set operation: the names of two expired entities.
    for r in [6, 7] {
        own.put(&P::Of::new(r, &format!("renamed{}", r - 2), soon))
            .await
            .unwrap();
    }
    let renamed = own.rename_set("renamed").await.unwrap();
    assert_eq!(
        (renamed.written, renamed.failed),
        (3, 0),
        "{what}: {renamed:?}"
    );
    declaring.check().await;
    assert_eq!(
        all.numbers().await.unwrap(),
        [3, 4, 5],
        "{what}: owners are removed"
    );

    own.put(&P::Of::new(8, "name8", soon)).await.unwrap();
    swept(&sweep(&world, &clock).await, 1, what);
    declaring.check().await;
    assert_eq!(
        declaring.seeing_all().numbers().await.unwrap(),
        [3, 4, 5],
        "{what}"
    );
    world.check(what).await;
}

/// A sweep finds the rows of an older program by the index on the time that a later program has declared.
async fn timed<P: Program<Of: Session>, D: Program<Of: Session>>(backends: Backends, sealed: bool) {
    let what = std::any::type_name::<D>();
    let (world, clock) = world(backends, sealed).await;
    let declaring = D::open(&world).await.unwrap();
    let own = P::open(&world).await.unwrap();
    for (r, hours) in [(1, 0), (2, 0), (3, 30)] {
        let until = Some(clock.after(hours * 3600 * Clock::SECOND));
        own.put(&P::Of::new(r, "name", until)).await.unwrap();
    }
    own.put(&P::Of::new(4, "name", lasting(&clock)))
        .await
        .unwrap();
    swept(&sweep(&world, &clock).await, 2, what);
    assert_eq!(own.seeing_all().numbers().await.unwrap(), [3, 4], "{what}");
    clock.advance(2 * Clock::DAY);
    // The older program renews an entity: the entry of the index that it does not know moves.
    let later = Some(clock.after(Clock::DAY));
    own.seeing_all()
        .change(3, |session| session.renew(later))
        .await
        .unwrap();
    swept(&sweep(&world, &clock).await, 0, what);
    clock.advance(Clock::DAY);
    swept(&sweep(&world, &clock).await, 1, what);
    declaring.check().await;
    world.check(what).await;
}

/// A program stores values in blobs; a later one adds a unique index. While two entities have one value the index is not built, expired
/// or not. After a sweep it is, and a claim of the later program removes an owner of the first with its blob.
async fn built<T: Session, D: Session>(backends: Backends, sealed: bool) {
    let what = std::any::type_name::<D>();
    let (mut world, clock) = world(backends, sealed).await;
    // The sweeper takes over the build that has failed, when the build has been silent for a lease.
    world.options.timing = Timing::new(
        Duration::from_secs(4),
        Duration::from_secs(1),
        Duration::ZERO,
    )
    .unwrap();
    world.options.cache = Duration::from_secs(1);
    let own = <Table<T> as Program>::open(&world).await.unwrap();
    let (past, soon) = (Some(clock.now()), Some(clock.after(Clock::SECOND)));
    for (r, name, until) in [(1, "a", past), (2, "a", None), (3, "b", soon)] {
        own.put(&T::new(r, name, until)).await.unwrap();
    }
    let later = <Table<D> as Program>::open(&world).await.unwrap();
    let entities = later.entities().await.unwrap();
    entities.build("local").unwrap().run().await.unwrap();
    let duplicates = entities
        .build("name")
        .unwrap()
        .run()
        .await
        .unwrap_err()
        .to_string();
    assert!(duplicates.contains("name"), "{what}: {duplicates}");
    let report = sweep(&world, &clock).await;
    assert_eq!(
        (report.removed, report.failed),
        (1, 0),
        "{what}: {report:?}"
    );
    entities.build("name").unwrap().run().await.unwrap();
    later.check().await;
    assert_eq!(world.stored_blobs().await.len(), 2, "{what}");

    // The first program maintains the indexes of the later one.
    own.put(&T::new(5, "c", None)).await.unwrap();
    later.check().await;
    let before = world.rows().await;
    let taken = own.put(&T::new(6, "c", None)).await.unwrap_err();
    assert!(taken.is_unique_violation(), "{what}: {taken}");
    assert_eq!(world.rows().await, before, "{what}: a taken value");
    clock.advance(Clock::SECOND);
    later.put(&D::new(4, "b", None)).await.unwrap();
    later.check().await;
    assert_eq!(
        own.seeing_all().numbers().await.unwrap(),
        [2, 4, 5],
        "{what}: the owner is removed"
    );
    assert_eq!(world.stored_blobs().await.len(), 3, "{what}: with its blob");
    world.check(what).await;
}

/// Version 1 does not expire; version 2 does, and can be read by version 1; version 3 does not any more.
mod versioned {
    use table_core::prelude::*;

    macro_rules! version {
        ($name:ident, [$($attr:meta),*], [$($until:meta)?]) => {
            #[derive(Clone, Debug, PartialEq, TableEntity)]
            $(#[$attr])*
            #[entity(type = "Session")]
            #[index(name, partition_key = "name_{name}", row_key = "x", unique = "table")]
            pub(super) struct $name {
                #[partition_key]
                pub(super) p: String,
                #[row_key]
                pub(super) r: u32,
                pub(super) name: String,
                pub(super) note: Option<String>,
                $(
                    #[$until]
                    pub(super) until: Option<Ticks>,
                )?
            }
        };
    }

    version!(V1, [], []);
    version!(
        V2,
        [entity(version = 2, min_reader = 1, previous = V1)],
        [expires]
    );
    version!(V3, [entity(version = 3, min_reader = 1, previous = V2)], []);

    impl From<V1> for V2 {
        fn from(V1 { p, r, name, note }: V1) -> Self {
            Self {
                p,
                r,
                name,
                note,
                until: None,
            }
        }
    }

    impl From<V2> for V3 {
        fn from(
            V2 {
                p, r, name, note, ..
            }: V2,
        ) -> Self {
            Self { p, r, name, note }
        }
    }

    pub(super) fn first(r: u32, name: &str) -> V1 {
        V1 {
            p: "p".into(),
            r,
            name: name.into(),
            note: None,
        }
    }

    pub(super) fn second(r: u32, name: &str, until: Option<Ticks>) -> V2 {
        V2 {
            until,
            ..first(r, name).into()
        }
    }
}

/// Programs of a version without expiry see what has expired until a sweep, keep its time, and do not get its values. The latest version decides
/// what the sweep removes.
async fn versions(backends: Backends) {
    use versioned::{V1, V2, V3, first, second};
    let (world, clock) = world(backends, false).await;
    let open = || {
        (
            world.store.clone(),
            world.table(TABLE),
            world.options.clone(),
        )
    };
    let (store, table, with) = open();
    let older = open_table::<V1>(store, table, with).await.unwrap();
    older.insert(&first(1, "one")).await.unwrap();
    let (store, table, with) = open();
    let newer = open_table::<V2>(store, table, with).await.unwrap();
    let key = |r: u32| V1::key("p", r).unwrap().into_key();
    let past = Some(clock.now());
    newer.insert(&second(2, "two", past)).await.unwrap();
    newer.insert(&second(3, "three", past)).await.unwrap();

    // Version 1 sees an expired entity, changes it, moves it, and is refused its value.
    assert!(newer.get(&key(2)).await.unwrap().is_none());
    assert_eq!(older.get(&key(2)).await.unwrap().unwrap().name, "two");
    let note = |one: &mut V1| {
        one.note = Some("noted".into());
        Ok(())
    };
    older.update(&key(2), note).await.unwrap();
    older.move_to(&key(2), &older, &key(4)).await.unwrap();
    let stored = newer
        .clone()
        .with_hidden()
        .get(&key(4))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (stored.until, stored.note.as_deref()),
        (past, Some("noted")),
        "the time stays"
    );
    let before = world.rows().await;
    let taken = older.insert(&first(5, "two")).await.unwrap_err();
    assert!(taken.is_unique_violation(), "{taken}");
    assert!(
        older
            .insert(&first(4, "five"))
            .await
            .unwrap_err()
            .is_already_exists()
    );
    assert_eq!(world.rows().await, before, "version 1 wrote something");
    newer.check().await;

    // Version 2 gets the value; the sweep removes the other one, and leaves the row of version 1.
    newer.insert(&second(5, "two", None)).await.unwrap();
    newer.check().await;
    swept(&sweep(&world, &clock).await, 1, "version 2");
    let left = |table: &Table<V2>| {
        let all = table.clone().with_hidden();
        async move {
            all.query()
                .all()
                .await
                .unwrap()
                .iter()
                .map(|one| one.r)
                .collect::<Vec<_>>()
        }
    };
    assert_eq!(left(&newer).await, [1, 5]);

    // An entity of version 1 is upgraded and expires then.
    let expire = |one: &mut V2| {
        one.until = past;
        Ok(())
    };
    newer.update(&key(1), expire).await.unwrap();
    assert!(newer.get(&key(1)).await.unwrap().is_none());

    // Version 3 has no expiry: from then on nothing is swept, and programs of version 2 hide what has expired all the same.
    let (store, table, with) = open();
    let latest = open_table::<V3>(store, table.clone(), with).await.unwrap();
    assert_eq!(latest.query().count().await.unwrap(), 2);
    let sweeper = Sweeper::new(world.store.clone())
        .tables([table.clone()])
        .with_options(world.options.clone());
    let report = sweeper
        .expire_every(Duration::ZERO)
        .scrub_every(None)
        .run_once()
        .await
        .unwrap();
    assert!(report.tables[&table].expiry.is_none(), "{report:?}");
    assert_eq!(left(&newer).await, [1, 5]);
    assert_eq!(newer.query().count().await.unwrap(), 1);
    newer.check().await;
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Room")]
#[index(name, partition_key = "room_{name}", row_key = "x", unique = "table")]
struct Room {
    #[partition_key]
    p: String,
    #[row_key]
    r: u32,
    name: String,
    until: Option<Ticks>,
}

/// A type that does not expire shares the table, with a property of the same name and keys in the same partition: only sessions expire.
async fn types(backends: Backends) {
    let (world, clock) = world(backends, false).await;
    let past = Some(clock.now());
    let sessions = <Table<Indexed> as Program>::open(&world).await.unwrap();
    let rooms = open_table::<Room>(
        world.store.clone(),
        world.table(TABLE),
        world.options.clone(),
    )
    .await
    .unwrap();
    let room = |r: u32| Room {
        p: "p".into(),
        r,
        name: format!("name{r}"),
        until: past,
    };
    let key = |r: u32| Room::key("p", r).unwrap();
    sessions.put(&Indexed::new(1, "name1", past)).await.unwrap();
    rooms.insert(&room(2)).await.unwrap();
    assert_eq!(rooms.get(key(2)).await.unwrap(), Some(room(2)));

    // The key of an expired session is not free for a room, and that of a room never is.
    let before = world.rows().await;
    assert!(
        rooms
            .insert(&room(1))
            .await
            .unwrap_err()
            .is_already_exists()
    );
    assert!(
        sessions
            .put(&Indexed::new(2, "name2", None))
            .await
            .unwrap_err()
            .is_already_exists()
    );
    assert_eq!(world.rows().await, before);

    swept(&sweep(&world, &clock).await, 1, "sessions");
    assert_eq!(rooms.query().count().await.unwrap(), 1);
    rooms.insert(&room(1)).await.unwrap();
    rooms.check().await;
    for index in Indexed::SCHEMA.indexes {
        let found = sessions
            .entities()
            .await
            .expect("an open table")
            .scrub(&index.name, ScrubMode::Report)
            .await
            .unwrap();
        assert_eq!((found.entries, found.missing), (0, 0), "{}", index.name);
    }
}
