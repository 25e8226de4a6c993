//! Concurrency: no update is lost, every race has one winner, no group is half applied.

use std::sync::Arc;

use table_core::model::{EdmValue, Entity, IfMatch};
use table_core::query::Query;
use table_core::store::Operation;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::table::{entity, key};
use super::{Harness, TestTable};

/// Concurrent tasks add one to a counter by read and conditional replace, and try again after a conflict.
pub(crate) async fn no_update_is_lost(h: &Harness) {
    let table = h.table().await;
    table.insert(counter(0)).await;
    let (tasks, rounds) = (h.scale().tasks, 5);
    let mut adding = JoinSet::new();
    for _ in 0..tasks {
        let table = table.clone();
        adding.spawn(async move {
            for _ in 0..rounds {
                add_one(&table).await;
            }
        });
    }
    adding.join_all().await;
    assert_eq!(
        count(&table.existing(&key("p", "counter")).await),
        (tasks * rounds) as i64
    );
}

/// Of several concurrent inserts of one key, exactly one succeeds, and its entity is stored.
pub(crate) async fn one_insert_wins(h: &Harness) {
    let table = h.table().await;
    for round in 0..5 {
        let row = round.to_string();
        let outcomes = race(h, &table, |n| {
            Operation::Insert(entity("p", &row).with("Writer", n))
        })
        .await;
        let winner = only_winner(&outcomes);
        let read = table.existing(&key("p", &row)).await;
        assert_eq!(
            read.get("Writer").map(|v| v.to_owned()),
            Some(EdmValue::from(winner))
        );
    }
}

/// Of several concurrent replaces of one version, exactly one succeeds.
pub(crate) async fn one_conditional_replace_wins(h: &Harness) {
    let table = h.table().await;
    let mut etag = table.insert(entity("p", "r")).await;
    for _ in 0..5 {
        let version = etag.clone();
        let replace = |n| Operation::Replace(entity("p", "r").with("Writer", n), (&version).into());
        let winner = only_winner(&race(h, &table, replace).await);
        let read = table.existing(&key("p", "r")).await;
        assert_eq!(
            read.get("Writer").map(|v| v.to_owned()),
            Some(EdmValue::from(winner))
        );
        etag = read.etag().expect("a version").clone();
    }
}

/// Of several concurrent deletes of one entity, exactly one succeeds.
pub(crate) async fn one_delete_wins(h: &Harness) {
    let table = h.table().await;
    for _ in 0..5 {
        table.insert(entity("p", "r")).await;
        only_winner(
            &race(h, &table, |_| {
                Operation::Delete(key("p", "r"), IfMatch::Any)
            })
            .await,
        );
        assert!(table.get(&key("p", "r")).await.is_none());
    }
}

/// Concurrent merges of different properties all take effect.
pub(crate) async fn merges_of_different_properties_all_take_effect(h: &Harness) {
    let table = h.table().await;
    let outcomes = race(h, &table, |n| {
        Operation::InsertOrMerge(entity("p", "r").with(&format!("P{n}"), n))
    })
    .await;
    assert!(outcomes.iter().all(|(_, applied)| *applied));
    assert_eq!(
        table.existing(&key("p", "r")).await.properties().len(),
        h.scale().tasks
    );
}

/// Groups that move amounts between accounts of one partition keep the sum, and no reader sees half a group.
pub(crate) async fn groups_keep_the_sum(h: &Harness) {
    let table = h.table().await;
    table
        .load("p", (0..ACCOUNTS).map(|n| account(n, 100)))
        .await;
    let mut moving = JoinSet::new();
    for n in 0..h.scale().tasks as u64 {
        let table = table.clone();
        moving.spawn(async move {
            let mut rng = super::sample::random(n);
            for _ in 0..5 {
                let from = rng.u32(..ACCOUNTS);
                let to = (from + 1 + rng.u32(..ACCOUNTS - 1)) % ACCOUNTS;
                move_one(&table, from, to).await;
            }
        });
    }
    moving.join_all().await;
    let sum: i64 = table.all(&Query::new()).await.iter().map(count).sum();
    assert_eq!(sum, i64::from(ACCOUNTS) * 100);
}

