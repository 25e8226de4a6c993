//! Clients that may write some rows of a table, and everything that their rights do not reach.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use table_azure::AzureTableStore;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, MANIFEST_PARTITION, TableName};
use table_core::query::Query;
use table_core::store::{ErrorKind, Operation, ServiceProfile, TableStore, TableStoreExt as _};
use table_embedded::EmbeddedStore;
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Payload, Placement, Shape, Trust,
};
use table_server::TestServer;

use crate::authorization::{TableSas, account_sas};
use crate::client::{Ask, Client, Reply, encoded};

fn name(text: &str) -> TableName {
    TableName::new(text).unwrap()
}

fn memory() -> Arc<dyn TableStore> {
    Arc::new(MemoryStore::with_profile(ServiceProfile::SERVED))
}

async fn serve(store: &Arc<dyn TableStore>) -> Client {
    let server = TestServer::serve(Arc::clone(store)).await;
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    Client { server, address }
}

/// The rows of a table, without the rows in which the server registers that it maintains the table's indexes.
async fn rows(store: &Arc<dyn TableStore>, table: &str) -> Vec<Entity> {
    let mut rows = store.query_all(&name(table), &Query::new()).await.unwrap();
    let is_registration = |key: &Key| key.row().starts_with("process~") || key.row() == "table";
    rows.retain(|row| row.key().partition() != MANIFEST_PARTITION || !is_registration(row.key()));
    rows
}

