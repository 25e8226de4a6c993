//! A process dies at every request to either store, or loses the answer and lives on.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, stream};
use table_core::adapter::{CrashPoint, Fault, FaultInjector};
use table_core::model::IfMatch;
use table_core::store::Result;
use table_core::typed::TableEntity;

use super::{LONG, PICTURE, Report, Rig, report};
use crate::tests::faulty_blobs::FaultyBlobs;

/// What a path leaves when it is done.
type Expected = Option<Report>;
type Path = (
    &'static str,
    fn(&Rig) -> BoxFuture<'_, Result<()>>,
    fn() -> Expected,
);

fn other() -> Report {
    report("another text that does not stay in its row", Some(&[1; 50]))
}

/// Each starts with the report of [`LONG`] and [`PICTURE`].
const PATHS: [Path; 6] = [
    (
        "replace",
        |rig| async { rig.table.replace_if(&other(), IfMatch::Any).await.map(drop) }.boxed(),
        || Some(other()),
    ),
    (
        "upsert",
        |rig| async { rig.table.upsert(&other()).await.map(drop) }.boxed(),
        || Some(other()),
    ),
    (
        "insert_or_merge",
        |rig| {
            async {
                rig.table
                    .insert_or_merge(&Report {
                        picture: None,
                        ..other()
                    })
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || {
            Some(Report {
                picture: Some(PICTURE.to_vec()),
                ..other()
            })
        },
    ),
    (
        "shrink",
        |rig| async { rig.table.upsert(&report("x", None)).await.map(drop) }.boxed(),
        || Some(report("x", None)),
    ),
    (
        "delete",
        |rig| {
            async {
                rig.table
                    .delete(other().entity_key()?, IfMatch::Any)
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || None,
    ),
    (
        "stream",
        |rig| {
            let content = stream::iter([Ok(Bytes::from_static(&[3; 9_000_000]))]);
            async {
                rig.table
                    .put_stream(
                        other().entity_key()?,
                        Report::PICTURE,
                        content,
                        IfMatch::Any,
                    )
                    .await
                    .map(drop)
            }
            .boxed()
        },
        || Some(report(LONG, Some(&[3; 9_000_000]))),
    ),
];

/// What fails, and where.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    TableCrash(CrashPoint),
    BlobCrash(CrashPoint),
    TableAnswer(Fault),
    BlobAnswer(CrashPoint),
}

pub(super) const FAILURES: [Failure; 9] = [
    Failure::TableCrash(CrashPoint::Before),
    Failure::TableCrash(CrashPoint::After),
    Failure::BlobCrash(CrashPoint::Before),
    Failure::BlobCrash(CrashPoint::After),
    Failure::TableAnswer(Fault::FailBefore),
    Failure::TableAnswer(Fault::LoseRequest),
    Failure::TableAnswer(Fault::LoseAnswer),
    Failure::BlobAnswer(CrashPoint::Before),
    Failure::BlobAnswer(CrashPoint::After),
];

impl Failure {
    pub(super) fn prepare(self, rig: &Rig, n: u64) {
        self.prepare_on(&rig.faults, &rig.blobs, n);
    }

    /// The `n`th request to a store of this process fails.
    pub(super) fn prepare_on(self, faults: &FaultInjector, blobs: &FaultyBlobs, n: u64) {
        let passes = (1..n).map(|_| None);
        match self {
            Self::TableCrash(point) => faults.crash_at(n, point),
            Self::BlobCrash(point) => blobs.fail_at(n, point, true),
            Self::TableAnswer(fault) => faults.script(passes.chain([Some(fault)])),
            Self::BlobAnswer(point) => blobs.fail_at(n, point, false),
        }
    }

    pub(super) fn has_happened(self, rig: &Rig) -> bool {
        self.has_happened_on(&rig.faults, &rig.blobs)
    }

    pub(super) fn has_happened_on(self, faults: &FaultInjector, blobs: &FaultyBlobs) -> bool {
        match self {
            Self::TableCrash(_) => faults.is_crashed(),
            Self::TableAnswer(_) => !faults.injected().is_empty(),
            Self::BlobCrash(_) | Self::BlobAnswer(_) => blobs.has_failed(),
        }
    }
}

#[tokio::test]
async fn no_failure_loses_a_blob_or_leaves_a_reference_without_one() -> Result<()> {
    let mut failures = 0;
    for (name, act, expected) in PATHS {
        for failure in FAILURES {
            for n in 1.. {
                let case = format!("{name}, {failure:?} at request {n}");
                let first = Rig::new().await?;
                let before = report(LONG, Some(PICTURE));
                first.table.insert(&before).await?;
                let rig = first.again().await?;
                failure.prepare(&rig, n);
                let answer = act(&rig).await;
                if !failure.has_happened(&rig) {
                    answer?;
                    break;
                }
                failures += 1;
                check(
                    &rig.again().await?,
                    &before,
                    &expected(),
                    answer.is_ok(),
                    &case,
                )
                .await?;
            }
        }
    }
    assert!(failures > 100, "only {failures}");
    Ok(())
}

/// After a collection the entity is as it was or as it should be, and as it should be if that was said.
async fn check(rig: &Rig, before: &Report, after: &Expected, told: bool, case: &str) -> Result<()> {
    rig.assert_clean(case).await?;
    let read = rig
        .table
        .get(before.entity_key()?)
        .await?
        .map(|read| Report { etag: None, ..read });
    assert!(
        read == *after || (!told && read.as_ref() == Some(before)),
        "{case}"
    );
    Ok(())
}

#[tokio::test]
async fn an_insert_that_dies_leaves_an_entity_or_nothing() -> Result<()> {
    for failure in FAILURES {
        for n in 1.. {
            let rig = Rig::new().await?;
            failure.prepare(&rig, n);
            let answer = rig.table.insert(&report(LONG, Some(PICTURE))).await;
            if !failure.has_happened(&rig) {
                answer?;
                break;
            }
            let second = rig.again().await?;
            second.assert_clean(&format!("{failure:?} at {n}")).await?;
            let read = second.table.get(other().entity_key()?).await?;
            assert!(read.is_some() || answer.is_err());
        }
    }
    Ok(())
}
