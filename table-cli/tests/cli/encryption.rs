//! `rotate`, `migrate`, and `--keys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use azurite::Azurite;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::prelude::*;
use table_encryption::{AesKeyWrap, EncryptedStore, KeyBytes, Keys};
use table_patterns::Database;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use tempfile::TempDir;

use crate::support::{on_disk, tables};

const IBAN: &str = "CH9300762011623852957";

fn people() -> TableName {
    TableName::new("People").unwrap()
}

fn text(number: u8) -> String {
    STANDARD.encode([number; 32])
}

/// A file with these AES keys, the first one active.
fn keys(directory: &Path, ids: &[u8]) -> PathBuf {
    let keys: Vec<_> = ids
        .iter()
        .map(|id| serde_json::json!({"id": format!("kek-{id}"), "aes": text(*id)}))
        .collect();
    let file = directory.join(format!("keys-{ids:?}.json"));
    fs::write(&file, serde_json::json!({"keys": keys}).to_string()).unwrap();
    file
}

fn encrypting(store: impl TableStore, id: u8) -> EncryptedStore<Arc<dyn TableStore>> {
    let key = AesKeyWrap::new(format!("kek-{id}"), &KeyBytes::from(vec![id; 32])).unwrap();
    EncryptedStore::new(store.into_shared(), Keys::new(Arc::new(key))).unwrap()
}

async fn write(store: &dyn TableStore, rows: impl IntoIterator<Item = Entity>) {
    store.create_table_if_missing(&people()).await.unwrap();
    for row in rows {
        store
            .write(&people(), Operation::InsertOrReplace(row))
            .await
            .unwrap();
    }
}

fn person(row: &str) -> Entity {
    Entity::new("p", row).unwrap().with("Name", "Ken")
}

/// An embedded store with two encrypted rows under the key 1, and one without encrypted properties.
fn encrypted() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    on_disk(directory.path(), async |store| {
        let store = encrypting(store, 1);
        write(
            &store,
            [
                person("1").with_encrypted("Iban", IBAN),
                person("2").with_encrypted("Iban", 7),
                person("3"),
            ],
        )
        .await;
    });
    let store = format!("embedded:{}", directory.path().display());
    (directory, store)
}

fn run(arguments: &[&str], keys: Option<&Path>) -> assert_cmd::assert::Assert {
    let mut command = tables();
    command.args(arguments);
    if let Some(keys) = keys {
        command.arg("--keys").arg(keys);
    }
    let end = command.assert();
    let shown = format!("{:?}", end.get_output());
    assert!(
        !shown.contains(&text(1)) && !shown.contains(&text(2)),
        "{shown}"
    );
    end
}

#[test]
fn keys_decrypt_what_is_shown() {
    let (_directory, store) = encrypted();
    let files = tempfile::tempdir().unwrap();
    let one = keys(files.path(), &[1]);
    let get = ["get", &*store, "People", "p", "1"];
    run(&get, None)
        .success()
        .stdout(contains("_EncryptionHeader").and(contains(IBAN).not()));
    run(&get, Some(&one))
        .success()
        .stdout(contains(IBAN).and(contains("_EncryptionHeader").not()));
    let query = ["query", &*store, "People", "--format", "csv"];
    run(&query, Some(&one)).success().stdout(contains(IBAN));
    // The environment has the path, or the keys.
    for value in [one.display().to_string(), fs::read_to_string(&one).unwrap()] {
        let mut command = tables();
        command
            .args(get)
            .env("TABLES_KEYS", value)
            .assert()
            .success()
            .stdout(contains(IBAN));
    }
    let wrong = run(&get, Some(&keys(files.path(), &[2]))).code(1);
    wrong.stderr(contains("cannot be decrypted")).stdout("");
}

