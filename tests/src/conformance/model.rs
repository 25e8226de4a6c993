//! Random operations compared with a model: an ordered map.

use std::collections::BTreeMap;

use table_core::model::{ETag, EdmType, Entity, IfMatch, Key, Properties};
use table_core::query::{Query, Select};
use table_core::store::{ErrorKind, Operation, Result, Written};

use super::sample::{pick, property, random, some_entity, some_filter, some_key};
use super::table::{assert_same, refused};
use super::{Harness, TestTable};

/// Thousands of random writes, groups and reads; each result is compared with the model.
pub(crate) async fn agrees_with_random_operations(h: &Harness) {
    let runs = 3;
    for seed in 0..runs {
        let mut run = Run {
            table: h.table().await,
            model: Model::default(),
            rng: random(seed),
        };
        for _ in 0..h.scale().steps / runs as usize {
            run.step().await;
        }
        run.compare_all().await;
    }
}

const KEYS: [&str; 6] = ["", "a", "it's", "b", "\u{1F600}", "\u{E000}"];

struct Run {
    table: TestTable,
    model: Model,
    rng: fastrand::Rng,
}

/// The expected content of the table.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<Key, (ETag, Properties)>,
    old: Vec<ETag>,
}

impl Run {
    async fn step(&mut self) {
        match self.rng.u8(..10) {
            0..5 => self.write().await,
            5..7 => self.group().await,
            7 => self.get().await,
            _ => self.query().await,
        }
    }

    async fn write(&mut self) {
        let key = some_key(&mut self.rng, &KEYS);
        let operation = self.operation(key.clone());
        let expected = self.model.clone().apply(&operation);
        let answer = self.table.write(operation.clone()).await;
        match expected {
            Ok(mut after) => {
                after.note(&key, &answer.expect("the model takes it"));
                self.model = after;
            }
            Err(expected) => assert_eq!(
                meaning(refused(answer).root().kind()),
                expected,
                "{operation:?}"
            ),
        }
    }

    async fn group(&mut self) {
        let partition = pick(&mut self.rng, &KEYS);
        let mut rows = KEYS.to_vec();
        self.rng.shuffle(&mut rows);
        rows.truncate(self.rng.usize(1..=KEYS.len()));
        let operations: Vec<_> = rows
            .iter()
            .map(|row| self.operation(super::table::key(partition, row)))
            .collect();
        let expected = operations
            .iter()
            .enumerate()
            .try_fold(self.model.clone(), |model, (index, op)| {
                model.apply(op).map_err(|meaning| (index, meaning))
            });
        self.settle(partition, operations, expected).await;
    }

