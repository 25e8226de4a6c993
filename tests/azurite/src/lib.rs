//! The emulator of Azure Storage, for tests and examples: installed below `target/`, one for each process; and
//! the blobs of an account or of the emulator.
//!
//! ```
//! let emulator = azurite::Azurite::start()?;
//! assert!(emulator.connection_string().contains("TableEndpoint=http://127.0.0.1"));
//! # Ok::<_, String>(())
//! ```

pub mod blobs;
mod install;
mod server;

pub use server::Azurite;

/// Returns the directory of the emulator's programs, such as `azurite-table`. Installs the emulator if it is missing.
///
/// # Errors
///
/// The emulator cannot be installed; the message names the missing part.
pub fn programs() -> Result<std::path::PathBuf, String> {
    install::installed().map(|directory| directory.join("node_modules").join(".bin"))
}
