use std::fmt;

use aes_kw::{IV_LEN, KeyInit as _, KwAes128, KwAes192, KwAes256};
use async_trait::async_trait;
use table_core::store::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

use super::{KeyBytes, KeyWrap};

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
            Error::invalid_request(format!(
                "an AES key must have 16, 24 or 32 bytes; this key has {}",
                bytes.len()
            ))
        };
        Ok(Self { key_id: key_id.into(), cipher: cipher.map_err(wrong)? })
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
        let refused = || Error::invalid_request("AES key wrap needs a key with a multiple of 8 bytes");
        wrapped.then_some(out).ok_or_else(refused)
    }

    async fn unwrap_key(&self, wrapped: &[u8]) -> Result<KeyBytes> {
        // RFC 3394 wraps at least two blocks of 8 bytes.
        let len = wrapped.len().checked_sub(IV_LEN).filter(|len| *len >= 16).ok_or_else(refused)?;
        let mut out = Zeroizing::new(vec![0; len]);
        let unwrapped = match &self.cipher {
            Cipher::Aes128(c) => c.unwrap_key(wrapped, &mut out).is_ok(),
            Cipher::Aes192(c) => c.unwrap_key(wrapped, &mut out).is_ok(),
            Cipher::Aes256(c) => c.unwrap_key(wrapped, &mut out).is_ok(),
        };
        unwrapped.then(|| KeyBytes::from(std::mem::take(&mut *out))).ok_or_else(refused)
    }
}

pub(super) fn refused() -> Error {
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
