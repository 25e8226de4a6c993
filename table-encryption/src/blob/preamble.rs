use crate::data_key::Wrapping;
use crate::v2::{Reader, push_wrapping, read_wrapping};

const MAGIC: &[u8; 4] = b"TEB2";
const SUITE: u8 = 1;

/// Bytes of plaintext per chunk when writing.
pub(super) const CHUNK: u32 = 64 * 1024;
/// Maximum bytes of plaintext per chunk when reading.
const MAX_CHUNK: u32 = 1 << 24;

/// The start of a blob.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Preamble {
    pub(super) wrapping: Wrapping,
    pub(super) salt: [u8; 32],
    pub(super) commitment: [u8; 32],
    pub(super) chunk: u32,
}

/// Maximum length of a preamble: magic, suite, three length-prefixed texts, salt, commitment, chunk size.
pub(super) const LONGEST: usize = 4 + 1 + (1 + 0xff) + 2 * (2 + 0xffff) + 32 + 32 + 4;

impl Preamble {
    /// Parses a preamble and returns its length too; `None` if the bytes are incomplete or not a preamble.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut from = Reader(bytes);
        if from.take(4)? != MAGIC || from.u8()? != SUITE {
            return None;
        }
        let wrapping = read_wrapping(&mut from)?;
        let (salt, commitment) = (from.array()?, from.array()?);
        // Bounded before it is authenticated, because the reader keeps a whole chunk in memory.
        let chunk = from.u32().filter(|chunk| (1..=MAX_CHUNK).contains(chunk))?;
        Some((Self { wrapping, salt, commitment, chunk }, bytes.len() - from.0.len()))
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(SUITE);
        push_wrapping(&mut out, &self.wrapping);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.commitment);
        out.extend_from_slice(&self.chunk.to_be_bytes());
        out
    }
}
