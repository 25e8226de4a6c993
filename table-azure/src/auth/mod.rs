//! Credentials: account keys, shared access signatures, tokens, and connection strings.

mod connection_string;
mod shared_key;

pub(crate) use connection_string::{Connection, Secret};
pub use shared_key::SharedKey;
#[cfg(feature = "queue")]
pub(crate) use shared_key::{DATE, http_date};
pub(crate) use shared_key::{Emulator, SharedKeyPolicy};
