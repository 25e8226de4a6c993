//! Every command with bad input of each kind: a clear error, an exit code, and nothing changed.

use std::fs;
use std::path::Path;

use assert_cmd::assert::Assert;
use predicates::str::contains;
use table_core::prelude::*;

use crate::support::{embedded, employees, on_disk, tables};

/// The place of the store in a command, and of a directory.
const STORE: &str = "STORE";
const PLACE: &str = "PLACE";

/// A command that works on the table `Employees`, and the kinds of input that it has.
struct Command {
    arguments: &'static [&'static str],
    kinds: &'static [Kind],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A table.
    Table,
    /// A table that must exist.
    Existing,
    /// A store that must exist.
    Reads,
    Filter,
    Keys,
    Pace,
    InFlight,
}

use Kind::{Existing, Filter, InFlight, Keys, Pace, Reads, Table};

const COMMANDS: &[Command] = &[
    Command {
        arguments: &["list", STORE],
        kinds: &[Reads, Pace],
    },
    Command {
        arguments: &["get", STORE, "Employees", "Sales", "1"],
        kinds: &[Reads, Table, Existing, Keys],
    },
    Command {
        arguments: &["query", STORE, "Employees"],
        kinds: &[Reads, Table, Existing, Filter, Keys, Pace],
    },
    Command {
        arguments: &["count", STORE, "Employees"],
        kinds: &[Reads, Table, Existing, Filter, Pace],
    },
    Command {
        arguments: &["export", STORE, "Employees", "--to", "PLACE/all.jsonl"],
        kinds: &[Reads, Table, Existing, Filter, Keys, Pace],
    },
    Command {
        arguments: &["import", STORE, "Employees", "--from", "PLACE/some.jsonl"],
        kinds: &[Table, Keys, Pace, InFlight],
    },
    Command {
        arguments: &["copy", STORE, "embedded:PLACE/copy", "--table", "Employees"],
        kinds: &[Reads, Table, Existing, Filter, Keys, Pace, InFlight],
    },
    Command {
        arguments: &["backup", STORE, "PLACE/backup", "--table", "Employees"],
        kinds: &[Reads, Table, Existing, Pace, InFlight],
    },
    Command {
        arguments: &["restore", "PLACE/monday", STORE, "--table", "Employees"],
        kinds: &[Table, Existing, Pace, InFlight],
    },
    Command {
        arguments: &[
            "delete",
            STORE,
            "Employees",
            "--partition",
            "Sales",
            "--yes",
        ],
        kinds: &[Reads, Table, Existing, Keys, Pace, InFlight],
    },
    Command {
        arguments: &[
            "index",
            STORE,
            "Employees",
            "add",
            "age",
            "--row-key",
            "age_{Age}_{RowKey}",
        ],
        kinds: &[Reads, Table, Existing, Keys, Pace, InFlight],
    },
    Command {
        arguments: &["index", STORE, "Employees", "build", "age"],
        kinds: &[Reads, Table, Keys, Pace],
    },
    Command {
        arguments: &["index", STORE, "Employees", "drop", "age", "--yes"],
        kinds: &[Reads, Table, Keys],
    },
    Command {
        arguments: &["index", STORE, "Employees", "scrub", "age"],
        kinds: &[Reads, Table, Keys],
    },
    Command {
        arguments: &["upkeep", STORE, "Employees", "--once"],
        kinds: &[Reads, Table, Existing, Keys, Pace],
    },
    Command {
        arguments: &["doctor", STORE, "Employees"],
        kinds: &[Reads, Table, Existing, Keys, Pace, InFlight],
    },
    Command {
        arguments: &["plot", STORE, "Employees", "--to", "PLACE/picture.svg"],
        kinds: &[Reads, Table, Existing, Pace],
    },
    Command {
        arguments: &["rotate", STORE, "Employees", "--keys", "PLACE/keys.json"],
        kinds: &[Reads, Table, Existing, Pace, InFlight],
    },
    Command {
        arguments: &[
            "migrate",
            STORE,
            "Employees",
            "--encrypt",
            "Name",
            "--keys",
            "PLACE/keys.json",
        ],
        kinds: &[Reads, Table, Existing, Pace, InFlight],
    },
];

/// Runs a command with a store and a directory, and with other arguments after it.
fn run(command: &[&str], store: &str, place: &Path, table: &str, more: &[&str]) -> Assert {
    let place = place.display().to_string();
    let arguments = command.iter().map(|argument| match *argument {
        STORE => store.to_owned(),
        "Employees" => table.to_owned(),
        argument => argument.replace(PLACE, &place),
    });
    tables().args(arguments).args(more).assert()
}

fn rows(directory: &Path) -> Vec<Entity> {
    let table = TableName::new("Employees").unwrap();
    on_disk(directory, async |store| {
        assert_eq!(
            store.all_tables(None).await.unwrap(),
            std::slice::from_ref(&table)
        );
        store.query_all(&table, &Query::new()).await.unwrap()
    })
}

