//! Help, completions and the manual.

use predicates::prelude::*;
use predicates::str::contains;

use crate::support::tables;

#[test]
fn the_help_names_commands_stores_and_exit_codes() {
    let help = tables().arg("--help").assert().success();
    help.stdout(
        contains("query")
            .and(contains("embedded:DIR"))
            .and(contains("Exit codes")),
    );
}

/// Each page has a sentence, an example, and the forms of STORE.
#[test]
fn every_help_page_has_an_example() {
    let commands = [
        "list", "get", "query", "count", "export", "import", "copy", "backup", "restore", "delete",
        "index", "upkeep", "doctor", "plot", "rotate", "migrate", "sas", "serve",
    ];
    for command in commands {
        let help = tables()
            .args([command, "--help"])
            .assert()
            .success()
            .stderr("");
        help.stdout(
            contains(format!("Examples:\n  tables {command} ")).and(contains("embedded:DIR")),
        );
    }
}

#[test]
fn completions_and_manual_are_printed() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        tables()
            .args(["completions", shell])
            .assert()
            .success()
            .stdout(contains("row-prefix"));
    }
    tables()
        .arg("man")
        .assert()
        .success()
        .stdout(contains(".TH tables 1").and(contains("tables\\-query")));
}
