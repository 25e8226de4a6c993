//! `tables serve` as a process, with clients.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::model::{Entity, IfMatch, Key, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{ErrorKind, Operation, TableStore, TableStoreExt as _};

use crate::serving::{Serving, run, table};
use crate::support::{KEY, embedded, employees, keys, on_disk, tables};

/// How often the server is killed. The nightly command sets it: `TABLES_KILLS=200 cargo test -p table-cli --test cli -- kills`.
fn kills() -> usize {
    std::env::var("TABLES_KILLS").map_or(3, |text| text.parse().expect("TABLES_KILLS is a number"))
}

/// The clients that write while the server is killed.
const WRITERS: usize = 64;

/// Clients insert, change and delete, each in a partition of its own, until the server is killed.
#[test]
#[expect(clippy::print_stdout, reason = "nightly runs show the figure")]
fn acknowledged_writes_survive_kills() {
    let (directory, name) = embedded([]);
    // The last acknowledged Age of each row; `None` after a deletion.
    let known: Arc<Mutex<BTreeMap<String, Option<i32>>>> = Arc::default();
    let mut acknowledged = 0;
    for round in 0..kills() {
        let mut serving = Serving::start(&[&name], &[], 1);
        let connection = serving.printed[0].clone();
        let done = Arc::new(AtomicUsize::new(0));
        run(async {
            let mut writers = tokio::task::JoinSet::new();
            for writer in 0..WRITERS {
                let (connection, done, known) = (connection.clone(), done.clone(), known.clone());
                writers.spawn(async move {
                    write_until_killed(writer, round, &connection, &done, &known).await;
                });
            }
            while done.load(Ordering::Relaxed) < 400 + 171 * (round % 7) {
                assert!(
                    serving.process.try_wait().unwrap().is_none(),
                    "the server ended"
                );
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            serving.process.kill().unwrap();
            serving.process.wait().unwrap();
            while let Some(writer) = writers.join_next().await {
                writer.unwrap();
            }
        });
        acknowledged += done.load(Ordering::Relaxed);
        on_disk(directory.path(), async |store| {
            let rows = store.query_all(&table(), &Query::new()).await.unwrap();
            let ages: BTreeMap<_, _> = rows
                .iter()
                .map(|row| match row.get("Age") {
                    Some(ValueRef::Int32(age)) => (row.key().row(), age),
                    other => panic!("{}: {other:?}", row.key()),
                })
                .collect();
            for (key, last) in &*known.lock().unwrap() {
                assert_eq!(
                    ages.get(key.as_str()).copied(),
                    *last,
                    "round {round}: {key}"
                );
            }
        });
    }
    assert!(acknowledged >= 400 * kills());
    println!(
        "{acknowledged} acknowledged writes survived {} kills",
        kills()
    );
}

/// Writes rows until an error. A row whose write has no answer is forgotten: both states are right.
async fn write_until_killed(
    writer: usize,
    round: usize,
    connection: &str,
    done: &AtomicUsize,
    known: &Mutex<BTreeMap<String, Option<i32>>>,
) {
    let client = AzureTableStore::from_connection_string(connection, None).unwrap();
    // No value is written twice, so an earlier value is never taken for a lost one.
    let first = i32::try_from(round).unwrap() * 1_000_000;
    for n in first.. {
        let row = format!("{writer}_{}", n % 50);
        let entity = Entity::new(format!("p{writer}"), row.clone())
            .unwrap()
            .with("Age", n);
        let (operation, after) = match n % 7 {
            6 => (Operation::Delete(entity.key().clone(), IfMatch::Any), None),
            _ => (Operation::InsertOrReplace(entity), Some(n)),
        };
        known.lock().unwrap().remove(&row);
        match client.write(&table(), operation).await {
            Ok(_) => {
                known.lock().unwrap().insert(row, after);
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.is_not_found() => {}
            Err(_) => return,
        }
    }
}

#[test]
fn a_directory_is_served_until_a_signal() {
    let (directory, name) = embedded(employees());
    let serving = Serving::start(&[&name, "--metrics", "--log", "info"], &[], 1);
    let client = serving.client();
    run(async {
        assert_eq!(
            client
                .query_all(&table(), &Query::new())
                .await
                .unwrap()
                .len(),
            3
        );
        let ken = employees()[0].clone().with("Age", 42);
        client
            .write(&table(), Operation::InsertOrReplace(ken))
            .await
            .unwrap();
        let jo = employees()[0]
            .clone()
            .with_key(Key::new("Sales", "3").unwrap());
        client.write(&table(), Operation::Insert(jo)).await.unwrap();
    });
    assert!(serving.get("/_health").starts_with("HTTP/1.1 200"));
    assert!(serving.get("/_ready").ends_with("ready\n"));
    let metrics = serving.get("/_metrics");
    assert!(
        metrics
            .contains("table_server_requests_total{operation=\"InsertEntity\",status=\"204\"} 1\n"),
        "{metrics}"
    );
    // The store is open in the other process.
    tables().args(["list", &name]).assert().code(1);
    let id = serving.process.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    let (success, log) = serving.ended();
    assert!(success, "{log}");
    assert!(
        log.contains("operation=\"InsertEntity\"") && log.contains("status=204"),
        "{log}"
    );
    assert_eq!(
        keys(directory.path()),
        ["Legal/1", "Sales/1", "Sales/2", "Sales/3"]
    );
}

#[test]
fn a_server_for_reading_refuses_writes() {
    let (directory, name) = embedded(employees());
    let serving = Serving::start(
        &[&name, "--read-only", "--cache", "16", "--scan-up-to", "0"],
        &[],
        1,
    );
    let client = serving.client();
    run(async {
        assert_eq!(
            client
                .query_all(&table(), &Query::new())
                .await
                .unwrap()
                .len(),
            3
        );
        let ken = employees()[0].clone();
        let error = client
            .write(&table(), Operation::InsertOrReplace(ken))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("for reading only"), "{error}");
        assert!(
            client
                .create_table(&TableName::new("Other").unwrap())
                .await
                .is_err()
        );
    });
    assert!(serving.get("/_metrics").starts_with("HTTP/1.1 404"));
    assert!(serving.end().0);
    assert_eq!(keys(directory.path()).len(), 3);
    let absent = directory.path().join("absent");
    let absent = format!("embedded:{}", absent.display());
    tables()
        .args(["serve", &absent, "--read-only", "--listen", "127.0.0.1:0"])
        .assert()
        .code(1);
}

#[test]
fn keys_of_accounts_are_read_from_the_environment_and_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    fs::write(&file, "b2xkLWtleQ==\n").unwrap();
    let place = format!("orders:file:{}", file.display());
    let arguments = [
        "memory",
        "--account",
        "orders:env:ORDERS_KEY",
        "--account",
        &place,
        "--account",
        "stock:env:ORDERS_KEY",
    ];
    let serving = Serving::start(&arguments, &[("ORDERS_KEY", KEY)], 2);
    assert!(
        serving
            .printed
            .iter()
            .all(|line| line.contains("AccountKey=<the key>")),
        "{:?}",
        serving.printed
    );
    for key in [KEY, "b2xkLWtleQ=="] {
        let text = serving.printed[0].replace("<the key>", key);
        let client = AzureTableStore::from_connection_string(&text, None).unwrap();
        run(client.list_tables(None, None)).unwrap();
    }
    let other = AzureTableStore::from_connection_string(
        &serving.printed[1].replace("<the key>", "b2xkLWtleQ=="),
        None,
    );
    assert!(run(other.unwrap().list_tables(None, None)).is_err());
    let (success, log) = serving.end();
    assert!(success && !log.contains(KEY), "{log}");
    let shown = Serving::start(
        &[
            "memory",
            "--account",
            "orders:env:ORDERS_KEY",
            "--show-keys",
            "--host",
            "tables.example",
        ],
        &[("ORDERS_KEY", KEY)],
        1,
    );
    assert!(shown.printed[0].contains(KEY) && shown.printed[0].contains("=http://tables.example:"));
}

