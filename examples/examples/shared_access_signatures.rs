//! Signatures that give one tenant access to its own entities for an hour. Signing sends no request.

use chrono::{TimeDelta, Utc};
use table_azure::SharedKey;
use table_azure::sas::{SasRange, TablePermissions, TableSas};
use table_core::prelude::*;

#[derive(Debug, TableEntity)]
#[entity(type = "Order", rename_all = "PascalCase")]
struct Order {
    #[partition_key]
    tenant: String,
    #[row_key(format = "order_{:06}")]
    number: u32,
    total: f64,
}

fn main() -> table_core::Result<()> {
    // The account key signs and stays on the server. This key is made up.
    let key = SharedKey::new("contosodata", "c2VjcmV0")?;
    let orders = TableName::new("Orders")?;
    let hour = Utc::now() + TimeDelta::hours(1);

    // A typed range: the partition of a tenant.
    let tenant = TableSas::new(&orders, TablePermissions::READ, hour)
        .within_partition::<Order>(Order::partition("contoso")?)?
        .sign(&key)?;
    assert!(tenant.as_str().contains("spk=contoso"));
    assert!(tenant.as_str().contains("epk=contoso"));

    // Explicit keys: orders 1 to 99, for reading and adding.
    let (first, last) = (Order::key("contoso", 1)?, Order::key("contoso", 99)?);
    let hundred = TableSas::new(&orders, TablePermissions::READ | TablePermissions::ADD, hour)
        .with_range(SasRange::entities(first.key(), last.key()))
        .sign(&key)?;
    assert!(hundred.as_str().contains("000001"));
    assert!(hundred.as_str().contains("sp=ra"));

    // The permissions of a stored access policy, which can be revoked there.
    let by_policy = TableSas::by_policy(&orders, "readers").sign(&key)?;
    assert!(by_policy.as_str().contains("si=readers"));

    // The URL for a client. `AzureTableStore::with_sas` opens it. Logs never show the token.
    let url = tenant.url("https://contosodata.table.core.windows.net");
    assert!(url.starts_with("https://contosodata.table.core.windows.net"));
    assert!(!format!("{tenant:?}").contains("sig="));
    Ok(())
}
