//! Services of Azure Storage besides entities, on the emulator: signatures, policies, properties, statistics.
//!
//! Azurite accepts signatures with key ranges but does not enforce the ranges. The tests can only show that the
//! signatures are valid.

use std::net::Ipv4Addr;

use chrono::{TimeDelta, Utc};
use conformance::azurite::Azurite;
use table_azure::sas::{
    AccountPermissions, AccountResources, AccountSas, IpRange, SasProtocol, SasRange, SasToken,
    TablePermissions, TableSas,
};
use table_azure::service::{
    CorsRule, Logging, Metrics, ReplicationStatus, Retention, StoredPolicy,
};
use table_azure::wire::encode_entity;
use table_azure::{AzureTableStore, AzureTableStoreOptions, ReadFrom, collect_responses};
use table_core::adapter::{Failover, Fault, FaultInjector, FaultRule, ReadSources, StoreBuilder};
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::query::Query;
use table_core::store::limits::BINARY_BYTES;
use table_core::store::{ErrorKind, Operation, OperationKind, TableStore};
use table_core::typed::{RowPrefix, TableEntity};
use uuid::Uuid;

use crate::backends::{connection_string, emulated};

/// Returns the store of the account's owner, and a table with one entity, `('p', 'r')`.
async fn owner() -> (AzureTableStore, TableName) {
    let store = emulated().await;
    let table = TableName::new(format!("T{}", Uuid::new_v4().simple())).unwrap();
    store.create_table(&table).await.unwrap();
    store.write(&table, insert("r")).await.unwrap();
    (store, table)
}

fn guest(token: &SasToken) -> AzureTableStore {
    AzureTableStore::with_sas(&token.url(Azurite::shared().tables()), None).unwrap()
}

fn insert(row: &str) -> Operation {
    Operation::Insert(Entity::new("p", row).unwrap().with("N", 1))
}

fn key() -> Key {
    Key::new("p", "r").unwrap()
}

fn sas(table: &TableName, permissions: TablePermissions) -> TableSas {
    TableSas::new(table, permissions, Utc::now() + TimeDelta::hours(1))
        .with_protocol(SasProtocol::HttpsAndHttp)
}

fn is_forbidden<T>(result: table_core::Result<T>) -> bool {
    result.is_err_and(|e| {
        matches!(
            e.kind(),
            ErrorKind::Forbidden(_) | ErrorKind::Unauthorized(_)
        )
    })
}

#[tokio::test]
async fn a_table_signature_grants_its_permissions() {
    let (store, table) = owner().await;
    let reader = guest(&store.sign(&sas(&table, TablePermissions::READ)).unwrap());
    assert!(reader.get(&table, &key(), None).await.unwrap().is_some());
    assert_eq!(
        reader
            .query(&table, &Query::new(), None)
            .await
            .unwrap()
            .into_page()
            .unwrap()
            .items
            .len(),
        1
    );
    assert!(is_forbidden(reader.write(&table, insert("x")).await));
    assert!(is_forbidden(
        reader
            .write(&table, Operation::Delete(key(), IfMatch::Any))
            .await
    ));
    let adder = guest(&store.sign(&sas(&table, TablePermissions::ADD)).unwrap());
    adder.write(&table, insert("x")).await.unwrap();
    assert!(is_forbidden(adder.get(&table, &key(), None).await));
}

