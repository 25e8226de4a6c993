//! Key encryption keys, which wrap data keys, and how readers find them.

#[cfg(feature = "rsa")]
mod rsa;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use aes_kw::{IV_LEN, KeyInit as _, KwAes128, KwAes192, KwAes256};
use async_trait::async_trait;
use table_core::store::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

#[cfg(feature = "rsa")]
pub use rsa::{OaepHash, RsaKeyWrap};

/// A key encryption key. It wraps and unwraps data keys of 40 bytes (32 in the legacy format v1).
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

/// Key material. It is overwritten when dropped, and `Debug` does not show it.
///
/// ```
/// let key = table_encryption::KeyBytes::from(vec![7; 32]);
/// assert_eq!(format!("{key:?}"), "KeyBytes(32 bytes)");
/// ```
#[derive(Clone)]
pub struct KeyBytes(Zeroizing<Vec<u8>>);

impl KeyBytes {
    /// Returns random bytes of the operating system.
    ///
    /// # Errors
    /// Fails if the operating system provides none.
    pub fn random(len: usize) -> Result<Self> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        fill_random(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the bytes. Do not keep copies of them.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

pub(crate) fn fill_random(out: &mut [u8]) -> Result<()> {
    let failed = |e| {
        ErrorKind::Encryption(format!(
            "the operating system provides no random bytes: {e}"
        ))
        .into()
    };
    getrandom::fill(out).map_err(failed)
}

impl From<Vec<u8>> for KeyBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }
}

impl fmt::Debug for KeyBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBytes({} bytes)", self.0.len())
    }
}

/// A local AES key that wraps by RFC 3394. Its length selects `A128KW`, `A192KW` or `A256KW`.
///
/// <https://www.rfc-editor.org/rfc/rfc3394>
pub struct AesKeyWrap {
    key_id: Box<str>,
    cipher: Cipher,
}

enum Cipher {
    Aes128(Box<KwAes128>),
    Aes192(Box<KwAes192>),
    Aes256(Box<KwAes256>),
}

impl AesKeyWrap {
    /// Creates a key of 16, 24 or 32 bytes; 32 is recommended. [`KeyBytes::random`] creates one.
    ///
    /// # Errors
    /// Fails if the key has another length.
    pub fn new(key_id: impl Into<Box<str>>, key: &KeyBytes) -> Result<Self> {
        let bytes = key.expose();
        let cipher = match bytes.len() {
            16 => KwAes128::new_from_slice(bytes).map(|c| Cipher::Aes128(Box::new(c))),
            24 => KwAes192::new_from_slice(bytes).map(|c| Cipher::Aes192(Box::new(c))),
            _ => KwAes256::new_from_slice(bytes).map(|c| Cipher::Aes256(Box::new(c))),
        };
        let wrong = |_| {
            Error::invalid_argument(format!(
                "an AES key must have 16, 24 or 32 bytes; this key has {}",
                bytes.len()
            ))
        };
        Ok(Self {
            key_id: key_id.into(),
            cipher: cipher.map_err(wrong)?,
        })
    }
}

#[async_trait]
impl KeyWrap for AesKeyWrap {
    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn algorithm(&self) -> &str {
        match self.cipher {
            Cipher::Aes128(_) => "A128KW",
            Cipher::Aes192(_) => "A192KW",
            Cipher::Aes256(_) => "A256KW",
        }
    }

    async fn wrap_key(&self, key: &KeyBytes) -> Result<Vec<u8>> {
        let key = key.expose();
        let mut out = vec![0; key.len() + IV_LEN];
        let wrapped = match &self.cipher {
            Cipher::Aes128(c) => c.wrap_key(key, &mut out).is_ok(),
            Cipher::Aes192(c) => c.wrap_key(key, &mut out).is_ok(),
            Cipher::Aes256(c) => c.wrap_key(key, &mut out).is_ok(),
        };
        let refused = || {
            Error::invalid_argument(
                "AES key wrap needs a key of at least 16 bytes, in a multiple of 8",
            )
        };
        wrapped.then_some(out).ok_or_else(refused)
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        // RFC 3394 wraps at least two blocks of 8 bytes.
        let len = wrapped
            .len()
            .checked_sub(IV_LEN)
            .filter(|len| *len >= 16)
            .ok_or_else(refused)?;
        let mut out = Zeroizing::new(vec![0; len]);
        let unwrapped = match &self.cipher {
            Cipher::Aes128(c) => c.unwrap_key(wrapped, &mut out).is_ok(),
            Cipher::Aes192(c) => c.unwrap_key(wrapped, &mut out).is_ok(),
            Cipher::Aes256(c) => c.unwrap_key(wrapped, &mut out).is_ok(),
        };
        unwrapped
            .then(|| KeyBytes::from(std::mem::take(&mut *out)))
            .ok_or_else(refused)
    }
}

