//! Whole entities by queries, and merges over what is stored.

use futures_util::TryStreamExt as _;
use table_core::model::{Entity, IfMatch, ValueRef};
use table_core::query::Filter;
use table_core::store::{ErrorKind, Operation, Result, TableStore as _};
use table_core::typed::TableEntity;
use table_core::typed::set::Decision;

use super::{LONG, PICTURE, Report, Rig, report};
use crate::large::LargeTable;

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
    let newer = LargeTable::<Renamed>::new(rig.store.clone(), "Reports", rig.inner.clone())?;
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

/// Its blobs are gone when they are asked for: read again, and left out if it does not match any more.
#[tokio::test]
async fn an_entity_that_is_replaced_before_its_blobs_are_read_must_still_match() -> Result<()> {
    let filter = Filter::eq("Title", "odd");
    for (title, matches) in [("odd", true), ("even", false)] {
        let rig = five().await?;
        let mut rows: Vec<_> = rig
            .reports
            .rows()
            .raw_filter(filter.clone())
            .limit(1)
            .all()
            .await?;
        let row = rows.pop().expect("a row");
        let now = Report {
            text: "another text, long enough".to_owned(),
            ..numbered(1, title)
        };
        rig.table.upsert(&now).await?;
        let loaded = rig.reports.load_matching(row, Some(&filter)).await?;
        assert_eq!(loaded.map(plain), matches.then_some(now), "{title}");
    }
    let rig = five().await?;
    let row = rig.reports.rows().first().await?.expect("a row");
    rig.table
        .delete(Report::key("Sales & Co", 1u32)?, IfMatch::Any)
        .await?;
    assert_eq!(rig.reports.load_matching(row, None).await?, None);
    Ok(())
}

/// A set operation reads such an entity again, and leaves it alone if it has left the set.
#[tokio::test]
async fn a_set_operation_leaves_what_no_longer_matches() -> Result<()> {
    let filter = Filter::eq("Title", "odd");
    for (title, matches) in [("odd", true), ("even", false)] {
        let rig = five().await?;
        let mut rows: Vec<_> = rig
            .reports
            .rows()
            .raw_filter(filter.clone())
            .limit(1)
            .all()
            .await?;
        let row = rows.pop().expect("a row").entity;
        let now = Report {
            text: "another text, long enough".to_owned(),
            ..numbered(1, title)
        };
        rig.table.upsert(&now).await?;
        let rename = |report: &mut Report| {
            report.text.push_str(", changed");
            Ok(())
        };
        let decision = rig
            .reports
            .changed_in_set(row, |row| filter.matches(row), rename)
            .await?;
        match decision {
            Decision::Ignore => assert!(!matches, "{title}"),
            Decision::Write(write) => {
                assert!(matches, "{title}");
                let text = write.new.as_ref().and_then(|new| new.get("Text"));
                assert_eq!(
                    text,
                    Some(ValueRef::String("another text, long enough, changed"))
                );
            }
            Decision::Keep => panic!("{title}: the text has changed"),
        }
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
        .write(rig.reports.name(), Operation::Merge(unknown, IfMatch::Any))
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
        .get(rig.reports.name(), &key, None)
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

/// The row as it is stored afterwards counts, not what is merged into it.
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
    let table = LargeTable::<Wide>::new(rig.store.clone(), "Wide", rig.inner.clone())?;
    table.create_if_missing().await?;
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
    let newer = LargeTable::<Renamed>::new(rig.store.clone(), "Reports", rig.inner.clone())?;
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

#[tokio::test]
async fn a_handle_has_bounds_of_its_own() -> Result<()> {
    let rig = Rig::new().await?;
    let bounded = rig.reports.clone().with_concurrency(0).with_attempts(0);
    assert_eq!(bounded.options().concurrency, 1);
    assert_eq!(bounded.options().attempts, 1);
    assert_eq!(rig.reports.options().concurrency, 8);
    assert_eq!(rig.reports.options().attempts, 10);
    Ok(())
}
