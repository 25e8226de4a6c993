//! Text of others: no control character and no change of the direction of text reaches a terminal.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use predicates::str::contains;
use table_core::manifest::{EntityType, IndexDefinition, IndexState, Placement, StoredIndex};
use table_core::model::{Entity, TableName};
use table_core::store::{Operation, TableStore as _};
use table_core::typed::Discriminator;

use crate::support::{embedded, employees, fill, on_disk, tables};

/// Clears a screen.
const CLEAR: &str = "\u{1b}[2J";
/// Turns the direction of text.
const TURN: &str = "\u{202e}";

/// Refuses active characters in what a command has printed, and returns both outputs.
fn inert(done: &Assert) -> String {
    let output = done.get_output();
    let text = [&output.stdout, &output.stderr]
        .map(|bytes| String::from_utf8(bytes.clone()).unwrap())
        .concat();
    let is_active = |c: char| c.is_control() && !['\n', '\t'].contains(&c) || TURN.contains(c);
    assert!(!text.contains(is_active), "{text:?}");
    text
}

#[test]
fn names_in_a_manifest_are_escaped() {
    let (directory, store) = embedded(employees());
    on_disk(directory.path(), async |store| {
        let definition = IndexDefinition {
            entity: EntityType {
                name: format!("Person{CLEAR}").into(),
                discriminator: Discriminator::Property("EntityType".into()),
                ..EntityType::ANY
            },
            ..IndexDefinition::keyed(
                format!("age{TURN}"),
                Placement::SamePartition,
                None,
                "a_{Age}".parse().unwrap(),
            )
        };
        let row = StoredIndex::new(&definition, IndexState::DeleteOnly)
            .to_entity()
            .unwrap();
        store
            .write(
                &TableName::new("Employees").unwrap(),
                Operation::Insert(row),
            )
            .await
            .unwrap();
    });
    let listed = inert(&tables().args(["list", &store, "--long"]).assert().success());
    assert!(listed.contains(r"age\u202e (delete-only)"), "{listed}");
    let indexes = inert(
        &tables()
            .args(["index", &store, "Employees", "list"])
            .assert()
            .success(),
    );
    assert!(
        indexes.contains(r"age\u202e") && indexes.contains(r"of Person\u001b[2J"),
        "{indexes}"
    );
    let found = inert(&tables().args(["doctor", &store]).assert().success());
    assert!(found.contains(r"the index age\u202e."), "{found}");
    let unknown = inert(
        &tables()
            .args(["index", &store, "Employees", "scrub", "x"])
            .assert()
            .code(2),
    );
    assert!(unknown.contains(r"age\u202e"), "{unknown}");
}

#[test]
fn keys_values_and_headers_are_escaped_for_people_and_exact_for_programs() {
    let key = format!("a{TURN}");
    let (_directory, store) = embedded([Entity::new("p", &key)
        .unwrap()
        .with("Text", format!("{CLEAR}{TURN}\u{9b}2J\n"))]);
    let query = |format: &str| {
        tables()
            .args(["query", &store, "Employees", "--format", format])
            .assert()
            .success()
    };
    let table = inert(&query("table"));
    assert!(table.contains(r"\u001b[2J\u202e\u009b2J\u000a"), "{table}");
    // Standard output is no terminal here.
    for format in ["json", "csv"] {
        let out = String::from_utf8(query(format).get_output().stdout.clone()).unwrap();
        assert!(
            out.contains(&format!("{TURN}\u{9b}2J")),
            "{format}: {out:?}"
        );
    }
    let import = |csv: String| {
        let mut import = tables();
        import
            .args([
                "import",
                &store,
                "Employees",
                "--from",
                "-",
                "--format",
                "csv",
            ])
            .write_stdin(csv);
        import.assert()
    };
    // A column that no property can be called, and a row that exists, are named.
    let csv = format!("PartitionKey,RowKey,a{CLEAR}\np,{key},7\n");
    assert!(inert(&import(csv).code(2)).contains(r"a\u{1b}[2J"));
    let csv = format!("PartitionKey,RowKey,a\np,{key},7\n");
    assert!(inert(&import(csv).code(3)).contains(r"a\u202e"));
    let absent = inert(
        &tables()
            .args(["get", &store, "Employees", "p", TURN])
            .assert()
            .code(1),
    );
    assert!(absent.contains(r"\u202e"), "{absent}");
    inert(
        &tables()
            .args(["query", &store, "Employees", "--top", CLEAR])
            .assert()
            .code(2),
    );
    inert(
        &tables()
            .args(["query", &store, "Employees", "--top", TURN])
            .assert()
            .code(2),
    );
}

