//! `sas`.

use std::fs;

use azurite::Azurite;
use predicates::prelude::*;
use predicates::str::contains;
use table_azure::AzureTableStore;
use table_azure::service::StoredPolicy;
use table_core::model::{Entity, TableName};

use crate::support::{KEY, employees, fill, served, tables};

/// Signs with the account of a connection string, and returns the URL.
fn sign(secret: &str, arguments: &[&str]) -> String {
    let mut command = tables();
    command
        .arg("sas")
        .args(arguments)
        .env("AZURE_STORAGE_CONNECTION_STRING", secret);
    let done = command.assert().success().stderr("");
    let url = String::from_utf8(done.get_output().stdout.clone()).unwrap();
    assert!(!url.contains(KEY) && url.ends_with('\n'), "{url}");
    url.trim().to_owned()
}

fn with(url: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = tables();
    command.args(arguments).env("GUEST", url);
    command.assert()
}

/// A signature reads what it covers, and nothing else. Azurite takes signatures of ranges of keys, and does not enforce the ranges
/// (`docs/azure.md`).
fn a_signature_is_limited(secret: &str, enforces_ranges: bool) {
    let table = [
        "table",
        "azure",
        "Employees",
        "--permissions",
        "r",
        "--expires",
        "1h",
    ];
    let all = sign(secret, &table);
    with(&all, &["count", "env:GUEST", "Employees"])
        .success()
        .stdout("3\n");
    let delete = [
        "delete",
        "env:GUEST",
        "Employees",
        "--partition",
        "Sales",
        "--yes",
    ];
    // A command that writes reads the manifest first, which the signature does not cover.
    with(&all, &delete)
        .code(1)
        .stderr(contains("not allowed").and(contains("--with-manifest")));
    let sales = sign(secret, &[&table[..], &["--partition", "Sales"]].concat());
    let get = |url: &str, partition: &str, row: &str| {
        with(url, &["get", "env:GUEST", "Employees", partition, row])
    };
    let outside = |url: &str, partition: &str, row: &str| {
        let end = get(url, partition, row);
        if enforces_ranges {
            end.code(1)
        } else {
            end.success()
        };
    };
    get(&sales, "Sales", "1").success().stdout(contains("Ken"));
    outside(&sales, "Legal", "1");
    let rows = sign(
        secret,
        &[&table[..], &["--partition", "Sales", "--row-prefix", "2"]].concat(),
    );
    get(&rows, "Sales", "2").success();
    outside(&rows, "Sales", "1");
    let first = sign(
        secret,
        &[&table[..], &["--partition", "Sales", "--to-row", "1"]].concat(),
    );
    get(&first, "Sales", "1").success();
    outside(&first, "Sales", "2");
    let partitions = sign(
        secret,
        &[
            &table[..],
            &["--from-partition", "M", "--to-partition", "Z"],
        ]
        .concat(),
    );
    get(&partitions, "Sales", "1").success();
    outside(&partitions, "Legal", "1");
    with(&all, &["list", "env:GUEST"]).code(1);
    let account = sign(
        secret,
        &["account", "azure", "--permissions", "rl", "--expires", "7d"],
    );
    with(&account, &["list", "env:GUEST", "--prefix", "Emp"])
        .success()
        .stdout("Employees\n");
    get(&account, "Legal", "1").success();
    // Later, it will be valid.
    let later = sign(secret, &[&table[..], &["--starts", "30m"]].concat());
    get(&later, "Sales", "1").code(1);
}