/// Each account has tables and policies of its own, on disk too.
#[test]
fn several_accounts_share_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = format!("embedded:{}", directory.path().join("data").display());
    let accounts = [
        "--account",
        "orders:env:ORDERS_KEY",
        "--account",
        "stock:env:ORDERS_KEY",
        "--show-keys",
    ];
    for store in ["memory", &embedded] {
        let serving = Serving::start(
            &[&[store], &accounts[..]].concat(),
            &[("ORDERS_KEY", KEY)],
            2,
        );
        let [orders, stock] = [0, 1]
            .map(|at| AzureTableStore::from_connection_string(&serving.printed[at], None).unwrap());
        run(async {
            orders.create_table(&table()).await.unwrap();
            assert!(
                stock
                    .list_tables(None, None)
                    .await
                    .unwrap()
                    .items
                    .is_empty()
            );
            let insert = Operation::Insert(Entity::new("p", "r").unwrap());
            orders.write(&table(), insert.clone()).await.unwrap();
            assert!(
                stock
                    .write(&table(), insert)
                    .await
                    .unwrap_err()
                    .is_table_not_found()
            );
        });
        assert!(serving.end().0);
    }
    let one = directory.path().join("data").join("orders");
    assert!(one.join("tables.redb").exists());
    assert_eq!(keys(&one).len(), 1);

    let refused = |arguments: &[&str], reason: &str| {
        let mut command = tables();
        command
            .env("ORDERS_KEY", KEY)
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments);
        command
            .assert()
            .code(2)
            .stderr(contains(reason).and(contains(KEY).not()))
            .stdout("");
    };
    // With one account, the store of the directory would be a new one, without the tables.
    refused(
        &[&embedded, "--account", "orders:env:ORDERS_KEY"],
        "a folder for each",
    );
    refused(&[&embedded], "a folder for each");
    let one = format!("embedded:{}", one.display());
    refused(
        &[&[&*one], &accounts[..]].concat(),
        "the store of one account",
    );
    refused(
        &[&["azurite"], &accounts[..]].concat(),
        "the tables of one account",
    );
    let serving = Serving::start(
        &[&one, "--account", "orders:env:ORDERS_KEY"],
        &[("ORDERS_KEY", KEY)],
        1,
    );
    assert!(serving.end().0);
}

