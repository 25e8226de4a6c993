//! Who asks: account keys, shared access signatures, tokens, and the connection strings that hold them.

mod audience;
mod connection_string;
mod shared_key;

pub(crate) use audience::scope;
pub(crate) use connection_string::{Connection, Secret};
pub use shared_key::SharedKey;
pub(crate) use shared_key::SharedKeyPolicy;
#[cfg(feature = "queue")]
pub(crate) use shared_key::{DATE, http_date};
