//! Tables of types with large fields: what differs from other types.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, stream};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::memory::MemoryStore;
use table_core::prelude::*;
use table_core::store::{ErrorKind, Operation, Result};

use crate::index::{Index, Placement, ScrubMode, Shape};
use crate::large::{CollectMode, LargeOptions};
use crate::tests::faulty_blobs::FaultyBlobs;
use crate::{Database, Table};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", rename_all = "PascalCase")]
#[index(author, row_key = "author_{author}_{number}")]
#[index(code, partition_key = "code_{code}", row_key = "x", unique = "table")]
struct Report {
    #[partition_key]
    department: String,
    #[row_key(format = "report_{}")]
    number: u32,
    author: String,
    code: Option<String>,
    #[large(over = 10)]
    text: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Note", rename_all = "PascalCase")]
struct Note {
    #[partition_key]
    department: String,
    #[row_key(format = "note_{}")]
    number: u32,
    title: String,
    #[large(over = 10)]
    text: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Line", rename_all = "PascalCase")]
struct Line {
    #[partition_key]
    department: String,
    #[row_key(format = "line_{}")]
    number: u32,
}

#[derive(Debug, PartialEq, TableEntity)]
#[entity(projection_of = Note, rename_all = "PascalCase")]
struct Title {
    title: String,
}

const LONG: &str = "a text that does not stay in its row";

fn report(number: u32, text: &str) -> Report {
    let (department, author) = ("Sales".to_owned(), "Kwok".to_owned());
    let code = Some(format!("S-{number}"));
    Report {
        department,
        number,
        author,
        code,
        text: text.to_owned(),
    }
}

fn note(number: u32, text: &str) -> Note {
    Note {
        department: "Sales".to_owned(),
        number,
        title: "T".to_owned(),
        text: text.to_owned(),
    }
}

struct Rig {
    db: Database,
    meter: RequestMeter,
    blobs: Arc<FaultyBlobs>,
    inner: Arc<InMemory>,
}

impl Rig {
    fn new() -> Self {
        let (meter, inner) = (RequestMeter::new(), Arc::new(InMemory::new()));
        let faults = table_core::adapter::FaultInjector::new(1);
        let blobs = Arc::new(FaultyBlobs::apart(inner.clone(), faults));
        let store = Metered::new(MemoryStore::new(), meter.clone());
        let db = Database::new(store).with_blobs(Arc::clone(&blobs) as Arc<dyn ObjectStore>);
        Self {
            db,
            meter,
            blobs,
            inner,
        }
    }

    /// A table that has been written, so that the manifest is known.
    async fn table<T: TableEntity>(&self) -> Result<Table<T>> {
        let table = self.db.table::<T>("Reports")?;
        table.declare().await?;
        self.db.store().manifest(table.name()).await?;
        self.meter.reset();
        Ok(table)
    }

    /// Another process builds an index while the next blob is stored. It is as slow as the build is.
    fn builds_an_index_before_the_next_put(&self) -> Result<Table<Titled>> {
        let served = self.db.store().context().local_writers();
        served.expect("memory").serve();
        let later = Database::new(self.db.store().clone()).with_blobs(self.inner.clone());
        let (titled, of_build) = (later.table("Reports")?, later.table::<Titled>("Reports")?);
        self.blobs.before_next_put(async move {
            let entities = of_build.entities().await.unwrap();
            entities.build("title").unwrap().run().await.unwrap();
        });
        Ok(titled)
    }

    async fn blob_count(&self) -> usize {
        use futures_util::StreamExt as _;
        self.inner.list(None).count().await
    }
}

#[tokio::test]
async fn without_a_blob_store_the_table_is_refused_by_name() {
    let error = Database::new(MemoryStore::new())
        .table::<Note>("Reports")
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("'Text' in 'Reports'") && text.contains("with_blobs"),
        "{text}"
    );
}

#[tokio::test]
async fn projections_counts_and_rows_read_no_blob() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    notes.insert(&note(1, LONG)).await?;
    let before = rig.blobs.requests();
    let title: Option<Title> = notes.get_as(Note::key("Sales", 1u32)?).await?;
    assert_eq!(title, Some(Title { title: "T".into() }));
    assert_eq!(notes.query().project::<Title>().all().await?.len(), 1);
    assert_eq!(notes.query().project::<Entity>().all().await?.len(), 1);
    assert_eq!(notes.query().count().await?, 1);
    assert_eq!(rig.blobs.requests(), before);
    assert_eq!(notes.query().all().await?, [note(1, LONG)]);
    assert_eq!(rig.blobs.requests(), before + 1);
    Ok(())
}

