//! Authorization: who has access, and to what.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chrono::{TimeDelta, Utc};
use serde_json::json;

use crate::client::{Ask, Client, encoded, http_date, sign, signed};

const ACCOUNT: &str = "devstoreaccount1";
const VERSION: &str = "2019-02-02";

pub(crate) fn time(minutes: i64) -> String {
    (Utc::now() + TimeDelta::minutes(minutes))
        .format("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// The expiry of all signatures that do not set another one. A continuation token belongs to the signature of the request that returned it.
/// With the present time in each signature, the next second would begin another signature.
static EXPIRY: LazyLock<String> = LazyLock::new(|| time(10));

/// The fields of a table SAS, in the order of the string to sign.
#[derive(Clone)]
pub(crate) struct TableSas {
    pub(crate) permissions: &'static str,
    pub(crate) start: String,
    pub(crate) expiry: String,
    pub(crate) table: &'static str,
    pub(crate) ip: &'static str,
    pub(crate) protocol: &'static str,
    pub(crate) range: [&'static str; 4],
}

impl TableSas {
    pub(crate) fn new(permissions: &'static str) -> Self {
        let expiry = EXPIRY.clone();
        Self {
            permissions,
            start: String::new(),
            expiry,
            table: "abc",
            ip: "",
            protocol: "https,http",
            range: [""; 4],
        }
    }

    pub(crate) fn query(&self) -> String {
        let Self {
            permissions,
            start,
            expiry,
            table,
            ip,
            protocol,
            range,
        } = self;
        let text = format!(
            "{permissions}\n{start}\n{expiry}\n/table/{ACCOUNT}/{table}\n\n{ip}\n{protocol}\n{VERSION}\n{}",
            range.join("\n")
        );
        let [spk, srk, epk, erk] = range;
        let fields = [
            ("sv", VERSION),
            ("tn", table),
            ("sp", permissions),
            ("st", start),
            ("se", expiry),
            ("sip", ip),
            ("spr", protocol),
            ("spk", spk),
            ("srk", srk),
            ("epk", epk),
            ("erk", erk),
            ("sig", &sign(&text)),
        ];
        let given = fields.iter().filter(|(_, value)| !value.is_empty());
        given
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect::<Vec<_>>()
            .join("&")
    }
}

pub(crate) fn account_sas(permissions: &str, services: &str, resources: &str) -> String {
    let expiry = &*EXPIRY;
    let text =
        format!("{ACCOUNT}\n{permissions}\n{services}\n{resources}\n\n{expiry}\n\n\n{VERSION}\n");
    let (expiry, signature) = (encoded(expiry), encoded(&sign(&text)));
    format!(
        "sv={VERSION}&ss={services}&srt={resources}&sp={permissions}&se={expiry}&sig={signature}"
    )
}

fn insert(row: &str, query: &str) -> Ask {
    Ask::new("POST", format!("abc?{query}"))
        .json(json!({ "PartitionKey": "p", "RowKey": row }).to_string())
}

fn get(row: &str, query: &str) -> Ask {
    Ask::new(
        "GET",
        format!("abc(PartitionKey='p',RowKey='{row}')?{query}"),
    )
}

async fn filled() -> Client {
    let client = Client::with_table().await;
    client
        .server
        .store()
        .create_table(&"other".parse().unwrap())
        .await
        .unwrap();
    for row in ["a", "b", "c"] {
        client
            .insert(&json!({ "PartitionKey": "p", "RowKey": row }).to_string())
            .await;
    }
    client
}

#[tokio::test]
async fn requests_without_a_credential_are_refused() {
    let client = filled().await;
    for ask in [
        get("a", ""),
        insert("x", ""),
        Ask::new("GET", "Tables"),
        Ask::new("GET", "?restype=service&comp=properties"),
    ] {
        assert_eq!(
            client.plain(ask).await.refusal(),
            (401, "NoAuthenticationInformation")
        );
    }
    let reply = client
        .plain(
            get("a", "")
                .with("Authorization", "Bearer x")
                .with("x-ms-date", http_date(Utc::now())),
        )
        .await;
    assert_eq!(reply.refusal(), (401, "InvalidAuthenticationInfo"));
}

/// Some clients send a signature and, with another path, a shared key.
#[tokio::test]
async fn a_signature_next_to_an_invalid_shared_key_allows_what_it_allows_alone() {
    let client = filled().await;
    let sas = TableSas::new("r");
    let wrong = |ask: Ask| {
        let date = http_date(Utc::now());
        let key = format!(
            "SharedKeyLite {ACCOUNT}:{}",
            sign(&format!("{date}\n/{ACCOUNT}/else"))
        );
        ask.with("x-ms-date", date).with("Authorization", key)
    };
    assert_eq!(
        client.plain(wrong(get("a", &sas.query()))).await.status,
        200
    );
    let refused = client.plain(wrong(insert("x", &sas.query()))).await;
    assert_eq!(refused.refusal(), (403, "AuthorizationPermissionMismatch"));
    let expired = TableSas {
        expiry: time(-1),
        ..sas.clone()
    };
    let refused = client.plain(wrong(get("a", &expired.query()))).await;
    assert_eq!(refused.refusal(), (403, "AuthenticationFailed"));
    let twice = client
        .plain(get("a", &format!("{}&sig=x", sas.query())))
        .await;
    assert_eq!(twice.refusal(), (403, "AuthenticationFailed"));
    // A slash at the end of a path changes nothing.
    let slash = Ask::new(
        "GET",
        format!("abc(PartitionKey='p',RowKey='a')/?{}", sas.query()),
    );
    assert_eq!(client.plain(slash).await.status, 200);
}

#[tokio::test]
async fn old_and_changed_requests_are_refused() {
    let client = filled().await;
    let whole = signed(ACCOUNT, get("a", ""));
    assert_eq!(client.plain(whole.clone()).await.status, 200);
    // Replayed within the validity of the signature: the service accepts it, and so does the server.
    assert_eq!(client.plain(whole.clone()).await.status, 200);
    let other = Ask {
        path: get("b", "").path,
        ..whole.clone()
    };
    assert_eq!(
        client.plain(other).await.refusal(),
        (403, "AuthenticationFailed")
    );
    let written = Ask {
        method: "DELETE",
        ..whole
    };
    assert_eq!(
        client.plain(written).await.refusal(),
        (403, "AuthenticationFailed")
    );
    let date = http_date(Utc::now() - TimeDelta::minutes(16));
    let text = format!("GET\n\n\n{date}\n/{ACCOUNT}/{ACCOUNT}/abc()");
    let old = Ask::new("GET", "abc()").with("x-ms-date", date).with(
        "Authorization",
        format!("SharedKey {ACCOUNT}:{}", sign(&text)),
    );
    let reply = client.plain(old).await;
    assert_eq!(reply.refusal(), (403, "AuthenticationFailed"));
    assert!(reply.body.contains("15 minutes"), "{}", reply.body);
}

#[tokio::test]
async fn shared_key_lite_is_accepted() {
    let client = filled().await;
    let date = http_date(Utc::now());
    let text = format!("{date}\n/{ACCOUNT}/{ACCOUNT}/abc()");
    let lite = Ask::new("GET", "abc()").with("Date", date).with(
        "Authorization",
        format!("SharedKeyLite {ACCOUNT}:{}", sign(&text)),
    );
    assert_eq!(client.plain(lite).await.status, 200);
}

#[tokio::test]
async fn a_table_sas_allows_its_permissions() {
    let client = filled().await;
    let reader = TableSas::new("r").query();
    assert_eq!(client.plain(get("a", &reader)).await.status, 200);
    for ask in [
        insert("x", &reader),
        Ask::new("PUT", format!("abc(PartitionKey='p',RowKey='a')?{reader}")).json("{}"),
        Ask::new(
            "DELETE",
            format!("abc(PartitionKey='p',RowKey='a')?{reader}"),
        )
        .with("If-Match", "*"),
    ] {
        assert_eq!(
            client.plain(ask).await.refusal(),
            (403, "AuthorizationPermissionMismatch")
        );
    }
    for path in ["other()", "Tables", "$metadata"] {
        let reply = client
            .plain(Ask::new("GET", format!("{path}?{reader}")))
            .await;
        assert!(reply.status >= 400, "{path} {reply:?}");
    }
    assert_eq!(
        client
            .plain(Ask::new("GET", format!("other()?{reader}")))
            .await
            .refusal(),
        (403, "AuthorizationFailure")
    );
    assert_eq!(
        client
            .plain(insert("x", &TableSas::new("a").query()))
            .await
            .status,
        201
    );
}

#[tokio::test]
async fn a_sas_is_valid_for_its_time_addresses_and_protocol() {
    let client = filled().await;
    let sas = || TableSas::new("r");
    for (sas, expected) in [
        (
            TableSas {
                expiry: time(-1),
                ..sas()
            },
            (403, "AuthenticationFailed"),
        ),
        (
            TableSas {
                expiry: String::new(),
                ..sas()
            },
            (403, "AuthenticationFailed"),
        ),
        (
            TableSas {
                expiry: "soon".to_owned(),
                ..sas()
            },
            (403, "AuthenticationFailed"),
        ),
        (
            TableSas {
                start: time(5),
                ..sas()
            },
            (403, "AuthenticationFailed"),
        ),
        (
            TableSas {
                start: time(-5),
                ..sas()
            },
            (200, ""),
        ),
        (
            TableSas {
                ip: "10.1.2.3",
                ..sas()
            },
            (403, "AuthorizationSourceIPMismatch"),
        ),
        (
            TableSas {
                ip: "127.0.0.1-127.0.0.9",
                ..sas()
            },
            (200, ""),
        ),
        (
            TableSas {
                protocol: "https",
                ..sas()
            },
            (403, "AuthorizationProtocolMismatch"),
        ),
        (
            TableSas {
                permissions: "",
                ..sas()
            },
            (403, "AuthenticationFailed"),
        ),
    ] {
        assert_eq!(
            client.plain(get("a", &sas.query())).await.refusal(),
            expected
        );
    }
    for (from, to) in [
        ("sp=r", "sp=raud"),
        ("tn=abc", "tn=other"),
        ("sv=2019", "sv=2018"),
        ("&sig=", "&si=x&sig="),
    ] {
        let forged = sas().query().replace(from, to);
        assert_eq!(
            client.plain(get("a", &forged)).await.refusal(),
            (403, "AuthenticationFailed"),
            "{to}"
        );
    }
}

#[tokio::test]
async fn ranges_of_keys_are_enforced() {
    let client = filled().await;
    let sas = TableSas {
        range: ["p", "b", "p", "c"],
        ..TableSas::new("raud")
    }
    .query();
    let list = |query: &str| {
        Ask::new("GET", format!("abc()?{query}{sas}"))
            .with("Accept", "application/json;odata=nometadata")
    };
    let rows = |reply: crate::client::Reply| {
        let value = reply.json()["value"].clone();
        value
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["RowKey"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(client.plain(list("")).await), ["b", "c"]);
    assert_eq!(
        rows(client.plain(list("$filter=RowKey%20lt%20'c'&")).await),
        ["b"]
    );
    // As many comparisons as a filter may have, so that those of the range cannot be added.
    let many = vec!["RowKey%20ge%20'a'"; 15].join("%20and%20");
    assert_eq!(
        rows(client.plain(list(&format!("$filter={many}&"))).await),
        ["b", "c"]
    );
    // A forged continuation token that starts before the range, in the form of tokens for account keys.
    let forged = client
        .plain(list("NextPartitionKey=1!2!cA&NextRowKey=1!2!YQ&"))
        .await;
    assert_eq!(forged.refusal(), (400, "InvalidQueryParameterValue"));
    assert_eq!(
        client.plain(get("a", &sas)).await.refusal(),
        (404, "ResourceNotFound")
    );
    assert_eq!(client.plain(get("b", &sas)).await.status, 200);
    assert_eq!(
        client.plain(insert("aa", &sas)).await.refusal(),
        (403, "AuthorizationFailure")
    );
    assert_eq!(client.plain(insert("bb", &sas)).await.status, 201);
    let delete = |row: &str| {
        Ask::new(
            "DELETE",
            format!("abc(PartitionKey='p',RowKey='{row}')?{sas}"),
        )
        .with("If-Match", "*")
    };
    assert_eq!(
        client.plain(delete("a")).await.refusal(),
        (403, "AuthorizationFailure")
    );
    assert_eq!(client.plain(delete("b")).await.status, 204);
}

/// A filter with as many comparisons as it may have leaves no room for the range.
#[tokio::test]
async fn continuation_tokens_do_not_show_keys_outside_the_range() {
    let client = filled().await;
    for row in ["d", "e"] {
        client
            .insert(&json!({ "PartitionKey": "p", "RowKey": row }).to_string())
            .await;
    }
    let sas = TableSas {
        range: ["p", "b", "p", "c"],
        ..TableSas::new("r")
    }
    .query();
    let many = vec!["RowKey%20ge%20'a'"; 15].join("%20and%20");
    let path = |top: usize, from: &str| format!("abc()?$filter={many}&$top={top}{from}&{sas}");
    for top in [1, 2, 3, 4] {
        let (mut from, mut rows, mut requests) = (String::new(), Vec::new(), 0);
        loop {
            let reply = client.plain(Ask::new("GET", path(top, &from))).await;
            assert_eq!(reply.status, 200, "{reply:?}");
            requests += 1;
            let page = reply.json()["value"].as_array().unwrap().clone();
            rows.extend(
                page.iter()
                    .map(|entity| entity["RowKey"].as_str().unwrap().to_owned()),
            );
            assert_eq!(
                reply.header("x-ms-continuation-nextrowkey"),
                "",
                "one token has both keys"
            );
            let next = reply
                .header("x-ms-continuation-nextpartitionkey")
                .to_owned();
            if next.is_empty() {
                break;
            }
            // Each key of the table is one character.
            let keys = ["a", "b", "c", "d", "e", "p"].map(|key| STANDARD_NO_PAD.encode(key));
            assert!(
                !keys.iter().any(|key| next.ends_with(&format!("!{key}"))),
                "{next}"
            );
            from = format!("&NextPartitionKey={next}");
        }
        assert_eq!(rows, ["b", "c"], "{top}");
        assert_eq!(requests, 2_usize.div_ceil(top), "{top}");
    }
}

/// A token belongs to its table, its query, its parameter and its signature.
#[tokio::test]
async fn a_continuation_token_of_a_range_is_refused_elsewhere() {
    let client = filled().await;
    for row in ["a", "b", "c"] {
        let entity = json!({ "PartitionKey": "p", "RowKey": row }).to_string();
        assert_eq!(
            client
                .owner(Ask::new("POST", "other").json(entity))
                .await
                .status,
            201
        );
    }
    let sas = |from| TableSas {
        range: ["p", from, "p", "c"],
        ..TableSas::new("r")
    };
    let other = TableSas {
        table: "other",
        ..sas("a")
    };
    let later = TableSas {
        expiry: time(11),
        ..sas("a")
    };
    let page = async |table: &str, query: &str, sas: &str| {
        client
            .plain(Ask::new("GET", format!("{table}()?{query}&{sas}")))
            .await
    };
    let (query, own) = (
        "$filter=RowKey%20ge%20'a'&$select=RowKey&$top=1",
        sas("a").query(),
    );
    let token = page("abc", query, &own)
        .await
        .header("x-ms-continuation-nextpartitionkey")
        .to_owned();
    let next = format!("NextPartitionKey={token}");
    assert_eq!(
        page("abc", &format!("{query}&{next}"), &own).await.status,
        200
    );
    // The rest in a page of another size.
    let rest = page(
        "abc",
        &format!("$filter=RowKey%20ge%20'a'&$select=RowKey&$top=7&{next}"),
        &own,
    )
    .await;
    assert_eq!(
        (rest.status, rest.json()["value"].as_array().unwrap().len()),
        (200, 2)
    );
    for (table, query, sas) in [
        ("other", format!("{query}&{next}"), other.query()),
        ("abc", format!("{query}&{next}"), sas("b").query()),
        ("abc", format!("{query}&{next}"), later.query()),
        ("abc", format!("{query}&NextRowKey={token}"), own.clone()),
        (
            "abc",
            format!("{query}&{next}&NextRowKey={token}"),
            own.clone(),
        ),
        (
            "abc",
            format!("$filter=RowKey%20ge%20'b'&$select=RowKey&$top=1&{next}"),
            own.clone(),
        ),
        ("abc", format!("$select=RowKey&$top=1&{next}"), own.clone()),
        (
            "abc",
            format!("$filter=RowKey%20ge%20'a'&$top=1&{next}"),
            own.clone(),
        ),
    ] {
        let refused = page(table, &query, &sas).await;
        assert_eq!(
            refused.refusal(),
            (400, "InvalidQueryParameterValue"),
            "{table} {query}"
        );
    }
    // Nor is it one of the account's key, or of a listing of tables.
    let owner = client
        .owner(Ask::new("GET", format!("abc()?{query}&{next}")))
        .await;
    assert_eq!(owner.refusal(), (400, "InvalidQueryParameterValue"));
    let tables = Ask::new(
        "GET",
        format!(
            "Tables?NextTableName={token}&{}",
            account_sas("l", "t", "c")
        ),
    );
    assert_eq!(
        client.plain(tables).await.refusal(),
        (400, "InvalidQueryParameterValue")
    );
}

#[tokio::test]
async fn an_account_sas_allows_its_permissions() {
    let client = filled().await;
    let list = |query: &str| Ask::new("GET", format!("Tables?{query}"));
    assert_eq!(
        client.plain(list(&account_sas("l", "t", "c"))).await.status,
        200
    );
    for (permissions, services, resources, code) in [
        ("r", "t", "c", "AuthorizationPermissionMismatch"),
        ("l", "t", "so", "AuthorizationResourceTypeMismatch"),
        ("l", "bq", "c", "AuthorizationServiceMismatch"),
    ] {
        let reply = client
            .plain(list(&account_sas(permissions, services, resources)))
            .await;
        assert_eq!(reply.refusal(), (403, code));
    }
    let all = account_sas("rwdlacup", "bfqt", "sco");
    assert_eq!(client.plain(insert("x", &all)).await.status, 201);
    let policies = Ask::new("GET", format!("abc?comp=acl&{all}"));
    assert_eq!(
        client.plain(policies).await.refusal(),
        (403, "AuthorizationFailure")
    );
    let properties = Ask::new("GET", format!("?restype=service&comp=properties&{all}"));
    assert_eq!(client.plain(properties).await.status, 200);
}

#[tokio::test]
async fn the_secondary_is_read_only() {
    let client = filled().await;
    assert_eq!(client.secondary(get("a", "")).await.status, 200);
    assert_eq!(
        client.secondary(insert("x", "")).await.refusal(),
        (403, "InsufficientAccountPermissions")
    );
    let stats = Ask::new("GET", "?restype=service&comp=stats");
    assert!(
        client
            .secondary(stats.clone())
            .await
            .body
            .contains("<Status>live</Status>")
    );
    assert_eq!(client.owner(stats).await.status, 400);
}

#[tokio::test]
async fn the_servers_own_table_is_not_accessible() {
    let client = filled().await;
    let policy =
        "<SignedIdentifiers><SignedIdentifier><Id>x</Id></SignedIdentifier></SignedIdentifiers>";
    let set = Ask {
        body: policy.to_owned(),
        ..Ask::new("PUT", "abc?comp=acl")
    };
    assert_eq!(client.owner(set).await.status, 204);
    let reply = client
        .owner(Ask::new("GET", "Tables").with("Accept", "application/json;odata=nometadata"))
        .await;
    assert_eq!(
        reply.json(),
        json!({ "value": [{ "TableName": "abc" }, { "TableName": "other" }] })
    );
    for (ask, code) in [
        (Ask::new("GET", "TableServerSettings()"), "TableNotFound"),
        (
            Ask::new("GET", "Tables('tableserversettings')"),
            "TableNotFound",
        ),
        (
            Ask::new("DELETE", "Tables('TableServerSettings')"),
            "ResourceNotFound",
        ),
        (
            Ask::new("GET", "TABLESERVERSETTINGS?comp=acl"),
            "TableNotFound",
        ),
    ] {
        assert_eq!(client.owner(ask).await.refusal(), (404, code));
    }
}
