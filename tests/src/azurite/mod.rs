//! The emulator of Azure Storage, for tests: installed below `target/`, one for each test process.

mod install;
mod server;

pub use server::Azurite;
