//! Every path of writes × every layout × every store, in plaintext and with an encrypted field. A cell is
//! right, or refused before anything is written. A right cell leaves whole entities with whole indexes. A
//! refusal says what to use. No cell stores plaintext of an encrypted value.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::stream;
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_core::store::Result;
use table_core::typed::EntriesOf;
use table_core::typed::PlainTable;
use table_encryption::Keys;
use table_patterns::bulk::{
    BulkOptions, BulkSummary, BulkWriter, CopyJob, Unchanged, delete_partition, delete_where,
    operations,
};
use table_patterns::eventual::{
    Coordinator, EventualTransaction, Mover, Moves as _, Place, Resources, TransactionProgress,
};
use table_patterns::journal::Acknowledge;
use table_patterns::large::LargeOptions;
use table_patterns::queue::TableQueue;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;
use table_patterns::{Database, Table};

use crate::backends::{Embedded, Emulated, Memory, Served};
use crate::world::{
    Backends, Beside, Handle, Indexed, Large, LargeIndexed, Older, OpenBlobs, Plain, SECRET,
    SealedBlobs, SealedIndexed, SealedLarge, SealedLargeIndexed, SealedOlder, SealedPlain,
    SealedSpread, SealedUnique, SealedWide, Spread, TABLE, Thing, Unique, Upkeep as _, Wide, World,
    kek,
};

/// The expected result of a cell: success, or a refusal whose error contains these words.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Right,
    Refused(&'static str),
}
use Cell::{Refused, Right};

/// The expected result of each path on one layout.
#[derive(Clone, Copy)]
struct Row {
    layout: &'static str,
    typed_table: Cell,
    group: Cell,
    bulk: Cell,
    partition_delete: Cell,
    eventual_upsert: Cell,
    /// With an encrypted value: plans are stored in plaintext.
    sealed_upsert: Cell,
    eventual_move: Cell,
    eventual_delete: Cell,
    copy: Cell,
    upgrade: Cell,
    move_within: Cell,
    move_across: Cell,
    /// How far a transaction comes whose step moves by the layout's own table: one that is refused stays pending, and moves nothing.
    move_by: TransactionProgress,
}

const INDEXES: Cell = Refused("index");

const PLAIN: Row = Row {
    layout: "plain",
    typed_table: Right,
    group: Right,
    bulk: Right,
    partition_delete: Right,
    eventual_upsert: Right,
    sealed_upsert: Refused("write it in a handler"),
    eventual_move: Right,
    eventual_delete: Right,
    copy: Right,
    upgrade: Right,
    move_within: Right,
    move_across: Right,
    move_by: TransactionProgress::Applied,
};

const INDEXED: Row = Row {
    layout: "indexed",
    typed_table: INDEXES,
    group: INDEXES,
    bulk: INDEXES,
    partition_delete: INDEXES,
    eventual_upsert: INDEXES,
    eventual_move: INDEXES,
    eventual_delete: INDEXES,
    upgrade: INDEXES,
    ..PLAIN
};

const UNIQUE: Row = Row {
    layout: "unique",
    ..INDEXED
};

/// Plain rows, of which another program has declared an index.
const DECLARED: Row = Row {
    layout: "plain, with an index of another program",
    // The version of its program is the one of the rows: nothing is written.
    upgrade: Right,
    ..INDEXED
};

/// Indexed rows, of which a later program has declared one index more.
const DECLARED_LATER: Row = Row {
    layout: "indexed, with an index of a later program",
    ..INDEXED
};

const LARGE: Row = Row {
    layout: "large",
    typed_table: Refused("`table_patterns::Database` with blobs"),
    eventual_move: Refused("move_by"),
    copy: Refused("with_blobs"),
    upgrade: Refused("`table_patterns::Database` with blobs"),
    ..PLAIN
};

const LARGE_INDEXED: Row = Row {
    layout: "large and indexed",
    typed_table: Refused("`table_patterns::Database` with blobs"),
    copy: Refused("with_blobs"),
    upgrade: Refused("`table_patterns::Database` with blobs"),
    ..INDEXED
};

