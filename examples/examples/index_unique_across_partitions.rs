//! A value that is unique in the whole table: the write reserves a row in another partition first and settles
//! it afterwards. Of two writers that race for the value, one succeeds.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_core::prelude::*;
use table_patterns::index::{IndexOptions, IndexedTable};

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "User", rename_all = "PascalCase")]
#[index(login, partition_key = "login_{login}", row_key = "login", unique = "table")]
struct User {
    #[partition_key]
    tenant: String,
    #[row_key(format = "user_{:06}")]
    id: u32,
    login: String,
}

fn user(tenant: &str, id: u32, login: &str) -> User {
    User { tenant: tenant.to_owned(), id, login: login.to_owned() }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let users = IndexedTable::<User>::open(store, "Users", IndexOptions::default()).await?;

    let (contoso, fabrikam) = (user("contoso", 1, "ken"), user("fabrikam", 1, "ken"));
    let (first, second) = tokio::join!(users.insert(&contoso), users.insert(&fabrikam));
    assert!(first.is_ok() != second.is_ok(), "one of them");
    let error = first.err().or(second.err()).expect("the other's error");
    assert!(error.is_unique_violation(), "{error}");

    users.flush().await; // what follows the answers of the writes is not counted below
    let before = meter.total();
    let ken = users.by(User::by_login("ken")).get().await?;
    assert_eq!((ken.is_some(), meter.total() - before), (true, 2), "the row, and its owner");

    // The name is free again after its owner releases it.
    let (tenant, id) = ken.map(|ken| (ken.tenant, ken.id)).unwrap_or_default();
    users.delete(User::key(&tenant, id)?, IfMatch::Any).await?;
    users.insert(&user("adatum", 7, "ken")).await?;
    assert_eq!(users.by(User::by_login("ken")).get().await?.map(|ken| ken.tenant).as_deref(), Some("adatum"));
    users.flush().await;
    Ok(())
}
