//! The emulator of Azure Storage, for tests and examples: installed below `target/`, one for each process; and
//! the blobs of an account or of the emulator.
//!
//! ```no_run
//! let emulator = azurite::Azurite::start()?;
//! println!("{}", emulator.connection_string());
//! # Ok::<_, String>(())
//! ```

pub mod blobs;
mod install;
mod server;

pub use server::Azurite;
