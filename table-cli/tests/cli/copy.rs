//! `copy`.

use std::path::Path;
use std::sync::Arc;

use azurite::Azurite;
use object_store::memory::InMemory;
use predicates::prelude::*;
use predicates::str::contains;
use table_core::model::{Entity, TableName};
use table_core::query::Query;
use table_core::store::{TableStore as _, TableStoreExt as _};
use table_patterns::index::{Index, IndexOptions, IndexedEntities, Placement, Shape};
use tempfile::TempDir;

use crate::support::{
    by_age, embedded, employees, fill, indexed, interrupt_write, keys, of_every_type, on_disk,
    served, tables,
};

/// The name of an embedded store that does not exist yet.
fn target() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let name = format!("embedded:{}", directory.path().join("to").display());
    (directory, name)
}

/// The rows of a table, without ETags and times.
fn rows(directory: &Path, table: &str) -> Vec<Entity> {
    let table = TableName::new(table).unwrap();
    let rows = on_disk(directory, async |store| {
        store.query_all(&table, &Query::new()).await.unwrap()
    });
    rows.into_iter()
        .map(|row| row.with_system(None, None))
        .collect()
}

#[test]
fn a_store_is_copied_to_disk_and_to_the_cloud_and_back() {
    let entities = [of_every_type("p", "1"), of_every_type("q", "2")];
    let (source, from) = embedded(entities.clone());
    on_disk(source.path(), async |store| {
        fill(&store, "Orders", [Entity::new("p", "r").unwrap()]).await;
    });
    let served = served([]);
    let (back, to) = target();
    let copy = |from: &str, to: &str| {
        let mut command = tables();
        command
            .args(["copy", from, to])
            .env("CLOUD", &served.secret);
        command.assert()
    };
    // The target has an empty table of the name.
    copy(&from, "env:CLOUD")
        .success()
        .stderr(contains("Employees: 2 rows copied, and equal"));
    copy("env:CLOUD", &to)
        .success()
        .stderr(contains("Orders: 1 rows copied, and equal"));
    assert_eq!(rows(&back.path().join("to"), "Employees"), entities);
    // Again: nothing to do.
    let again = tables()
        .args(["copy", &from, &to, "--json", "--quiet"])
        .assert()
        .success();
    again.stdout(contains(r#""was_there":true"#).and(contains(r#""verified":true"#)));
}

#[test]
fn azurite_is_a_source_and_a_target() {
    let connection = Azurite::shared().connection_string();
    let (_source, from) = embedded([of_every_type("p", "1")]);
    let (back, to) = target();
    let copy = |arguments: &[&str]| {
        tables()
            .arg("copy")
            .args(arguments)
            .env("AZURITE_CONNECTION_STRING", &connection)
            .assert()
            .success()
    };
    copy(&[&from, "azurite", "--rename", "Employees=CopiedByTables"]);
    copy(&[
        "azurite",
        &to,
        "--table",
        "CopiedByTables",
        "--rename",
        "CopiedByTables=Employees",
    ]);
    assert_eq!(
        rows(&back.path().join("to"), "Employees"),
        [of_every_type("p", "1")]
    );
}

#[test]
fn a_table_with_other_rows_is_overwritten_only_with_force() {
    let (_source, from) = embedded(employees());
    let (other, to) = embedded([Entity::new("Other", "1").unwrap().with("Age", 1)]);
    let copy = |arguments: &[&str]| tables().args(["copy", &from, &to]).args(arguments).assert();
    copy(&[])
        .code(2)
        .stderr(contains("the table 'Employees' of the target has rows").and(contains("--force")));
    assert_eq!(keys(other.path()), ["Other/1"]);
    copy(&["--force"]).success();
    assert_eq!(keys(other.path()).len(), 4);
    copy(&["--rename", "Employees=Second"]).success();
    assert_eq!(rows(other.path(), "Second").len(), 3);
}

#[test]
fn a_copied_index_finds_the_copies() {
    let (_source, from) = indexed(employees());
    let (back, to) = target();
    tables().args(["copy", &from, &to]).assert().success();
    let scrub = tables()
        .args(["index", &to, "Employees", "scrub"])
        .assert()
        .success();
    scrub.stdout(contains("3 entities, 3 entries, 0 dangling, 0 missing"));
    assert_eq!(keys(&back.path().join("to")).len(), 6);
}

/// The entities of a filter go through the indexes of the target.
#[test]
fn a_filter_copies_entities_into_the_indexes_of_the_target() {
    let (_source, from) = embedded(employees());
    let (_target, to) = indexed([]);
    let copy = tables()
        .args(["copy", &from, &to, "--filter", "PartitionKey eq 'Sales'"])
        .assert()
        .success();
    copy.stderr(contains("Employees: 2 rows copied, 0 skipped"));
    let scrub = tables()
        .args(["index", &to, "Employees", "scrub"])
        .assert()
        .success();
    scrub.stdout(contains("2 entities, 2 entries, 0 dangling, 0 missing"));
}

#[test]
fn a_copy_that_would_be_useless_is_refused_and_changes_nothing() {
    let (source, from) = embedded(employees());
    let (directory, to) = target();
    let copy = |arguments: &[&str]| tables().args(["copy", &from, &to]).args(arguments).assert();
    copy(&["--table", "Absent"])
        .code(1)
        .stderr(contains("has no table 'Absent'"));
    copy(&["--rename", "Absent=Other"])
        .code(2)
        .stderr(contains("'Absent' is not copied"));
    copy(&["--rename", "Employees"])
        .code(2)
        .stderr(contains("A=B"));
    copy(&["--rename", "Employees=1"])
        .code(2)
        .stderr(contains("invalid table name"));
    let twice = ["--rename", "Employees=First", "--rename", "Employees=Other"];
    copy(&twice).code(2).stderr(contains("two --rename"));
    copy(&["--filter", "Age gt"]).code(2);
    copy(&["--blobs", "somewhere"])
        .code(2)
        .stderr(contains("--to-blobs"));
    assert!(rows_absent(&directory));
    let same = tables().args(["copy", &from, &from]).assert().code(2);
    same.stderr(contains("--rename"));
    tables()
        .args(["copy", &from, &from, "--rename", "Employees=Second"])
        .assert()
        .success();
    assert_eq!(rows(source.path(), "Second").len(), 3);
}

/// The entries refer to the entities by the name of their table.
#[test]
fn entries_in_another_table_are_copied_with_their_entities() {
    let source = tempfile::tempdir().unwrap();
    on_disk(source.path(), async |store| {
        let (table, ages) = (
            TableName::new("Employees").unwrap(),
            TableName::new("Ages").unwrap(),
        );
        store.create_table(&table).await.unwrap();
        store.create_table(&ages).await.unwrap();
        let placement = Placement::OtherTable(ages);
        let index = Index::keyed("age", placement, "age_{Age}", "{PartitionKey}_{RowKey}").unwrap();
        let opened = IndexedEntities::open(
            store.into_shared(),
            table,
            vec![index],
            IndexOptions::local(),
        );
        let opened = opened.await.unwrap();
        for employee in employees() {
            opened.insert(employee).await.unwrap();
        }
        opened.flush().await;
    });
    let (directory, to) = target();
    let from = format!("embedded:{}", source.path().display());
    let copy = |arguments: &[&str]| tables().args(["copy", &from, &to]).args(arguments).assert();
    copy(&["--table", "Employees"])
        .code(2)
        .stderr(contains("in the table 'Ages'"));
    copy(&["--rename", "Employees=People"])
        .code(2)
        .stderr(contains("refer to the name"));
    copy(&["--rename", "Employees=Ages"])
        .code(2)
        .stderr(contains("two tables would be copied to 'Ages'"));
    assert!(rows_absent(&directory));
    copy(&[]).code(2).stderr(contains("--trust-definitions"));
    assert!(rows_absent(&directory));
    let all = copy(&["--trust-definitions"]).success();
    all.stderr(
        contains("Ages: 3 rows copied, and equal").or(contains("Ages: 4 rows copied, and equal")),
    );
    // A new table of the source is copied to a target that has the others already.
    on_disk(source.path(), async |store| {
        fill(&store, "Orders", employees()).await;
    });
    let again = copy(&["--json", "--quiet"]).success();
    again.stdout(contains(r#""table":"Orders","#).and(contains(r#""was_there":true"#)));
    assert_eq!(rows(&directory.path().join("to"), "Orders").len(), 3);
    let scrub = tables()
        .args(["index", &to, "Employees", "scrub"])
        .assert()
        .success();
    scrub.stdout(contains("3 entities, 3 entries, 0 dangling, 0 missing"));
}

/// The lists of such an index would be missing in the target.
#[test]
fn an_index_with_lists_in_blobs_is_copied_only_as_rows() {
    let source = tempfile::tempdir().unwrap();
    on_disk(source.path(), async |store| {
        let table = TableName::new("Employees").unwrap();
        store.create_table(&table).await.unwrap();
        let mut options = IndexOptions::local();
        options.blobs = Some(Arc::new(InMemory::new()));
        let indexes = vec![by_age().with_shape(Shape::Blob)];
        let opened = IndexedEntities::open(store.into_shared(), table, indexes, options)
            .await
            .unwrap();
        opened.insert(employees()[0].clone()).await.unwrap();
        opened.flush().await;
    });
    let (directory, to) = target();
    let from = format!("embedded:{}", source.path().display());
    let copy = tables().args(["copy", &from, &to]).assert().code(2);
    copy.stderr(
        contains("the index 'age'")
            .and(contains("lists in blobs"))
            .and(contains("--rows-only")),
    );
    assert!(rows_absent(&directory));
    tables()
        .args(["copy", &from, &to, "--rows-only"])
        .assert()
        .success();
}

/// The target has no table with rows: its directory may exist, because it is opened before the source is read.
fn rows_absent(directory: &TempDir) -> bool {
    let path = directory.path().join("to");
    !path.exists()
        || on_disk(&path, async |store| {
            store.all_tables(None).await.unwrap().is_empty()
        })
}

#[test]
fn unfinished_writes_are_finished_before_a_copy() {
    let (source, from) = indexed(employees());
    interrupt_write(source.path());
    let (_directory, to) = target();
    tables()
        .args(["copy", &from, &to])
        .assert()
        .code(1)
        .stderr(contains("not finished").and(contains("`tables upkeep STORE --once`")));
    tables()
        .args(["upkeep", &from, "--once"])
        .assert()
        .success();
    tables().args(["copy", &from, &to]).assert().success();
}
