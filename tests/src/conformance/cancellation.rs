//! Cancellation: a dropped operation takes effect as a whole or not at all.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use table_core::model::{EdmValue, Entity, IfMatch};
use table_core::query::{Filter, Query};
use table_core::store::Operation;

use super::Harness;
use super::sample::random;
use super::table::{entity, key};

/// A write that is dropped after any number of polls leaves the old or the new entity.
pub(crate) async fn a_dropped_write_is_complete_or_absent(h: &Harness) {
    let table = h.table().await;
    table.insert(with_both(0)).await;
    let mut rng = random(1);
    let mut possible = vec![0];
    for n in 1..=rounds(h) {
        let operation = match rng.u8(..3) {
            0 => Operation::Replace(with_both(n), IfMatch::Any),
            1 => Operation::Merge(with_both(n), IfMatch::Any),
            _ => Operation::InsertOrReplace(with_both(n)),
        };
        possible.push(n);
        let finished = dropped_after(rng.u32(..4), table.write(operation)).await;
        if let Some(result) = finished {
            result.expect("a write");
            possible = vec![n];
        }
        let seen = both(&table.existing(&key("p", "r")).await);
        assert!(possible.contains(&seen), "{seen} is none of {possible:?}");
    }
}

/// A group that is dropped leaves all of its rows or none.
pub(crate) async fn a_dropped_group_is_complete_or_absent(h: &Harness) {
    let table = h.table().await;
    let mut rng = random(2);
    for n in 0..rounds(h) {
        let partition = n.to_string();
        let inserts = (0..5)
            .map(|row| Operation::Insert(entity(&partition, &row.to_string())))
            .collect();
        let finished = dropped_after(rng.u32(..4), table.transact(&partition, inserts)).await;
        let whole = finished.map(|result| result.expect("a group").len());
        let filter = Filter::eq("PartitionKey", &*partition);
        let seen = table.keys(&Query::new().with_filter(filter)).await.len();
        assert!(seen == 0 || seen == 5, "{seen} of 5 rows");
        assert!(whole.is_none_or(|count| count == seen));
    }
}

/// The store works after dropped writes: they hold no lock and lose no other write.
pub(crate) async fn the_store_works_after_dropped_writes(h: &Harness) {
    let table = h.table().await;
    let mut rng = random(3);
    for n in 0..rounds(h) {
        let row = n.to_string();
        dropped_after(
            rng.u32(..3),
            table.write(Operation::Insert(entity("dropped", &row))),
        )
        .await;
        dropped_after(rng.u32(..3), table.get(&key("kept", &row))).await;
        dropped_after(rng.u32(..3), table.page(&Query::new(), None)).await;
        table.insert(entity("kept", &row)).await;
        assert!(table.get(&key("kept", &row)).await.is_some());
    }
    let filter = Filter::eq("PartitionKey", "kept");
    let kept = table.keys(&Query::new().with_filter(filter)).await;
    assert_eq!(kept.len(), rounds(h) as usize);
}

fn rounds(h: &Harness) -> i32 {
    (h.scale().steps / 30) as i32
}

/// Polls a future at most `polls` times, yields between polls, then drops the future. Returns the result if the
/// future completed.
async fn dropped_after<T>(polls: u32, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let once = std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(value) = once.await {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Two properties that every write sets to the same number.
fn with_both(n: i32) -> Entity {
    entity("p", "r").with("A", n).with("B", n)
}

#[track_caller]
fn both(entity: &Entity) -> i32 {
    match (
        entity.get("A").map(|v| v.to_owned()),
        entity.get("B").map(|v| v.to_owned()),
    ) {
        (Some(EdmValue::Int32(a)), Some(EdmValue::Int32(b))) if a == b => a,
        torn => panic!("torn: {torn:?}"),
    }
}