/// Of several concurrent groups that insert overlapping rows, those that succeed have no row in common.
pub(crate) async fn overlapping_groups_exclude_each_other(h: &Harness) {
    let table = h.table().await;
    let tasks = h.scale().tasks;
    let barrier = Arc::new(Barrier::new(tasks));
    let mut claiming = JoinSet::new();
    for n in 0..tasks {
        let (table, barrier) = (table.clone(), Arc::clone(&barrier));
        claiming.spawn(async move {
            let claim = |row: usize| {
                Operation::Insert(entity("p", &row.to_string()).with("Owner", n as i32))
            };
            barrier.wait().await;
            (
                n,
                table
                    .transact("p", vec![claim(n), claim(n + 1)])
                    .await
                    .is_ok(),
            )
        });
    }
    let outcomes = claiming.join_all().await;
    let winners: Vec<_> = outcomes
        .iter()
        .filter(|(_, won)| *won)
        .map(|(n, _)| *n as i32)
        .collect();
    let mut owners: Vec<i32> = Vec::new();
    for row in table.all(&Query::new()).await {
        let Some(EdmValue::Int32(owner)) = row.get("Owner").map(|v| v.to_owned()) else {
            panic!("{row:?}")
        };
        owners.push(owner);
    }
    let mut expected: Vec<_> = winners.iter().flat_map(|n| [*n, *n]).collect();
    expected.sort_unstable();
    owners.sort_unstable();
    assert!(!winners.is_empty());
    assert_eq!(owners, expected);
}

const ACCOUNTS: u32 = 6;

fn counter(value: i64) -> Entity {
    entity("p", "counter").with("Count", value)
}

fn account(n: u32, balance: i64) -> Entity {
    entity("p", &format!("account{n}")).with("Count", balance)
}

fn count(entity: &Entity) -> i64 {
    match entity.get("Count").map(|v| v.to_owned()) {
        Some(EdmValue::Int64(count)) => count,
        other => panic!("{other:?}"),
    }
}

async fn add_one(table: &TestTable) {
    loop {
        let read = table.existing(&key("p", "counter")).await;
        let version = read.etag().expect("a version").into();
        match table
            .write(Operation::Replace(counter(count(&read) + 1), version))
            .await
        {
            Ok(_) => return,
            Err(e) => assert!(e.is_precondition_failed(), "{e}"),
        }
    }
}

async fn move_one(table: &TestTable, from: u32, to: u32) {
    loop {
        let change = async |n: u32, by: i64| {
            let read = table.existing(account(n, 0).key()).await;
            let version = read.etag().expect("a version").into();
            Operation::Replace(account(n, count(&read) + by), version)
        };
        let operations = vec![change(from, -1).await, change(to, 1).await];
        match table.transact("p", operations).await {
            Ok(_) => return,
            Err(e) => assert!(e.is_precondition_failed(), "{e}"),
        }
    }
}

/// Runs one operation per task concurrently. Returns the number of each task and whether its operation
/// succeeded.
async fn race(
    h: &Harness,
    table: &TestTable,
    operation: impl Fn(i32) -> Operation,
) -> Vec<(i32, bool)> {
    let tasks = h.scale().tasks;
    let barrier = Arc::new(Barrier::new(tasks));
    let mut racing = JoinSet::new();
    for n in 0..tasks as i32 {
        let (table, barrier, operation) = (table.clone(), Arc::clone(&barrier), operation(n));
        racing.spawn(async move {
            barrier.wait().await;
            (n, table.write(operation).await.is_ok())
        });
    }
    racing.join_all().await
}

#[track_caller]
fn only_winner(outcomes: &[(i32, bool)]) -> i32 {
    let winners: Vec<_> = outcomes
        .iter()
        .filter(|(_, won)| *won)
        .map(|(n, _)| *n)
        .collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    winners[0]
}
