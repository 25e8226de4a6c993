//! `export` and `import`.

use std::fs;
use std::path::Path;

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_core::model::{Entity, TableName, Ticks, ValueRef};
use table_core::query::Query;
use table_core::store::{TableStore as _, TableStoreExt as _};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};
use tempfile::TempDir;

use crate::support::{embedded, employees, fill, of_every_type, on_disk, served, tables};

/// A directory with a file, and the name of a store that does not exist yet.
fn file(name: &str, text: &str) -> (TempDir, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    fs::write(&path, text).unwrap();
    let store = format!("embedded:{}", directory.path().join("store").display());
    (directory, path.display().to_string(), store)
}

/// The entities of the table `Employees` in `store` below the directory, without ETags and times.
fn stored(directory: &Path) -> Vec<Entity> {
    on_disk(&directory.join("store"), async |store| {
        let rows = store
            .query_all(&TableName::new("Employees").unwrap(), &Query::new())
            .await
            .unwrap();
        rows.into_iter()
            .map(|row| row.with_system(None, None))
            .collect()
    })
}

fn import(store: &str, path: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    tables()
        .args(["import", store, "Employees", "--quiet", "--from", path])
        .args(arguments)
        .assert()
}

#[test]
fn every_type_survives_every_format() {
    let entities = [
        of_every_type("p", "1"),
        of_every_type("p", "2 \"x\", y"),
        Entity::new("q", "").unwrap(),
    ];
    let (_source, from) = embedded(entities.clone());
    for name in [
        "all.jsonl",
        "all.csv",
        "all.jsonl.zst",
        "all.csv.zst",
        "all.parquet",
    ] {
        let (directory, path, to) = file(name, "");
        tables()
            .args(["export", &from, "Employees", "--quiet", "--to", &path])
            .assert()
            .success()
            .stdout("")
            .stderr("");
        import(&to, &path, &[]).success();
        assert_eq!(stored(directory.path()), entities, "{name}");
        assert!(!Path::new(&format!("{path}.partial")).exists());
    }
}

#[test]
fn standard_output_is_standard_input() {
    let (_source, from) = embedded(employees());
    for format in ["jsonl", "csv", "parquet"] {
        let export = [
            "export",
            &from,
            "Employees",
            "--to",
            "-",
            "--format",
            format,
        ];
        let export = tables().args(export).assert().success();
        let (directory, _, to) = file("none", "");
        let import = [
            "import",
            &to,
            "Employees",
            "--from",
            "-",
            "--format",
            format,
        ];
        let done = tables()
            .args(import)
            .write_stdin(export.get_output().stdout.clone())
            .assert()
            .success();
        done.stderr(contains("Employees: 3 rows imported, 0 skipped"));
        assert_eq!(stored(directory.path()).len(), 3, "{format}");
    }
}

/// Types of one property in several columns; times in microseconds, in nanoseconds, and where neither is enough.
#[test]
fn parquet_keeps_what_a_column_of_one_type_cannot_hold() {
    let time = |text: &str| text.parse::<Ticks>().unwrap();
    let new = |row: &str| Entity::new("p", row).unwrap();
    let entities = [
        new("1")
            .with("Mixed", 1)
            .with("Time", time("2013-01-01T05:15:00.1234567Z")),
        new("2")
            .with("Mixed", "one")
            .with("Time", time("2262-01-01T00:00:00Z")),
        new("3")
            .with("Mixed", 1_i64)
            .with("Far", time("1601-01-01T00:00:00.000001Z")),
        new("4")
            .with("Mixed", 0.5)
            .with("Far", time("9999-12-31T23:59:59.999999Z")),
        new("5")
            .with("Fine", time("1601-01-01T00:00:00.0000001Z"))
            .with("Nothing", ""),
    ];
    let (_source, from) = embedded(entities.clone());
    let (directory, path, to) = file("all.parquet", "");
    tables()
        .args(["export", &from, "Employees", "--quiet", "--to", &path])
        .assert()
        .success();
    import(&to, &path, &[]).success();
    assert_eq!(stored(directory.path()), entities);
}

