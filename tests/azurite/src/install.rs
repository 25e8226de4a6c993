use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const NODE_MISSING: &str = "the tests on Azurite need Node.js 20 or later with npm: install it from \
    https://nodejs.org or with the system's package manager (for example `apt install nodejs npm`), \
    so that `node` and `npm` are on the PATH";

/// Returns the directory of the installed emulator; installs it if it is missing.
pub(super) fn installed() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let directory = target().join("azurite");
    fs::create_dir_all(&directory).map_err(|e| failed("create", &directory, &e))?;
    // Other test processes can install at the same time. The lock ends with the file handle.
    let lock = File::create(directory.join("lock"))
        .map_err(|e| failed("create a lock in", &directory, &e))?;
    lock.lock().map_err(|e| failed("lock", &directory, &e))?;
    if !is_current(source, &directory) {
        install(source, &directory)?;
    }
    Ok(directory)
}

fn target() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(beside, PathBuf::from)
}

/// The lock file is copied last. An equal lock file therefore proves a complete installation.
const MARK: &str = "installed.json";

fn is_current(source: &Path, directory: &Path) -> bool {
    let wanted = fs::read(source.join("package-lock.json"));
    let installed = fs::read(directory.join(MARK));
    matches!((wanted, installed), (Ok(wanted), Ok(installed)) if wanted == installed)
}

fn install(source: &Path, directory: &Path) -> Result<(), String> {
    eprintln!("installing Azurite into {}", directory.display());
    for file in ["package.json", "package-lock.json", ".npmrc"] {
        copy(&source.join(file), &directory.join(file))?;
    }
    let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
    let output = Command::new(npm)
        .args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ])
        .current_dir(directory)
        .output()
        .map_err(|e| format!("{NODE_MISSING} ({e})"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`npm ci` could not install Azurite: {said}"));
    }
    copy(&source.join("package-lock.json"), &directory.join(MARK))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to)
        .map(drop)
        .map_err(|e| failed("write", to, &e))
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

pub(super) fn node_missing(error: &dyn std::fmt::Display) -> String {
    format!("{NODE_MISSING} ({error})")
}
