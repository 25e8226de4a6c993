use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Key};
use table_core::store::{Error, Result};
use zeroize::Zeroizing;

use crate::data_key::Secret;
use crate::v2::{Scope, expand};

/// Bytes of a chunk's authentication tag.
pub(super) const TAG: usize = 16;

/// Encrypts or decrypts the chunks of one blob in order.
pub(super) struct ChunkCipher {
    cipher: Aes256Gcm,
    scope: Scope,
    next: u32,
}

impl ChunkCipher {
    /// Derives the cipher of a blob and its key commitment.
    pub(super) fn derive(secret: &Secret, salt: &[u8; 32], scope: Scope) -> (Self, [u8; 32]) {
        let mut okm = Zeroizing::new([0; 64]);
        expand(secret, salt, &scope, &mut *okm);
        let (commitment, key) = okm.split_first_chunk().expect("64 bytes");
        let key: &Key<Aes256Gcm> = key.try_into().expect("32 bytes");
        (Self { cipher: Aes256Gcm::new(key), scope, next: 0 }, *commitment)
    }

    /// Encrypts a chunk and appends it to `out`.
    pub(super) fn seal(&mut self, plaintext: &[u8], last: bool, out: &mut Vec<u8>) -> Result<()> {
        // The associated data is the blob's scope: a chunk of another blob, table, entity or property does not open here.
        let nonce = self.nonce(last)?;
        let start = out.len();
        out.extend_from_slice(plaintext);
        let body = &mut out[start..];
        let tag = self.cipher.encrypt_inout_detached(&nonce.into(), self.scope.as_bytes(), body.into());
        out.extend_from_slice(&tag.expect("a chunk is far below the cipher's limit"));
        Ok(())
    }

    /// Decrypts a chunk and appends it to `out`. Returns whether the chunk was authentic.
    pub(super) fn open(&mut self, sealed: &[u8], last: bool, out: &mut Vec<u8>) -> bool {
        let Some((body, tag)) = sealed.split_last_chunk::<TAG>() else { return false };
        let Ok(nonce) = self.nonce(last) else { return false };
        let mut body = body.to_vec();
        let (aad, buffer) = (self.scope.as_bytes(), body.as_mut_slice().into());
        let sound = self.cipher.decrypt_inout_detached(&nonce.into(), aad, buffer, tag.into()).is_ok();
        // Plaintext leaves this function only after its tag was verified.
        if sound {
            out.extend_from_slice(&body);
        }
        sound
    }

    /// Whether no chunk was processed yet.
    pub(super) const fn is_at_start(&self) -> bool {
        self.next == 0
    }

    /// Returns the next nonce: the chunk's number, and whether the chunk is the last. No nonce is used twice.
    fn nonce(&mut self, last: bool) -> Result<[u8; 12]> {
        let mut nonce = [0; 12];
        // The number prevents that chunks change places, the flag that a blob is cut after a chunk: the STREAM construction
        // (<https://eprint.iacr.org/2015/189>).
        nonce[7..11].copy_from_slice(&self.next.to_be_bytes());
        nonce[11] = u8::from(last);
        let chunks = u32::MAX as usize;
        self.next =
            self.next.checked_add(1).ok_or_else(|| Error::limit("chunks of a blob", chunks, chunks + 1))?;
        Ok(nonce)
    }
}
