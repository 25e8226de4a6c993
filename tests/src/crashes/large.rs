//! Large entities with faults: at each request to the table or to the blobs the process crashes, or the request
//! or its answer is lost. After a collection every row has its blobs, and every blob has a row.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, TryStreamExt as _, stream};
use object_store::path::Path as BlobPath;
use object_store::{ObjectStore, ObjectStoreExt as _};
use table_core::adapter::{CrashPoint, FaultInjector, Faulty};
use table_core::model::{ETag, IfMatch, TableName};
use table_core::store::{Outcome, Result, TableStore};
use table_core::typed::TableEntity;
use table_patterns::large::{CollectMode, LargeOptions};
use table_patterns::{Database, Table};

use crate::Harness;
use crate::fault_runs::{FaultRun, run_with_faults};
use crate::faulty_blobs::FaultyBlobs;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", rename_all = "PascalCase")]
struct Report {
    #[partition_key]
    department: String,
    #[row_key]
    number: u32,
    title: String,
    #[large(over = 10)]
    text: String,
    #[large(over = 10)]
    picture: Option<Vec<u8>>,
    #[etag]
    etag: Option<ETag>,
}

fn report(text: &str, picture: Option<Vec<u8>>) -> Report {
    let (department, title) = ("Sales & Co".to_owned(), "T".to_owned());
    Report {
        department,
        number: 1,
        title,
        text: text.to_owned(),
        picture,
        etag: None,
    }
}

/// The stored report, with two blobs.
fn first() -> Report {
    report("a text that does not stay in its row", Some(vec![255; 100]))
}

fn other() -> Report {
    report(
        "another text that does not stay in its row",
        Some(vec![1; 50]),
    )
}

fn small() -> Report {
    report("x", None)
}

/// Larger than one part of an upload.
fn film() -> Vec<u8> {
    vec![3; 8 * 1024 * 1024 + 1]
}

type Reports = Table<Report>;
type Act = for<'a> fn(&'a Reports) -> BoxFuture<'a, Result<()>>;

/// A write: its name, the stored report before, the write itself, the stored report after.
type Write = (
    &'static str,
    Option<fn() -> Report>,
    Act,
    Option<fn() -> Report>,
);

const WRITES: [Write; 9] = [
    (
        "insert",
        None,
        |reports| async { reports.insert(&other()).await.map(drop) }.boxed(),
        Some(other),
    ),
    ("upsert of a new one", None, upsert, Some(other)),
    ("upsert", Some(first), upsert, Some(other)),
    (
        "replace",
        Some(first),
        |reports| async { reports.replace_if(&other(), IfMatch::Any).await.map(drop) }.boxed(),
        Some(other),
    ),
    (
        "shrink",
        Some(first),
        |reports| async { reports.upsert(&small()).await.map(drop) }.boxed(),
        Some(small),
    ),
    (
        "insert_or_merge",
        Some(first),
        |reports| {
            let merged = Report {
                picture: None,
                ..other()
            };
            async move { reports.insert_or_merge(&merged).await.map(drop) }.boxed()
        },
        Some(|| Report {
            picture: first().picture,
            ..other()
        }),
    ),
    (
        "update",
        Some(first),
        update,
        Some(|| Report {
            text: other().text,
            ..first()
        }),
    ),
    (
        "delete",
        Some(first),
        |reports| {
            let key = first().entity_key();
            async { reports.delete(key?, IfMatch::Any).await.map(drop) }.boxed()
        },
        None,
    ),
    (
        "stream",
        Some(first),
        put_stream,
        Some(|| Report {
            picture: Some(film()),
            ..first()
        }),
    ),
];

fn upsert(reports: &Reports) -> BoxFuture<'_, Result<()>> {
    async { reports.upsert(&other()).await.map(drop) }.boxed()
}

fn update(reports: &Reports) -> BoxFuture<'_, Result<()>> {
    async {
        let change = |report: &mut Report| {
            report.text = other().text;
            Ok(())
        };
        reports
            .update(first().entity_key()?, change)
            .await
            .map(drop)
    }
    .boxed()
}

fn put_stream(reports: &Reports) -> BoxFuture<'_, Result<()>> {
    async {
        let content = stream::iter([Ok(Bytes::from(film()))]);
        reports
            .put_stream(
                first().entity_key()?,
                Report::PICTURE,
                content,
                IfMatch::Any,
            )
            .await
            .map(drop)
    }
    .boxed()
}

/// The stores that all processes share.
struct Fixture {
    store: Arc<dyn TableStore>,
    table: TableName,
    blobs: Arc<dyn ObjectStore>,
}

impl Fixture {
    async fn new(harness: &Harness, before: Option<fn() -> Report>) -> Self {
        let (store, table) = (
            harness.store().clone(),
            harness.table().await.name().clone(),
        );
        let fixture = Self {
            store,
            table,
            blobs: harness.blobs().await,
        };
        if let Some(before) = before {
            fixture
                .reports(&fixture.blobs, LargeOptions::default())
                .insert(&before())
                .await
                .expect("a new report");
        }
        fixture
    }

