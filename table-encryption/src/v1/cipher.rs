use aes_kw::aes::Aes256;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use sha2::{Digest as _, Sha256};
use table_core::model::Key;
use zeroize::Zeroizing;

use super::METADATA;

/// AES-256-CBC for one entity, with an IV per property.
pub(super) struct Cbc {
    pub(super) key: Zeroizing<[u8; 32]>,
    pub(super) iv: [u8; 16],
    pub(super) java: bool,
    pub(super) entity: Key,
}

impl Cbc {
    pub(super) fn encrypt(&self, name: &str, plaintext: &[u8]) -> Vec<u8> {
        let cipher = cbc::Encryptor::<Aes256>::new((&*self.key).into(), &self.iv(name).into());
        cipher.encrypt_padded_vec::<Pkcs7>(plaintext)
    }

    pub(super) fn decrypt(&self, name: &str, ciphertext: &[u8]) -> Option<String> {
        let cipher = cbc::Decryptor::<Aes256>::new((&*self.key).into(), &self.iv(name).into());
        // The padding is the only check that the format allows, and one of 256 random blocks passes it: changed bytes can decrypt to
        // another text. The callers report every failure alike, so that no reader becomes a padding oracle.
        let plaintext = cipher.decrypt_padded_vec::<Pkcs7>(ciphertext).ok()?;
        String::from_utf8(plaintext).ok()
    }

    /// The IV of a property: the first 16 bytes of a hash of the entity's IV, its keys and the property's name.
    fn iv(&self, name: &str) -> [u8; 16] {
        let (partition, row) = (self.entity.partition(), self.entity.row());
        // Without lengths between the parts, so two entities or properties can share an IV. The format requires it.
        let keys = if self.java { [partition, row] } else { [row, partition] };
        let digest = keys.into_iter().fold(Sha256::new().chain_update(self.iv), |d, k| d.chain_update(k));
        let digest: [u8; 32] = digest.chain_update(name).finalize().into();
        *digest.first_chunk().expect("32 bytes")
    }

    /// Decrypts the names of the encrypted properties.
    pub(super) fn list(&self, ciphertext: &[u8]) -> Option<Vec<String>> {
        let text = self.decrypt(METADATA[1], ciphertext)?;
        if !self.java {
            return serde_json::from_str(&text).ok();
        }
        // Java writes `Arrays.toString` of the names instead of JSON. Property names have neither commas nor spaces.
        let names = text.strip_prefix('[')?.strip_suffix(']')?.split(", ");
        Some(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }
}
