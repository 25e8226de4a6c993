//! The served accounts and their keys.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use uuid::Uuid;

/// The name of the emulator's well-known account.
/// <https://learn.microsoft.com/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key>
pub const EMULATOR_ACCOUNT: &str = "devstoreaccount1";
/// The key of the emulator's well-known account. It is published, so a server accepts it on loopback
/// addresses only.
pub const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// An account: its name and the keys that its clients sign with. `Debug` does not print keys.
///
/// ```
/// use table_server::Account;
/// let account = Account::new("orders", "c2VjcmV0")?;
/// assert_eq!(format!("{account:?}"), "Account(orders)");
/// assert!(Account::new("Orders!", "c2VjcmV0").is_err());
/// # Ok::<(), table_server::InvalidAccount>(())
/// ```
#[derive(Clone)]
pub struct Account {
    name: String,
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    base64: String,
    mac: Hmac<Sha256>,
}

/// Why an account is invalid. The text contains no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAccount {
    /// The name is invalid.
    #[error("{0:?} is not a valid account name; use 3 to 24 lower-case ASCII letters and digits")]
    Name(String),
    /// A key is invalid.
    #[error("a key of the account {0:?} is empty or not base64")]
    Key(String),
}

impl Account {
    /// Creates an account with a key in base64.
    ///
    /// # Errors
    /// Fails if the name is not 3 to 24 lower-case letters and digits, or if the key is empty or not base64.
    pub fn new(name: impl Into<String>, key: &str) -> Result<Self, InvalidAccount> {
        let name = name.into();
        // <https://learn.microsoft.com/azure/storage/common/storage-account-overview#storage-account-name>
        let legal = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        if !(3..=24).contains(&name.len()) || !name.as_bytes().iter().all(legal) {
            return Err(InvalidAccount::Name(name));
        }
        Self {
            name,
            keys: Vec::new(),
        }
        .with_second_key(key)
    }

    /// Returns the emulator's well-known account, which clients select with `UseDevelopmentStorage=true`.
    pub fn emulator() -> Self {
        let key = STANDARD.decode(EMULATOR_KEY).unwrap_or_default();
        let key = Key {
            base64: EMULATOR_KEY.to_owned(),
            mac: mac(&key),
        };
        Self {
            name: EMULATOR_ACCOUNT.to_owned(),
            keys: vec![key],
        }
    }

    /// Adds a second accepted key, so that keys can be changed without interruption.
    ///
    /// # Errors
    /// Fails if the key is empty or not base64.
    pub fn with_second_key(mut self, key: &str) -> Result<Self, InvalidAccount> {
        let bytes = STANDARD.decode(key).ok().filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| InvalidAccount::Key(self.name.clone()))?;
        self.keys.push(Key {
            base64: key.to_owned(),
            mac: mac(&bytes),
        });
        Ok(self)
    }

    /// Returns the account's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether one of the keys is the emulator's.
    pub(crate) fn has_public_key(&self) -> bool {
        let public = STANDARD.decode(EMULATOR_KEY).unwrap_or_default();
        let is_public = |key: &Key| STANDARD.decode(&key.base64).is_ok_and(|key| key == public);
        self.keys.iter().any(is_public)
    }

    /// Returns the settings of a connection string that contain the account name and the first key.
    pub(crate) fn credential(&self) -> String {
        let key = self.keys.first().map_or("", |key| &key.base64);
        format!("AccountName={};AccountKey={key}", self.name)
    }

    /// Whether a key of the account created this signature of a text. Takes the same time for valid and
    /// invalid signatures.
    pub(crate) fn has_signed(&self, text: &str, signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else {
            return false;
        };
        // Every key is tried, without an early end, and `verify_slice` compares in constant time: the time does not tell which key or
        // which byte differs.
        self.keys.iter().fold(false, |signed, key| {
            let mut mac = key.mac.clone();
            mac.update(text.as_bytes());
            mac.verify_slice(&signature).is_ok() | signed
        })
    }

    /// Encrypts a text, such as a key of an entity that the client may not see. Only the account can read and
    /// make sealed texts, and reads one only with the context in which it was sealed.
    pub(crate) fn seal(&self, text: &str, context: &str) -> Vec<u8> {
        let Some(key) = self.keys.first() else {
            return Vec::new();
        };
        let (seal, nonce) = (Seal::of(key), *Uuid::new_v4().as_bytes());
        let tag = seal
            .tag(&nonce, text.as_bytes(), context)
            .finalize()
            .into_bytes();
        let mut sealed = [&nonce[..], &tag[..TAG_BYTES], text.as_bytes()].concat();
        seal.mask(&nonce, &mut sealed[NONCE_BYTES + TAG_BYTES..]);
        sealed
    }

    /// Decrypts a text that [`seal`](Self::seal) has encrypted under any key of the account in this context; `None` for
    /// other bytes.
    pub(crate) fn unseal(&self, sealed: &[u8], context: &str) -> Option<String> {
        let (nonce, rest) = sealed.split_first_chunk()?;
        let (tag, hidden) = rest.split_first_chunk::<TAG_BYTES>()?;
        self.keys.iter().find_map(|key| {
            let (seal, mut text) = (Seal::of(key), hidden.to_vec());
            seal.mask(nonce, &mut text);
            seal.tag(nonce, &text, context)
                .verify_truncated_left(tag)
                .ok()?;
            String::from_utf8(text).ok()
        })
    }
}