#[test]
fn parquet_is_compressed_inside_and_whole_or_refused() {
    let (_source, from) = embedded(employees());
    let (directory, path, to) = file("all.parquet", "");
    let export = |to: &str| {
        tables()
            .args(["export", &from, "Employees", "--quiet", "--to", to])
            .assert()
    };
    let compressed = format!("{path}.zst");
    export(&compressed)
        .code(2)
        .stderr(contains("compressed inside"));
    import(&to, &compressed, &[])
        .code(2)
        .stderr(contains("compressed inside"));
    export(&path).success();
    import(&to, &path, &["--null", "NA"])
        .code(2)
        .stderr(contains("--null is for CSV"));
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..whole.len() - 9], b"no Parquet", b""] {
        fs::write(&path, damaged).unwrap();
        import(&to, &path, &[])
            .code(4)
            .stderr(contains("not a whole Parquet file"));
    }
    let import_input = [
        "import",
        &to,
        "Employees",
        "--from",
        "-",
        "--format",
        "parquet",
    ];
    let input = tables()
        .args(import_input)
        .write_stdin("no Parquet")
        .assert()
        .code(4);
    input.stderr(contains("not a whole Parquet file"));
    assert!(!directory.path().join("store").exists());
    let absent = directory
        .path()
        .join("absent")
        .join("all.parquet")
        .display()
        .to_string();
    export(&absent)
        .code(1)
        .stderr(contains("absent").and(contains("cannot be written")));
    // Damage that only the data shows.
    let mut damaged = whole.clone();
    damaged[4..40].fill(0xff);
    fs::write(&path, damaged).unwrap();
    import(&to, &path, &[])
        .code(4)
        .stderr(contains("nothing was imported"));
    assert!(!directory.path().join("store").exists());
}

#[test]
fn an_array_of_json_is_read_and_not_written() {
    let text = r#"[{"PartitionKey":"p","RowKey":"1","Age":41},{"RowKey":"2"},{"PartitionKey":"p","RowKey":"3"}]"#;
    let (directory, path, to) = file("e.json", text);
    import(&to, &path, &[])
        .code(3)
        .stderr(contains("skipped: entity 2:"));
    assert_eq!(stored(directory.path()).len(), 2);
    let export = tables()
        .args(["export", &to, "Employees", "--to", &path])
        .assert()
        .code(2);
    export.stderr(contains(".jsonl"));
    fs::write(&path, &text[..50]).unwrap();
    import(&to, &path, &["--mode", "upsert"])
        .code(4)
        .stderr(contains("cannot be read after entity 1"));
}

/// A directory with an export of AzCopy 7: the manifest of <https://github.com/Azure/azure-storage-net-data-movement/issues/129>, and
/// the names of <https://learn.microsoft.com/previous-versions/azure/storage/storage-use-azcopy>.
fn azcopy(payload: &str, files: &[(&str, &str)]) -> (TempDir, String, String) {
    let manifest = format!(
        r#"{{"Version":2,"PayloadFormat":"{payload}","Checksum":15564613245429458971,"AccountName":"arenaxstorage","TableName":"Employees","Timestamp":"2018-05-28T03:06:11.6482709Z","SplitSize":200000,"TotalDataFiles":2}}"#
    );
    let (directory, path, to) = file("arenaxstorage_Employees.manifest", &manifest);
    for (name, text) in files {
        fs::write(
            directory
                .path()
                .join(format!("arenaxstorage_Employees_{name}")),
            text,
        )
        .unwrap();
    }
    (directory, path, to)
}

/// The data files have the payload of the service with minimal metadata:
/// <https://learn.microsoft.com/rest/api/storageservices/payload-format-for-table-service-operations>.
#[test]
fn an_export_of_azcopy_is_read() {
    let page = |entities: &str| {
        format!(
            r#"{{"odata.metadata":"https://arenaxstorage.table.core.windows.net/$metadata#Employees","value":[{entities}]}}"#
        )
    };
    let first = page(
        r#"{"odata.etag":"W/\"datetime'2014-01-03T11%3A20%3A20Z'\"","PartitionKey":"Sales","RowKey":"1","Timestamp":"2014-01-03T11:20:20Z","Age@odata.type":"Edm.Int64","Age":"41","Name":"Ken"}"#,
    );
    let second = page(
        r#"{"PartitionKey":"Sales","RowKey":"2","Timestamp":"2014-01-03T11:20:20Z","Since@odata.type":"Edm.DateTime","Since":"2013-01-01T00:00:00Z"},{"PartitionKey":"Sales"}"#,
    );
    let files = [
        ("0_0_C3040FE8.json", &*first),
        ("0_1_0AB9AC20.json", &second),
    ];
    let (directory, manifest, to) = azcopy("Json", &files);
    let done = import(&to, &manifest, &[]).code(3);
    done.stderr(contains(
        "arenaxstorage_Employees_0_1_0AB9AC20.json, entity 2:",
    ));
    let since: Ticks = "2013-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(
        stored(directory.path()),
        [
            Entity::new("Sales", "1")
                .unwrap()
                .with("Age", 41_i64)
                .with("Name", "Ken"),
            Entity::new("Sales", "2").unwrap().with("Since", since),
        ]
    );
}

