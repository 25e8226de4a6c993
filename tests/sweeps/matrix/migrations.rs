//! Upgrades of schema versions × every layout × every store, in plaintext and encrypted: planned, interrupted, resumed, over rows of two
//! earlier versions while their programs go on. Programs past the indexes of another are refused before anything is written, and
//! values from before their encryption are converted only where they are declared.

use std::sync::{Arc, Mutex};

use conformance::SmallPageStore;
use conformance::open_table;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty};
use table_core::model::{Entity, ValueRef};
use table_core::prelude::*;
use table_core::store::OperationKind;
use table_core::typed::PlainTable;
use table_core::typed::{Upgrade, UpgradeCursor, UpgradeReport};
use table_encryption::Keys;
use table_patterns::index::{Index, IndexedEntities, Placement, ScrubMode};
use table_patterns::{Database, Table};

use crate::backends::{Embedded, Memory};
use crate::programs::{Program, Subject as _};
use crate::revisions::{Revision, on_every_layout};
use crate::world::{Backends, SECRET, TABLE, World, is_large, kek};

on_every_layout!(upgraded);

/// The number of stored entities of each schema version, from 1.
async fn versions(world: &World) -> [usize; 3] {
    let (rows, _) = world.raw().rows().await;
    let mut counts = [0; 3];
    for row in rows
        .iter()
        .filter(|row| row.get("EntityType").is_some() && !row.is_index_entry())
    {
        match row.get("EntityVersion") {
            Some(ValueRef::Int32(version)) => counts[usize::try_from(version).unwrap() - 1] += 1,
            _ => counts[0] += 1,
        }
    }
    counts
}

/// The world with pages of three rows, and an injector of faults.
fn in_small_pages(world: &World) -> (World, FaultInjector) {
    let faults = FaultInjector::new(1);
    let small: Arc<dyn TableStore> = Arc::new(SmallPageStore::new(3, world.store.clone()));
    (
        world.through(Arc::new(Faulty::new(small, faults.clone()))),
        faults,
    )
}

/// Runs an upgrade until the store fails. Returns the last place that it has reported.
async fn interrupted<T: TableEntity>(
    upgrade: Upgrade<T>,
    faults: &FaultInjector,
) -> Option<UpgradeCursor> {
    let last = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&last);
    let keep = move |report: &UpgradeReport| seen.lock().unwrap().clone_from(&report.cursor);
    faults.add(
        FaultRule::new(Fault::FailBefore)
            .on(OperationKind::Query)
            .nth(3)
            .times(1),
    );
    upgrade
        .on_progress(keep)
        .run()
        .await
        .expect_err("the third query fails");
    last.lock().unwrap().clone()
}

