//! Kills a process that writes to an embedded store, at random moments, and checks what is left: every
//! acknowledged write is there in its version, no group is torn, and no version was used twice.
//!
//! The test runs itself as the writer; what the writer prints is what was acknowledged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use futures_util::future::join_all;
use table_core::model::{ETag, Entity, PartitionKey, TableName};
use table_core::query::{Filter, Query};
use table_core::store::{GroupTransaction, Operation, TableStore, TableStoreExt};
use table_embedded::EmbeddedStore;

const KILLS: usize = 60;
const TASKS: usize = 8;
const GROUP: usize = 10;
const DIRECTORY: &str = "KILL_TEST_DIRECTORY";
const ROUND: &str = "KILL_TEST_ROUND";

#[test]
fn a_killed_writer_loses_nothing_acknowledged_and_tears_no_group() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if let (Some(directory), Ok(round)) = (std::env::var_os(DIRECTORY), std::env::var(ROUND)) {
        return runtime.block_on(write_until_killed(Path::new(&directory), &round));
    }
    let directory = tempfile::tempdir().unwrap();
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found = Findings::default();
    for round in 0..KILLS {
        let acknowledged = write_and_kill(directory.path(), round, &mut random);
        runtime.block_on(found.check(directory.path(), round, &acknowledged, seed));
    }
    assert!(found.acknowledged > 10 * KILLS, "too little was written to test: {}", found.acknowledged);
    runtime.block_on(found.check_all(directory.path()));
}

/// The lines that a writer printed before it was killed.
fn write_and_kill(directory: &Path, round: usize, random: &mut fastrand::Rng) -> Vec<String> {
    let mut writer = spawn_writer(directory, round);
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
    // One in six dies while it opens the store, and perhaps recovers it.
    if random.u8(..6) == 0 {
        sleep(Duration::from_millis(random.u64(..30)));
    } else {
        assert!(lines.any(|line| line.ends_with("writing")), "the writer did not start");
        sleep(Duration::from_micros(random.u64(..60_000)));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    lines.collect()
}

fn spawn_writer(directory: &Path, round: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["a_killed_writer_loses_nothing_acknowledged_and_tears_no_group", "--exact", "--nocapture"])
        .env(DIRECTORY, directory.join("store"))
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What all rounds left.
#[derive(Default)]
struct Findings {
    /// The ETag of every entity that is in the store, by its key.
    etags: HashMap<String, ETag>,
    used: HashSet<String>,
    acknowledged: usize,
}

impl Findings {
    async fn check(&mut self, directory: &Path, round: usize, lines: &[String], seed: u64) {
        let store = EmbeddedStore::open(directory.join("store")).await.unwrap();
        store.create_table_if_missing(&table()).await.unwrap();
        let entities = store.query_all(&table(), &Query::new().with_filter(of_round(round))).await.unwrap();
        store.close().await.unwrap();

        let context = format!("round {round} of seed {seed}");
        self.check_groups(&entities, &context);
        let present: HashMap<_, _> =
            entities.iter().map(|e| (e.key().to_string(), e.etag().unwrap().clone())).collect();
        for (key, etag) in &present {
            assert!(self.used.insert(etag.to_string()), "{context}: {etag} of {key} was used before");
        }
        for line in lines.iter().filter_map(|line| line.strip_prefix("ack ")) {
            let (etag, key) = line.split_once('\t').unwrap();
            assert_eq!(present.get(key).map(ToString::to_string).as_deref(), Some(etag), "{context}: {key}");
            self.acknowledged += 1;
        }
        self.etags.extend(present);
    }

    fn check_groups(&self, entities: &[Entity], context: &str) {
        let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for entity in entities {
            if let Some((group, _)) = entity.key().row().split_once('_') {
                *groups.entry((entity.key().partition(), group)).or_default() += 1;
            }
        }
        for ((partition, group), rows) in groups {
            assert_eq!(rows, GROUP, "{context}: the group {group} of {partition} is torn");
        }
    }

    /// Later rounds must not have cost earlier ones anything.
    async fn check_all(&self, directory: &Path) {
        let store = EmbeddedStore::open(directory.join("store")).await.unwrap();
        let entities = store.query_all(&table(), &Query::new()).await.unwrap();
        let present: HashMap<_, _> =
            entities.iter().map(|e| (e.key().to_string(), e.etag().unwrap().clone())).collect();
        assert!(present == self.etags, "what a round left was changed by a later one");
    }
}

fn table() -> TableName {
    TableName::new("Killed").unwrap()
}

fn partition(round: impl std::fmt::Display, task: usize) -> String {
    format!("r{round:0>4}-{task}")
}

fn of_round(round: usize) -> Filter {
    Filter::starts_with(Filter::PARTITION_KEY, &format!("r{round:0>4}-"))
}

/// The writer: tasks that insert single rows and groups in turn, and one that makes and drops tables.
async fn write_until_killed(directory: &Path, round: &str) {
    let store = EmbeddedStore::open(directory).await.unwrap();
    store.create_table_if_missing(&table()).await.unwrap();
    say("\nwriting");
    let tasks = (0..TASKS).map(|task| {
        let (store, partition) = (store.clone(), partition(round, task));
        tokio::spawn(async move { write_forever(&store, &partition).await })
    });
    let dropper = tokio::spawn(drop_tables_forever(store.clone()));
    join_all(tasks.chain([dropper])).await;
}

async fn write_forever(store: &EmbeddedStore, partition: &str) {
    for n in 0.. {
        let row = |row: String| {
            Entity::new(partition, row).unwrap().with("N", n).with("Text", "x".repeat(100).as_str())
        };
        let single = row(format!("s{n:06}"));
        let key = single.key().to_string();
        let written = store.write(&table(), Operation::Insert(single)).await.unwrap();
        say(&format!("ack {}\t{key}", written.etag.unwrap()));

        let mut group = GroupTransaction::new(PartitionKey::new(partition).unwrap(), store.profile());
        (0..GROUP).for_each(|k| group.push(Operation::Insert(row(format!("g{n:06}_{k}")))).unwrap());
        let keys: Vec<_> = group.operations().iter().map(|o| o.key().to_string()).collect();
        let written = store.transact(&table(), group).await.unwrap();
        let lines: Vec<_> = keys
            .iter()
            .zip(written)
            .map(|(key, written)| format!("ack {}\t{key}", written.etag.unwrap()))
            .collect();
        say(&lines.join("\n"));
    }
}

async fn drop_tables_forever(store: EmbeddedStore) {
    let dropped = TableName::new("Dropped").unwrap();
    loop {
        store.create_table_if_missing(&dropped).await.unwrap();
        for n in 0..5 {
            let entity = Entity::new("p", format!("{n}")).unwrap().with("Text", "y".repeat(500).as_str());
            store.write(&dropped, Operation::InsertOrReplace(entity)).await.unwrap();
        }
        store.delete_table(&dropped).await.unwrap();
    }
}

/// One write to the pipe, so that lines of tasks do not mix. What is in the pipe survives the kill.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}
