//! Indexes with one list of references per value: in one row, in several rows, in blobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::join_all;
use object_store::ObjectStore;
use table_core::adapter::{Metered, RequestMeter};
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_patterns::index::{
    Index, IndexOptions, IndexedEntities, Overflow, Placement, ScrubMode, Shape,
};
use table_patterns::journal::{Change, Clearing, Timing};

use crate::Harness;
use crate::wrappers::HookedStore;

const CITIES: [&str; 3] = ["bergen", "oslo", "rome"];

/// Leases are longer than a slow answer and short enough for tests to wait for their end.
pub(super) fn options() -> IndexOptions {
    let mut options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    options.timing = Timing::new(
        Duration::from_secs(4),
        Duration::from_secs(1),
        Duration::ZERO,
    )
    .expect("consistent");
    options.cache = Duration::from_secs(60);
    options
}

/// The same for behaviours that change index states: each change waits for the lifetime of the manifest cache.
pub(super) fn changing() -> IndexOptions {
    let mut options = options();
    options.cache = Duration::from_millis(500);
    options
}

/// People with an index by city.
struct People {
    store: Arc<dyn TableStore>,
    meter: RequestMeter,
    table: TableName,
    blobs: Arc<dyn ObjectStore>,
}

impl People {
    async fn new(harness: &Harness) -> Self {
        let meter = RequestMeter::new();
        let store = Arc::new(Metered::new(harness.store().clone(), meter.clone()));
        let table = harness.table().await.name().clone();
        Self {
            store,
            meter,
            table,
            blobs: harness.blobs().await,
        }
    }

    async fn open(&self, indexes: Vec<Index>) -> IndexedEntities {
        self.open_with(indexes, options()).await
    }

    async fn open_with(&self, indexes: Vec<Index>, mut options: IndexOptions) -> IndexedEntities {
        options.blobs = Some(self.blobs.clone());
        let opened =
            IndexedEntities::open(self.store.clone(), self.table.clone(), indexes, options).await;
        opened.expect("indexes that make sense")
    }

    async fn blobs(&self) -> usize {
        self.blobs
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .expect("names")
            .len()
    }
}

fn small(overflow: Overflow) -> Shape {
    Shape::List {
        bytes: 256,
        overflow,
    }
}

fn by_city(placement: &Placement, shape: Shape) -> Index {
    let partition = if *placement == Placement::SamePartition {
        ""
    } else {
        "city_{City}"
    };
    let index =
        Index::keyed("city", placement.clone(), partition, "city_{City}").expect("a template");
    index.with_shape(shape)
}

fn list(placement: &Placement, city: &str) -> Key {
    let partition = if *placement == Placement::SamePartition {
        "p"
    } else {
        &format!("city_{city}")
    };
    Key::new(partition, format!("city_{city}")).expect("a legal key")
}

fn key(id: usize) -> Key {
    Key::new("p", format!("{id:04}")).expect("a legal key")
}

fn person(id: usize, city: &str) -> Entity {
    Entity::from(key(id)).with("City", city)
}

async fn placements(harness: &Harness) -> [Placement; 3] {
    let other = harness.table().await.name().clone();
    [
        Placement::SamePartition,
        Placement::OtherPartition,
        Placement::OtherTable(other),
    ]
}

/// Random writes agree with a map, for each placement and form of lists.
pub(crate) async fn lists_agree_with_a_model(harness: &Harness) {
    let shapes = [
        Shape::LIST,
        small(Overflow::Entities),
        small(Overflow::Blob),
        Shape::Blob,
    ];
    let steps = (harness.scale().steps / 10).min(150);
    for shape in &shapes {
        for (seed, placement) in placements(harness).await.into_iter().enumerate() {
            let world = People::new(harness).await;
            let people = world.open(vec![by_city(&placement, shape.clone())]).await;
            let mut rng = fastrand::Rng::with_seed(seed as u64);
            let mut model = BTreeMap::new();
            for step in 0..steps {
                let id = rng.usize(..60);
                // The lists first grow, then shrink.
                let city = (step < steps / 2 || rng.u8(..4) == 0).then(|| CITIES[rng.usize(..3)]);
                let changed = people
                    .modify(&key(id), |_| Ok(city.map(|city| person(id, city))))
                    .await;
                changed.expect("a write");
                match city {
                    Some(city) => drop(model.insert(id, city)),
                    None => drop(model.remove(&id)),
                }
            }
            for city in CITIES {
                let found = people
                    .references("city", &list(&placement, city))
                    .await
                    .expect("a list");
                let wanted = model
                    .iter()
                    .filter(|(_, of)| **of == city)
                    .map(|(id, _)| key(*id));
                assert_eq!(found, wanted.collect::<Vec<_>>(), "{shape:?} {placement:?}");
            }
            let scrub = people
                .scrub("city", ScrubMode::Report)
                .await
                .expect("a scrub");
            assert_eq!(scrub.dangling, 0, "{shape:?} {placement:?}");
            assert_eq!(scrub.missing, 0, "{shape:?} {placement:?}");
            assert_eq!(scrub.taken_keys, 0, "{shape:?} {placement:?}");
            assert!(
                world.blobs().await <= CITIES.len(),
                "blobs that no row names"
            );
        }
    }
}

