//! Long commands are killed at random points and run again: nothing is lost, and nothing is there twice.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use table_core::model::{Entity, TableName};
use table_core::query::Query;
use table_core::store::TableStoreExt as _;

use crate::support::{embedded, on_disk, tables};

/// The kills of each command.
const KILLS: usize = 10;
/// Rows in the gate: three pages of the source and 31 groups.
const ROWS: usize = 3000;
/// Slows a command down, so that most kills find it at work.
const SLOW: [&str; 2] = ["--max-requests-per-second", "300"];

fn data(rows: usize) -> Vec<Entity> {
    let row = |n: usize| {
        Entity::new(format!("p{}", n % 7), format!("{n:07}"))
            .unwrap()
            .with("N", i64::try_from(n).unwrap())
            .with("Text", "value")
    };
    let mut rows: Vec<_> = (0..rows).map(row).collect();
    rows.sort_by(|a, b| a.key().cmp(b.key()));
    rows
}

fn rows(directory: &Path, table: &str) -> Vec<Entity> {
    let table = TableName::new(table).unwrap();
    let rows = on_disk(directory, async |store| {
        store.query_all(&table, &Query::new()).await.unwrap()
    });
    rows.into_iter()
        .map(|row| row.with_system(None, None))
        .collect()
}

/// Starts the program and kills it after a random time of at most `longest`. Returns whether it was still at work.
fn kill(arguments: &[&str], longest: Duration) -> bool {
    let mut program = Command::new(assert_cmd::cargo::cargo_bin("tables"));
    program
        .args(arguments)
        .args(SLOW)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut process = program.spawn().unwrap();
    std::thread::sleep(longest.mul_f64(fastrand::f64()));
    let ended = process.try_wait().unwrap().is_some();
    process.kill().unwrap();
    process.wait().unwrap();
    !ended
}

/// Kills `arguments` ten times at work, each time in a new directory, and lets `finish` run it to its end and compare.
fn kill_and_resume(arguments: impl Fn(&Path) -> Vec<String>, finish: impl Fn(&Path)) {
    let (mut kills, mut longest) = (0, Duration::from_millis(400));
    while kills < KILLS {
        let directory = tempfile::tempdir().unwrap();
        let arguments = arguments(directory.path());
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        match kill(&arguments, longest) {
            true => kills += 1,
            // A faster machine.
            false => longest = longest.mul_f64(0.8),
        }
        finish(directory.path());
    }
}

fn strings(arguments: &[&str]) -> Vec<String> {
    arguments
        .iter()
        .map(|&argument| argument.to_owned())
        .collect()
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

fn store(directory: &Path) -> String {
    format!("embedded:{}", path(directory, "store"))
}

fn run(arguments: &[String]) {
    tables().args(arguments).assert().success();
}

/// Kills every long command with this many rows.
fn kill_commands(count: usize) {
    let expected = data(count);
    let (_source, from) = embedded(expected.clone());
    // Not `assert_eq`, which would print thousands of rows.
    let same = |directory: &Path| assert!(rows(&directory.join("store"), "Employees") == expected);

    let copy =
        |directory: &Path| strings(&["copy", &from, &store(directory), "--concurrency", "2"]);
    kill_and_resume(copy, |directory| {
        run(&copy(directory));
        same(directory);
    });

    let export = |directory: &Path| {
        strings(&[
            "export",
            &from,
            "Employees",
            "--to",
            &path(directory, "all.jsonl.zst"),
        ])
    };
    let import = |directory: &Path, file: &Path| {
        strings(&[
            "import",
            &store(directory),
            "Employees",
            "--mode",
            "upsert",
            "--from",
            &file.display().to_string(),
            "--concurrency",
            "2",
        ])
    };
    kill_and_resume(export, |directory| {
        run(&export(directory));
        // Not `--mode upsert`, which would hide a row that is there twice.
        let file = path(directory, "all.jsonl.zst");
        run(&strings(&[
            "import",
            &store(directory),
            "Employees",
            "--from",
            &file,
        ]));
        same(directory);
    });

    let files = tempfile::tempdir().unwrap();
    run(&export(files.path()));
    kill_and_resume(
        |directory| import(directory, &files.path().join("all.jsonl.zst")),
        |directory| {
            run(&import(directory, &files.path().join("all.jsonl.zst")));
            same(directory);
        },
    );

    let backup = |directory: &Path| strings(&["backup", &from, &path(directory, "backup")]);
    let restore = |directory: &Path, backup: &str| {
        strings(&["restore", backup, &store(directory), "--concurrency", "2"])
    };
    kill_and_resume(backup, |directory| {
        // The backup is complete if it was killed after its end.
        if !directory.join("backup/backup.json").exists() {
            run(&backup(directory));
        }
        run(&restore(directory, &path(directory, "backup")));
        same(directory);
    });

    run(&backup(files.path()));
    let saved = path(files.path(), "backup");
    kill_and_resume(
        |directory| restore(directory, &saved),
        |directory| {
            let again = tables().args(restore(directory, &saved)).assert();
            // The restore is complete if it was killed after its end.
            if !again.get_output().status.success() {
                again
                    .code(2)
                    .stderr(predicates::str::contains("exists and has rows"));
            }
            same(directory);
        },
    );
}

#[test]
fn killed_commands_lose_nothing_when_they_run_again() {
    kill_commands(ROWS);
}

/// Several pages, windows and files: `cargo test -p table-cli --test long -- --ignored killed`.
#[test]
#[ignore = "takes minutes; a nightly command"]
fn killed_commands_lose_nothing_of_many_rows() {
    kill_commands(45_000);
}
