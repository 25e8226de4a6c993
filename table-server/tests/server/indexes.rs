//! Clients that do not know manifests, and tables with indexes and layouts.

use std::sync::Arc;

use table_azure::AzureTableStore;
use table_core::memory::MemoryStore;
use table_core::model::{Entity, Key, MANIFEST_PARTITION, PartitionKey, TableName};
use table_core::prelude::TableEntity;
use table_core::query::Query;
use table_core::store::{ServiceProfile, TableStore, TableStoreExt as _};
use table_encryption::{AesKeyWrap, EncryptedStore, Keys};
use table_patterns::Database;
use table_patterns::changes::ChangeKind;
use table_patterns::index::{
    Index, IndexOptions, IndexQuery, IndexedEntities, Placement, ScrubMode, Trust,
};
use table_patterns::spread::SpreadTable;
use table_server::TestServer;

use crate::client::{Ask, Client, Reply};

fn table() -> TableName {
    TableName::new("Staff").unwrap()
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

/// A server over a store with a table of two indexes, and the handle of a program in this process.
async fn indexed() -> (Client, IndexedEntities) {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    store.create_table(&table()).await.unwrap();
    let client = serve(store.clone()).await;
    let handle = IndexedEntities::open(
        Arc::new(store.clone()),
        table(),
        indexes(),
        IndexOptions::local(),
    )
    .await
    .unwrap();
    (client, handle)
}

/// What clients in other languages write is in the feed of its type.
#[tokio::test]
async fn writes_of_other_clients_are_in_the_feed() {
    #[derive(TableEntity)]
    #[entity(type = "Person", feed)]
    struct Person {
        #[partition_key]
        department: String,
        #[row_key]
        row: String,
    }
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let people = Database::with_options(store.clone(), IndexOptions::local())
        .table::<Person>(table())
        .unwrap();
    people.declare().await.unwrap();
    let client = serve(store).await;
    let body = |row: &str, of: &str| {
        format!("{{\"PartitionKey\":\"Sales\",\"RowKey\":\"{row}\",\"EntityType\":\"{of}\"}}")
    };
    let requests = [
        Ask::new("POST", "Staff").json(body("1", "Person")),
        Ask::new("POST", "Staff").json(body("2", "Dog")),
        Ask::new("PUT", address("3")).json(body("3", "Person")),
        Ask::new("MERGE", address("1")).json("{\"Age\":42}"),
        Ask::new("DELETE", address("3")).with("If-Match", "*"),
    ];
    for request in requests {
        let reply = client.owner(request).await;
        assert!((200..300).contains(&reply.status), "{reply:?}");
    }
    let sales = PartitionKey::new("Sales").unwrap();
    let changes = people.changes().after(&sales, 0).await.unwrap();
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.kind, change.key.row(), &*change.entity_type))
        .collect();
    let expected = [
        (ChangeKind::Inserted, "1", "Person"),
        (ChangeKind::Inserted, "3", "Person"),
        (ChangeKind::Updated, "1", "Person"),
        (ChangeKind::Deleted, "3", "Person"),
    ];
    assert_eq!(found, expected);
}

async fn serve(store: MemoryStore) -> Client {
    let server = TestServer::serve(store).await;
    let address = server.endpoint().split('/').nth(2).unwrap().to_owned();
    Client { server, address }
}

fn person(row: &str, age: i32, email: &str) -> String {
    format!(
        "{{\"PartitionKey\":\"Sales\",\"RowKey\":\"{row}\",\"Age\":{age},\"Email\":\"{email}\"}}"
    )
}

fn address(row: &str) -> String {
    format!("Staff(PartitionKey='Sales',RowKey='{row}')")
}

async fn rows_of_age(handle: &IndexedEntities, age: i32) -> Vec<String> {
    let query = IndexQuery::partition(format!("age_{age:03}"));
    let found = handle.all("age", &query, Trust::Entity).await.unwrap();
    found
        .iter()
        .map(|entity| entity.key().row().to_owned())
        .collect()
}

async fn is_clean(handle: &IndexedEntities) -> bool {
    let mut clean = true;
    for index in ["age", "email", "badge"] {
        let report = handle.scrub(index, ScrubMode::Report).await.unwrap();
        clean &= report.dangling == 0 && report.missing == 0;
    }
    clean
}

