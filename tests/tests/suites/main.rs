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

/// Installs and starts the emulator while the other tests run. It is the first test, because tests run in the order of their names, and those that
/// need the emulator would all wait for the installation.
#[test]
fn a_first_start_of_the_emulator() {
    std::thread::spawn(conformance::azurite::Azurite::shared);
}