    async fn settle(
        &mut self,
        partition: &str,
        operations: Vec<Operation>,
        expected: Result<Model, (usize, &'static str)>,
    ) {
        let keys: Vec<Key> = operations.iter().map(|op| op.key().clone()).collect();
        let answer = self.table.transact(partition, operations.clone()).await;
        match expected {
            Ok(mut after) => {
                let written = answer.expect("the model takes it");
                keys.iter()
                    .zip(&written)
                    .for_each(|(key, written)| after.note(key, written));
                self.model = after;
            }
            Err((index, expected)) => {
                let error = refused(answer);
                assert_eq!(error.failed_index(), Some(index), "{error}");
                assert_eq!(meaning(error.root().kind()), expected, "{operations:?}");
            }
        }
    }

    async fn get(&mut self) {
        let key = some_key(&mut self.rng, &KEYS);
        let read = self.table.get(&key).await;
        assert_eq!(read.is_some(), self.model.rows.contains_key(&key), "{key}");
        read.iter().for_each(|entity| self.model.check(entity));
    }

    async fn query(&mut self) {
        let depth = self.rng.u32(..3);
        let filter = some_filter(&mut self.rng, &KEYS, depth);
        let query = Query::new()
            .with_filter(filter.clone())
            .with_top(self.rng.usize(1..9));
        let mut found = Vec::new();
        let mut from = None;
        loop {
            let page = self.table.page(&query, from.as_ref()).await;
            assert!(page.items.len() <= query.top.unwrap_or_default());
            found.extend(page.items);
            from = page.continuation;
            if from.is_none() {
                break;
            }
        }
        found.sort_by(|a, b| a.key().cmp(b.key()));
        found.iter().for_each(|entity| self.model.check(entity));
        let found: Vec<_> = found.iter().map(Entity::key).collect();
        let matching =
            |key: &Key, properties: &Properties| filter.matches_parts(key, None, properties);
        let rows = self.model.rows.iter();
        let expected: Vec<_> = rows
            .filter(|(k, (_, p))| matching(k, p))
            .map(|(key, _)| key)
            .collect();
        assert_eq!(found, expected, "{filter}");
    }

    async fn compare_all(&self) {
        let found = self.table.all(&Query::new()).await;
        assert_eq!(found.len(), self.model.rows.len());
        found.iter().for_each(|entity| self.model.check(entity));
        let select = Select::new([property(EdmType::Int64)]);
        for entity in self
            .table
            .all(&Query::new().with_select(select.clone()))
            .await
        {
            let mut kept = self.model.rows[entity.key()].1.clone();
            kept.retain(|p| select.contains(p.name()));
            assert_same(entity.properties(), &kept);
        }
    }

    fn operation(&mut self, key: Key) -> Operation {
        let entity = some_entity(&mut self.rng, key.clone());
        let condition = self.condition(&key);
        match self.rng.u8(..7) {
            0 | 1 => Operation::Insert(entity),
            2 => Operation::Replace(entity, condition),
            3 => Operation::Merge(entity, condition),
            4 => Operation::InsertOrReplace(entity),
            5 => Operation::InsertOrMerge(entity),
            _ => Operation::Delete(key, condition),
        }
    }

    /// Mostly the current version, sometimes an earlier version or any version.
    fn condition(&mut self, key: &Key) -> IfMatch {
        let current = self.model.rows.get(key).map(|(etag, _)| etag.clone());
        match (self.rng.u8(..4), current) {
            (0, _) => IfMatch::Any,
            (1, _) if !self.model.old.is_empty() => pick(&mut self.rng, &self.model.old).into(),
            (_, Some(etag)) => etag.into(),
            (_, None) => IfMatch::Any,
        }
    }
}

impl Model {
    fn apply(mut self, operation: &Operation) -> Result<Self, &'static str> {
        let current = self.rows.get(operation.key());
        match (operation.if_match(), current) {
            (Some(_), None) => return Err(MISSING),
            (Some(IfMatch::Exactly(wanted)), Some((etag, _))) if wanted != etag => {
                return Err(CHANGED);
            }
            _ => {}
        }
        if matches!(operation, Operation::Insert(_)) && current.is_some() {
            return Err(EXISTS);
        }
        let removed = self.rows.remove(operation.key());
        self.old
            .extend(removed.iter().map(|(etag, _)| etag.clone()));
        if let Some(entity) = operation.entity() {
            let merges = matches!(
                operation,
                Operation::Merge(..) | Operation::InsertOrMerge(_)
            );
            let mut after = removed
                .map(|(_, old)| old)
                .filter(|_| merges)
                .unwrap_or_default();
            after.merge(entity.properties());
            self.rows.insert(
                operation.key().clone(),
                (ETag::from("not yet known"), after),
            );
        }
        Ok(self)
    }

    /// Stores the ETag of the answer in the model, and asserts that it is new.
    fn note(&mut self, key: &Key, written: &Written) {
        let Some((etag, _)) = self.rows.get_mut(key) else {
            return assert_eq!(written.etag, None);
        };
        let new = written.etag.clone().expect("a version");
        assert!(!self.old.contains(&new), "{new} was used before");
        *etag = new;
    }

    #[track_caller]
    fn check(&self, found: &Entity) {
        let (etag, properties) = &self.rows[found.key()];
        assert_eq!(found.etag(), Some(etag), "{}", found.key());
        assert_same(found.properties(), properties);
    }
}

const MISSING: &str = "missing";
const CHANGED: &str = "changed";
const EXISTS: &str = "exists";

fn meaning(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::EntityNotFound { .. } => MISSING,
        ErrorKind::PreconditionFailed { .. } => CHANGED,
        ErrorKind::EntityAlreadyExists { .. } => EXISTS,
        other => panic!("{other}"),
    }
}
