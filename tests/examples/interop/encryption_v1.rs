//! The encryption format v1, compared with the last client that wrote it: each side decrypts the entities
//! of the other.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use table_azure::AzureTableStore;
use table_core::model::{Entity, TableName, ValueRef};
use table_core::query::{Query, Select};
use table_core::store::{Operation, TableStore, TableStoreExt};
use table_encryption::{
    AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys, LegacyV1, OaepHash, RsaKeyWrap,
};

use crate::Failure;
use crate::client::{Check, Client};
use crate::report::Report;

const KINDS: [&str; 2] = ["Aes", "Rsa"];

/// Encrypted names and values.
type Values = Vec<(&'static str, String)>;

/// The entities that `encryption_v1.py` writes and expects: partition, row, encrypted values.
fn rows() -> Vec<(&'static str, &'static str, Values)> {
    let text = str::to_owned;
    vec![
        (
            "Sales",
            "223",
            vec![("Name", text("Ken")), ("Mail", text("jonesj@contoso.com"))],
        ),
        (
            "ñandú",
            "a b",
            vec![("Name", text("日本")), ("Mail", String::new())],
        ),
        ("p", "it's", vec![("Name", "x".repeat(1000))]),
    ]
}

/// Runs both directions with both kinds of keys.
pub(crate) async fn run(
    store: &Arc<AzureTableStore>,
    client: &Client<'_>,
    directory: &Path,
    report: &mut Report,
) -> Result<(), Failure> {
    let place = directory.to_str().ok_or("a directory that is text")?;
    if let Err(error) = client.run::<Vec<Check>>(&["keys", place]) {
        report.add(client.name, "creates keys", Err(error))?;
        return Ok(());
    }
    report.add(
        client.name,
        "writes entities",
        client.run(&["write", "LegacyTheirs", place]),
    )?;
    let (mut read, mut written) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let theirs = TableName::new(format!("LegacyTheirs{kind}"))?;
        read.push(check(
            kind,
            read_theirs(&open(store, kind, directory, &theirs)?, &theirs).await,
        ));
        let ours = TableName::new(format!("LegacyOurs{kind}"))?;
        written.push(check(
            kind,
            write_ours(&open(store, kind, directory, &ours)?, &ours).await,
        ));
    }
    report.add(client.name, "its entities are decrypted", Ok(read))?;
    report.add(client.name, "table-encryption writes", Ok(written))?;
    report.add(
        client.name,
        "decrypts them",
        client.run(&["read", "LegacyOurs", place]),
    )?;
    Ok(())
}

fn check(kind: &str, done: Result<(), Failure>) -> Check {
    let problems: Vec<String> = done.err().iter().map(ToString::to_string).collect();
    Check::of(format!("entities under {kind}"), &problems)
}

fn open(
    store: &Arc<AzureTableStore>,
    kind: &str,
    directory: &Path,
    table: &TableName,
) -> Result<EncryptedStore<Arc<AzureTableStore>>, Failure> {
    let key: Arc<dyn KeyWrap> = if kind == "Aes" {
        Arc::new(AesKeyWrap::new(
            "local:aes",
            &(1..=32).collect::<Vec<u8>>().into(),
        )?)
    } else {
        let der = KeyBytes::from(fs::read(directory.join("rsa.der"))?);
        Arc::new(
            RsaKeyWrap::from_pkcs8("local:rsa", &der, OaepHash::Sha1)?.with_algorithm_name("RSA"),
        )
    };
    let legacy = LegacyV1::new(Keys::new(key)).write_insecurely_for_interoperability(table);
    let v2 = Keys::new(Arc::new(AesKeyWrap::new("v2", &KeyBytes::random(32)?)?));
    Ok(EncryptedStore::builder(Arc::clone(store), v2)
        .with_legacy_v1(legacy)
        .build()?)
}

async fn read_theirs(store: &dyn TableStore, table: &TableName) -> Result<(), Failure> {
    for (partition, row, values) in rows() {
        let at = Entity::new(partition, row)?;
        let read = store.get(table, at.key(), None).await?.ok_or("no entity")?;
        expect(&read, &values)?;
        // The client writes plain numbers as Int64.
        if read.get("Age") != Some(ValueRef::Int64(41))
            || read.properties().len() != values.len() + 1
        {
            return Err(format!("{read:?}").into());
        }
        let one = store
            .get(table, at.key(), Some(&Select::new(["Name"])))
            .await?
            .ok_or("no entity")?;
        expect(&one, &values[..1])?;
    }
    match store.query_all(table, &Query::new()).await?.len() {
        3 => Ok(()),
        other => Err(format!("{other} entities").into()),
    }
}

fn expect(read: &Entity, values: &[(&str, String)]) -> Result<(), Failure> {
    for (name, value) in values {
        let found = read
            .properties()
            .find(name)
            .ok_or_else(|| format!("no {name}"))?;
        if found.value() != ValueRef::String(value) || !found.is_encrypted() {
            return Err(format!(
                "{name} of {} has another value, or is not marked as encrypted",
                read.key()
            )
            .into());
        }
    }
    Ok(())
}

async fn write_ours(store: &dyn TableStore, table: &TableName) -> Result<(), Failure> {
    store.create_table(table).await?;
    for (partition, row, values) in rows() {
        let entity = Entity::new(partition, row)?.with("Age", 41);
        let entity = values
            .into_iter()
            .fold(entity, |e, (name, value)| e.with_encrypted(name, value));
        store.write(table, Operation::Insert(entity)).await?;
    }
    Ok(())
}
