//! Every suite on every store, in one program: all tests share one emulator, and tests run while others wait.

mod adapters;
mod azurite;
mod azurite_service;
mod backends;
mod composition;
mod embedded;
mod encryption;
mod eventual;
mod memory;
mod patterns;
mod queues;
mod round_trips;
mod served;
mod served_service;
mod staging;

/// Installs and starts the emulator while the other threads run tests that do not need it. It is the first test, because tests run in the order of
/// their names; without it, every thread would wait for the installation.
#[test]
fn a_first_start_of_the_emulator() {
    let emulator = conformance::azurite::Azurite::shared();
    assert!(
        emulator.connection_string().contains("TableEndpoint=http"),
        "the emulator has an address"
    );
}
