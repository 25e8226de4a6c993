//! Values outside the table, encrypted as streams: see "Blob" in `docs/encryption-format.md`.

#[cfg(feature = "patterns")]
mod codec;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt as _, stream};
use table_core::model::{Key, TableName};
use table_core::store::{Error, Result};
use zeroize::Zeroizing;

use crate::Keys;
use crate::data_key::{CacheBounds, DataKeyBounds, DataKeys, Secret, Wrapping};
use crate::error::Unreadable;
use crate::key::fill_random;
use crate::v2::{Reader, Scope, expand, matches, push_wrapping, read_wrapping};

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
/// Memory use: one chunk, which has 64 KiB; a reader accepts chunks of other writers up to 16 MiB. Size increase: a header of about 200 bytes (400 with RSA), and 16 bytes
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
        Self {
            keys,
            case_sensitive,
        }
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
        let (cipher, commitment) = self.chunks(place, &data_key.secret, &salt, CHUNK_BYTES);
        let preamble = Preamble {
            wrapping: data_key.wrapping.clone(),
            salt,
            commitment,
            chunk: CHUNK_BYTES,
        };
        Ok(BlobSealer::new(preamble.to_bytes(), cipher, CHUNK_BYTES))
    }

    /// Starts decrypting a blob.
    pub fn opener(&self, place: &BlobPlace) -> BlobOpener {
        BlobOpener::new(self.clone(), place.clone())
    }

    /// The cipher of the chunks of a blob at this place, and its key commitment.
    fn chunks(
        &self,
        place: &BlobPlace,
        secret: &Secret,
        salt: &[u8; 32],
        chunk: u32,
    ) -> (ChunkCipher, [u8; 32]) {
        let table = if self.case_sensitive {
            place.table.to_string()
        } else {
            place.table.to_lowercase()
        };
        ChunkCipher::derive(
            secret,
            salt,
            Scope::of_blob(&table, &place.key, &place.name, chunk),
        )
    }
}

const MAGIC: &[u8; 4] = b"TEB2";
/// AES-256-GCM in chunks, HKDF-SHA-256. A blob has a number of its own: its cipher may change without the header of entities, whose
/// suite is in `v2`.
const SUITE: u8 = 1;

/// Bytes of plaintext per chunk when writing.
const CHUNK_BYTES: u32 = 64 * 1024;
/// Maximum bytes of plaintext per chunk when reading.
const MAX_CHUNK_BYTES: u32 = 1 << 24;

/// The start of a blob.
#[derive(Clone, Debug, PartialEq)]
struct Preamble {
    wrapping: Wrapping,
    salt: [u8; 32],
    commitment: [u8; 32],
    chunk: u32,
}

/// Maximum length of a preamble: magic, suite, three length-prefixed texts, salt, commitment, chunk size.
const MAX_PREAMBLE_BYTES: usize = 4 + 1 + (1 + 0xff) + 2 * (2 + 0xffff) + 32 + 32 + 4;

impl Preamble {
    /// Parses a preamble and returns its length too; `None` if the bytes are incomplete or not a preamble.
    fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut from = Reader(bytes);
        if from.take(4)? != MAGIC || from.u8()? != SUITE {
            return None;
        }
        let wrapping = read_wrapping(&mut from)?;
        let (salt, commitment) = (from.array()?, from.array()?);
        // Bounded before it is authenticated, because the reader keeps a whole chunk in memory.
        let chunk = from
            .u32()
            .filter(|chunk| (1..=MAX_CHUNK_BYTES).contains(chunk))?;
        Some((
            Self {
                wrapping,
                salt,
                commitment,
                chunk,
            },
            bytes.len() - from.0.len(),
        ))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(SUITE);
        push_wrapping(&mut out, &self.wrapping);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.commitment);
        out.extend_from_slice(&self.chunk.to_be_bytes());
        out
    }
}

/// Bytes of a chunk's authentication tag.
const TAG_BYTES: usize = 16;

/// Encrypts or decrypts the chunks of one blob in order.
struct ChunkCipher {
    cipher: Aes256Gcm,
    scope: Scope,
    /// The number of the next chunk, from 0.
    next: u32,
}

