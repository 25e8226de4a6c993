//! Help, completions and the manual.

use predicates::prelude::*;
use predicates::str::contains;

use crate::support::tables;

#[test]
fn the_help_names_commands_stores_and_exit_codes() {
    let help = tables().arg("--help").assert().success();
    help.stdout(contains("query").and(contains("embedded:DIR")).and(contains("Exit codes")));
}

#[test]
fn completions_and_manual_are_printed() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        tables().args(["completions", shell]).assert().success().stdout(contains("row-prefix"));
    }
    tables().arg("man").assert().success().stdout(contains(".TH tables 1").and(contains("tables\\-query")));
}
