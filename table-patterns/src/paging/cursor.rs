//! Cursors: their content, and how it is sealed.

use std::fmt;

use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Key as GcmKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use table_core::model::Ticks;
use table_core::store::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

/// The first byte of every cursor.
const FORMAT: u8 = 1;
// A sealed cursor is the format, the id of the key, the nonce, the encrypted content and the tag, in base64.
const KEY_ID_BYTES: usize = 4;
const NONCE_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// The size of the longest text that is read as a cursor.
const MAX_CURSOR_BYTES: usize = 32 * 1024;
/// The largest number of page starts that a cursor keeps.
const MAX_STARTS: usize = 16;
/// A cursor keeps this number of the latest starts, so that as many steps back cost one page each.
const LATEST_STARTS: usize = 8;

/// A key that seals cursors: 32 secret bytes, the same in every process that reads the cursors.
///
/// A key must not seal more than 4 billion cursors (2³²), because each has a random nonce of 96 bits
/// ([NIST SP 800-38D](https://doi.org/10.6028/NIST.SP.800-38D), 8.3): change it once a year, or earlier.
#[derive(Clone)]
pub struct CursorKey {
    secret: Zeroizing<[u8; 32]>,
    id: [u8; KEY_ID_BYTES],
}

impl CursorKey {
    /// Makes a key of secret bytes, for example from the configuration. The bytes must be random: not a password.
    pub fn new(secret: [u8; 32]) -> Self {
        let hash = Sha256::new()
            .chain_update(b"table-patterns cursor key\n")
            .chain_update(secret)
            .finalize();
        let id = hash.first_chunk().copied().unwrap_or_default();
        Self {
            secret: Zeroizing::new(secret),
            id,
        }
    }

    /// Makes a random key. Cursors end with the process, unless it stores the bytes itself.
    ///
    /// # Errors
    /// The operating system has no random bytes.
    pub fn random() -> Result<Self> {
        let mut secret = Zeroizing::new([0; 32]);
        random(&mut *secret)?;
        Ok(Self::new(*secret))
    }

    fn cipher(&self) -> Aes256Gcm {
        let key: &GcmKey<Aes256Gcm> = (&*self.secret).into();
        Aes256Gcm::new(key)
    }

    /// Encrypts the content of a cursor.
    pub(super) fn seal(&self, content: &Content) -> Result<String> {
        let mut sealed = vec![FORMAT];
        sealed.extend_from_slice(&self.id);
        let mut nonce = [0; NONCE_BYTES];
        random(&mut nonce)?;
        sealed.extend_from_slice(&nonce);
        let start = sealed.len();
        let text = serde_json::to_vec(content);
        sealed.extend(text.map_err(|error| {
            Error::invalid_argument(format!(
                "the content of a cursor cannot be encoded as JSON: {error}"
            ))
        })?);
        let (header, body) = sealed.split_at_mut(start);
        // The header is authenticated too, so that format, key id and nonce cannot be exchanged.
        let tag = self
            .cipher()
            .encrypt_inout_detached(&nonce.into(), header, body.into());
        let tag =
            tag.map_err(|_| Error::invalid_argument("the cursor is too long to be encrypted"))?;
        sealed.extend_from_slice(&tag);
        Ok(URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Opens a cursor that one of these keys has sealed.
    pub(super) fn open(keys: &[Self], text: &str) -> Result<Content, CursorError> {
        // Before anything is decoded: the text comes from a client.
        if text.len() > MAX_CURSOR_BYTES {
            return Err(CursorError::Malformed);
        }
        let sealed = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| CursorError::Malformed)?;
        let (header, rest) = sealed
            .split_at_checked(1 + KEY_ID_BYTES + NONCE_BYTES)
            .ok_or(CursorError::Malformed)?;
        let (body, tag) = rest
            .split_last_chunk::<TAG_BYTES>()
            .ok_or(CursorError::Malformed)?;
        let (format, id, nonce) = (
            header[0],
            &header[1..=KEY_ID_BYTES],
            &header[1 + KEY_ID_BYTES..],
        );
        if format != FORMAT {
            return Err(CursorError::Malformed);
        }
        // The id only selects the key. The tag shows whether a program with this key has sealed the cursor.
        let key = keys
            .iter()
            .find(|key| key.id == id)
            .ok_or(CursorError::UnknownKey)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().map_err(|_| CursorError::Malformed)?;
        let mut body = Zeroizing::new(body.to_vec());
        let opened = key.cipher().decrypt_inout_detached(
            &nonce.into(),
            header,
            body.as_mut_slice().into(),
            tag.into(),
        );
        opened.map_err(|_| CursorError::Changed)?;
        serde_json::from_slice(&body).map_err(|_| CursorError::Changed)
    }
}

/// Shows the public id of the key only.
impl fmt::Debug for CursorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = u32::from_be_bytes(self.id);
        f.debug_struct("CursorKey")
            .field("id", &format_args!("{id:08x}"))
            .finish_non_exhaustive()
    }
}

fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| {
        ErrorKind::Encryption(format!("the operating system has no random bytes: {error}")).into()
    })
}

/// Why a cursor was refused. The text contains nothing of the cursor: it can be sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorError {
    /// The text is not a cursor, or a cursor of another format.
    Malformed,
    /// A key that this program does not have has sealed the cursor.
    UnknownKey,
    /// The cursor was changed after it was sealed.
    Changed,
    /// The cursor is older than the pager allows.
    Expired,
    /// The cursor was given to another user.
    OfAnotherUser,
    /// The cursor belongs to another query.
    OfAnotherQuery,
}

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the text is not a cursor: pass a cursor exactly as the page had it",
            Self::UnknownKey => {
                "the cursor was sealed with a key that is not in use any more: start at the first page"
            }
            Self::Changed => "the cursor was changed: pass it exactly as the page had it",
            Self::Expired => "the cursor has expired: start at the first page",
            Self::OfAnotherUser => "the cursor was given to another user: start at the first page",
            Self::OfAnotherQuery => {
                "the cursor belongs to another query: use it with the same query, or start at the first page"
            }
        })
    }
}

impl std::error::Error for CursorError {}

/// The content of a cursor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Content {
    /// The hash of the query.
    #[serde(rename = "q")]
    pub(super) query: String,
    /// The hash of the user.
    #[serde(rename = "u")]
    pub(super) user: String,
    /// The time at which the cursor expires, in ticks.
    #[serde(rename = "e")]
    pub(super) expires: i64,
    /// The number of the page that the cursor leads to, from 1.
    #[serde(rename = "n")]
    pub(super) number: u32,
    /// The numbers of pages and the continuation tokens at which they start. Page 1 needs no token.
    #[serde(rename = "s")]
    pub(super) starts: Vec<(u32, String)>,
}

impl Content {
    /// Checks the user, the query and the expiry of a cursor.
    pub(super) fn check(&self, now: Ticks, user: &str, query: &str) -> Result<(), CursorError> {
        if self.user != user {
            return Err(CursorError::OfAnotherUser);
        }
        if self.query != query {
            return Err(CursorError::OfAnotherQuery);
        }
        if self.expires <= now.get() {
            return Err(CursorError::Expired);
        }
        Ok(())
    }

    /// Returns the last known start that is not after the page: the number of its page, and the token (`None` for page 1).
    pub(super) fn nearest_start(&self) -> (u32, Option<&str>) {
        let known = self
            .starts
            .iter()
            .filter(|(number, _)| *number <= self.number);
        known
            .max_by_key(|(number, _)| *number)
            .map_or((1, None), |(number, start)| (*number, Some(&**start)))
    }

    /// Adds the start of a page. Beyond [`MAX_STARTS`], removes the start whose absence costs the fewest requests: the latest starts
    /// stay, and the gaps between earlier starts grow with their distance from the newest.
    pub(super) fn add_start(&mut self, number: u32, start: String) {
        self.starts.retain(|(known, _)| *known != number);
        self.starts.push((number, start));
        self.starts.sort_by_key(|(number, _)| *number);
        while self.starts.len() > MAX_STARTS {
            let number = |index: usize| u64::from(self.starts[index].0);
            let last = number(self.starts.len() - 1);
            // The gap that the removal leaves, relative to the distance from the newest start: far back, gaps
            // may be larger.
            let cost = |index: usize| {
                let before = index.checked_sub(1).map_or(1, number);
                (number(index + 1) - before) * 1000 / (last - number(index)).max(1)
            };
            let Some(least) =
                (0..self.starts.len() - LATEST_STARTS).min_by_key(|index| cost(*index))
            else {
                return;
            };
            self.starts.remove(least);
        }
    }
}

/// The hash of a text that a cursor is bound to.
pub(super) fn hash(domain: &str, text: &str) -> String {
    let hash = Sha256::new()
        .chain_update(domain)
        .chain_update("\n")
        .chain_update(text)
        .finalize();
    // Half of the hash: it is authenticated, and only distinguishes queries and users.
    URL_SAFE_NO_PAD.encode(&hash[..16])
}