/// A directory with what the commands read.
fn place(store: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let row = "{\"PartitionKey\":\"New\",\"RowKey\":\"1\"}\n";
    fs::write(place.path().join("some.jsonl"), row).unwrap();
    let keys = r#"{"keys":[{"id":"a","aes":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}]}"#;
    fs::write(place.path().join("keys.json"), keys).unwrap();
    let backup = place.path().join("monday");
    tables()
        .args(["backup", store, backup.to_str().unwrap(), "--quiet"])
        .assert()
        .success();
    place
}

#[test]
fn every_command_refuses_bad_input_and_changes_nothing() {
    let (directory, store) = embedded(employees());
    let place = place(&store);
    let before = rows(directory.path());
    let content = |place: &Path| {
        let mut names: Vec<_> = fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        names
    };
    let files = content(place.path());
    let at = place.path();
    let nowhere = format!("embedded:{}", at.join("nowhere").display());
    for Command { arguments, kinds } in COMMANDS {
        let has = |kind| kinds.contains(&kind);
        let refused = |store: &str, table: &str, more: &[&str], code: i32, reason: &str| {
            run(arguments, store, at, table, more)
                .code(code)
                .stderr(contains(reason))
                .stdout("");
        };
        refused(&store, "Employees", &["--nonsense"], 2, "--nonsense");
        refused("cloud", "Employees", &[], 2, "use embedded:DIR");
        refused("env:ABSENT", "Employees", &[], 2, "ABSENT");
        refused("file:absent", "Employees", &[], 2, "file:absent");
        refused(&store, "Employees", &["AccountKey=c2VjcmV0"], 2, "env:NAME");
        if has(Reads) {
            run(arguments, &nowhere, at, "Employees", &[])
                .code(1)
                .stdout("");
        }
        if has(Table) {
            refused(&store, "1", &[], 2, "invalid table name");
        }
        if has(Existing) {
            // The tables of a backup are known before anything is done.
            let code = if arguments[0] == "restore" { 2 } else { 1 };
            run(arguments, &store, at, "Orders", &[])
                .code(code)
                .stderr(contains("'Orders'"));
        }
        if has(Filter) {
            refused(
                &store,
                "Employees",
                &["--filter", "Age gt"],
                2,
                "invalid filter",
            );
        }
        if has(Keys) {
            refused(
                &store,
                "Employees",
                &["--keys", "absent.json"],
                2,
                "absent.json cannot be read",
            );
        }
        if has(Pace) {
            refused(
                &store,
                "Employees",
                &["--max-requests-per-second", "0"],
                2,
                "is not in 1..",
            );
        }
        if has(InFlight) {
            refused(
                &store,
                "Employees",
                &["--concurrency", "0"],
                2,
                "is not in 1..",
            );
        }
    }
    assert_eq!(rows(directory.path()), before);
    let copy = at.join("copy");
    if copy.exists() {
        // A target is opened before the source is read.
        assert_eq!(
            on_disk(&copy, async |store| store.all_tables(None).await.unwrap()),
            []
        );
        fs::remove_dir_all(&copy).unwrap();
    }
    assert_eq!(content(at), files);
    // The commands are right without the bad input.
    for Command { arguments, .. } in COMMANDS.iter().filter(|of| of.arguments[0] != "index") {
        let (_directory, store) = embedded(employees());
        let target = tempfile::tempdir().unwrap();
        fs::create_dir(target.path().join("monday")).unwrap();
        for name in ["some.jsonl", "keys.json"] {
            fs::copy(at.join(name), target.path().join(name)).unwrap();
        }
        if arguments[0] == "restore" {
            let empty = format!("embedded:{}", target.path().join("restored").display());
            run(arguments, &empty, at, "Employees", &[]).success();
        } else {
            run(arguments, &store, target.path(), "Employees", &[]).success();
        }
    }
}

#[test]
fn keys_that_no_entity_has_are_refused() {
    let (directory, store) = embedded(employees());
    let before = rows(directory.path());
    let long = "x".repeat(1025);
    let to = directory.path().join("all.csv").display().to_string();
    let illegal = ["a/b", "a\\b", "a#b", "a?b", "a\tb", "a\u{85}b"]
        .map(|key| (key, "is not allowed in a key"));
    for (key, reason) in illegal.into_iter().chain([(&*long, "at most 512 allowed")]) {
        for command in [
            &["query", &store, "Employees", "--partition", key][..],
            &["count", &store, "Employees", "--partition", key],
            &[
                "export",
                &store,
                "Employees",
                "--to",
                &to,
                "--partition",
                key,
            ],
            &["delete", &store, "Employees", "--yes", "--partition", key],
            &["query", &store, "Employees", "--row-prefix", key],
            &["count", &store, "Employees", "--row-prefix", key],
            &[
                "export",
                &store,
                "Employees",
                "--to",
                &to,
                "--row-prefix",
                key,
            ],
            &[
                "sas",
                "table",
                "azurite",
                "Employees",
                "--permissions",
                "r",
                "--expires",
                "1h",
                "--partition",
                key,
            ],
            &["get", &store, "Employees", key, "1"],
        ] {
            tables()
                .args(command)
                .assert()
                .code(2)
                .stderr(contains(reason))
                .stdout("");
        }
    }
    // Keys that no entity has now.
    tables()
        .args(["count", &store, "Employees", "--partition", "Absent"])
        .assert()
        .success()
        .stdout("0\n");
    tables()
        .args(["count", &store, "Employees", "--row-prefix", ""])
        .assert()
        .success()
        .stdout("3\n");
    assert_eq!(rows(directory.path()), before);
}