#[tokio::test]
async fn stored_entities_are_changed_without_a_further_read() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    notes.insert(&note(1, LONG)).await?;
    let mut stored = notes.get_existing_stored(Note::key("Sales", 1u32)?).await?;
    assert_eq!(stored.text, LONG);
    assert!(stored.entity().get("Text").is_some());
    assert_ne!(
        stored.entity().get("Text"),
        Some(table_core::model::ValueRef::String(LONG)),
        "the row holds a reference"
    );
    rig.meter.reset();
    let before = rig.blobs.requests();
    let change = |note: &mut Note| {
        note.text.push('!');
        Ok(())
    };
    notes.update_stored(&mut stored, change).await?;
    assert_eq!(rig.meter.total(), 1);
    assert_eq!(rig.blobs.requests() - before, 2, "a put and a delete");
    assert_eq!(stored.text, format!("{LONG}!"));
    notes.update_stored(&mut stored, change).await?;
    let all = notes.stored(notes.query()).all().await?;
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].text, format!("{LONG}!!"));
    notes.replace_stored(&all[0], &note(1, LONG)).await?;
    assert_eq!(rig.blob_count().await, 1);
    let last = notes.get_existing_stored(Note::key("Sales", 1u32)?).await?;
    notes.delete_stored(&last).await?;
    assert_eq!(rig.blob_count().await, 0);
    Ok(())
}

#[tokio::test]
async fn lookups_sets_and_refusals_with_indexes() -> Result<()> {
    let rig = Rig::new();
    let reports = rig.table::<Report>().await?;
    for number in 1..=3 {
        reports.insert(&report(number, LONG)).await?;
    }
    assert_eq!(rig.blob_count().await, 3);
    let taken = Report {
        code: Some("S-1".into()),
        ..report(4, LONG)
    };
    assert!(reports.insert(&taken).await.is_err());
    assert_eq!(
        rig.blob_count().await,
        3,
        "the refused write has withdrawn its blob"
    );

    let kwok = reports.by(Report::by_author("Sales").author("Kwok"));
    assert_eq!(kwok.all().await?.len(), 3);
    assert!(kwok.all().await?.iter().all(|report| report.text == LONG));
    let before = rig.blobs.requests();
    assert_eq!(kwok.count().await?, 3);
    assert_eq!(rig.blobs.requests(), before, "a count reads no blob");
    let by_code = reports.by(Report::by_code("S-2"));
    assert_eq!(by_code.get().await?, Some(report(2, LONG)));
    let stored = kwok.clone().stored().all().await?;
    reports
        .replace_stored(&stored[0], &report(1, "short"))
        .await?;
    assert_eq!(rig.blob_count().await, 2);
    let page = kwok.readable_page(None).await?;
    assert_eq!((page.page.items.len(), page.unreadable.len()), (3, 0));

    let summary = reports
        .query()
        .update(|report| {
            report.author = "Lee".into();
            Ok(())
        })
        .await?;
    assert_eq!(summary.written, 3);
    assert_eq!(
        reports
            .by(Report::by_author("Sales").author("Lee"))
            .all()
            .await?
            .len(),
        3
    );
    assert_eq!(rig.blob_count().await, 2);
    let before = rig.blobs.requests();
    let summary = reports.query().delete().await?;
    assert_eq!(summary.written, 3);
    assert_eq!(rig.blobs.requests() - before, 2, "no value is read");
    assert_eq!(rig.blob_count().await, 0);
    assert_eq!(by_code.get().await?, None);
    Ok(())
}

#[tokio::test]
async fn a_group_stores_its_blobs_first_and_removes_those_of_its_old_rows() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    group_of(&rig, &notes).await?;
    // With the indexes of another type in the table.
    let rig = Rig::new();
    let _reports = rig.table::<Report>().await?;
    let notes = rig.table::<Note>().await?;
    group_of(&rig, &notes).await
}

