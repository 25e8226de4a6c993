//! Services of Azure Storage besides entities, on this library's server. The server enforces the ranges,
//! addresses and policies of signatures; the emulator enforces a part of them.

use std::net::Ipv4Addr;

use chrono::{TimeDelta, Utc};
use table_azure::AzureTableStore;
use table_azure::sas::{
    AccountPermissions, AccountResources, AccountSas, IpRange, SasProtocol, SasRange, SasToken,
    TablePermissions, TableSas,
};
use table_azure::service::{
    CorsRule, Logging, Metrics, ReplicationStatus, Retention, StoredPolicy,
};
use table_core::model::{Entity, IfMatch, Key, PartitionKey, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{ErrorKind, Operation, TableStore, TableStoreExt};
use table_core::typed::{RowPrefix, TableEntity};
use table_patterns::spread::SpreadTable;
use uuid::Uuid;

use crate::backends::server;

/// Returns the store of the account's owner, and a table with these entities.
async fn owner(keys: &[(&str, &str)]) -> (AzureTableStore, TableName) {
    let store =
        AzureTableStore::from_connection_string(&server().connection_string(), None).unwrap();
    let table = TableName::new(format!("T{}", Uuid::new_v4().simple())).unwrap();
    store.create_table(&table).await.unwrap();
    for (partition, row) in keys {
        store.write(&table, insert(partition, row)).await.unwrap();
    }
    (store, table)
}

fn guest(token: &SasToken) -> AzureTableStore {
    AzureTableStore::with_sas(&token.url(server().endpoint()), None).unwrap()
}

fn insert(partition: &str, row: &str) -> Operation {
    Operation::Insert(Entity::new(partition, row).unwrap().with("N", 1))
}

fn key(partition: &str, row: &str) -> Key {
    Key::new(partition, row).unwrap()
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

async fn keys(store: &AzureTableStore, table: &TableName, query: Query) -> Vec<String> {
    let found = store.query_all(table, &query).await.unwrap();
    found
        .iter()
        .map(|entity| entity.key().to_string())
        .collect()
}

async fn keys_by_pages(store: &AzureTableStore, table: &TableName, query: &Query) -> Vec<String> {
    let (mut keys, mut from) = (Vec::new(), None);
    loop {
        let page = store
            .query(table, query, from.as_ref())
            .await
            .unwrap()
            .into_page()
            .unwrap();
        keys.extend(page.items.iter().map(|entity| entity.key().to_string()));
        from = page.continuation;
        if from.is_none() {
            return keys;
        }
    }
}

#[tokio::test]
async fn a_signature_grants_only_the_entities_of_its_range() {
    let all = [
        ("a", "1"),
        ("it's a & b +\u{e9}", "%41"),
        ("p", "1"),
        ("p", "5"),
        ("q\u{1F600}", "2"),
        ("z", "1"),
    ];
    let (store, table) = owner(&all).await;
    let partition = |text| PartitionKey::new(text).unwrap();
    let wide = SasRange::partitions(&partition("it's a & b +\u{e9}"), &partition("q\u{1F600}"));
    let narrow = SasRange::entities(&key("p", "2"), &key("q\u{1F600}", "1"));
    for (range, expected) in [
        (SasRange::ALL, &all[..]),
        (SasRange::partition(&partition("p")), &all[2..4]),
        (wide, &all[1..5]),
        (narrow, &all[3..4]),
    ] {
        let token = store
            .sign(&sas(&table, TablePermissions::ALL).with_range(range.clone()))
            .unwrap();
        let tenant = guest(&token);
        let expected: Vec<String> = expected
            .iter()
            .map(|(p, r)| key(p, r).to_string())
            .collect();
        assert_eq!(
            keys(&tenant, &table, Query::new()).await,
            expected,
            "{range:?}"
        );
        assert_eq!(
            keys_by_pages(&tenant, &table, &Query::new().with_top(1)).await,
            expected,
            "{range:?}"
        );
        let numbered = Query::new().with_filter(Filter::eq("N", 1));
        assert_eq!(keys(&tenant, &table, numbered).await, expected, "{range:?}");
        for (partition, row) in all {
            let key = key(partition, row);
            let within = expected.contains(&key.to_string());
            assert_eq!(
                tenant.get(&table, &key, None).await.unwrap().is_some(),
                within,
                "{range:?} {key}"
            );
            let merge = Operation::Merge(Entity::from(key.clone()), IfMatch::Any);
            let merged = tenant.write(&table, merge).await;
            assert!(
                if within {
                    merged.is_ok()
                } else {
                    is_forbidden(merged)
                },
                "{range:?} {key}"
            );
        }
    }
}

#[tokio::test]
async fn a_group_outside_the_range_is_refused() {
    use table_core::store::GroupTransaction;
    let (store, table) = owner(&[]).await;
    let range = SasRange::entities(&key("p", "b"), &key("p", "d"));
    let tenant = guest(
        &store
            .sign(&sas(&table, TablePermissions::ADD).with_range(range))
            .unwrap(),
    );
    let group = |rows: [&str; 2]| {
        let mut group = GroupTransaction::new(PartitionKey::new("p").unwrap(), store.profile());
        rows.into_iter()
            .for_each(|row| group.push(insert("p", row)).unwrap());
        group
    };
    assert!(is_forbidden(
        tenant.transact(&table, group(["b", "e"])).await
    ));
    assert_eq!(
        keys(&store, &table, Query::new()).await,
        Vec::<String>::new()
    );
    tenant.transact(&table, group(["b", "d"])).await.unwrap();
    let mut upsert = GroupTransaction::new(PartitionKey::new("p").unwrap(), store.profile());
    upsert
        .push(Operation::InsertOrMerge(Entity::new("p", "c").unwrap()))
        .unwrap();
    assert!(is_forbidden(tenant.transact(&table, upsert).await));
}

/// A type in several buckets, which its first write adds to the manifest.
#[derive(Clone, Debug, TableEntity)]
#[entity(type = "Reading")]
struct Reading {
    #[partition_key(spread = 2)]
    station: String,
    #[row_key]
    number: u32,
    value: i32,
}

#[tokio::test]
async fn a_signature_that_may_not_read_the_manifest_needs_an_unmanaged_store() {
    let (store, table) = owner(&[]).await;
    let partition = |text: &str| PartitionKey::new(text).unwrap();
    let entities = SasRange::partitions(&partition("0000_"), &partition("0002_"));
    let tenant = || {
        guest(
            &store
                .sign(&sas(&table, TablePermissions::ALL).with_range(entities.clone()))
                .unwrap(),
        )
    };
    let reading = Reading {
        station: "it's north".into(),
        number: 1,
        value: 7,
    };
    let managed = SpreadTable::<Reading>::new(tenant(), table.clone()).unwrap();
    let error = managed.insert(&reading).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Forbidden(_))
            && error.to_string().contains("`unmanaged()`"),
        "{error}"
    );
    assert_eq!(
        keys(&store, &table, Query::new()).await,
        Vec::<String>::new()
    );
    let unmanaged = SpreadTable::<Reading>::new(tenant().unmanaged(), table.clone()).unwrap();
    unmanaged.insert(&reading).await.unwrap();
    assert_eq!(
        keys(&store, &table, Query::new()).await.len(),
        1,
        "the entity, and no row of the manifest"
    );
}

