//! A value that is unique in the whole table: the write reserves a row in another partition first and confirms it after the commit. Of two
//! writers that race for the value, one succeeds. A value never has two owners, whatever crashes.
//!
//! Cost: an insert of a new value 5 requests, with the deletion of its journal row; a lookup 2.

use std::sync::Arc;

use table_core::adapter::{Metered, RequestMeter};
use table_patterns::prelude::*;

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "User", rename_all = "PascalCase")]
#[index(
    login,
    partition_key = "login_{login}",
    row_key = "login",
    unique = "table"
)]
struct User {
    #[partition_key]
    tenant: String,
    #[row_key(format = "user_{:06}")]
    id: u32,
    login: String,
}

fn user(tenant: &str, id: u32, login: &str) -> User {
    User {
        tenant: tenant.to_owned(),
        id,
        login: login.to_owned(),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> table_core::Result<()> {
    let meter = RequestMeter::new();
    let store = Arc::new(Metered::new(MemoryStore::new(), meter.clone()));
    let users = Database::new(store).table::<User>("Users")?;
    users.declare().await?;

    let (contoso, fabrikam) = (user("contoso", 1, "ken"), user("fabrikam", 1, "ken"));
    let (first, second) = tokio::join!(users.insert(&contoso), users.insert(&fabrikam));
    assert!(
        first.is_ok() != second.is_ok(),
        "exactly one insert succeeds"
    );
    let error = first
        .err()
        .or(second.err())
        .expect("the other insert fails");
    assert!(error.is_unique_violation(), "{error}");

    // After a write has returned, a background task deletes its journal row (1 request). Wait for it, so that only the lookup is counted.
    users.flush().await;
    let (ken, cost) = meter.measure(users.by(User::by_login("ken")).get()).await;
    let ken = ken?.expect("one of the two inserts has succeeded");
    assert_eq!(cost.total(), 2, "the entry, and its owner");

    // Deleting the owner makes the login name free again.
    users
        .delete(User::key(&ken.tenant, ken.id)?, IfMatch::Any)
        .await?;
    users.flush().await;
    let insert = async {
        users.insert(&user("adatum", 7, "ken")).await?;
        users.flush().await;
        Ok::<_, table_core::Error>(())
    };
    let (inserted, cost) = meter.measure(insert).await;
    inserted?;
    assert_eq!(cost.total(), 5);
    let owner = users.by(User::by_login("ken")).get().await?;
    assert_eq!(owner.map(|user| user.tenant).as_deref(), Some("adatum"));
    Ok(())
}