async fn upgraded<A, B, C>(backends: Backends, sealed: bool)
where
    A: Program<Of: Revision>,
    B: Program<Of: Revision>,
    C: Program<Of: Revision>,
{
    let what = std::any::type_name::<C>();
    let world = World::new(backends, sealed).await;
    // The latest program declares the indexes.
    let (small, faults) = in_small_pages(&world);
    let newest = C::open(&small).await.unwrap();
    let middle = B::open(&world).await.unwrap();
    let oldest = A::open(&world).await.unwrap();
    for r in 1..=8 {
        oldest.put(&A::Of::new(r)).await.unwrap();
    }
    for r in [9, 10] {
        middle.put(&B::Of::new(r)).await.unwrap();
    }
    newest.put(&C::Of::new(11)).await.unwrap();

    let before = world.rows().await;
    let plan = newest.upgrade().plan().await.unwrap();
    assert_eq!(
        (plan.older(), plan.upgraded, plan.failed),
        (10, 0, 0),
        "{what}: {plan:?}"
    );
    assert_eq!(plan.versions, [(1, 8), (2, 2), (3, 1)].into(), "{what}");
    assert_eq!(world.rows().await, before, "{what}: a plan writes nothing");

    // Interrupted, and resumed at a cursor that was kept as text.
    let cursor = interrupted(newest.upgrade(), &faults).await;
    let left = newest.upgrade().plan().await.unwrap().older();
    assert!(left > 0, "{what}: the interruption came too late");
    let resumed = match &cursor {
        Some(cursor) => newest.upgrade().resume(cursor.to_string().parse().unwrap()),
        None => newest.upgrade(),
    };
    let resumed = resumed.with_concurrency(2).run().await.unwrap();
    assert_eq!(
        (resumed.upgraded, resumed.failed, resumed.cursor),
        (left, 0, None),
        "{what}: resumed at {cursor:?}"
    );
    assert_eq!(versions(&world).await, [0, 0, 11], "{what}");
    newest.check().await;
    world.check(what).await;

    // Nothing is lost, and the values are those of the conversions.
    assert_eq!(
        newest.numbers().await.unwrap(),
        (1..=11).collect::<Vec<_>>(),
        "{what}"
    );
    for r in 1..=11 {
        let read = newest.read(r).await.unwrap().unwrap();
        assert_eq!(
            (read.name(), read.secret()),
            (&*format!("name{r}!"), &*format!("SECRET{r}")),
            "{what}"
        );
    }
    assert_eq!(
        world.stored_blobs().await.len(),
        if is_large::<C::Of>() { 11 } else { 0 },
        "{what}: blobs"
    );

    // Version 2 goes on with the upgraded rows, version 1 is refused.
    middle
        .change(1, |subject| subject.rename("changed"))
        .await
        .unwrap();
    assert_eq!(
        versions(&world).await,
        [0, 0, 11],
        "{what}: a row stays a row of version 3"
    );
    newest.check().await;
    let before = world.rows().await;
    let refused = [
        oldest.read(1).await.map(drop),
        oldest.change(1, |subject| subject.rename("x")).await,
        oldest.put(&A::Of::new(1)).await,
    ];
    assert!(refused.iter().all(Result::is_err), "{what}: {refused:?}");
    assert_eq!(
        world.rows().await,
        before,
        "{what}: version 1 wrote an upgraded row"
    );

    // What version 1 writes after the upgrade is upgraded by the next one.
    oldest.put(&A::Of::new(12)).await.unwrap();
    assert_eq!(newest.upgrade().run().await.unwrap().upgraded, 1, "{what}");
    newest.check().await;
    let again = newest.upgrade().run().await.unwrap();
    assert_eq!(
        (again.upgraded, again.older(), again.rows),
        (0, 0, 12),
        "{what}"
    );
    world.check(what).await;
}

