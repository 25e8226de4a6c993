//! The program `copy` copies the tables of `flights` between stores and compares them.

use std::path::Path;

use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore};
use table_embedded::EmbeddedStore;

use crate::flights::{TestDirectory, lines, without_requests};
use crate::support;

#[test]
fn flights_answers_from_the_copy() {
    let place = TestDirectory::new();
    let (from, to) = (
        place.store(),
        format!("embedded:{}", place.path("to").display()),
    );
    let answers = support::succeed(
        "flights",
        &["--store", &from, "--data", &place.first_flights(), "--json"],
    );

    let output = support::succeed("copy", &[&from, &to]);
    // 1,100 flights with 14 summaries, 16 airlines, 1,100 planes with an entry each, and 8 manifest rows.
    assert!(
        output.contains(
            "Flights: rows copied: 3338 (in an earlier run: 0); source and target are equal"
        ),
        "{output}"
    );
    // The second day's file is small and has no blob.
    assert!(output.contains("blobs: 1 copied ("), "{output}");
    // A month that was dropped before the copy need not be dropped again: fewer requests.
    let copied = support::succeed("flights", &["--store", &to, "--json"]);
    assert_eq!(
        without_requests(lines(&copied)),
        without_requests(lines(&answers))
    );
}

#[test]
fn existing_data_of_the_target_is_kept() {
    let place = TestDirectory::new();
    let (from, to) = (place.store(), place.path("to"));
    support::succeed(
        "flights",
        &["--store", &from, "--data", &place.one_flight()],
    );
    add_a_row(&to);
    let output = support::succeed("copy", &[&from, &format!("embedded:{}", to.display())]);
    let expected = "Imports: rows copied: 1 (in an earlier run: 0); the target has all of them, and rows that the source does not have: 1";
    assert!(output.contains(expected), "{output}");
}

#[tokio::main(flavor = "current_thread")]
async fn add_a_row(store: &Path) {
    let store = EmbeddedStore::open(store).await.expect("the store opens");
    let table = TableName::new("Imports").expect("a name");
    store.create_table(&table).await.expect("a new table");
    let row = Entity::new("another", "row").expect("a key");
    store
        .write(&table, Operation::Insert(row))
        .await
        .expect("a new row");
    store.close().await.expect("the store closes");
}

#[test]
fn invalid_arguments_are_refused() {
    for (args, why) in [
        (["memory", "memory"], "cannot be copied to itself"),
        (["memory", "azurite"], "the source cannot be `memory`"),
        (
            ["memory", "disk"],
            "use one of memory | embedded:DIR | azurite | azure",
        ),
    ] {
        let output = support::run("copy", &args);
        assert!(!output.status.success(), "{why}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(why), "{error}");
    }
}
