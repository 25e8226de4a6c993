//! Large entities with indexes: a process dies at every request to either store, or loses the answer and lives on. After
//! recovery and a collection every index is what the entities say, every row has its blobs, and no blob is left.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt as _, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{CrashPoint, FaultInjector, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::model::{ETag, IfMatch};
use table_core::query::Query;
use table_core::store::{Outcome, Result, TableStore, TableStoreExt as _};
use table_core::typed::{EntityKey, TableEntity};

use super::crashes::{FAILURES, Failure};
use super::{LONG, collect_older};
use crate::entry::row_properties::is_mark_property;
use crate::index::{Entry, Index, IndexOptions, Payload, Placement, ScrubMode};
use crate::journal::Clearing;
use crate::large::CollectMode;
use crate::tests::faulty_blobs::FaultyBlobs;
use crate::{Database, Table};

/// Indexed by author in its partition, by topic in another partition, and by a unique code.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Paper", rename_all = "PascalCase")]
#[index(author, row_key = "author_{author}_{number}", payload = fields(title))]
#[index(
    topic,
    partition_key = "topic_{topic}",
    row_key = "{department}_{number}"
)]
#[index(code, partition_key = "code_{code}", row_key = "x", unique = "table")]
struct Paper {
    #[partition_key]
    department: String,
    #[row_key(format = "paper_{}")]
    number: u32,
    author: String,
    topic: String,
    code: Option<String>,
    title: String,
    #[large(over = 10)]
    text: String,
    #[large(over = 10)]
    picture: Option<Vec<u8>>,
    #[etag]
    etag: Option<ETag>,
}

fn paper(number: u32, author: &str, text: &str) -> Paper {
    let (department, title, topic) = ("Sales".to_owned(), "T".to_owned(), format!("on {author}"));
    let code = Some(format!("{author}-{number}"));
    let (author, text) = (author.to_owned(), text.to_owned());
    Paper {
        department,
        number,
        author,
        topic,
        code,
        title,
        text,
        picture: Some(vec![7; 50]),
        etag: None,
    }
}

fn before() -> Paper {
    paper(1, "ken", LONG)
}

fn other() -> Paper {
    paper(1, "kim", "another text that does not stay in its row")
}

fn key(number: u32) -> EntityKey<Paper> {
    Paper::key("Sales", number).unwrap()
}

/// In another department.
fn elsewhere() -> EntityKey<Paper> {
    Paper::key("Marketing", 1u32).unwrap()
}

type Papers = Table<Paper>;

/// The stores of all processes, and one process with injected faults.
struct Rig {
    store: Arc<MemoryStore>,
    inner: Arc<InMemory>,
    meter: RequestMeter,
    faults: FaultInjector,
    blobs: Arc<FaultyBlobs>,
    papers: Papers,
}

impl Rig {
    async fn new() -> Result<Self> {
        Self::on(Arc::new(MemoryStore::new()), Arc::new(InMemory::new())).await
    }

    async fn on(store: Arc<MemoryStore>, inner: Arc<InMemory>) -> Result<Self> {
        let (meter, faults) = (RequestMeter::new(), FaultInjector::new(1));
        let blobs = Arc::new(FaultyBlobs::apart(inner.clone(), faults.clone()));
        let faulty = Faulty::new(Arc::clone(&store) as Arc<dyn TableStore>, faults.clone());
        let metered: Arc<dyn TableStore> = Arc::new(Metered::new(faulty, meter.clone()));
        let papers = open(metered, Arc::clone(&blobs) as Arc<dyn ObjectStore>).await?;
        meter.reset();
        Ok(Self {
            store,
            inner,
            meter,
            faults,
            blobs,
            papers,
        })
    }

    async fn again(&self) -> Result<Self> {
        Self::on(Arc::clone(&self.store), Arc::clone(&self.inner)).await
    }

    async fn blob_count(&self) -> usize {
        self.inner
            .list(None)
            .try_collect::<Vec<_>>()
            .await
            .unwrap()
            .len()
    }

