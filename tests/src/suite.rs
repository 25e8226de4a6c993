//! Runs behaviours, and makes tests of the lists of behaviours.
//!
//! All behaviours of a suite have one function type, so the code of the runtime is compiled once per suite.

use futures_util::future::LocalBoxFuture;

use crate::eventual::{EventualBackend, World};
use crate::queues::{Queue, QueueBackend};
use crate::{Backend, Harness};

/// A behaviour of a store.
pub type Behaviour = for<'a> fn(&'a Harness) -> LocalBoxFuture<'a, ()>;
/// A behaviour of a work queue.
pub type QueueBehaviour = fn(Queue) -> LocalBoxFuture<'static, ()>;
/// A behaviour of eventual transactions.
pub type EventualBehaviour = fn(World) -> LocalBoxFuture<'static, ()>;

/// Runs a behaviour on two threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn run(backend: &dyn Backend, behaviour: Behaviour) {
    let harness = Harness::start(backend).await;
    behaviour(&harness).await;
    harness.finish().await;
}

/// Runs a behaviour that waits for leases or caches to expire, in virtual time.
///
/// The clock stands still during a request. When all tasks wait, the clock moves to the end of the shortest wait.
#[tokio::main(flavor = "current_thread", start_paused = true)]
pub async fn run_in_virtual_time(backend: &dyn Backend, behaviour: Behaviour) {
    let harness = Harness::start_in_virtual_time(backend).await;
    behaviour(&harness).await;
    harness.finish().await;
}

/// Runs a behaviour of a work queue on two threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn run_with_queue(backend: &dyn QueueBackend, behaviour: QueueBehaviour) {
    behaviour(backend.queue().await).await;
}

/// Runs a behaviour of eventual transactions on two threads.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub async fn run_with_world(backend: &dyn EventualBackend, behaviour: EventualBehaviour) {
    behaviour(World::new(backend).await).await;
}

/// Declares, for each entry of a list, a function that returns the behaviour as a value of one type.
///
/// Test crates reach behaviours only through these functions. A behaviour without an entry is therefore dead
/// code, and this crate denies dead code.
#[doc(hidden)]
#[macro_export]
macro_rules! define_behaviours {
    ($suite:ident; $($module:ident { $($behaviour:ident $(($time:ident))?)* })*) => {$(
        #[allow(missing_docs, reason = "a behaviour's name says what it is")]
        pub mod $module {
            use $crate::$suite::{$module as implementation, Behaviour};

            $(
                pub fn $behaviour() -> Behaviour {
                    |given| Box::pin(implementation::$behaviour(given))
                }
            )*
        }
    )*};
}

/// Makes a test of every behaviour in a list, for one backend.
///
/// A behaviour marked `(virtual_time)` runs in virtual time.
#[doc(hidden)]
#[macro_export]
macro_rules! define_tests {
    ($suite:ident $backend:expr; $($module:ident { $($behaviour:ident $(($time:ident))?)* })*) => {$(
        mod $module {
            #[allow(unused_imports, reason = "the expression can name items of the outer module")]
            use super::*;

            $(
                #[test]
                fn $behaviour() {
                    let behaviour = $crate::$suite::list::$module::$behaviour();
                    $crate::define_tests!(@run $suite $($time)?)(&$backend, behaviour);
                }
            )*
        }
    )*};
    (@run $suite:ident) => { $crate::$suite::run };
    (@run $suite:ident virtual_time) => { $crate::$suite::run_in_virtual_time };
}
