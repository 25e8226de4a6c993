//! Path that writes × layout of the table, in memory: each cell is right (what the layout's own table reads is whole), or
//! refused by an error that says what to use, with nothing written.

use std::fmt::Debug;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream;
use object_store::memory::InMemory;
use object_store::path::Path;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Ticks};
use table_core::prelude::*;
use table_core::query::Query;
use table_core::store::Result;
use table_patterns::bulk::{
    BulkOptions, BulkSummary, BulkWriter, CopyJob, Unchanged, delete_partition, delete_where, operations,
};
use table_patterns::eventual::{Coordinator, EventualTransaction, Mover, Moves, Place, Resources};
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::journal::Acknowledge;
use table_patterns::large::{LargeOptions, LargeTable};
use table_patterns::queue::TableQueue;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::{Every, TimeSlices};
use table_patterns::wide::WideTable;

macro_rules! thing {
    ($name:ident, [$($attr:meta),*], $key:meta, [$($large:meta),*]) => {
        #[derive(Clone, Debug, PartialEq, TableEntity)]
        $(#[$attr])*
        struct $name {
            #[$key]
            p: String,
            #[row_key]
            r: u32,
            name: String,
            $(#[$large])*
            text: String,
        }

        impl Thing for $name {
            fn new(p: &str, r: u32) -> Self {
                Self { p: p.into(), r, name: format!("name{r}"), text: "text".repeat(20) }
            }

            fn key_of(p: &str, r: u32) -> Key {
                Self::key(p, r).unwrap().into_key()
            }
        }
    };
}

trait Thing: TableEntity + Clone + Debug + PartialEq {
    fn new(p: &str, r: u32) -> Self;
    fn key_of(p: &str, r: u32) -> Key;
}

thing!(Plain, [entity(type = "Thing")], partition_key, []);
thing!(Indexed, [entity(type = "Thing"), index(name, row_key = "name_{name}_{r}"), index(text, partition_key = "text_{text}", row_key = "{p}_{r}")], partition_key, []);
thing!(Unique, [entity(type = "Thing"), index(name, partition_key = "name_{name}", row_key = "x", unique = "table")], partition_key, []);
thing!(Large, [entity(type = "Thing")], partition_key, [large(over = 16)]);
thing!(Spread, [entity(type = "Thing")], partition_key(spread = 4), []);
thing!(Wide, [entity(type = "Thing", wide)], partition_key, []);

const TABLE: &str = "Things";

fn table() -> TableName {
    TableName::new(TABLE).unwrap()
}

/// A layout's own table, as the matrix needs it.
trait Handle: Moves + Clone {
    type Of: Thing;

    fn open(world: &World) -> BoxFuture<'_, Self>;
    fn open_in<'a>(world: &'a World, table: &'static str) -> BoxFuture<'a, Self>;
    fn put<'a>(&'a self, value: &'a Self::Of) -> BoxFuture<'a, ()>;
    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Option<Self::Of>>;
}

#[derive(Clone)]
struct World {
    store: Arc<dyn TableStore>,
    blobs: Arc<InMemory>,
}

impl World {
    fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new()), blobs: Arc::new(InMemory::new()) }
    }

    /// Every row, without what handles and coordinators register of themselves.
    async fn rows(&self) -> Vec<Entity> {
        let mut rows = Vec::new();
        for table in self.store.all_tables(None).await.unwrap() {
            rows.extend(self.store.query_all(&table, &Query::new()).await.unwrap());
        }
        rows.retain(|row| {
            !row.key().partition().starts_with("~~") && !row.key().partition().starts_with("queue")
        });
        rows
    }
}

macro_rules! handle {
    ($table:ident, $of:ident, |$world:ident, $name:ident| $open:expr, |$handle:ident, $value:ident| $put:expr, |$got:ident| $read:expr) => {
        impl Handle for $table<$of> {
            type Of = $of;

            fn open(world: &World) -> BoxFuture<'_, Self> {
                Self::open_in(world, TABLE)
            }

            fn open_in<'a>($world: &'a World, $name: &'static str) -> BoxFuture<'a, Self> {
                Box::pin(async move { $open })
            }

            fn put<'a>(&'a self, $value: &'a $of) -> BoxFuture<'a, ()> {
                let $handle = self;
                Box::pin(async move { $put.await.map(drop).unwrap() })
            }

            fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Option<$of>> {
                Box::pin(async move { self.get(key).await.unwrap().map(|$got| $read) })
            }
        }
    };
}

