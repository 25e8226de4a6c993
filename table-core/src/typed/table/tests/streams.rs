use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, TryStreamExt};

use super::*;
use crate::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use crate::forward_to_store;
use crate::memory::MemoryStore;
use crate::model::{IfMatch, TableName};
use crate::query::{Continuation, Query, ReadablePage};
use crate::store::{ErrorKind, OperationKind, Result, ServiceProfile, TableStore, TableStoreExt};
use crate::typed::{PlainTable, TableQuery};

fn ids(employees: &[Employee]) -> Vec<u32> {
    employees.iter().map(|e| e.id).collect()
}

#[tokio::test]
async fn a_page_costs_a_request() {
    let (table, meter) = employees(1..=10).await;
    let query = table.query().partition(sales()).page_size(4);
    assert_eq!(
        ids(&query.all().await.unwrap()),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(meter.total(), 3);
    let pages: Vec<usize> = query
        .pages()
        .map_ok(|page| page.len())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(pages, [4, 4, 2]);
    assert_eq!(query.count().await.unwrap(), 10);
    assert_eq!(meter.total(), 9);
}

#[tokio::test]
async fn a_stream_reads_no_page_before_it_is_needed() {
    let (table, meter) = employees(1..=10).await;
    let mut stream = table.query().page_size(4).stream();
    assert_eq!(meter.total(), 0);
    for id in 1..=4 {
        assert_eq!(stream.try_next().await.unwrap().unwrap().id, id);
        assert_eq!(meter.total(), 1);
    }
    assert_eq!(stream.try_next().await.unwrap().unwrap().id, 5);
    assert_eq!(meter.total(), 2);
}

#[tokio::test]
async fn prefetching_is_one_page_ahead() {
    let (table, meter) = employees(1..=10).await;
    let mut stream = table.query().page_size(4).prefetch().stream();
    assert_eq!(stream.try_next().await.unwrap().unwrap().id, 1);
    assert_eq!(meter.total(), 2);
    assert_eq!(stream.by_ref().take(4).count().await, 4);
    assert_eq!(meter.total(), 3);
    assert_eq!(stream.count().await, 5);
    assert_eq!(meter.total(), 3);
}

#[tokio::test]
async fn a_limit_asks_for_no_page_too_many() {
    for prefetch in [false, true] {
        let (table, meter) = employees(1..=10).await;
        let query = table.query().page_size(4);
        let query = if prefetch { query.prefetch() } else { query };
        for (limit, requests) in [(0, 0), (3, 1), (4, 1), (5, 2), (8, 2), (10, 3), (99, 3)] {
            let before = meter.snapshot();
            let read = query.clone().limit(limit).all().await.unwrap();
            assert_eq!(read.len(), limit.min(10));
            assert_eq!(
                meter.since(&before).total(),
                requests,
                "limit {limit}, prefetch {prefetch}"
            );
        }
    }
}

#[tokio::test]
async fn the_first_costs_one_request() {
    let (table, meter) = employees(1..=10).await;
    assert_eq!(
        table.query().prefetch().first().await.unwrap().unwrap().id,
        1
    );
    assert_eq!(table.query().limit(0).first().await.unwrap(), None);
    assert_eq!(meter.total(), 1);
}

#[tokio::test]
async fn short_and_empty_pages_are_not_the_end() {
    let (table, meter) = employees(1..=6).await;
    let faults = FaultInjector::new(0);
    faults.script(
        [
            Fault::ShortPage(0),
            Fault::ShortPage(1),
            Fault::ShortPage(0),
        ]
        .map(Some),
    );
    let table =
        PlainTable::<Employee>::new(Faulty::new(table.store().clone(), faults), "Employees")
            .unwrap();
    assert_eq!(
        ids(&table.query().limit(5).all().await.unwrap()),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(meter.total(), 4);
}

#[tokio::test]
async fn an_error_ends_a_stream_after_the_results_before_it() {
    for prefetch in [false, true] {
        let (table, _) = employees(1..=6).await;
        let faults = FaultInjector::new(0);
        faults.add(
            FaultRule::new(Fault::FailBefore)
                .on(OperationKind::Query)
                .nth(2),
        );
        let table =
            PlainTable::<Employee>::new(Faulty::new(table.store().clone(), faults), "Employees")
                .unwrap();
        let query = table.query().page_size(2);
        let query = if prefetch { query.prefetch() } else { query };
        let read: Vec<Option<u32>> = query
            .stream()
            .map(|read| read.ok().map(|e| e.id))
            .collect()
            .await;
        assert_eq!(read, [Some(1), Some(2), None]);
    }
}

#[tokio::test]
async fn a_page_can_be_handed_out_and_taken_back() {
    let (table, meter) = employees(1..=5).await;
    let query = || table.query().partition(sales());
    let first = query().page_size(2).page(None).await.unwrap();
    assert_eq!(ids(&first.items), [1, 2]);
    let text = first.continuation.unwrap().to_string();
    let next = query()
        .page_size(3)
        .page(Some(&text.parse().unwrap()))
        .await
        .unwrap();
    assert_eq!(ids(&next.items), vec![3, 4, 5]);
    assert_eq!(next.continuation, None);
    assert_eq!(meter.total(), 2);
    let other = table
        .query()
        .page(Some(&text.parse().unwrap()))
        .await
        .unwrap_err();
    assert!(matches!(other.kind(), ErrorKind::InvalidContinuation(_)));
}

#[tokio::test]
async fn a_page_of_none_is_refused() {
    let (table, meter) = employees([1]).await;
    assert!(table.query().page_size(0).all().await.is_err());
    assert!(table.query().page_size(0).page(None).await.is_err());
    assert_eq!(meter.total(), 0);
}

#[tokio::test]
async fn streams_of_any_store_stop_at_the_top() {
    let (table, meter) = employees(1..=5).await;
    let (store, name) = (table.store(), table.name().clone());
    assert_eq!(
        store
            .query_all(&name, &Query::new().with_top(3))
            .await
            .unwrap()
            .len(),
        3
    );
    assert_eq!(meter.total(), 1);
    let pages: Vec<_> = store
        .query_pages(name, Query::new())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(
        pages
            .iter()
            .map(|page| page.items.len())
            .collect::<Vec<_>>(),
        [5]
    );
}

/// A store that answers a page in the reverse order and says that it does not sort.
#[derive(Debug)]
struct Reversing(MemoryStore);

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TableStore for Reversing {
    forward_to_store!(self => self.0;
        create_table, delete_table, list_tables, get, write, transact, context);

    fn profile(&self) -> &ServiceProfile {
        &ServiceProfile::COSMOS_TABLE
    }

    async fn query(
        &self,
        table: &TableName,
        query: &Query,
        from: Option<&Continuation>,
    ) -> Result<ReadablePage> {
        let mut found = self.0.query(table, query, from).await?;
        found.page.items.reverse();
        Ok(found)
    }
}

async fn unsorted() -> (TableQuery<Employee>, RequestMeter) {
    let meter = RequestMeter::new();
    let store = Metered::new(Reversing(MemoryStore::new()), meter.clone());
    let table = PlainTable::<Employee>::new(store, "Employees").unwrap();
    table.create_if_missing().await.unwrap();
    for id in 1..=6 {
        table.insert(&employee(id, "n")).await.unwrap();
    }
    (table.query().page_size(2), meter)
}

#[tokio::test]
async fn order_can_be_required_or_made() {
    let (query, meter) = unsorted().await;
    let before = meter.snapshot();
    let refused = query.clone().require_order().all().await.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Unsupported { .. }));
    assert!(
        refused.to_string().contains("sorted_on_client"),
        "{refused}"
    );
    assert_eq!(meter.since(&before).total(), 0);

    let sorted = query.sorted_on_client();
    assert_eq!(ids(&sorted.all().await.unwrap()), [1, 2, 3, 4, 5, 6]);
    assert_eq!(meter.since(&before).total(), 3);
    assert_eq!(sorted.first().await.unwrap().unwrap().id, 1);
    assert_eq!(
        ids(&sorted.clone().limit(3).all().await.unwrap()),
        [1, 2, 3]
    );
    assert!(sorted.clone().limit(0).all().await.unwrap().is_empty());
    assert_eq!(meter.since(&before).total(), 9);
    assert!(sorted.page(None).await.is_err());
}