    /// Recovers unfinished writes, collects blobs, and asserts that rows, entries and blobs agree.
    async fn assert_clean(&self, case: &str) -> Result<()> {
        let entities = self.papers.entities().await?;
        for _ in 0..2 {
            let table = self.papers.name().clone();
            entities.journal().sweep(&[table], Duration::ZERO).await?;
        }
        collect_older(&self.papers, Duration::ZERO, CollectMode::Remove).await?;
        let found = self.papers.scrub_blobs().await?;
        assert_eq!(
            found.missing,
            [],
            "{case}: a row refers to a blob that is gone"
        );
        assert_eq!(
            self.blob_count().await as u64,
            found.references,
            "{case}: blobs are left over"
        );
        for index in ["author", "topic", "code"] {
            let scrub = entities.scrub(index, ScrubMode::Report).await?;
            assert_eq!(scrub.dangling, 0, "{case}: {index}");
            assert_eq!(scrub.missing, 0, "{case}: {index}");
            assert_eq!(scrub.taken_keys, 0, "{case}: {index}");
        }
        Ok(())
    }

    /// The papers of an author in Sales, by an index, without their versions.
    async fn of(&self, author: &str) -> Result<Vec<Paper>> {
        self.of_department("Sales", author).await
    }

    async fn of_department(&self, department: &str, author: &str) -> Result<Vec<Paper>> {
        let found = self
            .papers
            .by(Paper::by_author(department).author(author))
            .all()
            .await?;
        Ok(found.into_iter().map(plain).collect())
    }
}

fn plain(paper: Paper) -> Paper {
    Paper {
        etag: None,
        ..paper
    }
}

async fn open(store: Arc<dyn TableStore>, blobs: Arc<dyn ObjectStore>) -> Result<Papers> {
    let options = IndexOptions::local().with_clearing(Clearing::BeforeAnswer);
    let db = Database::with_options(store, options).with_blobs(blobs);
    let papers = db.table("Papers")?;
    papers.declare().await?;
    Ok(papers)
}

/// A table of a process of its own.
async fn declared<T: TableEntity>(
    store: &Arc<MemoryStore>,
    name: &str,
    blobs: &Arc<InMemory>,
) -> Result<Table<T>> {
    let store: Arc<dyn TableStore> = Arc::clone(store) as _;
    let db = Database::with_options(store, IndexOptions::local()).with_blobs(blobs.clone());
    let table = db.table(name)?;
    table.declare().await?;
    Ok(table)
}

type Path = (
    &'static str,
    fn(&Rig) -> BoxFuture<'_, Result<()>>,
    fn() -> Vec<Paper>,
);

