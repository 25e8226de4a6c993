//! Logs, newest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::TimeDelta;
use futures_util::TryStreamExt;
use table_core::adapter::{Fault, FaultInjector, FaultRule, Faulty, Metered, RequestMeter};
use table_core::manifest::{
    Discriminator, EntityType, IndexDefinition, IndexState, Placement, StoredIndex,
};
use table_core::model::{Entity, PartitionKey, TableName, Ticks};
use table_core::store::{Operation, OperationKind, TableStore};
use table_core::typed::PropertyGroup;
use table_patterns::clock::Clock;
use table_patterns::log_tail::{EntryId, LogTail, Logged};
use tokio::task::JoinSet;

use crate::wrappers::UnsortedStore;
use crate::{Harness, TestTable};

#[derive(Clone, Debug, PartialEq, PropertyGroup)]
#[entity(rename_all = "PascalCase")]
struct Claim {
    amount: i32,
}

/// A clock with a fixed time.
#[derive(Debug)]
struct Stopped(Ticks);

impl Clock for Stopped {
    fn now(&self) -> Ticks {
        self.0
    }
}

fn moment(minutes: i64) -> Ticks {
    let start: Ticks = "2013-01-15T08:00:00.1234567Z".parse().expect("a time");
    start + TimeDelta::minutes(minutes)
}

fn ken() -> PartitionKey {
    PartitionKey::new("empid_000223").expect("a legal key")
}

fn log(table: &TestTable) -> LogTail<Claim> {
    log_over(table.store().clone(), table)
}

fn log_over(store: Arc<dyn TableStore>, table: &TestTable) -> LogTail<Claim> {
    LogTail::new(store, table.name().clone(), ken()).expect("a log")
}

fn amounts(entries: &[Logged<Claim>]) -> Vec<i32> {
    entries.iter().map(|entry| entry.value.amount).collect()
}

/// Appends entries at minutes 0 to `count`. The amount of an entry is its minute.
async fn fill(log: &LogTail<Claim>, count: i32) -> Vec<EntryId> {
    let mut ids = Vec::new();
    for amount in 0..count {
        ids.push(
            log.append_at(moment(amount.into()), &Claim { amount })
                .await
                .expect("a new entry"),
        );
    }
    ids
}

/// A log returns the entries of one handle newest first, by one request per page.
pub(crate) async fn entries_are_newest_first(harness: &Harness) {
    let table = harness.table().await;
    let meter = RequestMeter::new();
    let log = log_over(
        Arc::new(Metered::new(table.store().clone(), meter.clone())),
        &table,
    );
    for amount in 0..5 {
        log.append(&Claim { amount }).await.expect("a new entry");
    }
    assert_eq!(meter.total(), 5);
    let (latest, cost) = meter.measure(log.latest(3)).await;
    assert_eq!(amounts(&latest.expect("entries")), [4, 3, 2]);
    assert_eq!(cost.total(), 1);
    assert_eq!(cost.of_kind(OperationKind::Query), 1);
    assert_eq!(log.latest(0).await.expect("nothing"), []);
}

/// A page continues after an entry, whatever was appended since.
pub(crate) async fn pages_continue_after_an_entry(harness: &Harness) {
    let table = harness.table().await;
    let log = log(&table);
    fill(&log, 7).await;
    let first = log.page(None, 3).await.expect("a page");
    assert_eq!(amounts(&first), [6, 5, 4]);
    log.append_at(moment(99), &Claim { amount: 99 })
        .await
        .expect("a new entry");
    let cursor: EntryId = first[2].id.to_string().parse().expect("a printed id");
    let second = log.page(Some(&cursor), 3).await.expect("a page");
    assert_eq!(amounts(&second), [3, 2, 1]);
    let third = log.page(Some(&second[2].id), 3).await.expect("a page");
    assert_eq!(amounts(&third), [0]);
    assert_eq!(log.page(Some(&third[0].id), 3).await.expect("a page"), []);
}

/// A read since a moment includes the entries of that moment and none before it.
pub(crate) async fn entries_are_read_since_a_moment(harness: &Harness) {
    let table = harness.table().await;
    let log = log(&table);
    fill(&log, 6).await;
    let since: Vec<_> = log.since(moment(3)).try_collect().await.expect("entries");
    assert_eq!(amounts(&since), [5, 4, 3]);
    assert_eq!(since[2].at, moment(3));
    let between: Vec<_> = log
        .between(moment(1), moment(4))
        .try_collect()
        .await
        .expect("entries");
    assert_eq!(amounts(&between), [3, 2, 1]);
    let all: Vec<_> = log.since(Ticks::MIN).try_collect().await.expect("entries");
    assert_eq!(all.len(), 6);
}

