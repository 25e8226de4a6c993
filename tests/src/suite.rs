//! What the lists of the suites have in common: how a list becomes tests.
//!
//! All behaviours of a suite have one type here, so that their runtime is compiled once and not for each.

use futures_util::future::LocalBoxFuture;

use crate::elsewhere::Elsewhere;
use crate::eventual::{EventualBackend, World};
use crate::queues::{Queue, QueueBackend};
use crate::{Backend, Harness};

/// Runs a behaviour on two threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn run(backend: &dyn Backend, behaviour: for<'a> fn(&'a Harness) -> LocalBoxFuture<'a, ()>) {
    let harness = Harness::start(backend.store().await, backend);
    behaviour(&harness).await;
    harness.finish().await;
}

/// Runs a behaviour that waits for leases or caches to end: no time passes during a request, and none is spent
/// where all wait.
#[tokio::main(flavor = "current_thread", start_paused = true)]
pub async fn run_in_virtual_time(
    backend: &dyn Backend,
    behaviour: for<'a> fn(&'a Harness) -> LocalBoxFuture<'a, ()>,
) {
    let harness = Harness::start(Elsewhere::around(backend.store().await), backend);
    behaviour(&harness).await;
    harness.finish().await;
}

/// Runs a behaviour of a work queue on two threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn run_with_queue(backend: &dyn QueueBackend, behaviour: fn(Queue) -> LocalBoxFuture<'static, ()>) {
    behaviour(backend.queue().await).await;
}

/// Runs a behaviour of eventually consistent transactions on two threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn run_with_world(
    backend: &dyn EventualBackend,
    behaviour: fn(World) -> LocalBoxFuture<'static, ()>,
) {
    behaviour(World::new(backend).await).await;
}

/// Makes a test of every behaviour in a list. The room, a module of this crate, has a module for each of the
/// list and a function `run`, which gives a behaviour what it needs of the backend.
///
/// A behaviour marked `(virtual_time)` is given to `run_in_virtual_time`.
#[doc(hidden)]
#[macro_export]
macro_rules! suite {
    ($room:ident, $backend:expr; $($module:ident { $($behaviour:ident $(($time:ident))?)* })*) => {$(
        mod $module {
            #[allow(unused_imports, reason = "the expression may name what is in scope outside")]
            use super::*;

            $(
                #[test]
                fn $behaviour() {
                    $crate::suite!(@run $room $($time)?)(&$backend, |given| {
                        Box::pin($crate::$room::$module::$behaviour(given))
                    });
                }
            )*
        }
    )*};
    (@run $room:ident) => { $crate::$room::run };
    (@run $room:ident virtual_time) => { $crate::$room::run_in_virtual_time };
}