#[test]
fn the_source_of_a_backup_is_escaped() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join(format!("x{CLEAR}\nerror: "));
    on_disk(&directory, async |store| {
        fill(&store, "Employees", employees()).await;
    });
    let (store, backup) = (
        format!("embedded:{}", directory.display()),
        place.path().join("monday"),
    );
    tables()
        .args(["backup", &store, backup.to_str().unwrap(), "--quiet"])
        .assert()
        .success();
    let check = ["restore", backup.to_str().unwrap(), "memory", "--check"];
    let shown = inert(&tables().args(check).assert().success());
    assert!(shown.contains(r"/x\u001b[2J\u000aerror:  from "), "{shown}");
    assert_eq!(shown.lines().count(), 1);
}

/// Answers every request with an error of a service whose text has control characters.
fn malicious_service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let _ = connection.read(&mut [0; 8192]);
            let text = format!(r"{}\u001b[2J\nerror: \u202eno", "see");
            let body = format!(
                r#"{{"odata.error":{{"code":"Forbidden","message":{{"lang":"en","value":"{text}"}}}}}}"#
            );
            let head = format!(
                "HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            let _ = connection.write_all(format!("{head}{body}").as_bytes());
        }
    });
    format!("AccountName=orders;AccountKey=c2VjcmV0;TableEndpoint=http://{address}/orders")
}

#[test]
fn the_error_of_a_service_is_escaped_and_begins_no_line() {
    let mut list = tables();
    list.args(["list", "env:BAD"])
        .env("BAD", malicious_service());
    let shown = inert(&list.assert().code(1));
    assert!(shown.contains(r"see\u001b[2J"), "{shown}");
    assert_eq!(
        shown
            .lines()
            .filter(|line| line.starts_with("error:"))
            .count(),
        1,
        "{shown}"
    );
}

#[test]
fn secrets_in_the_wrong_place_are_not_repeated() {
    let key = "c2VjcmV0LWtleS1vZi10aGUtdGVzdA==";
    let account = format!("orders:env:{key}");
    let (variable, file) = (format!("env:{key}"), format!("file:{key}"));
    let keys = format!(r#"{{"keys":[{{"id":"a","aes":"{key}"}}]}}"#);
    for arguments in [
        &["serve", "memory", "--account", &account][..],
        &[
            "serve",
            "memory",
            "--account",
            &format!("orders:file:{key}"),
        ],
        &["serve", "memory", "--account", &format!("{key}:env:ABSENT")],
        &["list", &variable],
        &["list", &file],
        &["list", &format!("?sv=2019-02-02&sig={key}")],
        &["list", &format!("embedded:x?sig={key}")],
        &["list", key],
        &["list", &format!("sig={key}")],
        &["list", &format!("TableEndpoint=https://a;sig={key}")],
        &["list", "memory", key],
        &["query", "memory", key],
        &["query", "memory", "Employees", &format!("--format={key}")],
        &["restore", "monday", key],
        &["query", "memory", "Employees", "--keys", &keys],
        &["query", "memory", "Employees", "--keys", key],
    ] {
        tables()
            .args(arguments)
            .assert()
            .code(2)
            .stdout("")
            .stderr(contains(key).not());
    }
    // A name is repeated: it tells what to set.
    tables()
        .args(["list", "env:ABSENT"])
        .assert()
        .code(2)
        .stderr(contains("ABSENT"));
}
