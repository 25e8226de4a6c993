//! Stored access policies, service properties, and cross-origin requests.

use chrono::{TimeDelta, Utc};
use serde_json::json;

use crate::client::{Ask, Client, encoded, sign};

fn policy(id: &str, fields: &str) -> String {
    format!(
        "<SignedIdentifiers><SignedIdentifier><Id>{id}</Id><AccessPolicy>{fields}</AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    )
}

fn set_policies(body: String) -> Ask {
    Ask {
        body,
        ..Ask::new("PUT", "abc?comp=acl")
    }
}

/// Returns the query of a SAS with a policy.
fn by_policy(id: &str, permissions: &str) -> String {
    let text =
        format!("{permissions}\n\n\n/table/devstoreaccount1/abc\n{id}\n\n\n2019-02-02\n\n\n\n");
    let permissions = if permissions.is_empty() {
        String::new()
    } else {
        format!("&sp={permissions}")
    };
    format!(
        "sv=2019-02-02&tn=abc&si={id}{permissions}&sig={}",
        encoded(&sign(&text))
    )
}

fn later() -> String {
    (Utc::now() + TimeDelta::hours(1))
        .format("%Y-%m-%dT%H:%M:%S.0000000Z")
        .to_string()
}

#[tokio::test]
async fn policies_are_stored_and_signatures_use_them() {
    let client = Client::with_table().await;
    let list = |query: &str| Ask::new("GET", format!("abc()?{query}"));
    assert_eq!(
        client
            .plain(list(&by_policy("readers", "")))
            .await
            .refusal(),
        (403, "AuthenticationFailed")
    );
    let fields = format!("<Expiry>{}</Expiry><Permission>r</Permission>", later());
    assert_eq!(
        client
            .owner(set_policies(policy("readers", &fields)))
            .await
            .status,
        204
    );
    let reply = client.owner(Ask::new("GET", "abc?comp=acl")).await;
    assert!(
        reply.body.ends_with(&policy("readers", &fields)),
        "{}",
        reply.body
    );
    assert_eq!(
        client.plain(list(&by_policy("readers", ""))).await.status,
        200
    );
    assert_eq!(
        client
            .plain(list(&by_policy("writers", "")))
            .await
            .refusal(),
        (403, "AuthenticationFailed")
    );
    // Set by both the policy and the signature.
    assert_eq!(
        client
            .plain(list(&by_policy("readers", "r")))
            .await
            .refusal(),
        (403, "AuthenticationFailed")
    );
    let expired = "<Expiry>2020-01-01</Expiry><Permission>r</Permission>";
    client.owner(set_policies(policy("readers", expired))).await;
    assert_eq!(
        client
            .plain(list(&by_policy("readers", "")))
            .await
            .refusal(),
        (403, "AuthenticationFailed")
    );
    client
        .owner(set_policies(policy(
            "readers",
            &format!("<Expiry>{}</Expiry>", later()),
        )))
        .await;
    assert_eq!(
        client.plain(list(&by_policy("readers", "r"))).await.status,
        200
    );
    assert_eq!(
        client
            .owner(set_policies("<nonsense/>".to_owned()))
            .await
            .refusal(),
        (400, "InvalidXmlDocument")
    );
    assert_eq!(
        client
            .owner(Ask::new("GET", "missing?comp=acl"))
            .await
            .refusal(),
        (404, "TableNotFound")
    );
    let missing = Ask {
        path: "missing?comp=acl".to_owned(),
        ..set_policies(String::new())
    };
    assert_eq!(
        client.owner(missing).await.refusal(),
        (404, "TableNotFound")
    );
}

#[tokio::test]
async fn a_new_table_does_not_have_the_policies_of_a_deleted_one() {
    let client = Client::with_table().await;
    let fields = format!("<Expiry>{}</Expiry><Permission>r</Permission>", later());
    client.owner(set_policies(policy("readers", &fields))).await;
    assert_eq!(
        client
            .owner(Ask::new("DELETE", "Tables('abc')"))
            .await
            .status,
        204
    );
    let create = Ask::new("POST", "Tables").json(json!({ "TableName": "ABC" }).to_string());
    assert_eq!(client.owner(create).await.status, 201);
    let reply = client
        .plain(Ask::new(
            "GET",
            format!("abc()?{}", by_policy("readers", "")),
        ))
        .await;
    assert_eq!(reply.refusal(), (403, "AuthenticationFailed"));
}

fn set_properties(inner: &str) -> Ask {
    let body = format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
    Ask {
        body,
        ..Ask::new("PUT", "?restype=service&comp=properties")
    }
}

const RULE: &str = "<Cors><CorsRule><AllowedOrigins>https://a.example</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods>\
    <MaxAgeInSeconds>60</MaxAgeInSeconds><ExposedHeaders>x-ms-*,etag</ExposedHeaders><AllowedHeaders>x-ms-*</AllowedHeaders></CorsRule></Cors>";

#[tokio::test]
async fn properties_are_stored_and_omitted_ones_stay_unchanged() {
    let client = Client::with_table().await;
    let get = Ask::new("GET", "?restype=service&comp=properties");
    let reply = client.owner(get.clone()).await;
    assert!(
        reply.status == 200
            && reply
                .body
                .contains("<HourMetrics><Version>1.0</Version><Enabled>false"),
        "{reply:?}"
    );
    assert_eq!(client.owner(set_properties(RULE)).await.status, 202);
    let minute = "<MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>false</IncludeAPIs>\
        <RetentionPolicy><Enabled>true</Enabled><Days>3</Days></RetentionPolicy></MinuteMetrics>";
    assert_eq!(client.owner(set_properties(minute)).await.status, 202);
    let reply = client.owner(get).await;
    assert!(
        reply.body.contains(RULE) && reply.body.contains(minute),
        "{}",
        reply.body
    );
    assert_eq!(
        client
            .owner(set_properties("<Cors><CorsRule/></Cors>"))
            .await
            .status,
        400
    );
    assert_eq!(
        client
            .owner(Ask::new("PUT", "?restype=service&comp=properties"))
            .await
            .refusal(),
        (400, "InvalidXmlDocument")
    );
}

#[tokio::test]
async fn cross_origin_rules_are_enforced() {
    let client = Client::with_table().await;
    let preflight = |origin: &str, method: &str, headers: &str| {
        let ask = Ask::new("OPTIONS", "abc")
            .with("Origin", origin)
            .with("Access-Control-Request-Method", method);
        ask.with("Access-Control-Request-Headers", headers)
    };
    let asked = || preflight("https://a.example", "PUT", "x-ms-date");
    assert_eq!(
        client.plain(asked()).await.refusal(),
        (403, "CorsPreflightFailure")
    );
    assert_eq!(client.owner(set_properties(RULE)).await.status, 202);
    let reply = client.plain(asked()).await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("access-control-allow-origin"),
        "https://a.example"
    );
    assert_eq!(reply.header("access-control-max-age"), "60");
    for (origin, method, headers) in [
        ("https://b.example", "PUT", "x-ms-date"),
        ("https://a.example", "DELETE", "x-ms-date"),
        ("https://a.example", "PUT", "authorization"),
    ] {
        let reply = client.plain(preflight(origin, method, headers)).await;
        assert_eq!(
            reply.refusal(),
            (403, "CorsPreflightFailure"),
            "{origin} {method}"
        );
    }
    let reply = client
        .owner(Ask::new("GET", "abc()").with("Origin", "https://a.example"))
        .await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        reply.header("access-control-allow-origin"),
        "https://a.example"
    );
    assert!(
        reply
            .header("access-control-expose-headers")
            .contains("x-ms-request-id"),
        "{reply:?}"
    );
    assert_eq!(reply.header("vary"), "Origin");
    // The key of the account is published, so pages of other origins are refused; with another key they cannot read the answer.
    let reply = client
        .owner(Ask::new("GET", "abc()").with("Origin", "https://b.example"))
        .await;
    assert_eq!(reply.refusal(), (403, "AuthorizationFailure"));
    assert_eq!(reply.header("access-control-allow-origin"), "");
    let refused = client
        .plain(Ask::new("GET", "abc()").with("Origin", "https://a.example"))
        .await;
    assert_eq!(refused.status, 401);
    assert_eq!(
        refused.header("access-control-allow-origin"),
        "https://a.example"
    );
}
