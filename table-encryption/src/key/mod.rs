//! Key-encryption keys, which wrap data keys, and how readers find them.

mod aes;
mod bytes;
mod ring;
#[cfg(feature = "rsa")]
mod rsa;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::Arc;

pub use aes::AesKeyWrap;
use async_trait::async_trait;
pub use bytes::KeyBytes;
pub(crate) use bytes::fill_random;
pub use ring::Keys;
#[cfg(feature = "rsa")]
pub use rsa::{OaepHash, RsaKeyWrap};
use table_core::Result;

/// A key-encryption key. It wraps and unwraps data keys of 40 bytes (32 in the legacy format v1).
///
/// Local keys are [`AesKeyWrap`] and, with the feature `rsa`, `RsaKeyWrap`. Implement this trait for a key
/// service. One data key serves many entities, and unwrapped keys are cached, so the service is rarely
/// called.
///
/// # Errors
/// A wrapped key that belongs to another key, or was changed, must be an
/// [`ErrorKind::Encryption`](table_core::store::ErrorKind::Encryption); readers get one uniform error for it.
/// Any other kind means that the key service could not be used (busy, unauthorized, unreachable) and is
/// passed on unchanged.
#[async_trait]
pub trait KeyWrap: Debug + Send + Sync + 'static {
    /// Returns the permanent id of this key, including its version. It is stored with the data; at most
    /// 65,535 bytes.
    fn key_id(&self) -> &str;

    /// Returns the wrapping algorithm by its JSON Web Algorithms name, such as `A256KW` or `RSA-OAEP`; 1 to
    /// 255 bytes.
    fn algorithm(&self) -> &str;

    /// Wraps a data key.
    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>>;

    /// Unwraps a data key.
    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes>;
}

/// Finds keys that a program does not list, such as former versions or keys of other tenants.
#[async_trait]
pub trait KeyResolver: Debug + Send + Sync + 'static {
    /// Returns the key with this id, if it exists. The ids come from stored data, which others may have
    /// written: return `None` for foreign ids, and do not treat an id as an address to connect to.
    ///
    /// # Errors
    /// Fails if the source of the keys cannot be reached.
    async fn resolve(&self, key_id: &str) -> Result<Option<Arc<dyn KeyWrap>>>;
}