/// Each starts with [`before`].
const PATHS: [Path; 11] = [
    (
        "insert",
        |rig| async { rig.papers.insert(&paper(2, "kay", LONG)).await.map(drop) }.boxed(),
        || vec![before(), paper(2, "kay", LONG)],
    ),
    (
        "replace",
        |rig| {
            async {
                rig.papers
                    .replace_if(&other(), IfMatch::Any)
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || vec![other()],
    ),
    (
        "upsert",
        |rig| async { rig.papers.upsert(&other()).await.map(drop) }.boxed(),
        || vec![other()],
    ),
    (
        "insert_or_merge",
        |rig| {
            async {
                rig.papers
                    .insert_or_merge(&Paper {
                        picture: None,
                        ..other()
                    })
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || {
            vec![Paper {
                picture: before().picture,
                ..other()
            }]
        },
    ),
    (
        "update",
        |rig| {
            let change = |paper: &mut Paper| {
                paper.author = "kim".to_owned();
                Ok(())
            };
            async move { rig.papers.update(key(1), change).await.map(drop) }.boxed()
        },
        || {
            vec![Paper {
                author: "kim".to_owned(),
                ..before()
            }]
        },
    ),
    (
        "delete",
        |rig| async { rig.papers.delete(key(1), IfMatch::Any).await.map(drop) }.boxed(),
        Vec::new,
    ),
    (
        "stream",
        |rig| {
            let content = stream::iter([Ok(Bytes::from_static(&[3; 100]))]);
            async {
                rig.papers
                    .put_stream(key(1), Paper::PICTURE, content, IfMatch::Any)
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || {
            vec![Paper {
                picture: Some(vec![3; 100]),
                ..before()
            }]
        },
    ),
    (
        "move within the partition",
        |rig| {
            async {
                let uncoded = |paper: &mut Paper| {
                    paper.code = None;
                    Ok(())
                };
                rig.papers.update(key(1), uncoded).await?;
                rig.papers.move_to(key(1), &rig.papers, key(9)).await
            }
            .boxed()
        },
        || {
            vec![Paper {
                number: 9,
                code: None,
                ..before()
            }]
        },
    ),
    (
        "move to another partition",
        |rig| async { rig.papers.move_to(key(1), &rig.papers, elsewhere()).await }.boxed(),
        || {
            vec![Paper {
                department: "Marketing".to_owned(),
                ..before()
            }]
        },
    ),
    (
        "move over another paper",
        |rig| {
            async {
                let other = Paper {
                    department: "Marketing".to_owned(),
                    code: None,
                    ..other()
                };
                rig.papers.insert(&other).await?;
                rig.papers.move_to(key(1), &rig.papers, elsewhere()).await
            }
            .boxed()
        },
        || {
            vec![Paper {
                department: "Marketing".to_owned(),
                ..before()
            }]
        },
    ),
    (
        "shrink",
        |rig| {
            async {
                rig.papers
                    .upsert(&Paper {
                        picture: None,
                        ..paper(1, "ken", "x")
                    })
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || {
            vec![Paper {
                picture: None,
                ..paper(1, "ken", "x")
            }]
        },
    ),
];

/// What a path may leave that says nothing: something before its end.
fn is_on_the_way(found: &[Paper]) -> bool {
    let uncoded = Paper {
        code: None,
        ..before()
    };
    let over = Paper {
        department: "Marketing".to_owned(),
        code: None,
        ..other()
    };
    found == [before()] || found == [uncoded] || found == [over, before()]
}

#[tokio::test(start_paused = true)]
async fn no_failure_parts_entities_entries_and_blobs() -> Result<()> {
    let mut failures = 0;
    for (name, act, expected) in PATHS {
        for failure in FAILURES {
            for n in 1.. {
                let case = format!("{name}, {failure:?} at request {n}");
                let first = Rig::new().await?;
                first.papers.insert(&before()).await?;
                let rig = first.again().await?;
                arm(failure, &rig, n);
                let answer = act(&rig).await;
                if !has_happened(failure, &rig) {
                    answer?;
                    break;
                }
                failures += 1;
                check(&rig.again().await?, &expected(), answer, &case).await?;
            }
        }
    }
    assert!(failures > 300, "only {failures}");
    Ok(())
}

fn arm(failure: Failure, rig: &Rig, n: u64) {
    failure.prepare_on(&rig.faults, &rig.blobs, n);
}

fn has_happened(failure: Failure, rig: &Rig) -> bool {
    failure.has_happened_on(&rig.faults, &rig.blobs)
}

/// The entities are as they were or as they should be, by their keys and by every index; as they should be if that was said, and
/// as they were if it was said that nothing was written.
async fn check(rig: &Rig, after: &[Paper], told: Result<()>, case: &str) -> Result<()> {
    // Before anything is recovered or collected, whatever is there is whole.
    for at in [key(1), key(2), key(9), elsewhere()] {
        rig.papers
            .get(at)
            .await
            .unwrap_or_else(|error| panic!("{case}: {error}"));
    }
    rig.assert_clean(case).await?;
    let rows = rig.papers.query().stream();
    let found: Vec<Paper> = rows.map_ok(plain).try_collect().await?;
    match told {
        Ok(()) => assert_eq!(found, after, "{case}"),
        Err(error) if error.outcome() == Outcome::NotApplied => {
            assert!(
                is_on_the_way(&found),
                "{case}: {error}, and there is {found:?}"
            );
        }
        Err(_) => assert!(found == after || is_on_the_way(&found), "{case}: {found:?}"),
    }
    for paper in &found {
        let of_author = rig.of_department(&paper.department, &paper.author).await?;
        assert_eq!(
            of_author,
            std::slice::from_ref(paper),
            "{case}: by its author"
        );
        let topic = rig.papers.by(Paper::by_topic(&*paper.topic)).all().await?;
        assert_eq!(
            topic.into_iter().map(plain).collect::<Vec<_>>(),
            std::slice::from_ref(paper),
            "{case}: by its topic"
        );
        if let Some(code) = &paper.code {
            let found = rig.papers.by(Paper::by_code(&**code)).first().await?;
            assert_eq!(
                found.map(plain).as_ref(),
                Some(paper),
                "{case}: by its code"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn costs_are_those_of_an_indexed_write_and_of_its_blobs() -> Result<()> {
    let rig = Rig::new().await?;
    let cost = |rig: &Rig| (std::mem::take(&mut rig.meter.total()), rig.blobs.requests());
    let mut at = cost(&rig);
    let mut spent = |rig: &Rig| {
        let now = cost(rig);
        let spent = (now.0 - at.0, now.1 - at.1);
        at = now;
        spent
    };
    let alone = Paper {
        topic: "on ken".into(),
        code: None,
        ..before()
    };
    rig.papers.insert(&alone).await?;
    assert_eq!(
        spent(&rig),
        (4, 2),
        "the group, an entry elsewhere, the entity again, the journal row; two values"
    );
    rig.papers
        .by(Paper::by_author("Sales").author("ken"))
        .all()
        .await?;
    assert_eq!(spent(&rig), (2, 2), "entries, an entity, its values");
    let titled = rig.papers.by(Paper::by_author("Sales").author("ken"));
    assert_eq!(titled.count().await?, 1);
    assert_eq!(spent(&rig), (1, 0), "entries alone");
    rig.papers
        .merge(key(1), &Paper::patch(), IfMatch::Any)
        .await
        .unwrap_err();
    assert_eq!(spent(&rig), (0, 0), "a patch of nothing");
    let content = stream::iter([Ok(Bytes::from_static(&[3; 100]))]);
    rig.papers
        .put_stream(key(1), Paper::PICTURE, content, IfMatch::Any)
        .await?;
    assert_eq!(
        spent(&rig),
        (2, 2),
        "a read and the group, whose entries stay; the value, the one before"
    );
    rig.papers.delete(key(1), IfMatch::Any).await?;
    assert_eq!(
        spent(&rig),
        (6, 2),
        "a read, and as the insert, and a read of the entry; the values"
    );
    Ok(())
}

/// The rows of the table that are index entries.
async fn entries(rig: &Rig) -> Result<Vec<table_core::model::Entity>> {
    let rows = rig
        .store
        .query_all(rig.papers.name(), &Query::new())
        .await?;
    Ok(rows
        .into_iter()
        .filter(|row| Entry::index_of(row).is_some())
        .collect())
}

#[tokio::test]
async fn no_entry_names_a_blob() -> Result<()> {
    let rig = Rig::new().await?;
    rig.papers.insert(&before()).await?;
    let entries = entries(&rig).await?;
    assert_eq!(entries.len(), 3);
    for entry in &entries {
        assert!(
            crate::blobs::first_name_in_blobs(entry).is_none(),
            "{entry:?}"
        );
    }
    // So a collection need not ask them.
    let found = collect_older(&rig.papers, Duration::ZERO, CollectMode::Remove).await?;
    assert_eq!(found.used, 2);
    assert_eq!(found.orphans, 0);
    assert_eq!(rig.of("ken").await?, [before()]);
    Ok(())
}

#[tokio::test]
async fn a_value_that_is_taken_leaves_no_blob() -> Result<()> {
    let rig = Rig::new().await?;
    rig.papers.insert(&before()).await?;
    let taken = Paper {
        number: 2,
        ..before()
    };
    let error = rig.papers.insert(&taken).await.unwrap_err();
    assert!(error.is_unique_violation(), "{error}");
    assert_eq!(rig.blob_count().await, 2);
    assert_eq!(rig.papers.get(key(2)).await?, None);
    Ok(())
}

/// An entity that is replaced after its entry was read, before its blobs are: read again, and left out if it has another author.
#[tokio::test]
async fn a_lookup_never_shows_a_value_of_another_version() -> Result<()> {
    let rig = Rig::new().await?;
    rig.papers.insert(&before()).await?;
    for (now, expected) in [
        (
            Paper {
                title: "U".into(),
                text: "a new text, long enough".into(),
                ..before()
            },
            1,
        ),
        (other(), 0),
    ] {
        let (papers, replacing) = (rig.papers.clone(), now.clone());
        rig.blobs.before_next_read(async move {
            papers.upsert(&replacing).await.map(drop).unwrap();
        });
        let found = rig.of("ken").await?;
        assert!(rig.blobs.has_run_before_read());
        assert_eq!(found, vec![now; expected]);
    }
    Ok(())
}

/// Code that writes rows alone does not move a row whose values are in blobs, and does not copy a large value into an entry.
#[tokio::test]
async fn rows_with_blobs_are_not_moved_and_not_copied_into_entries() -> Result<()> {
    let rig = Rig::new().await?;
    rig.papers
        .insert(&Paper {
            code: None,
            ..before()
        })
        .await?;
    let entities = rig.papers.entities().await?;
    let (from, to) = (key(1).into_key(), key(5).into_key());
    let error = entities.move_to(&from, entities, &to).await.unwrap_err();
    assert!(
        error.to_string().contains("a `Table` of its type"),
        "{error}"
    );
    assert_eq!(
        rig.papers.get(key(1)).await?.map(plain),
        Some(Paper {
            code: None,
            ..before()
        })
    );

    let row = rig
        .store
        .get(rig.papers.name(), &from, None)
        .await?
        .expect("the row");
    let keyed = |template: &str| Index::keyed("other", Placement::OtherPartition, "o", template);
    let refused = [
        keyed("{Text}_{RowKey}")?,
        keyed("{RowKey}")?.with_payload(Payload::Full),
        keyed("{RowKey}")?.with_payload(Payload::Fields(
            vec!["Title".into(), "Picture".into()].into(),
        )),
        keyed("{RowKey}")?.with_condition("Text ge 'a'")?,
    ];
    for index in refused {
        let error = index.entries(rig.papers.name(), &row).unwrap_err();
        assert!(error.to_string().contains("in a blob"), "{error}");
    }
    assert_eq!(
        keyed("{Title}_{RowKey}")?
            .entries(rig.papers.name(), &row)?
            .len(),
        1
    );
    Ok(())
}

/// One write of the journal: the unique value is never free, and no other entity gets it.
#[tokio::test]
async fn a_move_to_another_partition_keeps_its_unique_value() -> Result<()> {
    let rig = Rig::new().await?;
    rig.papers.insert(&before()).await?;
    let (tables, blobs) = (rig.meter.total(), rig.blobs.requests());
    rig.papers.move_to(key(1), &rig.papers, elsewhere()).await?;
    // By the journal: 8, 3 for the unique value, one for the partition of the topic, and a read of the topic's entry.
    assert_eq!(
        (rig.meter.total() - tables, rig.blobs.requests() - blobs),
        (13, 6),
        "two values: read, put, removed"
    );
    let moved = Paper {
        department: "Marketing".to_owned(),
        ..before()
    };
    assert_eq!(
        rig.papers
            .by(Paper::by_code("ken-1"))
            .first()
            .await?
            .map(plain),
        Some(moved.clone())
    );
    assert_eq!(rig.papers.get(key(1)).await?, None);
    assert_eq!(rig.blob_count().await, 2);

    let taken = rig
        .papers
        .insert(&Paper {
            number: 7,
            ..before()
        })
        .await
        .unwrap_err();
    assert!(taken.is_unique_violation(), "{taken}");
    let blocked = Paper {
        code: Some("kim-3".into()),
        ..paper(3, "kim", LONG)
    };
    rig.papers.insert(&blocked).await?;
    assert!(
        rig.papers
            .move_to(key(8), &rig.papers, elsewhere())
            .await
            .unwrap_err()
            .is_entity_not_found()
    );
    rig.assert_clean("moved").await?;

    // Another table has indexes of its own.
    let archive = declared::<Paper>(&rig.store, "Archive", &rig.inner).await?;
    rig.papers.move_to(elsewhere(), &archive, key(1)).await?;
    assert_eq!(
        archive
            .by(Paper::by_code("ken-1"))
            .first()
            .await?
            .map(plain),
        Some(before())
    );
    assert_eq!(rig.papers.by(Paper::by_code("ken-1")).first().await?, None);
    Ok(())
}

/// The row that is being moved has a mark, which no reader and no copy gets.
#[tokio::test]
async fn a_paper_that_is_being_moved_is_read_written_and_moved_without_its_mark() -> Result<()> {
    let rig = Rig::new().await?;
    rig.papers.insert(&before()).await?;
    let mover = rig.again().await?;
    // Both ends, the pair's row is not written: the source is marked.
    mover.faults.crash_at(4, CrashPoint::Before);
    mover
        .papers
        .move_to(key(1), &mover.papers, elsewhere())
        .await
        .unwrap_err();
    let at = key(1).into_key();
    let stored = rig
        .store
        .get(rig.papers.name(), &at, None)
        .await?
        .expect("the row");
    assert!(
        stored
            .properties()
            .iter()
            .any(|p| is_mark_property(p.name())),
        "{stored:?}"
    );

    let read = rig.papers.get_existing(key(1)).await?;
    assert_eq!(plain(read.clone()), before());
    rig.papers
        .replace(&Paper {
            title: "U".to_owned(),
            ..read
        })
        .await?;
    let row = rig
        .store
        .get(rig.papers.name(), &at, None)
        .await?
        .expect("the row");
    assert!(
        !row.properties().iter().any(|p| is_mark_property(p.name())),
        "{row:?}"
    );
    rig.papers.move_to(key(1), &rig.papers, elsewhere()).await?;
    assert_eq!(rig.papers.get_existing(elsewhere()).await?.title, "U");
    rig.assert_clean("moved twice").await
}

#[tokio::test]
async fn a_drop_that_would_leave_entries_is_refused() -> Result<()> {
    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Scan")]
    #[index(place, table = "Places", row_key = "{shelf}_{number}")]
    struct Scan {
        #[partition_key]
        shelf: String,
        #[row_key]
        number: u32,
        #[large(over = 10)]
        bytes: Vec<u8>,
    }
    let rig = Rig::new().await?;
    let scans = declared::<Scan>(&rig.store, "Scans", &rig.inner).await?;
    scans
        .insert(&Scan {
            shelf: "s".into(),
            number: 1,
            bytes: vec![1; 100],
        })
        .await?;
    let error = scans.delete_table_if_exists().await.unwrap_err();
    assert!(error.to_string().contains("Places"), "{error}");
    assert_eq!(
        scans.get_existing(Scan::key("s", 1u32)?).await?.bytes.len(),
        100
    );
    assert_eq!(
        scans
            .entities()
            .await?
            .scrub("place", ScrubMode::Report)
            .await?
            .entries,
        1
    );
    Ok(())
}

/// The entry of an older row cannot depend on a value in a blob.
#[tokio::test]
async fn a_conversion_that_indexes_a_large_value_is_refused() -> Result<()> {
    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Note")]
    struct First {
        #[partition_key]
        p: String,
        #[row_key]
        n: u32,
        #[large(over = 10)]
        text: String,
    }
    #[derive(Clone, Debug, TableEntity)]
    #[entity(type = "Note", version = 2, previous = First)]
    #[index(start, row_key = "start_{start}_{n}")]
    struct Second {
        #[partition_key]
        p: String,
        #[row_key]
        n: u32,
        start: String,
        #[large(over = 10)]
        text: String,
    }
    impl From<First> for Second {
        fn from(First { p, n, text }: First) -> Self {
            Self {
                p,
                n,
                start: text.chars().take(3).collect(),
                text,
            }
        }
    }
    let (store, blobs) = (Arc::new(MemoryStore::new()), Arc::new(InMemory::new()));
    let first = declared::<First>(&store, "Notes", &blobs).await?;
    first
        .insert(&First {
            p: "p".into(),
            n: 1,
            text: LONG.into(),
        })
        .await?;
    first
        .insert(&First {
            p: "p".into(),
            n: 2,
            text: "short".into(),
        })
        .await?;
    let second = declared::<Second>(&store, "Notes", &blobs).await?;
    let entities = second.entities().await?;
    let error = entities.build("start")?.run().await.unwrap_err();
    assert!(error.to_string().contains("from a large value"), "{error}");

    // A value in its row is there for the conversion.
    second
        .delete(Second::key("p", 1u32)?, IfMatch::Any)
        .await
        .unwrap_err();
    // The older program knows the index by its definition: the row has no property of the index, and so no entry.
    first.delete(First::key("p", 1u32)?, IfMatch::Any).await?;
    assert_eq!(blobs.list(None).count().await, 0);
    entities.build("start")?.run().await?;
    let found = second.by(Second::by_start("p").start("sho")).all().await?;
    assert_eq!(found.len(), 1);
    Ok(())
}