    fn reports(&self, blobs: &Arc<dyn ObjectStore>, options: LargeOptions) -> Reports {
        self.open(self.store.clone(), blobs.clone(), options)
    }

    fn open(
        &self,
        store: Arc<dyn TableStore>,
        blobs: Arc<dyn ObjectStore>,
        options: LargeOptions,
    ) -> Reports {
        let db = Database::new(store).with_blobs(blobs).with_large(options);
        db.table(self.table.clone()).expect("a table")
    }

    /// Opens the table for a process with these faults.
    async fn with_faults(&self, faults: &FaultInjector, options: LargeOptions) -> Reports {
        let store = Arc::new(Faulty::new(self.store.clone(), faults.clone()));
        let blobs = Arc::new(FaultyBlobs::new(self.blobs.clone(), faults.clone()));
        self.open(store, blobs, options)
    }

    /// Waits until the blobs' clock gives later blobs a later time than all present blobs.
    async fn wait_until_blobs_are_old(&self) {
        let (before, mut pause) = (self.now().await, Duration::from_millis(1));
        while self.now().await <= before {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(300));
        }
    }

    async fn now(&self) -> DateTime<Utc> {
        let path = BlobPath::from("now");
        self.blobs.put(&path, "".into()).await.expect("a blob");
        self.blobs.head(&path).await.expect("a blob").last_modified
    }

    /// Returns the entity after a collection has removed all orphans.
    async fn at_rest(&self, case: &FaultRun<'_>) -> Option<Report> {
        self.wait_until_blobs_are_old().await;
        collect(&self.reports(&self.blobs, hasty()))
            .await
            .expect("the stores work");
        let reports = self.reports(&self.blobs, LargeOptions::default());
        let scrub = reports.scrub_blobs().await.expect("the stores work");
        assert_eq!(scrub.missing, [], "{case}: a row refers to a missing blob");
        let left: Vec<_> = self
            .blobs
            .list(Some(&BlobPath::from("large")))
            .try_collect()
            .await
            .expect("names");
        assert_eq!(
            left.len() as u64,
            scrub.references,
            "{case}: {left:?} are left"
        );
        let read = reports
            .get(first().entity_key().expect("a key"))
            .await
            .expect("the stores work");
        read.map(|read| Report { etag: None, ..read })
    }
}

/// No process writes during the collection.
fn hasty() -> LargeOptions {
    LargeOptions::default().with_write_deadline(Duration::ZERO)
}

async fn collect(reports: &Reports) -> Result<()> {
    reports
        .collect_blobs(Duration::from_nanos(1), CollectMode::Remove)
        .await
        .map(drop)
}

/// The entity is in its old or in its new state: in the new state if the write was acknowledged, in the old
/// state if an error said that nothing was written.
pub(crate) async fn crashed_writes_are_complete_or_absent(harness: &Harness) {
    for (name, before, act, after) in WRITES {
        run_with_faults(harness, name, async |run| {
            let fixture = Fixture::new(harness, before).await;
            let reports = fixture
                .with_faults(&run.faults, LargeOptions::default())
                .await;
            run.begin();
            let answered = act(&reports).await;
            run.end();
            assert!(
                !run.has_no_fault() || answered.is_ok(),
                "{run}: {answered:?}"
            );
            let (before, after) = (before.map(|before| before()), after.map(|after| after()));
            let found = fixture.at_rest(run).await;
            match answered {
                Ok(()) => assert!(found == after, "{run}: an acknowledged write is lost"),
                Err(error) if error.outcome() == Outcome::NotApplied => {
                    assert!(
                        found == before,
                        "{run}: the write took effect despite {error}"
                    );
                }
                Err(_) => {
                    assert!(
                        found == before || found == after,
                        "{run}: the entity is in neither state"
                    );
                }
            }
        })
        .await;
    }
}

/// A collection that crashes removes only orphans. A second collection removes the rest.
pub(crate) async fn crashed_collections_can_be_repeated(harness: &Harness) {
    run_with_faults(harness, "collect", async |run| {
        let fixture = Fixture::new(harness, Some(first)).await;
        let faults = FaultInjector::new(0);
        let crashing = fixture.with_faults(&faults, LargeOptions::default()).await;
        // The read, two blobs, and the row, which is not written.
        faults.crash_at(4, CrashPoint::Before);
        crashing
            .replace_if(&other(), IfMatch::Any)
            .await
            .expect_err("the process has crashed");
        fixture.wait_until_blobs_are_old().await;
        let reports = fixture.with_faults(&run.faults, hasty()).await;
        run.begin();
        let answered = collect(&reports).await;
        run.end();
        assert!(
            !run.has_no_fault() || answered.is_ok(),
            "{run}: {answered:?}"
        );
        assert!(
            fixture.at_rest(run).await == Some(first()),
            "{run}: the entity has changed"
        );
    })
    .await;
}
