//! What becomes of entities that are moved and written: no committed write is lost, and none is in two entities.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use table_core::model::{Entity, ValueRef};
use table_core::store::Outcome;

use super::rest::Verdict;
use super::stage::Stage;
use super::store::MARK;
use crate::journal::Change;

/// A write of an entity.
#[derive(Debug)]
struct Step {
    /// The mark of the state that it ends.
    old: Option<String>,
    /// The mark of the state that it begins; `None` where it deletes.
    new: Option<String>,
    /// Its answer, if there was one: the outcome of its error.
    told: Option<Option<Outcome>>,
}

/// The states of entities, by the marks of the writes that have made them.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    start: BTreeSet<String>,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Lineage {
    /// Entities that are there at the start.
    pub(super) fn new(start: impl Iterator<Item = String>) -> Self {
        Self { start: start.collect(), steps: Arc::default() }
    }

    /// A write begins; its number.
    pub(super) fn begin(&self, change: &Change, mark: &str) -> usize {
        let old = change.old().and_then(mark_of);
        let new = change.new.is_some().then(|| mark.to_owned());
        let mut steps = self.steps.lock().unwrap();
        steps.push(Step { old, new, told: None });
        steps.len() - 1
    }

    pub(super) fn end(&self, step: usize, error: Option<Outcome>) {
        self.steps.lock().unwrap()[step].told = Some(error);
    }

    /// Every state that nobody has ended is in one entity, and no other state is in any.
    pub(super) fn check(&self, stage: &Stage, rows: &[Entity]) -> Verdict {
        let (mut live, mut ended, mut unsure) = (self.start.clone(), BTreeSet::new(), BTreeSet::new());
        for step in self.steps.lock().unwrap().iter() {
            let committed = match (&step.new, step.told) {
                (Some(new), _) => Some(stage.is_committed(new)),
                (None, Some(None)) => Some(true),
                (None, Some(Some(Outcome::NotApplied))) => Some(false),
                (None, _) => None,
            };
            match committed {
                Some(true) => {
                    live.extend(step.new.clone());
                    ended.extend(step.old.clone());
                }
                Some(false) => {}
                None => unsure.extend(step.old.clone()),
            }
        }
        let found: Vec<_> = rows.iter().filter(|row| !row.key().is_system()).filter_map(mark_of).collect();
        for state in live.difference(&ended) {
            match found.iter().filter(|mark| *mark == state).count() {
                1 => {}
                0 if unsure.contains(state) => {}
                count => {
                    return Err(format!("{count} entities are as {state:?} has made them, of {found:?}"));
                }
            }
        }
        match found.iter().find(|mark| ended.contains(*mark) || !live.contains(*mark)) {
            Some(mark) => Err(format!("an entity is as {mark:?} has made it, which was written over")),
            None => Ok(()),
        }
    }
}

fn mark_of(entity: &Entity) -> Option<String> {
    match entity.get(MARK) {
        Some(ValueRef::String(mark)) => Some(mark.to_owned()),
        _ => None,
    }
}
