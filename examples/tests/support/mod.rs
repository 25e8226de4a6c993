//! Running the examples as a person would.

use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs a built example.
pub(crate) fn run(name: &str, args: &[&str]) -> Output {
    let program = directory().join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let output = Command::new(&program).args(args).output();
    output.unwrap_or_else(|e| {
        panic!(
            "{}: {e}; `cargo test -p examples` builds the examples, `--test` alone does not",
            program.display()
        )
    })
}

/// Runs a built example, which must succeed; what it wrote to standard output.
pub(crate) fn succeed(name: &str, args: &[&str]) -> String {
    let output = run(name, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {args:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// Cargo puts examples beside the directory of the tests.
fn directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests are in target/*/deps");
    profile.join("examples")
}
