//! Format v2, as `docs/encryption-format.md` specifies it. Pure functions: no clock, no randomness, no I/O.

#[cfg(test)]
mod tamper;
#[cfg(test)]
mod tests;

use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Key as GcmKey};
use hkdf::Hkdf;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use table_core::model::{
    ENCRYPTION_HEADERS, EdmType, EdmValue, Key, Properties, PropertyRef, Ticks, ValueRef,
};
use table_core::query::Select;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::data_key::{DataKey, Secret, Wrapping};
use crate::error::Unreadable;
use crate::framing::push_lp;

/// The property that holds the header.
pub(crate) const HEADER: &str = ENCRYPTION_HEADERS[0];

const VERSION: u8 = 2;

/// A stored header. Its claims are not verified yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) wrapping: Wrapping,
    pub(crate) salt: [u8; 32],
    pub(crate) commitment: [u8; 32],
    pub(crate) list: Vec<Listed>,
    pub(crate) mac: [u8; 32],
}

/// An encrypted property in the header's list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listed {
    pub(crate) name: Box<str>,
    pub(crate) edm_type: EdmType,
    pub(crate) tag: [u8; 16],
}

impl Header {
    /// Creates a header signed with the keys of its write. `list` must be sorted.
    fn signed(wrapping: Wrapping, salt: [u8; 32], list: Vec<Listed>, keys: &WriteKeys) -> Self {
        let mut header = Self {
            wrapping,
            salt,
            commitment: *keys.commitment(),
            list,
            mac: [0; 32],
        };
        // The MAC covers everything before it: how the data key is wrapped, the salt, the commitment, and names, types and tags. So
        // no property can be left out, and no older ciphertext can take the place of a newer one, because its tag differs.
        header.mac = keys.mac(&header.unsigned_bytes());
        header
    }

    /// Returns the header with its data key wrapped differently.
    pub(crate) fn rewrapped(self, wrapping: Wrapping, keys: &WriteKeys) -> Self {
        // The data key and the salt stay, so the keys of the write and all ciphertexts stay valid. Only the MAC is new.
        Self::signed(wrapping, self.salt, self.list, keys)
    }

    /// Parses a header; `None` if its version is unknown or it is malformed.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if (from.u8()?, from.u8()?) != (VERSION, SUITE) {
            return None;
        }
        let wrapping = read_wrapping(&mut from)?;
        let (salt, commitment, count) = (from.array()?, from.array()?, from.u16()?);
        let mut list: Vec<Listed> = Vec::new();
        for _ in 0..count {
            let listed = Listed::read(&mut from)?;
            // Strictly ascending: a name occurs once, so its index, which is its nonce, is unique. `find` relies on the order.
            if list.last().is_some_and(|last| *last.name >= *listed.name) {
                return None;
            }
            list.push(listed);
        }
        let mac = from.array()?;
        // No signature covers bytes after the MAC.
        from.0.is_empty().then_some(Self {
            wrapping,
            salt,
            commitment,
            list,
            mac,
        })
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.unsigned_bytes();
        bytes.extend_from_slice(&self.mac);
        bytes
    }

    /// Whether these keys signed the header.
    pub(crate) fn is_signed_by(&self, keys: &WriteKeys) -> bool {
        keys.verify(&self.commitment, &self.unsigned_bytes(), &self.mac)
    }

    fn unsigned_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION, SUITE];
        push_wrapping(&mut out, &self.wrapping);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.commitment);
        out.extend_from_slice(&(self.list.len() as u16).to_be_bytes());
        for listed in &self.list {
            push_u16(&mut out, listed.name.as_bytes());
            out.push(listed.edm_type as u8);
            out.extend_from_slice(&listed.tag);
        }
        out
    }

    /// Returns the position of a property in the list.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.list
            .binary_search_by(|listed| (*listed.name).cmp(name))
            .ok()
    }
}

impl Listed {
    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let len = from.u16()?;
        let name = from.text(usize::from(len))?.into();
        let edm_type = usize::from(from.u8()?);
        Some(Self {
            name,
            edm_type: *EdmType::ALL.get(edm_type)?,
            tag: from.array()?,
        })
    }
}

/// AES-256-GCM, HKDF-SHA-256, HMAC-SHA-256.
pub(crate) const SUITE: u8 = 1;

/// The context of a write's keys: format, suite, table, PartitionKey, RowKey.
#[derive(Clone, Debug)]
pub(crate) struct Scope(Vec<u8>);