/// With a signature for one table, commands work on this table: they neither list tables nor create one.
fn a_signature_of_a_table_is_enough(secret: &str, has_groups: bool) {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let table = [
        "table",
        "azure",
        "Employees",
        "--permissions",
        "raud",
        "--expires",
        "1h",
    ];
    let url = sign(secret, &[&table[..], &["--with-manifest"]].concat());
    let (local, monday, file) = (
        format!("embedded:{}", at("local")),
        at("monday"),
        at("e.csv"),
    );
    fs::write(&file, "PartitionKey,RowKey,Age\nNew,1,30\n").unwrap();
    let import = |table: &str| {
        with(
            &url,
            &[
                "import",
                "env:GUEST",
                table,
                "--from",
                &file,
                "--mode",
                "upsert",
            ],
        )
    };
    import("Employees").success();
    import("Orders").code(1);
    with(&url, &["count", "env:GUEST", "Employees"])
        .success()
        .stdout("4\n");
    with(&url, &["copy", "env:GUEST", &local, "--table", "Employees"]).success();
    with(&url, &["copy", "env:GUEST", &local])
        .code(1)
        .stderr(contains("name the table"));
    with(&url, &["copy", "env:GUEST", &local, "--table", "Orders"]).code(1);
    with(
        &url,
        &[
            "copy",
            &local,
            "env:GUEST",
            "--table",
            "Employees",
            "--filter",
            "Age eq 30",
        ],
    )
    .success();
    let copied = with(
        &url,
        &[
            "copy",
            &local,
            "env:GUEST",
            "--table",
            "Employees",
            "--force",
        ],
    );
    // Azurite refuses group transactions by the signature of a table.
    if has_groups {
        copied.success()
    } else {
        copied.code(1)
    };
    with(
        &url,
        &["backup", "env:GUEST", &monday, "--table", "Employees"],
    )
    .success();
    with(&url, &["backup", "env:GUEST", &at("all")])
        .code(1)
        .stderr(contains("name the table"));
    with(&url, &["doctor", "env:GUEST", "Employees"]).success();
    with(&url, &["doctor", "env:GUEST"])
        .code(1)
        .stderr(contains("name the table"));
    with(&url, &["upkeep", "env:GUEST", "Employees", "--once"]).success();
    with(
        &url,
        &[
            "delete",
            "env:GUEST",
            "Employees",
            "--partition",
            "New",
            "--yes",
        ],
    )
    .success();
    with(&url, &["count", "env:GUEST", "Employees"])
        .success()
        .stdout("3\n");
}

#[test]
fn a_server_enforces_signatures() {
    let served = served(employees());
    a_signature_is_limited(&served.secret, true);
    a_signature_of_a_table_is_enough(&served.secret, true);
}

#[test]
fn azurite_enforces_signatures() {
    let azurite = Azurite::start().expect("Azurite starts");
    let connection = azurite.connection_string();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = AzureTableStore::from_connection_string(&connection, None).unwrap();
        fill(&store, "Employees", employees()).await;
    });
    a_signature_is_limited(&connection, false);
    a_signature_of_a_table_is_enough(&connection, false);
    a_policy_gives_and_revokes(&connection);
}

/// The policy of the table has permissions and end; its removal revokes the signature.
fn a_policy_gives_and_revokes(secret: &str) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let store = AzureTableStore::from_connection_string(secret, None).unwrap();
    let table = TableName::new("Employees").unwrap();
    let now = chrono::Utc::now();
    let policy = StoredPolicy {
        id: "readers".to_owned(),
        // Azurite needs a start.
        start: Some(now - chrono::TimeDelta::minutes(5)),
        expiry: Some(now + chrono::TimeDelta::hours(1)),
        permissions: "r".parse().unwrap(),
    };
    let sign_by = |arguments: &[&str]| {
        sign(
            secret,
            &[
                &["table", "azure", "Employees", "--policy", "readers"][..],
                arguments,
            ]
            .concat(),
        )
    };
    let (by_policy, sales) = (sign_by(&[]), sign_by(&["--partition", "Sales"]));
    assert!(
        by_policy.contains("si=readers") && !by_policy.contains("se="),
        "{by_policy}"
    );
    let get = |url: &str| with(url, &["get", "env:GUEST", "Employees", "Sales", "1"]);
    get(&by_policy).code(1);
    runtime
        .block_on(store.set_stored_policies(&table, &[policy]))
        .unwrap();
    for url in [&by_policy, &sales] {
        get(url).success().stdout(contains("Ken"));
    }
    let delete = [
        "delete",
        "env:GUEST",
        "Employees",
        "--partition",
        "Sales",
        "--yes",
    ];
    with(&by_policy, &delete)
        .code(1)
        .stderr(contains("not allowed"));
    runtime
        .block_on(store.set_stored_policies(&table, &[]))
        .unwrap();
    get(&by_policy).code(1);
}

#[test]
fn a_server_follows_stored_policies() {
    a_policy_gives_and_revokes(&served(employees()).secret);
}

