use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Key as GcmKey};
use hkdf::Hkdf;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use table_core::model::{EdmType, Key};
use zeroize::Zeroizing;

use crate::data_key::Secret;
use crate::framing::push_lp;

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
        let mut bytes = Vec::with_capacity(64 + table.len() + key.partition().len() + key.row().len());
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
    hkdf.expand(scope.as_bytes(), out).expect("at most 255 blocks of 32 bytes");
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
        Self { scope, commitment: *commitment, mac: Zeroizing::new(*mac), cipher: Aes256Gcm::new(gcm) }
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
    pub(super) fn encrypt(&self, index: usize, name: &str, edm_type: EdmType, bytes: &mut [u8]) -> [u8; 16] {
        // Name and type are part of what is authenticated, so that two properties cannot be exchanged.
        let aad = self.scope.aad(name, edm_type);
        let sealed = self.cipher.encrypt_inout_detached(&nonce(index).into(), &aad, bytes.into());
        sealed.expect("a property is far below the cipher's limit").into()
    }

    /// Decrypts in place. Returns whether the tag was valid.
    pub(super) fn decrypt(
        &self,
        index: usize,
        name: &str,
        edm_type: EdmType,
        bytes: &mut [u8],
        tag: &[u8; 16],
    ) -> bool {
        let aad = self.scope.aad(name, edm_type);
        self.cipher.decrypt_inout_detached(&nonce(index).into(), &aad, bytes.into(), tag.into()).is_ok()
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