#[tokio::test]
async fn every_write_of_another_client_changes_the_entries() {
    let (client, handle) = indexed().await;
    let insert = client
        .owner(Ask::new("POST", "Staff").json(person("1", 41, "ken@x")))
        .await;
    assert_eq!(insert.status, 201, "{insert:?}");
    assert_eq!(rows_of_age(&handle, 41).await, ["1"]);
    let again = client
        .owner(Ask::new("POST", "Staff").json(person("1", 41, "ken@x")))
        .await;
    assert_eq!(again.refusal(), (409, "EntityAlreadyExists"));
    let upsert = client
        .owner(Ask::new("PUT", address("2")).json(person("2", 41, "jo@x")))
        .await;
    assert_eq!(upsert.status, 204, "{upsert:?}");
    assert_eq!(rows_of_age(&handle, 41).await, ["1", "2"]);
    let merged = client
        .owner(Ask::new("MERGE", address("2")).json("{\"Age\":42}"))
        .await;
    assert_eq!(merged.status, 204, "{merged:?}");
    assert_eq!(
        (
            rows_of_age(&handle, 41).await,
            rows_of_age(&handle, 42).await
        ),
        (vec!["1".to_owned()], vec!["2".to_owned()])
    );
    // Conditions have the meaning that the service documents.
    let etag = merged.header("etag").to_owned();
    let replace = |etag: &str, age| {
        Ask::new("PUT", address("2"))
            .json(person("2", age, "jo@x"))
            .with("If-Match", etag)
    };
    assert_eq!(client.owner(replace(&etag, 43)).await.status, 204);
    assert_eq!(
        client.owner(replace(&etag, 44)).await.refusal(),
        (412, "UpdateConditionNotSatisfied")
    );
    assert_eq!(rows_of_age(&handle, 43).await, ["2"]);
    let absent = Ask::new("PUT", address("9"))
        .json(person("9", 1, "no@x"))
        .with("If-Match", "*");
    assert_eq!(
        client.owner(absent).await.refusal(),
        (404, "ResourceNotFound")
    );
    // A unique value that is taken.
    let taken = client
        .owner(Ask::new("PUT", address("3")).json(person("3", 50, "ken@x")))
        .await;
    assert_eq!(taken.refusal(), (409, "EntityAlreadyExists"), "{taken:?}");
    assert!(rows_of_age(&handle, 50).await.is_empty());
    let delete = client
        .owner(Ask::new("DELETE", address("1")).with("If-Match", "*"))
        .await;
    assert_eq!(delete.status, 204, "{delete:?}");
    assert!(rows_of_age(&handle, 41).await.is_empty());
    assert!(is_clean(&handle).await);
}

fn batch(operations: &[(&str, String, String)]) -> Ask {
    let mut body = String::from("--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n");
    for (method, path, json) in operations {
        body.push_str(&format!(
            "--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n{method} \
             http://h/devstoreaccount1/{path} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\nPrefer: \
             return-no-content\r\nContent-Length: {}\r\n\r\n{json}\r\n",
            json.len()
        ));
    }
    body.push_str("--c--\r\n--b--\r\n");
    Ask {
        body,
        ..Ask::new("POST", "$batch").with("Content-Type", "multipart/mixed; boundary=b")
    }
}

fn statuses(reply: &Reply) -> Vec<&str> {
    reply
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("HTTP/1.1 "))
        .map(|line| &line[..3])
        .collect()
}

#[tokio::test]
async fn a_group_of_100_is_one_group_with_its_entries() {
    let (client, handle) = indexed().await;
    let insert = |n: usize| {
        (
            "POST",
            "Staff".to_owned(),
            person(&format!("{n:03}"), 20, &format!("{n}@x")),
        )
    };
    let full: Vec<_> = (0..100).map(insert).collect();
    let reply = client.owner(batch(&full)).await;
    assert_eq!(statuses(&reply), vec!["204"; 100], "{reply:?}");
    assert_eq!(rows_of_age(&handle, 20).await.len(), 100);
    // A group that fails is not applied, and the answer names the operation.
    let mixed = [insert(200), insert(201), insert(50)];
    let reply = client.owner(batch(&mixed)).await;
    assert_eq!(statuses(&reply), ["409"], "{reply:?}");
    assert!(reply.body.contains("\"2:"), "{reply:?}");
    assert_eq!(rows_of_age(&handle, 20).await.len(), 100);
    assert!(is_clean(&handle).await);
}

