//! The forms of STORE.

use std::fs;

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;

use crate::support::{KEY, employees, fill, served, tables};

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
    count("azure").env("AZURE_STORAGE_CONNECTION_STRING", secret).assert().success().stdout("3\n");
    count("env:ORDERS").env("ORDERS", secret).assert().success().stdout("3\n");
    count(&format!("file:{}", file.display())).assert().success().stdout("3\n");
    // The same text on the command line is refused, and not repeated, also in the wrong place.
    let key = contains(KEY);
    count(secret).assert().code(2).stderr(contains("env:NAME").and(key.clone().not())).stdout("");
    let extra = tables().args(["list", "memory", secret]).assert().code(2);
    extra.stderr(contains("env:NAME").and(key.clone().not()));
    // Neither does the error of another key, or of a text that is no connection string.
    let wrong = secret.replace(KEY, "d3Jvbmcta2V5");
    count("env:ORDERS").env("ORDERS", wrong).assert().code(1).stderr(contains("d3Jvbmcta2V5").not());
    let broken = secret.replace("AccountName", "Name").replace("TableEndpoint", "Endpoint");
    count("env:ORDERS").env("ORDERS", broken).assert().code(2).stderr(contains("env:ORDERS").and(key.not()));
}

#[test]
fn a_store_that_is_missing_is_named() {
    tables().args(["list", "azure"]).assert().code(2).stderr(contains("AZURE_STORAGE_CONNECTION_STRING"));
    tables().args(["list", "env:ABSENT"]).assert().code(2).stderr(contains("ABSENT"));
    tables().args(["list", "file:absent"]).assert().code(2).stderr(contains("file:absent"));
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
    tables().args(["list", "memory"]).assert().success().stdout("");
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
        command.args(arguments).env("AZURITE_CONNECTION_STRING", &connection);
        command.assert().success()
    };
    run(&["list", "azurite", "--prefix", "Emp"]).stdout("Employees\n");
    run(&["count", "azurite", "Employees", "--partition", "Sales"]).stdout("2\n");
    let query =
        ["query", "azurite", "Employees", "--filter", "Age gt 40", "--select", "Age", "--format", "csv"];
    run(&query).stdout("PartitionKey,RowKey,Age\nLegal,1,55\nSales,1,41\n");
}