#[tokio::test]
async fn a_store_that_sorts_does_not_sort_on_the_client() {
    let (table, meter) = employees(1..=6).await;
    let query = table
        .query()
        .page_size(2)
        .sorted_on_client()
        .require_order();
    assert_eq!(ids(&query.limit(2).all().await.unwrap()), [1, 2]);
    assert_eq!(meter.total(), 1);
}

/// Checks the bounds that a spawned task needs.
#[tokio::test]
async fn futures_and_streams_can_be_sent() {
    fn sent<T>(future: impl Future<Output = T> + Send) -> T {
        future
            .now_or_never()
            .expect("the memory store does not wait")
    }
    let (table, _) = employees([1]).await;
    let patch = EmployeePatch {
        age: Some(1),
        ..EmployeePatch::default()
    };
    assert_eq!(sent(table.get_many([key(1)])).unwrap().len(), 1);
    sent(table.merge(key(1), &patch, IfMatch::Any)).unwrap();
    sent(table.update(key(1), |_| Ok(()))).unwrap();
    let mut group = table.group(sales());
    group.merge(key(1), &patch, IfMatch::Any).unwrap();
    sent(group.commit()).unwrap();
    let query = table.query().use_cheaper_plan();
    assert_eq!(sent(query.count()).unwrap(), 1);
    let stream = query.stream();
    drop((table, query));
    assert_eq!(tokio::spawn(stream.count()).await.unwrap(), 1);
}
