use super::{insert, table};
use crate::adapter::{GuardMode, Guarded, Metered, RequestMeter, ScanGuard};
use crate::memory::MemoryStore;
use crate::model::TableName;
use crate::query::{AccessPath, Query, ReadablePage};
use crate::store::{ErrorKind, Result, ServiceProfile, TableStore};

const PATHS: [(&str, AccessPath); 5] = [
    (
        "PartitionKey eq 'Sales' and RowKey eq 'a'",
        AccessPath::Point,
    ),
    (
        "PartitionKey eq 'Sales' and RowKey ge 'a' and RowKey lt 'b'",
        AccessPath::RowRange,
    ),
    (
        "PartitionKey eq 'Sales' and Age gt 30",
        AccessPath::PartitionScan,
    ),
    ("PartitionKey gt 'Sales'", AccessPath::PartitionRange),
    ("Age gt 30", AccessPath::TableScan),
];

fn query(filter: &str) -> Query {
    Query::new().with_filter(filter.parse().unwrap())
}

async fn guarded(guard: ScanGuard) -> (Guarded<Metered<MemoryStore>>, RequestMeter) {
    let meter = RequestMeter::new();
    let store = Guarded::new(Metered::new(MemoryStore::new(), meter.clone()), guard);
    store.create_table(&table()).await.unwrap();
    store.write(&table(), insert("a")).await.unwrap();
    meter.reset();
    (store, meter)
}

fn refused(result: Result<ReadablePage>) -> Option<(AccessPath, String)> {
    match result.map_err(crate::Error::into_kind) {
        Err(ErrorKind::ScanRefused { path, advice, .. }) => Some((path, advice)),
        other => {
            other.unwrap();
            None
        }
    }
}

#[tokio::test]
async fn a_path_and_more_expensive_paths_are_refused_without_a_request() {
    for (_, limit) in PATHS {
        let (store, meter) = guarded(ScanGuard::new().refuse_from(limit)).await;
        for (filter, path) in PATHS {
            let result = refused(store.query(&table(), &query(filter), None).await);
            assert_eq!(
                result.map(|(path, _)| path),
                (path >= limit).then_some(path)
            );
        }
        assert_eq!(
            meter.total(),
            PATHS.iter().filter(|(_, path)| *path < limit).count() as u64
        );
    }
}

#[tokio::test]
async fn the_last_setting_for_a_table_counts() {
    let guard = ScanGuard::new()
        .allow(TableName::new("EMPLOYEES").unwrap())
        .refuse_in(TableName::new("Other").unwrap(), AccessPath::Point);
    let (store, _) = guarded(guard.clone()).await;
    assert!(store.query(&table(), &Query::new(), None).await.is_ok());
    let (store, _) = guarded(guard.refuse_in(table(), AccessPath::PartitionScan)).await;
    assert!(refused(store.query(&table(), &query(PATHS[1].0), None).await).is_none());
    assert!(refused(store.query(&table(), &query(PATHS[2].0), None).await).is_some());
}

#[tokio::test]
async fn table_names_are_compared_like_in_the_service() {
    let store = MemoryStore::with_profile(ServiceProfile::COSMOS_TABLE);
    let store = Guarded::new(
        store,
        ScanGuard::new().allow(TableName::new("EMPLOYEES").unwrap()),
    );
    store.create_table(&table()).await.unwrap();
    assert!(refused(store.query(&table(), &Query::new(), None).await).is_some());
}

#[tokio::test]
async fn the_error_names_the_cheaper_plan() {
    let (store, _) = guarded(ScanGuard::new().refuse_from(AccessPath::PartitionScan)).await;
    let better = query("PartitionKey eq 'Sales' and (RowKey eq 'a' or RowKey eq 'b')");
    let (_, advice) = refused(store.query(&table(), &better, None).await).unwrap();
    assert_eq!(
        advice,
        "ask for the same as 2 point reads: ('Sales', 'a'); ('Sales', 'b')"
    );
    let (_, advice) = refused(store.query(&table(), &Query::new(), None).await).unwrap();
    assert!(advice.starts_with("restrict the filter to one PartitionKey"));
}

#[tokio::test]
async fn a_warning_lets_the_query_pass() {
    let (store, meter) = guarded(ScanGuard::new().with_mode(GuardMode::Warn)).await;
    let (events, _on) = super::recorder::record();
    assert_eq!(
        store
            .query(&table(), &Query::new(), None)
            .await
            .unwrap()
            .into_page()
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(meter.total(), 1);
    let events = events.take();
    assert_eq!(events.len(), 1);
    assert!(
        events[0].starts_with("WARN") && events[0].contains("path=table scan"),
        "{events:?}"
    );
}
