//! The flights of nycflights13 in every format and store, compared entity by entity.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use azurite::Azurite;
use table_azure::AzureTableStore;
use table_core::model::{Entity, TableName, ValueRef};
use table_core::query::Query;
use table_core::store::{TableStore, TableStoreExt as _};

use crate::support::{on_disk, served, tables};

/// The flights of the gate.
const FLIGHTS: usize = 3000;
/// The keys of the flights, and the text of absent values.
const KEYS: [&str; 6] = [
    "--partition-key",
    "{origin}",
    "--row-key",
    "{time_hour:hour}_{carrier}_{flight:u32:04}",
    "--null",
    "NA",
];

async fn flights(store: &dyn TableStore, table: &str) -> Vec<Entity> {
    let rows = store
        .query_all(&TableName::new(table).unwrap(), &Query::new())
        .await
        .unwrap();
    rows.into_iter()
        .map(|row| row.with_system(None, None))
        .collect()
}

fn on_disk_at(directory: &Path) -> Vec<Entity> {
    on_disk(directory, async |store| flights(&store, "Flights").await)
}

/// Moves the flights of a CSV through every format and store. `for_azurite` selects the flights that the emulator gets.
fn round_trip(csv: &Path, count: usize, for_azurite: (&str, impl Fn(&Entity) -> bool)) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let store = |name: &str| format!("embedded:{}", path(name));
    let run = |arguments: &[&str]| tables().args(arguments).arg("--quiet").assert().success();

    let (from, csv) = (store("first"), csv.display().to_string());
    let import = ["import", &from, "Flights", "--from", &csv];
    tables()
        .args(import)
        .args(KEYS)
        .arg("--quiet")
        .assert()
        .success();
    let expected = on_disk_at(&directory.path().join("first"));
    assert_eq!(expected.len(), count);
    // Not `assert_eq`, which would print every flight.
    let same =
        |found: &[Entity], what: &str| assert!(found == expected, "the flights differ: {what}");

    for name in ["flights.parquet", "flights.jsonl.zst"] {
        run(&["export", &from, "Flights", "--to", &path(name)]);
        let to = store(&format!("from {name}"));
        run(&["import", &to, "Flights", "--from", &path(name)]);
        same(
            &on_disk_at(&directory.path().join(format!("from {name}"))),
            name,
        );
    }
    run(&["backup", &from, &path("backup")]);
    run(&["restore", &path("backup"), &store("restored")]);
    same(&on_disk_at(&directory.path().join("restored")), "backup");

    let served = served([]);
    let memory = [
        "import",
        "env:MEMORY",
        "Flights",
        "--quiet",
        "--from",
        &path("flights.parquet"),
    ];
    tables()
        .args(memory)
        .env("MEMORY", &served.secret)
        .assert()
        .success();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open =
        |connection: &str| AzureTableStore::from_connection_string(connection, None).unwrap();
    same(
        &runtime.block_on(flights(&open(&served.secret), "Flights")),
        "memory",
    );

    let (filter, is_selected) = for_azurite;
    run(&[
        "export",
        &from,
        "Flights",
        "--filter",
        filter,
        "--to",
        &path("some.parquet"),
    ]);
    let emulator = Azurite::shared().connection_string();
    let table = format!("Flights{}", fastrand::u64(..));
    let import = [
        "import",
        "azurite",
        &table,
        "--quiet",
        "--from",
        &path("some.parquet"),
    ];
    tables()
        .args(import)
        .env("AZURITE_CONNECTION_STRING", &emulator)
        .assert()
        .success();
    let found = runtime.block_on(flights(&open(&emulator), &table));
    let selected: Vec<_> = expected.into_iter().filter(is_selected).collect();
    assert!(
        !selected.is_empty() && found == selected,
        "the flights differ: Azurite"
    );
}

#[test]
fn flights_survive_every_format_and_store() {
    let january = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/data/flights.csv.zst"
    );
    let lines = BufReader::new(zstd::Decoder::new(File::open(january).unwrap()).unwrap()).lines();
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("flights.csv");
    let lines: Vec<_> = lines.take(1 + FLIGHTS).map(Result::unwrap).collect();
    fs::write(&csv, lines.join("\n")).unwrap();
    let is_first = |flight: &Entity| flight.get("day") == Some(ValueRef::Int32(1));
    round_trip(&csv, FLIGHTS, ("day eq 1", is_first));
}

/// All flights of the year, and January on Azurite: `TABLES_FLIGHTS=$PWD/flights.csv cargo test -p table-cli --test cli -- --ignored
/// all_flights`, with the file that `readr::write_csv(nycflights13::flights, "flights.csv")` writes in R
/// (<https://github.com/tidyverse/nycflights13>).
#[test]
#[ignore = "takes minutes, and needs a file: run it before a release"]
fn all_flights_survive_every_format_and_store() {
    let csv = std::env::var_os("TABLES_FLIGHTS")
        .expect("TABLES_FLIGHTS is the path of flights.csv or flights.csv.zst");
    let is_january = |flight: &Entity| flight.get("month") == Some(ValueRef::Int32(1));
    round_trip(Path::new(&csv), 336_776, ("month eq 1", is_january));
}
