//! Checks the store after its writer was killed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use table_core::model::{ETag, Entity, ValueRef};
use table_core::query::{Filter, Query};
use table_core::store::TableStoreExt;
use table_embedded::{Durability, EmbeddedStore};

use crate::writer::{BACKUPS, CHANGED, STATES};
use crate::{GROUP, table};

/// The state after all rounds so far.
pub(crate) struct Findings {
    directory: PathBuf,
    durability: Durability,
    /// The ETag of every stored entity, by key.
    etags: HashMap<String, ETag>,
    /// The key of every ETag, acknowledged or stored.
    used: HashMap<String, String>,
    /// Acknowledged inserts that are stored.
    pub(crate) kept: usize,
}

impl Findings {
    pub(crate) fn new(directory: PathBuf, durability: Durability) -> Self {
        Self {
            directory,
            durability,
            etags: HashMap::new(),
            used: HashMap::new(),
            kept: 0,
        }
    }

    pub(crate) async fn check(&mut self, round: usize, lines: &[String], seed: u64) {
        let of_round = Filter::starts_with(Filter::PARTITION_KEY, &format!("r{round:0>4}-"));
        let entities = self.entities(&Query::new().with_filter(of_round)).await;
        let context = format!("round {round} of seed {seed}");
        check_groups(&entities, &context);
        self.check_changed(&entities, lines, &context);
        let present = etags(&entities);
        present
            .iter()
            .for_each(|(key, etag)| self.use_once(&etag.to_string(), key, &context));
        let last = present
            .values()
            .map(ToString::to_string)
            .max()
            .unwrap_or_default();
        for line in lines.iter().filter_map(|line| line.strip_prefix("ack ")) {
            let (etag, key) = line.split_once('\t').unwrap();
            self.use_once(etag, key, &context);
            let found = present.get(key).map(ToString::to_string);
            // ETags sort in the order of writes. If a write is lost, all later writes are lost, too.
            if found.is_some() || self.durability == Durability::Immediate || etag < last.as_str() {
                assert_eq!(found.as_deref(), Some(etag), "{context}: {key}");
                self.kept += 1;
            }
        }
        self.etags.extend(present);
    }

    /// A changed row has its last acknowledged state or the next state.
    fn check_changed(&self, entities: &[Entity], lines: &[String], context: &str) {
        let mut last = HashMap::new();
        for line in lines.iter().filter_map(|line| line.strip_prefix("state ")) {
            let (partition, state) = line.split_once('\t').unwrap();
            last.insert(partition, state.parse::<i32>().unwrap());
        }
        let rows = entities
            .iter()
            .filter(|entity| entity.key().row() == CHANGED);
        let found: HashMap<_, _> = rows
            .map(|row| (row.key().partition(), state_of(row, context)))
            .collect();
        for (partition, found) in &found {
            let acknowledged = last.get(partition).copied().unwrap_or(-1);
            assert!(
                *found <= acknowledged + 1,
                "{context}: {partition} is ahead"
            );
        }
        if self.durability == Durability::Relaxed {
            return;
        }
        for (partition, acknowledged) in last {
            let allowed = [acknowledged, acknowledged + 1];
            let right = match found.get(partition) {
                Some(state) => allowed.contains(state),
                None => allowed.iter().any(|state| is_absent(*state)),
            };
            assert!(
                right,
                "{context}: {partition} is in state {:?}, not {allowed:?}",
                found.get(partition)
            );
        }
    }

    fn use_once(&mut self, etag: &str, key: &str, context: &str) {
        let before = self.used.insert(etag.to_owned(), key.to_owned());
        assert!(
            before.is_none_or(|before| before == key),
            "{context}: {etag} of {key} was used before"
        );
    }

    /// Asserts that later rounds changed no entity of earlier rounds.
    pub(crate) async fn check_all(&self) {
        let entities = self.entities(&Query::new()).await;
        assert!(
            etags(&entities) == self.etags,
            "a later round changed an entity of an earlier round"
        );
    }

    async fn entities(&self, query: &Query) -> Vec<Entity> {
        let store = EmbeddedStore::open(&self.directory).await.unwrap();
        store.create_table_if_missing(&table()).await.unwrap();
        let entities = store.query_all(&table(), query).await.unwrap();
        store.close().await.unwrap();
        entities
    }
}

/// Asserts that every acknowledged backup exists and that no incomplete backup exists. Removes the backups.
pub(crate) async fn check_backups(directory: &Path, lines: &[String], expected: bool) {
    let acknowledged: Vec<_> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("backup "))
        .collect();
    let backups = directory.join(BACKUPS);
    assert!(expected || !backups.exists());
    let entries = walk(&backups).into_iter().flat_map(|round| walk(&round));
    for backup in entries {
        let is_whole = backup.join("tables.redb").exists();
        let name = backup.display().to_string();
        assert!(
            is_whole || !acknowledged.contains(&name.as_str()),
            "the backup {name} is missing"
        );
        if is_whole {
            let store = EmbeddedStore::open(&backup).await.unwrap();
            check_groups(
                &store.query_all(&table(), &Query::new()).await.unwrap(),
                &name,
            );
            store.close().await.unwrap();
        }
    }
    if backups.exists() {
        std::fs::remove_dir_all(&backups).unwrap();
    }
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn etags(entities: &[Entity]) -> HashMap<String, ETag> {
    entities
        .iter()
        .map(|e| (e.key().to_string(), e.etag().unwrap().clone()))
        .collect()
}

/// Returns the state of a changed row, and asserts that the row has exactly the properties of that state.
fn state_of(row: &Entity, context: &str) -> i32 {
    let number = |name| match row.get(name) {
        Some(ValueRef::Int32(number)) => Some(number),
        _ => None,
    };
    let state = number("State").unwrap();
    let whole = match state % STATES {
        0 => (number("First"), number("Kept")) == (Some(state), None),
        1 => (number("First"), number("Kept")) == (None, Some(state)),
        2 => (number("First"), number("Kept")) == (None, Some(state - 1)),
        _ => false,
    };
    assert!(whole, "{context}: {row:?} is in no state");
    state
}

/// The row is deleted, or not yet inserted.
const fn is_absent(state: i32) -> bool {
    state % STATES == STATES - 1 || state < 0
}

fn check_groups(entities: &[Entity], context: &str) {
    let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for entity in entities {
        if let Some((group, _)) = entity.key().row().split_once('_') {
            *groups.entry((entity.key().partition(), group)).or_default() += 1;
        }
    }
    for ((partition, group), rows) in groups {
        assert_eq!(
            rows, GROUP,
            "{context}: the group {group} of {partition} is torn"
        );
    }
}