#[tokio::test]
async fn a_signature_that_may_not_add_rows_needs_a_registered_type() {
    let (store, table) = owner(&[]).await;
    let with_manifest =
        sas(&table, TablePermissions::READ | TablePermissions::UPDATE).with_range(SasRange::ALL);
    let token = store.sign(&with_manifest).unwrap();
    let tenant = SpreadTable::<Reading>::new(guest(&token), table.clone()).unwrap();
    let owned = SpreadTable::<Reading>::new(store.clone(), table.clone()).unwrap();
    let key = || Reading::key("it's north", 1u32).unwrap();
    // An entity from before types were registered.
    let row = Entity::from(owned.stored_key(key()).unwrap())
        .with("EntityType", "Reading")
        .with("value", 7);
    store.write(&table, Operation::Insert(row)).await.unwrap();
    let patch = Reading::patch().value(8);
    let merge = || tenant.merge(key(), &patch, IfMatch::Any);
    let error = merge().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Forbidden(_)), "{error:?}");
    assert!(
        error.to_string().contains("the first write of Reading") && !error.is_ambiguous(),
        "{error}"
    );
    assert_eq!(keys(&store, &table, Query::new()).await.len(), 1);
    owned
        .insert(&Reading {
            station: "it's north".into(),
            number: 2,
            value: 7,
        })
        .await
        .unwrap();
    merge().await.unwrap();
    assert_eq!(owned.get_existing(key()).await.unwrap().value, 8);
}

