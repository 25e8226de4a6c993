//! Blobs under another key, in one piece whatever fails.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use table_core::adapter::{Fault, FaultRule};
use table_core::store::{ErrorKind, OperationKind, Result, TableStore};
use table_core::typed::TableEntity;

use super::crashes::FAILURES;
use super::{LONG, PICTURE, Report, Rig, database, report};
use crate::large::{BlobCodec, BlobContext, BlobKey, ByteStream, LargeOptions};
use crate::tests::AlwaysFirstPage;

/// Adds the number of its key to every byte, behind one that tells the key: stands for encryption.
#[derive(Debug)]
struct Keyed {
    active: u8,
    /// The last key that it can still read.
    oldest: u8,
}

impl BlobCodec for Keyed {
    fn name(&self) -> &'static str {
        "keyed"
    }

    fn encrypts(&self) -> bool {
        true
    }

    fn encode(&self, _: &BlobContext, content: ByteStream) -> ByteStream {
        let key = self.active;
        let sealed =
            content.map_ok(move |piece| piece.iter().map(|byte| byte.wrapping_add(key)).collect());
        stream::iter([Ok(Bytes::copy_from_slice(&[key]))])
            .chain(sealed)
            .boxed()
    }

    fn decode(&self, _: &BlobContext, stored: ByteStream) -> ByteStream {
        let oldest = self.oldest;
        let open = async move {
            let all: Vec<Bytes> = stored.try_collect().await?;
            let (key, sealed) = (all.concat()[0], all.concat()[1..].to_vec());
            match key >= oldest {
                true => Ok(sealed.iter().map(|byte| byte.wrapping_sub(key)).collect()),
                false => Err(ErrorKind::Encryption(format!("no key {key}")).into()),
            }
        };
        stream::once(open).boxed()
    }

    fn active_key(&self) -> Option<String> {
        Some(self.active.to_string())
    }

    fn key_of(&self, start: &[u8]) -> Option<BlobKey> {
        start.first().map(|key| BlobKey {
            id: key.to_string(),
            active: *key == self.active,
        })
    }
}

/// A process on the stores of another, or on new ones, with these keys.
async fn keyed(stores: Option<&Rig>, active: u8, oldest: u8) -> Result<Rig> {
    let options = LargeOptions::default().with_codec(Arc::new(Keyed { active, oldest }));
    let (store, inner) = stores
        .map(|rig| (Arc::clone(&rig.store), Arc::clone(&rig.inner)))
        .unwrap_or_default();
    Rig::with(store, inner, options).await
}

fn whole() -> Report {
    report(LONG, Some(PICTURE))
}

#[tokio::test]
async fn every_blob_is_written_once_for_what_it_costs() -> Result<()> {
    let first = keyed(None, 1, 1).await?;
    first.table.insert(&whole()).await?;
    let rig = keyed(Some(&first), 2, 1).await?;
    let mut rewrite = rig.table.rewrite_blobs();
    let found = rewrite.run().await?;
    assert_eq!(found.rows, 1);
    assert_eq!(found.blobs, 2);
    assert_eq!(found.rewritten, 2);
    assert_eq!(
        found
            .keys
            .iter()
            .map(|(id, n)| (id.as_str(), *n))
            .collect::<Vec<_>>(),
        [("2", 2)]
    );
    assert_eq!(
        (rig.meter.total(), rig.blobs.requests()),
        (2, 8),
        "a page, a merge; start, read, write, delete of two"
    );
    assert!(!rewrite.step().await?);
    rig.meter.reset();
    assert_eq!(rig.table.rewrite_blobs().run().await?.rewritten, 0);
    assert_eq!(rig.meter.total(), 1);
    assert_eq!(rig.blobs.requests(), 10);
    let new = keyed(Some(&first), 2, 2).await?;
    assert_eq!(
        new.table.get_existing(whole().entity_key()?).await?.text,
        LONG
    );
    let error = Rig::new()
        .await?
        .table
        .rewrite_blobs()
        .run()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("'plain'"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_page_that_failed_can_be_repeated() -> Result<()> {
    let first = keyed(None, 1, 1).await?;
    for number in 1..=3 {
        first.table.insert(&Report { number, ..whole() }).await?;
    }
    let rig = keyed(Some(&first), 2, 1).await?;
    let mut rewrite = rig.table.rewrite_blobs().with_page_size(2);
    rig.faults
        .add(FaultRule::new(Fault::FailBefore).on(OperationKind::Merge));
    for _ in 0..3 {
        let error = rewrite.run().await.unwrap_err();
        assert!(error.is_transient(), "{error}");
    }
    rig.faults.heal();
    assert_eq!(rewrite.run().await?.keys.get("2"), Some(&6));
    Ok(())
}

#[tokio::test]
async fn a_repeated_continuation_token_ends_a_rewrite_with_an_error() -> Result<()> {
    for rows in [0, 1] {
        let rig = keyed(None, 1, 1).await?;
        for number in 1..=3 {
            rig.table.insert(&Report { number, ..whole() }).await?;
        }
        let store = AlwaysFirstPage::around(Arc::clone(&rig.store) as Arc<dyn TableStore>, rows);
        let options = LargeOptions::default().with_codec(Arc::new(Keyed {
            active: 1,
            oldest: 1,
        }));
        let db = database(store, rig.inner.clone()).with_large(options);
        let reports = db.table::<Report>("Reports")?;
        let error = reports.rewrite_blobs().run().await.unwrap_err();
        assert!(
            error.to_string().contains("repeated continuation"),
            "{rows}: {error}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_rewrite_that_fails_anywhere_loses_nothing_and_can_be_run_again() -> Result<()> {
    let mut failures = 0;
    for failure in FAILURES {
        for n in 1.. {
            let case = format!("{failure:?} at request {n}");
            let first = keyed(None, 1, 1).await?;
            first.table.insert(&whole()).await?;
            let rig = keyed(Some(&first), 2, 1).await?;
            failure.prepare(&rig, n);
            let answer = rig.table.rewrite_blobs().run().await.map(drop);
            if !failure.has_happened(&rig) {
                answer?;
                break;
            }
            failures += 1;
            let second = keyed(Some(&first), 2, 1).await?;
            second.assert_clean(&case).await?;
            let read = second.table.get_existing(whole().entity_key()?).await?;
            assert_eq!(Report { etag: None, ..read }, whole(), "{case}");
            second.table.rewrite_blobs().run().await?;
            second.assert_clean(&case).await?;
            let new = keyed(Some(&first), 2, 2).await?;
            let read = new.table.get_existing(whole().entity_key()?).await?;
            assert_eq!(Report { etag: None, ..read }, whole(), "{case}");
        }
    }
    assert!(failures > 30, "only {failures}");
    Ok(())
}
