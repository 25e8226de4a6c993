//! The responses to each operation.

use serde_json::json;

use crate::client::{Ask, Client};

const PATH: &str = "abc(PartitionKey='p',RowKey='r')";

#[tokio::test]
async fn tables_are_created_listed_looked_up_and_deleted() {
    let client = Client::new().await;
    let create =
        |name: &str| Ask::new("POST", "Tables").json(json!({ "TableName": name }).to_string());
    let reply = client.owner(create("Orders")).await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.json(), json!({ "TableName": "Orders" }));
    assert!(
        reply
            .header("location")
            .ends_with("/devstoreaccount1/Tables('Orders')")
    );
    let reply = client
        .owner(create("Others").with("Prefer", "return-no-content"))
        .await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.header("preference-applied"), "return-no-content");
    assert_eq!(&*reply.body, "");
    assert_eq!(
        client.owner(create("ORDERS")).await.refusal(),
        (409, "TableAlreadyExists")
    );
    assert_eq!(
        client.owner(create("TableServerSettings")).await.refusal(),
        (409, "TableAlreadyExists")
    );
    let list = Ask::new("GET", "Tables?$top=1").with("Accept", "application/json;odata=nometadata");
    let reply = client.owner(list.clone()).await;
    assert_eq!(
        reply.json(),
        json!({ "value": [{ "TableName": "Orders" }] })
    );
    let next = reply.header("x-ms-continuation-nexttablename");
    let path = format!("Tables?$top=1&NextTableName={}", next.replace('!', "%21"));
    let reply = client
        .owner(Ask {
            path,
            ..list.clone()
        })
        .await;
    assert_eq!(
        reply.json(),
        json!({ "value": [{ "TableName": "Others" }] })
    );
    assert_eq!(reply.header("x-ms-continuation-nexttablename"), "");
    let path = "Tables?$filter=TableName%20ge%20'Ot'".to_owned();
    let reply = client
        .owner(Ask {
            path,
            ..list.clone()
        })
        .await;
    assert_eq!(
        reply.json(),
        json!({ "value": [{ "TableName": "Others" }] })
    );
    let reply = client
        .owner(Ask {
            path: "Tables('orders')".to_owned(),
            ..list
        })
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json(), json!({ "TableName": "Orders" }));
    assert_eq!(
        client
            .owner(Ask::new("DELETE", "Tables('Orders')"))
            .await
            .status,
        204
    );
    assert_eq!(
        client
            .owner(Ask::new("GET", "Tables('Orders')"))
            .await
            .refusal(),
        (404, "TableNotFound")
    );
}

#[tokio::test]
async fn inserts_respect_the_preferred_response() {
    let client = Client::with_table().await;
    let insert = |row: &str| {
        Ask::new("POST", "abc")
            .json(json!({ "PartitionKey": "p", "RowKey": row, "A": 1 }).to_string())
    };
    let reply = client.owner(insert("1")).await;
    assert_eq!(reply.status, 201);
    let read = client
        .owner(
            Ask::new("GET", "abc(PartitionKey='p',RowKey='1')")
                .with("Accept", "application/json;odata=nometadata"),
        )
        .await;
    assert_eq!(reply.json(), read.json());
    assert_eq!(reply.header("etag"), read.header("etag"));
    let reply = client
        .owner(insert("2").with("Prefer", "return-content"))
        .await;
    assert_eq!(reply.status, 201);
    assert_eq!(reply.header("preference-applied"), "return-content");
    let reply = client
        .owner(insert("3").with("Prefer", "return-no-content"))
        .await;
    assert_eq!(reply.status, 204);
    assert_eq!(&*reply.body, "");
    assert!(
        reply
            .header("location")
            .ends_with("abc(PartitionKey='p',RowKey='3')"),
        "{reply:?}"
    );
    assert_eq!(
        client.owner(insert("3")).await.refusal(),
        (409, "EntityAlreadyExists")
    );
}

