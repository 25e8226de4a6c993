use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::time::Instant;

use super::{insert, key, table};
use crate::adapter::{
    Failover, Fault, FaultInjector, FaultRule, Faulty, Metered, ReadSources, RequestMeter,
};
use crate::memory::MemoryStore;
use crate::model::{Key, MANIFEST_PARTITION, TableName};
use crate::query::{Continuation, Filter, Query};
use crate::store::{
    ErrorKind, Operation, OperationKind, ServiceProfile, TableStore, TableStoreExt as _,
};

type Copy = Metered<Faulty<MemoryStore>>;

/// The two copies of a table, their faults and their requests.
struct Copies {
    store: Failover<Copy, Copy>,
    faults: [FaultInjector; 2],
    meters: [RequestMeter; 2],
    sources: ReadSources,
}

impl Copies {
    /// Each copy has its own rows, so that a test sees which copy has answered.
    async fn new(rows: [&[&str]; 2]) -> Self {
        let [faults, other_faults] = [FaultInjector::new(1), FaultInjector::new(2)];
        let [meter, other_meter] = [RequestMeter::new(), RequestMeter::new()];
        let mut copies = Vec::new();
        for (rows, faults, meter) in [
            (rows[0], &faults, &meter),
            (rows[1], &other_faults, &other_meter),
        ] {
            let memory = MemoryStore::new();
            memory.create_table(&table()).await.unwrap();
            for row in rows {
                memory.write(&table(), insert(row)).await.unwrap();
            }
            copies.push(Metered::new(
                Faulty::new(memory, faults.clone()),
                meter.clone(),
            ));
        }
        let (secondary, primary) = (copies.pop().unwrap(), copies.pop().unwrap());
        let sources = ReadSources::default();
        let store = Failover::new(primary, secondary)
            .unwrap()
            .count(sources.clone());
        Self {
            store,
            faults: [faults, other_faults],
            meters: [meter, other_meter],
            sources,
        }
    }

    fn requests(&self) -> [u64; 2] {
        [self.meters[0].total(), self.meters[1].total()]
    }

    fn answered(&self) -> [u64; 2] {
        [self.sources.primary(), self.sources.secondary()]
    }

    async fn finds(&self, row: &str) -> bool {
        self.store
            .get(&table(), &key(row), None)
            .await
            .unwrap()
            .is_some()
    }
}

fn always(fault: Fault) -> FaultRule {
    FaultRule::new(fault)
}

#[tokio::test]
async fn reads_use_the_primary_alone_while_it_answers() {
    let copies = Copies::new([&["a"], &["b"]]).await;
    assert!(copies.finds("a").await);
    assert!(!copies.finds("b").await);
    assert_eq!(copies.requests(), [2, 0]);
    assert_eq!(copies.answered(), [2, 0]);
}

#[tokio::test]
async fn a_failed_read_is_sent_to_the_secondary() {
    let copies = Copies::new([&["a"], &["b"]]).await;
    copies.faults[0].add(always(Fault::FailBefore));
    assert!(copies.finds("b").await);
    let rows: Vec<_> = copies
        .store
        .query_stream(table(), Query::new())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].key(), &key("b"));
    assert_eq!(
        copies.store.list_tables(None, None).await.unwrap().items,
        [table()]
    );
    assert_eq!(copies.requests(), [3, 3]);
    assert_eq!(copies.answered(), [0, 3]);
}

#[tokio::test]
async fn if_both_copies_fail_the_error_is_of_the_primary() {
    let copies = Copies::new([&[], &[]]).await;
    copies.faults[0].add(always(Fault::FailBefore));
    copies.faults[1].add(always(Fault::Throttle { retry_after: None }));
    let error = copies
        .store
        .get(&table(), &key("a"), None)
        .await
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Transport(_)), "{error:?}");
    assert_eq!(copies.answered(), [0, 0]);
}