#[test]
fn an_export_of_azcopy_as_csv_has_one_type_for_each_column() {
    let files = [
        (
            "0_0_C3040FE8.csv",
            "PartitionKey,RowKey,Timestamp,Age\nSales,1,2014-01-03T11:20:20Z,41\n",
        ),
        ("0_0_C3040FE8.schema.csv", "the content is not described"),
        (
            "0_1_0AB9AC20.csv",
            "PartitionKey,RowKey,Timestamp,Age\nSales,2,2014-01-03T11:20:20Z,3000000000\n",
        ),
    ];
    let (directory, manifest, to) = azcopy("Csv", &files);
    let done = tables()
        .args(["import", &to, "Employees", "--from", &manifest])
        .assert()
        .success();
    done.stderr(contains("inferred types: Age=Edm.Int64").and(contains("2 rows imported")));
    let ages: Vec<_> = stored(directory.path())
        .iter()
        .map(|row| row.get("Age") == Some(ValueRef::Int64(41)))
        .collect();
    assert_eq!(ages, [true, false]);
}

#[test]
fn an_incomplete_export_of_azcopy_changes_nothing() {
    let (directory, manifest, to) = azcopy("Json", &[("0_0_C3040FE8.json", "[]")]);
    import(&to, &manifest, &[])
        .code(4)
        .stderr(contains("has 2 data files, and 1 of them"));
    for (text, reason) in [
        ("{}", "PayloadFormat"),
        (r#"{"PayloadFormat":"Json"}"#, "TotalDataFiles"),
        ("no", "cannot be read"),
    ] {
        fs::write(&manifest, text).unwrap();
        import(&to, &manifest, &[]).code(2).stderr(contains(reason));
    }
    import(&to, "absent.manifest", &[])
        .code(2)
        .stderr(contains("absent.manifest"));
    assert!(!directory.path().join("store").exists());
}

#[test]
fn several_tables_have_a_file_each() {
    let (directory, from) = embedded(employees());
    on_disk(directory.path(), async |store| {
        fill(&store, "Orders", [Entity::new("p", "r").unwrap()]).await;
    });
    let one = ["export", &from, "Employees", "Orders", "--to", "all.jsonl"];
    tables()
        .args(one)
        .assert()
        .code(2)
        .stderr(contains("{table}"));
    let none = [
        "export",
        &from,
        "Employees",
        "--to",
        "all.jsonl",
        "--concurrency",
        "0",
    ];
    tables()
        .args(none)
        .assert()
        .code(2)
        .stderr(contains("--concurrency"));
    let (files, _, _) = file("none", "");
    let path = files.path().join("{table}.csv").display().to_string();
    let export = tables()
        .args([
            "export",
            &from,
            "Employees",
            "Orders",
            "--json",
            "--to",
            &path,
        ])
        .assert()
        .success();
    export.stdout(contains(r#""table":"Employees""#).and(contains(r#""rows":3"#)));
    assert_eq!(
        fs::read_to_string(files.path().join("Orders.csv")).unwrap(),
        "PartitionKey,RowKey\np,r\n"
    );
}

#[test]
fn an_export_of_an_absent_table_leaves_no_file() {
    let (_source, from) = embedded(employees());
    let (files, _, _) = file("none", "");
    let path = files.path().join("absent.jsonl");
    tables()
        .args(["export", &from, "Absent", "--to"])
        .arg(&path)
        .assert()
        .code(1)
        .stderr(contains("does not exist"));
    assert_eq!(fs::read_dir(files.path()).unwrap().count(), 1);
}

#[test]
fn an_export_takes_the_selected_entities() {
    let (_source, from) = embedded(employees());
    let export = [
        "export",
        &from,
        "Employees",
        "--filter",
        "Age gt 40",
        "--quiet",
        "--format",
        "csv",
        "--to",
        "-",
    ];
    let header = "PartitionKey,RowKey,Age,Age@type,Name,Name@type\n";
    let rows = "Legal,1,55,Edm.Int32,,\nSales,1,41,Edm.Int32,Ken,Edm.String\n";
    tables()
        .args(export)
        .assert()
        .success()
        .stdout(format!("{header}{rows}"));
}

#[test]
fn a_csv_gets_keys_and_types() {
    let text = "origin,carrier,flight,delay,zip\nEWR,UA,15,2.5,07101\nJFK,B6,1545,NA,10001\n";
    let (directory, path, to) = file("flights.csv", text);
    let keys = [
        "--partition-key",
        "{origin}",
        "--row-key",
        "{carrier}_{flight:u32:04}",
        "--null",
        "NA",
        "--json",
    ];
    let done = import(&to, &path, &keys).success();
    done.stdout(
        contains(r#""written":2"#)
            .and(contains(r#""flight":"Edm.Int32""#))
            .and(contains(r#""zip":"Edm.String""#)),
    );
    let rows = stored(directory.path());
    let keys: Vec<_> = rows
        .iter()
        .map(|row| (row.key().partition(), row.key().row()))
        .collect();
    assert_eq!(keys, [("EWR", "UA_0015"), ("JFK", "B6_1545")]);
    assert_eq!(rows[0].get("delay"), Some(ValueRef::Double(2.5)));
    assert_eq!(rows[1].get("delay"), None);
    assert_eq!(rows[1].get("zip"), Some(ValueRef::String("10001")));
}

#[test]
fn given_types_replace_inferred_types() {
    let (directory, path, to) = file(
        "e.csv",
        "PartitionKey,RowKey,N,Timestamp\np,r,5,2013-01-01T00:00:00Z\n",
    );
    import(&to, &path, &["--type", "N=Int64"]).success();
    assert_eq!(
        stored(directory.path()),
        [Entity::new("p", "r").unwrap().with("N", 5_i64)]
    );
    import(&to, &path, &["--type", "M=Int64"])
        .code(2)
        .stderr(contains("'M'"));
    import(&to, &path, &["--type", "N=Number"])
        .code(2)
        .stderr(contains("Int32"));
}

/// The files of Azure Storage Explorer: <https://github.com/microsoft/AzureStorageExplorer/issues/4212> shows types with `Edm.`, and
/// <https://github.com/microsoft/AzureStorageExplorer/issues/8772> types without it, for the first entity alone.
#[test]
fn csv_of_storage_explorer_is_read() {
    let with_types = "PartitionKey,RowKey,Timestamp,Age,Age@type,Name,Name@type\n\
        Sales,1,2013-01-01T00:00:00Z,41,Edm.Int64,Ken,Edm.String\nSales,2,2013-01-01T00:00:00Z,,,7,Edm.String\n";
    let first_alone = "PartitionKey,RowKey,Age,Age@type,Name,Name@type\nSales,1,41,Int64,Ken,String\nSales,2,,,7,\n";
    let expected = [
        Entity::new("Sales", "1")
            .unwrap()
            .with("Age", 41_i64)
            .with("Name", "Ken"),
        Entity::new("Sales", "2").unwrap().with("Name", "7"),
    ];
    for text in [with_types, first_alone] {
        let (directory, path, to) = file("explorer.csv", text);
        import(&to, &path, &[]).success();
        assert_eq!(stored(directory.path()), expected);
    }
}

#[test]
fn modes_insert_upsert_and_merge() {
    let (directory, path, to) = file(
        "e.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":1}\n",
    );
    import(&to, &path, &[]).success();
    let again = import(&to, &path, &[]).code(3);
    again.stderr(contains("skipped:").and(contains("exists already")));
    fs::write(&path, "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"B\":2}\n").unwrap();
    import(&to, &path, &["--mode", "merge"]).success();
    assert_eq!(
        stored(directory.path()),
        [Entity::new("p", "r").unwrap().with("A", 1).with("B", 2)]
    );
    import(&to, &path, &["--mode", "upsert"]).success();
    assert_eq!(
        stored(directory.path()),
        [Entity::new("p", "r").unwrap().with("B", 2)]
    );
}

#[test]
fn bad_rows_are_named_and_the_others_imported() {
    let text = "PartitionKey,RowKey,N,N@type\np,1,5,Edm.Int32\np,2,five,Edm.Int32\na/b,3,5,Edm.Int32\np,4\np,5,5,Edm.Int32\n";
    let (directory, path, to) = file("e.csv", text);
    let done = import(&to, &path, &[]).code(3);
    done.stderr(
        contains("line 3:")
            .and(contains("line 4:"))
            .and(contains("line 5:"))
            .and(contains("3 rows were skipped")),
    );
    assert_eq!(stored(directory.path()).len(), 2);
    let (directory, path, to) = file(
        "e.jsonl",
        "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n{\"RowKey\":\"2\"}\nno\n",
    );
    import(&to, &path, &[])
        .code(3)
        .stderr(contains("line 2:").and(contains("line 3:")));
    assert_eq!(stored(directory.path()).len(), 1);
}

#[test]
fn a_file_that_cannot_be_imported_changes_nothing() {
    let (directory, path, to) = file("e.csv", "a,b\n1,2\n");
    import(&to, &path, &[])
        .code(2)
        .stderr(contains("--partition-key"));
    import(&to, &path, &["--partition-key", "{a}"])
        .code(2)
        .stderr(contains("both"));
    import(&to, &path, &["--partition-key", "{a", "--row-key", "{b}"])
        .code(2)
        .stderr(contains("template"));
    import(&to, "absent.csv", &[])
        .code(2)
        .stderr(contains("absent.csv"));
    import(&to, "data.xml", &[])
        .code(2)
        .stderr(contains("--format"));
    assert!(!directory.path().join("store").exists());
    // Compressed data that ends early.
    let (_source, from) = embedded([of_every_type("p", "r")]);
    let (directory, path, to) = file("e.jsonl.zst", "");
    tables()
        .args(["export", &from, "Employees", "--quiet", "--to", &path])
        .assert()
        .success();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 9]).unwrap();
    import(&to, &path, &[])
        .code(4)
        .stderr(contains("cannot be read"));
    assert!(!directory.path().join("store").exists());
}

#[test]
fn an_import_keeps_indexes() {
    for mode in ["insert", "upsert", "merge"] {
        let (directory, path, to) = file(
            "e.jsonl",
            "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"City\":\"oslo\"}\n",
        );
        let by_city = || Index::keyed("city", Placement::SamePartition, "", "city_{City}_{RowKey}");
        on_disk(&directory.path().join("store"), async |store| {
            let table = TableName::new("Employees").unwrap();
            store.create_table(&table).await.unwrap();
            let indexes = vec![by_city().unwrap()];
            IndexedEntities::open(store.into_shared(), table, indexes, IndexOptions::local())
                .await
                .unwrap();
        });
        import(&to, &path, &["--mode", mode]).success();
        let entries = stored(directory.path())
            .into_iter()
            .filter(Entity::is_index_entry)
            .count();
        assert_eq!(entries, 1, "{mode}");
        // The export leaves the entry out; an import writes it again.
        let export = tables()
            .args([
                "export",
                &to,
                "Employees",
                "--quiet",
                "--to",
                "-",
                "--format",
                "jsonl",
            ])
            .assert();
        let lines = String::from_utf8(export.success().get_output().stdout.clone()).unwrap();
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }
}

#[test]
fn flights_arrive_at_a_server() {
    let served = served([]);
    let flights = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../examples/data/flights.csv.zst"
    );
    let keys = [
        "--partition-key",
        "{origin}",
        "--row-key",
        "{time_hour:hour}_{carrier}_{flight:u32:04}",
        "--null",
        "NA",
    ];
    let mut command = tables();
    command
        .args([
            "import", "azure", "Flights", "--from", flights, "--quiet", "--json",
        ])
        .args(keys);
    command
        .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret)
        .assert()
        .success();
    let mut count = tables();
    count
        .args(["count", "azure", "Flights"])
        .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret);
    count.assert().success().stdout("27004\n");
}

#[test]
fn azurite_keeps_every_type() {
    let connection = Azurite::shared().connection_string();
    let (_source, from) = embedded([of_every_type("p", "1"), of_every_type("p", "2")]);
    let (directory, path, to) = file("all.csv", "");
    tables()
        .args(["export", &from, "Employees", "--quiet", "--to", &path])
        .assert()
        .success();
    let mut command = tables();
    command.args(["import", "azurite", "Typed", "--quiet", "--from", &path]);
    command
        .env("AZURITE_CONNECTION_STRING", &connection)
        .assert()
        .success();
    let back = directory
        .path()
        .join("back.jsonl.zst")
        .display()
        .to_string();
    let mut command = tables();
    command.args(["export", "azurite", "Typed", "--quiet", "--to", &back]);
    command
        .env("AZURITE_CONNECTION_STRING", &connection)
        .assert()
        .success();
    import(&to, &back, &[]).success();
    assert_eq!(
        stored(directory.path()),
        [of_every_type("p", "1"), of_every_type("p", "2")]
    );
}