/// A thousand appends by many tasks and several handles within one tick are all stored once. Entries of one
/// handle are newest first.
pub(crate) async fn appends_within_one_tick_are_all_stored(harness: &Harness) {
    let table = harness.table().await;
    let clock = Arc::new(Stopped(moment(0)));
    let (handles, appends) = (4, 250);
    let logs: Vec<_> = (0..handles)
        .map(|_| log(&table).with_clock(clock.clone()))
        .collect();
    let mut tasks = JoinSet::new();
    for (handle, log) in logs.iter().enumerate() {
        for n in 0..appends {
            let (log, amount) = (log.clone(), (handle * appends + n) as i32);
            tasks.spawn(async move { log.append(&Claim { amount }).await.expect("a new entry") });
        }
    }
    let ids: BTreeSet<String> = tasks
        .join_all()
        .await
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ids.len(), handles * appends);
    let read = logs[0]
        .latest(handles * appends + 1)
        .await
        .expect("entries");
    let unique: BTreeSet<i32> = read.iter().map(|entry| entry.value.amount).collect();
    assert_eq!(read.len(), handles * appends);
    assert_eq!(unique.len(), handles * appends);
    assert!(read.iter().all(|entry| entry.at == moment(0)));

    let last = logs[1]
        .append(&Claim { amount: -1 })
        .await
        .expect("a new entry");
    let before = logs[1]
        .append(&Claim { amount: -2 })
        .await
        .expect("a new entry");
    let order: Vec<_> = logs[0]
        .latest(handles * appends + 2)
        .await
        .expect("entries");
    let place = |id: &EntryId| {
        order
            .iter()
            .position(|entry| entry.id == *id)
            .expect("the entry was appended")
    };
    assert!(
        place(&before) < place(&last),
        "the later append comes first"
    );
}

/// Rows of the documented formula, with or without a suffix, are entries. Other rows are left out.
pub(crate) async fn rows_of_other_programs_are_entries(harness: &Harness) {
    let table = harness.table().await;
    let log = log(&table);
    let rows = [
        format!("{:019}", moment(2).inverted()),
        format!("{:019}_7f", moment(1).inverted()),
        format!("{:019}x", moment(3).inverted()),
        "profile".to_owned(),
    ];
    for (amount, row) in rows.iter().enumerate() {
        let entity = Entity::new(ken(), row)
            .expect("a legal key")
            .with("Amount", amount as i32);
        table.put(Operation::Insert(entity)).await;
    }
    log.append_at(moment(9), &Claim { amount: 9 })
        .await
        .expect("a new entry");
    assert_eq!(
        amounts(&log.latest(9).await.expect("entries")),
        [9, 2, 0, 1]
    );
    let guide = EntryId::of_guide(moment(2));
    let found = log.get(&guide).await.expect("an answer").expect("an entry");
    assert_eq!(found.at, moment(2));
    assert_eq!(found.value.amount, 0);
    let suffixed: EntryId = rows[1].parse().expect("an entry's id");
    for theirs in [guide, suffixed] {
        let error = log
            .append_as(&theirs, &Claim { amount: 7 })
            .await
            .expect_err("the row belongs to another log");
        assert!(error.is_already_exists(), "{error}");
    }

    let damaged = Entity::new(ken(), "12_no_ticks")
        .expect("a legal key")
        .with("Amount", 1);
    table.put(Operation::Insert(damaged)).await;
    let error = log.latest(9).await.expect_err("a row that is no entry");
    assert!(error.to_string().contains("12_no_ticks"), "{error}");
}

/// A prefix separates a log from other logs and rows of its partition.
pub(crate) async fn logs_share_a_partition(harness: &Harness) {
    let table = harness.table().await;
    let claims = log(&table).with_prefix("claim_");
    let trips = log(&table).with_prefix("trip_");
    fill(&claims, 3).await;
    trips
        .append(&Claim { amount: 50 })
        .await
        .expect("a new entry");
    assert_eq!(
        amounts(&claims.latest(9).await.expect("entries")),
        [2, 1, 0]
    );
    assert_eq!(amounts(&trips.latest(9).await.expect("entries")), [50]);
}