impl ChunkCipher {
    /// Derives the cipher of a blob and its key commitment.
    fn derive(secret: &Secret, salt: &[u8; 32], scope: Scope) -> (Self, [u8; 32]) {
        let mut okm = Zeroizing::new([0; 64]);
        expand(secret, salt, &scope, &mut *okm);
        let (commitment, key) = okm.split_first_chunk().expect("64 bytes");
        let key: &aes_gcm::Key<Aes256Gcm> = key.try_into().expect("32 bytes");
        (
            Self {
                cipher: Aes256Gcm::new(key),
                scope,
                next: 0,
            },
            *commitment,
        )
    }

    /// Encrypts a chunk and appends it to `out`.
    fn seal(&mut self, plaintext: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<()> {
        // The associated data is the blob's scope: a chunk of another blob, table, entity or property does not open here.
        let nonce = self.nonce(is_last)?;
        let start = out.len();
        out.extend_from_slice(plaintext);
        let body = &mut out[start..];
        let tag =
            self.cipher
                .encrypt_inout_detached(&nonce.into(), self.scope.as_bytes(), body.into());
        out.extend_from_slice(&tag.expect("a chunk is far below the cipher's limit"));
        Ok(())
    }

    /// Decrypts a chunk and appends it to `out`. Returns whether the chunk was authentic.
    fn open(&mut self, sealed: &[u8], is_last: bool, out: &mut Vec<u8>) -> bool {
        let Some((body, tag)) = sealed.split_last_chunk::<TAG_BYTES>() else {
            return false;
        };
        let Ok(nonce) = self.nonce(is_last) else {
            return false;
        };
        let mut body = body.to_vec();
        let (aad, buffer) = (self.scope.as_bytes(), body.as_mut_slice().into());
        let is_authentic = self
            .cipher
            .decrypt_inout_detached(&nonce.into(), aad, buffer, tag.into())
            .is_ok();
        // Plaintext leaves this function only after its tag was verified.
        if is_authentic {
            out.extend_from_slice(&body);
        }
        is_authentic
    }

    /// Whether no chunk was processed yet.
    const fn is_at_start(&self) -> bool {
        self.next == 0
    }

    /// Returns the next nonce: the chunk's number, and whether the chunk is the last. No nonce is used twice.
    fn nonce(&mut self, is_last: bool) -> Result<[u8; 12]> {
        let mut nonce = [0; 12];
        // The number prevents that chunks change places, the flag that a blob is cut after a chunk: the STREAM construction
        // (<https://eprint.iacr.org/2015/189>).
        nonce[7..11].copy_from_slice(&self.next.to_be_bytes());
        nonce[11] = u8::from(is_last);
        let chunks = u32::MAX as usize;
        self.next = self
            .next
            .checked_add(1)
            .ok_or_else(|| Error::limit("chunks of a blob", chunks, chunks + 1))?;
        Ok(nonce)
    }
}

/// Encrypts one blob piece by piece.
pub struct BlobSealer {
    preamble: Vec<u8>,
    cipher: ChunkCipher,
    chunk: usize,
    /// Plaintext that waits for a full chunk or for the end, because the last chunk is marked.
    waiting: Zeroizing<Vec<u8>>,
}

impl BlobSealer {
    fn new(preamble: Vec<u8>, cipher: ChunkCipher, chunk: u32) -> Self {
        Self {
            preamble,
            cipher,
            chunk: chunk as usize,
            waiting: Zeroizing::default(),
        }
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
        f.debug_struct("BlobSealer")
            .field("waiting", &self.waiting.len())
            .finish_non_exhaustive()
    }
}

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
    Chunks {
        cipher: Box<ChunkCipher>,
        sealed: usize,
    },
    Failed,
}

