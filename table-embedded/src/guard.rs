use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::thread::panicking;

use crate::file::Unreadable;

thread_local! {
    /// How many calls of [`guarded`] this thread is in.
    static GUARDED: Cell<u32> = const { Cell::new(0) };
}

/// What ended work before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwound {
    /// A page that it needed cannot be read; the engine is as it was.
    Unreadable,
    Panicked,
}

/// Runs the engine, which panics where a file contradicts itself; `None` then. The panic is logged, not printed: the
/// caller turns it into an error.
///
/// What the work has borrowed may be half changed: let go of it, or make it anew.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    caught(work).ok()
}

/// [`guarded`], with what happened.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Unwound> {
    log_guarded_panics();
    GUARDED.set(GUARDED.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(GUARDED.get() - 1);
    done.map_err(|payload| if payload.is::<Unreadable>() { Unwound::Unreadable } else { Unwound::Panicked })
}

/// Puts a panic hook before the program's, once: it keeps the panics of guarded work from the program's hook, which would print
/// them, and passes all others on. A hook that the program sets later takes its place.
fn log_guarded_panics() {
    static INSTALLED: Once = Once::new();
    if INSTALLED.is_completed() || panicking() {
        return;
    }
    INSTALLED.call_once(|| {
        let programs = take_hook();
        set_hook(Box::new(move |panic| {
            if GUARDED.get() == 0 {
                programs(panic);
            } else {
                tracing::error!(%panic, "the engine of the file panicked");
            }
        }));
    });
}