#[tokio::test]
async fn a_failed_group_names_the_operation_whose_unique_value_is_taken() {
    let (client, handle) = indexed().await;
    let with_badge = |row: &str, badge: &str| {
        let entity = format!(
            "{{\"PartitionKey\":\"Sales\",\"RowKey\":\"{row}\",\"Email\":\"{row}@x\",\"Badge\":\"{badge}\"}}"
        );
        ("POST", "Staff".to_owned(), entity)
    };
    let put = |row: &str, email: &str| ("PUT", address(row), person(row, 20, email));
    let first = client
        .owner(batch(&[with_badge("1", "red"), put("2", "jo@x")]))
        .await;
    assert_eq!(statuses(&first), ["204", "204"], "{first:?}");
    for (group, index) in [
        // Unique in the partition: the value of a stored entity, then of another operation of the group.
        (vec![put("3", "3@x"), put("4", "4@x"), put("5", "jo@x")], 2),
        (vec![put("3", "jo@x"), put("4", "4@x")], 0),
        (
            vec![put("3", "3@x"), put("4", "same@x"), put("5", "same@x")],
            2,
        ),
        // Unique in the table: the value is reserved in another partition.
        (
            vec![put("3", "3@x"), with_badge("6", "red"), put("4", "4@x")],
            1,
        ),
        (
            vec![
                with_badge("6", "blue"),
                put("3", "3@x"),
                with_badge("7", "blue"),
            ],
            2,
        ),
    ] {
        let reply = client.owner(batch(&group)).await;
        assert_eq!(statuses(&reply), ["409"], "{reply:?}");
        assert!(reply.body.contains("EntityAlreadyExists"), "{reply:?}");
        assert!(
            reply.body.contains(&format!("\"value\":\"{index}:")),
            "{group:?}: {reply:?}"
        );
    }
    assert_eq!(
        rows_of_age(&handle, 20).await,
        ["2"],
        "nothing of the failed groups is written"
    );
    assert!(is_clean(&handle).await);
}

