use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the engine, which panics where a file contradicts itself; `None` then.
///
/// What the work has borrowed may be half changed: let go of it, or make it anew.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}
