//! Whole entities by queries, and merges over stored entities.

use futures_util::TryStreamExt as _;
use table_core::model::{Entity, IfMatch, ValueRef};
use table_core::query::Filter;
use table_core::store::{ErrorKind, Operation, Result, TableStore as _};
use table_core::typed::TableEntity;

use super::{LONG, PICTURE, Report, Rig, database, report};

fn numbered(number: u32, title: &str) -> Report {
    Report {
        number,
        title: title.to_owned(),
        ..report(LONG, Some(PICTURE))
    }
}

fn plain(report: Report) -> Report {
    Report {
        etag: None,
        ..report
    }
}

/// Five reports, each with two values in blobs.
async fn five() -> Result<Rig> {
    let rig = Rig::new().await?;
    for number in 1..=5 {
        rig.table
            .insert(&numbered(
                number,
                if number % 2 == 0 { "even" } else { "odd" },
            ))
            .await?;
    }
    rig.meter.reset();
    Ok(rig)
}

#[tokio::test]
async fn filters_narrow_rows_and_no_blob_is_read_for_nothing() -> Result<()> {
    let rig = five().await?;
    let before = rig.blobs.requests();
    let sales = rig
        .table
        .query()
        .partition(Report::partition("Sales & Co")?);
    let even = sales.clone().filter(Report::TITLE.eq("even"));
    let found: Vec<Report> = even.all().await?.into_iter().map(plain).collect();
    assert_eq!(found, [numbered(2, "even"), numbered(4, "even")]);
    assert_eq!(rig.meter.total(), 1);
    assert_eq!(rig.blobs.requests() - before, 4);

    assert_eq!(even.count().await?, 2);
    assert_eq!(rig.meter.total(), 2, "a count reads no blob");
    assert_eq!(rig.blobs.requests() - before, 4, "a count reads no blob");
    assert_eq!(sales.clone().limit(1).all().await?.len(), 1);
    assert_eq!(rig.meter.total(), 3, "one entity of five");
    assert_eq!(rig.blobs.requests() - before, 6, "one entity of five");
    let rows = sales.rows(Report::row_prefix().number(2)..=Report::row_prefix().number(3));
    let rows: Vec<u32> = rows
        .stream()
        .map_ok(|report| report.number)
        .try_collect()
        .await?;
    assert_eq!(rows, [2, 3]);
    let elsewhere = rig
        .table
        .query()
        .partition_prefix(Report::partition_prefix().department_starting("Market"));
    assert_eq!(elsewhere.count().await?, 0);
    Ok(())
}

/// What a large property was called in an earlier version may be in a blob as well.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Report", version = 2, previous = Report, rename_all = "PascalCase")]
struct Renamed {
    #[partition_key]
    department: String,
    #[row_key]
    number: u32,
    title: String,
    #[large(over = 10)]
    body: String,
}

impl From<Report> for Renamed {
    fn from(
        Report {
            department,
            number,
            title,
            text,
            ..
        }: Report,
    ) -> Self {
        Self {
            department,
            number,
            title,
            body: text,
        }
    }
}