/// A lookup reads the list and then its references, concurrently. References in one partition are read as a
/// range.
pub(crate) async fn lookups_cost_the_documented_requests(harness: &Harness) {
    for (placement, (insert, change)) in
        placements(harness)
            .await
            .into_iter()
            .zip([(2, 3), (5, 7), (5, 7)])
    {
        let world = People::new(harness).await;
        let people = world.open(vec![by_city(&placement, Shape::LIST)]).await;
        let cost = |before: u64| world.meter.total() - before;
        for id in 0..5 {
            let before = world.meter.total();
            people.insert(person(id, "oslo")).await.expect("an insert");
            assert_eq!(cost(before), insert, "{placement:?}");
        }
        let oslo = list(&placement, "oslo");
        let before = world.meter.total();
        assert_eq!(people.list("city", &oslo).await.expect("a list").len(), 5);
        assert_eq!(cost(before), 1 + 5);
        let before = world.meter.total();
        assert_eq!(
            people
                .list_by_range("city", &oslo)
                .await
                .expect("a list")
                .len(),
            5
        );
        assert_eq!(cost(before), 2);
        let old = people.get_existing(&key(3)).await.expect("an entity");
        let before = world.meter.total();
        people
            .replace(&old, person(3, "rome"))
            .await
            .expect("a replace");
        assert_eq!(cost(before), change, "{placement:?}");
    }
}

/// One group transaction updates the list for every entity of a group.
pub(crate) async fn a_group_changes_each_list_once(harness: &Harness) {
    let world = People::new(harness).await;
    let people = world
        .open(vec![by_city(&Placement::SamePartition, Shape::LIST)])
        .await;
    let changes: Vec<_> = (0..99)
        .map(|id| Change::insert(person(id, "oslo")))
        .collect();
    let before = world.meter.total();
    people.write(&changes).await.expect("a group");
    assert_eq!(world.meter.total() - before, 2);
    let found = people
        .references("city", &list(&Placement::SamePartition, "oslo"))
        .await
        .expect("a list");
    assert_eq!(found.len(), 99);
}

/// An index is built while writers continue, then scrubbed without findings, then dropped. All forms run
/// concurrently, because each spends most of its time waiting.
pub(crate) async fn lists_are_built_while_writers_continue(harness: &Harness) {
    let shapes = [
        small(Overflow::Entities),
        small(Overflow::Blob),
        Shape::Blob,
    ];
    let lists = placements(harness).await.into_iter().zip(shapes);
    join_all(
        lists.map(|(placement, shape)| is_built_while_writers_go_on(harness, placement, shape)),
    )
    .await;
}

async fn is_built_while_writers_go_on(harness: &Harness, placement: Placement, shape: Shape) {
    let world = People::new(harness).await;
    let before = world.open_with(vec![], changing()).await;
    let groups: Vec<_> = (0..200)
        .map(|id| Change::insert(person(id, CITIES[id % 3])))
        .collect();
    for group in groups.chunks(100) {
        before.write(group).await.expect("a group");
    }
    let people = world
        .open_with(vec![by_city(&placement, shape.clone())], changing())
        .await;
    let writes = async {
        for id in (0..200).step_by(9) {
            let city = (id % 2 == 0).then(|| CITIES[(id + 1) % 3]);
            people
                .modify(&key(id), |_| Ok(city.map(|city| person(id, city))))
                .await
                .expect("a write");
        }
    };
    let build = async {
        people
            .build("city")
            .expect("an index")
            .run()
            .await
            .expect("a build")
    };
    let ((), built) = futures_util::join!(writes, build);
    assert!(built.groups <= 12, "{} groups", built.groups);
    let scrub = people
        .scrub("city", ScrubMode::Report)
        .await
        .expect("a scrub");
    assert_eq!(scrub.dangling, 0, "{shape:?} {placement:?}");
    assert_eq!(scrub.missing, 0, "{shape:?} {placement:?}");
    assert_eq!(scrub.taken_keys, 0, "{shape:?} {placement:?}");
    assert_eq!(scrub.entries, scrub.entities);
    people.drop_index("city").await.expect("a drop");
    let rows = world
        .store
        .query_all(&world.table, &Default::default())
        .await
        .expect("rows");
    assert!(
        rows.iter().all(|row| row.get("IndexName").is_none()),
        "{shape:?} {placement:?}"
    );
    assert_eq!(world.blobs().await, 0);
}

