use table_core::model::{Key, TableName};

use super::*;

fn key_path(partition: &str, row: &str) -> String {
    entity_path(
        &TableName::new("T1x").unwrap(),
        &Key::new(partition, row).unwrap(),
    )
}

#[test]
fn every_legal_character_of_a_key_is_encoded() {
    assert_eq!(key_path("", ""), "T1x(PartitionKey='',RowKey='')");
    assert_eq!(
        key_path("o'x", "a b"),
        "T1x(PartitionKey='o%27%27x',RowKey='a%20b')"
    );
    assert_eq!(
        key_path("50%", "%2F+&=\"<>"),
        "T1x(PartitionKey='50%25',RowKey='%252F%2B%26%3D%22%3C%3E')"
    );
    assert_eq!(
        key_path("é", "\u{1F600}"),
        "T1x(PartitionKey='%C3%A9',RowKey='%F0%9F%98%80')"
    );
    assert_eq!(key_path("..", "."), "T1x(PartitionKey='..',RowKey='.')");
}

#[test]
fn parsing_a_built_url_does_not_change_it() {
    let endpoint = Endpoint::new("http://127.0.0.1:1/acc", None).unwrap();
    let path = key_path("o'x%/".trim_end_matches('/'), "..");
    let url = endpoint.write_to(&path).into_url();
    assert_eq!(url.as_str(), format!("http://127.0.0.1:1/acc/{path}"));
}

#[test]
fn the_sas_ends_every_query() {
    let endpoint =
        Endpoint::from_sas_url("https://a.table.core.windows.net/?sv=1&sig=x%3D").unwrap();
    let url = endpoint.read_from("T()").with("$top", "5").into_url();
    assert_eq!(
        url.as_str(),
        "https://a.table.core.windows.net/T()?$top=5&sv=1&sig=x%3D"
    );
    assert!(!format!("{endpoint:?}").contains("sig"));
}

#[test]
fn a_table_sas_url_gives_the_accounts_endpoint() {
    let endpoint = Endpoint::from_sas_url("http://127.0.0.1:1/acc/Orders?tn=orders&sig=x").unwrap();
    assert_eq!(
        endpoint.write_to("T").into_url().as_str(),
        "http://127.0.0.1:1/acc/T?tn=orders&sig=x"
    );
}

/// Each URL names the account `acc`, by one SAS or another.
#[test]
fn urls_of_accounts_and_tables_with_a_sas_give_the_accounts_endpoint() {
    let (account, table) = ("ss=t&srt=sco&sig=x", "tn=demo&sig=x");
    for (url, sas) in [
        ("https://acc.table.core.windows.net", account),
        ("https://acc.table.core.windows.net/", account),
        ("https://acc.table.core.windows.net/Demo", account),
        ("https://acc.table.core.windows.net/Demo/", table),
        ("https://acc.table.core.windows.net/Demo()", table),
        ("http://127.0.0.1:1/acc", account),
        ("http://127.0.0.1:1/acc/Demo", account),
        ("http://127.0.0.1:1/acc/Demo/", table),
        ("http://[::1]:1/acc/demo", table),
        ("http://localhost:1/acc/Demo/", account),
        ("https://azurite.local/acc", account),
        ("https://azurite.local/acc/Demo/", table),
        ("https://tables.example/Demo", table),
    ] {
        for question in ["?", "??"] {
            let endpoint = Endpoint::from_sas_url(&format!("{url}{question}{sas}")).unwrap();
            let sent = endpoint.write_to("Demo()").into_url().to_string();
            let path = if url.contains("/acc.") || url.contains(".example") {
                "/Demo()"
            } else {
                "/acc/Demo()"
            };
            assert!(
                sent.ends_with(&format!("{path}?{sas}")),
                "{url}{question}{sas}: {sent}"
            );
            assert_eq!(sent.matches("Demo").count(), 1, "{sent}");
        }
    }
    // An emulator's account that is called as the table.
    let same = Endpoint::from_sas_url("http://127.0.0.1:1/demo?tn=demo&sig=x").unwrap();
    assert_eq!(same.write_to("Demo").into_url().path(), "/demo/Demo");
}

#[test]
fn a_url_that_names_no_account_or_no_signature_is_refused() {
    for (url, reason) in [
        ("https://acc.table.core.windows.net/?", "no `sig`"),
        ("https://acc.table.core.windows.net/??", "no `sig`"),
        (
            "https://acc.table.core.windows.net/?sv=1&se=2&sig=",
            "no `sig`",
        ),
        ("https://acc.table.core.windows.net/?se7en", "no `sig`"),
        (
            "https://acc.table.core.windows.net/a/b?sig=se7en",
            "more than a table",
        ),
        ("http://127.0.0.1:1/acc/a/b?sig=se7en", "more than a table"),
        ("https://acc.table.core.windows.net", "no SAS"),
    ] {
        let error = Endpoint::from_sas_url(url).unwrap_err().to_string();
        assert!(
            error.contains(reason) && !error.contains("se7en"),
            "{url}: {error}"
        );
    }
    for url in [
        "https://acc.table.core.windows.net/Demo",
        "https://a.table.cosmos.azure.com:443/Demo/",
    ] {
        let error = Endpoint::new(url, None).unwrap_err().to_string();
        assert!(error.contains("has no path"), "{url}: {error}");
    }
}

