//! `import` of files of other programs: nothing is lost, rounded or reordered without a word.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use assert_cmd::assert::Assert;
use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::model::{Entity, TableName, Ticks, ValueRef};
use table_core::prelude::*;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use tempfile::TempDir;

use crate::support::{embedded, on_disk, served, tables};

/// A directory with a file, and the place of a store.
struct Place {
    directory: TempDir,
    path: String,
    store: String,
}

impl Place {
    fn new(name: &str, bytes: impl AsRef<[u8]>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        let store = format!("embedded:{}", directory.path().join("store").display());
        Self {
            path: path.display().to_string(),
            directory,
            store,
        }
    }

    fn import(&self, arguments: &[&str]) -> Assert {
        tables()
            .args(["import", &self.store, "Imported", "--from", &self.path])
            .args(arguments)
            .assert()
    }

    /// The file is refused before the store is opened.
    fn refused(&self, arguments: &[&str], code: i32) -> Assert {
        let refused = self.import(arguments).code(code).stdout("");
        assert!(!self.directory.path().join("store").exists());
        refused
    }

    fn rows(&self) -> Vec<Entity> {
        rows(&self.directory.path().join("store"))
    }
}

fn rows(directory: &Path) -> Vec<Entity> {
    on_disk(directory, async |store| {
        let rows = store
            .query_all(&TableName::new("Imported").unwrap(), &Query::new())
            .await
            .unwrap();
        rows.into_iter()
            .map(|row| row.with_system(None, None))
            .collect()
    })
}

fn keys(rows: &[Entity]) -> Vec<(&str, &str)> {
    rows.iter()
        .map(|row| (row.key().partition(), row.key().row()))
        .collect()
}

fn new(row: &str) -> Entity {
    Entity::new("p", row).unwrap()
}