#[tokio::test]
async fn a_filter_on_a_large_property_is_refused_before_anything_is_sent() -> Result<()> {
    let rig = five().await?;
    let narrowed = |name: &str| {
        let either = Filter::eq("Title", "odd").or(Filter::ne(name, "x"));
        rig.table.query().raw_filter(either).limit(3)
    };
    let query = narrowed("Text");
    let stream = query.stream().try_collect::<Vec<_>>().await.map(drop);
    let refused = [
        query.all().await.map(drop),
        stream,
        query.first().await.map(drop),
        query.count().await.map(drop),
        query.page(None).await.map(drop),
        query.explain().map(drop),
        query.clone().project::<Entity>().all().await.map(drop),
        narrowed("Picture").all().await.map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert!(
            matches!(error.kind(), ErrorKind::InvalidArgument(_)),
            "{error}"
        );
        assert!(error.to_string().contains("may be in blobs"), "{error}");
    }
    let newer = database(rig.store.clone(), rig.inner.clone()).table::<Renamed>("Reports")?;
    for name in ["Body", "Text"] {
        let error = newer
            .query()
            .raw_filter(Filter::eq(name, "x"))
            .all()
            .await
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(rig.meter.total(), 0);
    assert_eq!(narrowed("Other").count().await?, 3);
    Ok(())
}

/// Another process replaces or deletes an entity after its row was read, and before its blobs are read.
fn replaced_before_its_blobs(rig: &Rig, now: Option<Report>) {
    let table = rig.table.clone();
    rig.blobs.before_next_read(async move {
        match now {
            Some(now) => table.upsert(&now).await.map(drop).unwrap(),
            None => {
                let key = Report::key("Sales & Co", 1u32).unwrap();
                table.delete(key, IfMatch::Any).await.unwrap();
            }
        }
    });
}

fn renamed(title: &str) -> Report {
    Report {
        text: "another text, long enough".to_owned(),
        ..numbered(1, title)
    }
}

/// Its blobs are gone when they are asked for: read again, and left out if it does not match any more.
#[tokio::test]
async fn an_entity_that_is_replaced_before_its_blobs_are_read_must_still_match() -> Result<()> {
    for (now, matches) in [
        (Some(renamed("odd")), true),
        (Some(renamed("even")), false),
        (None, false),
    ] {
        let rig = five().await?;
        let odd = rig.table.query().filter(Report::TITLE.eq("odd"));
        // One entity at a time, so that the first read is of a blob of the first entity.
        replaced_before_its_blobs(&rig, now.clone());
        let found: Vec<Report> = odd.all().await?.into_iter().map(plain).collect();
        assert!(rig.blobs.has_run_before_read());
        let others = [numbered(3, "odd"), numbered(5, "odd")];
        let first = now.filter(|_| matches);
        assert_eq!(found, first.into_iter().chain(others).collect::<Vec<_>>());
    }
    Ok(())
}

/// A set operation reads such an entity again, and leaves it alone if it has left the set.
#[tokio::test]
async fn a_set_operation_leaves_what_no_longer_matches() -> Result<()> {
    for (title, matches) in [("odd", true), ("even", false)] {
        let rig = five().await?;
        replaced_before_its_blobs(&rig, Some(renamed(title)));
        let odd = rig.table.query().filter(Report::TITLE.eq("odd"));
        let summary = odd
            .update(|report| {
                report.text.push_str(", changed");
                Ok(())
            })
            .await?;
        assert!(rig.blobs.has_run_before_read());
        assert_eq!(summary.written, if matches { 3 } else { 2 }, "{title}");
        let first = rig.table.get_existing(Report::key("Sales & Co", 1u32)?);
        let text = if matches {
            "another text, long enough, changed"
        } else {
            "another text, long enough"
        };
        assert_eq!(first.await?.text, text, "{title}");
        rig.assert_clean(title).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_merging_upsert_keeps_the_blobs_of_what_it_does_not_have() -> Result<()> {
    let rig = Rig::new().await?;
    let first = report(LONG, Some(PICTURE));
    rig.table.insert_or_merge(&first).await?;
    assert_eq!(rig.meter.total(), 2, "an insert");
    assert_eq!(rig.blobs.requests(), 2, "an insert");
    assert_eq!(rig.blob_count().await, 2, "an insert");
    let key = first.entity_key()?.key().clone();
    let unknown = Entity::from(key.clone()).with("Unknown", 7);
    rig.store
        .write(rig.table.name(), Operation::Merge(unknown, IfMatch::Any))
        .await?;

    let (tables, blobs) = (rig.meter.total(), rig.blobs.requests());
    let second = report("another text that does not stay in its row", None);
    rig.table.insert_or_merge(&second).await?;
    assert_eq!(rig.meter.total() - tables, 2, "one put, one removed");
    assert_eq!(rig.blobs.requests() - blobs, 2, "one put, one removed");
    let read = plain(rig.table.get_existing(first.entity_key()?).await?);
    assert_eq!(
        read,
        Report {
            picture: first.picture.clone(),
            ..second
        }
    );
    let row = rig
        .store
        .get(rig.table.name(), &key, None)
        .await?
        .expect("the row");
    assert_eq!(row.get("Unknown"), Some(ValueRef::Int32(7)));
    assert_eq!(rig.blob_count().await, 2);

    rig.table.insert_or_merge(&report("short", None)).await?;
    let read = plain(rig.table.get_existing(first.entity_key()?).await?);
    assert_eq!(read.text.as_str(), "short");
    assert_eq!(read.picture, first.picture);
    assert_eq!(rig.blob_count().await, 1, "the text is in its row again");
    rig.assert_clean("merges").await
}

/// The size of the row after the merge counts, not the size of the merged values.
#[tokio::test]
async fn a_merged_row_that_would_be_too_large_gives_up_its_largest() -> Result<()> {
    #[derive(Debug, TableEntity)]
    struct Wide {
        #[partition_key]
        p: String,
        #[row_key]
        r: u32,
        #[large(over = 65536)]
        a: Option<Vec<u8>>,
        #[large(over = 65536)]
        b: Option<Vec<u8>>,
        #[entity(rest)]
        rest: table_core::model::Properties,
    }
    let rig = Rig::new().await?;
    let table = database(rig.store.clone(), rig.inner.clone()).table::<Wide>("Wide")?;
    table.declare().await?;
    let mut rest = table_core::model::Properties::new();
    (0..15).for_each(|n| rest.set(&format!("P{n}"), vec![0u8; 65_000]));
    table
        .insert(&Wide {
            p: "p".into(),
            r: 1,
            a: Some(vec![1; 40_000]),
            b: None,
            rest,
        })
        .await?;
    assert_eq!(rig.blob_count().await, 0);
    let rest = table_core::model::Properties::new();
    table
        .insert_or_merge(&Wide {
            p: "p".into(),
            r: 1,
            a: None,
            b: Some(vec![2; 60_000]),
            rest,
        })
        .await?;
    assert_eq!(rig.blob_count().await, 1);
    let read = table.get_existing(Wide::key("p", 1u32)?).await?;
    assert_eq!(read.a, Some(vec![1; 40_000]));
    assert_eq!(read.b, Some(vec![2; 60_000]));
    assert_eq!(read.rest.len(), 15);
    Ok(())
}

#[tokio::test]
async fn a_merging_upsert_of_another_version_is_refused() -> Result<()> {
    let rig = Rig::new().await?;
    rig.table.insert(&report(LONG, None)).await?;
    let newer = database(rig.store.clone(), rig.inner.clone()).table::<Renamed>("Reports")?;
    let value = Renamed::from(report("a text that is also longer than ten", None));
    let error = newer.insert_or_merge(&value).await.unwrap_err();
    assert!(error.to_string().contains("version 1"), "{error}");
    assert_eq!(rig.blob_count().await, 1);
    let read = plain(
        rig.table
            .get_existing(Report::key(&*value.department, value.number)?)
            .await?,
    );
    assert_eq!(read, report(LONG, None));
    Ok(())
}
