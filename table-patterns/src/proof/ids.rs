//! Identities that do not depend on chance: a schedule that is played again names the same rows, and so do
//! two schedules that begin alike.

use std::cell::RefCell;
use std::collections::BTreeMap;

use uuid::Uuid;

#[derive(Default)]
struct Ids {
    /// Whose turn it is.
    task: usize,
    given: BTreeMap<usize, u64>,
}

thread_local! {
    static IDS: RefCell<Option<Ids>> = const { RefCell::new(None) };
}

/// Begins a schedule.
pub(super) fn start() {
    IDS.set(Some(Ids { task: usize::MAX, ..Ids::default() }));
}

/// From now on it is this task that asks.
pub(super) fn acts(task: usize) {
    IDS.with_borrow_mut(|ids| {
        if let Some(ids) = ids {
            ids.task = task;
        }
    });
}

/// Stands for the task whose turn it is, where several share what sends their requests.
pub(super) const ACTING: usize = usize::MAX - 1;

/// The task that a request is of.
pub(super) fn sender(task: usize) -> usize {
    if task != ACTING {
        return task;
    }
    IDS.with_borrow(|ids| ids.as_ref().map_or(usize::MAX, |ids| ids.task))
}

/// The next identity of the task whose turn it is; `None` outside of a schedule.
pub(crate) fn next() -> Option<Uuid> {
    IDS.with_borrow_mut(|ids| {
        let Ids { task, given } = ids.as_mut()?;
        let number = given.entry(*task).or_default();
        *number += 1;
        Some(Uuid::from_u64_pair(*task as u64, *number))
    })
}
