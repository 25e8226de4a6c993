//! The writer process, which the test kills.

use std::io::Write;
use std::path::{Path, PathBuf};

use futures_util::future::join_all;
use table_core::model::{ETag, Entity, IfMatch, Key, PartitionKey, Properties, TableName};
use table_core::store::{GroupTransaction, Operation, TableStore, TableStoreExt};
use table_embedded::{Durability, EmbeddedStore};

use crate::{GROUP, partition, table};

const TASKS: usize = 8;
/// The row that each task changes repeatedly.
pub(crate) const CHANGED: &str = "changed";
/// The directory of the backups of all rounds.
pub(crate) const BACKUPS: &str = "backups";
/// The states in order: inserted, replaced, merged, deleted.
pub(crate) const STATES: i32 = 4;

/// Runs tasks that insert rows and groups and change a row, a task that creates and drops tables, and
/// optionally a task that compacts and backs up.
pub(crate) async fn write_until_killed(
    directory: &Path,
    durability: Durability,
    round: &str,
    maintains: bool,
) {
    let store = EmbeddedStore::builder(directory)
        .durability(durability)
        .open()
        .await
        .unwrap();
    store.create_table_if_missing(&table()).await.unwrap();
    say("\nwriting");
    let tasks = (0..TASKS).map(|task| {
        let (store, partition) = (store.clone(), partition(round, task));
        tokio::spawn(async move { write_forever(&store, &partition).await })
    });
    let dropper = tokio::spawn(drop_tables_forever(store.clone()));
    let backups = directory.with_file_name(BACKUPS).join(round);
    let maintainer = maintains.then(|| tokio::spawn(maintain_forever(store.clone(), backups)));
    join_all(tasks.chain([dropper]).chain(maintainer)).await;
}

async fn write_forever(store: &EmbeddedStore, partition: &str) {
    for n in 0.. {
        let row = |row: String| {
            Entity::new(partition, row)
                .unwrap()
                .with("N", n)
                .with("Text", "x".repeat(100).as_str())
        };
        let single = row(format!("s{n:06}"));
        let key = single.key().to_string();
        let written = store
            .write(&table(), Operation::Insert(single))
            .await
            .unwrap();
        say(&format!("ack {}\t{key}", written.etag.unwrap()));

        let mut group =
            GroupTransaction::new(PartitionKey::new(partition).unwrap(), store.profile());
        (0..GROUP).for_each(|k| {
            group
                .push(Operation::Insert(row(format!("g{n:06}_{k}"))))
                .unwrap();
        });
        let keys: Vec<_> = group
            .operations()
            .iter()
            .map(|o| o.key().to_string())
            .collect();
        let written = store.transact(&table(), group).await.unwrap();
        let acknowledged = keys.iter().zip(written);
        let lines =
            acknowledged.map(|(key, written)| format!("ack {}\t{key}", written.etag.unwrap()));
        say(&lines.collect::<Vec<_>>().join("\n"));
        change(store, partition, STATES * n).await;
    }
}

/// Takes the changed row through its states, beginning with `first`.
async fn change(store: &EmbeddedStore, partition: &str, first: i32) {
    let mut version = None;
    for state in first..first + STATES {
        let key = Key::new(partition, CHANGED).unwrap();
        let current = |version: Option<ETag>| IfMatch::Exactly(version.unwrap());
        let operation = match state % STATES {
            0 => Operation::Insert(changed(&key, state).with("First", state)),
            1 => Operation::Replace(changed(&key, state).with("Kept", state), current(version)),
            2 => Operation::Merge(changed(&key, state), current(version)),
            _ => Operation::Delete(key, current(version)),
        };
        version = store.write(&table(), operation).await.unwrap().etag;
        say(&format!("state {partition}\t{state}"));
    }
}

fn changed(key: &Key, state: i32) -> Entity {
    Entity::from_parts(key.clone(), Properties::new()).with("State", state)
}

async fn maintain_forever(store: EmbeddedStore, backups: PathBuf) {
    for n in 0.. {
        let backup = backups.join(n.to_string());
        store.backup(&backup).await.unwrap();
        say(&format!("backup {}", backup.display()));
        store.compact().await.unwrap();
    }
}

async fn drop_tables_forever(store: EmbeddedStore) {
    let dropped = TableName::new("Dropped").unwrap();
    loop {
        store.create_table_if_missing(&dropped).await.unwrap();
        for n in 0..5 {
            let entity = Entity::new("p", format!("{n}"))
                .unwrap()
                .with("Text", "y".repeat(500).as_str());
            store
                .write(&dropped, Operation::InsertOrReplace(entity))
                .await
                .unwrap();
        }
        store.delete_table(&dropped).await.unwrap();
    }
}

/// Writes a line with one system call, so that lines of different tasks do not mix. The pipe keeps its content
/// after the kill.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
