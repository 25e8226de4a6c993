//! `list`, `get`, `query` and `count` on an embedded store.

use predicates::prelude::*;
use predicates::str::contains;
use table_core::manifest::{IndexState, StoredIndex};
use table_core::model::{Entity, TableName};
use table_core::store::TableStore as _;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};

use crate::support::{embedded, employees, fill, of_every_type, on_disk, served, tables};

#[test]
fn list_prints_the_tables_that_have_the_prefix() {
    let (directory, store) = embedded(employees());
    on_disk(directory.path(), async |store| {
        fill(&store, "Orders", []).await;
    });
    tables()
        .args(["list", &store])
        .assert()
        .success()
        .stdout("Employees\nOrders\n");
    tables()
        .args(["list", &store, "--prefix", "Or"])
        .assert()
        .success()
        .stdout("Orders\n");
    let long = tables().args(["list", &store, "--long"]).assert().success();
    long.stdout("Employees\t3 rows\t1 KiB\nOrders\t0 rows\t0 KiB\n");
}

#[test]
fn get_prints_every_type() {
    let (_directory, store) = embedded([of_every_type("p", "r")]);
    let output = tables()
        .args(["get", &store, "Employees", "p", "r"])
        .assert()
        .success();
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let read = table_azure::wire::decode_entity(text.trim().as_bytes()).unwrap();
    assert_eq!(read.properties(), of_every_type("p", "r").properties());
    assert!(
        read.etag().is_some() && read.timestamp().is_some(),
        "{text}"
    );
}

#[test]
fn get_of_an_absent_entity_or_table_fails() {
    let (_directory, store) = embedded(employees());
    let absent = tables()
        .args(["get", &store, "Employees", "Sales", "9"])
        .assert()
        .code(1);
    absent.stderr(contains("there is no entity")).stdout("");
    let absent = tables()
        .args(["get", &store, "Orders", "Sales", "9"])
        .assert()
        .code(1);
    absent.stderr(contains(
        "the table 'Orders' does not exist: `tables list STORE` prints",
    ));
}

