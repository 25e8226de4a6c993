//! Credentials: account keys, shared access signatures, tokens, and connection strings.

mod connection_string;
mod shared_key;

pub(crate) use connection_string::{Connection, Secret};
pub use shared_key::SharedKey;
pub(crate) use shared_key::{Emulator, SharedKeyPolicy};
#[cfg(feature = "queue")]
pub(crate) use shared_key::{X_MS_DATE, http_date};
