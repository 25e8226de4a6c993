//! ETags: a write is refused if another writer has changed the entity since it was read. `update` reads, changes and replaces, and
//! repeats this after a conflict.
//!
//! Cost: `replace` 1 request; `update` 2, and 2 more per conflict.

use futures_util::future::try_join_all;
use table_patterns::prelude::*;

#[derive(Clone, Debug, TableEntity)]
#[entity(rename_all = "PascalCase")]
struct Account {
    #[partition_key]
    bank: String,
    #[row_key]
    number: u32,
    cents: i64,
    #[etag]
    etag: Option<ETag>,
}

#[tokio::main]
async fn main() -> table_core::Result<()> {
    let accounts = Database::new(MemoryStore::new()).table::<Account>("Accounts")?;
    accounts.declare().await?;
    accounts
        .insert(&Account {
            bank: "main".to_owned(),
            number: 1,
            cents: 0,
            etag: None,
        })
        .await?;

    // Two programs have read the same version. The first replaces it; the second is refused and must read again.
    let mut first = accounts.get_existing(Account::key("main", 1)?).await?;
    let mut second = first.clone();
    first.cents += 100;
    second.cents += 50;
    accounts.replace(&first).await?;
    let refused = accounts.replace(&second).await.unwrap_err();
    assert!(refused.is_precondition_failed());

    // `update` reads, changes and replaces, and repeats this after a conflict: no deposit is lost.
    let key = Account::key("main", 1)?;
    let deposit = |account: &mut Account| {
        account.cents += 10;
        Ok(())
    };
    try_join_all((0..20).map(|_| accounts.update(&key, deposit))).await?;
    assert_eq!(accounts.get_existing(&key).await?.cents, 100 + 20 * 10);
    Ok(())
}
