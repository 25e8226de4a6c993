//! Checks of the repository itself: layers of modules, paths in documents, language, and the texts that users see.

mod language;
mod layers;
mod messages;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

/// The files of a folder and its subfolders with this extension, or without one, in the order of their paths. Build output and hidden folders are
/// left out.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry of a folder").path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if name.starts_with('.')
                || ["target", "node_modules", "corpus", "artifacts"].contains(&name)
            {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .map_or(extension.is_empty(), |found| found == extension)
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The path below the root, with `/`.
fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path);
    path.iter()
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}
