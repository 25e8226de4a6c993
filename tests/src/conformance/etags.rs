//! ETags: opaque versions of an entity, compared exactly, never used twice.

use std::collections::HashSet;

use table_core::model::{ETag, IfMatch};
use table_core::query::{Filter, Query};
use table_core::store::{ErrorKind, Operation};

use super::Harness;
use super::table::{entity, key, refused};

/// Every write makes a new ETag, also in rapid succession.
pub(crate) async fn differ_under_rapid_updates(h: &Harness) {
    let table = h.table().await;
    let mut seen = HashSet::from([table.insert(entity("p", "r").with("A", 0)).await]);
    for n in 1..100 {
        let etag = table
            .put(Operation::InsertOrReplace(entity("p", "r").with("A", n)))
            .await;
        assert!(seen.insert(etag.clone()), "{etag} was used before");
    }
}

/// Concurrent writers of one entity get different ETags.
pub(crate) async fn differ_under_concurrent_updates(h: &Harness) {
    let table = h.table().await;
    let writers = (0..h.scale().tasks as i32).map(|n| {
        let table = table.clone();
        tokio::spawn(async move {
            table
                .put(Operation::InsertOrMerge(entity("p", "r").with("A", n)))
                .await
        })
    });
    let writers: Vec<_> = writers.collect();
    let count = writers.len();
    let mut seen = HashSet::new();
    for writer in writers {
        seen.insert(writer.await.expect("a writer"));
    }
    assert_eq!(seen.len(), count);
    assert!(
        seen.contains(
            table
                .existing(&key("p", "r"))
                .await
                .etag()
                .expect("a version")
        )
    );
}

/// An entity that is deleted and inserted again gets no earlier ETag. A writer that read the deleted entity is
/// refused.
pub(crate) async fn are_not_reused_after_a_delete(h: &Harness) {
    let table = h.table().await;
    let mut seen = Vec::new();
    for n in 0..10 {
        let etag = table.insert(entity("p", "r").with("A", n)).await;
        assert!(!seen.contains(&etag), "{etag} was used before");
        table
            .write(Operation::Delete(key("p", "r"), (&etag).into()))
            .await
            .expect("a delete");
        seen.push(etag);
    }
    table.insert(entity("p", "r").with("A", 0)).await;
    for stale in seen {
        let error = refused(
            table
                .write(Operation::Delete(key("p", "r"), stale.into()))
                .await,
        );
        assert!(error.is_precondition_failed(), "{error}");
    }
}

/// Reads and refused writes do not change the ETag.
pub(crate) async fn do_not_change_without_a_write(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r").with("A", 1)).await;
    refused(table.write(Operation::Insert(entity("p", "r"))).await);
    refused(
        table
            .write(Operation::Merge(
                entity("p", "r"),
                ETag::from("W/\"no\"").into(),
            ))
            .await,
    );
    table.all(&Query::new()).await;
    assert_eq!(table.existing(&key("p", "r")).await.etag(), Some(&etag));
}

/// ETags are compared exactly: a text with a small difference is another ETag.
pub(crate) async fn are_compared_exactly(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r")).await.to_string();
    let almost = [
        etag.replacen("W/", "", 1),
        etag.replacen('"', "", 2),
        etag.to_uppercase(),
        etag.replacen("W/\"", "W/\" ", 1),
        etag.replacen('"', "\"0", 1),
    ];
    for wrong in almost.into_iter().filter(|wrong| *wrong != etag) {
        let attempt = Operation::Delete(key("p", "r"), ETag::from(wrong.as_str()).into());
        refused(table.write(attempt).await);
        assert!(
            table.get(&key("p", "r")).await.is_some(),
            "{wrong} was taken for {etag}"
        );
    }
}

/// A text that is no ETag is refused as such: the answer *another writer has changed the entity* would be wrong.
pub(crate) async fn malformed_texts_are_refused(h: &Harness) {
    let table = h.table().await;
    let before = table.insert(entity("p", "r").with("A", 1)).await;
    for text in [
        "",
        "*",
        "W/",
        "\"",
        "W/\"",
        "no quotes",
        "W/\"a\"b\"",
        "W/\"a\nb\"",
        "\"a\" ",
        "W/'a'",
    ] {
        let wrong = || IfMatch::Exactly(ETag::from(text));
        for operation in [
            Operation::Replace(entity("p", "r").with("A", 2), wrong()),
            Operation::Merge(entity("p", "r").with("A", 2), wrong()),
            Operation::Delete(key("p", "r"), wrong()),
            // The form of the request comes before the entity.
            Operation::Delete(key("p", "missing"), wrong()),
        ] {
            let group = table.transact("p", vec![operation.clone()]);
            for error in [
                refused(table.write(operation.clone()).await),
                refused(group.await),
            ] {
                let is_invalid = matches!(error.root().kind(), ErrorKind::InvalidArgument(_));
                assert!(
                    is_invalid && error.to_string().contains("ETag"),
                    "{text:?}: {error}"
                );
            }
        }
    }
    assert_eq!(table.existing(&key("p", "r")).await.etag(), Some(&before));
}

/// `*` as the text of an ETag does not mean "any version": only `IfMatch::Any` does.
pub(crate) async fn an_asterisk_is_not_any_version(h: &Harness) {
    let table = h.table().await;
    table.insert(entity("p", "r").with("A", 1)).await;
    let star = IfMatch::Exactly(ETag::from("*"));
    refused(
        table
            .write(Operation::Replace(
                entity("p", "r").with("A", 2),
                star.clone(),
            ))
            .await,
    );
    refused(
        table
            .write(Operation::Merge(
                entity("p", "r").with("A", 2),
                star.clone(),
            ))
            .await,
    );
    refused(table.write(Operation::Delete(key("p", "r"), star)).await);
    assert_eq!(
        table
            .existing(&key("p", "r"))
            .await
            .get("A")
            .map(|v| v.to_owned()),
        Some(1.into())
    );
}

/// An ETag can be printed and parsed: a web client can keep it.
pub(crate) async fn can_be_printed_and_parsed(h: &Harness) {
    let table = h.table().await;
    let text = table.insert(entity("p", "r")).await.to_string();
    let etag = ETag::from(text.as_str());
    table
        .put(Operation::Replace(
            entity("p", "r").with("A", 1),
            etag.into(),
        ))
        .await;
}

/// A write, a get, a point query and a scan return the same ETag.
pub(crate) async fn are_equal_in_every_answer(h: &Harness) {
    let table = h.table().await;
    let etag = table.insert(entity("p", "r").with("A", 1)).await;
    assert_eq!(table.existing(&key("p", "r")).await.etag(), Some(&etag));
    let point = Filter::eq("PartitionKey", "p").and(Filter::eq("RowKey", "r"));
    for query in [Query::new(), Query::new().with_filter(point)] {
        let found = table.all(&query).await;
        assert_eq!(
            found.iter().map(|e| e.etag()).collect::<Vec<_>>(),
            [Some(&etag)],
            "{query:?}"
        );
    }
}
