use chrono::{DateTime, Utc};
use table_core::model::{Key, PartitionKey, TableName};
use table_core::typed::{RowBounds, RowPrefix, TableEntity};

use super::*;
use crate::SharedKey;

fn key() -> SharedKey {
    SharedKey::new("myaccount", "a2V5").unwrap()
}

fn time(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

fn table() -> TableName {
    TableName::new("MyTable").unwrap()
}

/// The fields and their order:
/// <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#version-2018-11-09-and-later>
#[test]
fn a_table_sas_signs_the_documented_text() {
    let range = SasRange::entities(&Key::new("a", "1").unwrap(), &Key::new("b", "2").unwrap());
    let sas = TableSas::new(
        &table(),
        TablePermissions::ALL,
        time("2013-08-17T00:00:00Z"),
    )
    .with_start(time("2013-08-16T00:00:00Z"))
    .with_ip(IpRange {
        first: [168, 1, 5, 60].into(),
        last: [168, 1, 5, 70].into(),
    })
    .with_range(range);
    let text = "raud\n2013-08-16T00:00:00Z\n2013-08-17T00:00:00Z\n/table/myaccount/mytable\n\n\
        168.1.5.60-168.1.5.70\nhttps\n2019-02-02\na\n1\nb\n2";
    assert_eq!(sas.string_to_sign("myaccount", ["a", "1", "b", "2"]), text);
    let token = sas.sign(&key()).unwrap();
    let signature: String = key()
        .sign(text)
        .bytes()
        .map(|b| match b {
            b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect();
    assert_eq!(
        token.as_str(),
        format!(
            "sv=2019%2D02%2D02&tn=mytable&sp=raud&st=2013%2D08%2D16T00%3A00%3A00Z&se=2013%2D08%2D17T00%3A00%3A00Z\
            &sip=168%2E1%2E5%2E60%2D168%2E1%2E5%2E70&spr=https&spk=a&srk=1&epk=b&erk=2&sig={signature}"
        )
    );
}

/// <https://learn.microsoft.com/rest/api/storageservices/create-account-sas#construct-the-signature-string>
#[test]
fn an_account_sas_signs_the_documented_text() {
    let permissions = AccountPermissions::LIST | AccountPermissions::READ;
    let sas = AccountSas::new(
        permissions,
        AccountResources::ALL,
        time("2013-08-17T00:00:00Z"),
    )
    .with_protocol(SasProtocol::HttpsAndHttp);
    let text = "myaccount\nrl\nt\nsco\n\n2013-08-17T00:00:00Z\n\nhttps,http\n2019-02-02\n";
    assert_eq!(sas.string_to_sign("myaccount"), text);
    assert!(
        sas.sign(&key())
            .as_str()
            .starts_with("sv=2019%2D02%2D02&ss=t&srt=sco&sp=rl&se=")
    );
}

/// Signatures that another implementation made: `generate_table_sas` and `generate_account_sas` of the Python
/// client azure-data-tables 12.7.0, with `AzureNamedKeyCredential("myaccount", "a2V5")` and the same
/// arguments as here.
#[test]
fn signatures_equal_those_of_the_python_client() {
    let (start, expiry) = (time("2013-08-16T00:00:00Z"), time("2013-08-17T00:00:00Z"));
    let range = SasRange::entities(&Key::new("a", "1").unwrap(), &Key::new("b", "2").unwrap());
    let ranged = TableSas::new(&table(), TablePermissions::ALL, expiry)
        .with_start(start)
        .with_ip(IpRange {
            first: [168, 1, 5, 60].into(),
            last: [168, 1, 5, 70].into(),
        })
        .with_range(range);
    let account = AccountPermissions::LIST | AccountPermissions::READ;
    let account = AccountSas::new(account, AccountResources::ALL, expiry)
        .with_protocol(SasProtocol::HttpsAndHttp);
    for (token, signature) in [
        (
            ranged.sign(&key()).unwrap(),
            "U/b+7otnFuQkTAyrwsDvTX24jcMCL0Marnjhx0j0Qb8=",
        ),
        (
            TableSas::by_policy(&table(), "readers")
                .with_range(SasRange::ALL)
                .sign(&key())
                .unwrap(),
            "sYG7XHv7uqEoDsv3GGEHw7CyuzWtwBtCqbpBhcGPInY=",
        ),
        (
            account.sign(&key()),
            "7bpbfRwyOpdI3nulKc1bN5HVkM4WNb4R386ibqS/FrQ=",
        ),
    ] {
        let url = azure_core::http::Url::parse(&token.url("https://a")).unwrap();
        let found = url
            .query_pairs()
            .find(|(name, _)| name == "sig")
            .unwrap()
            .1
            .into_owned();
        assert_eq!(found, signature);
    }
}

#[test]
fn a_policy_replaces_permissions_and_times() {
    let token = TableSas::by_policy(&table(), "readers")
        .sign(&key())
        .unwrap();
    assert!(
        token
            .as_str()
            .starts_with("sv=2019%2D02%2D02&tn=mytable&si=readers&spr=https&epk=%7E%7E&sig=")
    );
}

#[test]
fn a_signature_sets_the_values_that_its_policy_omits() {
    let sas = TableSas::by_policy(&table(), "readers")
        .with_permissions(TablePermissions::READ)
        .with_start(time("2013-08-16T00:00:00Z"))
        .with_expiry(time("2013-08-17T00:00:00Z"));
    assert!(sas.sign(&key()).unwrap().as_str().starts_with(
        "sv=2019%2D02%2D02&tn=mytable&sp=r&st=2013%2D08%2D16T00%3A00%3A00Z&se=2013%2D08%2D17T00%3A00%3A00Z\
        &si=readers&spr=https&epk=%7E%7E&sig="
    ));
}

/// A client that may add rows to the manifest acts with the rights of other programs.
#[test]
fn a_signature_ends_before_the_manifest_unless_asked() {
    let sas = TableSas::new(&table(), TablePermissions::ALL, DateTime::UNIX_EPOCH);
    let end = |sas: &TableSas| {
        let token = sas.sign(&key()).unwrap();
        let url = azure_core::http::Url::parse(&token.url("https://a")).unwrap();
        url.query_pairs()
            .find(|(name, _)| name == "epk")
            .map(|(_, value)| value.into_owned())
    };
    assert_eq!(end(&sas).as_deref(), Some("~~"));
    assert!(key_order::compare("~~", table_core::model::MANIFEST_PARTITION).is_lt());
    assert_eq!(end(&sas.with_range(SasRange::ALL)), None);
}

#[test]
fn a_range_that_ends_at_an_empty_key_is_refused() {
    let sas = |range| {
        TableSas::new(&table(), TablePermissions::READ, DateTime::UNIX_EPOCH)
            .with_range(range)
            .sign(&key())
    };
    assert!(sas(SasRange::partition(&PartitionKey::new("").unwrap())).is_err());
    assert!(
        sas(SasRange::entities(
            &Key::new("a", "").unwrap(),
            &Key::new("a", "").unwrap()
        ))
        .is_err()
    );
    assert!(sas(SasRange::partition(&PartitionKey::new("a").unwrap())).is_ok());
    assert!(TableSas::by_policy(&table(), "a\nb").sign(&key()).is_err());
}

/// The empty PartitionKey would be left out of the token.
#[test]
fn a_range_that_starts_at_a_row_of_the_empty_partition_is_refused() {
    let sas = |first: &Key| {
        let range = SasRange::entities(first, &Key::new("b", "9").unwrap());
        TableSas::new(&table(), TablePermissions::READ, DateTime::UNIX_EPOCH)
            .with_range(range)
            .sign(&key())
    };
    let error = sas(&Key::new("", "1").unwrap()).unwrap_err();
    assert!(error.to_string().contains("empty PartitionKey"), "{error}");
    assert!(
        !sas(&Key::new("", "").unwrap())
            .unwrap()
            .as_str()
            .contains("srk")
    );
    assert!(
        sas(&Key::new("a", "1").unwrap())
            .unwrap()
            .as_str()
            .contains("spk=a&srk=1")
    );
}

#[test]
fn tokens_are_not_shown() {
    let token = TableSas::by_policy(&table(), "readers")
        .sign(&key())
        .unwrap();
    assert_eq!(format!("{token:?}"), "SasToken");
    assert!(token.url("https://a/").starts_with("https://a/?sv="));
}

#[test]
fn letters_are_read_in_any_order_and_written_in_one() {
    assert_eq!(
        "dur".parse::<TablePermissions>().unwrap().to_string(),
        "rud"
    );
    assert!("x".parse::<TablePermissions>().is_err());
    assert_eq!(AccountPermissions::ALL.to_string(), "rwdlacup");
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix))]
struct Order {
    #[partition_key]
    tenant: String,
    #[row_key(format = "order_{:02}")]
    number: u32,
}

fn first() -> RowPrefix<Order> {
    RowPrefix::escaped("order_03")
}

fn last() -> RowPrefix<Order> {
    RowPrefix::escaped("order_07")
}

/// Returns the first and the last RowKey that a signature over these rows allows.
fn ends(rows: impl RowBounds<Order>) -> table_core::Result<(String, String)> {
    let sas = TableSas::new(&table(), TablePermissions::READ, DateTime::UNIX_EPOCH);
    let token = sas
        .within_rows::<Order>(Order::partition("contoso")?, rows)?
        .sign(&key())?;
    let url = azure_core::http::Url::parse(&token.url("https://a")).unwrap();
    let field = |name| {
        url.query_pairs()
            .find(|(n, _)| n == name)
            .unwrap()
            .1
            .into_owned()
    };
    assert_eq!(field("spk"), "contoso".to_owned());
    assert_eq!(field("epk"), "contoso".to_owned());
    Ok((field("srk"), field("erk")))
}

#[test]
fn open_ranges_cover_only_rows_of_the_type() {
    let (from, to) = ("order_", "order_\u{FFFF}");
    let before_last = "order_06\u{FFFF}";
    for (found, expected) in [
        (ends(Order::row_prefix()), (from, to)),
        (ends(first()), ("order_03", "order_03\u{FFFF}")),
        (ends(first()..last()), ("order_03", before_last)),
        (ends(first()..=last()), ("order_03", "order_07\u{FFFF}")),
        (ends(..last()), (from, before_last)),
        (ends(..=last()), (from, "order_07\u{FFFF}")),
        (ends(first()..), ("order_03", to)),
        // Ranges that exceed the type's rows.
        (
            ends(RowPrefix::escaped("a")..RowPrefix::escaped("z")),
            (from, to),
        ),
        (ends(RowPrefix::escaped("")), (from, to)),
    ] {
        let (srk, erk) = found.unwrap();
        assert_eq!((srk.as_str(), erk.as_str()), expected);
    }
}

#[test]
fn ranges_without_rows_of_the_type_are_refused() {
    assert!(ends(last()..first()).is_err());
    assert!(ends(RowPrefix::escaped("invoice_")).is_err());
    assert!(ends(RowPrefix::escaped("p")..).is_err());
    assert!(ends(..RowPrefix::escaped("order_")).is_err());
}

#[derive(TableEntity)]
#[entity(discriminator(partition_prefix))]
struct Reading {
    #[partition_key(format = "sensor_{}")]
    sensor: String,
    #[row_key]
    day: String,
}

#[test]
fn a_partition_of_another_type_is_refused() {
    let sas = || TableSas::new(&table(), TablePermissions::READ, DateTime::UNIX_EPOCH);
    assert!(
        sas()
            .within_partition::<Reading>(Reading::partition("7").unwrap())
            .is_ok()
    );
    let claimed = PartitionKey::new("contoso").unwrap();
    let error = sas().within_partition::<Reading>(claimed).unwrap_err();
    assert!(
        error.to_string().contains("contoso") && error.to_string().contains("sensor_"),
        "{error}"
    );
}

#[test]
fn the_last_text_before_an_end_precedes_it_and_follows_all_texts_under_the_prefix() {
    for prefix in [
        "a",
        "a/".trim_end_matches('/'),
        "empid_",
        "\u{D7FF}",
        "\u{10FFFF}",
        "@",
        "x\u{E000}",
    ] {
        let end = key_order::prefix_end(prefix).unwrap();
        let last = end_before(&end).unwrap();
        assert!(key_order::compare(&last, &end).is_lt(), "{prefix:?}");
        for more in ["", "0", "zzz", "\u{10FFFF}"] {
            let key = format!("{prefix}{more}");
            assert!(key_order::compare(&key, &last).is_le(), "{key:?} {last:?}");
        }
    }
    assert_eq!(end_before("a ").unwrap(), "a");
    assert!(end_before("").is_err());
}
