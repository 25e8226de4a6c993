//! Answers of the service that the suites and the recordings of its official clients show: azure-sdk-for-python (`sdk/tables`, with
//! azure-sdk-assets), azure-sdk-for-net and azure-sdk-for-go. An answer that none of them shows is marked as *assumed*.

use serde_json::json;

use crate::client::{Ask, Client, Reply};

fn message(reply: &Reply) -> String {
    let text = reply.json()["odata.error"]["message"]["value"]
        .as_str()
        .unwrap()
        .to_owned();
    text.split_once("\nRequestId:").unwrap().0.to_owned()
}

fn minimal(ask: Ask) -> Ask {
    ask.with("Accept", "application/json;odata=minimalmetadata")
}

/// Clients compare both texts, with the spelling of the first.
#[tokio::test]
async fn names_of_tables_are_refused_by_characters_and_by_length() {
    let client = Client::new().await;
    let long = "a".repeat(64);
    for (name, code, text) in [
        (
            "my_table",
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        ),
        (
            "啊齄丂",
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        ),
        (
            "1table",
            "InvalidResourceName",
            "The specifed resource name contains invalid characters.",
        ),
        (
            "ab",
            "OutOfRangeInput",
            "The specified resource name length is not within the permissible limits.",
        ),
        (
            &long,
            "OutOfRangeInput",
            "The specified resource name length is not within the permissible limits.",
        ),
    ] {
        let reply = client
            .owner(Ask::new("POST", "Tables").json(json!({ "TableName": name }).to_string()))
            .await;
        assert_eq!(
            (reply.refusal(), &*message(&reply)),
            ((400, code), text),
            "{name}"
        );
    }
    let reply = client.owner(Ask::new("GET", "my_table()")).await;
    assert_eq!(reply.refusal(), (400, "InvalidResourceName"));
}

#[tokio::test]
async fn a_missing_table_is_a_missing_resource_for_its_deletion() {
    let client = Client::new().await;
    for name in ["missing", "TableServerSettings"] {
        let reply = client
            .owner(Ask::new("DELETE", format!("Tables('{name}')")))
            .await;
        assert_eq!(reply.refusal(), (404, "ResourceNotFound"));
        assert_eq!(message(&reply), "The specified resource does not exist.");
    }
    let reply = client.owner(Ask::new("GET", "missing()")).await;
    assert_eq!(reply.refusal(), (404, "TableNotFound"));
}

#[tokio::test]
async fn text_of_python_is_a_boolean() {
    let client = Client::with_table().await;
    let entity = r#"{"PartitionKey":"p","RowKey":"r","A":"False","A@odata.type":"Edm.Boolean","B":"True","B@odata.type":"Edm.Boolean"}"#;
    let reply = client.owner(Ask::new("POST", "abc").json(entity)).await;
    assert_eq!(
        (reply.status, &reply.json()["A"], &reply.json()["B"]),
        (201, &json!(false), &json!(true))
    );
}

/// The service stores 9223372036854775808000 as a Double, which holds it. It also stores numbers that no Double holds, as other numbers; they
/// are refused here.
#[tokio::test]
async fn numbers_that_would_be_rounded_are_refused() {
    let client = Client::with_table().await;
    let insert = |row: &str, number: &str| {
        Ask::new("POST", "abc").json(format!(
            "{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\",\"A\":{number}}}"
        ))
    };
    let exact = client.owner(insert("1", "9223372036854775808000")).await;
    assert_eq!(
        (exact.status, exact.json()["A"].as_f64()),
        (201, Some(9_223_372_036_854_775_808_000.0))
    );
    for number in [
        "99999000039722400001",
        "9223372036854775807",
        "-99999000039722400001",
    ] {
        let reply = client.owner(insert("2", number)).await;
        assert_eq!(reply.refusal(), (400, "InvalidInput"), "{number}");
        assert!(
            message(&reply).contains("a Double would round this number"),
            "{reply:?}"
        );
    }
}

