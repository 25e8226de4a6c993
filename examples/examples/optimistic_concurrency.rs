//! Two writers and one entity: the second write is refused, reads again, and no change is lost.

use futures_util::future::try_join_all;
use table_core::memory::MemoryStore;
use table_core::prelude::*;

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
    let accounts = Table::<Account>::new(MemoryStore::new(), "Accounts")?;
    accounts.create_if_missing().await?;
    accounts.insert(&Account { bank: "main".to_owned(), number: 1, cents: 0, etag: None }).await?;

    // Both have read the same version. The second write fails.
    let mut mine = accounts.get_existing(Account::key("main", 1)?).await?;
    let mut yours = mine.clone();
    mine.cents += 100;
    yours.cents += 50;
    accounts.replace(&mine).await?;
    let refused = accounts.replace(&yours).await.unwrap_err();
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