/// An append whose answer was lost can be repeated under its id, and is stored once.
pub(crate) async fn a_repeated_append_is_stored_once(harness: &Harness) {
    let table = harness.table().await;
    let faults = FaultInjector::new(0);
    let log = log_over(
        Arc::new(Faulty::new(table.store().clone(), faults.clone())),
        &table,
    );
    faults.add(
        FaultRule::new(Fault::LoseAnswer)
            .on(OperationKind::Insert)
            .nth(1),
    );
    let id = log.new_id();
    let error = log
        .append_as(&id, &Claim { amount: 1 })
        .await
        .expect_err("the answer is lost");
    assert!(error.is_ambiguous(), "{error}");
    log.append_as(&id, &Claim { amount: 1 })
        .await
        .expect("the entry is stored already");
    assert_eq!(amounts(&log.latest(9).await.expect("entries")), [1]);
    assert_eq!(faults.injected().len(), 1);

    // A client can keep the id. Another value under the same id is refused and not stored.
    let kept: EntryId = id.to_string().parse().expect("an id");
    let error = log
        .append_as(&kept, &Claim { amount: 2 })
        .await
        .expect_err("the id is taken");
    assert!(error.is_already_exists(), "{error}");
    let why = std::error::Error::source(&error)
        .map(ToString::to_string)
        .unwrap_or_default();
    assert!(why.contains("another value"), "{why}");
    assert_eq!(amounts(&log.latest(9).await.expect("entries")), [1]);
}

/// On an unsorted service a log is refused, or sorted on the client if the program chooses so.
pub(crate) async fn an_unsorted_store_is_refused_unless_the_client_sorts(harness: &Harness) {
    let table = harness.table().await;
    let unsorted: Arc<dyn TableStore> = Arc::new(UnsortedStore::new(table.store().clone()));
    let log = log_over(unsorted, &table);
    fill(&log, 5).await;
    let error = log.latest(2).await.expect_err("the store is unsorted");
    assert!(error.to_string().contains("order"), "{error}");
    let log = log.sorted_on_client();
    let latest = log.latest(2).await.expect("entries");
    assert_eq!(amounts(&latest), [4, 3]);
    assert_eq!(
        amounts(&log.page(Some(&latest[1].id), 2).await.expect("entries")),
        [2, 1]
    );
}

/// A log refuses an append if an index of another program contains entities of any type, and writes nothing.
pub(crate) async fn appends_are_refused_over_an_index_of_any_type(harness: &Harness) {
    let table = harness.table().await;
    let log = log(&table);
    declare_index_of_alarms(table.store(), table.name()).await;
    log.append_at(moment(0), &Claim { amount: 1 })
        .await
        .expect("a new entry");
    declare_index_of_any(table.store(), table.name()).await;
    let error = log
        .append_at(moment(1), &Claim { amount: 2 })
        .await
        .expect_err("an index of any type refuses the append");
    let text = error.to_string();
    assert!(text.contains("'amount."), "{text}");
    assert!(text.contains("drop the index"), "{text}");
    assert_eq!(amounts(&log.page(None, 9).await.expect("a page")), [1]);
}

/// Declares an index of entities of any type, as another program does.
pub(super) async fn declare_index_of_any(store: &Arc<dyn TableStore>, table: &TableName) {
    declare_index(store, table, EntityType::ANY).await;
}

/// Declares an index of entities of the type `Alarm`, as another program does.
pub(super) async fn declare_index_of_alarms(store: &Arc<dyn TableStore>, table: &TableName) {
    let discriminator = Discriminator::Property("EntityType".into());
    declare_index(
        store,
        table,
        EntityType {
            name: "Alarm".into(),
            discriminator,
            ..EntityType::ANY
        },
    )
    .await;
}

async fn declare_index(store: &Arc<dyn TableStore>, table: &TableName, entity: EntityType) {
    let template = "a_{RowKey}".parse().expect("a template");
    let keyed = IndexDefinition::keyed("amount", Placement::SamePartition, None, template);
    let definition = IndexDefinition { entity, ..keyed };
    let row = StoredIndex::new(&definition, IndexState::DeleteOnly)
        .to_entity()
        .expect("a row");
    store
        .write(table, Operation::Insert(row))
        .await
        .expect("a new index");
}