#[test]
fn query_filters_selects_and_stops() {
    let (_directory, store) = embedded(employees());
    let json = |arguments: &[&str]| {
        let query = [
            "query",
            &store,
            "Employees",
            "--format",
            "csv",
            "--select",
            "Age",
        ];
        let output = tables().args(query).args(arguments).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let header = "PartitionKey,RowKey,Age\n";
    assert_eq!(
        json(&["--filter", "Age gt 40"]),
        format!("{header}Legal,1,55\nSales,1,41\n")
    );
    assert_eq!(
        json(&["--partition", "Sales"]),
        format!("{header}Sales,1,41\nSales,2,29\n")
    );
    assert_eq!(
        json(&["--partition", "Sales", "--row-prefix", "2"]),
        format!("{header}Sales,2,29\n")
    );
    assert_eq!(json(&["--top", "1"]), format!("{header}Legal,1,55\n"));
    assert_eq!(json(&["--top", "0"]), header);
}

#[test]
fn query_prints_csv_with_the_columns_of_every_entity() {
    let (_directory, store) = embedded(employees());
    let query = tables()
        .args(["query", &store, "Employees", "--format", "csv"])
        .assert()
        .success();
    query.stdout("PartitionKey,RowKey,Age,Name\nLegal,1,55,\nSales,1,41,Ken\nSales,2,29,\n");
}

#[test]
fn query_prints_a_table_and_its_requests() {
    let (_directory, store) = embedded(employees());
    let query = tables()
        .args(["query", &store, "Employees", "--partition", "Sales"])
        .assert()
        .success();
    query
        .stdout(contains("Ken").and(contains("PartitionKey")))
        .stderr("2 entities, 1 requests\n");
}

#[test]
fn query_explains_a_table_that_does_not_exist() {
    let (_directory, store) = embedded(employees());
    let arguments = [
        "query",
        &store,
        "Absent",
        "--filter",
        "Age gt 40",
        "--explain",
    ];
    let explained = tables().args(arguments).assert().success();
    explained.stdout(
        contains("table scan")
            .and(contains("compares Age"))
            .and(contains("--partition")),
    );
}

#[test]
fn query_explains_which_index_has_the_results() {
    let (directory, store) = embedded([]);
    let table = TableName::new("People").unwrap();
    let keyed =
        |name, row| Index::keyed(name, Placement::SamePartition, "", row).expect("a template");
    on_disk(directory.path(), async |store| {
        store.create_table(&table).await.unwrap();
        let options = IndexOptions::local();
        let first = vec![keyed("name", "name_{Name:text}_{RowKey}")];
        let people = IndexedEntities::open(store.clone(), table.clone(), first, options);
        let ann = Entity::new("p", "1").unwrap().with("Name", "ann");
        people.await.unwrap().insert(ann).await.unwrap();
        // An interrupted build leaves an index that is not readable.
        let city = keyed("city", "city_{City:text}_{RowKey}");
        let city = StoredIndex::new(city.definition(), IndexState::Building);
        fill(&store, "People", [city.to_entity().unwrap()]).await;
    });
    let by_name = "index name: the query fixes PartitionKey, Name of its key 'name_{Name:text}_{RowKey:text}'; \
        entities.all(\"name\", &IndexQuery::partition(\"p\").prefix(\"name_ann_\"), Trust::Entity) \
        costs 1 request for each page of entries, and 1 for each entity";
    let explained = |arguments: &[&str]| {
        let command = ["query", &store, "People", "--explain"];
        let explained = tables().args(command).args(arguments).assert().success();
        let output = explained.get_output();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        let mut found = lines.lines().filter(|line| line.starts_with("index "));
        found.next().map(str::to_owned)
    };
    let name = ["--partition", "p", "--filter", "Name eq 'ann'"];
    let with = |more: &[&'static str]| [&name as &[&str], more].concat();
    let cases = [
        (with(&[]), Some(by_name.to_owned())),
        (with(&["--select", "Name"]), Some(by_name.to_owned())),
        (
            vec![
                "--partition",
                "p",
                "--filter",
                "Name eq 'ann' and Age gt 40",
            ],
            Some(format!("{by_name}; keep the results that match Age gt 40")),
        ),
        (with(&["--top", "1"]), None),
        (with(&["--system-rows"]), None),
        (vec!["--filter", "Name eq 'ann'"], None),
        (vec!["--partition", "p", "--filter", "City eq 'oslo'"], None),
    ];
    for (arguments, expected) in cases {
        assert_eq!(explained(&arguments), expected, "{arguments:?}");
    }
}

#[test]
fn query_refuses_a_long_scan_and_prints_nothing() {
    // The service returns at most 1000 entities in a page.
    let served = served((0..10_001).map(|n| Entity::new("p", format!("{n:05}")).unwrap()));
    let query = |arguments: &[&str]| {
        let mut command = tables();
        command
            .args(["query", "azure", "Employees", "--format", "json"])
            .args(arguments);
        command
            .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret)
            .assert()
    };
    query(&[]).code(2).stdout("").stderr(contains("--scan"));
    for allowed in [&["--scan"] as &[&str], &["--partition", "p"]] {
        let lines =
            String::from_utf8(query(allowed).success().get_output().stdout.clone()).unwrap();
        assert_eq!(lines.lines().count(), 10_001);
    }
    query(&["--top", "10000"]).success();
}

#[test]
fn count_prints_the_number_alone() {
    let (_directory, store) = embedded(employees());
    tables()
        .args(["count", &store, "Employees"])
        .assert()
        .success()
        .stdout("3\n")
        .stderr("");
    let filtered = tables()
        .args(["count", &store, "Employees", "--filter", "Age gt 40"])
        .assert();
    filtered.success().stdout("2\n");
}

#[test]
fn system_rows_and_index_entries_are_hidden_unless_asked_for() {
    let entry = Entity::new("Sales", "age_29")
        .unwrap()
        .with("IndexName", "age.1f0c77aa");
    let system = Entity::new("Sales", "~~row").unwrap();
    let (_directory, store) = embedded(employees().into_iter().chain([entry, system]));
    tables()
        .args(["count", &store, "Employees"])
        .assert()
        .success()
        .stdout("3\n");
    tables()
        .args(["count", &store, "Employees", "--system-rows"])
        .assert()
        .success()
        .stdout("5\n");
    let query = [
        "query",
        &store,
        "Employees",
        "--partition",
        "Sales",
        "--select",
        "Age",
        "--format",
        "csv",
    ];
    let shown = tables().args(query).assert().success();
    shown.stdout("PartitionKey,RowKey,Age\nSales,1,41\nSales,2,29\n");
}

#[test]
fn misuse_is_refused_with_code_2() {
    let (_directory, store) = embedded(employees());
    let misuses: [(&[&str], &str); 6] = [
        (
            &["query", &store, "Employees", "--filter", "Age gt"],
            "invalid filter",
        ),
        (&["query", &store, "no-name"], "invalid table name"),
        (
            &["get", &store, "Employees", "a/b", "1"],
            "invalid PartitionKey",
        ),
        (&["count", "cloud", "Employees"], "use embedded:DIR"),
        (&["count", &store], "<TABLE>"),
        (&["shout"], "unrecognized subcommand"),
    ];
    for (arguments, reason) in misuses {
        tables()
            .args(arguments)
            .assert()
            .code(2)
            .stderr(contains(reason))
            .stdout("");
    }
}
