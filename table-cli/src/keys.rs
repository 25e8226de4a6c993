//! The keys of encrypted properties: `--keys FILE`, or `TABLES_KEYS`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::Deserialize;
use table_core::manifest::Manifest;
use table_core::model::TableName;
use table_core::store::TableStore;
use table_encryption::{
    AesKeyWrap, EncryptedStore, KeyBytes, KeyWrap, Keys, LegacyV1, OaepHash, RsaKeyWrap,
};
use zeroize::Zeroizing;

use crate::failure::{Failure, Result};
use crate::store::{OpenStore, manifest, may_be_secret};

/// The environment variable with the keys, or with the name of their file.
const KEYS_VARIABLE: &str = "TABLES_KEYS";

/// The form of the file, for the help.
pub(crate) const KEY_FILE_FORM: &str = r#"The file of keys is JSON. The first key encrypts, and all decrypt:
  {"keys": [
     {"id": "kek-2027", "aes": "BASE64 OF 32 BYTES"},
     {"id": "kek-2026", "rsa": "private.pem", "algorithm": "RSA-OAEP-256"},
     {"vault": "https://NAME.vault.azure.net/keys/KEY/VERSION", "algorithm": "RSA-OAEP-256"}],
   "encrypt": {"TABLE": ["PROPERTY"]},
   "legacy_keys": [{"id": "local:key1", "aes": "…"}]}
An RSA key is a file in PEM, PKCS#8 or public. Paths begin at the directory of the file. TABLES_KEYS has the path of the file, or its text."#;

/// The keys of encrypted properties.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct KeyArgs {
    /// The file with the keys of encrypted properties; TABLES_KEYS in the environment has the same. `tables rotate --help` shows the form
    #[arg(long = "keys", value_name = "FILE", global = true)]
    file: Option<PathBuf>,
}

/// The keys, and the properties that they encrypt.
pub(crate) struct KeyRing {
    keys: Keys,
    legacy: Option<Keys>,
    /// The properties to encrypt, by table.
    encrypt: BTreeMap<TableName, Vec<String>>,
}

/// What a migration accepts in a table until it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmigrated {
    /// Nothing: plaintext of an encrypted property is refused.
    Refused,
    /// Plaintext, and the legacy format if there are keys for it.
    Accepted,
}

// A mistyped member is refused: without its `encrypt`, the file would leave properties in plaintext.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    keys: Vec<Entry>,
    #[serde(default)]
    encrypt: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    legacy_keys: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<String>,
    aes: Option<Zeroizing<String>>,
    rsa: Option<PathBuf>,
    vault: Option<String>,
    algorithm: Option<String>,
}

/// Shows the ids of keys only.
impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("keys", &self.keys)
            .field("encrypt", &self.encrypt)
            .finish_non_exhaustive()
    }
}

impl KeyArgs {
    /// Reads the keys; `None` if none are given. No error repeats a part of the file.
    pub(crate) fn read(&self) -> Result<Option<KeyRing>> {
        let (text, directory, place) = match (&self.file, std::env::var(KEYS_VARIABLE)) {
            (Some(path), _) => (
                read(path)?,
                path.parent().map(Path::to_owned),
                path.display().to_string(),
            ),
            // The text of the file itself, for containers whose secrets are variables.
            (None, Ok(text)) if text.trim_start().starts_with('{') => {
                (Zeroizing::new(text), None, KEYS_VARIABLE.to_owned())
            }
            (None, Ok(path)) => {
                let path = PathBuf::from(path);
                (
                    read(&path)?,
                    path.parent().map(Path::to_owned),
                    path.display().to_string(),
                )
            }
            (None, Err(_)) => return Ok(None),
        };
        let directory = directory.unwrap_or_default();
        parse(&text, &directory)
            .map(Some)
            .map_err(|reason| Failure::misuse(format!("{place}: {reason}")))
    }

    /// Reads the keys of a command that needs them.
    pub(crate) fn required(&self) -> Result<KeyRing> {
        self.read()?.ok_or_else(|| {
            Failure::misuse(format!(
                "this command needs keys: give --keys FILE, or set {KEYS_VARIABLE}"
            ))
        })
    }

    /// Lets an open store decrypt and encrypt these tables, if keys are given. 1 request for the manifest of each table then.
    pub(crate) async fn apply(&self, open: &mut OpenStore, tables: &[TableName]) -> Result<()> {
        match self.read()? {
            Some(ring) => ring.apply(open, tables).await,
            None => Ok(()),
        }
    }
}

impl KeyRing {
    /// Lets an open store decrypt and encrypt these tables. 1 request for the manifest of each table.
    pub(crate) async fn apply(&self, open: &mut OpenStore, tables: &[TableName]) -> Result<()> {
        let store = self
            .wrap(&open.store, tables, Unmigrated::Refused, &[])
            .await?;
        open.store = Arc::new(store);
        Ok(())
    }