#[test]
fn mistakes_are_explained_without_keys() {
    let refused = |arguments: &[&str], reason: &str| {
        let text = contains(reason).and(contains(KEY).not());
        tables()
            .arg("serve")
            .args(arguments)
            .assert()
            .code(2)
            .stderr(text)
            .stdout("");
    };
    refused(
        &["memory", "--account", &format!("orders:{KEY}")],
        "NAME:env:VARIABLE",
    );
    refused(
        &["memory", "--account", &format!("orders:key:{KEY}")],
        "NAME:env:VARIABLE",
    );
    refused(
        &["memory", "--account", "orders:env:ABSENT"],
        "variable that is not set",
    );
    refused(
        &["memory", "--account", "orders:file:absent"],
        "file that cannot be read",
    );
    refused(&["memory", "--fault", "explode=1"], "not a fault");
    refused(&["memory", "--cache", "512"], "for embedded stores");
    refused(&["memory", "--scan-up-to", "512"], "for embedded stores");
    refused(&["embedded:absent", "--cache", "0"], "--cache");
    refused(&["memory", "--https", "absent", "absent"], "absent");
    let public = ["serve", "memory", "--listen", "0.0.0.0:0"];
    tables()
        .args(public)
        .assert()
        .code(1)
        .stderr(contains("loopback"));
}

#[test]
fn a_certificate_is_made_once() {
    let directory = tempfile::tempdir().unwrap();
    let name = directory.path().join("tls");
    let arguments = ["memory", "--self-signed", name.to_str().unwrap()];
    let serving = Serving::start(&arguments, &[], 1);
    assert!(
        serving.printed[0].contains("TableEndpoint=https://127.0.0.1:"),
        "{:?}",
        serving.printed
    );
    let (success, log) = serving.end();
    assert!(success && log.contains("valid until"), "{log}");
    let made = fs::read_to_string(name.join("certificate.pem")).unwrap();
    assert!(made.starts_with("-----BEGIN CERTIFICATE-----"));
    #[cfg(unix)]
    assert_eq!(
        [
            mode(&name.join("key.pem")),
            mode(&name.join("certificate.pem")),
            mode(&name)
        ],
        [0o600, 0o644, 0o755]
    );
    assert!(Serving::start(&arguments, &[], 1).end().0);
    assert_eq!(
        fs::read_to_string(name.join("certificate.pem")).unwrap(),
        made
    );
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn faults_are_injected() {
    let serving = Serving::start(&["memory", "--fault", "throttle=1"], &[], 1);
    let error = run(serving.client().list_tables(None, None)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Throttled { .. }),
        "{error}"
    );
    let (success, log) = serving.end();
    assert!(success && log.contains("injects faults"), "{log}");
}