fn sas(table: &'static str, permissions: &'static str, range: [&'static str; 4]) -> String {
    TableSas {
        table,
        range,
        ..TableSas::new(permissions)
    }
    .query()
}

const ALL: [&str; 4] = [""; 4];

fn insert(table: &str, entity: &serde_json::Value, sas: &str) -> Ask {
    Ask::new("POST", format!("{table}?{sas}")).json(entity.to_string())
}

/// The header of the programs of this library.
fn knows(ask: Ask) -> Ask {
    ask.with("x-table-manifest-aware", "1")
}

/// The definition of an index of one table whose entries go into another.
fn planted(other: &str) -> serde_json::Value {
    let definition = json!({
        "name": "ev",
        "entity": { "name": "", "discriminator": "none" },
        "placement": { "other_table": other },
        "keys": { "templates": { "partition_key": "{Tp}", "row_key": "{Tr}" } },
        "payload": "full",
        "shape": "row",
        "uniqueness": "no",
    });
    json!({
        "PartitionKey": "~~manifest", "RowKey": "index~~ev.00000000", "Format": 1, "State": "readable", "Shape": "\"row\"",
        "IndexTable": other, "Definition": definition.to_string(),
    })
}

/// The rights to add rows to one table, with and without a range, reach no other table and no control row of their own.
#[tokio::test]
async fn a_signature_for_one_table_reaches_no_other_in_memory() {
    reaches_no_other(memory()).await;
}

#[tokio::test]
async fn a_signature_for_one_table_reaches_no_other_embedded() {
    let directory = tempfile::tempdir().unwrap();
    reaches_no_other(Arc::new(
        EmbeddedStore::open(directory.path()).await.unwrap(),
    ))
    .await;
}

async fn reaches_no_other(store: Arc<dyn TableStore>) {
    for table in ["Guest", "Victim"] {
        store.create_table(&name(table)).await.unwrap();
    }
    let entry = Entity::new("vp", "owned").unwrap().with("Secret", "s");
    store
        .write(&name("Victim"), Operation::Insert(entry))
        .await
        .unwrap();
    let client = serve(&store).await;
    let victim = rows(&store, "Victim").await;
    let type_row = json!({
        "PartitionKey": "~~manifest", "RowKey": "type~", "Format": 1, "EntityType": "", "Discriminator": "\"none\"", "Version": 1,
        "Layout": "\"plain\"", "Encrypted": "[]", "Expiry": "{\"at\":{\"property\":\"Timestamp\"}}",
    });
    let control = [
        planted("Victim"),
        planted("TableServerSettings"),
        type_row,
        json!({ "PartitionKey": "~~manifest", "RowKey": "owner", "EntriesOf": "Guest" }),
        json!({ "PartitionKey": "~~manifest", "RowKey": "index~~x.00000000", "Definition": "no json" }),
        json!({ "PartitionKey": "p", "RowKey": "~~j_00000000000000000000000000000000", "Plan": "x" }),
    ];
    for (permissions, range) in [
        ("a", ALL),
        ("rau", ALL),
        ("raud", ["a", "", "", ""]),
        ("raud", ["~~manifest", "", "~~manifest", ""]),
    ] {
        let sas = sas("guest", permissions, range);
        for row in &control {
            let refused = client.plain(knows(insert("Guest", row, &sas))).await;
            assert_eq!(
                refused.refusal(),
                (403, "AuthorizationFailure"),
                "{permissions} {range:?} {row}"
            );
            let refused = client.plain(insert("Guest", row, &sas)).await;
            assert_eq!(
                refused.refusal(),
                (403, "AuthorizationFailure"),
                "{permissions} {range:?} {row}"
            );
        }
        if permissions.contains('a') && range[0] != "~~manifest" {
            let partition = format!("p{permissions}{}", range[0]);
            let entity =
                json!({ "PartitionKey": partition, "RowKey": "1", "Tp": "vp", "Tr": "new" });
            let written = client.plain(knows(insert("Guest", &entity, &sas))).await;
            assert_eq!(written.status, 201, "{written:?}");
        }
    }
    assert_eq!(rows(&store, "Victim").await, victim);
    assert!(
        rows(&store, "Guest")
            .await
            .iter()
            .all(|row| !row.key().is_system())
    );
    // The owner still writes.
    let entity = json!({ "PartitionKey": "p", "RowKey": "owner", "V": 1 });
    assert_eq!(
        client
            .owner(Ask::new("POST", "Guest").json(entity.to_string()))
            .await
            .status,
        201
    );
}

/// A client with full rights may plant a definition. It does not reach the table in which the server keeps its policies.
#[tokio::test]
async fn a_definition_does_not_reach_the_settings_of_the_server() {
    let store = memory();
    store.create_table(&name("Guest")).await.unwrap();
    let client = serve(&store).await;
    let policy =
        "<SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier></SignedIdentifiers>";
    let set = Ask {
        body: policy.to_owned(),
        ..Ask::new("PUT", "Guest?comp=acl")
    };
    assert_eq!(client.owner(set).await.status, 204);
    let settings = rows(&store, "TableServerSettings").await;
    let definition = planted("TableServerSettings");
    assert_eq!(
        client
            .owner(knows(
                Ask::new("POST", "Guest").json(definition.to_string())
            ))
            .await
            .status,
        201
    );
    let entity = json!({ "PartitionKey": "p", "RowKey": "1", "Tp": "policies", "Tr": "guest", "Value": "[]" });
    client
        .owner(Ask::new("POST", "Guest").json(entity.to_string()))
        .await;
    assert_eq!(rows(&store, "TableServerSettings").await, settings);
}

/// Rows in the manifest that say nothing, or definitions without consent, stop no write and reach no other table.
#[tokio::test]
async fn a_definition_without_consent_and_a_damaged_row_change_no_write() {
    let store = memory();
    for table in ["Guest", "Victim"] {
        store.create_table(&name(table)).await.unwrap();
    }
    let client = serve(&store).await;
    let mut damaged = planted("Guest");
    damaged["RowKey"] = json!("index~~damaged.00000000");
    damaged["Definition"] = json!("no json");
    let control = [
        planted("Victim"),
        damaged,
        json!({ "PartitionKey": "~~manifest", "RowKey": "type~x", "Format": "a text" }),
        json!({ "PartitionKey": "~~manifest", "RowKey": "owner", "EntriesOf": "Victim" }),
        json!({ "PartitionKey": "~~manifest", "RowKey": "pairing", "Id": "no id" }),
        json!({ "PartitionKey": "~~manifest", "RowKey": "of a later version" }),
    ];
    let owner = sas("guest", "raud", ALL);
    for row in &control {
        assert_eq!(
            client
                .plain(knows(insert("Guest", row, &owner)))
                .await
                .status,
            201,
            "{row}"
        );
    }
    let guest = sas("guest", "a", ALL);
    let entity = |row: &str| json!({ "PartitionKey": "p", "RowKey": row, "Tp": "vp", "Tr": "new" });
    for ask in [
        insert("Guest", &entity("1"), &guest),
        knows(insert("Guest", &entity("2"), &guest)),
    ] {
        let written = client.plain(ask).await;
        assert_eq!(written.status, 201, "{written:?}");
    }
    let owned = client
        .owner(Ask::new("POST", "Guest").json(entity("3").to_string()))
        .await;
    assert_eq!(owned.status, 201, "{owned:?}");
    assert_eq!(rows(&store, "Victim").await, []);
}

/// The entries of an index in force are written for a client that has no right to their table, and no client overwrites them.
#[tokio::test]
async fn entries_in_another_table_follow_and_are_not_overwritten() {
    let store = memory();
    for table in ["Staff", "Entries"] {
        store.create_table(&name(table)).await.unwrap();
    }
    let age = Index::keyed(
        "age",
        Placement::OtherTable(name("Entries")),
        "age_{Age:03}",
        "{PartitionKey}_{RowKey}",
    );
    let (client, options) = (serve(&store).await, IndexOptions::local());
    let handle = IndexedEntities::open(
        Arc::clone(&store),
        name("Staff"),
        vec![age.unwrap()],
        options,
    )
    .await
    .unwrap();
    let guest = sas("staff", "a", ["Sales", "", "Sales", ""]);
    let written = client
        .plain(insert(
            "Staff",
            &json!({ "PartitionKey": "Sales", "RowKey": "1", "Age": 41 }),
            &guest,
        ))
        .await;
    assert_eq!(written.status, 201, "{written:?}");
    let found = handle
        .all("age", &IndexQuery::partition("age_041"), Trust::Entity)
        .await
        .unwrap();
    assert_eq!(found.len(), 1);
    let before = rows(&store, "Entries").await;
    let path = "Entries(PartitionKey='age_041',RowKey='Sales_1')";
    for ask in [
        Ask::new("PUT", path).json("{\"Age\":1}"),
        Ask::new("MERGE", path).json("{\"OwnerRow\":\"2\"}"),
        Ask::new("DELETE", path).with("If-Match", "*"),
    ] {
        let refused = client.owner(ask).await;
        assert_eq!(refused.refusal(), (400, "InvalidInput"), "{refused:?}");
        assert!(refused.body.contains("is an index entry"), "{refused:?}");
    }
    assert_eq!(rows(&store, "Entries").await, before);
}

/// The parts of an answer that may depend on rows: everything but the times and ids of the request. A continuation token is encrypted with
/// a random number, so its presence and its length count.
fn shown(reply: &Reply) -> (u16, String, usize, usize) {
    let length = |name: &str| reply.header(&format!("x-ms-continuation-{name}")).len();
    let body = reply.body.split("RequestId").next().unwrap().to_owned();
    (
        reply.status,
        body,
        length("nextpartitionkey"),
        length("nextrowkey"),
    )
}

/// A range within a partition, over partitions, and with an open end; and a row of its first partition that it does not show.
const RANGES: [([&str; 4], &str); 3] = [
    (["shared", "own_1", "shared", "own_9"], "own_91"),
    (["shared", "own_1", "z", "own_9"], "other_5"),
    (["shared", "own_1", "", ""], "other_5"),
];

/// What a signature with a range shows does not depend on rows that it does not show: neither the content of a page nor the presence of a
/// continuation token. An attacker sends these queries to find a key by bisection.
async fn hidden_rows_change_no_answer(
    store: Arc<dyn TableStore>,
    range: [&'static str; 4],
    outside: &str,
) {
    let table = name("Tenants");
    store.create_table(&table).await.unwrap();
    let row = |partition: &str, row: &str| {
        Entity::new(partition, row)
            .unwrap()
            .with("V", 1)
            .with("Password", "p")
    };
    let write = async |entity: Entity| {
        store
            .write(&table, Operation::InsertOrReplace(entity))
            .await
            .map(drop)
            .unwrap();
    };
    for own in ["own_1", "own_2", "own_3"] {
        write(row("shared", own)).await;
    }
    write(row("z", "own_4")).await;
    let client = serve(&store).await;
    let mut filters = vec![String::new()];
    for key in [
        "", "a", "m", "other_5", "other_6", "own_2", "own_91", "z", "~~j_", "~~w_",
    ] {
        filters.push(format!("RowKey ge '{key}'"));
        filters.push(format!("RowKey lt '{key}'"));
        filters.push(format!("Password ge 'hunter' and RowKey ge '{key}'"));
        // As many comparisons as a filter may have, which leaves no room for the range.
        filters.push(vec![format!("RowKey ge '{key}'"); 15].join(" and "));
    }
    filters.extend(
        [
            "IndexName ge ''",
            "PartitionKey eq 'other'",
            "Password eq 'hunter2'",
            "V eq 2",
            "not (V eq 1)",
        ]
        .map(str::to_owned),
    );
    let answers = async || {
        let mut answers = Vec::new();
        for (filter, top, header) in filters.iter().flat_map(|filter| {
            ["", "$top=1&", "$top=2&", "$top=3&"]
                .iter()
                .flat_map(move |top| [(filter, top, false), (filter, top, true)])
        }) {
            let option = if filter.is_empty() {
                String::new()
            } else {
                format!("$filter={}&", encoded(filter))
            };
            let path = format!("Tenants()?{option}{top}{}", sas("tenants", "r", range));
            let ask = Ask::new("GET", path).with("Accept", "application/json;odata=nometadata");
            let reply = client.plain(if header { knows(ask) } else { ask }).await;
            assert_eq!(reply.status, 200, "{filter} {reply:?}");
            answers.push((filter.clone(), *top, header, shown(&reply)));
        }
        answers
    };
    let before = answers().await;
    // Rows outside of the range, before and after, in its partitions and in others; and control rows, also within the range.
    let keys = [
        ("shared", "a"),
        ("shared", outside),
        ("shared", "own_0"),
        ("another", "other_5"),
        ("~~manifest", "owner"),
        ("~~changes", "c"),
        ("~~t_1", "record"),
        ("shared", "~~j_1"),
        ("z", "~~j_1"),
    ];
    for (partition, key) in keys {
        write(row(partition, key).with("Password", "hunter2").with("V", 2)).await;
    }
    assert_eq!(before, answers().await);
}

#[tokio::test]
async fn hidden_rows_change_no_answer_in_memory() {
    for (range, outside) in RANGES {
        hidden_rows_change_no_answer(memory(), range, outside).await;
    }
}

#[tokio::test]
async fn hidden_rows_change_no_answer_embedded() {
    for (range, outside) in RANGES {
        let directory = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(directory.path()).await.unwrap();
        hidden_rows_change_no_answer(Arc::new(store), range, outside).await;
    }
}

/// Index entries and rows of wide entities within the range are hidden from other clients, however many there are.
#[tokio::test]
async fn index_entries_within_the_range_end_no_page() {
    let store = memory();
    let table = name("Tenants");
    store.create_table(&table).await.unwrap();
    for key in ["a", "m", "z"] {
        store
            .write(
                &table,
                Operation::Insert(Entity::new("p", key).unwrap().with("V", 1)),
            )
            .await
            .unwrap();
    }
    let client = serve(&store).await;
    let mut answers = Vec::new();
    for hidden in [false, true] {
        if hidden {
            for number in 0..2_500 {
                let entry = Entity::new("p", format!("n{number:04}"))
                    .unwrap()
                    .with("V", 1);
                let entry = entry
                    .with("IndexName", "email.1f0c77aa")
                    .with("OwnerPartition", "p")
                    .with("OwnerRow", "x");
                store.write(&table, Operation::Insert(entry)).await.unwrap();
                let part = Entity::new("p", format!("~~w_{number:04}~~000"))
                    .unwrap()
                    .with("V", 1);
                store.write(&table, Operation::Insert(part)).await.unwrap();
            }
        }
        for query in [
            "",
            "$top=1&",
            "$top=2&",
            "$top=3&",
            "$filter=V%20eq%201&$top=2&",
            "$filter=V%20eq%202&",
            "$select=V&$top=2&",
        ] {
            let path = format!(
                "Tenants()?{query}{}",
                sas("tenants", "r", ["p", "", "p", ""])
            );
            let reply = client
                .plain(Ask::new("GET", path).with("Accept", "application/json;odata=nometadata"))
                .await;
            answers.push(shown(&reply));
        }
    }
    let (before, after) = answers.split_at(answers.len() / 2);
    assert_eq!(before, after);
}

fn indexes() -> Vec<Index> {
    let email = Index::keyed("email", Placement::SamePartition, "", "email_{Email}").unwrap();
    let badge = Index::keyed("badge", Placement::OtherPartition, "badge_{Badge}", "value").unwrap();
    vec![
        Index::keyed(
            "age",
            Placement::OtherPartition,
            "age_{Age:03}",
            "{PartitionKey}_{RowKey}",
        )
        .unwrap(),
        email.unique_within_partition(),
        badge.unique_within_table(),
    ]
}

async fn indexed(indexes: Vec<Index>) -> (Arc<dyn TableStore>, Client, IndexedEntities) {
    let store = memory();
    store.create_table(&name("Staff")).await.unwrap();
    let client = serve(&store).await;
    let handle = IndexedEntities::open(
        Arc::clone(&store),
        name("Staff"),
        indexes,
        IndexOptions::local(),
    )
    .await
    .unwrap();
    (store, client, handle)
}

/// The keys of index entries at which rows of other clients are: the write is refused before anything is written.
#[tokio::test]
async fn an_entry_that_meets_a_row_of_another_client_is_refused_in_memory() {
    refused_at_foreign_rows(memory()).await;
}

#[tokio::test]
async fn an_entry_that_meets_a_row_of_another_client_is_refused_embedded() {
    let directory = tempfile::tempdir().unwrap();
    refused_at_foreign_rows(Arc::new(
        EmbeddedStore::open(directory.path()).await.unwrap(),
    ))
    .await;
}

async fn refused_at_foreign_rows(store: Arc<dyn TableStore>) {
    for table in ["Staff", "Entries"] {
        store.create_table(&name(table)).await.unwrap();
    }
    let client = serve(&store).await;
    let in_entries = || Placement::OtherTable(name("Entries"));
    let boss = Index::keyed("boss", Placement::OtherPartition, "offices", "{Leads}").unwrap();
    let indexes = vec![
        Index::keyed("row", in_entries(), "row", "{Row}").unwrap(),
        Index::keyed("list", in_entries(), "list", "{List}")
            .unwrap()
            .with_shape(Shape::LIST),
        Index::keyed("near", Placement::OtherPartition, "near", "{Near}").unwrap(),
        Index::keyed("badge", in_entries(), "badge", "{Badge}")
            .unwrap()
            .unique_within_table(),
        boss.with_shape(Shape::copy("Boss", ["Name"])),
    ];
    let (options, staff) = (IndexOptions::local(), name("Staff"));
    let handle = IndexedEntities::open(Arc::clone(&store), staff.clone(), indexes, options)
        .await
        .unwrap();
    // A stranger's rows: ordinary entities at the keys of entries.
    for (table, partition) in [
        ("Entries", "row"),
        ("Entries", "list"),
        ("Entries", "badge"),
        ("Staff", "near"),
    ] {
        let row = json!({ "PartitionKey": partition, "RowKey": "met", "Secret": "s" });
        let planted = client
            .owner(Ask::new("POST", table).json(row.to_string()))
            .await;
        assert_eq!(planted.status, 201, "{planted:?}");
    }
    for row in [
        json!({ "PartitionKey": "offices", "RowKey": "met", "Floor": 1 }),
        json!({ "PartitionKey": "first", "RowKey": "1", "Leads": "met", "Name": "ann", "Near": "first" }),
        json!({ "PartitionKey": "own", "RowKey": "1", "Row": "free", "List": "free", "Near": "free", "Badge": "free" }),
    ] {
        let written = client
            .owner(Ask::new("POST", "Staff").json(row.to_string()))
            .await;
        assert_eq!(written.status, 201, "{written:?}");
    }
    // The server deletes the journal rows of these writes after its answers.
    let is_journal_row = |row: &Entity| row.key().row().starts_with("~~j_");
    while rows(&store, "Staff").await.iter().any(is_journal_row) {
        tokio::task::yield_now().await;
    }
    let before = (rows(&store, "Staff").await, rows(&store, "Entries").await);
    let guest = sas("staff", "raud", ["own", "", "own", ""]);
    for (property, value) in [
        ("Row", "met"),
        ("List", "met"),
        ("Near", "met"),
        ("Near", "first"),
        ("Badge", "met"),
        ("Leads", "met"),
    ] {
        let new = json!({ "PartitionKey": "own", "RowKey": "2", property: value });
        let changed = json!({ property: value }).to_string();
        let existing = "Staff(PartitionKey='own',RowKey='1')";
        for ask in [
            Ask::new("POST", "Staff").json(new.to_string()),
            Ask::new("PUT", "Staff(PartitionKey='own',RowKey='2')").json(new.to_string()),
            Ask::new("MERGE", existing).json(changed.clone()),
            Ask::new("PUT", existing).json(changed.clone()),
        ] {
            let refused = client.owner(ask.clone()).await;
            assert_eq!(
                refused.refusal(),
                (409, "EntityAlreadyExists"),
                "{property} {refused:?}"
            );
            let path = format!("{}?{guest}", ask.path);
            let refused = client.plain(Ask { path, ..ask }).await;
            assert_eq!(
                refused.refusal(),
                (409, "EntityAlreadyExists"),
                "{property} {refused:?}"
            );
            assert!(refused.body.contains("is taken"), "{refused:?}");
        }
    }
    let after = (rows(&store, "Staff").await, rows(&store, "Entries").await);
    assert_eq!(
        after, before,
        "nothing is written, and no journal row stays"
    );
    let swept = handle
        .journal()
        .sweep(&[name("Entries")], Duration::ZERO)
        .await
        .unwrap();
    assert_eq!((swept.applied, swept.failed, swept.left), (0, 0, 0));
    let free = json!({ "PartitionKey": "own", "RowKey": "2", "Row": "2", "List": "free", "Near": "2", "Badge": "2" });
    let written = client.plain(insert("Staff", &free, &guest)).await;
    assert_eq!(written.status, 201, "{written:?}");
}

/// The text of a conflict names the index, and no other entity, also to a credential that reads every row.
#[tokio::test]
async fn a_conflict_names_the_index_and_no_other_entity() {
    let (_, client, handle) = indexed(indexes()).await;
    let owned = Entity::new("secret_tenant", "secret_row")
        .unwrap()
        .with("Age", 1)
        .with("Badge", "red")
        .with("Email", "e");
    handle.insert(owned).await.unwrap();
    let other = Entity::new("Sales", "secret_row")
        .unwrap()
        .with("Age", 1)
        .with("Badge", "blue")
        .with("Email", "ken");
    handle.insert(other).await.unwrap();
    let ranged = sas("staff", "raud", ["Sales", "", "Sales", ""]);
    let rows = sas("staff", "raud", ["Sales", "t", "Sales", "z"]);
    let adder = sas("staff", "a", ALL);
    let group = |value: &serde_json::Value, sas: &str| {
        let json = value.to_string();
        let body = format!(
            "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\nContent-Type: application/http\r\n\
             Content-Transfer-Encoding: binary\r\n\r\nPOST http://h/devstoreaccount1/Staff HTTP/1.1\r\nContent-Type: \
             application/json\r\nAccept: application/json\r\nContent-Length: {}\r\n\r\n{json}\r\n--c--\r\n--b--\r\n",
            json.len()
        );
        Ask {
            body,
            ..Ask::new("POST", format!("$batch?{sas}"))
                .with("Content-Type", "multipart/mixed; boundary=b")
        }
    };
    let taken_badge =
        json!({ "PartitionKey": "Sales", "RowKey": "u", "Age": 1, "Badge": "red", "Email": "new" });
    let taken_email =
        json!({ "PartitionKey": "Sales", "RowKey": "u", "Age": 1, "Badge": "new", "Email": "ken" });
    for sas in [&ranged, &rows, &adder, &account_sas("rau", "t", "o")] {
        for (entity, index) in [(&taken_badge, "'badge'"), (&taken_email, "'email'")] {
            let alone = client.plain(insert("Staff", entity, sas)).await;
            assert_eq!(alone.refusal(), (409, "EntityAlreadyExists"), "{alone:?}");
            let grouped = client.plain(group(entity, sas)).await;
            assert!(grouped.body.contains("EntityAlreadyExists"), "{grouped:?}");
            for reply in [alone, grouped] {
                assert!(!reply.body.contains("secret"), "{reply:?}");
                assert!(
                    reply.body.contains(index) && reply.body.contains("is taken"),
                    "{reply:?}"
                );
            }
        }
    }
}

/// The protocol has no code for most kinds of the library: a refusal arrives in the client with its text, as the kind of its code.
#[tokio::test]
async fn a_refusal_has_the_kind_of_its_code_in_the_client() {
    let code = Index::new("code", Placement::SamePartition, "1", |_| Ok(None))
        .with_discriminator("EntityType", "Ticket");
    let indexes = indexes().into_iter().chain([code]).collect();
    let (_, client, handle) = indexed(indexes).await;
    let entity = |row: &str| Entity::new("Sales", row).unwrap().with("Email", "ken");
    handle.insert(entity("secret_row")).await.unwrap();
    let adder = program(&client, &sas("staff", "a", ALL));
    let refused = async |entity| {
        let written = adder.write(&name("Staff"), Operation::Insert(entity)).await;
        written.unwrap_err()
    };
    let taken = refused(entity("new")).await;
    assert!(taken.is_already_exists(), "{taken}");
    assert_eq!(taken.owner(), None, "the answer has no owner");
    assert!(!format!("{taken:?}").contains("secret"), "{taken:?}");
    let ticket = Entity::new("Sales", "new").unwrap();
    let mismatch = refused(ticket.with("EntityType", "Ticket")).await;
    assert!(
        matches!(mismatch.kind(), ErrorKind::Rejected(text) if text.contains("'code'")),
        "{mismatch:?}"
    );
    let answer = mismatch.answer().unwrap();
    assert_eq!(
        (answer.status, answer.code.as_deref()),
        (400, Some("InvalidInput"))
    );
}

/// The header does not let a program with less than full rights write past the indexes, nor write or change an entry.
#[tokio::test]
async fn the_server_maintains_indexes_for_programs_with_less_than_full_rights() {
    let (store, client, handle) = indexed(indexes()).await;
    let person = |row: &str, email: &str| json!({ "PartitionKey": "Sales", "RowKey": row, "Age": 41, "Email": email });
    let credentials = [
        sas("staff", "raud", ["Sales", "", "Sales", ""]),
        sas("staff", "rau", ALL),
        sas("staff", "a", ALL),
    ];
    for (number, sas) in credentials.iter().enumerate() {
        let row = number.to_string();
        let written = client
            .plain(knows(insert("Staff", &person(&row, &row), sas)))
            .await;
        assert_eq!(written.status, 201, "{written:?}");
        let query = IndexQuery::partition("age_041");
        let found = handle.all("age", &query, Trust::Entity).await.unwrap();
        assert_eq!(found.len(), number + 1, "the entry was written");
    }
    let before = rows(&store, "Staff").await;
    let entry = |row: &str| {
        json!({
            "PartitionKey": "Sales", "RowKey": row, "IndexName": before.iter().find(|r| r.key().row() == "email_0").unwrap()
                .get("IndexName").map(|value| match value { table_core::model::ValueRef::String(text) => text.to_owned(), _ => panic!() }),
            "OwnerPartition": "Sales", "OwnerRow": "0",
        })
    };
    for sas in &credentials[..2] {
        let planted = client
            .plain(knows(insert("Staff", &entry("email_planted"), sas)))
            .await;
        assert_eq!(planted.refusal(), (400, "InvalidInput"), "{planted:?}");
        assert!(planted.body.contains("IndexName"), "{planted:?}");
        let path = format!("Staff(PartitionKey='Sales',RowKey='email_0')?{sas}");
        for ask in [
            Ask::new("PUT", &path).json("{\"Email\":\"x\"}"),
            Ask::new("MERGE", &path).json("{\"OwnerRow\":\"1\"}"),
            Ask::new("PUT", &path)
                .json("{\"Email\":\"x\"}")
                .with("If-Match", "*"),
            Ask::new("MERGE", &path)
                .json("{\"Other\":\"1\"}")
                .with("If-Match", "*"),
        ] {
            for ask in [ask.clone(), knows(ask)] {
                let refused = client.plain(ask).await;
                assert_eq!(refused.refusal(), (400, "InvalidInput"), "{refused:?}");
                assert!(refused.body.contains("is an index entry"), "{refused:?}");
            }
        }
    }
    let delete = Ask::new(
        "DELETE",
        format!(
            "Staff(PartitionKey='Sales',RowKey='email_0')?{}",
            credentials[0]
        ),
    )
    .with("If-Match", "*");
    assert_eq!(
        client.plain(knows(delete)).await.refusal(),
        (400, "InvalidInput")
    );
    assert_eq!(rows(&store, "Staff").await, before);
}

/// Indexes that the server cannot maintain are refused by name, with the header too.
#[tokio::test]
async fn an_index_by_a_function_needs_full_rights() {
    let first = Index::new("first", Placement::SamePartition, "1", |entity| {
        Key::new(
            entity.key().partition(),
            format!("first_{}", entity.key().row()),
        )
        .map(Some)
    });
    let (store, client, handle) = indexed(vec![first]).await;
    handle.insert(Entity::new("p", "1").unwrap()).await.unwrap();
    let before = rows(&store, "Staff").await;
    let entity = json!({ "PartitionKey": "p", "RowKey": "2" });
    for sas in [
        sas("staff", "rau", ALL),
        sas("staff", "raud", ["p", "", "p", ""]),
    ] {
        let refused = client.plain(knows(insert("Staff", &entity, &sas))).await;
        assert_eq!(refused.refusal(), (400, "InvalidInput"), "{refused:?}");
        assert!(
            refused.body.contains("the index 'first'") && refused.body.contains("r, a, u and d"),
            "{refused:?}"
        );
    }
    assert_eq!(rows(&store, "Staff").await, before);
    let full = client
        .plain(knows(insert("Staff", &entity, &sas("staff", "raud", ALL))))
        .await;
    assert_eq!(full.status, 201, "{full:?}");
}

/// A request that would make more entries than one entity may have is refused before they are made: each has a copy of the entity.
#[tokio::test]
async fn many_long_entries_of_one_entity_are_refused() {
    let tags = Index::keyed(
        "tag",
        Placement::OtherPartition,
        "tag_{Tags[]}",
        "{PartitionKey}_{RowKey}",
    )
    .unwrap();
    let (store, client, _) = indexed(vec![tags.with_payload(Payload::Full)]).await;
    let before = rows(&store, "Staff").await;
    let tags =
        serde_json::Value::from((0..9_000).map(|tag| format!("{tag:x}")).collect::<Vec<_>>());
    // A String of an entity has up to 32 Ki characters.
    let long: String = tags.to_string().chars().take(32_000).collect();
    let list = format!("{}]", &long[..long.rfind(',').unwrap()]);
    let entity = json!({ "PartitionKey": "p", "RowKey": "1", "Tags": list });
    let refused = client
        .plain(insert("Staff", &entity, &sas("staff", "a", ALL)))
        .await;
    assert_eq!(refused.refusal(), (400, "InvalidInput"), "{refused:?}");
    assert!(
        refused.body.contains("1000") && refused.body.contains("tag"),
        "{refused:?}"
    );
    assert_eq!(rows(&store, "Staff").await, before);
}

/// A store with a signature, as a program of the library opens it.
fn program(client: &Client, sas: &str) -> AzureTableStore {
    AzureTableStore::with_sas(&format!("{}?{sas}", client.server.endpoint()), None).unwrap()
}

#[derive(Clone, Debug, PartialEq, table_core::prelude::TableEntity)]
#[entity(type = "Report", wide)]
struct Report {
    #[partition_key]
    unit: String,
    #[row_key]
    name: String,
    text: String,
}

/// The rows of a wide entity need the rights that an entity needs. The row of its type in the manifest needs full rights.
#[tokio::test]
async fn a_program_writes_wide_entities_with_the_rights_of_entities() {
    use table_patterns::wide::WideTable;
    let store = memory();
    store.create_table(&name("Reports")).await.unwrap();
    let client = serve(&store).await;
    let report = |name: &str| Report {
        unit: "Sales".to_owned(),
        name: name.to_owned(),
        text: "long".to_owned(),
    };
    let table = |permissions| {
        WideTable::<Report>::new(
            program(&client, &sas("reports", permissions, ALL)),
            "Reports",
        )
        .unwrap()
    };
    let refused = table("rau").insert(&report("1")).await.unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("permissions r, a, u and d on all rows"),
        "{refused}"
    );
    assert_eq!(rows(&store, "Reports").await, []);
    table("raud").insert(&report("1")).await.unwrap();
    // The type is declared.
    table("rau").insert(&report("2")).await.unwrap();
    assert!(table("r").insert(&report("3")).await.is_err());
    let read = table("r")
        .get(&Report::key("Sales", "2").unwrap())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read.into_inner(), report("2"));
}