async fn group_of(rig: &Rig, notes: &Table<Note>) -> Result<()> {
    let line = Line {
        department: "Sales".into(),
        number: 1,
    };
    let mut group = notes.group(Note::partition("Sales")?);
    group
        .insert(&note(1, LONG))?
        .insert(&line)?
        .insert(&note(2, LONG))?;
    assert_eq!(group.commit().await?.len(), 3);
    assert_eq!(notes.query().all().await?, [note(1, LONG), note(2, LONG)]);
    assert_eq!(rig.blob_count().await, 2);

    // A group that is refused withdraws its blobs.
    let mut group = notes.group(Note::partition("Sales")?);
    group.insert(&note(3, LONG))?.insert(&line)?;
    assert!(group.commit().await.is_err());
    assert_eq!(rig.blob_count().await, 2);

    let other = format!("{LONG}, changed");
    let mut group = notes.group(Note::partition("Sales")?);
    group.update::<Note>(Note::key("Sales", 1u32)?, |note| {
        assert_eq!(note.text, LONG);
        note.text.push_str(", changed");
        Ok(())
    })?;
    group.delete(Note::key("Sales", 2u32)?, IfMatch::Any)?;
    group.commit().await?;
    assert_eq!(notes.query().all().await?, [note(1, &other)]);
    assert_eq!(rig.blob_count().await, 1, "of the entity that is left");

    let stored = notes.get_existing_stored(Note::key("Sales", 1u32)?).await?;
    let mut group = notes.group(Note::partition("Sales")?);
    group.delete_stored(&stored)?;
    group.push(Operation::Delete(
        Line::key("Sales", 1u32)?.into_key(),
        IfMatch::Any,
    ))?;
    rig.meter.reset();
    group.commit().await?;
    assert_eq!(rig.meter.total(), 2, "the row that is deleted, the group");
    assert_eq!(rig.blob_count().await, 0);

    // A deletion does not name the type of its row: it is taken for that of the table.
    notes.insert(&note(4, LONG)).await?;
    let mut group = notes.group(Note::partition("Sales")?);
    group.delete(Note::key("Sales", 4u32)?, IfMatch::Any)?;
    rig.meter.reset();
    group.commit().await?;
    assert_eq!(rig.meter.total(), 2, "the row that is deleted, the group");
    assert_eq!(rig.blob_count().await, 0);
    Ok(())
}

#[tokio::test]
async fn an_update_reads_again_what_another_writer_has_replaced() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    notes.insert(&note(1, LONG)).await?;
    let key = Note::key("Sales", 1u32)?;
    let (other, mut first) = (notes.clone(), true);
    let updated = notes
        .update(&key, move |note| {
            if std::mem::take(&mut first) {
                let replaced = Note {
                    title: "other".into(),
                    text: format!("{LONG}, replaced"),
                    ..note.clone()
                };
                let other = other.clone();
                // The store is in memory: the write ends at its first poll.
                let replacing = async move { other.replace_if(&replaced, IfMatch::Any).await };
                let replaced = futures_util::FutureExt::now_or_never(replacing);
                replaced.expect("no waiting").expect("the entity exists");
            }
            note.text.push('!');
            Ok(())
        })
        .await?;
    assert!(updated.text.ends_with('!'));
    assert_eq!(notes.get_existing(&key).await?, updated);
    assert_eq!(rig.blob_count().await, 1);
    Ok(())
}

/// The notes of a later program, which finds them by their titles.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Note", rename_all = "PascalCase")]
#[index(
    title,
    partition_key = "title_{title}",
    row_key = "{department}_{number}"
)]
struct Titled {
    #[partition_key]
    department: String,
    #[row_key(format = "note_{}")]
    number: u32,
    title: String,
    #[large(over = 10)]
    text: String,
}

type Write = fn(Table<Note>) -> BoxFuture<'static, Result<()>>;

