use std::fmt;

use table_core::Result;
use zeroize::Zeroizing;

use super::chunk::ChunkCipher;

/// Encrypts one blob piece by piece.
pub struct BlobSealer {
    preamble: Vec<u8>,
    cipher: ChunkCipher,
    chunk: usize,
    /// Plaintext that waits for a full chunk or for the end, because the last chunk is marked.
    waiting: Zeroizing<Vec<u8>>,
}

impl BlobSealer {
    pub(super) fn new(preamble: Vec<u8>, cipher: ChunkCipher, chunk: u32) -> Self {
        Self { preamble, cipher, chunk: chunk as usize, waiting: Zeroizing::default() }
    }

    /// Takes a piece of any length and returns the part of the blob that is ready; it may be empty.
    ///
    /// # Errors
    /// Fails if the blob has more than 2³² − 1 chunks.
    pub fn push(&mut self, mut plaintext: &[u8]) -> Result<Vec<u8>> {
        let mut out = std::mem::take(&mut self.preamble);
        // `>` and not `>=`: a full chunk waits until more bytes show that it is not the last.
        while self.waiting.len() + plaintext.len() > self.chunk {
            let (now, later) = plaintext.split_at(self.chunk - self.waiting.len());
            self.waiting.extend_from_slice(now);
            self.cipher.seal(&self.waiting, false, &mut out)?;
            self.waiting.clear();
            plaintext = later;
        }
        self.waiting.extend_from_slice(plaintext);
        Ok(out)
    }

    /// Returns the rest of the blob.
    ///
    /// # Errors
    /// Fails like [`push`](Self::push).
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let mut out = std::mem::take(&mut self.preamble);
        self.cipher.seal(&self.waiting, true, &mut out)?;
        Ok(out)
    }
}

impl fmt::Debug for BlobSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobSealer").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