/// Neither answers nor refusals repeat a signature.
#[tokio::test]
async fn no_answer_repeats_a_signature() {
    let store = memory();
    store.create_table(&name("Guest")).await.unwrap();
    let client = serve(&store).await;
    let sas = sas("guest", "r", ALL);
    let signature = sas.split("sig=").nth(1).unwrap().to_owned();
    let decoded = percent_encoding::percent_decode_str(&signature)
        .decode_utf8()
        .unwrap()
        .into_owned();
    for path in [
        format!("Guest()?$filter=A%20eq%20'x'%20?{sas}"),
        format!(
            "Guest()?$filter=A%20{}",
            encoded(&format!("?sig={decoded}"))
        ),
        format!(
            "Guest()?$filter=A%20{}",
            encoded(&format!("?sv=1&sig={decoded}&se=1"))
        ),
        format!("Guest{}", encoded(&format!("?{sas}"))),
        format!("Guest{}", encoded(&format!("?sig={decoded}"))),
        format!("Guest()?$top=sig={signature}&{sas}"),
        format!("Guest()?$sig={signature}&{sas}"),
        format!("Guest()?${sas}"),
        format!("Guest()?{sas}&{sas}"),
        format!("Guest(PartitionKey='a',RowKey='b'?{sas})"),
        format!("Guest(PartitionKey='a',RowKey='b?sig={signature}')?x"),
    ] {
        let reply = client.plain(Ask::new("GET", &path)).await;
        let text = format!("{:?} {}", reply.headers, reply.body);
        for repeated in [&signature, &decoded] {
            assert!(!text.contains(repeated.as_str()), "{path}: {reply:?}");
        }
    }
}