#[tokio::test]
async fn updates_follow_verb_and_condition() {
    let client = Client::with_table().await;
    let first = client
        .insert(r#"{"PartitionKey":"p","RowKey":"r","A":1,"B":1}"#)
        .await;
    let change = |method, body: &str| Ask::new(method, PATH).json(body);
    for method in ["MERGE", "PATCH"] {
        let reply = client
            .owner(change(method, r#"{"A":2}"#).with("If-Match", "*"))
            .await;
        assert_eq!(reply.status, 204);
        assert_ne!(reply.header("etag"), first);
    }
    let tunnelled = change("POST", r#"{"C":3}"#).with("X-HTTP-Method", "MERGE");
    assert_eq!(client.owner(tunnelled).await.status, 204);
    let stale = change("PUT", r#"{"A":9}"#).with("If-Match", first.clone());
    assert_eq!(
        client.owner(stale).await.refusal(),
        (412, "UpdateConditionNotSatisfied")
    );
    let read = Ask::new("GET", format!("{PATH}?$select=A,B,C,D"))
        .with("Accept", "application/json;odata=nometadata");
    let reply = client.owner(read.clone()).await;
    assert_eq!(reply.json(), json!({ "A": 2, "B": 1, "C": 3, "D": null }));
    let current = change("PUT", r#"{"A":9}"#).with("If-Match", reply.header("etag"));
    assert_eq!(client.owner(current).await.status, 204);
    assert_eq!(
        client.owner(read).await.json(),
        json!({ "A": 9, "B": null, "C": null, "D": null })
    );
    assert_eq!(
        client.owner(Ask::new("DELETE", PATH)).await.refusal(),
        (400, "MissingRequiredHeader")
    );
    let wrong = Ask::new("DELETE", PATH).with("If-Match", "W/\"no\"");
    assert_eq!(
        client.owner(wrong).await.refusal(),
        (412, "UpdateConditionNotSatisfied")
    );
    assert_eq!(
        client
            .owner(Ask::new("DELETE", PATH).with("If-Match", "*"))
            .await
            .status,
        204
    );
    assert_eq!(
        client
            .owner(change("PUT", "{}").with("If-Match", "*"))
            .await
            .refusal(),
        (404, "ResourceNotFound")
    );
    assert_eq!(client.owner(change("PUT", "{}")).await.status, 204);
}

#[tokio::test]
async fn queries_are_filtered_projected_and_paged() {
    let client = Client::with_table().await;
    for n in 0..5 {
        client
            .insert(&json!({ "PartitionKey": "ñ", "RowKey": n.to_string(), "N": n }).to_string())
            .await;
    }
    let mut path = "abc()?$filter=N%20ge%201&$select=N&$top=3".to_owned();
    let mut found = Vec::new();
    loop {
        let reply = client
            .owner(Ask::new("GET", path).with("Accept", "application/json;odata=nometadata"))
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        found.extend(reply.json()["value"].as_array().unwrap().clone());
        let (first, second) = (
            reply.header("x-ms-continuation-nextpartitionkey"),
            reply.header("x-ms-continuation-nextrowkey"),
        );
        if first.is_empty() {
            break;
        }
        assert!(first.is_ascii());
        path = format!(
            "abc()?$filter=N%20ge%201&$select=N&$top=3&NextPartitionKey={first}&NextRowKey={second}"
        );
    }
    assert_eq!(found, (1..5).map(|n| json!({ "N": n })).collect::<Vec<_>>());
    for (query, expected) in [
        ("$filter=N%20ge", (400, "InvalidInput")),
        ("$filter=N%20eq%20null", (400, "InvalidInput")),
        ("$top=1001", (400, "InvalidInput")),
        ("$orderby=N", (501, "NotImplemented")),
        ("NextPartitionKey=abc", (400, "InvalidQueryParameterValue")),
        ("NextRowKey=1!0!", (400, "InvalidQueryParameterValue")),
    ] {
        assert_eq!(
            client
                .owner(Ask::new("GET", format!("abc()?{query}")))
                .await
                .refusal(),
            expected,
            "{query}"
        );
    }
    let many = vec!["N%20eq%201"; 16].join("%20or%20");
    assert_eq!(
        client
            .owner(Ask::new("GET", format!("abc()?$filter={many}")))
            .await
            .refusal(),
        (400, "InvalidInput")
    );
}

#[tokio::test]
async fn metadata_has_the_requested_level() {
    let client = Client::with_table().await;
    client
        .insert(r#"{"PartitionKey":"p","RowKey":"r","L@odata.type":"Edm.Int64","L":"5"}"#)
        .await;
    let read = |accept: &str| Ask::new("GET", PATH).with("Accept", accept);
    let reply = client
        .owner(read("application/json;odata=fullmetadata"))
        .await;
    let root = client.server.endpoint();
    assert_eq!(reply.json()["odata.id"], format!("{root}/{PATH}"));
    assert_eq!(reply.json()["odata.type"], "devstoreaccount1.abc");
    assert!(
        reply
            .header("content-type")
            .starts_with("application/json;odata=fullmetadata")
    );
    let reply = client.owner(read("application/json")).await;
    assert_eq!(&reply.json()["L@odata.type"], &json!("Edm.Int64"));
    assert_eq!(&reply.json()["L"], &json!("5"));
    assert_eq!(reply.json()["odata.etag"], reply.header("etag"));
    let reply = client
        .owner(read("application/json;odata=nometadata"))
        .await;
    assert!(reply.json().get("odata.etag").is_none());
    assert_eq!(
        client.owner(read("application/atom+xml")).await.refusal(),
        (415, "AtomFormatNotSupported")
    );
    let format = Ask::new(
        "GET",
        format!("{PATH}?$format=application/json;odata=nometadata"),
    );
    assert!(
        client
            .owner(format.with("Accept", "application/json;odata=fullmetadata"))
            .await
            .json()
            .get("odata.id")
            .is_none()
    );
}

#[tokio::test]
async fn errors_are_json_or_xml_and_request_ids_are_returned() {
    let client = Client::with_table().await;
    let ask = Ask::new("GET", PATH)
        .with("x-ms-client-request-id", "mine")
        .with("x-ms-version", "2019-02-02");
    let reply = client
        .owner(ask.clone().with("Accept", "application/json"))
        .await;
    assert_eq!(reply.refusal(), (404, "ResourceNotFound"));
    assert_eq!(reply.json()["odata.error"]["code"], "ResourceNotFound");
    assert!(reply.body.contains(reply.header("x-ms-request-id")));
    assert_eq!(reply.header("x-ms-client-request-id"), "mine");
    assert_eq!(reply.header("x-ms-version"), "2019-02-02");
    let reply = client
        .owner(ask.with("Accept", "application/xml,application/atom+xml"))
        .await;
    assert_eq!(reply.status, 415);
    assert!(
        reply.body.contains("<Code>AtomFormatNotSupported</Code>"),
        "{}",
        reply.body
    );
    let reply = client.owner(Ask::new("GET", "missing()")).await;
    assert_eq!(reply.refusal(), (404, "TableNotFound"));
    let reply = client
        .owner(Ask::new("GET", format!("{PATH}?timeout=30")))
        .await;
    assert_eq!(reply.refusal(), (404, "ResourceNotFound"));
    let reply = client
        .owner(Ask::new("GET", format!("{PATH}?timeout=soon")))
        .await;
    assert_eq!(reply.refusal(), (400, "InvalidQueryParameterValue"));
    let reply = client
        .owner(Ask::new("GET", PATH).with("x-ms-version", "yesterday"))
        .await;
    assert_eq!(reply.refusal(), (400, "InvalidHeaderValue"));
    assert_eq!(
        client
            .owner(Ask::new("PUT", "abc").json("{}"))
            .await
            .refusal(),
        (405, "MethodNotAllowed")
    );
    assert_eq!(
        client.owner(Ask::new("GET", "")).await.refusal(),
        (400, "InvalidUri")
    );
    assert_eq!(
        client
            .send("nobody", Ask::new("GET", "Tables"))
            .await
            .refusal(),
        (404, "ResourceNotFound")
    );
}

#[tokio::test]
async fn limits_have_the_services_codes() {
    let client = Client::with_table().await;
    let insert = |extra: serde_json::Value| {
        let mut entity = json!({ "PartitionKey": "p", "RowKey": "r" });
        entity
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        Ask::new("POST", "abc").json(entity.to_string())
    };
    let many: serde_json::Map<_, _> = (0..253).map(|n| (format!("P{n}"), json!(1))).collect();
    let large: serde_json::Map<_, _> = (0..17)
        .map(|n| (format!("P{n}"), json!("x".repeat(32 * 1024))))
        .collect();
    for (extra, code) in [
        (many.into(), "TooManyProperties"),
        (large.into(), "EntityTooLarge"),
        (
            json!({ "A": "x".repeat(32 * 1024 + 1) }),
            "PropertyValueTooLarge",
        ),
        (json!({ "N".repeat(256): 1 }), "PropertyNameTooLong"),
        (json!({ "a b": 1 }), "PropertyNameInvalid"),
        (
            json!({ "RowKey": "x".repeat(513) }),
            "PropertyValueTooLarge",
        ),
        (json!({ "RowKey": "a/b" }), "OutOfRangeInput"),
        (
            json!({ "A": "1600-01-01T00:00:00Z", "A@odata.type": "Edm.DateTime" }),
            "OutOfRangeInput",
        ),
    ] {
        assert_eq!(client.owner(insert(extra)).await.refusal(), (400, code));
    }
}

#[tokio::test]
async fn an_account_can_be_in_the_host() {
    let client = Client::with_table().await;
    client
        .insert(r#"{"PartitionKey":"p","RowKey":"r","A":1}"#)
        .await;
    let date = crate::client::http_date(chrono::Utc::now());
    let text = format!("GET\n\n\n{date}\n/devstoreaccount1/{PATH}");
    let request = format!(
        "GET /{PATH} HTTP/1.1\r\nHost: devstoreaccount1.table.localhost\r\nx-ms-date: {date}\r\n\
         Authorization: SharedKey devstoreaccount1:{}\r\nConnection: close\r\n\
         Accept: application/json;odata=fullmetadata\r\n\r\n",
        crate::client::sign(&text)
    );
    let reply = crate::client::read(&client.raw(request.as_bytes()).await).unwrap();
    assert_eq!(
        reply.json()["odata.id"],
        format!("http://devstoreaccount1.table.localhost/{PATH}")
    );
}

#[tokio::test]
async fn health_needs_no_credential() {
    let client = Client::new().await;
    let answer = client
        .raw(b"GET /_health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(crate::client::read(&answer).unwrap().status, 200);
}