macro_rules! opened {
    ($open:expr) => {{
        let opened = $open.unwrap();
        opened.create_if_missing().await.unwrap();
        opened
    }};
}

handle!(Table, Plain, |w, name| opened!(Table::new(w.store.clone(), name)), |t, v| t.insert(v), |got| got);
handle!(
    LargeTable,
    Large,
    |w, name| opened!(LargeTable::new(w.store.clone(), name, w.blobs.clone())),
    |t, v| t.insert(v),
    |got| got
);
handle!(
    SpreadTable,
    Spread,
    |w, name| opened!(SpreadTable::new(w.store.clone(), name)),
    |t, v| t.insert(v),
    |got| got
);
handle!(
    WideTable,
    Wide,
    |w, name| opened!(WideTable::new(w.store.clone(), name)),
    |t, v| t.insert(v),
    |got| (*got).clone()
);
handle!(
    IndexedTable,
    Indexed,
    |w, name| IndexedTable::open(w.store.clone(), name, IndexOptions::local()).await.unwrap(),
    |t, v| t.insert(v),
    |got| got.into_inner()
);
handle!(
    IndexedTable,
    Unique,
    |w, name| IndexedTable::open(w.store.clone(), name, IndexOptions::local()).await.unwrap(),
    |t, v| t.insert(v),
    |got| got.into_inner()
);

/// What a cell shows: right, or refused with words that the error has.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Right,
    Refused(&'static str),
}
use Cell::{Refused, Right};

/// A refusal has the words and leaves everything as it is; otherwise the result is for the caller to look at.
async fn expect<T: Debug>(
    world: &World,
    what: &str,
    cell: Cell,
    done: impl Future<Output = Result<T>>,
) -> bool {
    let before = world.rows().await;
    match (cell, done.await) {
        (Right, done) => {
            done.unwrap_or_else(|error| panic!("{what}: {error}"));
            true
        }
        (Refused(words), done) => {
            let error = done.expect_err(what);
            assert!(
                error.to_string().contains(words) || format!("{error:?}").contains(words),
                "{what}: {error}"
            );
            assert_eq!(world.rows().await, before, "{what} wrote something");
            false
        }
    }
}

/// What every path does to a layout.
struct Row {
    layout: &'static str,
    typed_table: Cell,
    group: Cell,
    bulk: Cell,
    partition_delete: Cell,
    eventual_upsert: Cell,
    eventual_move: Cell,
    eventual_delete: Cell,
    copy: Cell,
    upgrade: Cell,
    move_within: Cell,
    move_across: Cell,
}

async fn coordinator<H: Handle>(world: &World, from: &H, to: &H) -> Coordinator {
    let mover = Arc::new(Mover::new(from.clone(), to.clone()));
    let resources = Resources::new().with_store("things", world.store.clone()).with_handler("mover", mover);
    let queue = TableQueue::open(world.store.clone(), "Queues", "work").await.unwrap();
    Coordinator::open(world.store.clone(), "Transactions", Arc::new(queue), resources).await.unwrap()
}

