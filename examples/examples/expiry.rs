//! Entities that expire (`#[expires]`), and entities that are deleted and can be restored (`#[deleted_at]`). Reads leave both out. A
//! new entity can take the unique value of an expired one. `Upkeep` removes both later, with their index entries; it needs no Rust type.
//!
//! Cost: reads and inserts none more, but the first write of a type to a table 2 more, and an insert over an expired entity 2 more. A
//! sweep costs 1 request per page of expired entities, and 1 per group or, for types with indexes, the requests of the deletions.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use table_core::adapter::WithClock;
use table_patterns::prelude::*;
use table_patterns::upkeep::Upkeep;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Session", rename_all = "PascalCase")]
#[index(
    token,
    partition_key = "token_{token}",
    row_key = "token",
    unique = "table"
)]
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
    // `WithClock` replaces the machine's clock, so that this example can advance the time. A program does not need it.
    let passed = Arc::new(AtomicI64::new(0)); // ticks since the start
    let now = {
        let (start, passed) = (Ticks::now().get(), Arc::clone(&passed));
        move || {
            Ticks::new(start + passed.load(Ordering::Relaxed)).expect("a time before the year 9999")
        }
    };
    let advance = |ticks| passed.fetch_add(ticks, Ordering::Relaxed);
    let store = WithClock::new(MemoryStore::new(), now.clone()).into_shared();
    let after = |ticks| Ticks::new(now().get() + ticks).expect("a time before the year 9999");

    let sessions = Database::new(store.clone()).table::<Session>("Sessions")?;
    sessions.declare().await?;
    let new_session = |id, token: &str, until| Session {
        user: "ann".to_owned(),
        id,
        token: token.to_owned(),
        until,
        deleted: None,
    };
    sessions
        .insert(&new_session(1, "secret", after(30 * MINUTE)))
        .await?;
    sessions
        .insert(&new_session(2, "other", after(30 * DAY)))
        .await?;

    advance(30 * MINUTE);
    assert!(sessions.get(Session::key("ann", 1)?).await?.is_none());
    assert!(
        sessions
            .by(Session::by_token("secret"))
            .get()
            .await?
            .is_none()
    );
    assert_eq!(sessions.query().count().await?, 1);
    assert_eq!(sessions.query().with_hidden().count().await?, 2);

    // The token is unique, and session 1 has expired: the insert removes session 1 with its index entry and gives the token to session 3.
    sessions
        .insert(&new_session(3, "secret", after(30 * MINUTE)))
        .await?;
    assert_eq!(
        sessions
            .by(Session::by_token("secret"))
            .get()
            .await?
            .map(|session| session.id),
        Some(3)
    );
    assert_eq!(sessions.query().with_hidden().count().await?, 2);

    // A soft deletion can be restored for seven days. Until then no other session can have the token.
    sessions.soft_delete(Session::key("ann", 2)?).await?;
    assert!(sessions.get(Session::key("ann", 2)?).await?.is_none());
    assert!(
        sessions
            .insert(&new_session(4, "other", after(DAY)))
            .await
            .is_err()
    );
    sessions.restore(Session::key("ann", 2)?).await?;
    assert!(sessions.get(Session::key("ann", 2)?).await?.is_some());

    sessions.soft_delete(Session::key("ann", 2)?).await?;
    advance(7 * DAY);
    sessions.flush().await; // the background work of the writes, which a sweep would wait for
    let upkeep = Upkeep::new(store).tables(["Sessions"]);
    let report = upkeep.run_once().await?; // in a program of its own: `tables upkeep`
    let expiry = report.tables[&TableName::new("Sessions")?].expiry.as_ref();
    assert_eq!(expiry.map(|expiry| expiry.removed), Some(2));
    assert_eq!(sessions.query().with_hidden().count().await?, 0);
    Ok(())
}
