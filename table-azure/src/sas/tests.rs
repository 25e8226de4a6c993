use chrono::{DateTime, Utc};
use table_core::model::{Key, PartitionKey, TableName};

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

/// The fields and their order: <https://learn.microsoft.com/rest/api/storageservices/create-service-sas#version-2018-11-09-and-later>
#[test]
fn a_tables_signature_is_over_its_documented_text() {
    let range = SasRange::entities(&Key::new("a", "1").unwrap(), &Key::new("b", "2").unwrap());
    let sas = TableSas::new(&table(), TablePermissions::ALL, time("2013-08-17T00:00:00Z"))
        .starting(time("2013-08-16T00:00:00Z"))
        .from_ip(IpRange { first: [168, 1, 5, 60].into(), last: [168, 1, 5, 70].into() })
        .within(range);
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
fn an_accounts_signature_is_over_its_documented_text() {
    let permissions = AccountPermissions::LIST | AccountPermissions::READ;
    let sas = AccountSas::new(permissions, AccountResources::ALL, time("2013-08-17T00:00:00Z"))
        .over(SasProtocol::HttpsAndHttp);
    let text = "myaccount\nrl\nt\nsco\n\n2013-08-17T00:00:00Z\n\nhttps,http\n2019-02-02\n";
    assert_eq!(sas.string_to_sign("myaccount"), text);
    assert!(sas.sign(&key()).as_str().starts_with("sv=2019%2D02%2D02&ss=t&srt=sco&sp=rl&se="));
}

#[test]
fn a_policy_takes_the_place_of_rights_and_times() {
    let token = TableSas::by_policy(&table(), "readers").sign(&key()).unwrap();
    assert!(token.as_str().starts_with("sv=2019%2D02%2D02&tn=mytable&si=readers&spr=https&sig="));
}

#[test]
fn what_the_protocol_would_read_as_no_end_is_refused() {
    let sas = |range| {
        TableSas::new(&table(), TablePermissions::READ, DateTime::UNIX_EPOCH).within(range).sign(&key())
    };
    assert!(sas(SasRange::partition(&PartitionKey::new("").unwrap())).is_err());
    assert!(sas(SasRange::entities(&Key::new("a", "").unwrap(), &Key::new("a", "").unwrap())).is_err());
    assert!(sas(SasRange::partition(&PartitionKey::new("a").unwrap())).is_ok());
    assert!(TableSas::by_policy(&table(), "a\nb").sign(&key()).is_err());
}

#[test]
fn tokens_are_not_shown() {
    let token = TableSas::by_policy(&table(), "readers").sign(&key()).unwrap();
    assert_eq!(format!("{token:?}"), "SasToken");
    assert!(token.url("https://a/").starts_with("https://a/?sv="));
}

#[test]
fn letters_are_read_in_any_order_and_written_in_one() {
    assert_eq!("dur".parse::<TablePermissions>().unwrap().to_string(), "rud");
    assert!("x".parse::<TablePermissions>().is_err());
    assert_eq!(AccountPermissions::ALL.to_string(), "rwdlacup");
}