/// The stores that other programs reach by a connection string: the server of this library, and the emulator.
fn accounts() -> [(&'static str, String, Option<crate::support::Served>); 2] {
    let served = served([]);
    let secret = served.secret.clone();
    [
        ("served", secret, Some(served)),
        ("Azurite", Azurite::shared().connection_string(), None),
    ]
}

fn on_account(secret: &str, arguments: &[&str]) -> Assert {
    let mut command = tables();
    command
        .args(arguments)
        .env("AZURE_STORAGE_CONNECTION_STRING", secret);
    command.assert()
}

/// Declares an index of the property `V` in the empty table.
async fn index_by_value(store: impl TableStore, table: &str) {
    let table = TableName::new(table).unwrap();
    store.create_table_if_missing(&table).await.unwrap();
    let by_value = Index::keyed(
        "v",
        Placement::OtherPartition,
        "v_{V}",
        "{PartitionKey}_{RowKey}",
    )
    .unwrap();
    IndexedEntities::open(
        store.into_shared(),
        table,
        vec![by_value],
        IndexOptions::default(),
    )
    .await
    .unwrap();
}

/// 8 values for each of 100 keys, in ascending order, one key after another and mixed.
fn values_in_order() -> String {
    let mut text = "PartitionKey,RowKey,V\n".to_owned();
    for key in 0..50 {
        (1..=8).for_each(|value| text.push_str(&format!("a,{key},{value}\n")));
    }
    for value in 1..=8 {
        (50..100).for_each(|key| text.push_str(&format!("a,{key},{value}\n")));
    }
    text
}

#[test]
fn rows_of_one_key_are_written_in_the_order_of_the_file() {
    for mode in ["upsert", "merge"] {
        let place = Place::new("in-order.csv", values_in_order());
        on_disk(&place.directory.path().join("store"), async |store| {
            index_by_value(store, "Imported").await;
        });
        place
            .import(&["--mode", mode])
            .success()
            .stderr(contains("800 rows imported, 0 skipped"));
        let rows = place.rows();
        let entities: Vec<_> = rows
            .iter()
            .filter(|row| row.key().partition() == "a")
            .collect();
        assert_eq!(entities.len(), 100);
        assert!(
            entities
                .iter()
                .all(|row| row.get("V") == Some(ValueRef::Int32(8))),
            "{mode}"
        );
    }
}

#[test]
fn rows_of_one_key_are_written_in_order_to_accounts() {
    for (name, secret, _served) in accounts() {
        let place = Place::new(
            "in-order.csv",
            "PartitionKey,RowKey,V\na,1,1\na,1,2\na,1,3\na,1,4\na,1,5\na,1,6\na,1,7\na,1,8\n",
        );
        let store = AzureTableStore::from_connection_string(&secret, None).unwrap();
        tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(index_by_value(store, "InOrder"));
        for mode in ["upsert", "merge"] {
            on_account(
                &secret,
                &[
                    "import",
                    "azure",
                    "InOrder",
                    "--from",
                    &place.path,
                    "--mode",
                    mode,
                    "--quiet",
                ],
            )
            .success();
            let stored = on_account(&secret, &["get", "azure", "InOrder", "a", "1"]).success();
            let text = String::from_utf8(stored.get_output().stdout.clone()).unwrap();
            assert!(text.contains(r#""V":8"#), "{name}, {mode}: {text}");
        }
    }
}

#[test]
fn a_repeated_column_is_refused_at_the_header() {
    for (text, arguments, reason) in [
        (
            "PartitionKey,RowKey,a,a\np,1,x,y\n",
            &[][..],
            r#"two columns are called "a""#,
        ),
        (
            "PartitionKey,RowKey,a,a@type,a@type\np,1,x,,y\n",
            &[],
            "two columns",
        ),
        (
            "PartitionKey,RowKey,RowKey\np,1,x\n",
            &[],
            r#"two columns are called "RowKey""#,
        ),
        (
            "PartitionKey,RowKey,a,b\np,1,x,y\n",
            &["--rename", "b=a"],
            "both become 'a'",
        ),
        (
            "PartitionKey,RowKey,Timestamp,a\np,1,2013-01-01T00:00:00Z,y\n",
            &["--keep-timestamp", "a"],
            "both become 'a'",
        ),
    ] {
        Place::new("e.csv", text)
            .refused(arguments, 2)
            .stderr(contains(reason));
    }
    let place = Place::new(
        "e.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"a\":1,\"a\":2}\n{\"PartitionKey\":\"p\",\"RowKey\":\"2\"}\n",
    );
    place
        .import(&[])
        .code(3)
        .stderr(contains("line 1: the member \"a\" occurs twice"));
    assert_eq!(place.rows(), [new("2")]);
}

/// The same rows as CSV, JSON and Parquet, of a store that this program exports.
fn formats(csv: &str) -> Vec<Place> {
    let csv = Place::new("e.csv", csv);
    let lines: String = {
        let mut text = fs::read_to_string(&csv.path).unwrap();
        text.truncate(text.trim_end().len());
        let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = rows.next().unwrap();
        let object = |row: Vec<&str>| {
            let members: Vec<_> = names
                .iter()
                .zip(row)
                .map(|(name, value)| format!("{name:?}:{value:?}"))
                .collect();
            format!("{{{}}}\n", members.join(","))
        };
        rows.map(object).collect()
    };
    let array = format!("[{}]", lines.trim_end().replace('\n', ","));
    vec![
        csv,
        Place::new("e.jsonl", lines),
        Place::new("e.json", array),
    ]
}

#[test]
fn templates_take_the_key_columns_that_the_file_has() {
    let by_city = ["--partition-key", "{PartitionKey}", "--row-key", "{id}"];
    for place in formats("PartitionKey,id,v\nlondon,1,a\nparis,2,b\nparis,1,c\n") {
        place.import(&by_city).success();
        assert_eq!(
            keys(&place.rows()),
            [("london", "1"), ("paris", "1"), ("paris", "2")],
            "{}",
            place.path
        );
    }
    for (text, arguments, reason) in [
        (
            "Partitionkey,id\nlondon,1\n",
            &by_city[..],
            "'PartitionKey'",
        ),
        ("id,v\n1,a\n", &by_city, "'PartitionKey'"),
        (
            "PartitionKey,RowKey,id\np,lost,1\n",
            &by_city,
            "a column RowKey, and no key template names it",
        ),
        (
            "id,v\n1,a\n",
            &["--partition-key", "{v}", "--row-key", "{Id}"],
            "'Id'",
        ),
        ("PartitionKey,v\np,1\n", &[], "no column RowKey"),
    ] {
        for place in formats(text) {
            let names = text.lines().next().unwrap().split(',').next().unwrap();
            place
                .refused(arguments, 2)
                .stderr(contains(reason).and(contains(format!("the columns \"{names}\""))));
        }
    }
    let place = Place::new("e.csv", "PartitionKey,RowKey,id\np,kept,1\n");
    place
        .import(&[&by_city[..], &["--rename", "RowKey=Old"]].concat())
        .success();
    assert_eq!(place.rows(), [new("1").with("Old", "kept").with("id", 1)]);
}

#[test]
fn keys_in_another_case_are_read_and_told() {
    for text in [
        "partitionKey,rowKey,V\np,1,x\n",
        "Partition Key, row_key ,V\np,1,x\n",
    ] {
        for place in formats(text) {
            place
                .import(&[])
                .success()
                .stderr(contains("is read as the PartitionKey"));
            assert_eq!(place.rows(), [new("1").with("V", "x")], "{}", place.path);
        }
    }
    Place::new("e.csv", "partitionKey,PARTITIONKEY,RowKey\np,q,1\n")
        .refused(&[], 2)
        .stderr(contains("--rename"));
}

#[test]
fn a_number_as_key_is_decimal_text() {
    for (name, text) in [
        ("e.csv", "id,v\n0,a\n-5,b\n"),
        (
            "e.jsonl",
            "{\"id\":0,\"v\":\"a\"}\n{\"id\":-5,\"v\":\"b\"}\n",
        ),
    ] {
        let place = Place::new(name, text);
        place
            .import(&["--partition-key", "p", "--row-key", "{id}"])
            .success();
        assert_eq!(keys(&place.rows()), [("p", "-5"), ("p", "0")]);
        let place = Place::new(name, text);
        place
            .import(&["--partition-key", "p", "--row-key", "{id:i32}"])
            .success();
        assert_eq!(
            keys(&place.rows()),
            [("p", "2147483643"), ("p", "2147483648")]
        );
    }
}

#[test]
fn a_number_that_no_type_holds_stays_text() {
    let long = ["89310860123456789012", "89310860123456789013"];
    let csv = format!(
        "PartitionKey,RowKey,N,E,F\np,1,{},12e5,1e400\np,2,{},7,2\n",
        long[0], long[1]
    );
    let lines = format!(
        "{{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"N\":{},\"E\":12e5,\"F\":1e400}}\n{{\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"N\":{},\"E\":7,\"F\":2}}\n",
        long[0], long[1]
    );
    let array = format!("[{}]", lines.trim_end().replace('\n', ","));
    for (name, text, is_json) in [
        ("e.csv", csv, false),
        ("e.jsonl", lines, true),
        ("e.json", array, true),
    ] {
        let place = Place::new(name, text);
        place.import(&[]).success().stderr(contains("N=Edm.String"));
        let rows = place.rows();
        for (row, text) in rows.iter().zip(long) {
            assert_eq!(row.get("N"), Some(ValueRef::String(text)), "{name}");
        }
        // In JSON `12e5` is a number, and a Double has it. As text of CSV it may be an identifier.
        let expected = if is_json {
            ValueRef::Double(12e5)
        } else {
            ValueRef::String("12e5")
        };
        assert_eq!(rows[0].get("E"), Some(expected), "{name}");
        assert_eq!(rows[0].get("F"), Some(ValueRef::String("1e400")), "{name}");
        let place = Place::new(name, fs::read(&place.path).unwrap());
        place
            .import(&["--type", "F=Double", "--type", "N=Double"])
            .code(3)
            .stderr(contains("larger than every Double").or(contains("round")));
    }
}

#[test]
fn the_numbers_of_a_property_have_one_type() {
    let lines = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":1,\"B\":1}\n{\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"A\":2.5,\"B\":3000000000}\n";
    for (name, text) in [
        ("e.jsonl", lines.to_owned()),
        (
            "e.json",
            format!("{{\"items\":[{}]}}", lines.trim_end().replace('\n', ",")),
        ),
    ] {
        let place = Place::new(name, text);
        place
            .import(&[])
            .success()
            .stderr(contains("inferred types: A=Edm.Double B=Edm.Int64"));
        let expected = [
            new("1").with("A", 1.0).with("B", 1_i64),
            new("2").with("A", 2.5).with("B", 3_000_000_000_i64),
        ];
        assert_eq!(place.rows(), expected, "{name}");
        let place = Place::new(name, fs::read(&place.path).unwrap());
        place.import(&["--type", "B=String"]).success();
        assert_eq!(place.rows()[0].get("B"), Some(ValueRef::String("1")));
    }
}

#[test]
fn a_property_called_etag_survives_every_format() {
    let entities = [new("1").with("ETag", "mine").with("V", 1)];
    let (_source, from) = embedded(entities.clone());
    for name in ["e.csv", "e.jsonl", "e.parquet"] {
        let place = Place::new(name, "");
        tables()
            .args(["export", &from, "Employees", "--quiet", "--to", &place.path])
            .assert()
            .success();
        place.import(&["--quiet"]).success().stderr("");
        assert_eq!(place.rows(), entities, "{name}");
    }
}

#[test]
fn a_timestamp_is_left_out_with_a_word_or_kept() {
    let time: Ticks = "2013-01-01T05:15:00Z".parse().unwrap();
    let csv = "PartitionKey,RowKey,Timestamp,V\np,1,2013-01-01T05:15:00Z,x\np,2,,y\n";
    let lines = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"Timestamp\":\"2013-01-01T05:15:00Z\",\"V\":\"x\"}\n\
                 {\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"V\":\"y\"}\n";
    for (name, text) in [("e.csv", csv), ("e.jsonl", lines)] {
        let place = Place::new(name, text);
        let done = place.import(&["--quiet", "--json"]).success();
        done.stderr(contains("the Timestamp of 1 rows was left out"))
            .stdout(contains(r#""timestamps_left_out":1"#));
        assert_eq!(
            place.rows(),
            [new("1").with("V", "x"), new("2").with("V", "y")],
            "{name}"
        );
        let place = Place::new(name, text);
        place
            .import(&["--quiet", "--keep-timestamp", "Written"])
            .success()
            .stderr("");
        let expected = [
            new("1").with("Written", time).with("V", "x"),
            new("2").with("V", "y"),
        ];
        assert_eq!(place.rows(), expected, "{name}");
    }
    for (name, text) in [
        ("e.csv", "PartitionKey,RowKey,Timestamp\np,1,1700000000\n"),
        (
            "e.jsonl",
            "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"Timestamp\":1700000000}\n",
        ),
    ] {
        let place = Place::new(name, text);
        place
            .refused(&[], 2)
            .stderr(contains("line").and(contains("--keep-timestamp")));
        place.import(&["--rename", "Timestamp=At"]).success();
        assert_eq!(place.rows(), [new("1").with("At", 1_700_000_000)], "{name}");
    }
}

#[test]
fn an_export_keeps_the_timestamp_of_the_store() {
    let (_source, from) = embedded([new("1").with("V", 1)]);
    for name in ["e.csv", "e.jsonl", "e.parquet"] {
        let place = Place::new(name, "");
        let export = |kept: &str| {
            let mut command = tables();
            command.args([
                "export",
                &from,
                "Employees",
                "--quiet",
                "--to",
                &place.path,
                "--keep-timestamp",
                kept,
            ]);
            command.assert()
        };
        export("not a name")
            .code(2)
            .stderr(contains("no property can be called"));
        export("V")
            .code(1)
            .stderr(contains("has a property 'V' already"));
        export("Written").success();
        place.import(&[]).success();
        assert!(
            matches!(place.rows()[0].get("Written"), Some(ValueRef::DateTime(_))),
            "{name}"
        );
    }
}

#[test]
fn rows_of_the_library_are_refused_by_name() {
    for place in formats("PartitionKey,RowKey,V\n~~manifest,type~x,a\np,~~x,b\np,1,c\n") {
        let skipped = place.import(&[]).code(3);
        skipped.stderr(
            contains("'~~manifest'")
                .or(contains("~~manifest"))
                .and(contains("keys that begin with ~~")),
        );
        assert_eq!(place.rows(), [new("1").with("V", "c")], "{}", place.path);
    }
    let place = Place::new(
        "e.csv",
        "PartitionKey,RowKey,IndexName\np,1,age.1f0c77aa\np,2,age\n",
    );
    place.import(&[]).code(3).stderr(contains("index entry"));
    assert_eq!(place.rows(), [new("2").with("IndexName", "age")]);
}

#[test]
fn columns_that_are_no_properties_are_renamed_or_left_out() {
    let text = "Transaction Number,#,Amount £,date\n1,a,2.50,2024-02-01 10:11:12\n";
    let place = Place::new("foreign.csv", text);
    let keys_by = ["--partition-key", "p", "--row-key", "{Number}"];
    let refused = place.refused(&["--partition-key", "p", "--row-key", "x"], 2);
    refused.stderr(
        contains("\"Transaction Number\"")
            .and(contains("\"#\""))
            .and(contains("--rename 'COLUMN=NAME'"))
            .and(contains("\"date\"")),
    );
    let renamed = [
        "--rename",
        "Transaction Number=Number",
        "--ignore",
        "#",
        "--rename",
        "Amount £=Amount",
    ];
    let done = place.import(&[&keys_by[..], &renamed].concat()).success();
    done.stderr(contains("date=Edm.DateTime").and(contains("times without a zone are in UTC")));
    let time: Ticks = "2024-02-01T10:11:12Z".parse().unwrap();
    assert_eq!(
        place.rows(),
        [new("1")
            .with("Number", 1)
            .with("Amount", 2.5)
            .with("date", time)]
    );
    // The rules of columns hold for every format.
    let lines = "{\"First Name\":\"Ken\",\"a@b\":1,\"id\":\"1\",\"group\":\"p\",\"list\":[1]}\n";
    let place = Place::new("e.jsonl", lines);
    place
        .refused(
            &["--rename", "id=RowKey", "--rename", "group=PartitionKey"],
            2,
        )
        .stderr(contains("\"First Name\"").and(contains("\"a@b\"")));
    let renamed = [
        "--rename",
        "id=RowKey",
        "--rename",
        "group=PartitionKey",
        "--rename",
        "First Name=FirstName",
    ];
    place
        .import(&[&renamed[..], &["--ignore", "a@b", "--ignore", "list"]].concat())
        .success();
    assert_eq!(place.rows(), [new("1").with("FirstName", "Ken")]);
    // The first column of pandas has no name.
    let place = Place::new("e.csv", ",PartitionKey,RowKey\n0,p,1\n");
    place.refused(&[], 2).stderr(contains("\"\""));
    place.import(&["--ignore", ""]).success();
    assert_eq!(place.rows(), [new("1")]);
    for arguments in [
        &["--rename", "a=b"][..],
        &["--ignore", "a"],
        &["--type", "a=Int32"],
        &["--keep-timestamp", "T"],
    ] {
        let place = Place::new("e.csv", "PartitionKey,RowKey,V\np,1,x\n");
        place
            .refused(arguments, 2)
            .stderr(contains("which the file does not have").and(contains("\"V\"")));
    }
    let place = Place::new("e.csv", "PartitionKey,RowKey,V,V@type\np,1,x,y\n");
    place.refused(&[], 2).stderr(contains("'V@type'"));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn utf_16(text: &str) -> Vec<u8> {
    [0xfeff]
        .into_iter()
        .chain(text.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect()
}

#[test]
fn files_are_read_by_what_is_in_them() {
    let expected = [new("1").with("V", "a,b").with("W", "ü")];
    let line = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"V\":\"a,b\",\"W\":\"ü\"}";
    let semicolons = "PartitionKey;RowKey;V;W\r\np;1;a,b;ü\r\n";
    for (name, bytes, reported) in [
        ("e.csv", semicolons.as_bytes().to_vec(), "separated by ';'"),
        (
            "e.tsv",
            "PartitionKey\tRowKey\tV\tW\np\t1\ta,b\tü\n".into(),
            "separated by tabs",
        ),
        (
            "e.csv",
            format!("sep=;\r\n{semicolons}").into(),
            "separated by ';'",
        ),
        ("e.csv", utf_16(semicolons), "UTF-16"),
        ("e.csv", gzip(semicolons.as_bytes()), "compressed with gzip"),
        ("e.csv.gz", gzip(semicolons.as_bytes()), "separated by ';'"),
        ("e.jsonl", utf_16(line), "UTF-16"),
        ("e.jsonl", gzip(line.as_bytes()), "compressed with gzip"),
        (
            "e.json",
            format!("{{\"items\": [{line}], \"nextMarker\": {{}}}}").into(),
            "1 rows imported",
        ),
        ("e.json.zst", format!("[{line}]").into(), "not compressed"),
    ] {
        let place = Place::new(name, bytes);
        place.import(&[]).success().stderr(contains(reported));
        assert_eq!(place.rows(), expected, "{name}: {reported}");
    }
    let place = Place::new("e.json", "{\"items\": [], \"nextMarker\": {}}");
    place.import(&[]).success();
    assert_eq!(place.rows(), []);
    let export = tables()
        .args(["export", &place.store, "Imported", "--to", "all.csv.gz"])
        .assert()
        .code(2);
    export.stderr(contains(".zst"));
}

#[test]
fn a_file_with_a_quote_too_few_is_an_error_with_its_line() {
    for (text, reason) in [
        (
            "PartitionKey,RowKey,V\np,1,x\np,2,\"cut",
            "line 3: a cell begins with a quote that is not closed",
        ),
        (
            "PartitionKey,RowKey,V\np,1,\"x\np,2,\"y\"\n",
            "line 3: text follows the closing quote",
        ),
    ] {
        Place::new("e.csv", text)
            .refused(&[], 4)
            .stderr(contains(reason).and(contains("service").not()));
    }
    // A row with too few cells is a row by itself.
    let place = Place::new("e.csv", "PartitionKey,RowKey,V\np,1,x\np,2\n");
    place.import(&[]).code(3).stderr(contains(
        "line 3: the row has 2 cells, and the header has 3",
    ));
}

/// In every format, with one exit code: nothing of a file that is damaged in its first rows is written.
#[test]
fn a_cut_file_is_damage_in_every_format() {
    let row = |n: usize| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{n}\",\"V\":\"x\"}}");
    for (name, text) in [
        ("e.csv", "PartitionKey,RowKey,V\np,1,x\np,2".to_owned()),
        ("e.jsonl", format!("{}\n{}", row(1), &row(2)[..30])),
        ("e.json", format!("[{},{}", row(1), &row(2)[..30])),
    ] {
        Place::new(name, &text).refused(&[], 4);
        let whole = gzip(text.as_bytes());
        Place::new(name, &whole[..whole.len() - 9]).refused(&[], 4);
        let whole = zstd::encode_all(text.as_bytes(), 3).unwrap();
        Place::new(name, &whole[..whole.len() - 2]).refused(&[], 4);
    }
    // After the rows that show the types, the rows before the damage are written.
    let many: String = (0..1001).map(|n| row(n) + "\n").collect();
    let cells: String = (0..1001).map(|n| format!("p,{n},x\n")).collect();
    for (name, text) in [
        ("e.csv", format!("PartitionKey,RowKey,V\n{cells}p,2")),
        ("e.jsonl", format!("{many}{}", &row(2)[..30])),
    ] {
        let place = Place::new(name, text);
        place
            .import(&[])
            .code(4)
            .stderr(contains("the file is cut").and(contains("--mode upsert")));
        assert_eq!(place.rows().len(), 1001, "{name}");
    }
    // A last line that is whole needs no line feed.
    let place = Place::new("e.jsonl", row(1));
    place.import(&[]).success();
    let place = Place::new("e.csv", "PartitionKey,RowKey,V\np,1,x");
    place.import(&[]).success();
}

/// Also after the rows that show the type.
#[test]
fn an_inferred_type_changes_no_text() {
    let text = "PartitionKey,RowKey,N,D\np,1,-0,0.10000000000000001\n";
    let place = Place::new("e.csv", text);
    place
        .import(&[])
        .success()
        .stderr(contains("N=Edm.String").and(contains("D=Edm.String")));
    let rows: String = (0..1001).map(|n| format!("p,{n},7,2.5\n")).collect();
    for late in ["-0,2.5", "007,2.5", "7,0.10000000000000001"] {
        let text = format!("PartitionKey,RowKey,N,D\n{rows}p,late,{late}\n");
        let place = Place::new("e.csv", text);
        place
            .import(&[])
            .code(3)
            .stderr(contains("line 1003").and(contains("--type COLUMN=String")));
    }
    let row = |n: usize, value: &str| {
        format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{n}\",\"N\":{value}}}\n")
    };
    let place = Place::new("e.jsonl", row(1, "-0"));
    place.import(&[]).success();
    assert_eq!(place.rows(), [new("1").with("N", -0.0)]);
    let rows: String = (0..1001).map(|n| row(n, "7")).collect();
    let place = Place::new("e.jsonl", rows + &row(2000, "-0"));
    place.import(&[]).code(3).stderr(contains("line 1002"));
}

#[test]
fn names_that_are_no_properties_are_refused_by_their_option() {
    let text = "PartitionKey,RowKey,Timestamp,Transaction Number\np,1,2013-01-01T05:15:00Z,7\n";
    for (arguments, reason) in [
        (
            &["--keep-timestamp", "a b"][..],
            "--keep-timestamp \"a b\": no property",
        ),
        (
            &["--rename", "Transaction Number=a b"],
            "--rename \"Transaction Number=a b\": no property",
        ),
        (
            &[
                "--partition-key",
                "{Transaction Number}",
                "--row-key",
                "{RowKey}",
            ],
            "the file has the columns \"PartitionKey\", \"RowKey\", \"Timestamp\", \"Transaction Number\"",
        ),
    ] {
        Place::new("e.csv", text)
            .refused(arguments, 2)
            .stderr(contains(reason));
    }
    let renamed = [
        "--rename",
        "Transaction Number=Number",
        "--partition-key",
        "{PartitionKey}",
        "--row-key",
        "{Number}_{RowKey}",
    ];
    let place = Place::new("e.csv", text);
    place.import(&renamed).success();
    // A file without entities has no columns, and a wrong template is refused all the same.
    Place::new("e.jsonl", "")
        .refused(&["--partition-key", "{a b}", "--row-key", "1"], 2)
        .stderr(contains("template"));
}

#[test]
fn errors_of_files_do_not_speak_of_services() {
    let lines = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n{\"PartitionKey\":\"p\"}\n{\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"N@odata.type\":\"Edm.Int32\",\"N\":\"x\"}\n{\n";
    let place = Place::new("e.jsonl", lines);
    let done = place.import(&[]).code(3);
    done.stderr(
        contains("line 2: the RowKey is absent")
            .and(contains(
                "line 3: the value of 'N': it is not of the type Edm.Int32",
            ))
            .and(contains("line 4: it is no entity"))
            .and(contains("service").not())
            .and(contains("request is invalid").not()),
    );
    let text = format!(
        "[{}",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"},".repeat(1001)
    );
    let place = Place::new("e.json", text);
    let done = place.import(&["--mode", "upsert"]).code(4);
    done.stderr(
        contains("error: the JSON cannot be read after entity 1001")
            .and(contains("request").count(1)),
    );
}

#[test]
fn a_damaged_parquet_file_is_refused() {
    let entities: Vec<_> = (0..200)
        .map(|n| {
            new(&n.to_string())
                .with("N", n)
                .with("Text", format!("text {n}"))
        })
        .collect();
    let (_source, from) = embedded(entities.clone());
    let place = Place::new("e.parquet", "");
    tables()
        .args(["export", &from, "Employees", "--quiet", "--to", &place.path])
        .assert()
        .success();
    let whole = fs::read(&place.path).unwrap();
    let metadata =
        u32::from_le_bytes(*whole.last_chunk::<8>().unwrap().first_chunk().unwrap()) as usize;
    let pages = 4..whole.len() - 8 - metadata;
    // Every bit that is tried is in a page or in the header of a page.
    for at in pages.clone().step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&place.path, &damaged).unwrap();
        let done = place.import(&[]);
        let code = done.get_output().status.code();
        if code == Some(0) {
            // A bit that means nothing: the values are whole.
            assert_eq!(place.rows().len(), 200, "{at}");
            fs::remove_dir_all(place.directory.path().join("store")).unwrap();
            continue;
        }
        assert!(matches!(code, Some(1 | 2 | 4)), "{at}: {code:?}");
        assert!(!place.directory.path().join("store").exists(), "{at}");
    }
    fs::write(&place.path, &whole).unwrap();
    place.import(&[]).success();
    assert_eq!(place.rows().len(), 200);
}

/// 64 MiB of one byte, as small compressed files: a row has a bound.
#[test]
fn a_small_file_does_not_fill_the_memory() {
    let zeros = vec![b'x'; 64 << 20];
    let zstd = zstd::encode_all(&zeros[..], 3).unwrap();
    assert!(zstd.len() < 1 << 14);
    let compressed = gzip(&zeros);
    for name in ["e.csv", "e.jsonl"] {
        for bytes in [&zstd, &compressed] {
            Place::new(name, bytes)
                .refused(&[], 4)
                .stderr(contains("more than 16 MiB"));
        }
    }
    let array = zstd::encode_all(&[b"[\"", &zeros[..]].concat()[..], 3).unwrap();
    Place::new("e.json", array)
        .refused(&[], 4)
        .stderr(contains("more than 16 MiB"));
}

#[test]
fn accounts_keep_what_a_file_has() {
    for (name, secret, _served) in accounts() {
        let lines = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"ETag\":\"mine\",\"N\":89310860123456789012,\"M\":1}\n\
                     {\"PartitionKey\":\"p\",\"RowKey\":\"2\",\"ETag\":\"mine\",\"N\":89310860123456789013,\"M\":2.5}\n";
        let place = Place::new("e.jsonl", lines);
        on_account(
            &secret,
            &["import", "azure", "Kept", "--from", &place.path, "--quiet"],
        )
        .success();
        for file in ["back.csv", "back.parquet"] {
            let back = place.directory.path().join(file).display().to_string();
            on_account(
                &secret,
                &["export", "azure", "Kept", "--quiet", "--to", &back],
            )
            .success();
            let store = format!(
                "embedded:{}",
                place
                    .directory
                    .path()
                    .join(format!("{file}.store"))
                    .display()
            );
            tables()
                .args(["import", &store, "Imported", "--quiet", "--from", &back])
                .assert()
                .success();
            let expected = [
                new("1")
                    .with("ETag", "mine")
                    .with("N", "89310860123456789012")
                    .with("M", 1.0),
                new("2")
                    .with("ETag", "mine")
                    .with("N", "89310860123456789013")
                    .with("M", 2.5),
            ];
            assert_eq!(
                rows(&place.directory.path().join(format!("{file}.store"))),
                expected,
                "{name}, {file}"
            );
        }
    }
}