    /// Wraps a store that has no manifests yet: these properties are encrypted, and the properties that the file names. No request.
    pub(crate) fn wrap_new(
        &self,
        store: &Arc<dyn TableStore>,
        names: impl IntoIterator<Item = (TableName, Vec<String>)>,
    ) -> Result<Arc<dyn TableStore>> {
        let mut builder = EncryptedStore::builder(Arc::clone(store), self.keys.clone());
        for (table, names) in names {
            let by_file = self.encrypt.get(&table).into_iter().flatten().cloned();
            builder = builder.encrypt(&table, names.into_iter().chain(by_file));
        }
        Ok(Arc::new(builder.build().map_err(Failure::misuse)?))
    }

    /// Wraps a store: the properties that the file and the manifests name are encrypted in these tables, and `names` too. 1 request
    /// for each table.
    pub(crate) async fn wrap(
        &self,
        store: &Arc<dyn TableStore>,
        tables: &[TableName],
        unmigrated: Unmigrated,
        names: &[String],
    ) -> Result<EncryptedStore<Arc<dyn TableStore>>> {
        let mut builder = EncryptedStore::builder(Arc::clone(store), self.keys.clone());
        let mut legacy = self.legacy.clone().map(LegacyV1::new);
        for table in tables {
            let declared = self.names(store, table).await?;
            builder = builder.encrypt(table, declared.into_iter().chain(names.iter().cloned()));
            if unmigrated == Unmigrated::Accepted {
                builder = builder.accept_plaintext(table);
            }
            legacy = legacy.map(|legacy| legacy.read(table));
        }
        if let Some(legacy) = legacy.filter(|_| unmigrated == Unmigrated::Accepted) {
            builder = builder.with_legacy_v1(legacy);
        }
        builder.build().map_err(Failure::misuse)
    }

