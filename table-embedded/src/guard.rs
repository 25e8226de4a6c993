use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::thread::panicking;

thread_local! {
    /// Nesting depth of [`guarded`] calls on this thread.
    static GUARDED: Cell<u32> = const { Cell::new(0) };
}

/// The payload with which a read unwinds if a page is damaged or the disk cannot read it.
#[derive(Debug)]
pub(crate) struct Unreadable;

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page cannot be read")
    }
}

/// Why work ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwound {
    /// A page that the work needed cannot be read. The engine's state is unchanged.
    Unreadable,
    Panicked,
}

/// Runs work on the engine, which panics if a file contradicts itself; then returns `None`. The panic is
/// logged, not printed; the caller converts it to an error.
///
/// Values that the work borrowed may be partly changed: drop or recreate them.
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    caught(work).ok()
}

/// Like [`guarded`], and returns the cause.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Unwound> {
    log_guarded_panics();
    GUARDED.set(GUARDED.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(GUARDED.get() - 1);
    done.map_err(|payload| {
        if payload.is::<Unreadable>() {
            Unwound::Unreadable
        } else {
            Unwound::Panicked
        }
    })
}

/// Installs a panic hook, once, in front of the program's hook. It keeps panics of guarded work from the
/// program's hook, which would print them, and passes on all others. A hook that the program installs later
/// replaces it.
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
                tracing::error!(%panic, "the storage engine panicked");
            }
        }));
    });
}
