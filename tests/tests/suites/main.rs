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
