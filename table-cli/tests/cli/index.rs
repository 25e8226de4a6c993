//! `index`.

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_core::manifest::{IndexDefinition, IndexState, StoredIndex};
use table_core::model::{Entity, Key, TableName};
use table_core::store::TableStoreExt as _;
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement};

use crate::support::{
    by_age, damage, embedded, employees, fill, indexed, interrupt_build, keys, on_disk, tables,
};

fn index(store: &str, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = tables();
    command.args(["index", store, "Employees"]).args(arguments);
    command
}

fn table() -> TableName {
    TableName::new("Employees").unwrap()
}

#[test]
fn the_list_has_the_indexes_of_the_manifest() {
    let (_directory, store) = indexed(employees());
    let id = by_age().id().to_owned();
    index(&store, &["list"])
        .assert()
        .success()
        .stdout(format!("age\t{id}\treadable\n"));
    let json = index(&store, &["list", "--json"]).assert().success();
    json.stdout(contains(r#""state":"readable""#).and(contains(r#""needs_program":false"#)));
    let (_directory, plain) = embedded(employees());
    index(&plain, &["list"]).assert().success().stdout("");
}

#[test]
fn a_scrub_finds_damage_and_repairs_it() {
    let (directory, store) = indexed(employees());
    let id = by_age().id().to_owned();
    let sound = format!("{id}: 3 entities, 3 entries, 0 dangling, 0 missing, 0 taken keys\n");
    index(&store, &["scrub"])
        .assert()
        .success()
        .stdout(sound.clone());
    let before = keys(directory.path());
    on_disk(directory.path(), async |store| damage(&store).await);
    let damaged = keys(directory.path());
    assert_ne!(damaged, before);
    let found = index(&store, &["scrub", "age"]).assert().code(4);
    found
        .stdout(contains("1 dangling, 1 missing"))
        .stderr(contains("--repair"));
    assert_eq!(
        keys(directory.path()),
        damaged,
        "a scrub without --repair changes nothing"
    );
    let repaired = index(&store, &["scrub", &id, "--repair", "--json"])
        .assert()
        .success();
    repaired.stdout(contains(r#""dangling":1"#).and(contains(r#""missing":1"#)));
    assert_eq!(keys(directory.path()), before);
    index(&store, &["scrub"]).assert().success().stdout(sound);
}

#[test]
fn an_index_is_removed_with_its_entries() {
    let (directory, store) = indexed(employees());
    for answer in ["", "no\n"] {
        let refused = index(&store, &["drop", "age"])
            .write_stdin(answer)
            .assert()
            .code(2);
        refused.stderr(contains("was not removed"));
    }
    assert_eq!(keys(directory.path()).len(), 6);
    index(&store, &["drop", "age"])
        .write_stdin("y\n")
        .assert()
        .success()
        .stdout(contains("is removed"));
    assert_eq!(keys(directory.path()), ["Legal/1", "Sales/1", "Sales/2"]);
    index(&store, &["list"]).assert().success().stdout("");
}

#[test]
fn an_interrupted_build_is_continued() {
    let (directory, store) = embedded(employees());
    interrupt_build(directory.path());
    index(&store, &["list"])
        .assert()
        .success()
        .stdout(contains("delete-only"));
    let built = index(&store, &["build", "age"]).assert().success();
    built.stdout(contains("is readable: 3 entities, 3 entries written"));
    index(&store, &["build", "age"])
        .assert()
        .success()
        .stdout(contains("is readable already"));
    index(&store, &["scrub"]).assert().success();
    assert_eq!(keys(directory.path()).len(), 6);
}

#[test]
fn a_wrong_command_changes_nothing() {
    let (directory, store) = indexed(employees());
    let id = by_age().id().to_owned();
    for work in ["build", "scrub", "drop"] {
        let unknown = index(&store, &[work, "city"]).assert().code(2);
        unknown.stderr(contains("no index 'city'").and(contains(&*id)));
    }
    index(&store, &[]).assert().code(2);
    index(&store, &["scrub", "--all"]).assert().code(2);
    let absent = tables()
        .args(["index", &store, "Orders", "scrub"])
        .assert()
        .code(1);
    absent.stderr(contains("the table 'Orders' does not exist"));
    assert_eq!(keys(directory.path()).len(), 6);
    let (_directory, plain) = embedded(employees());
    index(&plain, &["drop", "age", "--yes"])
        .assert()
        .code(2)
        .stderr(contains("has no index"));
}

#[test]
fn an_index_is_added_and_built() {
    let (directory, store) = embedded(employees());
    let add = [
        "add",
        "age",
        "--partition-key",
        "age_{Age:u32:03}",
        "--row-key",
        "{PartitionKey}_{RowKey}",
    ];
    let added = index(&store, &add).assert().success();
    added.stdout(contains("age.").and(contains("is readable: 3 entities, 3 entries written")));
    assert!(keys(directory.path()).contains(&"age_041/Sales_1".to_owned()));
    index(&store, &["scrub"])
        .assert()
        .success()
        .stdout(contains("0 dangling, 0 missing"));
    // An import maintains it.
    let mut import = tables();
    import.args([
        "import",
        &store,
        "Employees",
        "--from",
        "-",
        "--format",
        "csv",
        "--type",
        "Age=Int32",
    ]);
    import
        .write_stdin("PartitionKey,RowKey,Age\nSales,3,33\n")
        .assert()
        .success();
    assert!(keys(directory.path()).contains(&"age_033/Sales_3".to_owned()));
    let twice = index(&store, &add).assert().code(2);
    twice.stderr(contains("has the index age."));
    for add in [
        &[
            "add",
            "name",
            "--row-key",
            "name_{Name:lower}",
            "--unique",
            "--fields",
            "Age",
            "--json",
        ][..],
        &[
            "add",
            "old",
            "--row-key",
            "old_{Age:u32:03}_{RowKey}",
            "--filter",
            "Age gt 40",
            "--full",
            "--json",
        ],
        &[
            "add",
            "ages",
            "--row-key",
            "ages_{Age:u32:03}",
            "--list",
            "--json",
        ],
    ] {
        index(&store, add)
            .assert()
            .success()
            .stdout(contains(r#""state":"readable""#));
    }
    let names = [
        "name_ken",
        "old_041_1",
        "old_055_1",
        "ages_029",
        "ages_033",
        "ages_041",
        "ages_055",
    ];
    let keys_now = keys(directory.path());
    for name in names {
        assert!(
            keys_now.iter().any(|key| key.ends_with(name)),
            "{name} in {keys_now:?}"
        );
    }
    assert_eq!(keys_now.len(), 4 + 4 + names.len());
    index(&store, &["scrub"]).assert().success();
    index(&store, &["drop", "old", "--yes", "--json"])
        .assert()
        .success()
        .stdout(contains(r#""removed":true"#));
    index(&store, &["build", "age", "--json"])
        .assert()
        .success()
        .stdout(contains(r#""state":"readable""#));
}

/// The text of a refusal has no keys of other entities. The operator reads the whole table, so the program adds the key.
#[test]
fn an_import_names_the_entity_that_has_a_value() {
    let (_directory, store) = embedded(employees());
    let add = ["add", "name", "--row-key", "name_{Name:lower}", "--unique"];
    index(&store, &add).assert().success();
    let mut import = tables();
    import.args(["import", &store, "Employees", "--from", "-"]);
    let taken = import
        .args(["--format", "csv"])
        .write_stdin("PartitionKey,RowKey,Name\nSales,9,KEN\nSales,8,Lee\n")
        .assert()
        .code(3);
    taken.stderr(contains("'name'").and(contains("the other entity is ('Sales', '1')")));
}

#[test]
fn a_wrong_index_is_not_added() {
    let (directory, store) = embedded(employees());
    for (add, reason) in [
        (&["add", "age"][..], "--row-key"),
        (&["add", "age", "--row-key", "{Age"], "Age"),
        (&["add", "~~age", "--row-key", "{Age}"], "~~"),
        (
            &["add", "age", "--row-key", "{Age}", "--entries-in", "Ages"],
            "--partition-key",
        ),
        (
            &["add", "age", "--row-key", "{Age}", "--filter", "Age gt"],
            "Age gt",
        ),
        (
            &[
                "add",
                "age",
                "--row-key",
                "{Age}",
                "--full",
                "--fields",
                "Age",
            ],
            "--fields",
        ),
        (
            &["add", "age", "--row-key", "{Age}", "--list", "--unique"],
            "--unique",
        ),
        // Two employees of an age would have one entry, and the second import would be refused.
        (
            &["add", "age", "--row-key", "age_{Age}"],
            "end --row-key with {RowKey}",
        ),
        (
            &["add", "age", "--row-key", "{RowKey:lower}_{Age}"],
            "end --row-key with {RowKey}",
        ),
        (
            &[
                "add",
                "age",
                "--partition-key",
                "{Age}",
                "--row-key",
                "{RowKey}",
            ],
            "{PartitionKey}_{RowKey}",
        ),
        (
            &[
                "add",
                "age",
                "--partition-key",
                "{Age}",
                "--row-key",
                "{PartitionKey}",
            ],
            "{PartitionKey}_{RowKey}",
        ),
        // Names that no entity has.
        (
            &["add", "age", "--row-key", "{Agee}_{RowKey}"],
            "has the property Agee",
        ),
        (
            &[
                "add",
                "age",
                "--row-key",
                "{Age}_{RowKey}",
                "--fields",
                "Name,Nmae",
            ],
            "has the property Nmae",
        ),
        (
            &[
                "add",
                "age",
                "--row-key",
                "{Age}_{RowKey}",
                "--filter",
                "Ort eq 'x'",
            ],
            "has the property Ort",
        ),
        (
            &[
                "add",
                "age",
                "--row-key",
                "{Age}_{RowKey}",
                "--type",
                "Employe",
            ],
            "has the type Employe",
        ),
    ] {
        index(&store, add)
            .assert()
            .code(2)
            .stderr(contains(reason))
            .stdout("");
    }
    let keys_of_entries = [
        "--row-key",
        "{Age}_{PartitionKey}_{RowKey}",
        "--partition-key",
        "a",
    ];
    let absent = [
        &["add", "age"][..],
        &keys_of_entries,
        &["--entries-in", "Absent"],
    ]
    .concat();
    index(&store, &absent)
        .assert()
        .code(1)
        .stderr(contains("Absent"));
    assert_eq!(keys(directory.path()).len(), 3);
    index(&store, &["list"]).assert().success().stdout("");
}

/// An index that is not readable would refuse new values, and so most writes.
#[test]
fn a_unique_index_with_duplicates_is_taken_back() {
    let (directory, store) = embedded(employees());
    // Two employees of a department have one key.
    let same = ["add", "all", "--row-key", "one", "--unique"];
    index(&store, &same).assert().code(1).stderr(
        contains("was not added")
            .and(contains(
                "('Sales', 'one') of ('Sales', '1') and of ('Sales', '2')",
            ))
            .and(contains("the table is as before")),
    );
    index(&store, &["list"]).assert().success().stdout("");
    assert_eq!(keys(directory.path()).len(), 3);
    let file = directory.path().join("new.csv");
    std::fs::write(&file, "PartitionKey,RowKey\nSales,3\n").unwrap();
    let mut import = tables();
    import.args(["import", &store, "Employees", "--from"]);
    import.arg(&file).assert().success();
    let mut doctor = tables();
    doctor.args(["doctor", &store]).assert().success();
}

/// The state that a program leaves whose build has found duplicates: every command names the way out.
#[test]
fn a_failed_build_of_a_program_is_named_by_every_command() {
    let (directory, store) = embedded(employees());
    on_disk(directory.path(), async |store| {
        let all = Index::keyed("all", Placement::OtherPartition, "all", "one").unwrap();
        let (table, options) = (TableName::new("Employees").unwrap(), IndexOptions::local());
        let indexes = vec![all.unique_within_table()];
        let opened = IndexedEntities::open(store.into_shared(), table, indexes, options);
        let opened = opened.await.unwrap();
        opened.build("all").unwrap().run().await.unwrap_err();
    });
    let drop_it = "`tables index STORE TABLE drop INDEX`";
    index(&store, &["build", "all"])
        .assert()
        .code(1)
        .stderr(contains("same value").and(contains(drop_it)));
    let file = directory.path().join("new.csv");
    std::fs::write(&file, "PartitionKey,RowKey\nSales,3\n").unwrap();
    let mut import = tables();
    import.args(["import", &store, "Employees", "--from"]);
    import
        .arg(&file)
        .assert()
        .code(3)
        .stderr(contains("is building").and(contains(drop_it)));
    let mut doctor = tables();
    doctor.args(["doctor", &store]).assert().code(4).stdout(
        contains("damage: taken keys: the index all.")
            .and(contains("which cannot be built (2)"))
            .and(contains("or drop the index")),
    );
    index(&store, &["scrub"])
        .assert()
        .code(4)
        .stderr(contains("drop the index").and(contains("--repair").not()));
    let mut upkeep = tables();
    upkeep
        .args(["upkeep", &store, "--once"])
        .assert()
        .code(4)
        .stderr(contains("same value, for 2 values").and(contains("or drop the index")));
    index(&store, &["drop", "all", "--yes"]).assert().success();
    let mut import = tables();
    import.args(["import", &store, "Employees", "--from"]);
    import.arg(&file).assert().success();
}

/// The arguments that add the index `age`.
const ADD: [&str; 6] = [
    "add",
    "age",
    "--partition-key",
    "age_{Age:u32:03}",
    "--row-key",
    "{PartitionKey}_{RowKey}",
];

/// A table of Azurite with the employees, and the command for it.
fn on_azurite(name: &str) -> (String, impl Fn(&[&str]) -> std::process::Command) {
    let connection = Azurite::shared().connection_string();
    let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
    tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(fill(&store, name, employees()));
    let (name, secret) = (name.to_owned(), connection.clone());
    let command = move |arguments: &[&str]| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("tables"));
        command
            .args(["index", "azurite", &name])
            .args(arguments)
            .env("AZURITE_CONNECTION_STRING", &secret);
        command
    };
    (connection, command)
}

/// On a service a build waits until every program knows the new state, which takes minutes. Ctrl-C ends the wait.
#[test]
fn an_index_of_azurite_is_declared_and_its_build_stops_cleanly() {
    let (_, command) = on_azurite("Declared");
    let mut adding = command(&ADD)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let state = || String::from_utf8(command(&["list"]).output().unwrap().stdout).unwrap();
    while !state().contains("delete-only") {
        assert!(
            adding.try_wait().unwrap().is_none(),
            "the command has ended"
        );
    }
    let id = adding.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let end = adding.wait_with_output().unwrap();
    assert_eq!(end.status.code(), Some(1));
    let text = String::from_utf8(end.stderr).unwrap();
    assert!(
        text.contains("interrupted") && text.contains("build INDEX` continues a build"),
        "{text}"
    );
    let again = command(&ADD).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    let text = String::from_utf8(again.stderr).unwrap();
    assert!(
        text.contains("which is delete-only") && text.contains("build` continues"),
        "{text}"
    );
}

/// `cargo test -p table-cli --test cli -- --ignored built_on_azurite`
#[test]
#[ignore = "takes 6 minutes, the waits of a service; a nightly command"]
fn an_index_is_built_on_azurite() {
    let (connection, command) = on_azurite("Built");
    let added = command(&ADD).output().unwrap();
    let text = String::from_utf8_lossy(&added.stdout).into_owned();
    assert!(
        added.status.success() && text.contains("3 entities, 3 entries written"),
        "{added:?}"
    );
    let mut import = tables();
    import.args([
        "import",
        "azurite",
        "Built",
        "--from",
        "-",
        "--format",
        "csv",
        "--type",
        "Age=Int32",
    ]);
    import.env("AZURITE_CONNECTION_STRING", connection);
    import
        .write_stdin("PartitionKey,RowKey,Age\nSales,3,33\n")
        .assert()
        .success();
    let scrub = command(&["scrub"]).output().unwrap();
    let text = String::from_utf8_lossy(&scrub.stdout).into_owned();
    assert!(
        scrub.status.success() && text.contains("4 entities, 4 entries, 0 dangling, 0 missing"),
        "{scrub:?}"
    );
}

/// Rust code makes the keys of an opaque index.
#[test]
fn an_opaque_index_is_left_to_its_program() {
    let (directory, store) = embedded([]);
    on_disk(directory.path(), async |store| {
        let opaque = Index::new("opaque", Placement::OtherPartition, "1", |entity| {
            Key::new("opaque", entity.key().row()).map(Some)
        });
        let indexes = vec![opaque, by_age()];
        let opened =
            IndexedEntities::open(store.into_shared(), table(), indexes, IndexOptions::local())
                .await;
        opened
            .unwrap()
            .insert(employees()[0].clone())
            .await
            .unwrap();
    });
    index(&store, &["list"])
        .assert()
        .success()
        .stdout(contains("only a program"));
    let partly = index(&store, &["scrub"]).assert().code(3);
    partly
        .stdout(contains("age.").and(contains("1 entities")))
        .stderr(contains("skipped: opaque."));
    // Its entries would become stale.
    let refused = tables()
        .args(["delete", &store, "Employees", "--all", "--yes"])
        .assert()
        .code(3);
    refused.stderr(contains("opaque"));
    assert_eq!(keys(directory.path()).len(), 3);
}

#[test]
fn indexes_of_azurite_are_compared() {
    let connection = Azurite::shared().connection_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let scrubbed = TableName::new("Scrubbed").unwrap();
    runtime.block_on(async {
        let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
        store.create_table_if_missing(&scrubbed).await.unwrap();
        let options = IndexOptions::default();
        let opened = IndexedEntities::open(store.into_shared(), scrubbed, vec![by_age()], options)
            .await
            .unwrap();
        for employee in employees() {
            opened.insert(employee).await.unwrap();
        }
    });
    let mut command = tables();
    command
        .args(["index", "azurite", "Scrubbed", "scrub"])
        .env("AZURITE_CONNECTION_STRING", &connection);
    command
        .assert()
        .success()
        .stdout(contains("3 entities, 3 entries, 0 dangling, 0 missing"));
}

/// A definition that somebody has added, whose entries would be in the table `Victim`, and a row that says nothing.
fn planted() -> (tempfile::TempDir, String) {
    let (directory, store) = embedded(employees());
    on_disk(directory.path(), async |store| {
        let victim = TableName::new("Victim").unwrap();
        fill(
            &store,
            "Victim",
            [Entity::new("Ken", "old").unwrap().with("Secret", 1)],
        )
        .await;
        let definition = IndexDefinition::keyed(
            "name",
            Placement::OtherTable(victim),
            Some("{Name}".parse().unwrap()),
            "new".parse().unwrap(),
        );
        let planted = StoredIndex::new(&definition, IndexState::Readable)
            .to_entity()
            .unwrap();
        let garbage = Entity::new("~~manifest", "index~~x.00000000")
            .unwrap()
            .with("Format", "x");
        fill(&store, "Employees", [planted, garbage]).await;
    });
    (directory, store)
}

#[test]
fn an_index_of_another_table_needs_trust() {
    let (directory, store) = planted();
    index(&store, &["list"])
        .assert()
        .success()
        .stdout(contains("entries in Victim").and(contains("not in force")));
    index(&store, &["build", "name"])
        .assert()
        .code(1)
        .stderr(contains("not in force"));
    index(&store, &["scrub", "--repair"]).assert().success();
    let doctor = |code: i32| {
        tables()
            .args(["doctor", &store, "Employees"])
            .assert()
            .code(code)
    };
    let found = doctor(4);
    found.stdout(
        contains("advice: a definition without the consent of the other table")
            .and(contains("damage: rows of the manifest that say nothing"))
            .and(contains("index~~x.00000000"))
            .and(contains("Victim")),
    );
    index(&store, &["drop", "index~~x.00000000", "--yes"])
        .assert()
        .success();
    doctor(0).stdout(contains("damage").not());
    index(&store, &["trust", "none"])
        .assert()
        .code(2)
        .stderr(contains("no index 'none'"));
    index(&store, &["trust", "name"])
        .assert()
        .success()
        .stdout(contains("is in force: build it"));
    index(&store, &["build", "name"])
        .assert()
        .success()
        .stdout(contains("readable"));
    let list = index(&store, &["list"]).assert().success();
    list.stdout(contains("readable").and(contains("not in force").not()));
    doctor(0).stdout(contains("has its entries in the table Victim"));
    let rows = on_disk(directory.path(), async |store| {
        let victim = TableName::new("Victim").unwrap();
        store.query_all(&victim, &Default::default()).await.unwrap()
    });
    let rows: Vec<_> = rows
        .iter()
        .map(|row| row.key())
        .filter(|key| !key.is_system())
        .map(Key::row)
        .collect();
    assert_eq!(rows, ["new", "old"]);
}

#[test]
fn a_definition_that_is_not_in_force_can_be_dropped() {
    let (_directory, store) = planted();
    index(&store, &["drop", "name", "--yes"]).assert().success();
    index(&store, &["list"]).assert().success().stdout("");
}

/// Of a larger table, the first entities alone are looked at: a warning.
#[test]
fn a_property_that_the_first_entities_do_not_have_is_warned_of() {
    let mut entities: Vec<_> = (0..1_100)
        .map(|n| Entity::new("p", format!("{n:05}")).unwrap())
        .collect();
    entities.push(Entity::new("q", "1").unwrap().with("Late", 1));
    let (_directory, store) = embedded(entities);
    let added = index(
        &store,
        &["add", "late", "--row-key", "late_{Late}_{RowKey}"],
    )
    .assert()
    .success();
    added
        .stdout(contains("1 entries written"))
        .stderr(contains("warning: none of the first 1000 entities"));
    // Before there is an entity.
    let (_directory, empty) = embedded([]);
    index(
        &empty,
        &["add", "late", "--row-key", "late_{Late}_{RowKey}"],
    )
    .assert()
    .success()
    .stderr("");
}
