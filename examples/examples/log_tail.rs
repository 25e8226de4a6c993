//! Newest entries first: an employee's latest expense claims in one request.
//!
//! Cost: append 1 request; the newest entries, or an older page, 1 for up to 1,000 entries.

use futures_util::TryStreamExt;
use table_patterns::log_tail::{EntryId, LogTail};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Claim {
    amount: i32,
    purpose: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let store = MemoryStore::new().into_shared();
    let claims =
        LogTail::<Claim>::new(store.clone(), "Claims", PartitionKey::new("empid_000223")?)?;
    claims.create_if_missing().await?;

    for amount in 1..=25 {
        claims
            .append(&Claim {
                amount,
                purpose: "taxi".to_owned(),
            })
            .await?;
    }

    // 1 request, however long the log is.
    let latest = claims.latest(10).await?;
    assert_eq!(latest[0].value.amount, 25);
    assert_eq!(latest[9].value.amount, 16);

    // A client keeps the last entry's id and requests older entries. The id is plain text: check that the user may read this log.
    let last_id = latest[9].id.to_string();
    let older = claims.page(Some(&last_id.parse::<EntryId>()?), 10).await?;
    assert_eq!(older[0].value.amount, 15);
    assert_eq!(older[9].value.amount, 6);

    // The log also returns entities that another program has written with the formula of Microsoft's Table design guide: inverted ticks
    // as RowKey. `EntryId::of_guide` is the id of such an entity.
    let moment: Ticks = "2012-01-01T00:00:00Z".parse()?;
    let row = format!("{:019}", moment.inverted());
    let theirs = Entity::new("empid_000223", row)?
        .with("Amount", 7)
        .with("Purpose", "train");
    store
        .write(&TableName::new("Claims")?, Operation::Insert(theirs))
        .await?;
    let oldest = claims.get(&EntryId::of_guide(moment)).await?;
    assert_eq!(oldest.map(|entry| entry.value.amount), Some(7));

    // All entries since a time, newest first.
    let all: Vec<_> = claims.since(moment).try_collect().await?;
    assert_eq!(all.len(), 26);
    Ok(())
}