impl Scope {
    /// Returns the scope of an entity. `table` must be in lower case if the service ignores the case of
    /// names.
    pub(crate) fn of_entity(table: &str, key: &Key) -> Self {
        Self::new("table-encryption v2", table, key)
    }

    /// Returns the scope of a blob with chunks of `chunk` bytes.
    pub(crate) fn of_blob(table: &str, key: &Key, name: &str, chunk: u32) -> Self {
        let Self(mut bytes) = Self::new("table-encryption v2 blob", table, key);
        push_lp(&mut bytes, name.as_bytes());
        // The size of a chunk comes from the blob. Here it is bound to the keys, so another size opens nothing.
        bytes.extend_from_slice(&chunk.to_be_bytes());
        Self(bytes)
    }

    fn new(format: &str, table: &str, key: &Key) -> Self {
        // The format's name keeps entities and blobs apart, and the suite is part of the derivation: bytes that claim another suite
        // get other keys, so an attacker cannot choose a weaker cipher.
        let mut bytes =
            Vec::with_capacity(64 + table.len() + key.partition().len() + key.row().len());
        push_lp(&mut bytes, format.as_bytes());
        bytes.push(SUITE);
        // Each part with its length: without it, ("ab", "c") and ("a", "bc") would have one scope, and the properties of one entity
        // could be moved to the other.
        for part in [table, key.partition(), key.row()] {
            push_lp(&mut bytes, part.as_bytes());
        }
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the associated data of a property.
    fn aad(&self, name: &str, edm_type: EdmType) -> Vec<u8> {
        let mut aad = Vec::with_capacity(self.0.len() + name.len() + 5);
        aad.extend_from_slice(&self.0);
        push_lp(&mut aad, name.as_bytes());
        aad.push(edm_type as u8);
        aad
    }
}

/// Derives `out` from the data key. Different salts and scopes give independent bytes.
pub(crate) fn expand(secret: &Secret, salt: &[u8; 32], scope: &Scope, out: &mut [u8]) {
    let hkdf = Hkdf::<Sha256>::new(Some(salt), secret.expose());
    hkdf.expand(scope.as_bytes(), out)
        .expect("at most 255 blocks of 32 bytes");
}

/// The keys of one write.
pub(crate) struct WriteKeys {
    scope: Scope,
    commitment: [u8; 32],
    mac: Zeroizing<[u8; 32]>,
    cipher: Aes256Gcm,
}

impl WriteKeys {
    pub(crate) fn derive(secret: &Secret, salt: &[u8; 32], scope: Scope) -> Self {
        // One output for three keys. The commitment is the part that is published: AES-GCM alone does not bind a ciphertext to one
        // key (<https://www.rfc-editor.org/rfc/rfc9771>).
        let mut okm = Zeroizing::new([0; 96]);
        expand(secret, salt, &scope, &mut *okm);
        let (commitment, rest) = okm.split_first_chunk().expect("96 bytes");
        let (mac, gcm) = rest.split_first_chunk().expect("64 bytes");
        let gcm: &GcmKey<Aes256Gcm> = gcm.try_into().expect("32 bytes");
        Self {
            scope,
            commitment: *commitment,
            mac: Zeroizing::new(*mac),
            cipher: Aes256Gcm::new(gcm),
        }
    }

    pub(crate) const fn commitment(&self) -> &[u8; 32] {
        &self.commitment
    }

    /// Whether these keys created the header. Checks the commitment first.
    pub(crate) fn verify(&self, commitment: &[u8; 32], signed: &[u8], mac: &[u8; 32]) -> bool {
        // Each comparison takes the same time for every difference, so an attacker cannot find a valid MAC byte by byte. The order is
        // safe to see: the commitment is public.
        matches(&self.commitment, commitment) && matches(&self.mac(signed), mac)
    }

    pub(crate) fn mac(&self, signed: &[u8]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.mac).expect("any length");
        mac.update(signed);
        mac.finalize().into_bytes().into()
    }

    /// Encrypts in place the property at `index` of the sorted list.
    fn encrypt(&self, index: usize, name: &str, edm_type: EdmType, bytes: &mut [u8]) -> [u8; 16] {
        // Name and type are part of what is authenticated, so that two properties cannot be exchanged.
        let aad = self.scope.aad(name, edm_type);
        let sealed = self
            .cipher
            .encrypt_inout_detached(&nonce(index).into(), &aad, bytes.into());
        sealed
            .expect("a property is far below the cipher's limit")
            .into()
    }