/// Each starts with note 1, and stores a blob.
const WRITES: [(&str, Write, usize); 8] = [
    (
        "insert",
        |notes| async move { notes.insert(&note(2, LONG)).await.map(drop) }.boxed(),
        2,
    ),
    (
        "upsert",
        |notes| async move { notes.upsert(&note(1, LONG)).await.map(drop) }.boxed(),
        1,
    ),
    (
        "replace_if",
        |notes| {
            async move {
                let new = note(1, LONG);
                notes.replace_if(&new, IfMatch::Any).await.map(drop)
            }
            .boxed()
        },
        1,
    ),
    (
        "update",
        |notes| {
            async move {
                let key = Note::key("Sales", 1u32)?;
                let change = |note: &mut Note| {
                    note.title.push('!');
                    note.text.push('!');
                    Ok(())
                };
                notes.update(key, change).await.map(drop)
            }
            .boxed()
        },
        1,
    ),
    (
        "a set operation",
        |notes| {
            async move {
                let change = |note: &mut Note| {
                    note.text.push('!');
                    Ok(())
                };
                let summary = notes.query().update(change).await?;
                summary.into_result().map(drop)
            }
            .boxed()
        },
        1,
    ),
    (
        "a group",
        |notes| {
            async move {
                let mut group = notes.group(Note::partition("Sales")?);
                group.insert(&note(2, LONG))?.upsert(&note(1, LONG))?;
                group.commit().await.map(drop)
            }
            .boxed()
        },
        2,
    ),
    (
        "a move",
        |notes| {
            async move {
                let (key, to) = (Note::key("Sales", 1u32)?, Note::key("Sales", 7u32)?);
                notes.move_to(key, &notes, to).await
            }
            .boxed()
        },
        1,
    ),
    (
        "a stored entity",
        |notes| {
            async move {
                let stored = notes.get_existing_stored(Note::key("Sales", 1u32)?).await?;
                let new = note(1, LONG);
                notes.replace_stored(&stored, &new).await.map(drop)
            }
            .boxed()
        },
        1,
    ),
];

/// The write has begun as one of rows alone; while it stores its blobs, another program builds an index. The write keeps the index, too, and
/// no blob is left over.
#[tokio::test(start_paused = true)]
async fn an_index_that_is_built_while_blobs_are_stored_is_maintained() -> Result<()> {
    for (name, write, left) in WRITES {
        let rig = Rig::new();
        let notes = rig.table::<Note>().await?;
        notes.insert(&note(1, LONG)).await?;
        let titled = rig.builds_an_index_before_the_next_put()?;
        write(notes.clone())
            .await
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(rig.blobs.has_run_before_put(), "{name}");
        let found = notes.query().all().await?;
        assert_eq!(found.len(), left, "{name}");
        assert_eq!(rig.blob_count().await, left, "{name}");
        let entities = titled.entities().await?;
        let scrub = entities.scrub("title", ScrubMode::Report).await?;
        let wrong = (scrub.dangling, scrub.missing, scrub.taken_keys);
        assert_eq!(wrong, (0, 0, 0), "{name}");
        assert_eq!(scrub.entries, left, "{name}");
    }
    Ok(())
}

/// A stream is read once: a write that is refused because another program has built an index leaves the entity as it was, and no blob.
#[tokio::test(start_paused = true)]
async fn a_stream_that_meets_a_new_index_is_refused_and_written_the_next_time() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    notes.insert(&note(1, LONG)).await?;
    rig.builds_an_index_before_the_next_put()?;
    let content = || stream::iter([Ok(Bytes::from_static(b"another text that is long"))]);
    let key = Note::key("Sales", 1u32)?;
    let put = notes.put_stream(&key, Note::TEXT, content(), IfMatch::Any);
    let error = put.await.unwrap_err();
    assert!(error.to_string().contains("title"), "{error}");
    assert_eq!(rig.blob_count().await, 1);
    assert_eq!(notes.get_existing(&key).await?, note(1, LONG));
    notes
        .put_stream(&key, Note::TEXT, content(), IfMatch::Any)
        .await?;
    assert_eq!(
        notes.get_existing(&key).await?,
        note(1, "another text that is long")
    );
    assert_eq!(rig.blob_count().await, 1);
    Ok(())
}

/// Another process replaces the entity that a group deletes, while the group stores a blob: the group fails, and no blob is left over.
#[tokio::test]
async fn a_group_deletes_the_entity_that_it_has_read() -> Result<()> {
    for indexed in [false, true] {
        let rig = Rig::new();
        let notes = rig.table::<Note>().await?;
        if indexed {
            rig.table::<Report>().await?;
        }
        notes.insert(&note(1, LONG)).await?;
        let other = notes.clone();
        rig.blobs.before_next_put(async move {
            let replaced = note(1, "another text that is long");
            other.upsert(&replaced).await.map(drop).unwrap();
        });
        let mut group = notes.group(Note::partition("Sales")?);
        group.delete(Note::key("Sales", 1u32)?, IfMatch::Any)?;
        group.insert(&note(2, LONG))?;
        let error = group.commit().await.unwrap_err();
        assert!(error.is_precondition_failed(), "{error}");
        assert_eq!(rig.blob_count().await, 1);
        let left = notes.query().all().await?;
        assert_eq!(left, [note(1, "another text that is long")]);
    }
    Ok(())
}

