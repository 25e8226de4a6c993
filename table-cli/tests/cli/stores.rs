//! The forms of STORE.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::Path;

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;

use crate::support::{KEY, embedded, employees, fill, served, tables};

#[test]
fn an_account_comes_from_the_environment_or_a_file() {
    let served = served(employees());
    let secret = &served.secret;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    fs::write(&file, format!("{secret}\n")).unwrap();
    let count = |store: &str| {
        let mut command = tables();
        command.args(["count", store, "Employees"]);
        command
    };
    count("azure")
        .env("AZURE_STORAGE_CONNECTION_STRING", secret)
        .assert()
        .success()
        .stdout("3\n");
    count("env:ORDERS")
        .env("ORDERS", secret)
        .assert()
        .success()
        .stdout("3\n");
    count(&format!("file:{}", file.display()))
        .assert()
        .success()
        .stdout("3\n");
    // The same text on the command line is refused, and not repeated, also in the wrong place.
    let key = contains(KEY);
    count(secret)
        .assert()
        .code(2)
        .stderr(contains("env:NAME").and(key.clone().not()))
        .stdout("");
    let extra = tables().args(["list", "memory", secret]).assert().code(2);
    extra.stderr(contains("env:NAME").and(key.clone().not()));
    // Neither does the error of another key, or of a text that is no connection string.
    let wrong = secret.replace(KEY, "d3Jvbmcta2V5");
    count("env:ORDERS")
        .env("ORDERS", wrong)
        .assert()
        .code(1)
        .stderr(contains("d3Jvbmcta2V5").not());
    let broken = secret
        .replace("AccountName", "Name")
        .replace("TableEndpoint", "Endpoint");
    count("env:ORDERS")
        .env("ORDERS", broken)
        .assert()
        .code(2)
        .stderr(contains("env:ORDERS").and(key.not()));
}

#[test]
fn a_store_that_is_missing_is_named() {
    tables()
        .args(["list", "azure"])
        .assert()
        .code(2)
        .stderr(contains("AZURE_STORAGE_CONNECTION_STRING"));
    tables()
        .args(["list", "env:ABSENT"])
        .assert()
        .code(2)
        .stderr(contains("ABSENT"));
    tables()
        .args(["list", "file:absent"])
        .assert()
        .code(2)
        .stderr(contains("file:absent"));
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("store");
    tables()
        .args(["list", &format!("embedded:{}", absent.display())])
        .assert()
        .code(1)
        .stderr(contains("store"));
    assert!(!absent.exists(), "a command that reads creates no store");
}

#[test]
fn memory_is_empty() {
    tables()
        .args(["list", "memory"])
        .assert()
        .success()
        .stdout("");
}

#[test]
fn tables_of_azurite_are_read() {
    let connection = Azurite::shared().connection_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
        fill(&store, "Employees", employees()).await;
    });
    let run = |arguments: &[&str]| {
        let mut command = tables();
        command
            .args(arguments)
            .env("AZURITE_CONNECTION_STRING", &connection);
        command.assert().success()
    };
    run(&["list", "azurite", "--prefix", "Emp"]).stdout("Employees\n");
    run(&["count", "azurite", "Employees", "--partition", "Sales"]).stdout("2\n");
    let query = [
        "query",
        "azurite",
        "Employees",
        "--filter",
        "Age gt 40",
        "--select",
        "Age",
        "--format",
        "csv",
    ];
    run(&query).stdout("PartitionKey,RowKey,Age\nLegal,1,55\nSales,1,41\n");
}

/// The program with Azurite's programs on the PATH, and with the data of Azurite in a directory.
fn with_azurite(data: &Path) -> assert_cmd::Command {
    let free = TcpStream::connect("127.0.0.1:10002").is_err();
    assert!(
        free,
        "an emulator listens at 127.0.0.1:10002, so `tables` would not start one: stop it"
    );
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(azurite::programs().unwrap()).chain(std::env::split_paths(&path));
    let mut command = tables();
    command
        .env("PATH", std::env::join_paths(paths).unwrap())
        .env("TABLES_AZURITE_DIR", data);
    command
}

#[test]
fn azurite_is_started_and_keeps_its_data() {
    let (_source, from) = embedded(employees());
    let data = tempfile::tempdir().unwrap();
    let copy = with_azurite(data.path())
        .args(["copy", &from, "azurite"])
        .assert()
        .success();
    copy.stderr(contains("started Azurite").and(contains("Employees: 3 rows copied, and equal")));
    // Nothing runs after the end: a second emulator would be refused.
    with_azurite(data.path())
        .args(["count", "azurite", "Employees"])
        .assert()
        .success()
        .stdout("3\n");
    // A command that fails stops it too.
    let failed = with_azurite(data.path())
        .args(["count", "azurite", "Absent"])
        .assert()
        .code(1);
    failed.stderr(contains("Absent"));
    with_azurite(data.path())
        .args(["list", "azurite"])
        .assert()
        .success()
        .stdout("Employees\n");
}

#[test]
fn azurite_that_cannot_be_started_is_a_clear_error() {
    let data = tempfile::tempdir().unwrap();
    let without_node = with_azurite(data.path())
        .env("PATH", OsString::new())
        .args(["list", "azurite"])
        .assert();
    without_node
        .code(1)
        .stderr(contains("Node.js").and(contains("AZURITE_CONNECTION_STRING")));
    let lock = File::create(data.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let second = with_azurite(data.path())
        .args(["list", "azurite"])
        .assert()
        .code(1);
    second.stderr(contains("another `tables` runs an emulator"));
}