    /// Decrypts in place. Returns whether the tag was valid.
    fn decrypt(
        &self,
        index: usize,
        name: &str,
        edm_type: EdmType,
        bytes: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        let aad = self.scope.aad(name, edm_type);
        self.cipher
            .decrypt_inout_detached(&nonce(index).into(), &aad, bytes.into(), tag.into())
            .is_ok()
    }
}

/// Returns the index as a nonce. Names in the list are distinct and the key serves one write, so no nonce
/// repeats.
fn nonce(index: usize) -> [u8; 12] {
    // A nonce that repeats under a key gives away the authentication key of GCM (NIST SP 800-38D, appendix A). No nonce is stored
    // or random: the key is derived from a fresh salt of 256 bits, so (key, index) never repeats.
    let mut nonce = [0; 12];
    nonce[8..].copy_from_slice(&(index as u32).to_be_bytes());
    nonce
}

/// Compares in constant time.
pub(crate) fn matches(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.ct_eq(b).into()
}

// Length-prefixed encoding.

/// Appends the length of `bytes` as a `u16`, then `bytes`.
fn push_u16(out: &mut Vec<u8>, bytes: &[u8]) {
    // A name has at most 255 UTF-16 units, 765 bytes; `Wrapping` bounds the others.
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends algorithm, key id and wrapped key. Their lengths were checked when the wrapping was created.
pub(crate) fn push_wrapping(out: &mut Vec<u8>, wrapping: &Wrapping) {
    out.push(wrapping.algorithm.len() as u8);
    out.extend_from_slice(wrapping.algorithm.as_bytes());
    push_u16(out, wrapping.key_id.as_bytes());
    push_u16(out, &wrapping.wrapped);
}

pub(crate) fn read_wrapping(from: &mut Reader<'_>) -> Option<Wrapping> {
    let len = from.u8()?;
    let algorithm = from.text(usize::from(len)).filter(|a| !a.is_empty())?;
    let key_id = from.u16()?;
    let key_id = from.text(usize::from(key_id))?;
    let len = from.u16()?;
    let wrapped = from.take(usize::from(len))?;
    Some(Wrapping {
        algorithm: algorithm.into(),
        key_id: key_id.into(),
        wrapped: wrapped.into(),
    })
}

/// Reads bytes from the front; every read checks the length.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn text(&mut self, len: usize) -> Option<&'a str> {
        std::str::from_utf8(self.take(len)?).ok()
    }
}

// The plaintext encoding of values. Each value has one encoding; others are refused.

pub(crate) fn encode_value(value: ValueRef<'_>) -> Vec<u8> {
    match value {
        ValueRef::Binary(v) => v.to_vec(),
        ValueRef::Boolean(v) => vec![u8::from(v)],
        ValueRef::DateTime(v) => v.get().to_be_bytes().to_vec(),
        ValueRef::Double(v) => v.to_bits().to_be_bytes().to_vec(),
        ValueRef::Guid(v) => v.as_bytes().to_vec(),
        ValueRef::Int32(v) => v.to_be_bytes().to_vec(),
        ValueRef::Int64(v) => v.to_be_bytes().to_vec(),
        ValueRef::String(v) => v.as_bytes().to_vec(),
    }
}