#[tokio::test]
async fn a_refused_read_is_not_repeated() {
    let copies = Copies::new([&[], &[]]).await;
    let absent = TableName::new("Absent").unwrap();
    let error = copies
        .store
        .get(&absent, &key("a"), None)
        .await
        .unwrap_err();
    assert!(error.is_table_not_found(), "{error:?}");
    assert_eq!(copies.requests(), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_late_read_is_sent_to_both_copies() {
    let mut copies = Copies::new([&["a"], &["b"]]).await;
    copies.store = copies.store.after(Duration::from_millis(100));
    copies.faults[0].add(always(Fault::Delay(Duration::from_secs(5))));
    let start = Instant::now();
    assert!(copies.finds("b").await);
    assert_eq!(start.elapsed(), Duration::from_millis(100));
    assert_eq!(copies.requests(), [1, 1]);
    // The secondary is slower: the primary's answer wins.
    copies.faults[1].add(always(Fault::Delay(Duration::from_secs(9))));
    assert!(copies.finds("a").await);
    assert_eq!(start.elapsed(), Duration::from_millis(5100));
    // The secondary fails: the primary's answer is waited for.
    copies.faults[1].add(always(Fault::FailBefore));
    assert!(copies.finds("a").await);
    assert_eq!(copies.answered(), [2, 1]);
}

#[tokio::test]
async fn a_query_stays_at_the_copy_of_its_first_page() {
    let copies = Copies::new([&["a1", "a2", "a3"], &["b1", "b2"]]).await;
    let query = Query::new().with_top(1);
    copies.faults[0].script([Some(Fault::FailBefore)]);
    let first = copies
        .store
        .query(&table(), &query, None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(first.items[0].key(), &key("b1"));
    let token = first.continuation.unwrap().to_string();
    let token: Continuation = token.parse().unwrap();
    // The primary answers again, and is not asked.
    let second = copies
        .store
        .query(&table(), &query, Some(&token))
        .await
        .unwrap()
        .into_page()
        .unwrap();
    assert_eq!(second.items[0].key(), &key("b2"));
    assert_eq!(copies.requests(), [1, 2]);
    let memory = MemoryStore::new();
    memory.create_table(&table()).await.unwrap();
    let error = memory
        .query(&table(), &query, Some(&token))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("belongs to the secondary copy"),
        "{error}"
    );

    let first = copies
        .store
        .query(&table(), &query, None)
        .await
        .unwrap()
        .into_page()
        .unwrap();
    copies.faults[0].add(always(Fault::FailBefore));
    let error = copies
        .store
        .query(&table(), &query, first.continuation.as_ref())
        .await
        .unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert_eq!(copies.requests(), [3, 2]);
}

/// A copy that is behind could lack an index that another program has declared.
#[tokio::test]
async fn manifests_are_read_from_the_primary_only() {
    let copies = Copies::new([&[], &[]]).await;
    copies.faults[0].add(always(Fault::FailBefore).on(OperationKind::Query));
    copies.faults[0].add(always(Fault::FailBefore).on(OperationKind::Get));
    let manifest = Query::new().with_filter(Filter::eq("PartitionKey", MANIFEST_PARTITION));
    copies
        .store
        .query(&table(), &manifest, None)
        .await
        .unwrap_err();
    copies
        .store
        .query(&table(), &manifest, None)
        .await
        .unwrap_err();
    let row = Key::new(MANIFEST_PARTITION, "table").unwrap();
    copies.store.get(&table(), &row, None).await.unwrap_err();
    assert_eq!(copies.requests(), [3, 0]);
}

#[tokio::test]
async fn writes_use_the_primary_alone() {
    let copies = Copies::new([&[], &[]]).await;
    copies.faults[0].script([Some(Fault::FailBefore)]);
    copies.store.write(&table(), insert("a")).await.unwrap_err();
    copies.store.write(&table(), insert("a")).await.unwrap();
    copies
        .store
        .write(
            &table(),
            Operation::Delete(key("a"), crate::model::IfMatch::Any),
        )
        .await
        .unwrap();
    assert_eq!(copies.requests(), [3, 0]);
}

#[test]
fn reads_may_be_stale_and_different_services_are_refused() {
    let store = Failover::new(MemoryStore::new(), MemoryStore::new()).unwrap();
    assert!(store.profile().has_stale_reads);
    let unsorted = MemoryStore::with_profile(ServiceProfile::COSMOS_TABLE);
    let error = Failover::new(MemoryStore::new(), unsorted).unwrap_err();
    assert!(
        error.to_string().contains("differ in their limits"),
        "{error}"
    );
}
