//! `upkeep`.

use predicates::prelude::*;
use predicates::str::contains;
use table_core::model::{Entity, Key, TableName};
use table_core::store::TableStoreExt as _;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};

use crate::support::{
    damage, embedded, employees, fill, indexed, interrupt_write, keys, on_disk, served, tables,
};

fn once(store: &str, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = tables();
    command.args(["upkeep", store, "--once"]).args(arguments);
    command
}

#[test]
fn tables_in_order_are_healthy() {
    let (directory, store) = indexed(employees());
    on_disk(directory.path(), async |store| fill(&store, "Orders", employees()).await);
    let before = keys(directory.path());
    let first = once(&store, &[]).assert().success();
    let lines = "Employees: round 1: healthy; since the start: 3 entries compared\n";
    first.stdout(contains(lines).and(contains("Orders: round 1: needs no upkeep\n"))).stderr("");
    // The next comparison is in 30 days.
    once(&store, &["Employees"]).assert().success().stdout("Employees: round 1: healthy\n");
    assert_eq!(keys(directory.path()), before);
}

#[test]
fn an_interrupted_write_is_finished() {
    let (directory, store) = indexed([]);
    interrupt_write(directory.path());
    assert_eq!(keys(directory.path()).len(), 1, "the entity, and no entry");
    once(&store, &[]).assert().success().stdout(contains("healthy").and(contains("1 writes finished")));
    assert_eq!(keys(directory.path()).len(), 2, "the entity and its entry");
}

#[test]
fn damaged_entries_are_repaired() {
    let (directory, store) = indexed(employees());
    let before = keys(directory.path());
    on_disk(directory.path(), async |store| damage(&store).await);
    let repaired = once(&store, &["Employees", "--json"]).assert().success();
    repaired.stdout(contains(r#""dangling":1"#).and(contains(r#""missing":1"#)).and(contains(r#""due":0"#)));
    assert_eq!(keys(directory.path()), before);
}

#[test]
fn what_an_operator_must_do_is_said() {
    let (directory, store) = embedded([]);
    on_disk(directory.path(), async |store| {
        let opaque = Index::new("opaque", Placement::OtherPartition, "1", |entity| {
            Key::new("opaque", entity.key().row()).map(Some)
        });
        let (table, options) = (TableName::new("Employees").unwrap(), IndexOptions::local());
        let opened = IndexedEntities::open(store.into_shared(), table, vec![opaque], options).await;
        opened.unwrap().insert(Entity::new("Sales", "1").unwrap()).await.unwrap();
    });
    let due = once(&store, &[]).assert().code(4);
    due.stdout(contains("needs an operator"))
        .stderr(contains("opaque.").and(contains("Rust code makes its keys")));
}

#[test]
fn a_wrong_command_changes_nothing() {
    let (directory, store) = indexed(employees());
    let absent = once(&store, &["Employees", "Orders"]).assert().code(1);
    absent
        .stdout(contains("Employees: round 1: healthy").and(contains("Orders: round 1: failed")))
        .stderr(contains("the table 'Orders' does not exist"));
    once(&store, &["1"]).assert().code(2);
    tables().args(["upkeep", &store, "--every", "0"]).assert().code(2);
    let nowhere = directory.path().join("nowhere");
    once(&format!("embedded:{}", nowhere.display()), &[]).assert().code(1);
    assert!(!nowhere.exists(), "upkeep creates no store");
    once("memory", &[]).assert().success().stderr("the store has no table\n");
}

#[test]
fn rounds_of_a_server_end_with_a_signal() {
    let served = served(employees());
    let mut program = std::process::Command::new(assert_cmd::cargo::cargo_bin("tables"));
    program.args(["upkeep", "azure", "--every", "1"]).env("AZURE_STORAGE_CONNECTION_STRING", &served.secret);
    let mut running = program.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(running.stdout.take().unwrap()));
    for round in 1..=2 {
        let line = lines.next().unwrap().unwrap();
        assert_eq!(line, format!("Employees: round {round}: needs no upkeep"));
    }
    let id = running.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(running.wait().unwrap().success());
}
