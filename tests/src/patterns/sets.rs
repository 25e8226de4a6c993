//! Set operations: `query().update` and `query().delete` on every typed handle, with other writers and with faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::open_table;
use object_store::memory::InMemory;
use table_core::adapter::{Faulty, Metered, RequestMeter};
use table_core::prelude::*;
use table_core::store::{Error, Result};
use table_patterns::index::{IndexOptions, ScrubMode};
use table_patterns::journal::Timing;
use table_patterns::large::LargeOptions;
use table_patterns::spread::SpreadTable;
use table_patterns::time_slices::TimeSlices;
use table_patterns::wide::WideTable;
use table_patterns::{Database, Table};

use futures_util::{TryStreamExt as _, stream};
use table_core::memory::MemoryStore;
use table_patterns::bulk::{BulkOptions, BulkTable, copy_store};

use super::handles::{
    Cell, Indexed, Large, LargeIndexed, Note, Spread, Typed, Untyped, Verbs, Wider, World,
};
use crate::Harness;
use crate::fault_runs::{FaultRun, run_with_faults};
use crate::wrappers::{HookedStore, LaterIsFaster};

/// Runs a check on every handle that has queries.
macro_rules! every_handle {
    ($harness:expr, $check:ident) => {
        $check::<Table<Untyped>>($harness).await;
        $check::<Table<Typed>>($harness).await;
        $check::<Table<Indexed>>($harness).await;
        $check::<WideTable<Wider>>($harness).await;
        $check::<Table<Large>>($harness).await;
        $check::<Table<LargeIndexed>>($harness).await;
        $check::<SpreadTable<Spread>>($harness).await;
        $check::<TimeSlices<Untyped>>($harness).await;
    };
}

fn renamed<N: Note>(note: &mut N) -> Result<()> {
    note.set_title("new");
    Ok(())
}

/// Opens a handle with counted requests and these notes.
async fn filled<H: Verbs>(harness: &Harness, numbers: &[u32]) -> (World, H, RequestMeter) {
    let (world, meter) = (World::new(harness).await, RequestMeter::new());
    let metered: Arc<dyn TableStore> =
        Arc::new(Metered::new(Arc::clone(&world.store), meter.clone()));
    let handle = H::open(&world.through(metered)).await;
    for number in numbers {
        handle
            .insert(&H::Of::new(*number, "old", Some("text")))
            .await
            .expect("a new note");
    }
    (world, handle, meter)
}

async fn writes_of<H: Verbs>(harness: &Harness) {
    let (_world, handle, meter) = filled::<H>(harness, &[1, 2]).await;
    handle.set_unknown(1, 7).await;
    let (done, cost) = meter.measure(handle.set_update(renamed)).await;
    let done = done.expect("an update");
    assert_eq!(
        Cell::Requests(cost.total()),
        H::CELLS.set_update,
        "{}: requests of an update",
        H::NAME
    );
    let counts = (done.written, done.unchanged, done.failed, done.ambiguous);
    assert_eq!(counts, (2, 0, 0, 0), "{}: {:?}", H::NAME, done.failures);
    for number in [1, 2] {
        let note = handle.get_existing(number).await.expect("the note");
        assert_eq!(note.title(), "new", "{}", H::NAME);
        assert_eq!(note.text(), Some("text"), "{}", H::NAME);
    }
    assert_eq!(
        handle.unknown_value(1).await,
        Some(7),
        "{}: an undeclared property",
        H::NAME
    );

    // An update that changes nothing writes nothing.
    let again = handle.set_update(renamed).await.expect("an update");
    assert_eq!(again.written, 0, "{}", H::NAME);
    assert_eq!(again.unchanged, 2, "{}", H::NAME);
    assert_eq!(again.requests, 0, "{}", H::NAME);

    // Failures of single entities: an error of the change, and a change of the key.
    let refused = handle.set_update(|note| match note.number() {
        1 => Err(Error::application("not the first")),
        _ => {
            note.set_number(9);
            Ok(())
        }
    });
    let refused = refused.await.expect("a summary");
    assert_eq!(refused.written, 0, "{}", H::NAME);
    assert_eq!(refused.failed, 2, "{}", H::NAME);
    assert_eq!(refused.requests, 0, "{}", H::NAME);
    let texts: Vec<String> = refused
        .failures
        .iter()
        .filter_map(|one| one.result.as_ref().err())
        .map(Error::to_string)
        .collect();
    assert!(
        texts.iter().any(|text| text.contains("not the first")),
        "{}: {texts:?}",
        H::NAME
    );
    assert!(
        texts.iter().any(|text| text.contains("move_to")),
        "{}: {texts:?}",
        H::NAME
    );

    let (done, cost) = meter.measure(handle.set_delete()).await;
    assert_eq!(
        Cell::Requests(cost.total()),
        H::CELLS.set_delete,
        "{}: requests of a delete",
        H::NAME
    );
    assert_eq!(
        done.expect("a delete").into_result().expect("no failure"),
        2,
        "{}",
        H::NAME
    );
    assert_eq!(
        handle.count(None).await.expect("an answer"),
        0,
        "{}",
        H::NAME
    );
}