#[tokio::test]
async fn a_signature_is_limited_to_its_table_time_and_addresses() {
    let (store, table) = owner().await;
    let (_, other) = owner().await;
    let reader = guest(&store.sign(&sas(&table, TablePermissions::ALL)).unwrap());
    assert!(is_forbidden(reader.get(&other, &key(), None).await));
    let expired = TableSas::new(
        &table,
        TablePermissions::ALL,
        Utc::now() - TimeDelta::minutes(1),
    );
    let expired = guest(
        &store
            .sign(&expired.with_protocol(SasProtocol::HttpsAndHttp))
            .unwrap(),
    );
    assert!(is_forbidden(expired.get(&table, &key(), None).await));
    let early = sas(&table, TablePermissions::ALL).with_start(Utc::now() + TimeDelta::minutes(5));
    assert!(is_forbidden(
        guest(&store.sign(&early).unwrap())
            .get(&table, &key(), None)
            .await
    ));
    let elsewhere =
        sas(&table, TablePermissions::ALL).with_ip(IpRange::from(Ipv4Addr::new(10, 1, 2, 3)));
    // Azurite ignores the address of the caller, but checks the signature over the allowed addresses.
    let from_here = guest(&store.sign(&elsewhere).unwrap())
        .get(&table, &key(), None)
        .await;
    if Azurite::is_replaced() {
        assert!(is_forbidden(from_here));
    } else {
        assert!(from_here.is_ok());
    }
    let https = TableSas::new(
        &table,
        TablePermissions::ALL,
        Utc::now() + TimeDelta::hours(1),
    );
    assert!(is_forbidden(
        guest(&store.sign(&https).unwrap())
            .get(&table, &key(), None)
            .await
    ));
}

/// A range of each kind, with characters that both the signed text and the URL must encode correctly. Azurite
/// decodes the fields twice, so a percent sign cannot be tested.
#[tokio::test]
async fn signatures_with_ranges_are_valid() {
    let (store, table) = owner().await;
    let partition = |text| PartitionKey::new(text).unwrap();
    for range in [
        SasRange::ALL,
        SasRange::partition(&partition("p")),
        SasRange::partitions(&partition("it's a & b +\u{e9}"), &partition("q\u{1F600}")),
        SasRange::entities(&key(), &Key::new("p", "r=\"<>").unwrap()),
    ] {
        let ranged = sas(&table, TablePermissions::READ).with_range(range.clone());
        let reader = guest(&store.sign(&ranged).unwrap());
        assert!(
            reader.get(&table, &key(), None).await.unwrap().is_some(),
            "{range:?}"
        );
    }
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix))]
struct Order {
    #[partition_key]
    tenant: String,
    #[row_key(format = "order_{:06}")]
    number: u32,
    total: f64,
}

#[tokio::test]
async fn a_tenant_reads_its_own_entities() {
    let (store, table) = owner().await;
    let order = Order {
        tenant: "contoso".to_owned(),
        number: 7,
        total: 1.5,
    };
    store
        .write(&table, Operation::Insert(order.to_entity().unwrap()))
        .await
        .unwrap();
    let partition = Order::partition("contoso").unwrap();
    let expires = Utc::now() + TimeDelta::hours(1);
    let token = store
        .sas_for::<Order>(&table, &partition, TablePermissions::READ, expires)
        .unwrap();
    assert!(
        token
            .as_str()
            .contains("spr=https&spk=contoso&srk=order%5F&epk=contoso&erk=order%5F%EF%BF%BF"),
        "{}",
        token.as_str()
    );
    let over_http = || sas(&table, TablePermissions::READ);
    for sas in [
        over_http().within_partition::<Order>(&partition),
        over_http().within_rows::<Order>(&partition, ..RowPrefix::escaped("order_000008")),
        over_http().within_rows::<Order>(&partition, RowPrefix::escaped("order_000007")..),
    ] {
        let tenant = guest(&store.sign(&sas.unwrap()).unwrap());
        let read = tenant
            .get(&table, order.entity_key().unwrap().key(), None)
            .await
            .unwrap();
        assert!(read.is_some());
    }
}

#[tokio::test]
async fn an_account_signature_grants_its_permissions() {
    let (store, table) = owner().await;
    let expires = Utc::now() + TimeDelta::hours(1);
    let lists = AccountPermissions::LIST | AccountPermissions::READ;
    let sas = AccountSas::new(lists, AccountResources::ALL, expires)
        .with_protocol(SasProtocol::HttpsAndHttp);
    let reader = guest(&store.sign_account(&sas).unwrap());
    assert!(
        !reader
            .list_tables(Some(table.as_str()), None)
            .await
            .unwrap()
            .items
            .is_empty()
    );
    assert!(reader.get(&table, &key(), None).await.unwrap().is_some());
    assert!(is_forbidden(reader.write(&table, insert("x")).await));
    assert!(is_forbidden(reader.delete_table(&table).await));
    let entities = AccountSas::new(AccountPermissions::ALL, AccountResources::ENTITY, expires);
    let writer = guest(
        &store
            .sign_account(&entities.with_protocol(SasProtocol::HttpsAndHttp))
            .unwrap(),
    );
    writer.write(&table, insert("x")).await.unwrap();
    assert!(is_forbidden(writer.delete_table(&table).await));
}