/// *Assumed*: no continuation token, because a client that pages would not end.
#[tokio::test]
async fn a_query_of_no_rows_is_empty() {
    let client = Client::with_table().await;
    client.insert(r#"{"PartitionKey":"p","RowKey":"r"}"#).await;
    for path in ["abc()?$top=0", "Tables?$top=0"] {
        let reply = client
            .owner(Ask::new("GET", path).with("Accept", "application/json;odata=nometadata"))
            .await;
        assert_eq!(
            (reply.status, reply.json()),
            (200, json!({ "value": [] })),
            "{path}"
        );
        assert!(
            !reply
                .headers
                .keys()
                .any(|name| name.starts_with("x-ms-continuation")),
            "{reply:?}"
        );
    }
    assert_eq!(
        client
            .owner(Ask::new("GET", "missing()?$top=0"))
            .await
            .refusal(),
        (404, "TableNotFound")
    );
}

#[tokio::test]
async fn the_address_names_the_entity_and_not_the_body() {
    let client = Client::with_table().await;
    let other = r#"{"PartitionKey":"other","RowKey":"other","A":1}"#;
    for method in ["PUT", "MERGE"] {
        let reply = client
            .owner(Ask::new(method, "abc(PartitionKey='p',RowKey='r')").json(other))
            .await;
        assert_eq!(reply.status, 204, "{reply:?}");
    }
    let list = Ask::new("GET", "abc()?$select=PartitionKey,RowKey,A")
        .with("Accept", "application/json;odata=nometadata");
    let expected = json!({ "value": [{ "PartitionKey": "p", "RowKey": "r", "A": 1 }] });
    assert_eq!(client.owner(list).await.json(), expected);
}

#[tokio::test]
async fn keys_of_another_type_are_refused() {
    let client = Client::with_table().await;
    for keys in [
        r#""PartitionKey@odata.type":"Edm.DateTime","PartitionKey":"2022-04-01T09:30:45.000000Z","RowKey":"r""#,
        r#""PartitionKey":"p","RowKey@odata.type":"Edm.Guid","RowKey":"4738422c-15e7-4170-9eb6-fb5b284e11ac""#,
        r#""PartitionKey@odata.type":"Edm.Binary","PartitionKey":"YmluYXJ5ZGF0YQ==","RowKey":"r""#,
        r#""PartitionKey":"p","RowKey":1234"#,
    ] {
        let reply = client
            .owner(Ask::new("POST", "abc").json(format!("{{{keys}}}")))
            .await;
        assert_eq!(reply.refusal(), (400, "InvalidInput"), "{keys}");
    }
    let text = r#"{"PartitionKey":"p","PartitionKey@odata.type":"Edm.String","RowKey":"r"}"#;
    assert_eq!(
        client
            .owner(Ask::new("POST", "abc").json(text))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn times_have_no_zeros_at_their_end() {
    let client = Client::with_table().await;
    client
        .insert(
            r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.DateTime","A":"1973-10-04T00:00:00.000000Z",
                "B@odata.type":"Edm.DateTime","B":"2011-11-04T00:05:23.283000Z"}"#,
        )
        .await;
    let read = client
        .owner(minimal(Ask::new("GET", "abc(PartitionKey='p',RowKey='r')")))
        .await
        .json();
    assert_eq!(
        (&read["A"], &read["B"]),
        (
            &json!("1973-10-04T00:00:00Z"),
            &json!("2011-11-04T00:05:23.283Z")
        )
    );
}

#[tokio::test]
async fn the_url_of_the_metadata_names_the_projection() {
    let client = Client::with_table().await;
    client
        .insert(r#"{"PartitionKey":"p","RowKey":"r","age":1,"sex":"m"}"#)
        .await;
    let metadata = async |path: &str| {
        let reply = client.owner(minimal(Ask::new("GET", path))).await;
        let url = reply.json()["odata.metadata"].as_str().unwrap().to_owned();
        url.strip_prefix(client.server.endpoint())
            .unwrap()
            .to_owned()
    };
    assert_eq!(metadata("abc()").await, "/$metadata#abc");
    assert_eq!(
        metadata("abc()?$select=age%2C%20sex").await,
        "/$metadata#abc&$select=age,%20sex"
    );
    let one = "abc(PartitionKey='p',RowKey='r')?$select=Timestamp";
    assert_eq!(
        metadata(one).await,
        "/$metadata#abc/@Element&$select=Timestamp"
    );
}

#[tokio::test]
async fn names_of_metadata_in_a_projection_are_written_once() {
    let client = Client::with_table().await;
    client
        .insert(r#"{"PartitionKey":"p","RowKey":"r","A@odata.type":"Edm.Int64","A":"5"}"#)
        .await;
    let path = "abc(PartitionKey='p',RowKey='r')?$select=odata.etag,A@odata.type,A,odata.metadata";
    for level in ["nometadata", "minimalmetadata", "fullmetadata"] {
        let reply = client
            .owner(Ask::new("GET", path).with("Accept", format!("application/json;odata={level}")))
            .await;
        assert_eq!(reply.status, 200);
        for name in ["\"odata.etag\"", "\"A@odata.type\"", "\"odata.metadata\""] {
            let expected = usize::from(level != "nometadata");
            assert_eq!(
                reply.body.matches(name).count(),
                expected,
                "{level}: {}",
                reply.body
            );
        }
    }
}

#[tokio::test]
async fn an_empty_policy_is_left_out() {
    let client = Client::with_table().await;
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>null</Id></SignedIdentifier><SignedIdentifier><Id>empty</Id><AccessPolicy />\
        </SignedIdentifier><SignedIdentifier><Id>full</Id><AccessPolicy><Start>2021-06-08T02:10:09Z</Start><Permission>r</Permission>\
        </AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    let set = Ask {
        body: policies.to_owned(),
        ..Ask::new("PUT", "abc?comp=acl")
    };
    assert_eq!(client.owner(set).await.status, 204);
    let expected = "<SignedIdentifiers><SignedIdentifier><Id>null</Id></SignedIdentifier><SignedIdentifier><Id>empty</Id></SignedIdentifier>\
        <SignedIdentifier><Id>full</Id><AccessPolicy><Start>2021-06-08T02:10:09.0000000Z</Start><Permission>r</Permission></AccessPolicy>\
        </SignedIdentifier></SignedIdentifiers>";
    let reply = client.owner(Ask::new("GET", "abc?comp=acl")).await;
    assert!(reply.body.ends_with(expected), "{}", reply.body);
}

#[tokio::test]
async fn more_than_a_year_of_retention_is_an_invalid_document() {
    let client = Client::new().await;
    let properties = |days: u32| {
        let body = format!(
            "<StorageServiceProperties><MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
             <RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></MinuteMetrics></StorageServiceProperties>"
        );
        Ask {
            body,
            ..Ask::new("PUT", "?restype=service&comp=properties")
        }
    };
    assert_eq!(client.owner(properties(365)).await.status, 202);
    let reply = client.owner(properties(366)).await;
    assert_eq!(reply.refusal(), (400, "InvalidXmlDocument"));
    assert!(
        reply
            .body
            .contains("XML specified is not syntactically valid."),
        "{}",
        reply.body
    );
}

/// The documented text: <https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes>.
#[tokio::test]
async fn writes_to_the_secondary_have_the_documented_answer() {
    let client = Client::with_table().await;
    let reply = client
        .secondary(Ask::new("POST", "abc").json(r#"{"PartitionKey":"p","RowKey":"r"}"#))
        .await;
    assert_eq!(reply.refusal(), (403, "InsufficientAccountPermissions"));
    assert_eq!(
        message(&reply),
        "Write operations to the secondary location are not allowed."
    );
}

/// Clients whose endpoint has the name of a table in its path.
#[tokio::test]
async fn an_endpoint_with_the_name_of_a_table_is_explained() {
    let client = Client::with_table().await;
    let create = |table: &str| {
        Ask::new("POST", format!("{table}/Tables")).json(json!({ "TableName": table }).to_string())
    };
    let reply = client.owner(create("missing")).await;
    assert_eq!(
        (reply.refusal(), &*message(&reply)),
        (
            (404, "TableNotFound"),
            "The table specified does not exist."
        )
    );
    let reply = client.owner(create("abc")).await;
    assert_eq!(reply.refusal(), (400, "PropertiesNeedValue"));
    assert!(
        message(&reply)
            .starts_with("The values are not specified for all properties in the entity"),
        "{reply:?}"
    );
    let delete = |table: &str| Ask::new("DELETE", format!("{table}/Tables('{table}')"));
    assert_eq!(
        client.owner(delete("missing")).await.refusal(),
        (404, "TableNotFound")
    );
    let reply = client.owner(delete("abc")).await;
    assert_eq!(reply.refusal(), (400, "InvalidInput"));
    let expected = "The number of keys specified in the URI does not match number of key properties for the resource \
        'devstoreaccount1.abc'.";
    assert_eq!(message(&reply), expected);
    let batch = Ask {
        body: "--b".to_owned(),
        ..Ask::new("POST", "abc/$batch").with("Content-Type", "multipart/mixed; boundary=b")
    };
    let reply = client.owner(batch).await;
    assert_eq!(reply.refusal(), (415, "MediaTypeNotSupported"));
    assert_eq!(
        message(&reply),
        "None of the provided media types are supported"
    );
    let properties = "abc/?restype=service&comp=properties";
    assert_eq!(
        client.owner(Ask::new("GET", properties)).await.refusal(),
        (400, "InvalidQueryParameterValue")
    );
    // *Assumed*: an entity in the place of a table is no entity of it.
    let entity = Ask::new("POST", "abc/abc").json(r#"{"PartitionKey":"p","RowKey":"r"}"#);
    assert_eq!(client.owner(entity).await.refusal(), (400, "InvalidUri"));
    let page = client
        .server
        .store()
        .query(
            &"abc".parse().unwrap(),
            &table_core::query::Query::new(),
            None,
        )
        .await;
    assert!(page.unwrap().page.items.is_empty());
}

#[tokio::test]
async fn a_token_gets_the_services_challenge() {
    let client = Client::with_table().await;
    let ask = || Ask::new("GET", "?restype=service&comp=stats").with("Authorization", "Bearer abc");
    let reply = client.plain(ask().with("x-ms-version", "2020-12-06")).await;
    assert_eq!(reply.refusal(), (401, "InvalidAuthenticationInfo"));
    let challenge = reply.header("www-authenticate");
    assert!(
        challenge.starts_with("Bearer authorization_uri=https://login.microsoftonline.com/")
            && challenge.ends_with(" resource_id=https://storage.azure.com"),
        "{challenge}"
    );
    assert!(
        reply
            .body
            .contains("Please refer to the information in the www-authenticate header."),
        "{}",
        reply.body
    );
    let old = client.plain(ask().with("x-ms-version", "2019-07-07")).await;
    assert_eq!(
        (old.refusal(), old.header("www-authenticate")),
        ((403, "AuthenticationFailed"), "")
    );
}
