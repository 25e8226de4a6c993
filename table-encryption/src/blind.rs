use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use table_core::model::{Entity, Key, ValueRef};
use table_core::store::{Error, Result};
use zeroize::Zeroizing;

use crate::KeyBytes;
use crate::framing::push_lp;
use crate::v2::encode_value;

/// A keyed hash of a value, for finding entities by an encrypted property. It supports equality only.
///
/// The hash, the *token*, is part of the key of an index entry. A lookup computes the token of the wanted
/// value, reads the entries, decrypts the entities and compares the value itself.
///
/// # Revealed information
/// Equal values have equal tokens. A reader of the index sees how often each value occurs and which entities
/// share it, and can guess values from a known distribution (surnames, diagnoses). An attacker who can also
/// write, or watch lookups, learns more. Tokens cannot be computed without the index key. Do not index a
/// property with few different values; a unique property is a good choice.
///
/// [Truncated](Self::with_token_bits) tokens collide: each token stands for many values, which hides the exact
/// value, and lookups read more entities than they return. A truncated index cannot be unique, because
/// different values would conflict.
///
/// Use a separate key for each index. A new key requires a rebuild of the index.
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

/// Hexadecimal digits of a token that is not truncated: 256 bits of HMAC-SHA256.
const FULL_TOKEN_DIGITS: usize = 64;

impl BlindIndex {
    /// Creates an index with its own key of 32 bytes.
    ///
    /// # Errors
    /// Fails if the key has another length.
    pub fn new(name: impl Into<String>, key: &KeyBytes) -> Result<Self> {
        let name = name.into();
        let Ok(bytes) = <[u8; 32]>::try_from(key.expose()) else {
            return Err(Error::invalid_argument(format!(
                "the key of the blind index '{name}' has {} bytes; it must have 32",
                key.expose().len()
            )));
        };
        Ok(Self {
            name,
            key: Zeroizing::new(bytes),
            digits: FULL_TOKEN_DIGITS,
        })
    }

    /// Shortens tokens to this many bits: a multiple of 4, from 4 to 128. With `n` entities, about `n /
    /// 2^bits` different values share a token. More than 128 bits are refused: the values of no table share a token of that length, so
    /// the index would not hide more than a full token, and could not be unique.
    ///
    /// # Errors
    /// Fails for any other number of bits.
    pub fn with_token_bits(mut self, bits: usize) -> Result<Self> {
        if !bits.is_multiple_of(4) || !(4..=128).contains(&bits) {
            return Err(Error::invalid_argument(format!(
                "a token of {bits} bits is not possible; use a multiple of 4, from 4 to 128"
            )));
        }
        self.digits = bits / 4;
        Ok(self)
    }

    /// Whether tokens are shortened, so that different values may share a token.
    pub const fn is_truncated(&self) -> bool {
        self.digits < FULL_TOKEN_DIGITS
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the token of a value, as a fixed number of hexadecimal digits.
    pub fn token(&self, value: ValueRef<'_>) -> String {
        let value_type = value.edm_type() as u8;
        let value = Zeroizing::new(encode_value(value));
        // With room for all parts: growing would leave copies of the value in freed memory.
        let mut message = Zeroizing::new(Vec::with_capacity(64 + self.name.len() + value.len()));
        // The index's name and the value's type are part of the message: equal values of two indexes or types have unrelated tokens,
        // also if a caller uses one key twice.
        push_lp(&mut message, b"table-encryption v2 blind index");
        push_lp(&mut message, self.name.as_bytes());
        message.push(value_type);
        push_lp(&mut message, &value);
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.key).expect("any length");
        mac.update(&message);
        let bytes: [u8; 32] = mac.finalize().into_bytes().into();
        let mut token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        token.truncate(self.digits);
        token
    }

    /// Returns the token of an entity's property, if the entity has the property.
    pub fn token_of(&self, entity: &Entity, property: &str) -> Option<String> {
        entity.get(property).map(|value| self.token(value))
    }

    /// Returns the key of a unique entry for a value: RowKey `{name}_{token}` in `partition`.
    ///
    /// # Errors
    /// Fails if tokens are shortened, because two values would conflict.
    pub fn unique_key(&self, partition: &str, value: ValueRef<'_>) -> Result<Key> {
        if self.is_truncated() {
            return Err(Error::misuse(format!(
                "the blind index '{}' is truncated and cannot be unique, because different values share a token",
                self.name
            )));
        }
        Key::new(partition, format!("{}_{}", self.name, self.token(value)))
    }

    /// Returns the prefix of the RowKeys of a value's entries: `{name}_{token}_`. Append the entity's RowKey,
    /// so that entities with the same token have separate entries.
    pub fn prefix(&self, value: ValueRef<'_>) -> String {
        format!("{}_{}_", self.name, self.token(value))
    }

    /// Whether an entity found by an entry has the value. Equal tokens do not prove it.
    pub fn has_value(&self, entity: &Entity, property: &str, value: ValueRef<'_>) -> bool {
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
    fn tokens_equal_the_test_vectors() {
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
            let cut = index.with_token_bits(12).unwrap();
            assert_eq!(cut.token(value), text("token")[..3]);
        }
    }

    #[test]
    fn a_truncated_index_is_never_unique() {
        let index = BlindIndex::new("email", &vec![1; 32].into()).unwrap();
        assert!(index.unique_key("p", ValueRef::String("a")).is_ok());
        let cut = index.with_token_bits(16).unwrap();
        let error = cut.unique_key("p", ValueRef::String("a")).unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
    }

    #[test]
    fn bounds_are_checked() {
        assert!(BlindIndex::new("email", &vec![1; 31].into()).is_err());
        for bits in [0, 3, 6, 132, 256] {
            assert!(
                BlindIndex::new("email", &vec![1; 32].into())
                    .unwrap()
                    .with_token_bits(bits)
                    .is_err()
            );
        }
    }
}
