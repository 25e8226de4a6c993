//! Upkeep of tables by a program that knows only the names of the tables.

use std::sync::Arc;
use std::time::Duration;

use futures_util::join;
use table_core::model::{Entity, IfMatch, Key, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_patterns::index::{
    Index, IndexOptions, IndexState, IndexedEntities, Placement, ScrubMode, StoredIndex,
};
use table_patterns::journal::{Acknowledge, Entries};
use table_patterns::upkeep::{Due, Part, Upkeep, UpkeepReport};
use tokio::time::timeout;

use super::index_lists::changing;
use crate::Harness;

struct World {
    store: Arc<dyn TableStore>,
    table: TableName,
}

impl World {
    async fn new(harness: &Harness) -> Self {
        let store = harness.store().clone();
        // These programs crash. Writers of one process would wait for their unfinished writes; processes of a
        // service do not.
        if let Some(local) = store.context().local_writers() {
            local.serve();
        }
        Self {
            store,
            table: harness.table().await.name().clone(),
        }
    }

    async fn open(&self, indexes: &[&Index], options: IndexOptions) -> IndexedEntities {
        let indexes = indexes.iter().map(|index| (*index).clone()).collect();
        let opened =
            IndexedEntities::open(self.store.clone(), self.table.clone(), indexes, options).await;
        opened.expect("indexes that make sense")
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep::new(self.store.clone())
            .tables([self.table.clone()])
            .with_options(changing())
    }

    async fn delete(&self, key: Key) {
        let deleted = self
            .store
            .write(&self.table, Operation::Delete(key, IfMatch::Any))
            .await;
        deleted.expect("what is there goes");
    }

    /// Adds up one number of an index over several upkeep reports.
    fn sum(&self, reports: &[UpkeepReport], index: &Index, of: impl Fn(&Kept) -> usize) -> usize {
        reports
            .iter()
            .filter_map(|report| report.tables[&self.table].indexes.get(index.id()))
            .map(of)
            .sum()
    }
}

type Kept = table_patterns::upkeep::IndexUpkeep;

fn key(id: usize) -> Key {
    Key::new("p", format!("{id:04}")).expect("a legal key")
}

fn at(partition: &str, row: &str) -> Key {
    Key::new(partition, row).expect("a legal key")
}

fn entity(id: usize, of: &str) -> Entity {
    Entity::from(key(id))
        .with("City", "oslo")
        .with("Email", format!("{id}@x"))
        .with("EntityType", of)
}

fn keyed(of: &'static str, name: &str, partition: &str, row: &str) -> Index {
    let index = Index::keyed(name, Placement::OtherPartition, partition, row).expect("a template");
    index.with_discriminator("EntityType", of)
}

async fn assert_in_step(entities: &IndexedEntities, index: &Index, entries: usize) {
    entities.refresh().await.expect("a manifest");
    assert_eq!(
        entities.state(index.id()),
        IndexState::Readable,
        "{index:?}"
    );
    let scrub = entities
        .scrub(index.id(), ScrubMode::Report)
        .await
        .expect("a scrub");
    assert_eq!(scrub.entries, entries, "{index:?}");
    assert_eq!(scrub.dangling, 0, "{index:?}");
    assert_eq!(scrub.missing, 0, "{index:?}");
    assert_eq!(scrub.taken_keys, 0, "{index:?}");
}

/// Runs the work until the manifest shows the wanted state of an index, then drops the work.
async fn crash_when<T>(
    entities: &IndexedEntities,
    work: impl Future<Output = T>,
    when: impl Fn(&StoredIndex) -> bool,
) {
    let mut work = Box::pin(work);
    loop {
        let step = timeout(Duration::from_millis(20), &mut work).await;
        assert!(
            step.is_err(),
            "the work ended before the manifest showed the state"
        );
        if entities
            .declared()
            .await
            .expect("a manifest")
            .iter()
            .any(&when)
        {
            return;
        }
    }
}

/// A table with two types has unfinished writes, a half-done build, a half-done drop, a dangling entry and a
/// missing entry. Two concurrent upkeeps repair each of them once.
pub(crate) async fn unfinished_work_of_crashed_programs_is_finished_once(harness: &Harness) {
    let world = World::new(harness).await;
    let by_email = keyed("Employee", "email", "email_{Email}", "email").unique_within_table();
    let by_city = keyed("Customer", "city", "city_{City}", "{RowKey}");
    let to_go = keyed("Customer", "old", "old_{City}", "{RowKey}");
    let all = [&by_email, &by_city, &to_go];
    let program = world.open(&all, changing()).await;
    for id in 0..6 {
        program
            .insert(entity(id, "Employee"))
            .await
            .expect("a new employee");
        program
            .insert(entity(10 + id, "Customer"))
            .await
            .expect("a new customer");
    }
    let mut committed = changing();
    committed.acknowledge = Acknowledge::Committed;
    let died = world.open(&all, committed).await;
    for id in [7, 8] {
        let written = died
            .insert(entity(id, "Employee"))
            .await
            .expect("a new employee");
        assert_eq!(written.entries, Entries::Pending);
    }
    world.delete(at("city_oslo", "0011")).await;
    world.delete(key(2)).await;
    let by_row = keyed("Customer", "row", "row_{City}", "{RowKey}");
    let newer = world
        .open(&[&by_email, &by_city, &to_go, &by_row], changing())
        .await;
    let build = newer.build("row").expect("an index").run();
    crash_when(&newer, build, |stored| {
        stored.name == "row" && stored.state == IndexState::WriteOnly
    })
    .await;
    crash_when(&newer, newer.drop_index("old"), StoredIndex::is_dropping).await;

    let (first, second) = (world.upkeep(), world.upkeep());
    let (first, second) = join!(first.run_once(), second.run_once());
    let reports = [first.expect("a report"), second.expect("a report")];
    assert!(
        reports.iter().all(|report| report.errors().count() == 0),
        "{reports:?}"
    );
    let swept = reports
        .each_ref()
        .map(|report| report.tables[&world.table].swept.applied);
    assert!((2..=4).contains(&swept.iter().sum::<usize>()), "{swept:?}");
    assert_eq!(
        world.sum(&reports, &by_row, |kept| kept.built),
        1,
        "{reports:?}"
    );
    assert_eq!(
        world.sum(&reports, &by_email, |kept| kept.scrubbed.dangling),
        1,
        "{reports:?}"
    );
    assert_eq!(
        world.sum(&reports, &by_city, |kept| kept.scrubbed.missing),
        1,
        "{reports:?}"
    );
    assert!(
        world.sum(&reports, &to_go, |kept| kept.dropped) > 0,
        "{reports:?}"
    );

    let (employees, customers) = (7, 6);
    for (index, entries) in [
        (&by_email, employees),
        (&by_city, customers),
        (&by_row, customers),
    ] {
        assert_in_step(&newer, index, entries).await;
    }
    let left = Query::new().with_filter(Filter::eq("IndexName", to_go.id()));
    assert!(
        world
            .store
            .query_all(&world.table, &left)
            .await
            .expect("rows")
            .is_empty()
    );
    let report = world.upkeep().run_once().await.expect("a report");
    assert_eq!(report.due().count(), 0, "{report:?}");
    assert_eq!(report.errors().count(), 0, "{report:?}");
}

/// An upkeep reports an opaque index by name, keeps the index of another type in the same table, and keeps the
/// other tables if one table is missing.
pub(crate) async fn opaque_indexes_are_reported_by_name(harness: &Harness) {
    let world = World::new(harness).await;
    let opaque = Index::new("opaque", Placement::OtherPartition, "1", |entity| {
        Key::new("opaque", entity.key().row()).map(Some)
    });
    let opaque = opaque.with_discriminator("EntityType", "Employee");
    let by_city = keyed("Customer", "city", "city_{City}", "{RowKey}");
    let program = world.open(&[&opaque, &by_city], changing()).await;
    for id in 0..3 {
        program
            .insert(entity(id, "Employee"))
            .await
            .expect("a new employee");
        program
            .insert(entity(10 + id, "Customer"))
            .await
            .expect("a new customer");
    }
    world.delete(at("city_oslo", "0011")).await;
    let missing = harness.unused_name();
    let upkeep = world.upkeep().tables([missing.clone()]);
    let report = upkeep.run_once().await.expect("a report");
    let due: Vec<_> = report.due().collect();
    let [(table, part, reason)] = due[..] else {
        panic!("{report:?}")
    };
    assert_eq!(table, &world.table);
    assert_eq!(part, Part::Index(opaque.id(), IndexState::Readable));
    assert!(matches!(reason, Some(Due::Opaque)), "{reason:?}");
    assert_eq!(
        world.sum(std::slice::from_ref(&report), &by_city, |kept| kept
            .scrubbed
            .missing),
        1
    );
    assert_in_step(&program, &by_city, 3).await;
    let error = report.tables[&missing]
        .error
        .as_ref()
        .expect("no such table");
    assert!(error.is_table_not_found(), "{error}");
}
