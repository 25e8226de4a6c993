//! Signatures in both directions: of a table, of a range of keys, of the account.

use chrono::{TimeDelta, Utc};
use serde::Deserialize;
use table_azure::AzureTableStore;
use table_azure::sas::{
    AccountPermissions, AccountResources, AccountSas, SasProtocol, SasRange, SasToken,
    TablePermissions, TableSas,
};
use table_core::Result;
use table_core::model::{PartitionKey, TableName};
use table_core::store::{ErrorKind, Operation, TableStore, TableStoreExt};

use crate::Failure;
use crate::client::{Check, Client};
use crate::sample::entity;

/// The bounds of the signed range, with characters that both the signed text and the URL must encode correctly.
/// The entity is between the bounds.
const FIRST: &str = "it & b's +\u{e9}";
const LAST: &str = "q\u{1F600}";

/// The other client uses our signatures.
pub(crate) fn given(
    store: &AzureTableStore,
    table: &TableName,
    client: &Client<'_>,
) -> std::result::Result<Vec<Check>, Failure> {
    let tokens = ours(store, table)?;
    client.run(&[
        "use",
        table.as_str(),
        tokens[0].as_str(),
        tokens[1].as_str(),
        tokens[2].as_str(),
    ])
}

fn ours(store: &AzureTableStore, table: &TableName) -> Result<[SasToken; 3]> {
    let expires = Utc::now() + TimeDelta::hours(1);
    let whole = TableSas::new(table, TablePermissions::READ, expires)
        .with_protocol(SasProtocol::HttpsAndHttp);
    let range = SasRange::partitions(&PartitionKey::new(FIRST)?, &PartitionKey::new(LAST)?);
    let rights = AccountPermissions::LIST | AccountPermissions::READ;
    let account = AccountSas::new(rights, AccountResources::ALL, expires)
        .with_protocol(SasProtocol::HttpsAndHttp);
    Ok([
        store.sign(&whole)?,
        store.sign(&whole.with_range(range))?,
        store.sign_account(&account)?,
    ])
}

/// The signatures that the other client made.
#[derive(Deserialize)]
struct Theirs {
    table: String,
    range: String,
    account: String,
}

/// We use the signatures of the other client.
pub(crate) async fn taken(
    table: &TableName,
    client: &Client<'_>,
) -> std::result::Result<Vec<Check>, Failure> {
    let theirs: Theirs = client.run(&["sign", table.as_str(), FIRST, LAST])?;
    let with_sas = |token: &str| {
        let url = format!("{}?{token}", client.service().endpoint);
        AzureTableStore::with_sas(&url, None)
    };
    let (whole, range, account) = (
        with_sas(&theirs.table)?,
        with_sas(&theirs.range)?,
        with_sas(&theirs.account)?,
    );
    let listed = account
        .all_tables(None)
        .await
        .map(|tables| tables.contains(table));
    Ok(vec![
        Check::of("table SAS: a read is allowed", &reads(&whole, table).await),
        Check::of(
            "table SAS: a write is refused",
            &may_not_write(&whole, table).await,
        ),
        Check::of("range SAS: a read is allowed", &reads(&range, table).await),
        Check::of(
            "account SAS: a list is allowed",
            &expect(matches!(listed, Ok(true)), "not listed"),
        ),
        Check::of(
            "account SAS: a write is refused",
            &may_not_write(&account, table).await,
        ),
    ])
}

async fn reads(store: &AzureTableStore, table: &TableName) -> Vec<String> {
    let read = store
        .get_existing(table, entity("it's", "it's").key())
        .await;
    read.err().map(|e| e.to_string()).into_iter().collect()
}

async fn may_not_write(store: &AzureTableStore, table: &TableName) -> Vec<String> {
    let written = store
        .write(table, Operation::Insert(entity("a", "guest")))
        .await;
    let refused = written.is_err_and(|e| matches!(e.kind(), ErrorKind::Forbidden(_)));
    expect(refused, "was not refused as forbidden")
}

fn expect(holds: bool, otherwise: &str) -> Vec<String> {
    if holds {
        Vec::new()
    } else {
        vec![otherwise.to_owned()]
    }
}