/// Another program declares an index of a property that only version 1 has, over plain rows of version 1. The plain program of version 3 is refused to
/// upgrade them before anything is written; the indexed one takes the entries away with the property. In stores that one process writes, where a build
/// need not wait for other processes.
async fn declared(backends: Backends) {
    use crate::revisions::{indexed, plain};
    let world = World::new(backends, false).await;
    let (store, table) = (|| world.store.clone(), world.table(TABLE));
    let oldest = <Table<plain::V1> as Program>::open(&world).await.unwrap();
    for r in 1..=4 {
        oldest.put(&plain::V1::new(r)).await.unwrap();
    }
    let name = Index::keyed("name", Placement::SamePartition, "", "name_{name}_{RowKey}").unwrap();
    let name = name.with_discriminator("EntityType", "Thing");
    let auditor = IndexedEntities::open(store(), table.clone(), vec![name], world.options.clone())
        .await
        .unwrap();
    auditor.build("name").unwrap().run().await.unwrap();
    assert_eq!(
        auditor
            .scrub("name", ScrubMode::Report)
            .await
            .unwrap()
            .entries,
        4
    );

    let newest = PlainTable::<plain::V3>::new(store(), table.clone()).unwrap();
    let before = world.rows().await;
    let plan = newest.upgrade().plan().await.unwrap();
    assert_eq!((plan.older(), plan.failed), (4, 0), "{plan:?}");
    let refused = newest.upgrade().run().await.unwrap_err().to_string();
    assert!(refused.contains("has the index 'name."), "{refused}");
    assert_eq!(
        world.rows().await,
        before,
        "a refused upgrade wrote something"
    );

    let newest = open_table::<indexed::V3>(store(), table, world.options.clone())
        .await
        .unwrap();
    for index in ["tag", "full", "sole", "copy"] {
        newest
            .entities()
            .await
            .expect("an open table")
            .build(index)
            .unwrap()
            .run()
            .await
            .unwrap();
    }
    let done = newest.upgrade().run().await.unwrap();
    assert_eq!((done.upgraded, done.failed), (4, 0), "{done:?}");
    let left = auditor.scrub("name", ScrubMode::Report).await.unwrap();
    assert_eq!((left.entries, left.dangling, left.missing), (0, 0, 0));
    crate::world::Upkeep::check(&newest).await;
    assert_eq!(newest.numbers().await.unwrap(), [1, 2, 3, 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_of_another_program_in_memory() {
    declared(|| Box::new(Memory)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_of_another_program_on_disk() {
    declared(|| Box::new(Embedded::new())).await;
}

/// Rows of version 1 from before their encryption. A program with keys lists each as unreadable and writes nothing; where plaintext is declared, the
/// upgrade encrypts them.
async fn encrypted<A, C>(backends: Backends)
where
    A: Program<Of: Revision>,
    C: Program<Of: Revision>,
{
    let what = std::any::type_name::<C>();
    let open = World::new(backends, false).await;
    let strict = open.sealed(Keys::new(kek(1)), |builder, _| builder);
    let newest = C::open(&strict).await.unwrap();
    // The program from before declares nothing: its rows have no marks.
    let table = Database::new(open.store.clone())
        .view::<Entity>(open.table(TABLE))
        .unwrap();
    for r in 1..=3 {
        let row = A::Of::new(r).to_entity().unwrap();
        table
            .store()
            .write(table.name(), Operation::Insert(row))
            .await
            .unwrap();
    }
    let before = open.rows().await;
    let plan = newest.upgrade().plan().await.unwrap();
    assert_eq!((plan.older(), plan.failed), (0, 3), "{what}: {plan:?}");
    let run = newest.upgrade().run().await.unwrap();
    assert_eq!((run.upgraded, run.failed), (0, 3), "{what}: {run:?}");
    let texts: Vec<_> = run
        .failures
        .iter()
        .map(|failure| failure.error.to_string())
        .collect();
    assert!(
        texts
            .iter()
            .all(|text| text.contains("plaintext") && !text.contains(SECRET)),
        "{what}: {texts:?}"
    );
    assert_eq!(
        open.rows().await,
        before,
        "{what}: a failed upgrade wrote something"
    );

    let declared = open.sealed(Keys::new(kek(1)), |builder, table| {
        builder.encrypt_type::<C::Of>(table).accept_plaintext(table)
    });
    let newest = C::open(&declared).await.unwrap();
    let done = newest.upgrade().run().await.unwrap();
    assert_eq!((done.upgraded, done.failed), (3, 0), "{what}: {done:?}");
    declared.check(what).await;
    let newest = C::open(&strict).await.unwrap();
    newest.check().await;
    for r in 1..=3 {
        assert_eq!(
            newest.read(r).await.unwrap().unwrap().secret(),
            format!("SECRET{r}"),
            "{what}"
        );
    }
}

macro_rules! encrypted {
    ($($store:ident: $backend:expr;)*) => {
        mod values_from_before_their_encryption {

            use table_patterns::Table;

            use super::{Backends, encrypted};
            use crate::revisions::{indexed, plain, sealed_indexed, sealed_plain};

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $store() {
                const BACKENDS: Backends = || Box::new($backend);
                encrypted::<Table<plain::V1>, Table<sealed_plain::V3>>(BACKENDS).await;
                encrypted::<Table<indexed::V1>, Table<sealed_indexed::V3>>(BACKENDS).await;
            })*
        }
    };
}

encrypted! {
    memory: crate::backends::Memory;
    embedded: crate::backends::Embedded::new();
    azurite: crate::backends::Emulated::new(&[]);
    served: crate::backends::Served;
}