/// A write that takes several requests after its blobs is given up at the deadline: a collection may remove the blobs from then on.
#[tokio::test(start_paused = true)]
async fn no_row_is_written_after_the_write_deadline() -> Result<()> {
    type Write = fn(Table<Note>) -> BoxFuture<'static, Result<()>>;
    let writes: [(&str, Write); 3] = [
        ("insert", |notes| {
            async move { notes.insert(&note(1, LONG)).await.map(drop) }.boxed()
        }),
        ("a group that reads", |notes| {
            async move {
                let mut group = notes.group(Note::partition("Sales")?);
                let (department, number) = ("Sales".to_owned(), 1);
                group.insert(&note(1, LONG))?;
                group.upsert(&Line { department, number })?;
                group.commit().await.map(drop)
            }
            .boxed()
        }),
        ("a group that updates a line", |notes| {
            async move {
                let mut group = notes.group(Note::partition("Sales")?);
                group.insert(&note(1, LONG))?;
                group.update::<Line>(Line::key("Sales", 7u32)?, |_| Ok(()))?;
                group.commit().await.map(drop)
            }
            .boxed()
        }),
    ];
    for (name, write) in writes {
        let (store, inner) = (MemoryStore::new(), Arc::new(InMemory::new()));
        let faults = FaultInjector::new(1);
        let blobs = Arc::new(FaultyBlobs::apart(inner.clone(), FaultInjector::new(1)));
        let large = LargeOptions::default().with_write_deadline(Duration::from_secs(1));
        let of = |store: Arc<dyn TableStore>| {
            let db = Database::new(store).with_blobs(blobs.clone());
            db.with_large(large.clone()).table::<Note>("Reports")
        };
        let notes = of(Arc::new(Faulty::new(store.clone(), faults.clone())))?;
        notes.declare().await?;
        notes.insert(&note(9, "short")).await?;
        let lines = Database::new(store.clone()).table::<Line>("Reports")?;
        let department = "Sales".to_owned();
        lines
            .insert(&Line {
                department,
                number: 7,
            })
            .await?;
        faults.add(FaultRule::new(Fault::Delay(Duration::from_millis(300))));
        blobs.before_next_put(async { tokio::time::sleep(Duration::from_millis(900)).await });
        let error = match write(notes.clone()).await {
            Err(error) => error,
            Ok(()) => panic!("{name}: written after the deadline"),
        };
        assert!(
            matches!(error.root().kind(), ErrorKind::Timeout { .. }),
            "{name}: {error}"
        );
        // As long as one request after the deadline, then everything without a row goes.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let there = of(Arc::new(store.clone()))?;
        let grace = Duration::from_millis(1001);
        there.collect_blobs(grace, CollectMode::Remove).await?;
        assert_eq!(there.scrub_blobs().await?.missing, [], "{name}");
        there.get(Note::key("Sales", 1u32)?).await?;
    }
    Ok(())
}

/// The same property name, as large text of one type and as bytes of another.
#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Scan", rename_all = "PascalCase")]
struct Scan {
    #[partition_key]
    department: String,
    #[row_key(format = "scan_{}")]
    number: u32,
    text: Vec<u8>,
}

#[derive(Debug, PartialEq, EntityResolver)]
enum NoteOrScan {
    Note(Note),
    Scan(Scan),
}

#[derive(Debug, PartialEq, EntityResolver)]
enum NoteOrOther {
    Note(Note),
    #[resolver(other)]
    Other(Entity),
}

