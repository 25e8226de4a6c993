//! `doctor` and `plot`.

use std::fs;

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::model::Entity;

use crate::support::{
    damage, embedded, employees, fill, indexed, interrupt_build, interrupt_write, keys, on_disk,
    tables,
};

fn doctor(store: &str, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = tables();
    command.args(["doctor", store]).args(arguments);
    command
}

#[test]
fn a_table_in_order_has_nothing_wrong() {
    let (directory, store) = indexed(employees());
    let before = keys(directory.path());
    let sound = doctor(&store, &["Employees"]).assert().success();
    sound
        .stdout(contains("3 entities, 3 index entries").and(contains("nothing is wrong")))
        .stderr("");
    let json = doctor(&store, &["--json"]).assert().success();
    let report: serde_json::Value = serde_json::from_slice(&json.get_output().stdout).unwrap();
    assert_eq!(report["table"], "Employees");
    assert_eq!(report["findings"], serde_json::json!([]));
    assert_eq!(report["partitions"]["largest"][0]["partition"], "Sales");
    assert_eq!(keys(directory.path()), before);
}

#[test]
fn damage_of_indexes_is_found_and_stays() {
    let (directory, store) = indexed(employees());
    on_disk(directory.path(), async |store| damage(&store).await);
    let before = keys(directory.path());
    for which in [&["--sample", "100"][..], &["--all-entries"]] {
        let found = doctor(&store, which).assert().code(4);
        let dangling = contains("damage: dangling entries: the index age.");
        found
            .stdout(dangling.and(contains("damage: missing entries")))
            .stderr(contains("have damage: Employees"));
    }
    doctor(&store, &["--sample", "0"]).assert().success();
    assert_eq!(keys(directory.path()), before);
}

#[test]
fn an_unfinished_write_is_damage_when_it_is_old() {
    let (directory, store) = indexed([]);
    interrupt_write(directory.path());
    let arguments = ["--sample", "0", "--json"];
    let young = doctor(&store, &arguments).assert().success();
    young.stdout(contains(r#""unfinished":1"#));
    let old = doctor(
        &store,
        &[&arguments[..], &["--unfinished-after", "0"]].concat(),
    )
    .assert()
    .code(4);
    old.stdout(contains(r#""problem":"unfinished_write""#));
}

#[test]
fn advice_is_no_damage() {
    let other = Entity::new("Sales", "3").unwrap().with("Age", "thirty");
    let (_directory, store) = embedded(employees().into_iter().chain([other]));
    let advice = doctor(&store, &["Employees"]).assert().success();
    advice.stdout(contains(
        "advice: mixed types: Age: Int32 in 3 rows, String in 1 rows (1)",
    ));
}

#[test]
fn a_wrong_command_is_refused() {
    let (directory, store) = embedded(employees());
    doctor(&store, &["Orders"])
        .assert()
        .code(1)
        .stderr(contains("'Orders' does not exist"));
    doctor(&store, &["1"]).assert().code(2);
    doctor(&store, &["Employees", "--sample", "many"])
        .assert()
        .code(2);
    doctor(&store, &["Employees", "--blobs", "absent"])
        .assert()
        .code(2)
        .stderr(contains("absent"));
    doctor("memory", &[])
        .assert()
        .success()
        .stderr("the store has no table\n");
    let nowhere = directory.path().join("nowhere");
    doctor(&format!("embedded:{}", nowhere.display()), &[])
        .assert()
        .code(1);
    assert!(!nowhere.exists());
}

#[test]
fn tables_of_azurite_are_examined_and_drawn() {
    let connection = Azurite::shared().connection_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
        fill(&store, "Examined", employees()).await;
    });
    let run = |arguments: &[&str]| {
        let mut command = tables();
        command
            .args(arguments)
            .env("AZURITE_CONNECTION_STRING", &connection);
        command.assert().success()
    };
    run(&["doctor", "azurite", "Examined"])
        .stdout(contains("Examined: 3 rows").and(contains("2 partitions")));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("examined.svg");
    run(&[
        "plot",
        "azurite",
        "Examined",
        "--to",
        file.to_str().unwrap(),
    ]);
    assert!(
        fs::read_to_string(file)
            .unwrap()
            .contains("the largest of 2 partitions")
    );
}

#[test]
fn a_table_is_drawn() {
    let (directory, store) = embedded(employees());
    let file = directory.path().join("picture.svg");
    let path = file.to_str().unwrap();
    let plot = |arguments: &[&str]| {
        let mut command = tables();
        command.args(["plot", &store, "Employees"]).args(arguments);
        command
    };
    let drawn = plot(&["--to", path, "--json"]).assert().success();
    let report: serde_json::Value = serde_json::from_slice(&drawn.get_output().stdout).unwrap();
    assert_eq!(
        (&report["rows"], &report["requests"]),
        (&3.into(), &2.into())
    );
    let picture = fs::read_to_string(&file).unwrap();
    for text in [
        "<svg",
        "Sales",
        "Legal",
        "rows by their size",
        "rows by the time of their last write",
    ] {
        assert!(picture.contains(text), "{text}");
    }
    // A second picture replaces the first.
    plot(&["--to", path])
        .assert()
        .success()
        .stdout("")
        .stderr(contains("3 rows drawn, 2 requests"));
    plot(&["--to", "picture.png"])
        .assert()
        .code(2)
        .stderr(contains(".svg"));
    plot(&[]).assert().code(2);
    let nowhere = directory.path().join("absent/picture.svg");
    plot(&["--to", nowhere.to_str().unwrap()])
        .assert()
        .code(1)
        .stderr(contains("cannot be written"));
    let absent = directory.path().join("absent.svg");
    let mut command = tables();
    command
        .args(["plot", &store, "Orders", "--to", absent.to_str().unwrap()])
        .assert()
        .code(1);
    assert!(!absent.exists());
}

#[test]
fn an_index_under_construction_is_no_damage() {
    let (directory, store) = embedded(employees());
    interrupt_build(directory.path());
    let found = doctor(&store, &["--all-entries"]).assert().success();
    found.stdout(
        contains("advice: an index that is not readable: the index age.")
            .and(contains("which is under construction: delete-only")),
    );
}
