use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, PutOptions};
use proptest::prelude::{Just, any, prop, prop_oneof};
use table_core::memory::MemoryStore;
use table_core::model::{EdmType, Entity, IfMatch};
use table_core::store::{Error, ErrorKind, Operation, Result, TableStore as _};
use table_core::typed::{PlainTable, TableEntity};

use super::{LONG, PICTURE, Report, Rig, collect_older, database, report};
use crate::Database;
use crate::large::{BlobCodec, BlobContext, ByteStream, CollectMode, LargeOptions};

#[tokio::test]
async fn values_leave_the_row_and_come_back() -> Result<()> {
    let rig = Rig::new().await?;
    let whole = report(LONG, Some(PICTURE));
    rig.table.insert(&whole).await?;
    assert_eq!(rig.meter.total(), 1);
    assert_eq!(rig.blobs.requests(), 2);
    let row = rig
        .store
        .get(rig.table.name(), whole.entity_key()?.key(), None)
        .await?
        .unwrap();
    assert_eq!(row.get("Text").map(|v| v.edm_type()), Some(EdmType::Binary));
    assert_eq!(
        row.get("Picture").map(|v| v.edm_type()),
        Some(EdmType::String)
    );

    let read = rig.table.get_existing(whole.entity_key()?).await?;
    assert_eq!(rig.meter.total(), 2);
    assert_eq!(rig.blobs.requests(), 4);
    assert_eq!(
        Report {
            etag: None,
            ..read.clone()
        },
        whole
    );

    let short = Report {
        text: "short".to_owned(),
        ..read
    };
    rig.table.replace(&short).await?;
    assert_eq!(rig.meter.total(), 4);
    assert_eq!(rig.blobs.requests(), 4 + 1 + 2);
    assert_eq!(
        rig.blob_count().await,
        1,
        "the short text is in the row, the old picture is gone"
    );

    rig.table.delete(whole.entity_key()?, IfMatch::Any).await?;
    assert_eq!(rig.meter.total(), 6);
    assert_eq!(rig.blob_count().await, 0);
    assert_eq!(rig.table.get(whole.entity_key()?).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_table_without_blobs_refuses_the_type_and_a_plain_read_the_row() -> Result<()> {
    let rig = Rig::new().await?;
    let error = PlainTable::<Report>::new(rig.store.clone(), "Reports").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`table_patterns::Database` with blobs"),
        "{error}"
    );

    #[derive(Debug, TableEntity)]
    #[entity(type = "Report", rename_all = "PascalCase")]
    struct Careless {
        #[partition_key]
        department: String,
        #[row_key]
        number: u32,
        #[allow(dead_code)]
        text: Option<String>,
    }
    rig.table.insert(&report(LONG, None)).await?;
    let careless = PlainTable::<Careless>::new(rig.store.clone(), "Reports")?;
    let error = careless.query().all().await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected Edm.String, found Edm.Binary"),
        "{error}"
    );
    Ok(())
}

#[tokio::test]
async fn a_row_that_would_be_too_large_gives_up_its_largest() -> Result<()> {
    #[derive(Debug, TableEntity)]
    struct Wide {
        #[partition_key]
        p: String,
        #[row_key]
        r: u32,
        #[large(over = 65536)]
        a: Vec<u8>,
        #[large(over = 65536)]
        b: Vec<u8>,
        #[entity(rest)]
        rest: table_core::model::Properties,
    }
    let blobs = Arc::new(InMemory::new());
    let table = database(Arc::new(MemoryStore::new()), blobs.clone()).table::<Wide>("Wide")?;
    table.declare().await?;
    let mut rest = table_core::model::Properties::new();
    (0..15).for_each(|n| rest.set(&format!("P{n}"), vec![0u8; 65_000]));
    let wide = Wide {
        p: "p".into(),
        r: 1,
        a: vec![1; 40_000],
        b: vec![2; 60_000],
        rest,
    };
    table.insert(&wide).await?;
    assert_eq!(blobs.list(None).count().await, 1);
    assert_eq!(table.get_existing(Wide::key("p", 1u32)?).await?.b, wide.b);
    Ok(())
}

