//! `flights` answers correctly on every store, loads once, and reports errors in bad data.

use std::fs;
use std::path::{Path, PathBuf};

#[cfg(feature = "azure")]
use azurite::Azurite;
use examples::data::decompress;
use serde_json::{Value, json};
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore, TableStoreExt as _};
use table_embedded::EmbeddedStore;
use tempfile::TempDir;

use crate::support;

/// The answers on the bundled data, which `.ci/check-flights` compares; here their number. They were computed once from the CSV files, by code that is
/// not in this repository. The requests follow from the rows: a page has at most 1,000, and a store reads at most 10,000 per page.
const EXPECTED: &str = include_str!("../../data/answers.jsonl");

/// The columns that are read, with one flight per file.
const FLIGHTS: &str = "\
year,month,day,dep_delay,arr_delay,carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute
2013,1,1,2,11,UA,1545,N14228,EWR,IAH,227,1400,5,15
";
const WEATHER: &str = "\
origin,year,month,day,hour,temp
EWR,2013,1,1,1,50
EWR,2013,1,1,1,41
EWR,2013,1,1,2,NA
";
const PLANES: &str = "\
tailnum,year,manufacturer,model,engines,seats
N14228,1999,BOEING,737-824,2,149
";
const AIRLINES: &str = "carrier,name\nUA,United Air Lines Inc.\n";

fn text_of(file: &Path) -> String {
    String::from_utf8(decompress(file).expect("bundled data")).expect("text")
}

/// A directory for a store and a data set.
pub(crate) struct TestDirectory(TempDir);

impl TestDirectory {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn store(&self) -> String {
        format!("embedded:{}", self.path("store").display())
    }

    /// Returns the bundled data with the first 1,100 flights, of two days, and the first 1,100 planes: both exceed a page.
    pub(crate) fn first_flights(&self) -> String {
        let directory = self.path("first");
        fs::create_dir_all(&directory).expect("a directory");
        let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        for file in ["weather.csv.zst", "airlines.csv"] {
            fs::copy(bundled.join(file), directory.join(file)).expect("a file");
        }
        for file in ["planes", "flights"] {
            let all = text_of(&bundled.join(file).with_extension("csv.zst"));
            let first: String = all.split_inclusive('\n').take(1 + 1100).collect();
            fs::write(directory.join(file).with_extension("csv"), first).expect("a file");
        }
        directory.display().to_string()
    }

    pub(crate) fn one_flight(&self) -> String {
        self.data("flights", FLIGHTS)
    }

    /// Returns a data set of one flight, with one of its files replaced.
    fn data(&self, name: &str, text: &str) -> String {
        let directory = self.path("data");
        fs::create_dir_all(&directory).expect("a directory");
        let files = [
            ("flights", FLIGHTS),
            ("weather", WEATHER),
            ("planes", PLANES),
            ("airlines", AIRLINES),
        ];
        for (file, usual) in files {
            let text = if file == name { text } else { usual };
            fs::write(directory.join(file).with_extension("csv"), text).expect("a file");
        }
        directory.display().to_string()
    }
}

fn answers_of(store: &str, more: &[&str]) -> Vec<Value> {
    let text = support::succeed("flights", &[&["--store", store, "--json"], more].concat());
    lines(&text)
}

pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON object"))
        .collect()
}

fn answer(answers: &[Value], question: &str) -> Value {
    let found = answers
        .iter()
        .find(|answered| answered["question"] == question);
    found.expect("the question was asked")["answer"].clone()
}

fn requests(answers: &[Value], question: &str) -> u64 {
    let found = answers
        .iter()
        .find(|answered| answered["question"] == question);
    found
        .and_then(|answered| answered["requests"].as_u64())
        .expect("a count")
}

/// Returns the answers without the requests of the drop.
pub(crate) fn without_requests(mut answers: Vec<Value>) -> Vec<Value> {
    for answered in answers
        .iter_mut()
        .filter(|answered| answered["question"] == "drop_january")
    {
        answered["requests"].take();
    }
    answers
}

