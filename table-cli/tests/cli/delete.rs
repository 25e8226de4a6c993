//! `delete`.

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::model::{Entity, Key, TableName};
use table_core::query::Query;
use table_core::store::TableStoreExt as _;

use crate::support::{embedded, employees, fill, indexed, keys, served, tables};

fn delete(store: &str, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = tables();
    command.args(["delete", store, "Employees"]).args(arguments);
    command
}

#[test]
fn a_filter_a_partition_or_all() {
    for (what, left) in [
        (vec!["--filter", "Age gt 40"], vec!["Sales/2"]),
        (vec!["--partition", "Sales"], vec!["Legal/1"]),
        (
            vec!["--partition", "Absent"],
            vec!["Legal/1", "Sales/1", "Sales/2"],
        ),
        (vec!["--all"], vec![]),
    ] {
        let (directory, store) = embedded(employees());
        delete(&store, &what)
            .arg("--yes")
            .assert()
            .success()
            .stdout("");
        assert_eq!(keys(directory.path()), left, "{what:?}");
        tables()
            .args(["list", &store])
            .assert()
            .success()
            .stdout("Employees\n");
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let (directory, store) = embedded(employees());
    let dry = |arguments: &[&str]| delete(&store, arguments).arg("--dry-run").assert();
    dry(&["--filter", "Age gt 40"])
        .success()
        .stdout("2 entities of Employees would be deleted\n");
    dry(&["--all", "--json"])
        .success()
        .stdout(contains(r#""found":3"#));
    dry(&["--all", "--yes"]).code(2);
    assert_eq!(keys(directory.path()).len(), 3);
}

#[test]
fn only_a_yes_deletes() {
    let (directory, store) = embedded(employees());
    for answer in ["", "\n", "n\n", "yesterday\n"] {
        let refused = delete(&store, &["--all"])
            .write_stdin(answer)
            .assert()
            .code(2);
        refused.stderr(
            contains("Delete 3 entities of Employees").and(contains("nothing was deleted")),
        );
    }
    assert_eq!(keys(directory.path()).len(), 3);
    let done = delete(&store, &["--all"])
        .write_stdin("Y\n")
        .assert()
        .success();
    done.stderr(contains("Employees: 3 entities deleted, 0 skipped"));
    assert!(keys(directory.path()).is_empty());
    // Without entities there is no question.
    delete(&store, &["--all"])
        .write_stdin("")
        .assert()
        .success();
}

#[test]
fn a_wrong_command_changes_nothing() {
    let (directory, store) = embedded(employees());
    delete(&store, &["--yes"])
        .assert()
        .code(2)
        .stderr(contains("--partition"));
    delete(&store, &["--all", "--partition", "Sales", "--yes"])
        .assert()
        .code(2);
    delete(&store, &["--filter", "Age gt", "--yes"])
        .assert()
        .code(2);
    delete(&store, &["--filter", "", "--yes"]).assert().code(2);
    let absent = tables()
        .args(["delete", &store, "Orders", "--all", "--yes"])
        .assert()
        .code(1);
    absent.stderr(contains("the table 'Orders' does not exist"));
    assert_eq!(keys(directory.path()).len(), 3);
    let nowhere = directory.path().join("nowhere");
    delete(
        &format!("embedded:{}", nowhere.display()),
        &["--all", "--yes"],
    )
    .assert()
    .code(1);
    assert!(!nowhere.exists(), "a deletion creates no store");
}

#[test]
fn index_entries_are_deleted_with_their_entities() {
    let (directory, store) = indexed(employees());
    assert_eq!(keys(directory.path()).len(), 6);
    let done = delete(&store, &["--filter", "Age gt 40", "--yes", "--json"])
        .assert()
        .success();
    done.stdout(contains(r#""deleted":2"#).and(contains(r#""skipped":0"#)));
    // Keys have numbers in a form that sorts: 29 more than 2^31.
    assert_eq!(
        keys(directory.path()),
        ["Sales/2", "age_2147483677/Sales_2"]
    );
    // The manifest stays: a program still finds the index.
    delete(&store, &["--all", "--yes"]).assert().success();
    assert!(keys(directory.path()).is_empty());
    tables()
        .args(["list", &store, "--long"])
        .assert()
        .success()
        .stdout(contains("indexes: age (readable)"));
}

#[test]
fn a_server_and_azurite() {
    let served = served((0..250).map(|row| {
        Entity::new("p", format!("{row:03}"))
            .unwrap()
            .with("N", row)
    }));
    let run = |arguments: &[&str]| {
        let mut command = delete("azure", arguments);
        command
            .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret)
            .assert()
            .success()
    };
    run(&["--filter", "N ge 10", "--yes", "--json"]).stdout(contains(r#""deleted":240"#));
    run(&["--all", "--dry-run"]).stdout("10 entities of Employees would be deleted\n");

    let connection = Azurite::shared().connection_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let table = TableName::new("Leavers").unwrap();
    let azurite = AzureTableStore::from_connection_string(&connection, None).unwrap();
    runtime.block_on(fill(&azurite, "Leavers", employees()));
    let mut command = tables();
    command.args([
        "delete",
        "azurite",
        "Leavers",
        "--partition",
        "Sales",
        "--yes",
    ]);
    command
        .env("AZURITE_CONNECTION_STRING", &connection)
        .assert()
        .success();
    let left = runtime
        .block_on(azurite.query_all(&table, &Query::new()))
        .unwrap();
    assert_eq!(
        left.iter().map(Entity::key).collect::<Vec<_>>(),
        [&Key::new("Legal", "1").unwrap()]
    );
}
