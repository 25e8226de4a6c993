//! Values outside the table, encrypted as streams: see "Blob" in `docs/encryption-format.md`.

mod chunk;
#[cfg(feature = "patterns")]
mod codec;
mod open;
mod preamble;
mod seal;
mod stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use open::BlobOpener;
pub use seal::BlobSealer;
use table_core::Result;
use table_core::model::{Key, TableName};

use crate::Keys;
use crate::data_key::{CacheBounds, DataKeyBounds, DataKeys, Secret};
use crate::key::fill_random;
use crate::v2::Scope;
use chunk::ChunkCipher;
use preamble::{CHUNK, Preamble};

/// The place that a blob is bound to. It can be decrypted with the same place only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobPlace {
    /// The entity's table.
    pub table: TableName,
    /// The entity's key.
    pub key: Key,
    /// The name of the value: the blob's name or a property.
    pub name: String,
}

/// Encrypts and decrypts blobs with the data keys of an [`EncryptedStore`](crate::EncryptedStore), or with
/// its own data keys.
///
/// Memory use: one chunk of 64 KiB. Size increase: a header of about 200 bytes (400 with RSA), and 16 bytes
/// per chunk.
///
/// ```
/// use std::sync::Arc;
/// use table_core::model::{Key, TableName};
/// use table_encryption::{AesKeyWrap, BlobCipher, BlobPlace, KeyBytes, Keys};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> table_core::Result<()> {
/// let cipher = BlobCipher::with_keys(Keys::new(Arc::new(AesKeyWrap::new("kek", &KeyBytes::random(32)?)?)))?;
/// let key = Key::new("p", "r")?;
/// let place = BlobPlace { table: TableName::new("Documents")?, key, name: "Body".into() };
///
/// let mut sealer = cipher.sealer(&place).await?;
/// let mut sealed = sealer.push(b"some text")?;
/// sealed.extend(sealer.finish()?);
///
/// let mut opener = cipher.opener(&place);
/// let mut text = opener.push(&sealed).await?;
/// text.extend(opener.finish().await?);
/// assert_eq!(text, b"some text");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct BlobCipher {
    keys: Arc<DataKeys>,
    case_sensitive: bool,
}

impl BlobCipher {
    pub(crate) const fn new(keys: Arc<DataKeys>, case_sensitive: bool) -> Self {
        Self { keys, case_sensitive }
    }

    /// Creates a cipher with its own data keys, for a service that ignores the case of table names.
    ///
    /// # Errors
    /// Fails if two keys have the same id, or if a key id or algorithm does not fit a preamble.
    pub fn with_keys(keys: Keys) -> Result<Self> {
        keys.check()?;
        let keys = DataKeys::new(keys, DataKeyBounds::default(), CacheBounds::default());
        Ok(Self::new(Arc::new(keys), false))
    }

    /// Starts encrypting a blob.
    ///
    /// # Errors
    /// Fails if a new data key is needed and cannot be wrapped.
    pub async fn sealer(&self, place: &BlobPlace) -> Result<BlobSealer> {
        let data_key = self.keys.for_write().await?;
        let mut salt = [0; 32];
        fill_random(&mut salt)?;
        let (cipher, commitment) = self.chunks(place, &data_key.secret, &salt, CHUNK);
        let preamble = Preamble { wrapping: data_key.wrapping.clone(), salt, commitment, chunk: CHUNK };
        Ok(BlobSealer::new(preamble.to_bytes(), cipher, CHUNK))
    }

    /// Starts decrypting a blob.
    pub fn opener(&self, place: &BlobPlace) -> BlobOpener {
        BlobOpener::new(self.clone(), place.clone())
    }

    fn chunks(
        &self,
        place: &BlobPlace,
        secret: &Secret,
        salt: &[u8; 32],
        chunk: u32,
    ) -> (ChunkCipher, [u8; 32]) {
        let table = if self.case_sensitive { place.table.to_string() } else { place.table.to_lowercase() };
        ChunkCipher::derive(secret, salt, Scope::of_blob(&table, &place.key, &place.name, chunk))
    }
}
