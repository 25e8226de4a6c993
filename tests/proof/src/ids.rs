//! Deterministic ids: a repeated schedule uses the same ids, and so do two schedules with the same beginning.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::BoxFuture;
use uuid::Uuid;

#[derive(Default)]
struct Ids {
    /// The task that runs now.
    task: usize,
    /// Whether a program of the scene writes plain rows.
    plain_writers: bool,
    /// Whether a write sends requests at the same time.
    overlapping: bool,
    given: BTreeMap<usize, u64>,
    /// Work that the current task has left to the background of its process.
    background: Vec<BoxFuture<'static, ()>>,
}

thread_local! {
    static IDS: RefCell<Option<Ids>> = const { RefCell::new(None) };
}

/// Starts the ids of a schedule.
pub(super) fn start_schedule(overlapping: bool) {
    IDS.set(Some(Ids {
        task: usize::MAX,
        overlapping,
        ..Ids::default()
    }));
}

/// Says that a program of this schedule writes plain rows.
pub(super) fn allow_plain_writers() {
    IDS.with_borrow_mut(|ids| {
        if let Some(ids) = ids {
            ids.plain_writers = true;
        }
    });
}

/// Whether a program may write plain rows: outside a schedule, and in the schedules that say so.
pub(crate) fn has_plain_writers() -> bool {
    IDS.with_borrow(|ids| ids.as_ref().is_none_or(|ids| ids.plain_writers))
}

/// Whether a write sends requests at the same time: outside a schedule, and in the schedules that say so.
pub(crate) fn overlaps() -> bool {
    IDS.with_borrow(|ids| ids.as_ref().is_none_or(|ids| ids.overlapping))
}

/// Takes work into the background of the current task. Returns it outside a schedule.
pub(crate) fn in_background(work: BoxFuture<'static, ()>) -> Option<BoxFuture<'static, ()>> {
    IDS.with_borrow_mut(|ids| match ids {
        Some(ids) => {
            ids.background.push(work);
            None
        }
        None => Some(work),
    })
}

/// The work that the current task has left to the background.
pub(super) fn take_background() -> Vec<BoxFuture<'static, ()>> {
    IDS.with_borrow_mut(|ids| {
        ids.as_mut()
            .map_or_else(Vec::new, |ids| std::mem::take(&mut ids.background))
    })
}

/// Sets the task that runs now.
pub(super) fn set_current_task(task: usize) {
    IDS.with_borrow_mut(|ids| {
        if let Some(ids) = ids {
            ids.task = task;
        }
    });
}

/// Stands for the task that runs now. Tasks of one process share one store and one queue.
pub(super) const CURRENT_TASK: usize = usize::MAX - 1;

/// The task that sends a request.
pub(super) fn sending_task(task: usize) -> usize {
    if task != CURRENT_TASK {
        return task;
    }
    IDS.with_borrow(|ids| ids.as_ref().map_or(usize::MAX, |ids| ids.task))
}

/// The next id of the current task; `None` outside a schedule.
pub(crate) fn next() -> Option<Uuid> {
    IDS.with_borrow_mut(|ids| {
        let Ids { task, given, .. } = ids.as_mut()?;
        let number = given.entry(*task).or_default();
        *number += 1;
        Some(Uuid::from_u64_pair(*task as u64, *number))
    })
}