#[test]
fn wrong_values_of_options_are_refused() {
    let (directory, store) = embedded(employees());
    let before = rows(directory.path());
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    fs::write(files.path().join("e.csv"), "PartitionKey,RowKey,a\np,r,1\n").unwrap();
    fs::write(files.path().join("e.jsonl"), "{}\n").unwrap();
    fs::write(files.path().join("e.parquet"), "no Parquet").unwrap();
    let (csv, lines, parquet) = (path("e.csv"), path("e.jsonl"), path("e.parquet"));
    let (missing, one) = (path("missing/all.csv"), path("one"));
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["query", &store, "Employees", "--top", "many"],
            2,
            "invalid value 'many'",
        ),
        (
            &["query", &store, "Employees", "--format", "xml"],
            2,
            "possible values",
        ),
        (&["get", &store, "Employees", "Sales"], 2, "<ROW>"),
        (
            &["get", &store, "Employees", "Sales", "a/b"],
            2,
            "invalid RowKey",
        ),
        (&["list", &store, "Employees"], 2, "unexpected argument"),
        (&["export", &store, "--to", &one], 2, "<TABLES>..."),
        (&["export", &store, "Employees"], 2, "--to"),
        (
            &["export", &store, "Employees", "--to", "all.xml"],
            2,
            "--format",
        ),
        (
            &[
                "export",
                &store,
                "Employees",
                "--to",
                "-",
                "--format",
                "csv",
                "--json",
            ],
            2,
            "choose one of them",
        ),
        (
            &["export", &store, "Employees", "--to", &missing],
            1,
            "cannot be written",
        ),
        (&["import", &store, "Employees"], 2, "--from"),
        (
            &[
                "import",
                &store,
                "Employees",
                "--from",
                &csv,
                "--mode",
                "replace",
            ],
            2,
            "possible values",
        ),
        (
            &[
                "import",
                &store,
                "Employees",
                "--from",
                &csv,
                "--type",
                "a=Int",
            ],
            2,
            "the types are",
        ),
        (
            &["import", &store, "Employees", "--from", &csv, "--type", "a"],
            2,
            "COLUMN=TYPE",
        ),
        (
            &["import", &store, "Employees", "--from", &lines],
            2,
            "no column PartitionKey",
        ),
        (
            &[
                "import",
                &store,
                "Employees",
                "--from",
                &csv,
                "--rename",
                "a",
            ],
            2,
            "COLUMN=NAME",
        ),
        (
            &[
                "import",
                &store,
                "Employees",
                "--from",
                &csv,
                "--rename",
                "a=b",
                "--ignore",
                "a",
            ],
            2,
            "twice",
        ),
        (
            &[
                "import",
                &store,
                "Employees",
                "--from",
                &parquet,
                "--type",
                "a=Int32",
            ],
            2,
            "the columns of Parquet have types",
        ),
        (
            &["import", &store, "Employees", "--from", &parquet],
            4,
            "not a whole Parquet file",
        ),
        (&["copy", &store], 2, "<TO>"),
        (
            &[
                "copy",
                &store,
                "memory",
                "--blobs",
                "azure:",
                "--to-blobs",
                "b",
            ],
            2,
            "CONTAINER",
        ),
        (&["backup", &store, &csv], 2, "e.csv"),
        (
            &["restore", &one, "memory", "--table", "1"],
            2,
            "invalid table name",
        ),
        (&["plot", &store, "Employees"], 2, "--to"),
        (
            &["doctor", &store, "--unfinished-after", "soon"],
            2,
            "invalid value 'soon'",
        ),
        (&["sas", &store], 2, "unrecognized subcommand"),
        (&["serve", &store, "--listen", "nowhere"], 2, "nowhere"),
        (&["completions", "ksh"], 2, "possible values"),
        (&["man", "tables"], 2, "unexpected argument"),
        (&[], 2, "Usage"),
    ];
    for (arguments, code, reason) in cases {
        tables()
            .args(*arguments)
            .assert()
            .code(*code)
            .stderr(contains(*reason))
            .stdout("");
    }
    assert_eq!(rows(directory.path()), before);
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 3);
}