/// Large entities, of which another program has declared indexes.
const LARGE_DECLARED: Row = Row {
    layout: "large, with an index of another program",
    ..LARGE_INDEXED
};

const WIDE: Row = Row {
    layout: "wide",
    typed_table: Refused("WideTable"),
    group: Refused("WideTable"),
    bulk: Refused("WideTable"),
    eventual_upsert: Refused("WideTable"),
    sealed_upsert: Refused("WideTable"),
    eventual_move: Refused("WideTable"),
    eventual_delete: Refused("WideTable"),
    upgrade: Refused("WideTable"),
    ..PLAIN
};

const SPREAD: Row = Row {
    layout: "spread",
    typed_table: Refused("SpreadTable"),
    group: Refused("SpreadTable"),
    bulk: Refused("SpreadTable"),
    partition_delete: Refused("stored_partitions"),
    eventual_upsert: Refused("SpreadTable"),
    sealed_upsert: Refused("SpreadTable"),
    eventual_move: Refused("SpreadTable"),
    eventual_delete: Refused("SpreadTable"),
    upgrade: Refused("SpreadTable"),
    ..PLAIN
};

/// The layouts: the expected result of each path, the table in plaintext, and the table with an encrypted
/// field.
macro_rules! matrix {
    ($($layout:ident: $row:expr, $plain:ty, $sealed:ty;)*) => {
        /// The tests on one store: each layout in plaintext, encrypted, and during a migration.
        macro_rules! on {
            ($store:ident, $backend:expr) => {
                mod $store {
                    use super::*;

                    const BACKENDS: Backends = || Box::new($backend);

                    $(mod $layout {
                        use super::*;

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn plain() {
                            paths::<$plain>(BACKENDS, false, $row).await;
                        }

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn sealed() {
                            paths::<$sealed>(BACKENDS, true, $row).await;
                        }

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn sealed_only_through_encryption() {
                            unencrypted::<$sealed>(BACKENDS).await;
                        }

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn rotated() {
                            rotation::<$sealed>(BACKENDS).await;
                        }

                        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                        async fn migrated() {
                            migration::<$plain, $sealed>(BACKENDS).await;
                        }
                    })*

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn time_sliced() {
                        slices(BACKENDS).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn spread_partitions() {
                        delete_spread(BACKENDS).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn large_entities_are_found_by_their_indexes() {
                        large_lookups(BACKENDS).await;
                    }

                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn copies_without_their_blobs_are_not_equal() {
                        missing_blobs(BACKENDS).await;
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
    plain_rows: PLAIN, Table<Plain>, Table<SealedPlain>;
    indexed: INDEXED, Table<Indexed>, Table<SealedIndexed>;
    unique: UNIQUE, Table<Unique>, Table<SealedUnique>;
    declared: DECLARED, Beside<Table<Plain>, Indexed>, Beside<Table<SealedPlain>, SealedIndexed>;
    declared_unique: DECLARED, Beside<Table<Plain>, Unique>, Beside<Table<SealedPlain>, SealedUnique>;
    declared_later: DECLARED_LATER, Beside<Table<Older>, Indexed>, Beside<Table<SealedOlder>, SealedIndexed>;
    large: LARGE, Table<Large>, Table<SealedLarge>;
    large_sealed: LARGE, Table<OpenBlobs>, Table<SealedBlobs>;
    large_indexed: LARGE_INDEXED, Table<LargeIndexed>, Table<SealedLargeIndexed>;
    large_declared: LARGE_DECLARED, Beside<Table<Large>, LargeIndexed>, Beside<Table<SealedLarge>, SealedLargeIndexed>;
    wide: WIDE, WideTable<Wide>, WideTable<SealedWide>;
    spread: SPREAD, SpreadTable<Spread>, SpreadTable<SealedSpread>;
}

/// Asserts that a refusal has the expected words and leaves all rows unchanged. After a success the caller
/// checks the rows.
async fn expect<T: Debug>(
    world: &World,
    what: &str,
    cell: Cell,
    done: impl Future<Output = Result<T>>,
) -> bool {
    let before = world.rows().await;
    let done = done.await;
    world.check(what).await;
    match (cell, done) {
        (Right, done) => {
            done.unwrap_or_else(|error| panic!("{what}: {error}"));
            true
        }
        (Refused(words), done) => {
            let error = done.expect_err(what);
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(words), "{what}: {error}");
            assert!(
                !shown.contains(SECRET) || world.encrypted.is_none(),
                "{what}: {error}"
            );
            assert_eq!(world.rows().await, before, "{what} wrote something");
            false
        }
    }
}

async fn coordinator<H: Handle>(world: &World, from: &H, to: &H) -> Coordinator {
    let mover = Arc::new(Mover::new(from.clone(), to.clone()));
    let resources = Resources::new()
        .with_store("things", world.store.clone())
        .with_handler("mover", mover);
    let queue = TableQueue::open(world.store.clone(), world.table("Queues").as_str(), "work")
        .await
        .unwrap();
    let name = world.table("Transactions");
    Coordinator::open(
        world.store.clone(),
        name.as_str(),
        Arc::new(queue),
        resources,
    )
    .await
    .unwrap()
}

async fn paths<H: Handle>(backends: Backends, sealed: bool, row: Row) {
    direct::<H>(backends, sealed, &row).await;
    eventual::<H>(backends, sealed, &row).await;
    copies::<H>(backends, sealed, &row).await;
    sets::<H>(backends, sealed, &row).await;
    moves::<H>(backends, sealed, &row).await;
}

async fn direct<H: Handle>(backends: Backends, sealed: bool, row: &Row) {
    let layout = row.layout;
    let [one, two] = [1, 2].map(|r| H::Of::new("p", r));
    let [key, new] = [H::Of::key_of("p", 1), H::Of::key_of("p", 2)];

    // The plain typed table.
    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    let typed = async {
        PlainTable::<H::Of>::new(world.store.clone(), world.table(TABLE))?
            .insert(&one)
            .await
    };
    if expect(
        &world,
        &format!("{layout}: PlainTable::insert"),
        row.typed_table,
        typed,
    )
    .await
    {
        assert_eq!(own.read(&key).await.unwrap(), Some(one.clone()));
    }

    // A group of a table of entities of any type.
    let group = async {
        let all = PlainTable::<Entity>::new(world.store.clone(), world.table(TABLE))?;
        let mut group = all.group(PartitionKey::new("p")?);
        group.insert(&two)?;
        group.commit().await
    };
    if expect(&world, &format!("{layout}: a group"), row.group, group).await {
        assert_eq!(own.read(&new).await.unwrap(), Some(two.clone()));
    }

    // Bulk writes of typed entities.
    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    let bulk = async {
        let upserts = operations(
            &world.table(TABLE),
            stream::iter([one.clone()]),
            Operation::InsertOrReplace,
        );
        BulkWriter::new(world.store.clone())
            .write(upserts)
            .await
            .and_then(BulkSummary::into_result)
    };
    if expect(&world, &format!("{layout}: a bulk write"), row.bulk, bulk).await {
        assert_eq!(own.read(&key).await.unwrap(), Some(one.clone()));
    }

    // The deletion of a partition by its logical key.
    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    own.put(&one).await.unwrap();
    let (partition, name) = (PartitionKey::new("p").unwrap(), world.table(TABLE));
    let delete = delete_partition(
        world.store.clone(),
        &name,
        &partition,
        BulkOptions::default(),
    );
    let deleted = expect(
        &world,
        &format!("{layout}: delete_partition"),
        row.partition_delete,
        delete,
    )
    .await;
    assert_eq!(
        own.read(&key).await.unwrap(),
        (!deleted).then(|| one.clone())
    );

    // Upgrades.
    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    own.put(&one).await.unwrap();
    let upgrade = async {
        PlainTable::<H::Of>::new(world.store.clone(), world.table(TABLE))?
            .upgrade_all()
            .await
    };
    expect(
        &world,
        &format!("{layout}: upgrade_all"),
        row.upgrade,
        upgrade,
    )
    .await;
    assert_eq!(own.read(&key).await.unwrap(), Some(one));
}

async fn eventual<H: Handle>(backends: Backends, sealed: bool, row: &Row) {
    let layout = row.layout;
    let [one, two] = [1, 2].map(|r| H::Of::new("p", r));
    let [key, new] = [H::Of::key_of("p", 1), H::Of::key_of("p", 2)];
    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    let other = H::open_in(&world, "Others").await.unwrap();
    own.put(&one).await.unwrap();
    let process = coordinator(&world, &own, &other).await;
    let place = |table: &str, key: &Key| Place::new("things", world.table(table), key.clone());
    let upsert = async {
        let plan =
            EventualTransaction::new().upsert("things", world.table(TABLE), two.to_entity()?);
        process.submit(&plan, Acknowledge::Applied).await
    };
    let cell = if sealed {
        row.sealed_upsert
    } else {
        row.eventual_upsert
    };
    if expect(
        &world,
        &format!("{layout}: an eventual upsert"),
        cell,
        upsert,
    )
    .await
    {
        assert_eq!(own.read(&new).await.unwrap(), Some(two.clone()));
    }
    let missing = EventualTransaction::new()
        .move_entity(place(TABLE, &H::Of::key_of("p", 9)), place("Others", &key));
    let refused = process.submit(&missing, Acknowledge::Applied).await;
    assert!(refused.is_err(), "{layout}: a move of a missing key");
    let plan = EventualTransaction::new().move_entity(place(TABLE, &key), place("Others", &key));
    let moved = process.submit(&plan, Acknowledge::Applied);
    if expect(
        &world,
        &format!("{layout}: an eventual move"),
        row.eventual_move,
        moved,
    )
    .await
    {
        assert_eq!(own.read(&key).await.unwrap(), None);
        assert_eq!(other.read(&key).await.unwrap(), Some(one.clone()));
        own.put(&one).await.unwrap();
    }
    let plan = EventualTransaction::new().delete_if_exists(place(TABLE, &key));
    let deleted = process.submit(&plan, Acknowledge::Applied);
    if expect(
        &world,
        &format!("{layout}: an eventual delete"),
        row.eventual_delete,
        deleted,
    )
    .await
    {
        assert_eq!(own.read(&key).await.unwrap(), None);
        own.put(&one).await.unwrap();
    }

    // A step that moves an entity by the layout's own table. It is submitted twice and carried out once.
    let plan = EventualTransaction::new().move_by("mover", &key, &key);
    for _ in 0..2 {
        let submitted = process.submit(&plan, Acknowledge::Applied).await.unwrap();
        assert_eq!(submitted.progress, row.move_by, "{layout}: move_by");
    }
    let moved = row.move_by == TransactionProgress::Applied;
    assert_eq!(
        own.read(&key).await.unwrap(),
        (!moved).then(|| one.clone()),
        "{layout}: move_by"
    );
    assert_eq!(
        other.read(&key).await.unwrap(),
        moved.then(|| one.clone()),
        "{layout}: move_by"
    );
    world.check(layout).await;
}

/// Returns a table in memory, and an empty table of the same name in the store.
async fn to_copy<H: Handle>(backends: Backends, sealed: bool) -> (World, World) {
    let world = World::new(|| Box::new(Memory), sealed).await;
    H::open(&world)
        .await
        .put(&H::Of::new("p", 1))
        .await
        .unwrap();
    let target = world.twin(backends).await;
    (world, target)
}

fn copy(from: &World, to: &World) -> CopyJob {
    let side = |world: &World| (world.store.clone(), world.table(TABLE));
    CopyJob::new(side(from), side(to)).trust_definitions()
}

fn copy_with_blobs(from: &World, to: &World) -> CopyJob {
    copy(from, to).with_blobs(
        from.blobs.clone(),
        to.blobs.clone(),
        LargeOptions::default().root,
    )
}

async fn copies<H: Handle>(backends: Backends, sealed: bool, row: &Row) {
    let layout = row.layout;
    let (one, key) = (H::Of::new("p", 1), H::Of::key_of("p", 1));
    let (world, target) = to_copy::<H>(backends, sealed).await;
    let job = copy(&world, &target);
    if expect(&target, &format!("{layout}: a copy"), row.copy, job.run()).await {
        assert!(job.verify().await.unwrap().equal, "{layout}");
    }
    let job = copy_with_blobs(&world, &target);
    job.run().await.unwrap();
    assert!(job.verify().await.unwrap().equal, "{layout}");
    let copied = H::open(&target).await.read(&key).await.unwrap();
    assert_eq!(copied, Some(one.clone()), "{layout}: a copy with blobs");
    target.check(layout).await;
    if !sealed {
        return;
    }

    // From an encrypted to a plaintext store: a copy of marked values is refused, and so is a copy of their
    // blobs. A copy of ciphertext succeeds.
    let (world, target) = to_copy::<H>(backends, true).await;
    let plain = target.raw();
    plain.store.create_table(&plain.table(TABLE)).await.unwrap();
    let out = copy_with_blobs(&world, &plain);
    expect(
        &plain,
        &format!("{layout}: a copy out"),
        Refused("does not encrypt"),
        out.run(),
    )
    .await;
    plain.assert_hidden(layout, SECRET).await;
    let out = copy_with_blobs(&world.raw(), &plain);
    expect(
        &plain,
        &format!("{layout}: a copy of ciphertext"),
        Refused("rows_only"),
        out.run(),
    )
    .await;
    copy(&world.raw(), &plain).rows_only().run().await.unwrap();
    let mut target = target;
    target.blobs = world.blobs.clone();
    let copied = H::open(&target).await.read(&key).await.unwrap();
    assert_eq!(copied, Some(one), "{layout}: a copy of ciphertext");
}

/// Set operations of the layout's own table: refused where its moves are.
async fn sets<H: Handle>(backends: Backends, sealed: bool, row: &Row) {
    let layout = row.layout;
    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    let (one, other) = (H::Of::new("p", 1), H::Of::new("q", 2));
    own.put(&one).await.unwrap();
    own.put(&other).await.unwrap();
    let deleted = async { own.delete_set().await.and_then(BulkSummary::into_result) };
    let is_deleted = expect(
        &world,
        &format!("{layout}: query().delete"),
        row.move_within,
        deleted,
    )
    .await;
    let left = own.read(&H::Of::key_of("p", 1)).await.unwrap();
    assert_eq!(
        left,
        (!is_deleted).then(|| one.clone()),
        "{layout}: query().delete"
    );
    assert_eq!(
        own.read(&H::Of::key_of("q", 2)).await.unwrap().as_ref(),
        Some(&other),
        "{layout}: query().delete"
    );

    let world = World::new(backends, sealed).await;
    let own = H::open(&world).await;
    own.put(&one).await.unwrap();
    own.put(&other).await.unwrap();
    let updated = async { own.update_set().await.and_then(BulkSummary::into_result) };
    let mut expected = one;
    if expect(
        &world,
        &format!("{layout}: query().update"),
        row.move_within,
        updated,
    )
    .await
    {
        expected.rename();
    }
    let updated = own.read(&H::Of::key_of("p", 1)).await.unwrap();
    assert_eq!(updated, Some(expected), "{layout}: query().update");
    assert_eq!(
        own.read(&H::Of::key_of("q", 2)).await.unwrap(),
        Some(other),
        "{layout}: query().update"
    );
}

/// Typed moves: within the partition, to another partition, and to another table.
async fn moves<H: Handle>(backends: Backends, sealed: bool, row: &Row) {
    let layout = row.layout;
    let (one, key) = (H::Of::new("p", 1), H::Of::key_of("p", 1));
    for (cell, to) in [(row.move_within, ("p", 2)), (row.move_across, ("q", 1))] {
        let world = World::new(backends, sealed).await;
        let own = H::open(&world).await;
        own.put(&one).await.unwrap();
        let to = H::Of::key_of(to.0, to.1);
        let moved = own.move_entity(&key, &own, &to);
        if expect(&world, &format!("{layout}: move_to {to}"), cell, moved).await {
            assert_eq!(own.read(&key).await.unwrap(), None, "{layout}");
            let there = format!("{:?}", own.read(&to).await.unwrap());
            assert!(
                there.contains("texttext") && there.contains("SECRET1"),
                "{layout}: {there}"
            );
            assert!(
                !own.move_entity(&key, &own, &to).await.unwrap(),
                "{layout}: nothing is left to move"
            );
        } else {
            assert_eq!(own.read(&key).await.unwrap(), Some(one.clone()), "{layout}");
        }
        assert!(
            own.move_entity(&key, &own, &key).await.is_err(),
            "{layout}: to where it is"
        );
    }
}

/// A type with an encrypted field on a store that does not encrypt.
async fn unencrypted<H: Handle>(backends: Backends) {
    let world = World::new(backends, true).await;
    let own = H::open(&world).await;
    let one = H::Of::new("p", 1);
    own.put(&one).await.unwrap();
    let raw = world.raw();
    let written = async {
        H::open_in(&raw, TABLE)
            .await?
            .put(&H::Of::new("p", 2))
            .await
    };
    expect(&raw, "without encryption", Refused("encrypt"), written).await;
    let group = async {
        let all = Database::new(raw.store.clone()).view::<Entity>(raw.table(TABLE))?;
        let mut group = all.group(PartitionKey::new("p")?);
        group.insert(&H::Of::new("p", 3))?;
        group.commit().await
    };
    assert!(group.await.is_err());
    let upserts = operations(
        &raw.table(TABLE),
        stream::iter([H::Of::new("p", 4)]),
        Operation::InsertOrReplace,
    );
    let bulk = BulkWriter::new(raw.store.clone())
        .write(upserts)
        .await
        .and_then(BulkSummary::into_result);
    assert!(bulk.is_err());
    world.check("without encryption").await;
    assert_eq!(own.read(&H::Of::key_of("p", 1)).await.unwrap(), Some(one));
}

/// Rotates the key encryption key, then encrypts all rows and blobs again: the new key alone reads everything.
async fn rotation<H: Handle>(backends: Backends) {
    let world = World::new(backends, true).await;
    let [one, two] = [1, 2].map(|r| H::Of::new("p", r));
    let own = H::open(&world).await;
    own.put(&one).await.unwrap();
    own.put(&two).await.unwrap();
    let table = world.table(TABLE);
    let both = world.sealed(Keys::new(kek(2)).with_key(kek(1)), |builder, _| builder);
    let sweeps = both.encrypted.clone().unwrap();
    let rotated = sweeps.rotation(&table).run().await.unwrap();
    assert!(rotated.skipped == 0 && rotated.changed >= 2, "{rotated:?}");
    let rotating = H::open(&both).await;
    rotating.sweep_blobs().await;
    both.assert_hidden("a rotation", "KEK1").await;
    let counted = sweeps.rotation(&table).counting().run().await.unwrap();
    assert_eq!(counted.keys.keys().collect::<Vec<_>>(), ["KEK2"]);

    let new = world.sealed(Keys::new(kek(2)), |builder, _| builder);
    let own = H::open(&new).await;
    let reads = async |own: &H| {
        assert_eq!(
            own.read(&H::Of::key_of("p", 1)).await.unwrap(),
            Some(one.clone())
        );
        assert_eq!(
            own.read(&H::Of::key_of("p", 2)).await.unwrap(),
            Some(two.clone())
        );
    };
    reads(&own).await;
    let again = new.encrypted.clone().unwrap();
    let again = again
        .migration(&table)
        .with_reencryption()
        .run()
        .await
        .unwrap();
    assert!(again.skipped == 0 && again.changed >= 2, "{again:?}");
    reads(&own).await;
    new.check("a rotation").await;
    own.put(&H::Of::new("q", 3)).await.unwrap();
    assert_eq!(
        own.read(&H::Of::key_of("q", 3)).await.unwrap(),
        Some(H::Of::new("q", 3))
    );
}

/// A table from before encryption: a program with the marked type runs, the table is migrated, and then
/// plaintext is refused.
async fn migration<P: Handle, S: Handle>(backends: Backends) {
    let world = World::new(backends, false).await;
    let before = P::open(&world).await;
    for r in [1, 2] {
        before.put(&P::Of::new("p", r)).await.unwrap();
    }
    let keys = || Keys::new(kek(1));
    let mut marked = world.sealed(keys(), |builder, table| {
        builder.encrypt_type::<S::Of>(table).accept_plaintext(table)
    });
    marked.migrating = true;
    let own = S::open(&marked).await;
    let [one, two, three] = [1, 2, 3].map(|r| S::Of::new("p", r));
    own.put(&three).await.unwrap();
    let sweeps = marked.encrypted.clone().unwrap();
    let found = sweeps.migration(&world.table(TABLE)).run().await.unwrap();
    assert!(found.skipped == 0 && found.changed >= 2, "{found:?}");
    own.sweep_blobs().await;
    marked.check("a migration").await;

    let strict = world.sealed(keys(), |builder, table| {
        builder
            .encrypt_type::<S::Of>(table)
            .require_encryption(table)
    });
    let sweeps = strict.encrypted.clone().unwrap();
    assert_eq!(
        sweeps
            .migration(&world.table(TABLE))
            .run()
            .await
            .unwrap()
            .skipped,
        0
    );
    let own = S::open(&strict).await;
    for (r, value) in [(1, one), (2, two), (3, three)] {
        assert_eq!(own.read(&S::Of::key_of("p", r)).await.unwrap(), Some(value));
    }
    own.put(&S::Of::new("q", 4)).await.unwrap();
    assert_eq!(
        own.read(&S::Of::key_of("q", 4)).await.unwrap(),
        Some(S::Of::new("q", 4))
    );
    strict.check("after a migration").await;
}

/// Deletes each stored partition of a spread partition, and asserts the remaining rows.
async fn delete_spread(backends: Backends) {
    let world = World::new(backends, false).await;
    let own = SpreadTable::<Spread>::open_in(&world, TABLE).await.unwrap();
    own.put(&Spread::new("p", 1)).await.unwrap();
    for partition in own
        .stored_partitions(Spread::partition("p").unwrap())
        .unwrap()
    {
        let table = world.table(TABLE);
        delete_partition(
            world.store.clone(),
            &table,
            &partition,
            BulkOptions::default(),
        )
        .await
        .unwrap();
    }
    assert_eq!(own.get(&Spread::key_of("p", 1)).await.unwrap(), None);
    assert!(world.rows().await.0.is_empty());
}

/// A time slice is a plain table: every path of plain tables works there. A family refuses types of other
/// layouts.
async fn slices(backends: Backends) {
    sliced::<Plain>(backends, false).await;
    sliced::<SealedPlain>(backends, true).await;
    let world = World::new(backends, false).await;
    let (store, days) = (|| world.store.clone(), world.table("Days").to_string());
    let indexed = TimeSlices::<Indexed>::new(store(), &days, Every::Day, |_| Ticks::MIN);
    let error = indexed.unwrap_err().to_string();
    for part in ["a family of tables", "the index 'name'", "`Table`"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(TimeSlices::<Large>::new(store(), &days, Every::Day, |_| Ticks::MIN).is_err());
    assert!(TimeSlices::<Wide>::new(store(), &days, Every::Day, |_| Ticks::MIN).is_err());
    assert!(TimeSlices::<Spread>::new(store(), &days, Every::Day, |_| Ticks::MIN).is_err());
    assert!(TimeSlices::<SealedPlain>::new(store(), &days, Every::Day, |_| Ticks::MIN).is_err());
}

async fn sliced<T: Thing>(backends: Backends, sealed: bool) {
    let world = World::new(backends, sealed).await;
    let days = world.table("Days").to_string();
    let slices =
        TimeSlices::<T>::new(world.store.clone(), &days, Every::Day, |_| Ticks::MIN).unwrap();
    slices.insert(&T::new("p", 1)).await.unwrap();
    let slice = slices.table_for(Ticks::MIN).await.unwrap();
    let [key, to] = [1, 2].map(|r| T::key_of("p", r));
    assert!(slice.move_entity(&key, &slice, &to).await.unwrap());
    let read = slice.get(&to).await.unwrap().unwrap();
    assert!(format!("{read:?}").contains("SECRET1"));
    world.check("a slice").await;
    if sealed {
        let both = world.sealed(Keys::new(kek(2)).with_key(kek(1)), |builder, _| builder);
        let rotated = both
            .encrypted
            .clone()
            .unwrap()
            .rotation(slice.name())
            .run()
            .await
            .unwrap();
        assert_eq!(rotated.skipped, 0);
        assert_eq!(rotated.changed, 1);
        let new = world.sealed(Keys::new(kek(2)), |builder, _| builder);
        let slices =
            TimeSlices::<T>::new(new.store.clone(), &days, Every::Day, |_| Ticks::MIN).unwrap();
        assert_eq!(slices.query().all().await.unwrap(), [read]);
    }
    let everything = table_core::query::Filter::ge("PartitionKey", "");
    let unchanged = Unchanged::Required;
    delete_where(
        world.store.clone(),
        slice.name(),
        everything,
        unchanged,
        BulkOptions::default(),
    )
    .await
    .unwrap();
    assert!(slices.query().all().await.unwrap().is_empty());
}

/// Moved large entities are found whole by their indexes. A database without blobs refuses their type.
async fn large_lookups(backends: Backends) {
    for sealed in [false, true] {
        let world = World::new(backends, sealed).await;
        if sealed {
            found_by_index::<SealedLargeIndexed, _>(
                &world,
                SealedLargeIndexed::by_elsewhere("name1"),
            )
            .await;
        } else {
            found_by_index::<LargeIndexed, _>(&world, LargeIndexed::by_elsewhere("name1")).await;
        }
        world.check("large lookups").await;
    }
    let world = World::new(backends, false).await;
    let opened = Database::new(world.store.clone()).table::<LargeIndexed>(world.table(TABLE));
    let refused = opened.unwrap_err().to_string();
    assert!(refused.contains("Database::with_blobs"), "{refused}");
    assert!(world.rows().await.0.is_empty());
}

async fn found_by_index<T, E>(world: &World, entries: E)
where
    T: Thing,
    E: EntriesOf<T> + Clone,
{
    let own = <Table<T> as Handle>::open(world).await;
    own.put(&T::new("p", 1)).await.unwrap();
    for to in [("p", 2), ("q", 2), ("q", 1), ("p", 1)] {
        let from = own.by(entries.clone()).all().await.unwrap();
        let from = from[0].entity_key().unwrap();
        assert!(
            own.move_entity(from.key(), &own, &T::key_of(to.0, to.1))
                .await
                .unwrap()
        );
        own.check().await;
    }
    assert_eq!(own.by(entries).all().await.unwrap(), [T::new("p", 1)]);
}

/// A copy without its blob differs from the original.
async fn missing_blobs(backends: Backends) {
    use futures_util::TryStreamExt as _;
    use object_store::{ObjectStore as _, ObjectStoreExt as _};
    let world = World::new(|| Box::new(Memory), false).await;
    let target = world.twin(backends).await;
    let own = Table::<Large>::open_in(&world, TABLE).await.unwrap();
    own.put(&Large::new("p", 1)).await.unwrap();
    let job = || copy(&world, &target);
    job().rows_only().run().await.unwrap();
    assert!(
        job().rows_only().verify().await.unwrap().equal,
        "the rows are"
    );
    assert!(
        job().verify().await.is_err(),
        "and nobody looked for the blobs"
    );
    let with_blobs = || copy_with_blobs(&world, &target);
    assert!(!with_blobs().verify().await.unwrap().equal);
    with_blobs().run().await.unwrap();
    assert!(with_blobs().verify().await.unwrap().equal);
    let blobs: Vec<_> = target.blobs.list(None).try_collect().await.unwrap();
    target.blobs.delete(&blobs[0].location).await.unwrap();
    let found = with_blobs().verify().await.unwrap();
    assert!(!found.equal && format!("{:?}", found.differences).contains("Blob"));
}