#[tokio::test]
async fn other_clients_see_entities_only() {
    let (client, handle) = indexed().await;
    for row in ["1", "2"] {
        let insert = client
            .owner(Ask::new("POST", "Staff").json(person(row, 41, row)))
            .await;
        assert_eq!(insert.status, 201, "{insert:?}");
    }
    let list = async |options: &str| {
        let accept = Ask::new("GET", format!("Staff(){options}"))
            .with("Accept", "application/json;odata=nometadata");
        let reply = client.owner(accept).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["value"].as_array().unwrap().clone()
    };
    let all = list("").await;
    assert_eq!(all.len(), 2);
    let selected = list("?$select=Age").await;
    assert_eq!(
        selected,
        [
            serde_json::json!({"Age": 41}),
            serde_json::json!({"Age": 41})
        ]
    );
    // The rows in front of the first entity are hidden, and no page is needed for them.
    assert_eq!(list("?$top=1").await.len(), 1);
    let manifest = Ask::new("GET", "Staff(PartitionKey='~~manifest',RowKey='table')");
    assert_eq!(client.owner(manifest.clone()).await.status, 404);
    assert_eq!(
        client
            .owner(manifest.with("x-table-manifest-aware", "1"))
            .await
            .status,
        200
    );
    let put = Ask::new("PUT", "Staff(PartitionKey='~~manifest',RowKey='table')").json("{}");
    assert_eq!(client.owner(put).await.refusal(), (400, "InvalidInput"));
    // A program of the library sees every row.
    let program =
        AzureTableStore::from_connection_string(&client.server.connection_string(), None).unwrap();
    assert!(
        program
            .query_all(&table(), &Query::new())
            .await
            .unwrap()
            .len()
            > 6
    );
    let opened = IndexedEntities::open(
        Arc::new(program),
        table(),
        indexes(),
        IndexOptions::default(),
    )
    .await
    .unwrap();
    let entity = Entity::new("Sales", "3")
        .unwrap()
        .with("Age", 7)
        .with("Email", "3");
    opened.insert(entity).await.unwrap();
    assert_eq!(rows_of_age(&handle, 7).await, ["3"]);
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Report", wide)]
struct Report {
    #[partition_key]
    unit: String,
    #[row_key]
    name: String,
    text: String,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Reading")]
struct Reading {
    #[partition_key(spread = 2)]
    station: String,
    #[row_key]
    number: u32,
    value: i32,
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Photo")]
struct Photo {
    #[partition_key]
    album: String,
    #[row_key]
    number: u32,
    #[large(over = 10)]
    image: Vec<u8>,
}

/// Every write of a row of such a type is refused, alone and in a group, and changes nothing.
async fn refuses_every_write_of(store: &MemoryStore, key: &Key, type_name: &str, reason: &str) {
    let before = without_registrations(store).await;
    let client = serve(store.clone()).await;
    let path = format!(
        "Staff(PartitionKey='{}',RowKey='{}')",
        key.partition(),
        key.row()
    );
    let typed = format!(
        "{{\"PartitionKey\":\"{}\",\"RowKey\":\"new\",\"EntityType\":\"{type_name}\"}}",
        key.partition()
    );
    let plain = format!(
        "{{\"PartitionKey\":\"{}\",\"RowKey\":\"plain\"}}",
        key.partition()
    );
    assert_eq!(
        client.owner(Ask::new("GET", &path)).await.status,
        200,
        "rows of one row per entity are read"
    );
    for ask in [
        Ask::new("POST", "Staff").json(&typed),
        Ask::new("DELETE", &path).with("If-Match", "*"),
        Ask::new("PUT", &path).json("{}"),
        Ask::new("PUT", &path).json("{}").with("If-Match", "*"),
        Ask::new("MERGE", &path).json("{\"Other\":1}"),
        Ask::new("MERGE", &path)
            .json("{\"Other\":1}")
            .with("If-Match", "*"),
    ] {
        let reply = client.owner(ask).await;
        assert_eq!(reply.refusal(), (400, "InvalidInput"), "{reply:?}");
        assert!(reply.body.contains(reason), "{reply:?}");
    }
    let group = [
        ("POST", "Staff".to_owned(), plain),
        ("POST", "Staff".to_owned(), typed),
    ];
    let reply = client.owner(batch(&group)).await;
    assert_eq!(statuses(&reply), ["400"], "{reply:?}");
    assert!(
        reply.body.contains("\"value\":\"1:") && reply.body.contains(reason),
        "{reply:?}"
    );
    assert_eq!(without_registrations(store).await, before);
}

#[tokio::test]
async fn spread_and_large_entities_are_not_damaged() {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let readings = SpreadTable::<Reading>::new(store.clone(), "Staff").unwrap();
    readings.create_if_missing().await.unwrap();
    readings
        .insert(&Reading {
            station: "north".to_owned(),
            number: 1,
            value: 7,
        })
        .await
        .unwrap();
    let stored = readings
        .stored_key(Reading::key("north", 1u32).unwrap())
        .unwrap();
    refuses_every_write_of(&store, &stored, "Reading", "Reading is stored as").await;

    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let blobs = Arc::new(object_store::memory::InMemory::new());
    let db = Database::new(store.clone()).with_blobs(blobs);
    let photos = db.table::<Photo>("Staff").unwrap();
    photos.declare().await.unwrap();
    photos
        .insert(&Photo {
            album: "a".to_owned(),
            number: 1,
            image: vec![7; 100],
        })
        .await
        .unwrap();
    refuses_every_write_of(
        &store,
        Photo::key("a", 1u32).unwrap().key(),
        "Photo",
        "Photo is stored as",
    )
    .await;
}

#[derive(Clone, Debug, PartialEq, TableEntity)]
#[entity(type = "Member")]
#[index(name, row_key = "name_{name}_{number}")]
struct Member {
    #[partition_key]
    club: String,
    #[row_key]
    number: u32,
    name: String,
    #[encrypt]
    iban: String,
}

/// Another client has no key: it would write the property in plaintext, or keep it beside properties for which it was not encrypted.
#[tokio::test]
async fn entities_with_encrypted_properties_are_not_damaged() {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let keys = Keys::new(Arc::new(
        AesKeyWrap::new("kek", &vec![7; 32].into()).unwrap(),
    ));
    let encrypted = Arc::new(EncryptedStore::new(store.clone(), keys).unwrap());
    encrypted.create_table(&table()).await.unwrap();
    let db = Database::with_options(encrypted, IndexOptions::local());
    let members = db.table::<Member>(table()).unwrap();
    let ken = Member {
        club: "a".to_owned(),
        number: 1,
        name: "Ken".to_owned(),
        iban: "DE02".to_owned(),
    };
    members.insert(&ken).await.unwrap();
    let key = Member::key("a", 1u32).unwrap();
    refuses_every_write_of(
        &store,
        key.key(),
        "Member",
        "Member has encrypted properties",
    )
    .await;
    assert_eq!(members.get(&key).await.unwrap().unwrap(), ken);
    // Entities of other types are written.
    let client = serve(store).await;
    let other = client
        .owner(Ask::new("POST", "Staff").json(person("9", 1, "e")))
        .await;
    assert_eq!(other.status, 201, "{other:?}");
}

#[tokio::test]
async fn writes_that_an_opaque_index_covers_are_refused() {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    store.create_table(&table()).await.unwrap();
    let first = Index::new("first", Placement::SamePartition, "1", |entity| {
        Key::new(
            entity.key().partition(),
            format!("first_{}", entity.key().row()),
        )
        .map(Some)
    });
    let first = first.with_discriminator("EntityType", "Ticket");
    let options = IndexOptions::local();
    let handle = IndexedEntities::open(Arc::new(store.clone()), table(), vec![first], options)
        .await
        .unwrap();
    handle
        .insert(Entity::new("p", "1").unwrap().with("EntityType", "Ticket"))
        .await
        .unwrap();
    refuses_every_write_of(
        &store,
        &Key::new("p", "1").unwrap(),
        "Ticket",
        "a Rust function computes",
    )
    .await;
    // Entities that the index does not cover are written.
    let client = serve(store.clone()).await;
    let other = client
        .owner(Ask::new("POST", "Staff").json(person("9", 1, "e")))
        .await;
    assert_eq!(other.status, 201, "{other:?}");
}

/// The rows of the table, without the rows in which a program registers that it writes indexes.
async fn without_registrations(store: &MemoryStore) -> Vec<Entity> {
    let mut rows = store.query_all(&table(), &Query::new()).await.unwrap();
    rows.retain(|row| {
        let row = row.key();
        row.partition() != MANIFEST_PARTITION
            || !(row.row().starts_with("process~") || row.row() == "table")
    });
    rows
}

#[tokio::test]
async fn entities_of_other_layouts_are_not_damaged() {
    let store = MemoryStore::with_profile(ServiceProfile::SERVED);
    let reports = table_patterns::wide::WideTable::<Report>::new(store.clone(), "Staff").unwrap();
    reports.create_if_missing().await.unwrap();
    let report = Report {
        unit: "Sales".to_owned(),
        name: "1".to_owned(),
        text: "long".to_owned(),
    };
    reports.insert(&report).await.unwrap();
    let before = without_registrations(&store).await;
    let client = serve(store.clone()).await;
    // Every row of a wide entity is a system row.
    let key = before
        .iter()
        .map(Entity::key)
        .find(|key| key.partition() == "Sales")
        .cloned()
        .unwrap();
    let path = format!(
        "Staff(PartitionKey='{}',RowKey='{}')",
        key.partition(),
        key.row()
    );
    assert_eq!(client.owner(Ask::new("GET", &path)).await.status, 404);
    let typed = "{\"PartitionKey\":\"a\",\"RowKey\":\"b\",\"EntityType\":\"Report\"}";
    for (ask, reason) in [
        (
            Ask::new("DELETE", &path).with("If-Match", "*"),
            "starts with",
        ),
        (
            Ask::new("MERGE", &path).json("{\"text\":\"other\"}"),
            "starts with",
        ),
        (
            Ask::new("PUT", &path).json("{\"text\":\"other\"}"),
            "starts with",
        ),
        (Ask::new("POST", "Staff").json(typed), "Report is stored as"),
    ] {
        let reply = client.owner(ask).await;
        assert_eq!(reply.refusal(), (400, "InvalidInput"), "{reply:?}");
        assert!(reply.body.contains(reason), "{reply:?}");
    }
    assert_eq!(without_registrations(&store).await, before);
    // Entities of other types are written.
    let other = client
        .owner(Ask::new("POST", "Staff").json(person("9", 1, "e")))
        .await;
    assert_eq!(other.status, 201, "{other:?}");
    assert!(
        store
            .get(&table(), &Key::new("Sales", "9").unwrap(), None)
            .await
            .unwrap()
            .is_some()
    );
}