#[tokio::test]
async fn streams_go_in_and_out_in_parts() -> Result<()> {
    let rig = Rig::new().await?;
    let whole = report("", None);
    rig.table.insert(&whole).await?;
    let piece = Bytes::from((0..1_000_003u32).map(|n| n as u8).collect::<Vec<_>>());
    let pieces = stream::iter(vec![Ok(piece.clone()); 20]);
    let key = whole.entity_key()?;
    rig.table
        .put_stream(&key, Report::PICTURE, pieces, IfMatch::Any)
        .await?;

    let content = rig.table.read_stream(&key, Report::PICTURE).await?.unwrap();
    assert_eq!(content.size, 20 * 1_000_003);
    let read = content
        .content
        .try_fold((0, 0), |(at, wrong), piece| async move {
            let differs = |(n, byte): (usize, &u8)| *byte != ((at + n) % 1_000_003) as u8;
            Ok((
                at + piece.len(),
                wrong + piece.iter().enumerate().filter(|p| differs(*p)).count(),
            ))
        });
    assert_eq!(read.await?, (20 * 1_000_003, 0));

    let broken = stream::iter([Ok(piece), Err(Error::application("the file is damaged"))]);
    let error = rig
        .table
        .put_stream(&key, Report::PICTURE, broken, IfMatch::Any)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("damaged"));
    assert_eq!(
        rig.table.get_existing(&key).await?.picture.map(|p| p.len()),
        Some(20 * 1_000_003)
    );
    let small = rig.table.read_stream(&key, Report::TEXT).await?.unwrap();
    assert_eq!(small.size, 0);
    assert_eq!(small.sha256, None);
    rig.assert_clean("streams").await
}

#[tokio::test]
async fn other_bytes_and_missing_blobs_are_errors() -> Result<()> {
    let rig = Rig::new().await?;
    let whole = report(LONG, None);
    rig.table.insert(&whole).await?;
    let blob = rig
        .inner
        .list(None)
        .try_next()
        .await
        .unwrap()
        .unwrap()
        .location;
    for other in [
        &LONG.as_bytes()[1..],
        b"a text that does not stay in its ROW",
        b"longer by far than the text that was put",
    ] {
        rig.inner
            .put_opts(&blob, other.to_vec().into(), PutOptions::default())
            .await
            .unwrap();
        let error = rig.table.get(whole.entity_key()?).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("not the 36 bytes that were stored"),
            "{error}"
        );
    }
    crate::blobs::delete(&*rig.inner, &blob).await?;
    let error = rig.table.get(whole.entity_key()?).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Storage(text) if text.contains("missing")),
        "{error}"
    );
    assert_eq!(rig.table.scrub_blobs().await?.missing.len(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_collection_spares_young_blobs_and_a_slow_write_gives_up() -> Result<()> {
    let rig = Rig::new().await?;
    let key = report(LONG, None);
    rig.table.insert(&key).await?;
    let stray = Path::parse(format!(
        "large/reports/psales/r1/text/{}",
        uuid::Uuid::new_v4()
    ))
    .unwrap();
    let foreign = Path::parse("large/reports/notes.txt").unwrap();
    for path in [&stray, &foreign] {
        rig.inner
            .put_opts(path, "orphan".into(), PutOptions::default())
            .await
            .unwrap();
    }
    let error = rig
        .table
        .collect_blobs(Duration::from_secs(60), CollectMode::Remove)
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("not longer than the write deadline"),
        "{error}"
    );
    let young = rig
        .table
        .collect_blobs(Duration::from_secs(7200), CollectMode::Remove)
        .await?;
    assert_eq!(young.young, 3);
    assert_eq!(young.orphans, 0);
    let old = collect_older(&rig.table, Duration::ZERO, CollectMode::Report).await?;
    assert_eq!(old.used, 1);
    assert_eq!(old.orphans, 1);
    assert_eq!(old.foreign, 1);
    assert_eq!(rig.blob_count().await, 3);
    collect_older(&rig.table, Duration::ZERO, CollectMode::Remove).await?;
    assert_eq!(rig.blob_count().await, 2);

    let slow = stream::once(async {
        tokio::time::sleep(Duration::from_secs(4000)).await;
        Ok(Bytes::from_static(b"late"))
    });
    let error = rig
        .table
        .put_stream(key.entity_key()?, Report::TEXT, slow, IfMatch::Any)
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Timeout { .. }), "{error}");
    assert_eq!(rig.blob_count().await, 2, "its blob is gone");
    Ok(())
}