#[tokio::test]
async fn a_signature_is_limited_to_its_table_time_addresses_and_protocol() {
    let (store, table) = owner(&[("p", "r")]).await;
    let (_, other) = owner(&[]).await;
    let key = key("p", "r");
    let signed = |sas: TableSas| guest(&store.sign(&sas).unwrap());
    let all = || sas(&table, TablePermissions::ALL);
    assert!(signed(all()).get(&table, &key, None).await.is_ok());
    assert!(is_forbidden(signed(all()).get(&other, &key, None).await));
    assert!(is_forbidden(signed(all()).delete_table(&table).await));
    assert!(is_forbidden(signed(all()).list_tables(None, None).await));
    let expired = all().with_expiry(Utc::now() - TimeDelta::minutes(1));
    assert!(is_forbidden(signed(expired).get(&table, &key, None).await));
    let early = all().with_start(Utc::now() + TimeDelta::minutes(5));
    assert!(is_forbidden(signed(early).get(&table, &key, None).await));
    let elsewhere = all().with_ip(IpRange::from(Ipv4Addr::new(10, 1, 2, 3)));
    assert!(is_forbidden(
        signed(elsewhere).get(&table, &key, None).await
    ));
    let here = all().with_ip(IpRange::from(Ipv4Addr::LOCALHOST));
    assert!(signed(here).get(&table, &key, None).await.is_ok());
    assert!(is_forbidden(
        signed(all().with_protocol(SasProtocol::HttpsOnly))
            .get(&table, &key, None)
            .await
    ));
}

#[derive(TableEntity)]
#[entity(discriminator(row_prefix))]
struct Order {
    #[partition_key]
    tenant: String,
    #[row_key(format = "order_{:06}")]
    number: u32,
}

#[tokio::test]
async fn a_tenant_reads_only_its_own_rows() {
    let (store, table) = owner(&[("contoso", "invoice_1"), ("fabrikam", "order_000007")]).await;
    for number in [6, 7, 8] {
        let order = Order {
            tenant: "contoso".to_owned(),
            number,
        };
        store
            .write(&table, Operation::Insert(order.to_entity().unwrap()))
            .await
            .unwrap();
    }
    let contoso = Order::partition("contoso").unwrap();
    let reads = || sas(&table, TablePermissions::READ);
    let (six, seven) = (
        RowPrefix::escaped("order_000006"),
        RowPrefix::escaped("order_000007"),
    );
    for (sas, rows) in [
        (reads().within_partition::<Order>(&contoso), &[6, 7, 8][..]),
        (reads().within_rows::<Order>(&contoso, six..seven), &[6]),
        (
            reads().within_rows::<Order>(&contoso, RowPrefix::escaped("order_000007")..),
            &[7, 8],
        ),
    ] {
        let tenant = guest(&store.sign(&sas.unwrap()).unwrap());
        let expected: Vec<_> = rows
            .iter()
            .map(|n| key("contoso", &format!("order_{n:06}")).to_string())
            .collect();
        assert_eq!(keys(&tenant, &table, Query::new()).await, expected);
    }
}