async fn row<H: Handle>(row: Row) {
    let layout = row.layout;
    let [one, two] = [1, 2].map(|r| H::Of::new("p", r));
    let [key, new] = [H::Of::key_of("p", 1), H::Of::key_of("p", 2)];

    // The plain typed table.
    let world = World::new();
    let own = H::open(&world).await;
    let typed = async { Table::<H::Of>::new(world.store.clone(), TABLE)?.insert(&one).await };
    if expect(&world, &format!("{layout}: Table::insert"), row.typed_table, typed).await {
        assert_eq!(own.read(&key).await, Some(one.clone()));
    }

    // A group of a table of anything.
    let group = async {
        let all = Table::<Entity>::new(world.store.clone(), TABLE)?;
        let mut group = all.group(PartitionKey::new("p")?);
        group.insert(&two)?;
        group.commit().await
    };
    if expect(&world, &format!("{layout}: a group"), row.group, group).await {
        assert_eq!(own.read(&new).await, Some(two.clone()));
    }

    // Bulk writes of typed entities.
    let world = World::new();
    let own = H::open(&world).await;
    let bulk = async {
        let upserts = operations(&table(), stream::iter([one.clone()]), Operation::InsertOrReplace);
        BulkWriter::new(world.store.clone()).write(upserts).await.and_then(BulkSummary::into_result)
    };
    if expect(&world, &format!("{layout}: a bulk write"), row.bulk, bulk).await {
        assert_eq!(own.read(&key).await, Some(one.clone()));
    }

    // A partition that is deleted, by its logical key.
    let world = World::new();
    let own = H::open(&world).await;
    own.put(&one).await;
    let (partition, name) = (PartitionKey::new("p").unwrap(), table());
    let delete = delete_partition(world.store.clone(), &name, &partition, BulkOptions::default());
    if expect(&world, &format!("{layout}: delete_partition"), row.partition_delete, delete).await {
        assert_eq!(own.read(&key).await, None);
    } else {
        assert_eq!(own.read(&key).await, Some(one.clone()));
    }

    // Eventual steps.
    let world = World::new();
    let own = H::open(&world).await;
    let other = H::open_in(&world, "Others").await;
    own.put(&one).await;
    let process = coordinator(&world, &own, &other).await;
    let place = |table: &str, key: &Key| Place::new("things", TableName::new(table).unwrap(), key.clone());
    let upsert = async {
        let plan = EventualTransaction::new().upsert("things", table(), two.to_entity()?);
        process.submit(&plan, Acknowledge::Applied).await
    };
    if expect(&world, &format!("{layout}: an eventual upsert"), row.eventual_upsert, upsert).await {
        assert_eq!(own.read(&new).await, Some(two.clone()));
    }
    let missing =
        EventualTransaction::new().move_entity(place(TABLE, &H::Of::key_of("p", 9)), place("Others", &key));
    let refused = process.submit(&missing, Acknowledge::Applied).await;
    assert!(refused.is_err(), "{layout}: a move of a missing key");
    let plan = EventualTransaction::new().move_entity(place(TABLE, &key), place("Others", &key));
    let moved = process.submit(&plan, Acknowledge::Applied);
    if expect(&world, &format!("{layout}: an eventual move"), row.eventual_move, moved).await {
        assert_eq!((own.read(&key).await, other.read(&key).await), (None, Some(one.clone())));
        own.put(&one).await;
    }
    let plan = EventualTransaction::new().delete_if_exists(place(TABLE, &key));
    let deleted = process.submit(&plan, Acknowledge::Applied);
    if expect(&world, &format!("{layout}: an eventual delete"), row.eventual_delete, deleted).await {
        assert_eq!(own.read(&key).await, None);
        own.put(&one).await;
    }

    // A step that moves by the layout's own table; submitted twice, done once.
    let plan = EventualTransaction::new().move_by("mover", &key, &key);
    let unique = matches!(row.move_across, Refused(_));
    for _ in 0..2 {
        let submitted = process.submit(&plan, Acknowledge::Applied).await.unwrap();
        if !unique {
            assert_eq!(submitted.progress, table_patterns::eventual::Progress::Applied, "{layout}: move_by");
        }
    }
    let there = other.read(&key).await;
    assert_eq!(there, (!unique).then(|| one.clone()), "{layout}: move_by");

    // Copies.
    let world = World::new();
    let own = H::open(&world).await;
    own.put(&one).await;
    let target = World::new();
    let side = |store: &Arc<dyn TableStore>| (store.clone(), table());
    let job = CopyJob::new(side(&world.store), side(&target.store));
    if expect(&target, &format!("{layout}: a copy"), row.copy, job.run()).await {
        assert!(job.verify().await.unwrap().equal, "{layout}");
    }
    let options = LargeOptions::default();
    let with_blobs = CopyJob::new(side(&world.store), side(&target.store)).with_blobs(
        world.blobs.clone(),
        target.blobs.clone(),
        options.root.clone(),
    );
    with_blobs.run().await.unwrap();
    assert!(with_blobs.verify().await.unwrap().equal, "{layout}");
    assert_eq!(H::open(&target).await.read(&key).await, Some(one.clone()), "{layout}: a copy with blobs");

    // Upgrades.
    let upgrade = async { Table::<H::Of>::new(world.store.clone(), TABLE)?.upgrade_all().await };
    expect(&world, &format!("{layout}: upgrade_all"), row.upgrade, upgrade).await;

    // Typed moves: within the partition, into another, and into another table.
    for (cell, to) in [(row.move_within, ("p", 2)), (row.move_across, ("q", 1))] {
        let world = World::new();
        let own = H::open(&world).await;
        own.put(&one).await;
        let to = H::Of::key_of(to.0, to.1);
        let moved = own.move_entity(&key, &own, &to);
        if expect(&world, &format!("{layout}: move_to {to}"), cell, moved).await {
            assert_eq!(own.read(&key).await, None, "{layout}");
            let there = own.read(&to).await.unwrap();
            assert!(format!("{there:?}").contains("texttext"), "{layout}: {there:?}");
            assert!(!own.move_entity(&key, &own, &to).await.unwrap(), "{layout}: nothing is left to move");
        }
        assert!(own.move_entity(&key, &own, &key).await.is_err(), "{layout}: to where it is");
    }
}

