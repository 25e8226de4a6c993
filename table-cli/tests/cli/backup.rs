//! `backup` and `restore`.

use std::fs;
use std::path::Path;

use predicates::Predicate;
use predicates::prelude::*;
use predicates::str::contains;
use table_core::model::{Entity, TableName, Ticks};
use table_core::prelude::TableEntity;
use table_core::query::Query;
use table_core::store::{TableStore as _, TableStoreExt as _};

use table_patterns::Database;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};

use crate::support::{
    embedded, employees, fill, indexed, interrupt_write, keys, of_every_type, on_disk, served,
    tables,
};

fn rows(directory: &Path, table: &str) -> Vec<Entity> {
    let table = TableName::new(table).unwrap();
    let rows = on_disk(directory, async |store| {
        store.query_all(&table, &Query::new()).await.unwrap()
    });
    rows.into_iter()
        .map(|row| row.with_system(None, None))
        .collect()
}

/// A directory for a backup and a store, and both as arguments.
fn places() -> (tempfile::TempDir, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (backup, store) = (place("backup"), format!("embedded:{}", place("store")));
    (directory, backup, store)
}

#[test]
fn a_backup_is_checked_and_restored() {
    let entities = [of_every_type("p", "1"), of_every_type("q", "")];
    let (source, from) = embedded(entities.clone());
    on_disk(source.path(), async |store| {
        fill(&store, "Orders", [Entity::new("p", "r").unwrap()]).await;
    });
    let (directory, backup, to) = places();
    let done = tables()
        .args(["backup", &from, &backup, "--json", "--quiet"])
        .assert()
        .success();
    done.stdout(contains(r#""rows":3"#).and(contains(r#""Employees":2"#)));
    let check = tables()
        .args(["restore", &backup, &to, "--check"])
        .assert()
        .success();
    check.stdout(contains("2 tables, 3 rows, every checksum is right"));
    assert!(!directory.path().join("store").exists());
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .success()
        .stderr(contains("2 tables with 3 rows restored"));
    assert_eq!(rows(&directory.path().join("store"), "Employees"), entities);
    // An import reads the files.
    let file = Path::new(&backup)
        .join("Employees/000000.jsonl.zst")
        .display()
        .to_string();
    tables()
        .args(["import", &to, "Imported", "--from", &file])
        .assert()
        .success();
    assert_eq!(rows(&directory.path().join("store"), "Imported"), entities);
}

#[test]
fn a_backup_of_an_account_is_restored_to_another() {
    let (account, other) = (served(employees()), served([]));
    let (_directory, backup, _) = places();
    tables()
        .args(["backup", "env:A", &backup])
        .env("A", &account.secret)
        .assert()
        .success();
    let text = fs::read_to_string(Path::new(&backup).join("backup.json")).unwrap();
    assert!(text.contains("\"env:A\"") && !text.contains("AccountKey"));
    let restore = [
        "restore",
        &backup,
        "env:B",
        "--max-requests-per-second",
        "1000",
    ];
    tables()
        .args(restore)
        .env("B", &other.secret)
        .assert()
        .success();
    let count = tables()
        .args(["count", "env:B", "Employees"])
        .env("B", &other.secret)
        .assert()
        .success();
    count.stdout("3\n");
    let again = tables()
        .args(["backup", "env:A", &backup])
        .env("A", &account.secret)
        .assert()
        .code(2);
    again.stderr(contains("complete backup"));
}

#[test]
fn indexes_and_unfinished_writes_are_restored() {
    let (source, from) = indexed(employees());
    interrupt_write(source.path());
    let (_directory, backup, to) = places();
    tables()
        .args(["backup", &from, &backup])
        .assert()
        .success()
        .stderr(contains("were not finished"));
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .success()
        .stderr(contains("tables upkeep"));
    tables().args(["upkeep", &to, "--once"]).assert().success();
    let scrub = tables()
        .args(["index", &to, "Employees", "scrub"])
        .assert()
        .success();
    scrub.stdout(contains("4 entities, 4 entries, 0 dangling, 0 missing"));
}

#[test]
fn a_damaged_or_unfinished_backup_is_refused_and_writes_nothing() {
    let (_source, from) = embedded(employees());
    let (directory, backup, to) = places();
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .code(2)
        .stderr(contains("does not exist"));
    fs::create_dir(&backup).unwrap();
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .code(4)
        .stderr(contains("no backup"));
    tables()
        .args(["restore", &backup, &to, "--check"])
        .assert()
        .code(4)
        .stderr(contains("no backup"));
    tables().args(["backup", &from, &backup]).assert().success();
    let (file, contents) = (
        Path::new(&backup).join("Employees/000000.jsonl.zst"),
        Path::new(&backup).join("backup.json"),
    );
    let sound = fs::read(&file).unwrap();
    let mut changed = sound.clone();
    changed[20] ^= 1;
    for (content, fault) in [(&changed[..], "checksum"), (&sound[1..], "bytes")] {
        fs::write(&file, content).unwrap();
        let restore = tables().args(["restore", &backup, &to]).assert().code(4);
        restore.stderr(
            contains("Employees/000000.jsonl.zst")
                .and(contains(fault))
                .and(contains("nothing was restored")),
        );
    }
    fs::remove_file(&file).unwrap();
    tables()
        .args(["restore", &backup, &to, "--check"])
        .assert()
        .code(4)
        .stderr(contains("missing"));
    fs::write(&file, sound).unwrap();
    let text = fs::read_to_string(&contents).unwrap();
    fs::write(
        &contents,
        text.replace("\"rows\":3", "\"rows\":2")
            .replace("\"rows\": 3", "\"rows\": 2"),
    )
    .unwrap();
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .code(4)
        .stderr(contains("backup.json is damaged"));
    fs::rename(&contents, Path::new(&backup).join("unfinished.json")).unwrap();
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .code(4)
        .stderr(contains("not complete"));
    assert!(
        !directory.path().join("store").exists(),
        "nothing was written"
    );
}

#[test]
fn tables_with_rows_are_restored_only_with_force() {
    let (_source, from) = embedded(employees());
    let (target, to) = embedded([Entity::new("Other", "1").unwrap().with("Age", 1)]);
    let (_directory, backup, _) = places();
    tables()
        .args(["backup", &from, &backup, "--table", "Absent"])
        .assert()
        .code(1)
        .stderr(contains("'Absent'"));
    tables().args(["backup", &from, &backup]).assert().success();
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .code(2)
        .stderr(contains("exists and has rows"));
    assert_eq!(keys(target.path()), ["Other/1"]);
    let absent = tables()
        .args(["restore", &backup, &to, "--table", "Absent"])
        .assert()
        .code(2);
    absent.stderr(contains("it has Employees"));
    tables()
        .args(["restore", &backup, &to, "--force"])
        .assert()
        .success();
    assert_eq!(keys(target.path()).len(), 4);
}

#[test]
fn an_incremental_backup_is_restored_over_a_full_one() {
    let (source, from) = embedded(employees());
    let (directory, backup, to) = places();
    tables().args(["backup", &from, &backup]).assert().success();
    let later = format!("{backup}-2");
    let all = tables()
        .args(["backup", &from, &later, "--since", "2001-01-01", "--json"])
        .assert()
        .success();
    all.stdout(contains(r#""rows":3"#));
    let none = format!("{backup}-3");
    tables()
        .args(["backup", &from, &none, "--since", "2999-01-01", "--json"])
        .assert()
        .success()
        .stdout(contains(r#""rows":0"#));
    tables()
        .args(["backup", &from, &none, "--since", "yesterday"])
        .assert()
        .code(2)
        .stderr(contains("2026-01-31"));
    tables()
        .args(["restore", &later, &to])
        .assert()
        .code(2)
        .stderr(contains("restore a full backup first"));
    tables().args(["restore", &backup, &to]).assert().success();
    tables()
        .args(["restore", &later, &to, "--force"])
        .assert()
        .success();
    assert_eq!(keys(&directory.path().join("store")), keys(source.path()));
}

#[derive(TableEntity)]
#[entity(type = "Session")]
struct Session {
    #[partition_key]
    user: String,
    #[row_key]
    number: u32,
    #[expires]
    until: Option<Ticks>,
}

/// A store with an index whose entries are in another table, and a type whose entities expire.
fn with_definitions() -> (tempfile::TempDir, String) {
    let (directory, name) = embedded([]);
    on_disk(directory.path(), async |store| {
        let (store, ages) = (store.into_shared(), TableName::new("Ages").unwrap());
        store.create_table(&ages).await.unwrap();
        let index = Index::keyed(
            "age",
            Placement::OtherTable(ages),
            "age_{Age}",
            "{PartitionKey}_{RowKey}",
        )
        .unwrap();
        let table = TableName::new("Employees").unwrap();
        let opened =
            IndexedEntities::open(store.clone(), table, vec![index], IndexOptions::local());
        let opened = opened.await.unwrap();
        for employee in employees() {
            opened.insert(employee).await.unwrap();
        }
        opened.flush().await;
        let sessions = Database::new(store).table::<Session>("Sessions").unwrap();
        sessions.declare().await.unwrap();
        sessions
            .insert(&Session {
                user: "ann".into(),
                number: 1,
                until: None,
            })
            .await
            .unwrap();
    });
    (directory, name)
}

/// What a restore or a copy names without `--trust-definitions`.
fn named() -> impl Predicate<str> {
    contains("the index 'age' of the table 'Employees' writes into the table 'Ages'")
        .and(contains(
            "the type 'Session' of the table 'Sessions' expire",
        ))
        .and(contains("--trust-definitions"))
}

#[test]
fn definitions_that_act_beyond_their_rows_need_an_option() {
    let (_source, from) = with_definitions();
    let (directory, backup, to) = places();
    tables().args(["backup", &from, &backup]).assert().success();
    tables()
        .args(["restore", &backup, &to])
        .assert()
        .code(2)
        .stderr(named());
    tables()
        .args(["restore", &backup, &to, "--check"])
        .assert()
        .success()
        .stderr(named());
    assert!(
        !directory.path().join("store").exists(),
        "nothing was written"
    );
    tables()
        .args(["restore", &backup, &to, "--trust-definitions"])
        .assert()
        .success();
    // The consent of the other table is restored too, so the index is in force.
    let scrub = tables()
        .args(["index", &to, "Employees", "scrub"])
        .assert()
        .success();
    scrub.stdout(contains("3 entities, 3 entries, 0 dangling, 0 missing"));

    let copy = format!("embedded:{}", directory.path().join("copy").display());
    tables()
        .args(["copy", &from, &copy])
        .assert()
        .code(2)
        .stderr(named().and(contains("nothing was copied")));
    tables()
        .args(["copy", &from, &copy, "--trust-definitions"])
        .assert()
        .success();
    let scrub = tables()
        .args(["index", &copy, "Employees", "scrub"])
        .assert()
        .success();
    scrub.stdout(contains("3 entities, 3 entries, 0 dangling, 0 missing"));
    // Without the table of the definition there is nothing to trust.
    let one = format!("embedded:{}", directory.path().join("one").display());
    tables()
        .args(["copy", &from, &one, "--table", "Ages"])
        .assert()
        .success();
}

#[test]
fn a_restore_goes_on_with_the_other_tables() {
    let (source, from) = embedded(employees());
    on_disk(source.path(), async |store| {
        fill(&store, "Orders", [Entity::new("p", "r").unwrap()]).await;
    });
    let (directory, backup, to) = places();
    tables().args(["backup", &from, &backup]).assert().success();
    let file = Path::new(&backup).join("Employees/000000.jsonl.zst");
    let mut content = fs::read(&file).unwrap();
    content[20] ^= 1;
    fs::write(&file, content).unwrap();
    let check = tables()
        .args(["restore", &backup, &to, "--check"])
        .assert()
        .code(4);
    check.stderr(
        contains("Employees: the file Employees/000000.jsonl.zst").and(contains("Orders").not()),
    );
    let restore = tables().args(["restore", &backup, &to]).assert().code(4);
    let text = "these tables are missing or not complete: Employees; the others are restored";
    restore.stderr(
        contains("1 tables with 1 rows restored")
            .and(contains(text))
            .and(contains("checksum differs")),
    );
    assert_eq!(rows(&directory.path().join("store"), "Orders").len(), 1);
    let list = tables().args(["list", &to]).assert().success();
    list.stdout(contains("Employees").not());
}