#[test]
fn reads_can_go_to_the_secondary() {
    for (primary, expected) in [
        (
            "https://acc.table.core.windows.net",
            "https://acc-secondary.table.core.windows.net/T",
        ),
        (
            "http://127.0.0.1:10002/acc",
            "http://127.0.0.1:10002/acc-secondary/T",
        ),
        (
            "http://localhost:10002/acc/",
            "http://localhost:10002/acc-secondary/T",
        ),
        (
            "http://azurite.local:10002/acc",
            "http://azurite.local:10002/acc-secondary/T",
        ),
    ] {
        let endpoint = Endpoint::new(primary, None)
            .unwrap()
            .with_reads_from(ReadFrom::Secondary, None)
            .unwrap();
        assert_eq!(endpoint.read_from("T").into_url().as_str(), expected);
        assert!(
            !endpoint
                .write_to("T")
                .into_url()
                .as_str()
                .contains("secondary")
        );
    }
}

#[test]
fn cosmos_is_recognized_by_its_host_name() {
    assert!(
        Endpoint::new("https://a.table.cosmos.azure.com:443/", None)
            .unwrap()
            .is_cosmos
    );
    assert!(
        !Endpoint::new("https://a.table.core.windows.net", None)
            .unwrap()
            .is_cosmos
    );
}

#[test]
fn invalid_endpoints_are_refused_without_showing_the_query() {
    for text in ["acc", "ftp://x", "https://x?sig=se7en", "ftp://x#se7en", ""] {
        assert!(
            !Endpoint::new(text, None)
                .unwrap_err()
                .to_string()
                .contains("se7en")
        );
    }
}

#[test]
fn user_names_and_passwords_in_urls_are_refused_and_never_shown() {
    for text in [
        "https://me:se7en@acc.table.core.windows.net",
        "https://se7en@acc.table.core.windows.net",
        "https://:se7en@acc.table.core.windows.net",
        "https://me:se?7en@acc",
        "https://me:se#7en@acc",
        "https://me:se/7en@acc",
        "ftp://me:se7en@acc",
        "https://me:se7en@",
        "me:se7en@acc",
    ] {
        for refused in [
            Endpoint::new(text, None),
            Endpoint::from_sas_url(&format!("{text}?sig=se7en")),
            Endpoint::new("https://acc", None)
                .and_then(|acc| acc.with_reads_from(ReadFrom::Secondary, Some(text))),
        ] {
            // A `/`, `?` or `#` ends the host, so there is no password: `https://me:se` has an invalid port.
            let error = refused.map(|_| text).unwrap_err().to_string();
            assert!(
                !error.contains("se7en") && !error.contains("7en") && !error.contains("me:"),
                "{error}"
            );
        }
    }
    assert!(!format!("{:?}", Endpoint::new("https://acc", None)).contains('@'));
}

#[test]
fn secrets_are_sent_over_http_to_loopback_and_allowed_hosts_only() {
    let plain = |text: &str| Endpoint::new(text, Some("sig=x".to_owned())).unwrap();
    for good in [
        "https://acc.table.core.windows.net",
        "http://127.0.0.1:10002/acc",
        "http://127.8.9.10/acc",
        "http://localhost:10002/acc",
        "http://LOCALHOST/acc",
        "http://[::1]:10002/acc",
        "http://[::ffff:127.0.0.1]/acc",
        "http://azurite:10002/acc",
    ] {
        plain(good).check_http(&["Azurite".to_owned()]).unwrap();
    }
    for bad in [
        "http://acc.table.core.windows.net",
        "http://localhost.example.com/acc",
        "http://127.0.0.1.example.com/acc",
        "http://10.0.0.1/acc",
        "http://0.0.0.0/acc",
        "http://[::2]/acc",
        "http://azurite2/acc",
    ] {
        let error = plain(bad)
            .check_http(&["azurite".to_owned()])
            .unwrap_err()
            .to_string();
        assert!(error.contains("plain_http_hosts"), "{bad}: {error}");
    }
    let secondary = plain("https://acc")
        .with_reads_from(ReadFrom::Primary, Some("http://acc-2"))
        .unwrap();
    assert!(secondary.check_http(&[]).is_err());
}

#[test]
fn the_cosmos_emulator_is_recognized_by_its_port() {
    for (text, is_cosmos) in [
        ("http://localhost:8902/", true),
        ("https://127.0.0.1:8902", true),
        ("http://localhost:10002/devstoreaccount1", false),
        ("http://orders.example:8902", false),
    ] {
        assert_eq!(
            Endpoint::new(text, None).unwrap().is_cosmos,
            is_cosmos,
            "{text}"
        );
    }
    let explicit = Endpoint::new("http://localhost:8902", None)
        .unwrap()
        .with_service(Service::TableStorage);
    assert!(!explicit.is_cosmos);
}

/// A query with such a signature returns only rows in its range, so an existing manifest would look empty.
#[test]
fn a_range_of_keys_without_the_manifest_is_known() {
    let hides = |sas: &str| {
        Endpoint::from_sas_url(&format!("http://127.0.0.1:1/acc?sig=x&{sas}"))
            .unwrap()
            .hides_manifest()
    };
    assert!(hides("spk=contoso&epk=contoso") && hides("epk=contoso") && hides("spk=~~queue"));
    assert!(hides("spk=a&epk=~~manifest&erk=m") && hides("spk=~~manifest&srk=m"));
    assert!(
        !hides("sp=r") && !hides("spk=a") && !hides("spk=a&epk=~~manifest") && !hides("epk=~~z")
    );
    assert!(
        !Endpoint::new("http://127.0.0.1:1/acc", None)
            .unwrap()
            .hides_manifest()
    );
}
