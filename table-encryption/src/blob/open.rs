use std::fmt;

use table_core::Result;

use super::chunk::{ChunkCipher, TAG};
use super::preamble::{LONGEST, Preamble};
use super::{BlobCipher, BlobPlace};
use crate::error::Unreadable;
use crate::v2::matches;

/// Decrypts one blob piece by piece. Returned plaintext is authenticated; the blob is known to be complete
/// when [`finish`](Self::finish) succeeds.
pub struct BlobOpener {
    blobs: BlobCipher,
    place: BlobPlace,
    state: State,
    waiting: Vec<u8>,
}

enum State {
    Preamble,
    Chunks { cipher: Box<ChunkCipher>, sealed: usize },
    Failed,
}

impl BlobOpener {
    pub(super) const fn new(blobs: BlobCipher, place: BlobPlace) -> Self {
        Self { blobs, place, state: State::Preamble, waiting: Vec::new() }
    }

    /// Takes a piece of any length and returns the plaintext that is ready; it may be empty.
    ///
    /// # Errors
    /// Fails if the blob was changed, if its key is not available, or if the key service cannot be used. The
    /// opener cannot be used afterwards.
    pub async fn push(&mut self, sealed: &[u8]) -> Result<Vec<u8>> {
        self.waiting.extend_from_slice(sealed);
        let opened = self.advance().await;
        self.or_failed(opened)
    }

    /// Returns the rest of the plaintext.
    ///
    /// # Errors
    /// Fails like [`push`](Self::push), and if the blob is incomplete.
    pub async fn finish(mut self) -> Result<Vec<u8>> {
        let opened = self.last().await;
        self.or_failed(opened)
    }

    fn or_failed(&mut self, opened: Result<Vec<u8>, Unreadable>) -> Result<Vec<u8>> {
        opened.map_err(|e| {
            self.state = State::Failed;
            e.of_blob(&self.place.name)
        })
    }

    async fn advance(&mut self) -> Result<Vec<u8>, Unreadable> {
        if matches!(self.state, State::Preamble) {
            self.start().await?;
        }
        let mut out = Vec::new();
        match &mut self.state {
            State::Failed => return Err(Unreadable::Refused),
            State::Preamble => {}
            State::Chunks { cipher, sealed } => {
                let mut taken = 0;
                // A chunk that ends here may be the last chunk.
                while self.waiting.len() - taken > *sealed {
                    if !cipher.open(&self.waiting[taken..taken + *sealed], false, &mut out) {
                        return Err(Unreadable::Refused);
                    }
                    taken += *sealed;
                }
                self.waiting.drain(..taken);
            }
        }
        Ok(out)
    }

    /// Parses the preamble, once it is complete.
    async fn start(&mut self) -> Result<(), Unreadable> {
        let Some((preamble, len)) = Preamble::parse(&self.waiting) else {
            // Incomplete and malformed look the same. The longest preamble bounds the bytes that wait for more.
            return if self.waiting.len() < LONGEST { Ok(()) } else { Err(Unreadable::Refused) };
        };
        let secret = self.blobs.keys.open(&preamble.wrapping).await?;
        let (cipher, commitment) = self.blobs.chunks(&self.place, &secret, &preamble.salt, preamble.chunk);
        // Before the first chunk: GCM accepts a ciphertext that was made for two keys, so two readers could see two contents.
        if !matches(&commitment, &preamble.commitment) {
            return Err(Unreadable::Refused);
        }
        self.waiting.drain(..len);
        self.state = State::Chunks { cipher: Box::new(cipher), sealed: preamble.chunk as usize + TAG };
        Ok(())
    }

    async fn last(&mut self) -> Result<Vec<u8>, Unreadable> {
        let mut out = self.advance().await?;
        // `advance` leaves at least one byte of the last chunk, which must open with the flag of the last. A blob that was cut after a
        // chunk ends with a chunk without the flag and is refused.
        let State::Chunks { cipher, .. } = &mut self.state else { return Err(Unreadable::Refused) };
        // An empty last chunk is allowed only as the only chunk. Otherwise a blob could end in two ways.
        let empty = self.waiting.len() == TAG;
        if empty && !cipher.is_at_start() || !cipher.open(&self.waiting, true, &mut out) {
            return Err(Unreadable::Refused);
        }
        Ok(out)
    }
}

impl fmt::Debug for BlobOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobOpener").field("place", &self.place).finish_non_exhaustive()
    }
}