/// `query().update` and `query().delete` write every entity of a query, at the documented cost.
pub(super) async fn sets_write_every_entity_of_a_query(harness: &Harness) {
    every_handle!(harness, writes_of);
}

async fn inserts_of<H: Verbs + BulkTable<Entity = <H as Verbs>::Of>>(harness: &Harness) {
    let (_world, handle, _) = filled::<H>(harness, &[2]).await;
    let note = |number| <H as Verbs>::Of::new(number, "bulk", Some("text"));
    let options = BulkOptions::default().with_retry(None);
    let progress = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&progress);
    let inserts = handle
        .bulk()
        .with_options(options.clone())
        .insert_all(stream::iter([1, 2, 3].map(note)));
    let done = inserts
        .on_progress(move |so_far| seen.store(so_far.written + so_far.failed, Ordering::Relaxed));
    let done = done.await.expect("a summary");
    assert_eq!(done.written, 2, "{}: {:?}", H::NAME, done.failures);
    assert_eq!(done.failed, 1, "{}: {:?}", H::NAME, done.failures);
    assert_eq!(done.ambiguous, 0, "{}: {:?}", H::NAME, done.failures);
    assert_eq!(
        done.failures[0].key,
        <H as Verbs>::Of::key_of(2),
        "{}",
        H::NAME
    );
    assert_eq!(progress.load(Ordering::Relaxed), 3, "{}", H::NAME);
    assert_eq!(
        handle.get_existing(2).await.expect("the note").title(),
        "old",
        "{}",
        H::NAME
    );

    // A stream of results ends at its first error, after what it has read before.
    let broken = Error::application("a broken input");
    let input = [Ok(note(4)), Ok(note(5)), Err(broken), Ok(note(6))];
    let inserts = handle
        .bulk()
        .with_options(options)
        .insert_all(stream::iter(input));
    let error = inserts.outcomes().try_fold(0, |count, one| {
        assert!(one.result.is_ok(), "{}: {one:?}", H::NAME);
        std::future::ready(Ok(count + 1))
    });
    let error = error.await.expect_err("a broken input");
    assert!(
        error.to_string().contains("a broken input"),
        "{}: {error}",
        H::NAME
    );
    let numbers: Vec<u32> = handle
        .all(None)
        .await
        .expect("notes")
        .iter()
        .map(Note::number)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5], "{}", H::NAME);

    // So does an entity whose key cannot be stored: the RowKey has 6 digits.
    let input = stream::iter([note(7), note(1_000_000), note(8)]);
    let options = BulkOptions::default().with_retry(None);
    let error = handle.bulk().with_options(options).insert_all(input).await;
    let error = error.expect_err("a key that cannot be stored").to_string();
    assert!(error.contains("6 digits"), "{}: {error}", H::NAME);
    let numbers: Vec<u32> = handle
        .all(None)
        .await
        .expect("notes")
        .iter()
        .map(Note::number)
        .collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 7], "{}", H::NAME);
}

/// `bulk().insert_all` takes entities and results of entities, on every handle.
pub(super) async fn bulk_inserts_use_the_write_path_of_the_handle(harness: &Harness) {
    every_handle!(harness, inserts_of);
}

