//! Every short example runs and its assertions hold.

use std::collections::BTreeSet;
use std::path::Path;

use table_core::prelude::*;
use table_embedded::EmbeddedStore;

use crate::support;

/// The examples that need the feature `azure`.
const AZURE_EXAMPLES: [&str; 2] = ["key_vault", "shared_access_signatures"];

#[test]
fn every_example_succeeds() {
    for name in sources()
        .iter()
        .filter(|name| cfg!(feature = "azure") || !AZURE_EXAMPLES.contains(&name.as_str()))
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
fn several_types_refuses_a_store_with_its_table() {
    let directory = tempfile::tempdir().expect("a directory");
    create_table(directory.path(), "ExampleSeveralTypes");
    let store = format!("embedded:{}", directory.path().display());
    let output = support::run("several_types", &[&store]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("ExampleSeveralTypes"), "{error}");
    // The table still exists.
    assert!(!support::run("several_types", &[&store]).status.success());
}

#[tokio::main(flavor = "current_thread")]
async fn create_table(store: &Path, table: &str) {
    let store = EmbeddedStore::open(store).await.expect("the store opens");
    store
        .create_table(&TableName::new(table).expect("a name"))
        .await
        .expect("a new table");
    store.close().await.expect("the store closes");
}

#[test]
fn cargo_toml_names_the_azure_examples() {
    let manifest = include_str!("../../Cargo.toml");
    let named: BTreeSet<_> = manifest
        .split("[[example]]")
        .skip(1)
        .map(|part| part.lines().nth(1))
        .collect();
    let expected = AZURE_EXAMPLES.map(|name| format!("name = \"{name}\""));
    assert_eq!(
        named,
        expected.iter().map(|line| Some(line.as_str())).collect()
    );
}

/// Once in the list of examples, as the first link of a line.
#[test]
fn the_readme_lists_every_example_once() {
    let readme = include_str!("../../README.md");
    let lines = readme
        .lines()
        .filter_map(|line| line.strip_prefix("| [`")?.split_once("`](examples/"));
    let listed: Vec<_> = lines
        .filter(|(name, link)| link.starts_with(&format!("{name}.rs)")))
        .collect();
    let names: BTreeSet<_> = listed.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names, sources());
    assert_eq!(
        names.len(),
        listed.len(),
        "README.md lists an example twice"
    );
    for program in ["flights", "flights_patterns", "copy"] {
        assert!(
            readme.contains(&format!("(examples/{program}/main.rs)")),
            "README.md does not list {program}"
        );
    }
}

/// A merge of two branches can leave the same line twice.
#[test]
fn no_section_of_the_cookbook_occurs_twice() {
    let cookbook = include_str!("../../../docs/cookbook.md");
    let sections = cookbook
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let mut seen = BTreeSet::new();
    for section in sections.filter(|section| !["section", "pattern"].contains(section)) {
        assert!(
            seen.insert(section),
            "the cookbook has two lines for {section}"
        );
    }
}

/// Returns the examples of one file.
fn sources() -> BTreeSet<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = directory
        .read_dir()
        .expect("the examples are here")
        .map(|entry| entry.expect("a file").path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}
