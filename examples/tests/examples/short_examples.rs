//! Every short example runs and finds what it asserts.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support;

#[test]
fn every_example_holds() {
    for name in sources() {
        support::succeed(&name, &[]);
    }
}

#[test]
fn the_readme_lists_every_example() {
    let readme = include_str!("../../README.md");
    for name in sources() {
        assert!(readme.contains(&format!("examples/{name}.rs")), "README.md does not list {name}");
    }
}

/// The examples of one file.
fn sources() -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files =
        directory.read_dir().expect("the examples are here").map(|entry| entry.expect("a file").path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}