#[tokio::test]
async fn a_stored_policy_gives_rights_until_it_is_removed() {
    let (store, table) = owner().await;
    assert_eq!(store.stored_policies(&table).await.unwrap(), []);
    let policy = StoredPolicy {
        id: "readers".to_owned(),
        start: Some("2013-01-01T00:00:00Z".parse().unwrap()),
        expiry: Some("2113-01-01T00:00:00Z".parse().unwrap()),
        permissions: TablePermissions::READ,
    };
    store
        .set_stored_policies(&table, std::slice::from_ref(&policy))
        .await
        .unwrap();
    assert_eq!(store.stored_policies(&table).await.unwrap(), [policy]);
    let sas = TableSas::by_policy(&table, "readers").with_protocol(SasProtocol::HttpsAndHttp);
    let reader = guest(&store.sign(&sas).unwrap());
    assert!(reader.get(&table, &key(), None).await.unwrap().is_some());
    assert!(is_forbidden(reader.write(&table, insert("x")).await));
    store.set_stored_policies(&table, &[]).await.unwrap();
    assert!(is_forbidden(reader.get(&table, &key(), None).await));
}

/// Documented: the signature sets the fields that its policy leaves out
/// (<https://learn.microsoft.com/rest/api/storageservices/define-stored-access-policy>). Azurite requires every
/// field of a policy (<https://github.com/Azure/Azurite/blob/main/src/table/generated/artifacts/mappers.ts>).
/// The store sends such a policy as documented.
#[tokio::test]
async fn the_emulator_refuses_an_incomplete_policy() {
    let (store, table) = owner().await;
    let whole = StoredPolicy {
        id: "readers".to_owned(),
        start: Some("2013-01-01T00:00:00Z".parse().unwrap()),
        expiry: Some("2113-01-01T00:00:00Z".parse().unwrap()),
        permissions: TablePermissions::READ,
    };
    for policy in [
        StoredPolicy {
            start: None,
            ..whole.clone()
        },
        StoredPolicy {
            expiry: None,
            ..whole.clone()
        },
        StoredPolicy {
            permissions: TablePermissions::NONE,
            ..whole.clone()
        },
    ] {
        let set = store
            .set_stored_policies(&table, std::slice::from_ref(&policy))
            .await;
        if Azurite::is_replaced() {
            set.unwrap();
            assert_eq!(store.stored_policies(&table).await.unwrap(), [policy]);
        } else {
            let error = set.unwrap_err();
            assert_eq!(error.answer().unwrap().status, 400, "{error}");
            assert_eq!(store.stored_policies(&table).await.unwrap(), []);
        }
    }
}

#[tokio::test]
async fn policies_of_a_missing_table_are_an_error() {
    let (store, _) = owner().await;
    let missing = TableName::new("Missing").unwrap();
    assert!(
        store
            .stored_policies(&missing)
            .await
            .unwrap_err()
            .is_table_not_found()
    );
}

#[tokio::test]
async fn properties_are_set_and_read_back() {
    let (store, _) = owner().await;
    let mut properties = store.service_properties().await.unwrap();
    let retention = Retention {
        enabled: true,
        days: Some(7),
    };
    properties.logging = Some(Logging {
        version: "1.0".to_owned(),
        delete: true,
        read: false,
        write: true,
        retention,
    });
    let metrics = Metrics {
        version: "1.0".to_owned(),
        enabled: true,
        include_apis: Some(true),
        retention,
    };
    properties.hour_metrics = Some(metrics.clone());
    properties.minute_metrics = Some(metrics);
    let rule = |origin: &str| CorsRule {
        allowed_origins: origin.to_owned(),
        allowed_methods: "GET,PUT".to_owned(),
        max_age_in_seconds: 60,
        exposed_headers: "x-ms-*".to_owned(),
        allowed_headers: "*".to_owned(),
    };
    for origins in [vec!["https://a.example", "https://b.example"], vec!["*"]] {
        properties.cors = Some(origins.into_iter().map(rule).collect());
        store.set_service_properties(&properties).await.unwrap();
        assert_eq!(store.service_properties().await.unwrap(), properties);
    }
}

