//! Fault injection: simulates failures of networks, services and processes, scripted and repeatable.

mod injector;
mod kind;
mod late;
mod page;
mod rule;
mod state;
mod store;
#[cfg(test)]
mod tests;

pub use injector::FaultInjector;
pub use kind::{CrashPoint, Fault};
pub use rule::FaultRule;
pub use state::Injected;
pub use store::Faulty;