impl BlobOpener {
    const fn new(blobs: BlobCipher, place: BlobPlace) -> Self {
        Self {
            blobs,
            place,
            state: State::Preamble,
            waiting: Vec::new(),
        }
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
        let opened = self.open_last_chunk().await;
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
            self.parse_preamble().await?;
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
    async fn parse_preamble(&mut self) -> Result<(), Unreadable> {
        let Some((preamble, len)) = Preamble::parse(&self.waiting) else {
            // Incomplete and malformed look the same. The longest preamble bounds the bytes that wait for more.
            return if self.waiting.len() < MAX_PREAMBLE_BYTES {
                Ok(())
            } else {
                Err(Unreadable::Refused)
            };
        };
        let secret = self.blobs.keys.open(&preamble.wrapping).await?;
        let (cipher, commitment) =
            self.blobs
                .chunks(&self.place, &secret, &preamble.salt, preamble.chunk);
        // Before the first chunk: GCM accepts a ciphertext that was made for two keys, so two readers could see two contents.
        if !matches(&commitment, &preamble.commitment) {
            return Err(Unreadable::Refused);
        }
        self.waiting.drain(..len);
        self.state = State::Chunks {
            cipher: Box::new(cipher),
            sealed: preamble.chunk as usize + TAG_BYTES,
        };
        Ok(())
    }

    async fn open_last_chunk(&mut self) -> Result<Vec<u8>, Unreadable> {
        let mut out = self.advance().await?;
        // `advance` leaves at least one byte of the last chunk, which must open with the flag of the last. A blob that was cut after a
        // chunk ends with a chunk without the flag and is refused.
        let State::Chunks { cipher, .. } = &mut self.state else {
            return Err(Unreadable::Refused);
        };
        // An empty last chunk is allowed only as the only chunk. Otherwise a blob could end in two ways.
        let empty = self.waiting.len() == TAG_BYTES;
        if empty && !cipher.is_at_start() || !cipher.open(&self.waiting, true, &mut out) {
            return Err(Unreadable::Refused);
        }
        Ok(out)
    }
}

impl fmt::Debug for BlobOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobOpener")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl BlobCipher {
    /// Encrypts a stream into a blob while it is polled. An error of the input stream ends the output.
    pub fn seal_stream<P>(
        &self,
        place: BlobPlace,
        plaintext: P,
    ) -> impl Stream<Item = Result<Bytes>> + Send + use<P>
    where
        P: Stream<Item = Result<Bytes>> + Send + Unpin,
    {
        // The sealer is made by the first poll, because it may ask the key service: a stream without a reader sends no request.
        let start = Sealing {
            plaintext,
            cipher: self.clone(),
            place,
            sealer: None,
        };
        without_empty(stream::try_unfold(Some(start), async |state| match state {
            None => Ok(None),
            Some(state) => state.step().await.map(Some),
        }))
    }

    /// Decrypts a blob while it is polled. **The plaintext is complete only if the stream ends without an
    /// error.**
    pub fn open_stream<P>(
        &self,
        place: &BlobPlace,
        sealed: P,
    ) -> impl Stream<Item = Result<Bytes>> + Send + use<P>
    where
        P: Stream<Item = Result<Bytes>> + Send + Unpin,
    {
        let start = Opening {
            sealed,
            opener: self.opener(place),
        };
        without_empty(stream::try_unfold(Some(start), async |state| match state {
            None => Ok(None),
            Some(state) => state.step().await.map(Some),
        }))
    }
}

struct Sealing<P> {
    plaintext: P,
    cipher: BlobCipher,
    place: BlobPlace,
    sealer: Option<BlobSealer>,
}

impl<P: Stream<Item = Result<Bytes>> + Unpin> Sealing<P> {
    async fn step(mut self) -> Result<(Vec<u8>, Option<Self>)> {
        let mut sealer = match self.sealer.take() {
            Some(sealer) => sealer,
            None => self.cipher.sealer(&self.place).await?,
        };
        let Some(piece) = self.plaintext.next().await.transpose()? else {
            return Ok((sealer.finish()?, None));
        };
        let sealed = sealer.push(&piece)?;
        self.sealer = Some(sealer);
        Ok((sealed, Some(self)))
    }
}

struct Opening<P> {
    sealed: P,
    opener: BlobOpener,
}

impl<P: Stream<Item = Result<Bytes>> + Unpin> Opening<P> {
    async fn step(mut self) -> Result<(Vec<u8>, Option<Self>)> {
        match self.sealed.next().await.transpose()? {
            None => Ok((self.opener.finish().await?, None)),
            Some(piece) => Ok((self.opener.push(&piece).await?, Some(self))),
        }
    }
}

fn without_empty(
    pieces: impl Stream<Item = Result<Vec<u8>>> + Send,
) -> impl Stream<Item = Result<Bytes>> + Send {
    pieces.filter_map(async |piece| match piece {
        Ok(bytes) if bytes.is_empty() => None,
        other => Some(other.map(Bytes::from)),
    })
}