const NONCE_BYTES: usize = 16;
const TAG_BYTES: usize = 16;

/// Encryption with HMAC-SHA256 as a stream of pseudorandom blocks and as the tag. The crate needs HMAC for
/// signatures; a cipher would be another dependency for a few bytes of each page.
struct Seal(Hmac<Sha256>);

impl Seal {
    fn of(key: &Key) -> Self {
        // A key of its own, because outputs of the account's key are signatures.
        let mut derived = key.mac.clone();
        derived.update(b"\0table-server sealed texts");
        Self(mac(&derived.finalize().into_bytes()))
    }

    fn tag(&self, nonce: &[u8; NONCE_BYTES], text: &[u8], context: &str) -> Hmac<Sha256> {
        let mut tag = self.0.clone();
        // The length, so that no other pair of context and text has the same bytes.
        let length = (context.len() as u64).to_be_bytes();
        for part in [b"t", &nonce[..], &length, context.as_bytes(), text] {
            tag.update(part);
        }
        tag
    }

    /// Encrypts or decrypts.
    fn mask(&self, nonce: &[u8; NONCE_BYTES], text: &mut [u8]) {
        for (block, count) in text.chunks_mut(32).zip(0_u64..) {
            let mut mask = self.0.clone();
            for part in [b"m", &nonce[..], &count.to_be_bytes()] {
                mask.update(part);
            }
            for (byte, mask) in block.iter_mut().zip(mask.finalize().into_bytes()) {
                *byte ^= mask;
            }
        }
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    // HMAC takes keys of every length: <https://www.rfc-editor.org/rfc/rfc2104#section-3>.
    #[expect(
        clippy::expect_used,
        reason = "the error type is shared with ciphers, which have fixed key lengths"
    )]
    Hmac::new_from_slice(key).expect("a key of any length")
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Python's `hmac` computed the signature with the key `key`.
    #[test]
    fn signatures_of_both_keys_are_accepted_and_others_refused() {
        let text = "GET\n\n\nSun, 11 Oct 2009 19:52:39 GMT\n/testaccount1/Tables";
        let signature = "0XNddghDhtfA5PA3/C6B3onQP9E/OaX+QqQCcpLyRQs=";
        let other = Account::new("testaccount1", "b3RoZXI=").unwrap();
        assert!(!other.has_signed(text, signature));
        assert!(
            other
                .with_second_key("a2V5")
                .unwrap()
                .has_signed(text, signature)
        );
        let account = Account::new("testaccount1", "a2V5").unwrap();
        assert!(account.has_signed(text, signature));
        for wrong in [
            "",
            "0XNd",
            "!",
            "AXNddghDhtfA5PA3/C6B3onQP9E/OaX+QqQCcpLyRQs=",
        ] {
            assert!(!account.has_signed(text, wrong), "{wrong}");
        }
        assert!(!account.has_signed("GET", signature));
    }

    #[test]
    fn sealed_texts_are_read_by_their_account_only() {
        let account = Account::new("account", "a2V5").unwrap();
        for text in ["", "a", "\u{1F600}", &"x".repeat(1000)] {
            let sealed = account.seal(text, "query");
            assert_eq!(account.unseal(&sealed, "query").as_deref(), Some(text));
            assert_eq!(account.unseal(&sealed, "other query"), None);
            assert_ne!(
                sealed,
                account.seal(text, "query"),
                "equal texts are not recognized"
            );
            let rotated = Account::new("account", "bmV3").unwrap();
            assert_eq!(rotated.unseal(&sealed, "query"), None);
            assert_eq!(
                rotated
                    .with_second_key("a2V5")
                    .unwrap()
                    .unseal(&sealed, "query")
                    .as_deref(),
                Some(text)
            );
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(account.unseal(&changed, "query"), None, "byte {at}");
            }
            assert_eq!(account.unseal(&sealed[..sealed.len() - 1], "query"), None);
        }
        assert!(
            !account
                .seal("the text itself", "")
                .windows(4)
                .any(|part| part == b"text")
        );
        assert_eq!(account.unseal(b"", ""), None);
    }

    #[test]
    fn names_and_keys_are_checked_without_showing_keys() {
        for name in [
            "",
            "ab",
            "Account",
            "an-account",
            "a2345678901234567890123456",
        ] {
            assert_eq!(
                Account::new(name, "a2V5").unwrap_err(),
                InvalidAccount::Name(name.to_owned())
            );
        }
        for key in ["", "no base64"] {
            let error = Account::new("account", key).unwrap_err();
            assert_eq!(error, InvalidAccount::Key("account".to_owned()));
            assert!(!error.to_string().contains("no base64"));
        }
        assert!(Account::emulator().has_public_key());
        assert!(!Account::new("account", "a2V5").unwrap().has_public_key());
    }
}