    /// The names of the encrypted properties of a table, by the file and by the manifest. 1 request.
    pub(crate) async fn names(
        &self,
        store: &Arc<dyn TableStore>,
        table: &TableName,
    ) -> Result<Vec<String>> {
        let manifest = manifest(&**store, table).await?;
        let declared = manifest
            .types
            .iter()
            .flat_map(|stored| stored.encrypted.iter().cloned());
        // Both count: a manifest lists what programs have declared, and the file has what a migration is
        // about to encrypt.
        let by_file = self.encrypt.get(table).into_iter().flatten().cloned();
        let mut names: Vec<_> = declared.chain(by_file).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Whether there are keys of the legacy format.
    pub(crate) const fn has_legacy(&self) -> bool {
        self.legacy.is_some()
    }
}

/// Refuses a table whose manifest has encrypted properties, unless the store has their keys.
pub(crate) fn check_keys(
    manifest: &Manifest,
    table: &TableName,
    store: &dyn TableStore,
) -> Result<()> {
    let encrypted = manifest
        .types
        .iter()
        .find(|stored| !stored.encrypted.is_empty());
    match encrypted.filter(|_| !store.profile().encrypts) {
        None => Ok(()),
        Some(stored) => Err(Failure::misuse(format!(
            "the table '{table}' has encrypted properties of the type {}, and nothing was changed: give --keys FILE",
            stored.name()
        ))),
    }
}

fn read(path: &Path) -> Result<Zeroizing<String>> {
    let text = std::fs::read_to_string(path).map(Zeroizing::new);
    text.map_err(|error| {
        let name = path.display().to_string();
        // The text of the keys in place of the name of their file.
        let is_path = name.contains(['/', '.']) && !name.contains('{') && !may_be_secret(&name);
        let name = if is_path {
            name
        } else {
            "the file of keys".to_owned()
        };
        Failure::misuse(format!("{name} cannot be read: {error}"))
    })
}

fn parse(text: &str, directory: &Path) -> Result<KeyRing, String> {
    // The errors of the parser repeat values, which may be keys.
    let file: File = serde_json::from_str(text).map_err(|error| {
        format!(
            "the keys are not in the form that `tables rotate --help` shows: line {}, column {}",
            error.line(),
            error.column()
        )
    })?;
    let keys =
        ring(&file.keys, directory)?.ok_or("`keys` is empty: a key is needed that encrypts")?;
    let legacy = ring(&file.legacy_keys, directory)?;
    let mut encrypt = BTreeMap::new();
    for (name, properties) in file.encrypt {
        encrypt.insert(
            TableName::new(name.as_str()).map_err(|error| error.to_string())?,
            properties,
        );
    }
    Ok(KeyRing {
        keys,
        legacy,
        encrypt,
    })
}

fn ring(entries: &[Entry], directory: &Path) -> Result<Option<Keys>, String> {
    let mut ring: Option<Keys> = None;
    for (number, entry) in (1..).zip(entries) {
        let key = key(entry, directory).map_err(|reason| format!("the key {number}: {reason}"))?;
        ring = Some(match ring {
            None => Keys::new(key),
            Some(keys) => keys.with_key(key),
        });
    }
    Ok(ring)
}

fn key(entry: &Entry, directory: &Path) -> Result<Arc<dyn KeyWrap>, String> {
    let id = || {
        entry
            .id
            .clone()
            .ok_or("it has no id: give each key an id with its version, such as kek-2027")
    };
    match (&entry.aes, &entry.rsa, &entry.vault) {
        (Some(base64), None, None) => {
            let bytes = STANDARD
                .decode(base64.trim())
                .map_err(|_| "`aes` is not base64")?;
            let key = AesKeyWrap::new(id()?, &KeyBytes::from(bytes));
            Ok(Arc::new(key.map_err(|error| error.to_string())?))
        }
        (None, Some(path), None) => rsa(&id()?, &directory.join(path), entry.algorithm.as_deref()),
        (None, None, Some(url)) => vault(url, entry.algorithm.as_deref()),
        _ => Err("it needs one of aes, rsa and vault".to_owned()),
    }
}

/// A private key in PKCS#8, or a public key.
fn rsa(id: &str, path: &Path, algorithm: Option<&str>) -> Result<Arc<dyn KeyWrap>, String> {
    let hash = match algorithm {
        None | Some("RSA-OAEP-256") => OaepHash::Sha256,
        // `RSA` is a name of RSA-OAEP in legacy data. The key keeps it, because it is compared with the name
        // in a row.
        Some("RSA-OAEP" | "RSA") => OaepHash::Sha1,
        Some(_) => return Err("the algorithm of an RSA key is RSA-OAEP-256 or RSA-OAEP".to_owned()),
    };
    let pem = std::fs::read(path).map(Zeroizing::new);
    let pem = pem.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let form = || {
        format!(
            "{} has no RSA key in PEM: `openssl pkcs8 -topk8 -nocrypt` writes a private key, `openssl rsa -pubout` a public one",
            path.display()
        )
    };
    let key = match PrivatePkcs8KeyDer::from_pem_slice(&pem) {
        Ok(private) => RsaKeyWrap::from_pkcs8(
            id,
            &KeyBytes::from(private.secret_pkcs8_der().to_vec()),
            hash,
        ),
        Err(_) => {
            let public = SubjectPublicKeyInfoDer::from_pem_slice(&pem).map_err(|_| form())?;
            RsaKeyWrap::from_public_der(id, &public, hash)
        }
    };
    let key = key.map_err(|error| error.to_string())?;
    Ok(Arc::new(if algorithm == Some("RSA") {
        key.with_algorithm_name("RSA")
    } else {
        key
    }))
}

#[cfg(feature = "key-vault")]
fn vault(url: &str, algorithm: Option<&str>) -> Result<Arc<dyn KeyWrap>, String> {
    Ok(Arc::new(crate::vault_key::VaultKey::new(url, algorithm)?))
}

#[cfg(not(feature = "key-vault"))]
fn vault(_url: &str, _algorithm: Option<&str>) -> Result<Arc<dyn KeyWrap>, String> {
    Err("this program was built without key vaults: `cargo install --path table-cli --features key-vault`"
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_keys_is_read() {
        let text = format!(
            r#"{{"keys":[{{"id":"new","aes":"{}"}},{{"id":"old","aes":"{}"}}],"encrypt":{{"People":["Iban"]}}}}"#,
            STANDARD.encode([7; 32]),
            STANDARD.encode([8; 16])
        );
        let ring = parse(&text, Path::new("")).unwrap();
        assert_eq!(ring.keys.active().key_id(), "new");
        assert!(!ring.has_legacy());
        assert_eq!(ring.encrypt[&TableName::new("People").unwrap()], ["Iban"]);
    }

    #[test]
    fn an_error_names_the_key_and_shows_no_part_of_it() {
        for (text, reason) in [
            ("{", "line 1"),
            (r#"{"keys":[]}"#, "is empty"),
            (r#"{"keys":[{"id":"a","aes":17}]}"#, "line 1, column"),
            (
                r#"{"keys":[{"id":"a","aes":"se7en"}]}"#,
                "the key 1: `aes` is not base64",
            ),
            (
                r#"{"keys":[{"id":"a","aes":"c2U3ZW4="}]}"#,
                "16, 24 or 32 bytes",
            ),
            (
                r#"{"keys":[{"aes":"c2U3ZW5zZTdlbnNlN2VuIQ=="}]}"#,
                "has no id",
            ),
            (r#"{"keys":[{"id":"a"}]}"#, "one of aes, rsa and vault"),
            (
                r#"{"keys":[{"id":"a","rsa":"absent.pem"}]}"#,
                "absent.pem cannot be read",
            ),
            (r#"{"keys":[{"id":"a","se7en":"x"}]}"#, "line 1"),
            (
                r#"{"keys":[{"id":"a","aes":"c2U3ZW5zZTdlbnNlN2VuIQ=="}],"encrypt":{"1":[]}}"#,
                "invalid table name",
            ),
        ] {
            let Err(error) = parse(text, Path::new("")) else {
                panic!("{text}")
            };
            assert!(
                error.contains(reason) && !error.contains("se7en") && !error.contains("c2U3"),
                "{text}: {error}"
            );
        }
    }
}
