//! What handles of one table and several databases owe each other.

#[cfg(feature = "blobs")]
mod large;

use table_core::adapter::{Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::MANIFEST_PARTITION;
use table_core::prelude::*;
use table_core::query::{Filter, Query};
use table_core::store::{Result, ServiceProfile};

use crate::bulk::BulkTable as _;
use crate::index::{IndexOptions, ScrubMode};
use crate::{Database, Table};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Job", rename_all = "PascalCase")]
struct Job {
    #[partition_key]
    queue: String,
    #[row_key(format = "job_{:04}")]
    id: u32,
    state: String,
}

/// The same entities, as a later program knows them.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Job", rename_all = "PascalCase")]
#[index(state, partition_key = "state_{state}", row_key = "{queue}_{id:04}")]
struct Indexed {
    #[partition_key]
    queue: String,
    #[row_key(format = "job_{:04}")]
    id: u32,
    state: String,
}

fn job(id: u32, state: &str) -> Job {
    Job {
        queue: "mail".to_owned(),
        id,
        state: state.to_owned(),
    }
}

fn jobs(store: &MemoryStore) -> Result<Table<Job>> {
    Database::with_options(store.clone(), IndexOptions::local()).table("Jobs")
}

async fn declared(store: &MemoryStore) -> Result<Table<Indexed>> {
    let db = Database::with_options(store.clone(), IndexOptions::local());
    let table = db.table("Jobs")?;
    table.declare().await?;
    Ok(table)
}

async fn assert_in_step(table: &Table<Indexed>, entries: usize) -> Result<()> {
    let entities = table.entities().await?;
    let found = entities.scrub("state", ScrubMode::Report).await?;
    assert_eq!(
        (
            found.dangling,
            found.missing,
            found.taken_keys,
            found.entries
        ),
        (0, 0, 0, entries)
    );
    Ok(())
}

#[tokio::test]
async fn a_move_to_its_own_key_is_refused_by_every_handle() -> Result<()> {
    let store = MemoryStore::new();
    let (one, other) = (jobs(&store)?, jobs(&store)?);
    one.declare().await?;
    one.insert(&job(1, "new")).await?;
    let key = || Job::key("mail", 1u32);
    let named = Database::new(store.clone()).table::<Job>("JOBS")?;
    for target in [&one, &other, &named] {
        let moved = one.move_to(key()?, target, key()?).await;
        assert!(moved.is_err());
        assert_eq!(one.get(key()?).await?, Some(job(1, "new")));
    }
    declared(&store)
        .await?
        .entities()
        .await?
        .build("state")?
        .run()
        .await?;
    for target in [&one, &other] {
        let moved = one.move_to(key()?, target, key()?).await;
        assert!(moved.is_err());
        assert_eq!(one.get(key()?).await?, Some(job(1, "new")));
    }
    Ok(())
}

/// On Cosmos DB, names of tables differ by their case.
#[tokio::test]
async fn handles_of_tables_whose_names_differ_by_case_write_their_own() -> Result<()> {
    let store = MemoryStore::with_profile(ServiceProfile::COSMOS_TABLE);
    let db = Database::with_options(store, IndexOptions::local());
    let (upper, lower) = (db.table::<Indexed>("Jobs")?, db.table::<Indexed>("jobs")?);
    upper.declare().await?;
    lower.declare().await?;
    let one = Indexed {
        queue: "mail".to_owned(),
        id: 1,
        state: "new".to_owned(),
    };
    lower.insert(&one).await?;
    let key = || Indexed::key("mail", 1u32);
    assert_eq!(upper.get(key()?).await?, None);
    assert_eq!(lower.get(key()?).await?, Some(one));
    Ok(())
}

/// First writes of a program without the index, while another program declares it: each write is of the row alone or with its entry.
#[tokio::test]
async fn no_write_is_refused_while_another_program_declares_an_index() -> Result<()> {
    for round in 0..10 {
        let store = MemoryStore::new();
        let plain = jobs(&store)?;
        plain.declare().await?;
        plain.insert(&job(0, "new")).await?;
        let writes = futures_util::future::try_join_all((1..=20).map(|id| {
            let plain = plain.clone();
            async move { plain.upsert(&job(id, "new")).await }
        }));
        let later = declared(&store);
        let (written, later) = futures_util::future::join(writes, later).await;
        assert_eq!(written?.len(), 20, "round {round}");
        let later = later?;
        later.entities().await?.build("state")?.run().await?;
        plain.upsert(&job(1, "done")).await?;
        assert_in_step(&later, 21).await?;
    }
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Run", rename_all = "PascalCase")]
#[index(host, row_key = "host_{host}_{id:04}")]
struct Run {
    #[partition_key]
    queue: String,
    #[row_key(format = "run_{:04}")]
    id: u32,
    host: String,
}

/// A database registers its process once in a table, for all types of the table.
#[tokio::test]
async fn the_types_of_a_database_share_the_row_of_the_process() -> Result<()> {
    let store = MemoryStore::new();
    let served = store.context().local_writers().expect("one process");
    served.serve();
    let manifest = Query::new().with_filter(Filter::eq(Filter::PARTITION_KEY, MANIFEST_PARTITION));
    let db = Database::new(store.clone());
    let (indexed, runs) = (db.table::<Indexed>("Jobs")?, db.table::<Run>("Jobs")?);
    indexed.declare().await?;
    runs.declare().await?;
    let rows = store.query_all(indexed.name(), &manifest).await?;
    let is_process = |row: &&Entity| row.key().row().starts_with("process~");
    assert_eq!(rows.iter().filter(is_process).count(), 1);
    Ok(())
}

#[tokio::test]
async fn a_view_keeps_the_settings_of_its_handle() -> Result<()> {
    let store = MemoryStore::new();
    let mut options = IndexOptions::local();
    options.attempts = 1;
    let db = Database::with_options(store.clone(), options);
    let (jobs, others) = (db.table::<Job>("Jobs")?, jobs(&store)?);
    jobs.declare().await?;
    jobs.insert(&job(1, "new")).await?;
    let key = || Job::key("mail", 1u32);
    let many = others.clone().with_attempts(1);
    for table in [&jobs, &db.view::<Job>("Jobs")?, &many.view::<Job>()?] {
        let mut calls = 0;
        let changed = table.update(key()?, |changed| {
            calls += 1;
            // Another writer is faster, each time.
            let faster = job(1, &format!("other {calls}"));
            let other = others.upsert(&faster);
            futures_util::FutureExt::now_or_never(other).expect("memory answers at once")?;
            changed.state.push('x');
            Ok(())
        });
        assert!(changed.await.unwrap_err().is_precondition_failed());
        assert_eq!(calls, 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_handle_that_ignores_indexes_reads_no_manifest() -> Result<()> {
    let store = MemoryStore::new();
    let later = declared(&store).await?;
    let meter = RequestMeter::new();
    let metered = Metered::new(store.clone(), meter.clone());
    let ignoring = Database::new(metered)
        .table::<Job>("Jobs")?
        .ignoring_indexes();
    ignoring.insert(&job(1, "new")).await?;
    let rows = futures_util::stream::iter([job(2, "new"), job(3, "new")]);
    let inserted = ignoring.bulk().insert_all(rows).await?;
    assert_eq!((inserted.written, meter.total()), (2, 2));
    let found = later
        .entities()
        .await?
        .scrub("state", ScrubMode::Report)
        .await?;
    assert_eq!(found.missing, 3, "the entries are left to a scrub");
    Ok(())
}

#[tokio::test]
async fn a_group_writes_an_entity_once() -> Result<()> {
    let store = MemoryStore::new();
    let plain = jobs(&store)?;
    plain.declare().await?;
    for indexed in [false, true] {
        if indexed {
            declared(&store).await?;
        }
        let mut group = plain.group(Job::partition("mail")?);
        let first = group.upsert(&job(1, "new"))?.upsert(&job(1, "done"));
        let refused = match first {
            Ok(_) => group.commit().await.map(drop),
            Err(error) => Err(error),
        };
        let error = refused.unwrap_err();
        assert!(error.to_string().contains("occurs twice"), "{error}");
        assert_eq!(error.failed_index(), Some(1));
        assert_eq!(plain.get(Job::key("mail", 1u32)?).await?, None);
    }
    Ok(())
}

/// The first row shows that the table has no index. While the rows are changed, another program builds one.
#[tokio::test]
async fn a_set_operation_maintains_an_index_that_is_built_during_it() -> Result<()> {
    let store = MemoryStore::new();
    let plain = jobs(&store)?;
    plain.declare().await?;
    for id in 0..150 {
        plain.insert(&job(id, "new")).await?;
    }
    let later = declared(&store).await?;
    let entities = later.entities().await?.clone();
    let is_built = std::sync::OnceLock::new();
    let all = plain.query();
    let updated = all.update(|job| {
        is_built.get_or_init(|| {
            let build = entities.build("state")?;
            let built =
                futures_util::FutureExt::now_or_never(async { { build }.run().await.map(drop) });
            built.expect("memory answers at once")
        });
        job.state = "done".to_owned();
        Ok(())
    });
    let updated = updated.await?;
    assert!(is_built.get().is_some_and(Result::is_ok), "{is_built:?}");
    assert_eq!((updated.written, updated.failed), (150, 0));
    assert_in_step(&later, 150).await
}