const INDEXES: Cell = Refused("index");

#[tokio::test]
async fn plain() {
    row::<Table<Plain>>(Row {
        layout: "plain",
        typed_table: Right,
        group: Right,
        bulk: Right,
        partition_delete: Right,
        eventual_upsert: Right,
        eventual_move: Right,
        eventual_delete: Right,
        copy: Right,
        upgrade: Right,
        move_within: Right,
        move_across: Right,
    })
    .await;
}

#[tokio::test]
async fn indexed() {
    row::<IndexedTable<Indexed>>(Row {
        layout: "indexed",
        typed_table: INDEXES,
        group: INDEXES,
        bulk: INDEXES,
        partition_delete: INDEXES,
        eventual_upsert: INDEXES,
        eventual_move: INDEXES,
        eventual_delete: INDEXES,
        copy: Right,
        upgrade: INDEXES,
        move_within: Right,
        move_across: Right,
    })
    .await;
}

#[tokio::test]
async fn indexed_uniquely_elsewhere() {
    row::<IndexedTable<Unique>>(Row {
        layout: "unique",
        typed_table: INDEXES,
        group: INDEXES,
        bulk: INDEXES,
        partition_delete: INDEXES,
        eventual_upsert: INDEXES,
        eventual_move: INDEXES,
        eventual_delete: INDEXES,
        copy: Right,
        upgrade: INDEXES,
        move_within: Refused("two owners"),
        move_across: Refused("two owners"),
    })
    .await;
}

#[tokio::test]
async fn large() {
    row::<LargeTable<Large>>(Row {
        layout: "large",
        typed_table: Refused("LargeTable"),
        group: Right,
        bulk: Right,
        partition_delete: Right,
        eventual_upsert: Right,
        eventual_move: Refused("LargeTable"),
        eventual_delete: Right,
        copy: Refused("with_blobs"),
        upgrade: Refused("LargeTable"),
        move_within: Right,
        move_across: Right,
    })
    .await;
}

#[tokio::test]
async fn wide() {
    row::<WideTable<Wide>>(Row {
        layout: "wide",
        typed_table: Refused("WideTable"),
        group: Refused("WideTable"),
        bulk: Refused("WideTable"),
        partition_delete: Right,
        eventual_upsert: Refused("WideTable"),
        eventual_move: Refused("WideTable"),
        eventual_delete: Refused("WideTable"),
        copy: Right,
        upgrade: Refused("WideTable"),
        move_within: Right,
        move_across: Right,
    })
    .await;
}

