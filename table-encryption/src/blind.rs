use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use table_core::model::{Entity, Key, ValueRef};
use table_core::store::{Error, Result};
use zeroize::Zeroizing;

use crate::KeyBytes;
use crate::v2::{encode_value, push_lp};

/// A keyed hash of a value, to find entities by an encrypted property: equality, nothing else.
///
/// The hash, the *token*, is part of the key of an index entry; whoever looks up computes it from the wanted value, reads
/// the entries, decrypts the entities and compares the value itself.
///
/// # What it reveals
/// Equal values have equal tokens: whoever sees the index sees how often each occurs and which entities share it, and with
/// knowledge of the distribution (surnames, diagnoses) guesses values. Who can also write, or watch lookups, learns more. Without
/// the index key nobody can compute tokens. Do not index a property with few values; do index one that is unique.
///
/// [`truncated`](Self::truncated) tokens collide: each then stands for many values, which hides which of them an entity has, and
/// lookups read more entities than they return. A truncated index cannot be unique: different values would refuse each other.
///
/// An index key is for one index. It cannot be rotated without building the index anew.
///
/// ```
/// use table_core::model::{Entity, ValueRef};
/// use table_encryption::{BlindIndex, KeyBytes};
/// let by_email = BlindIndex::new("email", &KeyBytes::random(32)?)?;
/// let ken = Entity::new("Sales", "empid_000223")?.with_encrypted("Email", "ken@contoso.com");
/// let token = by_email.token_of(&ken, "Email").expect("it has the property");
/// assert_eq!(token, by_email.token(ValueRef::String("ken@contoso.com")));
/// # Ok::<(), table_core::Error>(())
/// ```
#[derive(Clone)]
pub struct BlindIndex {
    name: String,
    key: Zeroizing<[u8; 32]>,
    digits: usize,
}

/// Hexadecimal digits of a whole token.
const WHOLE: usize = 64;

impl BlindIndex {
    /// An index with a key of 32 bytes of its own.
    ///
    /// # Errors
    /// Another length.
    pub fn new(name: impl Into<String>, key: &KeyBytes) -> Result<Self> {
        let name = name.into();
        let Ok(bytes) = <[u8; 32]>::try_from(key.expose()) else {
            return Err(Error::invalid_request(format!(
                "the key of the blind index '{name}' has {} bytes: it needs 32",
                key.expose().len()
            )));
        };
        Ok(Self { name, key: Zeroizing::new(bytes), digits: WHOLE })
    }

    /// The same index with tokens of so many bits: a multiple of 4, from 4 to 128. With `n` entities, about
    /// `n / 2^bits` different values share a token.
    ///
    /// # Errors
    /// Another number.
    pub fn truncated(mut self, bits: usize) -> Result<Self> {
        if !bits.is_multiple_of(4) || !(4..=128).contains(&bits) {
            return Err(Error::invalid_request(format!(
                "{bits} bits: a token has a multiple of 4, from 4 to 128"
            )));
        }
        self.digits = bits / 4;
        Ok(self)
    }

    /// Whether tokens are cut, so that different values share one.
    pub const fn is_truncated(&self) -> bool {
        self.digits < WHOLE
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The token of a value: hexadecimal digits, always as many.
    pub fn token(&self, value: ValueRef<'_>) -> String {
        let mut message = Vec::new();
        push_lp(&mut message, b"table-encryption v2 blind index");
        push_lp(&mut message, self.name.as_bytes());
        message.push(value.edm_type() as u8);
        let value = Zeroizing::new(encode_value(value));
        push_lp(&mut message, &value);
        let message = Zeroizing::new(message);
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.key).expect("any length");
        mac.update(&message);
        let bytes: [u8; 32] = mac.finalize().into_bytes().into();
        let mut token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        token.truncate(self.digits);
        token
    }

    /// The token of an entity's property, if it has it.
    pub fn token_of(&self, entity: &Entity, property: &str) -> Option<String> {
        entity.get(property).map(|value| self.token(value))
    }

    /// The key of a unique entry for a value, in `partition`: `{name}_{token}`.
    ///
    /// # Errors
    /// Tokens are truncated: two values would refuse each other.
    pub fn unique_key(&self, partition: &str, value: ValueRef<'_>) -> Result<Key> {
        if self.is_truncated() {
            return Err(Error::invalid_request(format!(
                "the blind index '{}' is truncated, so it cannot be unique: different values share a token",
                self.name
            )));
        }
        Key::new(partition, format!("{}_{}", self.name, self.token(value)))
    }

    /// What the row keys of a value's entries start with: `{name}_{token}_`. Append the entity's row key, so that entities
    /// with the same token have entries of their own.
    pub fn prefix(&self, value: ValueRef<'_>) -> String {
        format!("{}_{}_", self.name, self.token(value))
    }

    /// Whether an entity that an entry led to has the value: tokens that are equal do not prove it.
    pub fn confirms(&self, entity: &Entity, property: &str, value: ValueRef<'_>) -> bool {
        entity.get(property) == Some(value)
    }
}

impl fmt::Debug for BlindIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlindIndex")
            .field("name", &self.name)
            .field("bits", &(self.digits * 4))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn tokens_are_the_known_ones() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../tests/vectors/v2.json")).unwrap();
        let values = [
            ValueRef::String("jonesj@contoso.com"),
            ValueRef::String("jonesj@contoso.com"),
            ValueRef::Int32(-7),
        ];
        for (vector, value) in vectors["blind"].as_array().unwrap().iter().zip(values) {
            let text = |name: &str| vector[name].as_str().unwrap();
            let index = BlindIndex::new(text("index"), &hex(text("key")).into()).unwrap();
            assert_eq!(index.token(value), text("token"));
            let cut = index.truncated(12).unwrap();
            assert_eq!(cut.token(value), text("token")[..3]);
        }
    }

    #[test]
    fn a_truncated_index_is_never_unique() {
        let index = BlindIndex::new("email", &vec![1; 32].into()).unwrap();
        assert!(index.unique_key("p", ValueRef::String("a")).is_ok());
        let cut = index.truncated(16).unwrap();
        let error = cut.unique_key("p", ValueRef::String("a")).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }

    #[test]
    fn bounds_are_checked() {
        assert!(BlindIndex::new("email", &vec![1; 31].into()).is_err());
        for bits in [0, 3, 6, 132, 256] {
            assert!(BlindIndex::new("email", &vec![1; 32].into()).unwrap().truncated(bits).is_err());
        }
    }
}