#[test]
fn json_has_the_times() {
    let served = served(employees());
    let mut command = tables();
    command.args([
        "sas",
        "table",
        "azure",
        "Employees",
        "--permissions",
        "ra",
        "--expires",
        "2099-01-31T00:00:00Z",
    ]);
    command.args(["--ip", "192.0.2.1-192.0.2.9", "--json"]);
    let done = command
        .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret)
        .assert()
        .success();
    let report: serde_json::Value = serde_json::from_slice(&done.get_output().stdout).unwrap();
    assert_eq!(report["expires"], "2099-01-31T00:00:00Z");
    let token = report["token"].as_str().unwrap();
    assert!(
        token.contains("sip=192%2E0%2E2%2E1%2D192%2E0%2E2%2E9") && token.contains("sp=ra"),
        "{token}"
    );
    assert!(report["url"].as_str().unwrap().ends_with(token));
}

/// Programs act by the manifest, so a guest does not get it by an oversight.
#[test]
fn a_signature_covers_the_manifest_only_if_asked() {
    let manifest = Entity::new("~~manifest", "type~x").unwrap();
    let served = served([Entity::new("Sales", "1").unwrap(), manifest]);
    let table = [
        "table",
        "azure",
        "Employees",
        "--permissions",
        "ra",
        "--expires",
        "1h",
    ];
    let guest = sign(&served.secret, &table);
    assert!(guest.contains("epk=%7E%7E"), "{guest}");
    with(&guest, &["get", "env:GUEST", "Employees", "Sales", "1"]).success();
    with(
        &guest,
        &["get", "env:GUEST", "Employees", "~~manifest", "type~x"],
    )
    .code(1);
    let owner = sign(&served.secret, &[&table[..], &["--with-manifest"]].concat());
    assert!(!owner.contains("epk"), "{owner}");
    with(
        &owner,
        &["get", "env:GUEST", "Employees", "~~manifest", "type~x"],
    )
    .success();
}

#[test]
fn a_wrong_command_signs_nothing() {
    let served = served(employees());
    let refused = |arguments: &[&str], reason: &str| {
        let mut command = tables();
        command
            .arg("sas")
            .args(arguments)
            .env("AZURE_STORAGE_CONNECTION_STRING", &served.secret);
        let end = command.assert().code(2).stdout("");
        end.stderr(contains(reason).and(contains(KEY).not()));
    };
    let table = [
        "table",
        "azure",
        "Employees",
        "--permissions",
        "r",
        "--expires",
        "1h",
    ];
    refused(
        &["table", "azure", "Employees", "--permissions", "r"],
        "--expires",
    );
    refused(
        &["table", "azure", "Employees", "--expires", "1h"],
        "--permissions",
    );
    refused(
        &[
            "table",
            "azure",
            "Employees",
            "--permissions",
            "x",
            "--expires",
            "1h",
        ],
        "'x' is not a letter",
    );
    refused(
        &[
            "table",
            "azure",
            "Employees",
            "--permissions",
            "",
            "--expires",
            "1h",
        ],
        "would allow nothing",
    );
    refused(
        &[
            "table",
            "azure",
            "Employees",
            "--permissions",
            "r",
            "--expires",
            "soon",
        ],
        "a duration such as 8h",
    );
    refused(
        &[
            "table",
            "azure",
            "Employees",
            "--permissions",
            "r",
            "--expires",
            "2020-01-01T00:00:00Z",
        ],
        "never be valid",
    );
    refused(
        &[
            "table",
            "azure",
            "1",
            "--permissions",
            "r",
            "--expires",
            "1h",
        ],
        "invalid table name",
    );
    refused(
        &[&table[..], &["--row-prefix", "1"]].concat(),
        "--partition",
    );
    refused(
        &[
            &table[..],
            &["--partition", "p", "--from-row", "2", "--to-row", "1"],
        ]
        .concat(),
        "--to-row is before",
    );
    refused(
        &[
            &table[..],
            &["--from-partition", "b", "--to-partition", "a"],
        ]
        .concat(),
        "is before --from-partition",
    );
    refused(&[&table[..], &["--partition", ""]].concat(), "empty key");
    refused(
        &[&table[..], &["--ip", "localhost"]].concat(),
        "an IPv4 address",
    );
    refused(
        &["account", "azure", "--permissions", "", "--expires", "1h"],
        "would allow nothing",
    );
    refused(
        &["account", "memory", "--permissions", "r", "--expires", "1h"],
        "has no account key",
    );
    // A signature cannot sign.
    let guest = sign(&served.secret, &table);
    with(
        &guest,
        &[
            "sas",
            "table",
            "env:GUEST",
            "Employees",
            "--permissions",
            "r",
            "--expires",
            "1h",
        ],
    )
    .code(2)
    .stderr(contains("account key").and(contains("sig=").not()));
}