#[tokio::test]
async fn a_view_of_several_types_reads_the_large_values_of_each_row_by_its_type() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    let scans = rig.table::<Scan>().await?;
    let scan = Scan {
        department: "Sales".to_owned(),
        number: 1,
        text: vec![7; 50],
    };
    notes.insert(&note(1, LONG)).await?;
    scans.insert(&scan).await?;
    let both = rig.db.view::<NoteOrScan>("Reports")?;
    let found = both.query().all().await?;
    assert_eq!(
        found,
        [NoteOrScan::Note(note(1, LONG)), NoteOrScan::Scan(scan)]
    );
    let others = rig.db.view::<NoteOrOther>("Reports")?;
    let found = others.query().all().await?;
    assert_eq!(found[0], NoteOrOther::Note(note(1, LONG)));
    assert!(matches!(&found[1], NoteOrOther::Other(row) if row.get("Text").is_some()));
    Ok(())
}

/// A text that reads like a reference is a text: it is written, moved and removed as such.
#[tokio::test]
async fn a_text_that_reads_like_a_reference_is_a_text() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    let digits = "0".repeat(64);
    let like = format!(
        "blob1 id={} size=3 stored=3 sha256={digits} codec=plain",
        uuid::Uuid::nil()
    );
    let titled = Note {
        title: like.clone(),
        ..note(1, LONG)
    };
    notes.insert(&titled).await?;
    let (key, to) = (Note::key("Sales", 1u32)?, Note::key("Sales", 2u32)?);
    notes.move_to(&key, &notes, &to).await?;
    let moved = Note {
        number: 2,
        ..titled
    };
    assert_eq!(notes.get(&to).await?, Some(moved));
    assert_eq!(rig.blob_count().await, 1);
    notes.delete(&to, IfMatch::Any).await?;
    assert_eq!(rig.blob_count().await, 0);
    Ok(())
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Place", rename_all = "PascalCase")]
struct Place {
    #[partition_key]
    town: String,
    #[row_key(format = "place_{}")]
    number: u32,
    name: String,
    /// The number of the place that gets a copy of the name.
    beside: Option<u32>,
    neighbour_name: Option<String>,
    #[large(over = 10)]
    text: String,
}

fn place(number: u32, beside: Option<u32>) -> Place {
    Place {
        town: "Ulm".to_owned(),
        number,
        name: format!("place {number}"),
        beside,
        neighbour_name: None,
        text: LONG.to_owned(),
    }
}

/// An index copies a name into an entity with large fields: a writer of that entity cannot change the copy, and gets it as it is stored.
#[tokio::test]
async fn a_copy_in_an_entity_with_large_fields_is_returned_as_it_is_stored() -> Result<()> {
    let rig = Rig::new();
    let copies = Index::new("neighbour", Placement::SamePartition, "1", |row| {
        let Some(ValueRef::Int64(beside)) = row.get("Beside") else {
            return Ok(None);
        };
        Key::new(row.key().partition(), format!("place_{beside:010}")).map(Some)
    });
    let copies = copies.with_shape(Shape::copy("Neighbour", ["Name"]));
    let places = rig.db.table_with::<Place>("Places", vec![copies])?;
    places.declare().await?;
    places.insert(&place(1, None)).await?;
    places.insert(&place(2, Some(1))).await?;
    let key = Place::key("Ulm", 1u32)?;
    let change = |place: &mut Place| {
        place.neighbour_name = Some("another name".to_owned());
        place.text.push('!');
        Ok(())
    };
    let updated = places.update(&key, change).await?;
    assert_eq!(updated.neighbour_name.as_deref(), Some("place 2"));
    assert_eq!(updated, places.get_existing(&key).await?);

    let mut stored = places.get_existing_stored(&key).await?;
    places.update_stored(&mut stored, change).await?;
    assert_eq!(*stored, places.get_existing(&key).await?);
    places.update_stored(&mut stored, change).await?;
    assert_eq!(stored.text, format!("{LONG}!!!"));
    assert_eq!(rig.blob_count().await, 2);
    Ok(())
}

/// The types of a table share its directory of blobs: a handle of any type deletes the table with all of them.
#[tokio::test]
async fn a_table_is_deleted_with_the_blobs_of_all_types() -> Result<()> {
    let rig = Rig::new();
    let notes = rig.table::<Note>().await?;
    let lines = rig.table::<Line>().await?;
    notes.insert(&note(1, LONG)).await?;
    assert!(lines.delete_table_if_exists().await?);
    assert_eq!(rig.blob_count().await, 0);
    assert!(!lines.delete_table_if_exists().await?);
    Ok(())
}