/// The emulator's secondary endpoint has the data of the primary one, and refuses writes.
#[tokio::test]
async fn reads_fail_over_to_the_secondary_endpoint() {
    let (primary, table) = owner().await;
    let mut options = AzureTableStoreOptions::default();
    options.read_from = ReadFrom::Secondary;
    let secondary =
        AzureTableStore::from_connection_string(&connection_string().await, Some(options)).unwrap();
    let (faults, sources) = (FaultInjector::new(1), ReadSources::default());
    let failing = StoreBuilder::new(primary.clone())
        .fault(faults.clone())
        .build();
    let store = Failover::new(failing, secondary)
        .unwrap()
        .count(sources.clone());
    assert!(store.get(&table, &key(), None).await.unwrap().is_some());
    assert_eq!((sources.primary(), sources.secondary()), (1, 0));
    for read in [
        OperationKind::Get,
        OperationKind::Query,
        OperationKind::ListTables,
    ] {
        faults.add(FaultRule::new(Fault::FailBefore).on(read));
    }
    store.write(&table, insert("x")).await.unwrap();
    let reads = async {
        let found = store.get(&table, &key(), None).await.unwrap();
        let rows = store
            .query(&table, &Query::new().with_top(1), None)
            .await
            .unwrap()
            .into_page()
            .unwrap();
        let last = store
            .query(
                &table,
                &Query::new().with_top(1),
                rows.continuation.as_ref(),
            )
            .await
            .unwrap()
            .into_page()
            .unwrap();
        let tables = store.list_tables(Some(table.as_str()), None).await.unwrap();
        (found, rows.items, last.items, tables.items)
    };
    let ((found, rows, last, tables), answers) = collect_responses(reads).await;
    assert_eq!(found.unwrap().key(), &key());
    assert_eq!(
        [rows, last].map(|rows| rows[0].key().row().to_owned()),
        ["r", "x"]
    );
    assert_eq!(tables, [table]);
    assert_eq!((sources.primary(), sources.secondary()), (1, 4));
    assert_eq!(answers.len(), 4);
    assert!(
        answers
            .iter()
            .all(|answer| answer.is_secondary && answer.request_id.is_some()),
        "{answers:?}"
    );
}

#[tokio::test]
async fn the_secondary_reports_its_last_sync_time() {
    let (store, _) = owner().await;
    let replication = store.geo_replication().await.unwrap();
    assert_eq!(replication.status, ReplicationStatus::Live);
    assert!(replication.last_sync.is_some());
}

/// The boundary of the deviation `EntitySize`: 1 MiB of JSON in the request.
#[tokio::test]
async fn the_json_of_an_entity_has_at_most_one_mebibyte() {
    let (store, table) = owner().await;
    let row = |bytes: usize| {
        let lengths = (0..bytes / BINARY_BYTES)
            .map(|_| BINARY_BYTES)
            .chain([bytes % BINARY_BYTES]);
        lengths
            .enumerate()
            .fold(Entity::new("p", "r").unwrap(), |row, (n, length)| {
                row.with(&format!("B{n:02}"), vec![7u8; length])
            })
    };
    let (mut most, mut too_many) = (700 << 10, 900 << 10);
    while too_many - most > 1 {
        let middle = usize::midpoint(most, too_many);
        if encode_entity(&row(middle)).len() <= 1 << 20 {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    assert!((767 << 10..768 << 10).contains(&most), "{most}");
    store
        .write(&table, Operation::InsertOrReplace(row(most)))
        .await
        .unwrap();
    let beyond = store
        .write(&table, Operation::InsertOrReplace(row(too_many)))
        .await;
    if Azurite::is_replaced() {
        // The documented size is that of the values, which is smaller than that of their JSON.
        beyond.unwrap();
    } else {
        let error = beyond.unwrap_err();
        assert!(error.to_string().contains("EntityTooLarge"), "{error}");
    }
    store.delete_table(&table).await.unwrap();
}