/// Returns the error for a data set that cannot be loaded.
fn load_error(name: &str, text: &str) -> String {
    let place = TestDirectory::new();
    let output = support::run(
        "flights",
        &["--store", "memory", "--data", &place.data(name, text)],
    );
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

/// One program on every store gives the same answers, access paths and requests. With the feature `azure` the test
/// starts the emulator; the whole month would take it a minute or two.
#[test]
fn every_store_gives_the_same_answers_and_draws() {
    let place = TestDirectory::new();
    let data = place.first_flights();
    // At the same time, because the emulator's index waits for other writers half a minute.
    #[cfg(feature = "azure")]
    let from_azurite = std::thread::spawn({
        let data = data.clone();
        move || answers_of("azurite", &["--data", &data])
    });
    let answers = answers_of("memory", &["--data", &data]);
    assert_eq!(answers.len(), lines(EXPECTED).len());
    for question in [
        "by_tailnum",
        "planes_by_manufacturer",
        "delayed_lga_indexed",
        "airline_counts",
    ] {
        assert_ne!(answer(&answers, question), Value::Null, "{question}");
    }
    let plots = place.path("plots");
    let drawn = ["--data", &data, "--plots", &plots.display().to_string()];
    assert_eq!(answers_of(&place.store(), &drawn), answers);
    for plot in ["temperatures.svg", "flights-per-day.svg", "jfk-per-day.svg"] {
        let svg = fs::read_to_string(plots.join(plot)).expect("a plot");
        assert!(svg.contains("</svg>"), "{plot} is incomplete");
    }
    #[cfg(feature = "azure")]
    assert_eq!(from_azurite.join().expect("the program succeeds"), answers);
}

/// The account of the connection string, here the emulator's.
#[cfg(feature = "azure")]
#[test]
fn answers_from_an_account() {
    let place = TestDirectory::new();
    let data = place.one_flight();
    let emulator = Azurite::shared().connection_string();
    let account = [("AZURE_STORAGE_CONNECTION_STRING", emulator.as_str())];
    let arguments = ["--store", "azure", "--json"];
    let first = support::succeed_with(
        "flights",
        &[&arguments[..], &["--data", &data]].concat(),
        &account,
    );
    assert_eq!(lines(&first), answers_of("memory", &["--data", &data]));
    fs::remove_dir_all(&data).expect("the data set goes");
    let second = lines(&support::succeed_with("flights", &arguments, &account));
    assert_eq!(without_requests(second), without_requests(lines(&first)));
}

#[test]
fn an_account_needs_the_feature_and_its_connection_string() {
    let needs = if cfg!(feature = "azure") {
        "AZURE_STORAGE_CONNECTION_STRING"
    } else {
        "cargo run --features azure"
    };
    let output = support::run("flights", &["--store", "azure"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(needs));
}

#[test]
fn a_second_run_does_not_load_again() {
    let place = TestDirectory::new();
    let data = place.one_flight();
    let first = answers_of(&place.store(), &["--data", &data]);
    assert_eq!(
        answer(&first, "flight"),
        json!({"dest": "IAH", "dep_delay": 2})
    );
    fs::remove_dir_all(&data).expect("the data set goes");
    let second = answers_of(&place.store(), &[]);
    // The dropped table is not dropped again.
    assert_eq!(requests(&first, "drop_january"), 3);
    assert_eq!(requests(&second, "drop_january"), 2);
    assert_eq!(without_requests(second), without_requests(first));
}

#[test]
fn other_data_replaces_the_loaded_data() {
    let place = TestDirectory::new();
    answers_of(&place.store(), &["--data", &place.one_flight()]);
    let changed = place.data("flights", &FLIGHTS.replace("IAH", "MIA"));
    let answers = answers_of(&place.store(), &["--data", &changed]);
    assert_eq!(
        answer(&answers, "flight"),
        json!({"dest": "MIA", "dep_delay": 2})
    );
    assert_eq!(
        answer(&answers, "airline_counts"),
        json!({"United Air Lines Inc.": 1})
    );
}

#[test]
fn an_interrupted_load_is_done_again() {
    let place = TestDirectory::new();
    let data = place.one_flight();
    let whole = answers_of(&place.store(), &["--data", &data]);
    interrupt(&place.path("store"));
    assert_eq!(answers_of(&place.store(), &["--data", &data]), whole);
}

/// Leaves the store in the state of a killed load: begun, with tables missing.
#[tokio::main(flavor = "current_thread")]
async fn interrupt(store: &Path) {
    let store = EmbeddedStore::open(store).await.expect("the store opens");
    let begun = Entity::new("import", "nycflights13_v2")
        .expect("a key")
        .with("Complete", false);
    let imports = TableName::new("Imports").expect("a name");
    assert!(
        store
            .get(&imports, begun.key(), None)
            .await
            .expect("a read")
            .is_some()
    );
    store
        .write(&imports, Operation::InsertOrMerge(begun))
        .await
        .expect("a merge");
    store
        .delete_table(&TableName::new("Flights").expect("a name"))
        .await
        .expect("a table");
    store.close().await.expect("the store closes");
}

#[test]
fn tables_of_other_programs_are_not_dropped() {
    let place = TestDirectory::new();
    for table in ["weather", "Files", "Months201301"] {
        let directory = place.path(table);
        add_table(&directory, table);
        let store = format!("embedded:{}", directory.display());
        let output = support::run(
            "flights",
            &["--store", &store, "--data", &place.one_flight()],
        );
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{table}");
        assert!(
            error.contains(&format!(
                "the store has a table {table} that this program has not created"
            )),
            "{error}"
        );
        assert!(!tables_of(&directory).is_empty(), "{table}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn add_table(store: &Path, table: &str) {
    let store = EmbeddedStore::open(store).await.expect("the store opens");
    store
        .create_table(&TableName::new(table).expect("a name"))
        .await
        .expect("a new table");
    store.close().await.expect("the store closes");
}

#[tokio::main(flavor = "current_thread")]
async fn tables_of(store: &Path) -> Vec<TableName> {
    let store = EmbeddedStore::open(store).await.expect("the store opens");
    let tables = store.all_tables(None).await.expect("a list");
    store.close().await.expect("the store closes");
    tables
}

#[test]
fn a_repeated_hour_shows_its_first_observation() {
    let place = TestDirectory::new();
    let answers = answers_of("memory", &["--data", &place.one_flight()]);
    let hours = &answer(&answers, "weather_day")["hours"];
    assert_eq!(&hours[0], &Value::Null);
    assert_eq!(&hours[1], &json!(50.0));
    assert_eq!(&hours[2], &Value::Null);
}

#[test]
fn an_hour_that_occurs_three_times_is_refused() {
    let error = load_error("weather", &format!("{WEATHER}EWR,2013,1,1,1,50\n"));
    assert!(
        error.contains("line 5, column hour, value \"1\""),
        "{error}"
    );
}

#[test]
fn errors_name_file_line_column_and_value() {
    let error = load_error("flights", &FLIGHTS.replace("1400", "far"));
    assert!(
        error.contains("flights.csv, line 2, column distance, value \"far\""),
        "{error}"
    );
    let error = load_error("flights", &FLIGHTS.replace("1400", "NA"));
    assert!(
        error.contains("column distance, value \"NA\": a value is required"),
        "{error}"
    );
    let error = load_error("flights", &FLIGHTS.replace("minute", "second"));
    assert!(
        error.contains("flights.csv has no column minute"),
        "{error}"
    );
    let error = load_error("flights", &format!("{FLIGHTS}2013,1\n"));
    assert!(error.contains("flights.csv"), "{error}");
    assert!(error.contains("line: 3"), "{error}");
}

#[test]
fn a_flight_that_occurs_twice_is_refused() {
    let twice = format!("{FLIGHTS}2013,1,1,9,9,UA,1545,N1,EWR,LAX,1,1,5,15\n");
    let error = load_error("flights", &twice);
    // By the carrier or by the airport: both tables are loaded concurrently, and either may find it first.
    let keys = ["2013-01-01_1545_EWR", "2520452834999999999_UA_1545"];
    assert!(error.contains("exists already"), "{error}");
    assert!(keys.iter().any(|key| error.contains(key)), "{error}");
}