/// Swaps bits: stands for encryption.
#[derive(Debug)]
struct Inverted(bool);

impl BlobCodec for Inverted {
    fn name(&self) -> &'static str {
        "inverted"
    }

    fn encrypts(&self) -> bool {
        self.0
    }

    fn encode(&self, context: &BlobContext, content: ByteStream) -> ByteStream {
        let first = Bytes::copy_from_slice(context.id.as_bytes());
        let rest = content.map_ok(|piece| piece.iter().map(|byte| !byte).collect());
        stream::iter([Ok(first)]).chain(rest).boxed()
    }

    fn decode(&self, context: &BlobContext, stored: ByteStream) -> ByteStream {
        let id = *context.id.as_bytes();
        let all = stored.try_fold(Vec::new(), |mut all, piece: Bytes| async move {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        let check = async move {
            let all = all.await?;
            assert!(all.starts_with(&id));
            Ok(all[16..].iter().map(|byte| !byte).collect())
        };
        stream::once(check).boxed()
    }
}

#[tokio::test]
async fn a_codec_sees_every_value_and_only_its_own() -> Result<()> {
    let rig = Rig::new().await?;
    let open = |codec| {
        let options = LargeOptions::default().with_codec(Arc::new(codec));
        let db = database(rig.store.clone(), rig.inner.clone()).with_large(options);
        db.table::<Report>("Reports")
    };
    let whole = report(LONG, None);
    let inverted = open(Inverted(false))?;
    inverted.insert(&whole).await?;
    assert_eq!(inverted.get_existing(whole.entity_key()?).await?.text, LONG);
    let content = inverted
        .read_stream(whole.entity_key()?, Report::TEXT)
        .await?
        .unwrap();
    assert_eq!(content.size, LONG.len() as u64);
    let error = rig.table.get(whole.entity_key()?).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("codec 'inverted': open the table with that codec"),
        "{error}"
    );
    Ok(())
}

#[test]
fn a_marked_large_field_needs_a_codec_that_encrypts() {
    #[derive(Debug, TableEntity)]
    struct Secret {
        #[partition_key]
        p: String,
        #[row_key]
        r: u32,
        #[encrypt]
        #[large]
        text: String,
    }
    let db = Database::new(MemoryStore::new()).with_blobs(Arc::new(InMemory::new()));
    let error = db.table::<Secret>("Secrets").unwrap_err();
    assert!(
        error.to_string().contains("use a codec that encrypts"),
        "{error}"
    );
}

#[tokio::test]
async fn long_keys_are_refused_before_anything_is_written() -> Result<()> {
    let rig = Rig::new().await?;
    let long = Report {
        department: "\u{E4}".repeat(40),
        ..report(LONG, None)
    };
    let error = rig.table.insert(&long).await.unwrap_err();
    assert!(
        error.is_limit_exceeded() && error.to_string().contains("escaped"),
        "{error}"
    );
    assert_eq!(rig.meter.total(), 0);
    assert_eq!(rig.blobs.requests(), 0);
    Ok(())
}

