//! Every short example runs and its assertions hold.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support;

/// The examples that need the feature `azure`, as Cargo.toml says.
const OF_AZURE: [&str; 2] = ["key_vault", "shared_access_signatures"];

#[test]
fn every_example_succeeds() {
    for name in sources().iter().filter(|name| cfg!(feature = "azure") || !OF_AZURE.contains(&name.as_str()))
    {
        support::succeed(name, &[]);
    }
}

/// Several types with indexes of their own share a table, on every store. With the feature `azure` the test starts
/// the emulator.
#[test]
fn several_types_share_a_table_on_every_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let embedded = format!("embedded:{}", directory.path().join("shop").display());
    support::succeed("several_types", &["memory", &embedded]);
    #[cfg(feature = "azure")]
    support::succeed("several_types", &["memory", &embedded, "azurite"]);
}

#[test]
fn the_readme_lists_every_example() {
    let readme = include_str!("../../README.md");
    for name in sources() {
        assert!(readme.contains(&format!("examples/{name}.rs")), "README.md does not list {name}");
    }
}

/// Merging changes of one line could keep both lines.
#[test]
fn no_section_of_the_cookbook_occurs_twice() {
    let cookbook = include_str!("../../../docs/cookbook.md");
    let sections = cookbook.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let mut seen = BTreeSet::new();
    for section in sections.filter(|section| !["section", "pattern"].contains(section)) {
        assert!(seen.insert(section), "the cookbook has two lines for {section}");
    }
}

/// Returns the examples of one file.
fn sources() -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files =
        directory.read_dir().expect("the examples are here").map(|entry| entry.expect("a file").path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}