fn decode(edm_type: EdmType, bytes: Vec<u8>) -> Option<EdmValue> {
    let number = |bytes: Vec<u8>| bytes.try_into().ok().map(i64::from_be_bytes);
    Some(match edm_type {
        EdmType::Binary => EdmValue::Binary(bytes),
        EdmType::Boolean => match *bytes {
            [0] => EdmValue::Boolean(false),
            [1] => EdmValue::Boolean(true),
            _ => return None,
        },
        EdmType::DateTime => EdmValue::DateTime(Ticks::new(number(bytes)?)?),
        EdmType::Double => EdmValue::Double(f64::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Guid => EdmValue::Guid(Uuid::from_bytes(bytes.try_into().ok()?)),
        EdmType::Int32 => EdmValue::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
        EdmType::Int64 => EdmValue::Int64(number(bytes)?),
        EdmType::String => EdmValue::String(String::from_utf8(bytes).ok()?),
    })
}

/// Encrypts the marked properties and adds the header. The salt must not have been used before.
pub(crate) fn seal(
    properties: &Properties,
    scope: Scope,
    key: &DataKey,
    salt: [u8; 32],
) -> Properties {
    let keys = WriteKeys::derive(&key.secret, &salt, scope);
    let mut marked: Vec<PropertyRef<'_>> = properties
        .iter()
        .filter(PropertyRef::is_encrypted)
        .collect();
    // The position in this order is the nonce of a property, and `Header::parse` accepts no other order.
    marked.sort_unstable_by_key(PropertyRef::name);
    let (list, ciphertexts): (Vec<Listed>, Vec<Vec<u8>>) = marked
        .iter()
        .enumerate()
        .map(|(index, property)| encrypt(&keys, index, property))
        .unzip();
    let header = Header::signed(key.wrapping.clone(), salt, list, &keys);
    assemble(properties, &header, &ciphertexts)
}

fn encrypt(keys: &WriteKeys, index: usize, property: &PropertyRef<'_>) -> (Listed, Vec<u8>) {
    let (name, edm_type) = (property.name(), property.value().edm_type());
    let mut bytes = encode_value(property.value());
    let tag = keys.encrypt(index, name, edm_type, &mut bytes);
    (
        Listed {
            name: name.into(),
            edm_type,
            tag,
        },
        bytes,
    )
}

/// Assembles the properties in their order, with the header last.
fn assemble(properties: &Properties, header: &Header, ciphertexts: &[Vec<u8>]) -> Properties {
    let header_bytes = header.to_bytes();
    let mut out = Properties::with_capacity(properties.as_packed().len() + header_bytes.len() + 64);
    for property in properties {
        let encrypted = property
            .is_encrypted()
            .then(|| header.find(property.name()))
            .flatten();
        match encrypted {
            Some(index) => out.push(
                property.name(),
                ValueRef::Binary(&ciphertexts[index]),
                false,
            ),
            None => out.push(property.name(), property.value(), false),
        }
    }
    out.push(HEADER, ValueRef::Binary(&header_bytes), false);
    out
}

/// Verifies the header and decrypts the properties in its list: all, or the properties of a projection. The result has
/// the properties marked and no header.
pub(crate) fn open(
    properties: &Properties,
    header: &Header,
    scope: Scope,
    secret: &Secret,
    select: Option<&Select>,
) -> Result<Properties, Unreadable> {
    let keys = WriteKeys::derive(secret, &header.salt, scope);
    // Before any property: until then, names, types and tags are only claims of the row's last writer.
    if !header.is_signed_by(&keys) {
        return Err(Unreadable::Refused);
    }
    decrypt(properties, header, &keys, select).ok_or(Unreadable::Refused)
}

fn decrypt(
    properties: &Properties,
    header: &Header,
    keys: &WriteKeys,
    select: Option<&Select>,
) -> Option<Properties> {
    let mut missing: Vec<bool> = header
        .list
        .iter()
        .map(|listed| select.is_none_or(|s| s.contains(&listed.name)))
        .collect();
    let mut out = Properties::with_capacity(properties.as_packed().len());
    for property in properties.iter().filter(|p| p.name() != HEADER) {
        match header.find(property.name()) {
            None => out.push(property.name(), property.value(), property.is_encrypted()),
            Some(index) => {
                // A store that returns a property twice, or one that was not requested, is refused too.
                if !std::mem::take(&mut missing[index]) {
                    return None;
                }
                let value = decrypt_one(keys, index, &header.list[index], property.value())?;
                out.push(property.name(), value.as_ref(), true);
            }
        }
    }
    // A listed property that the store did not return was removed by a writer without the key.
    (!missing.contains(&true)).then_some(out)
}

fn decrypt_one(
    keys: &WriteKeys,
    index: usize,
    listed: &Listed,
    stored: ValueRef<'_>,
) -> Option<EdmValue> {
    // A plaintext value in the place of the ciphertext is refused here by its type; a Binary value is refused by the tag.
    let ValueRef::Binary(ciphertext) = stored else {
        return None;
    };
    let mut bytes = ciphertext.to_vec();
    let is_authentic = keys.decrypt(
        index,
        &listed.name,
        listed.edm_type,
        &mut bytes,
        &listed.tag,
    );
    if is_authentic {
        decode(listed.edm_type, bytes)
    } else {
        None
    }
}