#[tokio::test]
async fn a_damaged_reference_is_an_error() -> Result<()> {
    let rig = Rig::new().await?;
    let whole = report("x", None);
    rig.table.insert(&whole).await?;
    let row =
        Entity::from(whole.entity_key()?.into_key()).with("Text", b"blob1 id=what".as_slice());
    rig.store
        .write(rig.table.name(), Operation::Merge(row, IfMatch::Any))
        .await?;
    let error = rig.table.get(whole.entity_key()?).await.unwrap_err();
    assert!(
        error.to_string().contains("a reference to a blob"),
        "{error}"
    );
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Upsert(usize, Option<usize>),
    Replace(usize),
    Stream(usize),
    Delete,
    Collect,
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    use proptest::strategy::Strategy as _;
    prop_oneof![
        (0..30usize, prop::option::of(0..30usize)).prop_map(|(a, b)| Step::Upsert(a, b)),
        (0..30usize).prop_map(Step::Replace),
        (0..30usize).prop_map(Step::Stream),
        Just(Step::Delete),
        Just(Step::Collect),
    ]
}

proptest::proptest! {
    /// A table with large values is a table with values.
    #[test]
    fn it_is_as_if_values_were_in_the_row(steps in prop::collection::vec((step(), any::<bool>()), 1..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(follow(steps.into_iter().map(|(step, _)| step).collect())).map_err(|e| {
            proptest::test_runner::TestCaseError::fail(e.to_string())
        })?;
    }
}

async fn follow(steps: Vec<Step>) -> Result<()> {
    let rig = Rig::new().await?;
    let mut model: Option<Report> = None;
    let key = report("", None).entity_key()?;
    for step in steps {
        match step {
            Step::Upsert(text, picture) => {
                let picture = picture.map(|size| vec![7; size]);
                let new = report(&"t".repeat(text), picture.as_deref());
                rig.table.upsert(&new).await?;
                model = Some(new);
            }
            Step::Replace(text) => {
                let text = "u".repeat(text);
                let done = rig.table.update(&key, |old| {
                    old.text.clone_from(&text);
                    Ok(())
                });
                assert_eq!(done.await.is_ok(), model.is_some());
                model = model.map(|old| Report { text, ..old });
            }
            Step::Stream(size) => {
                let content = stream::iter([Ok(Bytes::from(vec![9; size]))]);
                let done = rig
                    .table
                    .put_stream(&key, Report::PICTURE, content, IfMatch::Any)
                    .await;
                assert_eq!(done.is_ok(), model.is_some());
                model = model.map(|old| Report {
                    picture: Some(vec![9; size]),
                    ..old
                });
            }
            Step::Delete => {
                assert_eq!(
                    rig.table.delete_if_exists(&key).await?,
                    model.take().is_some()
                );
            }
            Step::Collect => {
                let found = collect_older(&rig.table, Duration::ZERO, CollectMode::Remove).await?;
                assert_eq!(
                    found.orphans, 0,
                    "where nothing fails, nothing is left over"
                );
            }
        }
        let read = rig
            .table
            .get(&key)
            .await?
            .map(|read| Report { etag: None, ..read });
        assert_eq!(read, model);
    }
    rig.assert_clean("the end").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_and_collections_never_see_a_gap() -> Result<()> {
    let rig = Arc::new(Rig::new().await?);
    let key = report("", None).entity_key()?;
    rig.table.insert(&report(LONG, Some(PICTURE))).await?;
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let reports = rig.table.clone();
        tasks.spawn(async move {
            for n in 0..50 {
                let text = format!("{LONG} {writer} {n}");
                reports
                    .upsert(&report(&text, Some(PICTURE)))
                    .await
                    .map(drop)
                    .or_else(|e| {
                        if e.is_precondition_failed() {
                            Ok(())
                        } else {
                            Err(e)
                        }
                    })?;
            }
            Ok::<_, Error>(())
        });
    }
    for _ in 0..4 {
        let (reports, key) = (rig.table.clone(), key.clone());
        tasks.spawn(async move {
            for _ in 0..100 {
                assert!(reports.get_existing(&key).await?.text.starts_with(LONG));
                reports
                    .collect_blobs(Duration::from_secs(3601), CollectMode::Remove)
                    .await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic")?;
    }
    rig.assert_clean("writers and readers").await
}
