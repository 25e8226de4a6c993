//! Long commands show progress with rate and requests, and stop cleanly at Ctrl-C, with how to go on.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, thread};

use table_core::model::TableName;
use table_core::query::Query;
use table_core::store::TableStoreExt as _;

use crate::support::{on_disk, tables};

/// Rows of every command: 40 pages, and 400 groups.
const ROWS: usize = 40_000;

/// A command of 20 seconds by its bound of requests, the verb of its progress, and the end of its message.
struct Long {
    arguments: Vec<String>,
    per_second: u32,
    progress: &'static str,
    resume: &'static str,
}

impl Long {
    /// Starts the command, stops it after its first line of progress, and checks its messages.
    fn stop(self) {
        let Self {
            arguments,
            per_second,
            progress,
            resume,
        } = self;
        let mut process = Command::new(assert_cmd::cargo::cargo_bin("tables"))
            .args(&arguments)
            .args(["--max-requests-per-second", &per_second.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut seen = String::new();
        // Without a terminal, progress is a line every 10 seconds.
        while !seen.contains(" rows/s, ") {
            let bytes = errors.read_line(&mut seen).unwrap();
            assert!(bytes > 0, "{arguments:?} has ended: {seen}");
        }
        assert!(
            seen.contains(progress) && seen.contains(" requests"),
            "{arguments:?}: {seen}"
        );
        // Every store and file here tells how much there is.
        assert!(seen.contains(" left"), "{arguments:?}: {seen}");
        interrupt(&process);
        errors.read_to_string(&mut seen).unwrap();
        assert_eq!(
            process.wait().unwrap().code(),
            Some(1),
            "{arguments:?}: {seen}"
        );
        assert!(
            seen.contains("error: interrupted: ") && seen.contains(resume),
            "{arguments:?}: {seen}"
        );
        // Requests without an answer may have written more.
        let counts_answers = ["import", "delete"].contains(&&*arguments[0]);
        assert_eq!(
            seen.contains("Rows: at least "),
            counts_answers,
            "{arguments:?}: {seen}"
        );
    }
}

/// Before a command has work that could be stopped: here it waits for a pipe that has its connection string.
#[test]
fn a_store_that_is_being_opened_is_left_with_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("connection");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for signal in ["-INT", "-TERM"] {
        let process = Command::new(assert_cmd::cargo::cargo_bin("tables"))
            .args(["list", &format!("file:{}", pipe.display())])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Opens when the command has opened the other end, and is kept open, so that the command waits for the text.
        let _writer = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        kill(&process, signal);
        let output = process.wait_with_output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), &*errors),
            (Some(1), "error: interrupted: run the same command again\n"),
            "{signal}"
        );
    }
}

fn interrupt(process: &Child) {
    kill(process, "-INT");
}

fn kill(process: &Child, signal: &str) {
    let id = process.id().to_string();
    assert!(
        Command::new("kill")
            .args([signal, &id])
            .status()
            .unwrap()
            .success()
    );
}

fn lines() -> String {
    let mut lines = String::new();
    for n in 0..ROWS {
        let partition = n % 7;
        writeln!(
            lines,
            r#"{{"PartitionKey":"p{partition}","RowKey":"{n:07}","N":{n}}}"#
        )
        .unwrap();
    }
    lines
}

fn rows(directory: &Path) -> usize {
    let table = TableName::new("Rows").unwrap();
    on_disk(directory, async |store| {
        store.query_all(&table, &Query::new()).await.unwrap().len()
    })
}

#[test]
fn long_commands_show_progress_and_stop_cleanly() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let store = |name: &str| format!("embedded:{}", path(name));
    fs::write(path("rows.jsonl"), lines()).unwrap();
    for name in ["source", "emptied"] {
        let import = [
            "import",
            &store(name),
            "Rows",
            "--from",
            &path("rows.jsonl"),
            "--quiet",
        ];
        tables().args(import).assert().success();
    }
    tables()
        .args(["backup", &store("source"), &path("monday"), "--quiet"])
        .assert()
        .success();
    let long = |arguments: &[&str], per_second, progress, resume| Long {
        arguments: arguments
            .iter()
            .map(|&argument| argument.to_owned())
            .collect(),
        per_second,
        progress,
        resume,
    };
    let source = store("source");
    let commands = [
        long(
            &["count", &source, "Rows"],
            2,
            " rows counted, ",
            "run the same command again",
        ),
        long(
            &["export", &source, "Rows", "--to", &path("all.csv")],
            2,
            " rows exported, ",
            "starts the files again",
        ),
        long(
            &[
                "import",
                &store("imported"),
                "Rows",
                "--from",
                &path("rows.jsonl"),
            ],
            20,
            " rows imported, ",
            "--mode upsert to go on",
        ),
        long(
            &["copy", &source, &store("copied")],
            20,
            " rows copied, ",
            "continues the copy",
        ),
        long(
            &["backup", &source, &path("tuesday")],
            2,
            " rows backed up, ",
            "continues the backup",
        ),
        long(
            &["restore", &path("monday"), &store("restored")],
            20,
            " rows restored, ",
            "continues the restore",
        ),
        long(
            &["delete", &store("emptied"), "Rows", "--all", "--yes"],
            20,
            " rows deleted, ",
            "to delete the rest",
        ),
        long(
            &["doctor", &source, "Rows"],
            2,
            " rows examined, ",
            "nothing was changed",
        ),
        long(
            &["plot", &source, "Rows", "--to", &path("rows.svg")],
            2,
            " rows read, ",
            "no file was written",
        ),
    ];
    let running: Vec<_> = commands
        .into_iter()
        .map(|command| thread::spawn(|| command.stop()))
        .collect();
    for command in running {
        command.join().expect("the command stops cleanly");
    }
    assert!(!Path::new(&path("all.csv")).exists() && !Path::new(&path("rows.svg")).exists());
    let some = |name: &str| {
        let rows = rows(&directory.path().join(name));
        assert!(rows > 0 && rows < ROWS, "{name}: {rows}");
    };
    some("imported");
    some("copied");
    some("restored");
    some("emptied");
    // The same commands again, as the messages say.
    let again: [&[&str]; 4] = [
        &[
            "import",
            &store("imported"),
            "Rows",
            "--from",
            &path("rows.jsonl"),
            "--mode",
            "upsert",
        ],
        &["copy", &source, &store("copied")],
        &["restore", &path("monday"), &store("restored")],
        &["backup", &source, &path("tuesday")],
    ];
    for arguments in again {
        tables().args(arguments).assert().success();
    }
    for name in ["imported", "copied", "restored"] {
        assert_eq!(rows(&directory.path().join(name)), ROWS, "{name}");
    }
}