async fn inserts_in_order_of<H: Verbs + BulkTable<Entity = <H as Verbs>::Of>>(harness: &Harness) {
    let world = World::new(harness).await;
    let slow = Arc::new(LaterIsFaster::new(Arc::clone(&world.store)));
    let handle = H::open(&world.through(slow.clone())).await;
    // A first insert registers the type, so that the delayed requests are those of the input.
    handle
        .insert(&H::Of::new(9, "first", None))
        .await
        .expect("a new note");
    slow.begin_again();
    let titles = ["first", "second", "third"];
    let notes = titles
        .iter()
        .flat_map(|title| (1..=4).map(|number| <H as Verbs>::Of::new(number, title, None)));
    let notes: Vec<_> = notes.collect();
    let options = BulkOptions::default().with_retry(None);
    let done = handle
        .bulk()
        .with_options(options)
        .insert_all(stream::iter(notes))
        .await
        .expect("a summary");
    assert_eq!(
        (done.written, done.failed, done.ambiguous),
        (4, 8, 0),
        "{}: {:?}",
        H::NAME,
        done.failures
    );
    for number in 1..=4 {
        assert_eq!(
            handle.get_existing(number).await.expect("the note").title(),
            "first",
            "{}: {number}",
            H::NAME
        );
    }
}

/// `bulk().insert_all` inserts entities of one key in the order of the input, on every handle: the first is stored.
pub(super) async fn bulk_inserts_keep_the_order_of_a_key(harness: &Harness) {
    every_handle!(harness, inserts_in_order_of);
}