/// A scrub finds and repairs entries that were changed directly. No lookup returns a wrong entity before the
/// repair.
pub(crate) async fn a_scrub_repairs_lists(harness: &Harness) {
    for (placement, shape) in placements(harness).await.into_iter().zip([
        Shape::LIST,
        small(Overflow::Entities),
        Shape::Blob,
    ]) {
        let world = People::new(harness).await;
        let people = world.open(vec![by_city(&placement, shape.clone())]).await;
        for id in 0..20 {
            people.insert(person(id, "oslo")).await.expect("an insert");
        }
        let store = &world.store;
        store
            .write(&world.table, Operation::InsertOrReplace(person(0, "rome")))
            .await
            .expect("a write");
        store
            .write(&world.table, Operation::Delete(key(1), IfMatch::Any))
            .await
            .expect("a delete");
        let oslo = list(&placement, "oslo");
        let found: BTreeSet<_> = people
            .list("city", &oslo)
            .await
            .expect("a list")
            .into_iter()
            .map(|e| e.into_parts().0)
            .collect();
        assert_eq!(found, (2..20).map(key).collect());
        for mode in [ScrubMode::Report, ScrubMode::Repair] {
            let scrub = people.scrub("city", mode).await.expect("a scrub");
            assert_eq!(scrub.dangling, 2, "{shape:?} {placement:?} {mode:?}");
            assert_eq!(scrub.missing, 1, "{shape:?} {placement:?} {mode:?}");
        }
        let scrub = people
            .scrub("city", ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(scrub.entries, 19, "{shape:?} {placement:?}");
        assert_eq!(scrub.dangling, 0, "{shape:?} {placement:?}");
        assert_eq!(scrub.missing, 0, "{shape:?} {placement:?}");
        assert_eq!(
            people
                .references("city", &list(&placement, "rome"))
                .await
                .expect("a list"),
            [key(0)]
        );
        let city = people.get_existing(&key(0)).await.expect("an entity");
        assert_eq!(city.get("City"), Some(ValueRef::String("rome")));
    }
}

/// A writer changes a list after each of the first requests of a scrub, also between the row of the list and its
/// blob or chunks. The scrub repairs the list all the same.
pub(crate) async fn a_scrub_repairs_a_list_that_changes(harness: &Harness) {
    for request in 1..=6 {
        let shapes = [
            small(Overflow::Entities),
            small(Overflow::Blob),
            Shape::Blob,
        ];
        let lists = placements(harness).await.into_iter().zip(shapes);
        join_all(lists.map(|list| is_repaired_while_it_changes(harness, list, request))).await;
    }
}

async fn is_repaired_while_it_changes(harness: &Harness, list: (Placement, Shape), request: u64) {
    let (placement, shape) = list;
    let world = People::new(harness).await;
    let people = Arc::new(world.open(vec![by_city(&placement, shape.clone())]).await);
    let group: Vec<_> = (0..60)
        .map(|id| Change::insert(person(id, "oslo")))
        .collect();
    people.write(&group).await.expect("a group");
    world
        .store
        .write(&world.table, Operation::Delete(key(1), IfMatch::Any))
        .await
        .expect("a delete");
    let writer = people.clone();
    let change = async move {
        writer
            .modify(&key(2), |_| Ok(Some(person(2, "rome"))))
            .await
            .expect("a write");
    };
    let hooked = Arc::new(HookedStore::unarmed_after(world.store.clone(), change));
    let scrubbed = People {
        store: hooked.clone(),
        ..world
    };
    let scrubber = scrubbed
        .open(vec![by_city(&placement, shape.clone())])
        .await;
    hooked.arm(request);
    let scrub = scrubber
        .scrub("city", ScrubMode::Repair)
        .await
        .expect("a scrub");
    assert!(hooked.has_run(), "{shape:?} {placement:?} {request}");
    // The reference that the writer removes counts too if the scrub read it before.
    assert!(
        (1..=2).contains(&scrub.dangling),
        "{shape:?} {placement:?} {request}: {}",
        scrub.dangling
    );
    let scrub = people
        .scrub("city", ScrubMode::Report)
        .await
        .expect("a scrub");
    assert_eq!(scrub.dangling, 0, "{shape:?} {placement:?} {request}");
    assert_eq!(scrub.missing, 0, "{shape:?} {placement:?} {request}");
    assert_eq!(scrub.entries, 59, "{shape:?} {placement:?} {request}");
}
