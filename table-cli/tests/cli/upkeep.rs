//! `upkeep`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use object_store::local::LocalFileSystem;
use predicates::prelude::*;
use predicates::str::contains;
use table_core::prelude::*;
use table_patterns::Database;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use table_patterns::journal::Timing;

use crate::support::{
    damage, embedded, employees, fill, indexed, interrupt_write, interrupt_write_with, keys,
    on_disk, served, tables,
};

fn once(store: &str, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = tables();
    command.args(["upkeep", store, "--once"]).args(arguments);
    command
}

#[test]
fn tables_in_order_are_healthy() {
    let (directory, store) = indexed(employees());
    on_disk(directory.path(), async |store| {
        fill(&store, "Orders", employees()).await;
    });
    let before = keys(directory.path());
    let first = once(&store, &[]).assert().success();
    let lines = "Employees: round 1: healthy; since the start: 3 entries compared\n";
    first
        .stdout(contains(lines).and(contains("Orders: round 1: needs no upkeep\n")))
        .stderr("");
    // The next comparison is in 30 days.
    once(&store, &["Employees"])
        .assert()
        .success()
        .stdout("Employees: round 1: healthy\n");
    assert_eq!(keys(directory.path()), before);
}

#[test]
fn a_quiet_upkeep_prints_warnings_and_errors_alone() {
    let (directory, store) = indexed(employees());
    on_disk(directory.path(), async |store| damage(&store).await);
    let before = keys(directory.path());
    once(&store, &["--quiet", "--concurrency", "1"])
        .assert()
        .success()
        .stdout("")
        .stderr("");
    assert_ne!(keys(directory.path()), before, "the entries are repaired");
    let absent = once(&store, &["--quiet", "Employees", "Orders"])
        .assert()
        .code(1)
        .stdout("");
    absent.stderr(contains("the table 'Orders' does not exist"));
    once(&store, &["--quiet", "--json"])
        .assert()
        .code(2)
        .stderr(contains("--quiet"));
    once(&store, &["--concurrency", "0"]).assert().code(2);
}

#[test]
fn an_interrupted_write_is_finished() {
    let (directory, store) = indexed([]);
    interrupt_write(directory.path());
    assert_eq!(keys(directory.path()).len(), 1, "the entity, and no entry");
    once(&store, &[])
        .assert()
        .success()
        .stdout(contains("healthy").and(contains("1 writes finished")));
    assert_eq!(keys(directory.path()).len(), 2, "the entity and its entry");
}

/// A program with leases of an hour has died. No other process can write the store, so nothing is waited for: otherwise the test would not end.
#[test]
fn the_lease_of_a_dead_program_is_not_waited_for() {
    let (directory, store) = indexed([]);
    let mut options = IndexOptions::local();
    options.timing = Timing::new(
        Duration::from_secs(3600),
        Duration::from_millis(250),
        Duration::ZERO,
    )
    .unwrap();
    interrupt_write_with(directory.path(), options);
    once(&store, &[])
        .assert()
        .success()
        .stdout(contains("healthy").and(contains("1 writes finished")));
    assert_eq!(keys(directory.path()).len(), 2, "the entity and its entry");
}