/// A copied store has the values of large entities, and their blobs in the other blob store.
pub(super) async fn a_store_is_copied_with_its_blobs(harness: &Harness) {
    let (table, blobs) = (harness.unused_name(), harness.blobs().await);
    let (source, from_blobs) = (MemoryStore::new(), Arc::new(InMemory::new()));
    let db = Database::new(source.clone()).with_blobs(from_blobs.clone());
    let from = db.table::<Report>(table.clone()).expect("a table");
    from.declare().await.expect("a new table");
    for number in 0..5 {
        from.insert(&Report::new(number))
            .await
            .expect("a new report");
    }
    let copy =
        || copy_store(Arc::new(source.clone()), harness.store().clone()).tables([table.clone()]);
    let refused = copy().run().await.expect_err("values in blobs").to_string();
    assert!(refused.contains("with_blobs"), "{refused}");
    let with_blobs =
        copy()
            .into_existing()
            .with_blobs(from_blobs, blobs.clone(), LargeOptions::default().root);
    let report = with_blobs.run().await.expect("a copy");
    assert_eq!(report.tables.len(), 1, "{report:?}");
    let db = Database::new(harness.store().clone()).with_blobs(blobs);
    let to = db.table::<Report>(table).expect("the copy");
    let read = to.query().all().await.expect("the reports");
    assert_eq!(read, (0..5).map(Report::new).collect::<Vec<_>>());
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", rename_all = "PascalCase")]
struct Report {
    #[partition_key]
    department: String,
    #[row_key(format = "{:06}")]
    number: u32,
    #[large(over = 16)]
    text: String,
}

impl Report {
    fn new(number: u32) -> Self {
        Self {
            department: "Sales".into(),
            number,
            text: format!("report {number}").repeat(10),
        }
    }
}

/// A copied store has its manifests, entries and unique values, and is refused over rows of others.
pub(super) async fn a_store_is_copied_with_its_manifests(harness: &Harness) {
    let (table, other) = (harness.unused_name(), harness.unused_name());
    let source: Arc<dyn TableStore> = Arc::new(MemoryStore::new());
    let from = open_jobs(source.clone(), &table).await.expect("a table");
    for job in jobs() {
        from.insert(&job).await.expect("a new job");
    }
    from.flush().await; // a copy refuses unfinished writes
    source.create_table(&other).await.expect("a new table");
    let row = Entity::new("p", "r").expect("a key");
    source
        .write(&other, Operation::Insert(row.clone()))
        .await
        .expect("a new row");

    harness
        .store()
        .create_table(&other)
        .await
        .expect("a new table");
    let of_others = row.with("Owner", "another program");
    harness
        .store()
        .write(&other, Operation::Insert(of_others))
        .await
        .expect("a row of others");
    let copy =
        copy_store(source.clone(), harness.store().clone()).tables([table.clone(), other.clone()]);
    let refused = copy.run().await.expect_err("a target with rows");
    assert!(refused.to_string().contains("into_existing"), "{refused}");
    let missing = harness
        .store()
        .query(&table, &Query::new(), None)
        .await
        .expect_err("nothing was written");
    assert!(missing.is_table_not_found(), "{missing}");

    let copy = copy.into_existing().resumable("a test");
    let report = copy.run().await.expect("a copy");
    assert_eq!(report.tables.len(), 2);
    assert_eq!(copy.verify().await.expect("a comparison"), []);
    let to = open_jobs(harness.store().clone(), &table)
        .await
        .expect("the copy");
    check_indexes(&to, "a copied store").await;
    assert_eq!(
        to.by(Job::by_ticket("mail").ticket(4))
            .get()
            .await
            .expect("a lookup")
            .expect("the job")
            .id,
        4
    );
}

async fn conflicts_of<H: Verbs>(harness: &Harness) {
    let world = World::new(harness).await;
    let other = H::open(&world).await;
    for number in [1, 2, 3] {
        other
            .insert(&H::Of::new(number, "old", Some("text")))
            .await
            .expect("a new note");
    }
    // Another writer changes the first entity and removes the second after the set operation has read them.
    let at_write = async move {
        other.set_unknown(1, 8).await;
        other.remove(2).await;
    };
    let store = Arc::new(HookedStore::unarmed(Arc::clone(&world.store), at_write));
    let handle = H::open(&world.through(store.clone() as Arc<dyn TableStore>)).await;
    let Cell::Requests(requests) = H::CELLS.query else {
        return;
    };
    store.arm(requests + 1);
    let done = handle.set_update(renamed).await.expect("an update");
    assert!(store.has_run(), "{}", H::NAME);
    // Entities in groups of their own are written at once: the second may be written before it is removed.
    assert!((2..=3).contains(&done.written), "{}: {done:?}", H::NAME);
    assert_eq!(done.failed, 0, "{}: {:?}", H::NAME, done.failures);
    assert_eq!(done.ambiguous, 0, "{}: {:?}", H::NAME, done.failures);
    let titles = handle.all(None).await.expect("the notes");
    let found: Vec<_> = titles
        .iter()
        .map(|note| (note.number(), note.title().to_owned()))
        .collect();
    assert_eq!(
        found,
        [(1, "new".to_owned()), (3, "new".to_owned())],
        "{}",
        H::NAME
    );
    assert_eq!(
        handle.unknown_value(1).await,
        Some(8),
        "{}: the property of the other writer",
        H::NAME
    );
}

/// A set operation loses no change of another writer, and writes the others of the group.
pub(super) async fn sets_lose_no_change_of_another_writer(harness: &Harness) {
    every_handle!(harness, conflicts_of);
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Job", rename_all = "PascalCase")]
#[index(state, row_key = "state_{state}_{id:06}")]
#[index(ticket, row_key = "ticket_{ticket}", unique = "partition")]
#[index(owner, partition_key = "owner_{owner}", row_key = "{queue}_{id:06}")]
struct Job {
    #[partition_key]
    queue: String,
    #[row_key(format = "job_{:06}")]
    id: u32,
    state: String,
    ticket: Option<u32>,
    owner: String,
}

fn jobs() -> impl Iterator<Item = Job> {
    (0..60).map(|id| Job {
        queue: if id % 2 == 0 { "mail" } else { "print" }.to_owned(),
        id,
        state: if id % 3 == 0 { "done" } else { "new" }.to_owned(),
        ticket: Some(id),
        owner: format!("{}", id % 5),
    })
}

async fn open_jobs(store: Arc<dyn TableStore>, table: &TableName) -> Result<Table<Job>> {
    open_table::<Job>(store, table.clone(), IndexOptions::local()).await
}

async fn check_indexes(jobs: &Table<Job>, what: &str) {
    for index in Job::SCHEMA.indexes {
        let found = jobs
            .entities()
            .await
            .expect("an open table")
            .scrub(&index.name, ScrubMode::Report)
            .await
            .expect("a scrub");
        assert_eq!(found.dangling, 0, "{what}: {}", index.name);
        assert_eq!(found.missing, 0, "{what}: {}", index.name);
        assert_eq!(found.taken_keys, 0, "{what}: {}", index.name);
    }
}

/// Index entries and unique values follow a set operation; one taken value is the failure of one entity.
pub(super) async fn entries_and_unique_values_follow(harness: &Harness) {
    let table = harness.unused_name();
    // The deletion has entries in 30 partitions: on a busy service that takes longer than the lease of a second, and the rest would be
    // left to recovery, which is not the subject here.
    let mut options = IndexOptions::local();
    options.timing = Timing::new(
        Duration::from_secs(60),
        Duration::from_secs(5),
        Duration::ZERO,
    )
    .expect("a long lease");
    options.cache = Duration::from_secs(2);
    let open = open_table::<Job>(harness.store().clone(), table.clone(), options)
        .await
        .expect("a table");
    for job in jobs() {
        open.insert(&job).await.expect("a new job");
    }
    let done = open.query().filter(Job::STATE.eq("done"));
    let summary = done.update(|job| {
        job.state = "closed".to_owned();
        job.ticket = None;
        Ok(())
    });
    let summary = summary.await.expect("an update");
    assert_eq!(summary.written, 20, "{:?}", summary.failures);
    assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    check_indexes(&open, "after an update").await;
    let closed = open
        .by(Job::by_state("mail").state("closed"))
        .count()
        .await
        .expect("a lookup");
    assert_eq!(closed, 10);

    // Every job of the partition gets the ticket of one: that one is unchanged, the others fail.
    let mail = open
        .query()
        .partition(Job::partition("mail").expect("a key"));
    let new = mail.filter(Job::STATE.eq("new"));
    let taken = new.update(|job| {
        job.ticket = Some(2);
        Ok(())
    });
    let taken = taken.await.expect("a summary");
    assert_eq!(taken.written, 0);
    assert_eq!(taken.unchanged, 1);
    assert_eq!(taken.failed, 19);
    let errors = taken
        .failures
        .iter()
        .filter_map(|one| one.result.as_ref().err());
    assert!(
        errors.clone().all(Error::is_unique_violation),
        "{:?}",
        taken.failures
    );
    check_indexes(&open, "after a refused update").await;

    let deleted = open
        .query()
        .partition(Job::partition("print").expect("a key"))
        .delete()
        .await;
    assert_eq!(
        deleted
            .expect("a summary")
            .into_result()
            .expect("no failure"),
        30
    );
    check_indexes(&open, "after a delete").await;
    let again = Job {
        queue: "print".into(),
        id: 61,
        state: "new".into(),
        ticket: Some(1),
        owner: "0".into(),
    };
    open.insert(&again)
        .await
        .expect("the ticket of a deleted job is free");

    assert_eq!(open.query().count().await.expect("an answer"), 31);
}

/// After a crash or a lost request, a second run of the set operation completes it, and no entry is stale.
pub(super) async fn crashed_sets_can_be_repeated(harness: &Harness) {
    let run = async |run: &FaultRun<'_>| {
        let table = harness.unused_name();
        let plain = open_jobs(harness.store().clone(), &table)
            .await
            .expect("a table");
        for job in jobs().filter(|job| job.id < 12) {
            plain.insert(&job).await.expect("a new job");
        }
        let store = Arc::new(Faulty::new(harness.store().clone(), run.faults.clone()));
        let open = open_jobs(store, &table).await.expect("a table");
        let close = |job: &mut Job| {
            job.state = "closed".to_owned();
            Ok(())
        };
        run.begin();
        let done = open.query().update(close).await;
        run.end();
        if run.has_no_fault() {
            assert_eq!(
                done.expect("a summary").into_result().expect("no failure"),
                12,
                "{run}"
            );
        }
        plain
            .entities()
            .await
            .expect("an open table")
            .journal()
            .sweep(&[], std::time::Duration::ZERO)
            .await
            .expect("a sweep");
        let again = plain.query().update(close).await.expect("a summary");
        again
            .into_result()
            .unwrap_or_else(|error| panic!("{run}: {error}"));
        let all = plain.query().all().await.expect("the jobs");
        assert!(
            all.len() == 12 && all.iter().all(|job| job.state == "closed"),
            "{run}: {all:?}"
        );
        plain
            .entities()
            .await
            .expect("an open table")
            .journal()
            .sweep(&[], std::time::Duration::ZERO)
            .await
            .expect("a sweep");
        check_indexes(&plain, &run.to_string()).await;
    };
    run_with_faults(harness, "a set update with entries", run).await;
}
