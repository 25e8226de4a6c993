//! The rule that the current schedule leaves out.

use std::cell::Cell;

use crate::invariants::Invariant;

thread_local! {
    /// The number of the rule. A schedule runs on one thread.
    static OMITTED: Cell<Option<u8>> = const { Cell::new(None) };
}

/// Leaves a rule out from now on, or none.
pub(crate) fn omit(invariant: Option<Invariant>) {
    OMITTED.set(invariant.map(|invariant| invariant as u8));
}

/// Whether the current schedule leaves a rule out. The code of `mutations.txt` asks this.
pub(crate) fn omits(rule: u8) -> bool {
    OMITTED.get() == Some(rule)
}