#[tokio::test]
async fn spread() {
    row::<SpreadTable<Spread>>(Row {
        layout: "spread",
        typed_table: Refused("SpreadTable"),
        group: Refused("SpreadTable"),
        bulk: Refused("SpreadTable"),
        partition_delete: Refused("stored_partitions"),
        eventual_upsert: Refused("SpreadTable"),
        eventual_move: Refused("SpreadTable"),
        eventual_delete: Refused("SpreadTable"),
        copy: Right,
        upgrade: Refused("SpreadTable"),
        move_within: Right,
        move_across: Right,
    })
    .await;
    let world = World::new();
    let own = SpreadTable::<Spread>::open_in(&world, TABLE).await;
    own.put(&Spread::new("p", 1)).await;
    for partition in own.stored_partitions(Spread::partition("p").unwrap()).unwrap() {
        delete_partition(world.store.clone(), &table(), &partition, BulkOptions::default()).await.ok();
    }
    assert!(world.rows().await.is_empty());
}

/// A slice is a plain table of its own: what works on plain tables works there. A family refuses types of other layouts.
#[tokio::test]
async fn time_sliced() {
    let world = World::new();
    let slices = TimeSlices::<Plain>::new(world.store.clone(), "Days", Every::Day, |_| Ticks::MIN).unwrap();
    slices.insert(&Plain::new("p", 1)).await.unwrap();
    let slice = slices.table_for(Ticks::MIN).await.unwrap();
    assert!(slice.move_to(Plain::key_of("p", 1), &slice, Plain::key_of("p", 2)).await.unwrap());
    assert!(slices.get(Ticks::MIN, Plain::key_of("p", 2)).await.unwrap().is_some());
    let everything = table_core::query::Filter::ge("PartitionKey", "");
    let unchanged = Unchanged::Required;
    delete_where(world.store.clone(), slice.name(), everything, unchanged, BulkOptions::default())
        .await
        .unwrap();
    assert!(slices.query().all().await.unwrap().is_empty());

    let store = || world.store.clone();
    assert!(TimeSlices::<Indexed>::new(store(), "Days", Every::Day, |_| Ticks::MIN).is_err());
    assert!(TimeSlices::<Large>::new(store(), "Days", Every::Day, |_| Ticks::MIN).is_err());
    assert!(TimeSlices::<Wide>::new(store(), "Days", Every::Day, |_| Ticks::MIN).is_err());
    assert!(TimeSlices::<Spread>::new(store(), "Days", Every::Day, |_| Ticks::MIN).is_err());
}

/// A blob that is missing beside a copy is a difference.
#[tokio::test]
async fn copies_without_their_blobs_are_not_equal() {
    use futures_util::TryStreamExt as _;
    use object_store::{ObjectStore as _, ObjectStoreExt as _};
    let (world, target) = (World::new(), World::new());
    let own = LargeTable::<Large>::open_in(&world, TABLE).await;
    own.put(&Large::new("p", 1)).await;
    let side = |store: &Arc<dyn TableStore>| (store.clone(), table());
    let job = || CopyJob::new(side(&world.store), side(&target.store));
    job().rows_only().run().await.unwrap();
    assert!(job().rows_only().verify().await.unwrap().equal, "the rows are");
    assert!(job().verify().await.is_err(), "and nobody looked for the blobs");
    let root = || Path::from("large");
    let with_blobs = || job().with_blobs(world.blobs.clone(), target.blobs.clone(), root());
    assert!(!with_blobs().verify().await.unwrap().equal);
    with_blobs().run().await.unwrap();
    assert!(with_blobs().verify().await.unwrap().equal);
    let blobs: Vec<_> = target.blobs.list(None).try_collect().await.unwrap();
    target.blobs.delete(&blobs[0].location).await.unwrap();
    let found = with_blobs().verify().await.unwrap();
    assert!(!found.equal && format!("{:?}", found.differences).contains("Blob"));
}