#[test]
fn a_rotation_wraps_every_key_again() {
    let (_directory, store) = encrypted();
    let files = tempfile::tempdir().unwrap();
    let (one, two, both) = (
        keys(files.path(), &[1]),
        keys(files.path(), &[2]),
        keys(files.path(), &[2, 1]),
    );
    let count = run(&["rotate", &store, "People", "--count"], Some(&both)).success();
    count.stdout("People: 3 rows read, 0 rotated, 0 skipped; 2 under kek-1\n");
    run(&["rotate", &store], Some(&both))
        .success()
        .stdout(contains("2 rotated, 0 skipped; 2 under kek-2"));
    let again = run(&["rotate", &store, "--json"], Some(&both)).success();
    again.stdout(contains(r#""changed":0"#).and(contains(r#""keys":{"kek-2":2}"#)));
    run(&["get", &store, "People", "p", "1"], Some(&two))
        .success()
        .stdout(contains(IBAN));
    // Without the key of the rows nothing is changed, and they are named.
    let skipped = run(&["rotate", &store], Some(&one)).code(3);
    skipped.stderr(contains("skipped: ('p', '1')").and(contains("2 rows were skipped")));
    run(&["get", &store, "People", "p", "1"], Some(&two))
        .success()
        .stdout(contains(IBAN));
}

#[test]
fn a_migration_encrypts_plaintext() {
    let directory = tempfile::tempdir().unwrap();
    on_disk(directory.path(), async |store| {
        write(
            &store,
            [
                person("1").with("Iban", IBAN),
                person("2").with("Iban", 7),
                person("3"),
            ],
        )
        .await;
    });
    let store = format!("embedded:{}", directory.path().display());
    let files = tempfile::tempdir().unwrap();
    let one = keys(files.path(), &[1]);
    run(&["migrate", &store, "People"], Some(&one))
        .code(2)
        .stderr(contains("give --encrypt"));
    let migrated = run(
        &["migrate", &store, "People", "--encrypt", "Iban"],
        Some(&one),
    )
    .success();
    migrated.stdout("People: 3 rows read, 2 encrypted, 0 skipped\n");
    run(
        &["migrate", &store, "People", "--encrypt", "Iban"],
        Some(&one),
    )
    .success()
    .stdout(contains(", 0 encrypted"));
    run(&["query", &store, "People"], None)
        .success()
        .stdout(contains(IBAN).not());
    run(&["get", &store, "People", "p", "1"], Some(&one))
        .success()
        .stdout(contains(IBAN));
    run(&["doctor", &store, "People"], None)
        .success()
        .stdout(contains("nothing is wrong"));
    // A program without the key writes plaintext.
    on_disk(directory.path(), async |store| {
        write(&store, [person("4").with("Iban", IBAN)]).await;
    });
    let found = run(&["doctor", &store, "People"], None).code(4);
    found
        .stdout(contains("plaintext of an encrypted property: Iban (1)").and(contains(IBAN).not()));
    let again = run(
        &["migrate", &store, "People", "--encrypt", "Iban", "--again"],
        Some(&one),
    )
    .success();
    again.stdout(contains("4 rows read, 3 encrypted"));
    run(&["doctor", &store, "People"], Some(&one)).success();
    // Rows under another key are damage for the keys that are given.
    let unreadable = run(
        &["doctor", &store, "People"],
        Some(&keys(files.path(), &[2])),
    )
    .code(4);
    unreadable.stdout(contains(
        "unreadable rows: rows that cannot be decrypted (3)",
    ));
}

/// The entries would keep the plaintext in their keys.
#[test]
fn an_index_that_shows_the_property_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    on_disk(directory.path(), async |store| {
        store.create_table(&people()).await.unwrap();
        let index = Index::keyed("iban", Placement::OtherPartition, "{Iban}", "{RowKey}").unwrap();
        let opened = IndexedEntities::open(
            store.into_shared(),
            people(),
            vec![index],
            IndexOptions::local(),
        );
        opened
            .await
            .unwrap()
            .insert(person("1").with("Iban", IBAN))
            .await
            .unwrap();
    });
    let store = format!("embedded:{}", directory.path().display());
    let files = tempfile::tempdir().unwrap();
    let refused = run(
        &["migrate", &store, "People", "--encrypt", "Iban"],
        Some(&keys(files.path(), &[1])),
    );
    refused
        .code(1)
        .stderr(contains("the index iban.").and(contains("drop the index first")));
    run(&["query", &store, "People"], None)
        .success()
        .stdout(contains(IBAN));
}

#[test]
fn a_key_in_pem_wraps_and_unwraps() {
    let files = tempfile::tempdir().unwrap();
    let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).unwrap();
    let pem = |label: &str, der: &[u8]| {
        format!(
            "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
            STANDARD.encode(der)
        )
    };
    let public: PublicKeyX509Der<'_> = private.public_key().as_der().unwrap();
    fs::write(
        files.path().join("public.pem"),
        pem("PUBLIC KEY", public.as_ref()),
    )
    .unwrap();
    let private: Pkcs8V1Der<'_> = private.as_der().unwrap();
    fs::write(
        files.path().join("private.pem"),
        pem("PRIVATE KEY", private.as_ref()),
    )
    .unwrap();
    let file = |name: &str| {
        let path = files.path().join(format!("{name}.json"));
        let text = format!(r#"{{"keys":[{{"id":"rsa-1","rsa":"{name}.pem"}}]}}"#);
        fs::write(&path, text).unwrap();
        path
    };
    let (private, public) = (file("private"), file("public"));
    let directory = tempfile::tempdir().unwrap();
    on_disk(directory.path(), async |store| {
        write(&store, [person("1").with("Iban", IBAN)]).await;
    });
    let store = format!("embedded:{}", directory.path().display());
    run(
        &["migrate", &store, "People", "--encrypt", "Iban"],
        Some(&public),
    )
    .success()
    .stdout(contains("1 encrypted"));
    let get = ["get", &*store, "People", "p", "1"];
    run(&get, Some(&public))
        .code(1)
        .stderr(contains("public key"));
    run(&get, Some(&private)).success().stdout(contains(IBAN));
    fs::write(files.path().join("broken.pem"), "no key").unwrap();
    run(&get, Some(&file("broken")))
        .code(2)
        .stderr(contains("openssl pkcs8"));
}

#[test]
fn a_wrong_command_changes_nothing() {
    let (directory, store) = encrypted();
    let files = tempfile::tempdir().unwrap();
    let one = keys(files.path(), &[1]);
    for command in [
        &["rotate", &*store][..],
        &["migrate", &*store, "People", "--encrypt", "Name"],
    ] {
        run(command, None)
            .code(2)
            .stderr(contains("give --keys FILE"));
        run(command, Some(&files.path().join("absent")))
            .code(2)
            .stderr(contains("absent cannot be read"));
        let broken = files.path().join("broken.json");
        fs::write(
            &broken,
            format!(r#"{{"keys":[{{"id":1,"aes":"{}"}}]}}"#, text(1)),
        )
        .unwrap();
        run(command, Some(&broken))
            .code(2)
            .stderr(contains("line 1"));
    }
    run(&["rotate", &store, "Orders"], Some(&one))
        .code(1)
        .stderr(contains("'Orders' does not exist"));
    run(
        &["migrate", &store, "Orders", "--encrypt", "Name"],
        Some(&one),
    )
    .code(1);
    run(&["migrate", &store, "--encrypt", "Name"], Some(&one)).code(2);
    let rows = on_disk(directory.path(), async |store| {
        store.query_all(&people(), &Query::new()).await.unwrap()
    });
    assert!(rows.iter().all(|row| {
        row.get("Name")
            .is_some_and(|name| name.edm_type().name() == "Edm.String")
    }));
    if cfg!(not(feature = "key-vault")) {
        let vault = files.path().join("vault.json");
        fs::write(
            &vault,
            r#"{"keys":[{"vault":"https://contoso.vault.azure.net/keys/kek/1"}]}"#,
        )
        .unwrap();
        run(&["rotate", &store], Some(&vault))
            .code(2)
            .stderr(contains("--features key-vault"));
    }
}

#[test]
fn rows_of_azurite_are_encrypted_and_rotated() {
    let connection = Azurite::shared().connection_string();
    let table = TableName::new("Encrypted").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let read = || {
        runtime.block_on(async {
            let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
            store.query_all(&table, &Query::new()).await.unwrap()
        })
    };
    runtime.block_on(async {
        let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
        store.create_table_if_missing(&table).await.unwrap();
        store
            .write(
                &table,
                Operation::InsertOrReplace(person("1").with("Iban", IBAN)),
            )
            .await
            .unwrap();
    });
    let files = tempfile::tempdir().unwrap();
    let azurite = |arguments: &[&str], ids: &[u8]| {
        let mut command = tables();
        command
            .args(arguments)
            .arg("--keys")
            .arg(keys(files.path(), ids));
        command
            .env("AZURITE_CONNECTION_STRING", &connection)
            .assert()
            .success()
    };
    azurite(
        &["migrate", "azurite", "Encrypted", "--encrypt", "Iban"],
        &[1],
    )
    .stdout(contains("1 encrypted"));
    assert!(read()[0].is_ciphertext());
    azurite(&["rotate", "azurite", "Encrypted"], &[2, 1]).stdout(contains("1 under kek-2"));
    azurite(&["get", "azurite", "Encrypted", "p", "1"], &[2]).stdout(contains(IBAN));
}

/// The rows of a table below a directory as they are stored.
fn raw(directory: &Path, table: &str) -> Vec<Entity> {
    let table = TableName::new(table).unwrap();
    on_disk(directory, async |store| {
        store.query_all(&table, &Query::new()).await.unwrap()
    })
}

/// A file with the AES key 1, which also names the properties to encrypt.
fn keys_that_encrypt(directory: &Path) -> PathBuf {
    let file = directory.join("encrypt.json");
    let keys = serde_json::json!({"keys": [{"id": "kek-1", "aes": text(1)}], "encrypt": {"People": ["Iban"]}});
    fs::write(&file, keys.to_string()).unwrap();
    file
}

#[test]
fn an_export_has_ciphertext_or_with_keys_plaintext() {
    let (_directory, store) = encrypted();
    let files = tempfile::tempdir().unwrap();
    let one = keys(files.path(), &[1]);
    for name in ["people.jsonl", "people.csv", "people.parquet"] {
        let path = files.path().join(name).display().to_string();
        let export = [
            "export", &*store, "People", "--to", &path, "--json", "--quiet",
        ];
        let stored = run(&export, None).success();
        stored
            .stdout(
                contains(r#""rows":3"#)
                    .and(contains(r#""encrypted":2"#))
                    .and(contains(r#""decrypted":[]"#)),
            )
            .stderr(contains("2 entities have encrypted properties").and(contains("--keys")));
        assert!(
            !fs::read(&path)
                .unwrap()
                .windows(IBAN.len())
                .any(|bytes| bytes == IBAN.as_bytes()),
            "{name}"
        );
        // An import leaves them out: ciphertext is bound to a table.
        let to = format!(
            "embedded:{}",
            files.path().join(format!("from {name}")).display()
        );
        let import = run(&["import", &to, "People", "--from", &path], None).code(3);
        import.stderr(contains("1 rows imported, 2 skipped").and(contains("export with --keys")));

        let readable = run(&export, Some(&one)).success();
        readable
            .stdout(contains(r#""encrypted":0"#).and(contains(r#""decrypted":["Iban"]"#)))
            .stderr(contains("in plaintext: Iban"));
        let to = format!(
            "embedded:{}",
            files.path().join(format!("plain {name}")).display()
        );
        let import = run(&["import", &to, "People", "--from", &path], Some(&one)).success();
        import.stderr(contains("no property is encrypted").and(contains("3 rows imported")));
        run(&["get", &to, "People", "p", "1"], None)
            .success()
            .stdout(contains(IBAN));
    }
    let wrong = files.path().join("wrong.jsonl");
    let export = ["export", &*store, "People", "--to", wrong.to_str().unwrap()];
    run(&export, Some(&keys(files.path(), &[2])))
        .code(1)
        .stderr(contains("cannot be decrypted"));
    run(&export, Some(&files.path().join("absent")))
        .code(2)
        .stderr(contains("absent cannot be read"));
    assert!(!wrong.exists());
}

#[test]
fn an_import_encrypts_what_is_declared() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("people.csv");
    fs::write(
        &path,
        format!("PartitionKey,RowKey,Name,Iban\np,1,Ken,{IBAN}\np,2,Ann,\n"),
    )
    .unwrap();
    let directory = files.path().join("store");
    let store = format!("embedded:{}", directory.display());
    let import = [
        "import",
        &*store,
        "People",
        "--json",
        "--from",
        path.to_str().unwrap(),
    ];
    run(&import, Some(&files.path().join("absent")))
        .code(2)
        .stderr(contains("absent cannot be read"));
    assert!(!directory.exists(), "nothing was created");
    let keys = keys_that_encrypt(files.path());
    let done = run(&import, Some(&keys)).success();
    done.stdout(contains(r#""written":2"#).and(contains(r#""encrypted":["Iban"]"#)))
        .stderr(contains("encrypted properties: Iban"));
    let rows = raw(&directory, "People");
    assert!(
        rows[0].is_ciphertext() && !rows[1].is_ciphertext(),
        "{rows:?}"
    );
    run(&["get", &store, "People", "p", "1"], Some(&keys))
        .success()
        .stdout(contains(IBAN));
    for mode in ["upsert", "merge"] {
        run(&[&import[..], &["--mode", mode]].concat(), Some(&keys)).success();
        assert!(raw(&directory, "People")[0].is_ciphertext(), "{mode}");
        run(&["get", &store, "People", "p", "1"], Some(&keys))
            .success()
            .stdout(contains(IBAN));
    }
}

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Member", rename_all = "PascalCase")]
#[index(name, partition_key = "name_{name}", row_key = "{club}_{number}", payload = full)]
struct Member {
    #[partition_key]
    club: String,
    #[row_key]
    number: u32,
    name: String,
    #[encrypt]
    iban: String,
}

/// The manifest of a program's table names the encrypted properties.
#[test]
fn the_manifest_decides_what_is_encrypted() {
    let files = tempfile::tempdir().unwrap();
    let directory = files.path().join("store");
    let store = format!("embedded:{}", directory.display());
    let one = keys(files.path(), &[1]);
    on_disk(&directory, async |store| {
        let db = Database::new(encrypting(store, 1));
        let members = db.table::<Member>("People").unwrap();
        let (club, name, iban) = ("oslo".to_owned(), "Ken".to_owned(), IBAN.to_owned());
        members
            .insert(&Member {
                club,
                number: 1,
                name,
                iban,
            })
            .await
            .unwrap();
    });
    let before = raw(&directory, "People");
    let new = files.path().join("new.jsonl");
    let exported = files.path().join("all.jsonl");
    let exported = exported.to_str().unwrap();
    run(&["export", &store, "People", "--to", exported], Some(&one)).success();
    let line = fs::read_to_string(exported).unwrap();
    assert!(line.contains(IBAN), "{line}");
    fs::write(
        &new,
        line.replace("Ken", "Ann")
            .replace("0000000001", "0000000002"),
    )
    .unwrap();
    assert!(!fs::read_to_string(&new).unwrap().contains("Ken"));
    let import = [
        "import",
        &*store,
        "People",
        "--mode",
        "upsert",
        "--from",
        new.to_str().unwrap(),
    ];
    run(&import, None)
        .code(2)
        .stderr(contains("give --keys FILE"));
    let delete = ["delete", &*store, "People", "--all", "--yes"];
    run(&delete, None)
        .code(2)
        .stderr(contains("give --keys FILE"));
    assert_eq!(raw(&directory, "People"), before, "nothing was changed");
    run(&import, Some(&one))
        .success()
        .stderr(contains("encrypted properties: Iban"));
    let shows_iban = |row: &Entity| format!("{row:?}").contains(IBAN);
    let rows = raw(&directory, "People");
    assert!(
        !rows.iter().any(shows_iban),
        "entities and entries have ciphertext"
    );
    let scrub = run(&["index", &store, "People", "scrub"], Some(&one)).success();
    scrub.stdout(contains("0 dangling, 0 missing"));
    run(&["query", &store, "People"], Some(&one))
        .success()
        .stdout(contains("Ann").and(contains(IBAN)));

    // A copy to another name: with the keys alone.
    let to = format!("embedded:{}", files.path().join("to").display());
    let copy = ["copy", &*store, &to, "--rename", "People=Members"];
    run(&copy, None)
        .code(2)
        .stderr(contains("nothing was copied").and(contains("another name")));
    run(&["list", &to], None).success().stdout("");
    run(&copy, Some(&one))
        .success()
        .stderr(contains("rows copied, and equal"));
    assert!(
        !raw(&files.path().join("to"), "Members")
            .iter()
            .any(shows_iban)
    );
    run(&["query", &to, "Members"], Some(&one))
        .success()
        .stdout(contains(IBAN));
    let scrub = run(&["index", &to, "Members", "scrub"], Some(&one)).success();
    scrub.stdout(contains("0 dangling, 0 missing"));
    run(&delete, Some(&one)).success();
    let left = raw(&directory, "People");
    assert!(left.iter().all(|row| row.key().is_system()), "{left:?}");
}

#[test]
fn a_copy_keeps_ciphertext_or_encrypts_again() {
    let (directory, store) = encrypted();
    let files = tempfile::tempdir().unwrap();
    let (one, both) = (keys(files.path(), &[1]), keys(files.path(), &[2, 1]));
    let to = |name: &str| format!("embedded:{}", files.path().join(name).display());
    // To the same name without keys: as it is stored.
    let as_stored = to("stored");
    run(&["copy", &store, &as_stored], None)
        .success()
        .stderr(contains("People: 3 rows copied, and equal"));
    run(&["get", &as_stored, "People", "p", "1"], Some(&one))
        .success()
        .stdout(contains(IBAN));
    // To another name without keys: refused before anything is written.
    let renamed = ["copy", &*store, &to("renamed"), "--rename", "People=Others"];
    let refused = run(&renamed, None).code(2);
    refused.stderr(contains("nothing was copied").and(contains("--keys FILE")));
    run(&["list", &to("renamed")], None).success().stdout("");
    // With keys: under the first key.
    run(&renamed, Some(&both)).success();
    run(
        &["get", &to("renamed"), "Others", "p", "1"],
        Some(&keys(files.path(), &[2])),
    )
    .success()
    .stdout(contains(IBAN));
    let count = run(&["rotate", &to("renamed"), "--count"], Some(&both)).success();
    count.stdout(contains("2 under kek-2"));
    // Within a store.
    run(
        &["copy", &store, &store, "--rename", "People=Again"],
        Some(&one),
    )
    .success();
    run(&["get", &store, "Again", "p", "1"], Some(&one))
        .success()
        .stdout(contains(IBAN));
    assert!(
        raw(directory.path(), "Again")
            .iter()
            .filter(|row| row.is_ciphertext())
            .count()
            == 2
    );
    // Of a filter.
    let filtered = [
        "copy",
        &*store,
        &to("filtered"),
        "--table",
        "People",
        "--filter",
        "RowKey le '2'",
    ];
    run(&filtered, None)
        .code(1)
        .stderr(contains("give --keys FILE"));
    run(&filtered, Some(&one))
        .success()
        .stderr(contains("2 rows copied, 0 skipped"));
    run(&["get", &to("filtered"), "People", "p", "1"], Some(&one))
        .success()
        .stdout(contains(IBAN));
    assert!(
        raw(&files.path().join("filtered"), "People")
            .iter()
            .all(Entity::is_ciphertext)
    );
    // Keys that do not open the rows.
    let wrong = run(
        &["copy", &store, &to("wrong"), "--table", "People"],
        Some(&keys(files.path(), &[2])),
    )
    .code(1);
    wrong.stderr(contains("cannot be decrypted"));
}
