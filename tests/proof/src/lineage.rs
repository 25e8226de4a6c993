//! The states of moved entities: no committed write is lost, and no state is in two entities.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use table_core::model::{Entity, ValueRef};
use table_core::store::Outcome;

use super::final_state::Verdict;
use super::scheduled_store::MARK;
use super::scheduler::Scheduler;
use crate::patterns::journal::Change;

/// A write of an entity.
#[derive(Debug)]
struct Step {
    /// The mark of the state that the write replaces or deletes.
    old: Option<String>,
    /// The mark of the state that the write creates; `None` for a delete.
    new: Option<String>,
    /// The answer of the write, if there was one: the outcome of its error.
    answer: Option<Option<Outcome>>,
}

/// The states of entities, by the marks of the writes that created them.
#[derive(Clone, Debug)]
pub(super) struct Lineage {
    start: BTreeSet<String>,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Lineage {
    /// The entities at the start of the schedule.
    pub(super) fn new(start: impl Iterator<Item = String>) -> Self {
        Self {
            start: start.collect(),
            steps: Arc::default(),
        }
    }

    /// Adds a write that begins. Returns its number.
    pub(super) fn begin(&self, change: &Change, mark: &str) -> usize {
        let old = change.old().and_then(mark_of);
        let new = change.new.is_some().then(|| mark.to_owned());
        let mut steps = self.steps.lock().unwrap();
        steps.push(Step {
            old,
            new,
            answer: None,
        });
        steps.len() - 1
    }

    pub(super) fn end(&self, step: usize, error: Option<Outcome>) {
        self.steps.lock().unwrap()[step].answer = Some(error);
    }

    /// Checks that every current state is in exactly one entity, and that no other state is in any entity.
    pub(super) fn check(&self, scheduler: &Scheduler, rows: &[Entity]) -> Verdict {
        let (mut live, mut ended, mut unsure) =
            (self.start.clone(), BTreeSet::new(), BTreeSet::new());
        for step in self.steps.lock().unwrap().iter() {
            let committed = match (&step.new, step.answer) {
                (Some(new), _) => Some(scheduler.is_committed(new)),
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
        let found: Vec<_> = rows
            .iter()
            .filter(|row| !row.key().is_system())
            .filter_map(mark_of)
            .collect();
        for state in live.difference(&ended) {
            match found.iter().filter(|mark| *mark == state).count() {
                1 => {}
                0 if unsure.contains(state) => {}
                count => {
                    return Err(format!(
                        "{count} entities have the state of {state:?}, expected one; the states are {found:?}"
                    ));
                }
            }
        }
        match found
            .iter()
            .find(|mark| ended.contains(*mark) || !live.contains(*mark))
        {
            Some(mark) => Err(format!(
                "an entity has the state of {mark:?}, which a later write replaced"
            )),
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
