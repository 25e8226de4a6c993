//! Starts the built example programs.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs a built example.
pub(crate) fn run(name: &str, args: &[&str]) -> Output {
    run_with(name, args, &[])
}

/// Runs a built example with these variables, and without any other connection string.
fn run_with(name: &str, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let program = directory()
        .join(name)
        .with_extension(std::env::consts::EXE_EXTENSION);
    let mut command = Command::new(&program);
    command
        .env_remove("AZURE_STORAGE_CONNECTION_STRING")
        .env_remove("AZURITE_CONNECTION_STRING");
    let output = command.args(args).envs(variables.iter().copied()).output();
    output.unwrap_or_else(|e| {
        panic!(
            "{}: {e}; `cargo test -p examples` builds the examples, `--test` alone does not",
            program.display()
        )
    })
}

/// Runs a built example, which must succeed. Returns its standard output.
pub(crate) fn succeed(name: &str, args: &[&str]) -> String {
    output_of_success(name, args, &[])
}

/// Like [`succeed`], with these variables.
#[cfg(feature = "azure")]
pub(crate) fn succeed_with(name: &str, args: &[&str], variables: &[(&str, &str)]) -> String {
    output_of_success(name, args, variables)
}

fn output_of_success(name: &str, args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run_with(name, args, variables);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{name} {args:?}: {}\n{stderr}",
        output.status
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the directory of the examples, which Cargo puts next to that of the tests.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test
        .parent()
        .and_then(|deps| deps.parent())
        .expect("tests are in target/*/deps");
    profile.join("examples")
}