fn refused() -> Error {
    ErrorKind::Encryption("the key cannot be unwrapped".to_owned()).into()
}

impl fmt::Debug for AesKeyWrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AesKeyWrap")
            .field("key_id", &self.key_id)
            .field("algorithm", &self.algorithm())
            .finish_non_exhaustive()
    }
}

/// The keys of a store: one key that wraps new data keys, and other keys for reading.
///
/// Each key must have its own id. [`EncryptedStoreBuilder::build`](crate::EncryptedStoreBuilder::build) and
/// [`BlobCipher::with_keys`](crate::BlobCipher::with_keys) refuse two different keys with the same id,
/// because data of one of them could not be read.
///
/// ```
/// use std::sync::Arc;
/// use table_encryption::{AesKeyWrap, KeyBytes, Keys};
/// let [old, new] = [KeyBytes::random(32)?, KeyBytes::random(32)?];
/// let keys = Keys::new(Arc::new(AesKeyWrap::new("kek-2027", &new)?))
///     .with_key(Arc::new(AesKeyWrap::new("kek-2026", &old)?));
/// assert_eq!(format!("{keys:?}"), r#"Keys { active: "kek-2027", others: ["kek-2026"], resolver: false }"#);
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Keys {
    active: Arc<dyn KeyWrap>,
    others: BTreeMap<String, Arc<dyn KeyWrap>>,
    resolver: Option<Arc<dyn KeyResolver>>,
    /// An id that two keys share.
    duplicate: Option<String>,
}

impl Keys {
    /// Creates a set of keys with one key for writing and reading.
    pub fn new(active: Arc<dyn KeyWrap>) -> Self {
        Self {
            active,
            others: BTreeMap::new(),
            resolver: None,
            duplicate: None,
        }
    }

    /// Adds a key for reading. Adding the same `Arc` again has no effect.
    #[must_use]
    pub fn with_key(mut self, key: Arc<dyn KeyWrap>) -> Self {
        match self.known(key.key_id()) {
            None => drop(self.others.insert(key.key_id().to_owned(), key)),
            Some(known) if is_same(known, &key) => {}
            Some(_) => self.duplicate = Some(key.key_id().to_owned()),
        }
        self
    }

    /// Sets a resolver for keys that are not in this set.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn KeyResolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Returns the key that wraps new data keys.
    pub fn active(&self) -> &Arc<dyn KeyWrap> {
        &self.active
    }

    /// The keys of this set, without the keys that only the resolver knows.
    pub(crate) fn named(&self) -> impl Iterator<Item = &Arc<dyn KeyWrap>> {
        std::iter::once(&self.active).chain(self.others.values())
    }

    fn known(&self, key_id: &str) -> Option<&Arc<dyn KeyWrap>> {
        if self.active.key_id() == key_id {
            Some(&self.active)
        } else {
            self.others.get(key_id)
        }
    }

    /// Returns the key with this id.
    pub(crate) async fn find(&self, key_id: &str) -> Result<Option<Arc<dyn KeyWrap>>> {
        match (self.known(key_id), &self.resolver) {
            (Some(key), _) => Ok(Some(Arc::clone(key))),
            (None, None) => Ok(None),
            (None, Some(resolver)) => match resolver.resolve(key_id).await? {
                // The id is stored with the data. A key of another id would be used for reading, and a rotation would count it wrongly.
                Some(key) if key.key_id() != key_id => Err(ErrorKind::Service(format!(
                    "the key resolver returned the key {:?} for the id {key_id:?}",
                    key.key_id()
                ))
                .into()),
                found => Ok(found),
            },
        }
    }

    /// Refuses two keys with the same id, and names that a header cannot hold.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(id) = &self.duplicate {
            return Err(Error::invalid_argument(format!(
                "two keys have the id {id:?}, so data of one of them could not be read; give each key its own id, \
                 version included"
            )));
        }
        for key in self.named() {
            let (id, algorithm) = (key.key_id(), key.algorithm());
            if id.len() > usize::from(u16::MAX)
                || algorithm.is_empty()
                || algorithm.len() > usize::from(u8::MAX)
            {
                return Err(Error::invalid_argument(format!(
                    "the key id of {} bytes or the algorithm of {} bytes does not fit a header",
                    id.len(),
                    algorithm.len()
                )));
            }
        }
        Ok(())
    }
}

fn is_same(a: &Arc<dyn KeyWrap>, b: &Arc<dyn KeyWrap>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

/// Shows the ids only, because a caller's `KeyWrap` may show key material in its own `Debug`.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("active", &self.active.key_id())
            .field("others", &self.others.keys().collect::<Vec<_>>())
            .field("resolver", &self.resolver.is_some())
            .finish()
    }
}
