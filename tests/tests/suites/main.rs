//! Every suite on every store: one program, so that one emulator serves all, and what waits does not keep the
//! others from working.

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
mod served;
mod served_service;
mod staging;
