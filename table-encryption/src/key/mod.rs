//! Key-encryption keys: what wraps data keys, and how it is found again.

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

/// A key-encryption key: wraps and unwraps data keys of 40 bytes (32 in legacy v1).
///
/// Local keys are [`AesKeyWrap`] and, with the feature `rsa`, `RsaKeyWrap`; implement the trait for a key service. One call wraps
/// a data key that serves many entities, and unwrapped ones are cached, so that a service is asked rarely.
///
/// # Errors
/// A wrapped key that is not this key's, or was changed, is an
/// [`ErrorKind::Encryption`](table_core::store::ErrorKind::Encryption): readers see one uniform error for it. Any other
/// kind says that the key service could not be used (busy, unauthorized, unreachable) and passes through as it is.
#[async_trait]
pub trait KeyWrap: Debug + Send + Sync + 'static {
    /// What names this key for good, version included: stored with what it protects. At most 65,535 bytes.
    fn key_id(&self) -> &str;

    /// How it wraps, as JSON Web Algorithms name it: `A256KW`, `RSA-OAEP`. 1 to 255 bytes.
    fn algorithm(&self) -> &str;

    /// Wraps a data key.
    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>>;

    /// Unwraps a data key.
    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes>;
}

/// Finds keys that a program does not name one by one: former versions, other tenants.
#[async_trait]
pub trait KeyResolver: Debug + Send + Sync + 'static {
    /// The key with this id, if there is one. Asked for ids found in stored data, which others may have written:
    /// answer `None` to what is not yours, and do not follow addresses.
    ///
    /// # Errors
    /// Where it looks cannot be reached.
    async fn resolve(&self, key_id: &str) -> Result<Option<Arc<dyn KeyWrap>>>;
}
