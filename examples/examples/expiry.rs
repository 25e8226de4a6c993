//! Entities that expire, and entities that are deleted and restored. Reads leave them out; a new entity takes the unique value of an
//! expired one; upkeep removes them with their index entries, by the manifest alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use table_core::adapter::WithClock;
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};
use table_patterns::upkeep::Upkeep;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Session", rename_all = "PascalCase")]
#[index(token, partition_key = "token_{token}", row_key = "x", unique = "table")]
struct Session {
    #[partition_key]
    user: String,
    #[row_key(format = "session_{:06}")]
    id: u32,
    token: String,
    #[expires]
    until: Ticks,
    #[deleted_at(keep_days = 7)]
    deleted: Option<Ticks>,
}

const MINUTE: i64 = 60 * 10_000_000; // in ticks of 100 ns
const DAY: i64 = 24 * 60 * MINUTE;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program uses the clock of its machine. This one sets the time.
    let (time, start) = (Arc::new(AtomicI64::new(0)), Ticks::now().get());
    let clock = Arc::clone(&time);
    let now = move || Ticks::new(start + clock.load(Ordering::Relaxed)).unwrap_or(Ticks::MAX);
    let store = WithClock::new(MemoryStore::new(), now.clone()).into_shared();
    let later = |ticks| Ticks::new(now().get() + ticks).unwrap_or(Ticks::MAX);

    let sessions = IndexedTable::<Session>::open(store.clone(), "Sessions", IndexOptions::local()).await?;
    let new = |id, token: &str, until| {
        let (user, token) = ("ann".to_owned(), token.to_owned());
        Session { user, id, token, until, deleted: None }
    };
    sessions.insert(&new(1, "secret", later(30 * MINUTE))).await?;
    sessions.insert(&new(2, "other", later(30 * DAY))).await?;

    time.fetch_add(30 * MINUTE, Ordering::Relaxed);
    assert!(sessions.get(Session::key("ann", 1)?).await?.is_none());
    assert!(sessions.by(Session::by_token("secret")).first().await?.is_none());
    assert_eq!(sessions.query().count().await?, 1);
    assert_eq!(sessions.query().with_hidden().count().await?, 2);

    // The token is unique. Its expired owner is removed, with its index entry, before the new session gets it.
    sessions.insert(&new(3, "secret", later(30 * MINUTE))).await?;
    assert_eq!(sessions.by(Session::by_token("secret")).first().await?.map(|session| session.id), Some(3));
    assert_eq!(sessions.query().with_hidden().count().await?, 2);

    // A deletion that can be taken back for seven days. The token stays reserved.
    sessions.soft_delete(Session::key("ann", 2)?).await?;
    assert!(sessions.get(Session::key("ann", 2)?).await?.is_none());
    assert!(sessions.insert(&new(4, "other", later(DAY))).await.is_err());
    sessions.restore(Session::key("ann", 2)?).await?;
    assert!(sessions.get(Session::key("ann", 2)?).await?.is_some());

    sessions.soft_delete(Session::key("ann", 2)?).await?;
    time.fetch_add(7 * DAY, Ordering::Relaxed);
    let upkeep = Upkeep::new(store).tables(["Sessions"]).with_options(IndexOptions::local());
    let report = upkeep.run_once().await?; // in a program of its own: `tables upkeep`
    let expiry = report.tables.values().next().and_then(|table| table.expiry.as_ref());
    assert_eq!(expiry.map(|expiry| expiry.removed), Some(2));
    assert_eq!(sessions.query().with_hidden().count().await?, 0);
    Ok(())
}
