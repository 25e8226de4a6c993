//! Shared access signatures (SAS): tokens that give one tenant access to its own entities for an hour.
//!
//! Cost: signing sends no request.

use chrono::{TimeDelta, Utc};
use table_azure::SharedKey;
use table_azure::sas::{SasRange, TablePermissions, TableSas};
use table_patterns::prelude::*;

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
    let expires = Utc::now() + TimeDelta::hours(1);

    // The partition of one tenant, for reading. The service checks keys only: the signature covers every entity of that partition whose
    // RowKey is in the range of the type, whatever its type.
    let tenant = TableSas::new(&orders, TablePermissions::READ, expires)
        .within_partition::<Order>(Order::partition("contoso")?)?
        .sign(&key)?;
    // spk, epk: first and last PartitionKey
    assert!(tenant.as_str().contains("spk=contoso"));
    assert!(tenant.as_str().contains("epk=contoso"));

    // Explicit keys: orders 1 to 99, for reading and adding.
    let (first, last) = (Order::key("contoso", 1)?, Order::key("contoso", 99)?);
    let rows = TableSas::new(
        &orders,
        TablePermissions::READ | TablePermissions::ADD,
        expires,
    )
    .with_range(SasRange::entities(first.key(), last.key()))
    .sign(&key)?;
    assert!(rows.as_str().contains("000001"));
    assert!(rows.as_str().contains("sp=ra"), "read and add");

    // Takes permissions and expiry from the access policy `readers`, which must be stored with the table. To revoke the signature, remove
    // the policy from the table.
    let by_policy = TableSas::by_policy(&orders, "readers").sign(&key)?;
    assert!(by_policy.as_str().contains("si=readers"));

    // The URL for a client; `AzureTableStore::with_sas` opens it. It contains the signature: do not log it. (`Debug` of the token shows no
    // signature.)
    let url = tenant.url("https://contosodata.table.core.windows.net");
    assert!(url.starts_with("https://contosodata.table.core.windows.net"));
    assert!(!format!("{tenant:?}").contains("sig="));
    Ok(())
}