#[tokio::test]
async fn an_account_signature_grants_its_permissions() {
    let (store, table) = owner(&[("p", "r")]).await;
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
    assert!(
        reader
            .get(&table, &key("p", "r"), None)
            .await
            .unwrap()
            .is_some()
    );
    assert!(is_forbidden(reader.write(&table, insert("p", "x")).await));
    assert!(is_forbidden(reader.delete_table(&table).await));
    let entities = AccountSas::new(AccountPermissions::ALL, AccountResources::ENTITY, expires);
    let writer = guest(
        &store
            .sign_account(&entities.with_protocol(SasProtocol::HttpsAndHttp))
            .unwrap(),
    );
    writer.write(&table, insert("p", "x")).await.unwrap();
    assert!(is_forbidden(writer.delete_table(&table).await));
}

/// The emulator requires every field of a policy. Documented: the signature sets the fields that its policy
/// leaves out.
#[tokio::test]
async fn the_signature_sets_what_its_policy_leaves_out() {
    let (store, table) = owner(&[("p", "r")]).await;
    let key = key("p", "r");
    let (start, expiry) = (
        Utc::now() - TimeDelta::hours(1),
        Utc::now() + TimeDelta::hours(1),
    );
    let policy = |start, expiry, permissions| StoredPolicy {
        id: "x".to_owned(),
        start,
        expiry,
        permissions,
    };
    let by_policy = || TableSas::by_policy(&table, "x").with_protocol(SasProtocol::HttpsAndHttp);
    let rights = TablePermissions::READ;
    for (policy, sas) in [
        (policy(Some(start), Some(expiry), rights), by_policy()),
        (policy(None, Some(expiry), rights), by_policy()),
        (
            policy(None, Some(expiry), TablePermissions::NONE),
            by_policy().with_permissions(rights),
        ),
        (policy(None, None, rights), by_policy().with_expiry(expiry)),
        (
            policy(None, None, TablePermissions::NONE),
            by_policy()
                .with_permissions(rights)
                .with_expiry(expiry)
                .with_start(start),
        ),
    ] {
        store
            .set_stored_policies(&table, std::slice::from_ref(&policy))
            .await
            .unwrap();
        let reader = guest(&store.sign(&sas).unwrap());
        assert!(
            reader.get(&table, &key, None).await.unwrap().is_some(),
            "{policy:?}"
        );
        assert!(
            is_forbidden(reader.write(&table, insert("p", "x")).await),
            "{policy:?}"
        );
        store.set_stored_policies(&table, &[]).await.unwrap();
        assert!(
            is_forbidden(reader.get(&table, &key, None).await),
            "{policy:?}"
        );
    }
    store
        .set_stored_policies(&table, &[policy(None, Some(expiry), rights)])
        .await
        .unwrap();
    for said_twice in [
        by_policy().with_permissions(rights),
        by_policy().with_expiry(expiry),
    ] {
        assert!(is_forbidden(
            guest(&store.sign(&said_twice).unwrap())
                .get(&table, &key, None)
                .await
        ));
    }
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
    let (store, _) = owner(&[]).await;
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
    for origins in [
        vec!["https://a.example", "https://b.example"],
        vec!["*"],
        vec![],
    ] {
        properties.cors = Some(origins.into_iter().map(rule).collect());
        store.set_service_properties(&properties).await.unwrap();
        assert_eq!(store.service_properties().await.unwrap(), properties);
    }
}

#[tokio::test]
async fn the_secondary_reports_its_last_sync_time() {
    let (store, _) = owner(&[]).await;
    let replication = store.geo_replication().await.unwrap();
    assert_eq!(replication.status, ReplicationStatus::Live);
    assert!(replication.last_sync.is_some());
}