#[test]
fn damaged_entries_are_repaired() {
    let (directory, store) = indexed(employees());
    let before = keys(directory.path());
    on_disk(directory.path(), async |store| damage(&store).await);
    let repaired = once(&store, &["Employees", "--json"]).assert().success();
    repaired.stdout(
        contains(r#""dangling":1"#)
            .and(contains(r#""missing":1"#))
            .and(contains(r#""due":0"#)),
    );
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
        opened
            .unwrap()
            .insert(Entity::new("Sales", "1").unwrap())
            .await
            .unwrap();
    });
    let due = once(&store, &[]).assert().code(4);
    due.stdout(contains("needs an operator"))
        .stderr(contains("opaque.").and(contains("Rust code makes its keys")));
}

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Session", rename_all = "PascalCase")]
#[index(
    token,
    partition_key = "token_{token}",
    row_key = "x",
    unique = "table"
)]
struct Session {
    #[partition_key]
    user: String,
    #[row_key]
    id: u32,
    token: String,
    #[expires]
    until: Ticks,
}

#[test]
fn expired_entities_are_removed_with_their_entries() {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", directory.path().display());
    on_disk(directory.path(), async |store| {
        let db = Database::new(store.into_shared());
        let sessions = db.table::<Session>("Employees").unwrap();
        for (id, until) in [(1, "2020-01-01T00:00:00Z"), (2, "2999-01-01T00:00:00Z")] {
            let (user, token, until) = (
                "ann".to_owned(),
                format!("token {id}"),
                until.parse().unwrap(),
            );
            sessions
                .insert(&Session {
                    user,
                    id,
                    token,
                    until,
                })
                .await
                .unwrap();
        }
    });
    assert_eq!(keys(directory.path()).len(), 4);
    let swept = once(&store, &["Employees", "--json"]).assert().success();
    swept.stdout(
        contains(r#""expiry_sweeps":1"#)
            .and(contains(r#""expired":1"#))
            .and(contains(r#""not_removed":0"#))
            .and(contains(r#""due":0"#)),
    );
    assert_eq!(
        keys(directory.path()).len(),
        2,
        "the valid session and its entry"
    );
    // The next sweep is in an hour.
    once(&store, &[])
        .assert()
        .success()
        .stdout("Employees: round 1: healthy\n");
}

/// Whoever may add rows to a table of an account can add an expiry to its manifest.
#[test]
fn an_expiry_of_a_service_is_obeyed_by_name() {
    let expired = |row: &str| {
        let entity = Entity::new("ann", row)
            .unwrap()
            .with("EntityType", "Session");
        entity.with("Until", "2020-01-01T00:00:00Z".parse::<Ticks>().unwrap())
    };
    let planted = Entity::new("~~manifest", "type~Session")
        .unwrap()
        .with("Format", 1)
        .with("EntityType", "Session");
    let planted = planted
        .with("Discriminator", r#"{"property":"EntityType"}"#)
        .with("Version", 1)
        .with("Reader", 1);
    let planted = planted
        .with("Layout", "\"plain\"")
        .with("Encrypted", "[]")
        .with("Expiry", r#"{"expires":"Until"}"#);
    let served = served([expired("1"), expired("2"), planted]);
    let run = |arguments: &[&str]| {
        let mut command = tables();
        command
            .args(["upkeep", "azure", "Employees", "--once"])
            .args(arguments);
        command
            .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret)
            .assert()
    };
    let count = |entities: &str| {
        let mut command = tables();
        command
            .args(["count", "azure", "Employees"])
            .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret);
        command.assert().success().stdout(contains(entities));
    };
    run(&[])
        .code(4)
        .stderr(contains("Session=Until").and(contains("--trust-expiry")));
    run(&["--trust-expiry", "Session=Other"]).code(4);
    run(&["--trust-expiry", "Session"])
        .code(2)
        .stderr(contains("a type and a property"));
    count("2");
    run(&["--trust-expiry", "Session=Until"]).success();
    count("0");
}

#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Photo", rename_all = "PascalCase")]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key]
    number: u32,
    #[large(over = 10)]
    image: Vec<u8>,
}

/// The files below a directory, made old: an upkeep removes no young blob.
fn old_files(directory: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += old_files(&path);
        } else {
            let old = SystemTime::now() - Duration::from_secs(400 * 24 * 3600);
            std::fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(old)
                .unwrap();
            count += 1;
        }
    }
    count
}

#[test]
fn blobs_that_no_row_needs_are_removed() {
    let place = tempfile::tempdir().unwrap();
    let (data, blobs) = (place.path().join("data"), place.path().join("blobs"));
    std::fs::create_dir(&blobs).unwrap();
    on_disk(&data, async |store| {
        let files = Arc::new(LocalFileSystem::new_with_prefix(&blobs).unwrap());
        let db = Database::new(store.clone()).with_blobs(files);
        let photos = db.table::<Photo>("Photos").unwrap();
        photos.declare().await.unwrap();
        for number in 1..=2 {
            photos
                .insert(&Photo {
                    album: "2013".to_owned(),
                    number,
                    image: vec![7; 100],
                })
                .await
                .unwrap();
        }
        // A program without the blobs deletes a row.
        let key = Photo::key("2013", 2).unwrap();
        let table = TableName::new("Photos").unwrap();
        store
            .write(&table, Operation::Delete(key.into_key(), IfMatch::Any))
            .await
            .unwrap();
    });
    assert_eq!(old_files(&blobs), 2);
    let store = format!("embedded:{}", data.display());
    let without = once(&store, &[]).assert().code(4);
    without
        .stdout(contains("Photos: round 1: needs an operator"))
        .stderr(contains("blob"));
    assert_eq!(old_files(&blobs), 2);
    once(&store, &["--blobs", "absent"])
        .assert()
        .code(2)
        .stderr(contains("absent"));
    let root = blobs.join("large");
    let collected = once(&store, &["--blobs", root.to_str().unwrap()])
        .assert()
        .success();
    collected.stdout("Photos: round 1: healthy; since the start: 1 unused blobs removed\n");
    let doctor = tables()
        .args(["doctor", &store, "--blobs", root.to_str().unwrap()])
        .assert()
        .success();
    doctor.stdout(contains("nothing is wrong"));
}

#[test]
fn a_wrong_command_changes_nothing() {
    let (directory, store) = indexed(employees());
    let absent = once(&store, &["Employees", "Orders"]).assert().code(1);
    absent
        .stdout(contains("Employees: round 1: healthy").and(contains("Orders: round 1: failed")))
        .stderr(contains("the table 'Orders' does not exist"));
    once(&store, &["1"]).assert().code(2);
    tables()
        .args(["upkeep", &store, "--every", "0"])
        .assert()
        .code(2);
    let nowhere = directory.path().join("nowhere");
    once(&format!("embedded:{}", nowhere.display()), &[])
        .assert()
        .code(1);
    assert!(!nowhere.exists(), "upkeep creates no store");
    once("memory", &[])
        .assert()
        .success()
        .stderr("the store has no table\n");
}

#[test]
fn rounds_of_a_server_end_with_a_signal() {
    let served = served(employees());
    let mut program = std::process::Command::new(assert_cmd::cargo::cargo_bin("tables"));
    program
        .args(["upkeep", "azure", "--every", "1"])
        .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret);
    let mut running = program
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(running.stdout.take().unwrap()));
    for round in 1..=2 {
        let line = lines.next().unwrap().unwrap();
        assert_eq!(line, format!("Employees: round {round}: needs no upkeep"));
    }
    let id = running.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    assert!(running.wait().unwrap().success());
}
