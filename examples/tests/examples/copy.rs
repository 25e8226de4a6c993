//! The copy command moves the flagship's tables between stores and compares them.

use std::path::Path;

use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore};
use table_embedded::EmbeddedStore;

use crate::flights::{Place, lines, without_requests};
use crate::support;

#[test]
fn the_flagship_answers_from_the_copy() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let store = |name: &str| format!("embedded:{}", place.path().join(name).display());
    let (from, to) = (store("from"), store("to"));
    let answers = support::succeed("flights", &["--store", &from, "--json"]);

    let said = support::succeed("copy", &[&from, &to]);
    // 27,004 flights with 16 summaries, 16 airlines, 3,322 planes with an entry each, and 7 manifest rows.
    assert!(said.contains("Flights: 33687 rows copied, 0 of them earlier; both are equal"), "{said}");
    assert!(said.contains("blobs: 31 copied, "), "{said}");
    // A month that was dropped before the copy need not be dropped again: fewer requests.
    let copied = support::succeed("flights", &["--store", &to, "--json"]);
    assert_eq!(without_requests(lines(&copied)), without_requests(lines(&answers)));
}

#[test]
fn existing_data_of_the_target_is_kept() {
    let place = Place::new();
    let (from, to) = (place.store(), place.path("to"));
    support::succeed("flights", &["--store", &from, "--data", &place.one_flight()]);
    add_a_row(&to);
    let said = support::succeed("copy", &[&from, &format!("embedded:{}", to.display())]);
    assert!(said.contains("Imports: 1 rows copied, 0 of them earlier; all are in both, and 1 in"), "{said}");
}

#[tokio::main(flavor = "current_thread")]
async fn add_a_row(store: &Path) {
    let store = EmbeddedStore::open(store).await.expect("the store opens");
    let table = TableName::new("Imports").expect("a name");
    store.create_table(&table).await.expect("a new table");
    let row = Entity::new("another", "row").expect("a key");
    store.write(&table, Operation::Insert(row)).await.expect("a new row");
    store.close().await.expect("the store closes");
}

#[test]
fn invalid_arguments_are_refused() {
    for (args, why) in [
        (["memory", "memory"], "cannot be copied to itself"),
        (["memory", "azurite"], "memory has no tables"),
        (["memory", "disk"], "use one of memory | embedded:DIR | azurite | azure"),
    ] {
        let output = support::run("copy", &args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}
